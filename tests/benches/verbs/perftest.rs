//! perftest's programs as peers: servers and clients over this machine's device.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use umbra::verbs::Port;

/// No run takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where perftest's programs run.
pub(crate) struct Perftest {
    /// Options of both sides: device and address.
    options: Vec<String>,
}

/// Ends a program that is still there.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // It has ended by itself, or shall.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Perftest {
    /// On a port; none if it is not installed.
    pub(crate) fn find(port: &Port) -> Option<Perftest> {
        let version = Command::new("ib_read_lat").arg("--version").stdin(Stdio::null()).output().ok()?;
        let options = ["-d", port.device.name(), "-x", &port.gid.index.to_string(), "-F"].map(str::to_owned).into();
        (version.status.success() || !version.stdout.is_empty()).then_some(Perftest { options })
    }

    /// The median latency of so many reads, in microseconds.
    pub(crate) fn latency(&self, bytes: usize, reads: usize) -> f64 {
        // #bytes #iterations t_min t_max t_typical ...
        self.run("ib_read_lat", bytes, reads, 4)
    }

    /// Mebibytes a second of so many reads.
    pub(crate) fn bandwidth(&self, bytes: usize, reads: usize) -> f64 {
        // #bytes #iterations BW peak BW average ...
        self.run("ib_read_bw", bytes, reads, 3)
    }

    /// Runs a server and a client, and gives a column of the client's row.
    fn run(&self, program: &str, bytes: usize, reads: usize, column: usize) -> f64 {
        let command = || {
            let mut command = Command::new(program);
            command.args(&self.options).args(["-s", &bytes.to_string(), "-n", &reads.to_string()]);
            command.stdin(Stdio::null()).stderr(Stdio::null());
            command
        };
        let begun = Instant::now();
        let server = command().stdout(Stdio::null()).spawn().expect("perftest starts");
        let server = Reaped(server);
        loop {
            // It fails at once as long as the server does not listen.
            let client = command().arg("localhost").output().expect("perftest starts");
            let printed = String::from_utf8_lossy(&client.stdout);
            if client.status.success() {
                drop(server);
                return row(&printed, bytes, column).unwrap_or_else(|| panic!("{program} printed no row: {printed}"));
            }
            assert!(begun.elapsed() < PATIENCE, "{program} does not run: {printed}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A column of the row that begins with the number of bytes.
fn row(printed: &str, bytes: usize, column: usize) -> Option<f64> {
    let rows = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.into_iter().find(|row| row.first().is_some_and(|first| first.parse() == Ok(bytes)))?;
    row.get(column)?.parse().ok()
}

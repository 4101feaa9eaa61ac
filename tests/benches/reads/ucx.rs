//! UCX as a peer, where it is installed.
//!
//! The programs are those of a folder beside this project, and are built here.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Median nanoseconds of UCX's get, by (how, state, bytes).
type Figures = HashMap<(&'static str, String, usize), f64>;

/// What UCX does on this machine, as far as it answered.
pub(crate) struct Ucx {
    figures: Figures,
    /// "UCX 1.13".
    name: String,
    /// Why figures are missing.
    failure: Option<String>,
}

/// How UCX gets: name here, what is exported, which transports.
const WAYS: [(&str, &str, &str); 2] = [("mapped", "ucp", "posix,self"), ("served", "heap", "posix,self")];

/// How long one way may take; on two cores of its own it takes a second. Both its processes spin, so beside
/// other work it may take very long.
const LONGEST: Duration = Duration::from_secs(20);

impl Ucx {
    /// Builds and runs the peer's program; says why not where it cannot.
    pub(crate) fn measure() -> Ucx {
        let mut ucx = Ucx { figures: HashMap::new(), name: "UCX".to_owned(), failure: None };
        ucx.failure = ucx.run().err();
        ucx
    }

    /// The name of a peer: which UCX, doing what.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{} {what}", self.name)
    }

    pub(crate) fn get(&self, way: &'static str, state: &str, bytes: usize) -> Result<f64, String> {
        let figure = self.figures.get(&(way, state.to_owned(), bytes)).copied();
        figure.ok_or_else(|| self.failure.clone().unwrap_or_else(|| "no figure for this size".to_owned()))
    }

    fn run(&mut self) -> Result<(), String> {
        let source = source().ok_or("the peer's program is not beside this project")?;
        self.name = version().ok_or("UCX is not installed, or gcc is not")?;
        let program = std::env::temp_dir().join(format!("umbra-bench-ucx-{}", std::process::id()));
        let rows = program.with_extension("csv");
        let built = Command::new("gcc")
            .args(["-O2", "-march=native", "-o"])
            .arg(&program)
            .arg(&source)
            .args(["-lucp", "-lucs"])
            .status();
        let outcome = match built {
            Ok(status) if status.success() => {
                WAYS.into_iter().map(|way| self.run_way(way, &program, &rows)).fold(Ok(()), Result::and)
            }
            _ => Err("gcc does not build the peer's program".to_owned()),
        };
        for file in [&program, &rows] {
            // A file that cannot be removed is left in the folder for temporary files.
            let _ = std::fs::remove_file(file);
        }
        outcome
    }

    fn run_way(
        &mut self,
        (way, kind, transports): (&'static str, &str, &str),
        program: &Path,
        rows: &Path,
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("its program cannot be run: {error}");
        let mut command = Command::new(program);
        // A file, because whoever reads a pipe waits until all of its writers have ended.
        command.args([kind, "0", "1"]).env("UCX_TLS", transports).stdin(Stdio::null());
        let mut child = command.stdout(File::create(rows).map_err(failed)?).spawn().map_err(failed)?;
        let start = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break if status.success() { Ok(()) } else { Err(format!("its program failed: {status}")) };
            }
            if start.elapsed() > LONGEST {
                // Its second process ends with it. One that has ended just now needs no end.
                let _ = child.kill();
                let _ = child.wait();
                break Err(format!("its program did not answer within {} s; is the machine busy?", LONGEST.as_secs()));
            }
            thread::sleep(Duration::from_millis(10));
        };
        for line in std::fs::read_to_string(rows).map_err(failed)?.lines() {
            let fields: Vec<&str> = line.split(',').collect();
            if let [_, state, bytes, _, _, _, median, _] = fields[..]
                && let (Ok(bytes), Ok(median)) = (bytes.parse(), median.parse())
            {
                self.figures.insert((way, state.to_owned(), bytes), median);
            }
        }
        ended
    }
}

fn source() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/peers/reads/ucx_get.c");
    let beside = std::env::var_os("UMBRA_UCX_PEER").map_or(beside, PathBuf::from);
    beside.is_file().then_some(beside)
}

/// Which UCX is installed, as its header says.
fn version() -> Option<String> {
    let mut command = Command::new("gcc");
    command.args(["-E", "-dM", "-include", "ucp/api/ucp_version.h", "-x", "c", "/dev/null"]);
    let output = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    let macros = String::from_utf8(output.stdout).ok()?;
    let number = |name: &str| {
        let value = macros.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name))?;
        value.trim().parse::<u32>().ok()
    };
    Some(format!("UCX {}.{}", number("UCP_API_MAJOR ")?, number("UCP_API_MINOR ")?))
}

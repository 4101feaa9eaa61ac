//! `umbra doctor` beside real agents, one of which was never started (s38, s40).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use umbra::secret::Secret;

/// Builds the two executables into the directory that holds this test, and names it.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().and_then(Path::parent).unwrap().to_owned();
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile, "-p", "umbra", "-p", "umbra-dpu", "--bins", "--target-dir"])
        .arg(directory.parent().unwrap())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status()
        .unwrap();
    assert!(status.success());
    directory
}

/// A directory with the files of a job, and the agents that were started.
struct Job {
    directory: PathBuf,
    agents: Vec<Child>,
}

impl Drop for Job {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Job {
    fn new() -> Job {
        let directory = std::env::temp_dir().join(format!("umbra-t-doctor-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        // Held until all are chosen, so that no port is chosen twice.
        let ports: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| ports[at].local_addr().unwrap().port();
        let lines =
            [0, 1].map(|host| format!("node{host},dpu{host}:127.0.0.1:{}:{}\n", port(2 * host), port(2 * host + 1)));
        fs::write(directory.join("job.cfg"), format!("# Format version: 1\n{}", lines.concat())).unwrap();
        Secret::random().unwrap().create(&directory.join("secret")).unwrap();
        Job { directory, agents: Vec::new() }
    }

    fn start(&mut self, executables: &Path, sp: u32) {
        let mut agent = Command::new(executables.join("umbra-agent"))
            .arg("--config")
            .arg(self.directory.join("job.cfg"))
            .arg("--secret-file")
            .arg(self.directory.join("secret"))
            .args(["--service-process", &sp.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(agent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.agents.push(agent);
        assert!(line.contains("ready"), "agent {sp} said {line:?} instead of being ready");
    }

    /// Exit code and words of the doctor.
    fn doctor(&self, executables: &Path) -> (Option<i32>, String) {
        let output = Command::new(executables.join("umbra"))
            .args(["doctor", "--timeout", "1s", "--config"])
            .arg(self.directory.join("job.cfg"))
            .arg("--secret")
            .arg(self.directory.join("secret"))
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn s40_the_doctor_names_a_service_process_that_was_not_started_and_who_misses_it() {
    let executables = built();
    let mut job = Job::new();
    job.start(&executables, 0);
    let (code, said) = job.doctor(&executables);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("service process 1 at 127.0.0.1:"), "the one that is missing is named:\n{said}");
    assert!(said.contains("service process 0: no link to service process 1"), "and so is who misses it:\n{said}");

    job.start(&executables, 1);
    // The two find each other when the first one dials again.
    let mut answers = (0..600).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        job.doctor(&executables)
    });
    let found = answers.find(|(_, said)| !said.contains("no link to"));
    let (code, said) = found.expect("the agents never found each other");
    assert_eq!(code, Some(1), "no rank has come:\n{said}");
    assert_eq!(said.matches("no rank has come yet").count(), 2, "{said}");
}

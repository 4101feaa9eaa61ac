//! The C interface in a real job: agents as processes, ranks written in C and in Rust side by side.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::secret::Secret;

const HOSTS: u32 = 2;
const RANKS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(120);

/// `target/debug` or whatever cargo built this test into.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Builds what a test of this package cannot depend on: executables and the shared library.
fn cargo_build(what: &[&str]) {
    let directory = built();
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile, "--target-dir"])
        .arg(directory.parent().unwrap())
        .args(what)
        .current_dir(root())
        .status()
        .unwrap();
    assert!(status.success(), "cargo build {what:?}");
}

/// The compiled example, or why there is none.
fn compile(directory: &Path, flags: &[&str]) -> Result<PathBuf, String> {
    let (program, library) = (directory.join("rank"), built());
    let output = Command::new("cc")
        .args(["-std=c99", "-g", "-Wall", "-Wextra", "-pedantic", "-Werror"])
        .args(flags)
        .arg("-I")
        .arg(root().join("ffi/include"))
        .arg(root().join("ffi/examples/rank.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .args(["-lumbra_ffi", &format!("-Wl,-rpath,{}", library.display())])
        .output()
        .map_err(|e| format!("no C compiler: {e}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.is_empty(), "the example does not compile cleanly:\n{message}");
    Ok(program)
}

/// Agents of a job, in a private directory; ended on drop.
struct Job {
    directory: PathBuf,
    agents: Vec<Child>,
}

impl Job {
    fn start(name: &str) -> Job {
        cargo_build(&["-p", "umbra-dpu", "--bin", "umbra-agent"]);
        cargo_build(&["-p", "umbra-ffi"]);
        let directory = std::env::temp_dir().join(format!("umbra-c-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let mut config = String::from("# Format version: 1\n");
        // Held until all are chosen, so that no port is chosen twice.
        let ports: Vec<TcpListener> = (0..2 * HOSTS).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        for (host, pair) in ports.chunks(2).enumerate() {
            let [services, ranks] = [0, 1].map(|i| pair[i].local_addr().unwrap().port());
            config += &format!("node{host},dpu{host}:127.0.0.1:{services}:{ranks}\n");
        }
        fs::write(directory.join("job.cfg"), config).unwrap();
        Secret::random().unwrap().create(&directory.join("secret")).unwrap();
        drop(ports);
        let mut job = Job { directory, agents: Vec::new() };
        for sp in 0..HOSTS {
            let mut agent = Command::new(built().join("umbra-agent"))
                .arg("--config")
                .arg(job.directory.join("job.cfg"))
                .arg("--secret-file")
                .arg(job.directory.join("secret"))
                .arg("--sockets")
                .arg(&job.directory)
                .args(["--service-process", &sp.to_string(), "--deadline-ms", "60000"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(agent.stdout.take().unwrap()).read_line(&mut line).unwrap();
            job.agents.push(agent);
            assert!(line.contains("ready"), "agent {sp} said {line:?} instead of being ready");
        }
        job
    }

    /// Runs one rank of each of these programs and returns what they said.
    fn run(&self, programs: &[Vec<OsString>]) -> Vec<Output> {
        let ranks: Vec<Child> = programs
            .iter()
            .enumerate()
            .map(|(rank, program)| {
                let (first, rest) = program.split_first().unwrap();
                Command::new(first)
                    .args(rest)
                    .arg(self.directory.join("job.cfg"))
                    .arg(self.directory.join("secret"))
                    .arg(&self.directory)
                    .args([rank.to_string(), RANKS.to_string(), HOSTS.to_string()])
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let deadline = Instant::now() + PATIENCE;
        ranks.into_iter().map(|rank| finish(rank, deadline)).collect()
    }

    /// Ends the agents as a user would; nothing of the job may be left.
    fn end(mut self) {
        for agent in &mut self.agents {
            let pid = Pid::from_child(agent);
            kill_process(pid, Signal::TERM).unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        for agent in std::mem::take(&mut self.agents) {
            let output = finish(agent, deadline);
            assert!(output.status.success(), "an agent ended with {:?}", output.status);
        }
        let left = fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<OsString> = left.collect();
        left.sort();
        assert_eq!(left, ["job.cfg", "secret"], "what a job leaves in its directory");
    }
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

/// Waits for a process; one that does not end is killed and fails the test.
fn finish(mut child: Child, deadline: Instant) -> Output {
    loop {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("a process did not end: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A rank that fails leaves the others waiting, so what all of them said is told.
fn all_is_right(outputs: &[Output]) {
    let failed = outputs.iter().enumerate().filter(|(_, output)| !output.status.success());
    let stories: Vec<String> = failed
        .map(|(rank, output)| {
            format!("rank {rank} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr))
        })
        .collect();
    assert!(stories.is_empty(), "{}", stories.join("\n"));
}

#[test]
fn a_job_of_c_ranks_does_all_that_the_header_promises() {
    let job = Job::start("plain");
    let program = match compile(&job.directory, &[]) {
        Ok(program) => program,
        Err(why) => return println!("skipped: {why}"),
    };
    let outputs = job.run(&vec![vec![program.clone().into_os_string()]; (HOSTS * RANKS) as usize]);
    all_is_right(&outputs);
    for (rank, output) in outputs.iter().enumerate() {
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("rank {rank}: all is right\n"));
    }
    fs::remove_file(program).unwrap();
    job.end();
}

#[test]
fn ranks_in_c_and_in_rust_form_one_job() {
    cargo_build(&["-p", "umbra", "--example", "rank"]);
    let job = Job::start("mixed");
    let c = match compile(&job.directory, &[]) {
        Ok(program) => program,
        Err(why) => return println!("skipped: {why}"),
    };
    let rust = built().join("examples/rank").into_os_string();
    let c_program = vec![c.clone().into_os_string()];
    all_is_right(&job.run(&[c_program.clone(), vec![rust.clone()], vec![rust], c_program]));
    fs::remove_file(c).unwrap();
    job.end();
}

#[test]
fn valgrind_finds_nothing_wrong_in_a_c_rank() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return println!("skipped: no valgrind on this machine");
    }
    let job = Job::start("valgrind");
    let program = match compile(&job.directory, &[]) {
        Ok(program) => program.into_os_string(),
        Err(why) => return println!("skipped: {why}"),
    };
    let mut watched: Vec<OsString> =
        ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"].map(Into::into).into();
    watched.extend(["--errors-for-leak-kinds=definite".into(), program.clone()]);
    let mut programs = vec![vec![program.clone()]; (HOSTS * RANKS) as usize];
    programs[1] = watched;
    all_is_right(&job.run(&programs));
    fs::remove_file(program).unwrap();
    job.end();
}

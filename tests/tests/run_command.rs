//! `umbra run` where signals, variables and outputs are not as usual.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use umbra_tests::rig::{self, Guarded, Scratch};

/// How long a run may take to end that is asked to.
const MOMENT: Duration = Duration::from_secs(20);

/// A small job whose directory lies in `temporary`, started by a shell after `before`.
fn run(temporary: &Scratch, before: &str, arguments: &[&str]) -> Command {
    let (umbra, agent) = rig::programs();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before} exec \"$@\"")).arg("sh").arg(umbra).arg("run");
    command.args(["--hosts", "1", "--service-processes", "1", "--ranks", "1"]).args(arguments).arg("--input");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).arg("--agent").arg(agent);
    command.env("TMPDIR", temporary.path()).stdin(Stdio::null());
    command
}

/// A job that goes on for long.
const LONG: [&str; 4] = ["--reads", "100000000", "--size", "8"];

/// A run that does not outlive its test.
struct Running(Guarded);

impl Running {
    fn ended(&mut self) -> Option<i32> {
        let end = Instant::now() + MOMENT;
        while Instant::now() < end {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// The processes of the job.
    fn children(&self) -> Vec<u32> {
        let pid = self.0.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().map(|child| child.parse().unwrap()).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), signal).unwrap();
    }
}

/// Waits until a job has its secret, and thus listens for signals.
fn filled(temporary: &Scratch) {
    let end = Instant::now() + MOMENT;
    while !temporary.left().iter().any(|job| job.join("secret").exists()) {
        assert!(Instant::now() < end, "the job does not begin");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_ends_a_run_whose_errors_nobody_takes() {
    for before in ["exec 2>/dev/full;", "exec 2>&-;"] {
        let temporary = Scratch::new("run-full");
        let child = run(&temporary, before, &LONG).arg("--quiet").stdout(Stdio::null()).spawn().unwrap();
        let mut running = Running(child.into());
        filled(&temporary);
        running.signal(Signal::TERM);
        assert_eq!(running.ended(), Some(143), "{before}");
        assert_eq!(temporary.left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_signal_ends_a_run_whose_errors_find_no_room() {
    let temporary = Scratch::new("run-blocked");
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let child = run(&temporary, "", &LONG).arg("--quiet").stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    let mut running = Running(child.into());
    filled(&temporary);
    running.signal(Signal::TERM);
    assert_eq!(running.ended(), Some(143));
    drop(reader);
}

#[test]
fn a_run_whose_progress_nobody_takes_ends_well() {
    let temporary = Scratch::new("run-progress");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = run(&temporary, "", &["--json"]).stderr(full).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with('{') && said.ends_with("}\n"), "{said}");
}

#[test]
fn signals_that_a_run_was_started_to_ignore_do_not_end_it() {
    let temporary = Scratch::new("run-nohup");
    let mut run = run(&temporary, "trap '' HUP INT;", &["--reads", "200000", "--size", "8"]);
    let mut running = Running(run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap().into());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("random"))), "no random reads");
    running.signal(Signal::HUP);
    running.signal(Signal::INT);
    // So does whoever interrupts all processes of the job.
    for child in running.children() {
        let _ = kill_process(Pid::from_raw(child.cast_signed()).unwrap(), Signal::INT);
    }
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(running.ended(), Some(0), "{rest:?}");
}

#[test]
fn a_run_whose_starter_ignores_its_children_hears_of_its_own() {
    let temporary = Scratch::new("run-children");
    let ignoring = || {
        let mut command = Command::new("env");
        command.arg("--ignore-signal=CHLD").stdin(Stdio::null());
        command
    };
    if !ignoring().arg("true").output().is_ok_and(|output| output.status.success()) {
        return rig::skip("no env that ignores signals");
    }
    let run = run(&temporary, "", &["--quiet", "--timeout", "5s"]);
    let output =
        ignoring().arg(run.get_program()).args(run.get_args()).env("TMPDIR", temporary.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_report_replaces_what_bore_its_name_and_may_be_the_standard_output() {
    let temporary = Scratch::new("run-report");
    let [report, kept] = ["run.html", "kept"].map(|name| temporary.path().join(name));
    fs::write(&report, "old").unwrap();
    fs::hard_link(&report, &kept).unwrap();
    let output = run(&temporary, "", &["--report", report.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(&kept).unwrap(), "old");
    assert!(fs::read_to_string(&report).unwrap().contains("</html>"));
    assert_eq!(temporary.left(), [kept, report]);
    let output = run(&temporary, "", &["--quiet", "--report", "/dev/stdout"]).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.to_lowercase().starts_with("<!doctype") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("agree with the file"));
}

#[test]
fn what_the_environment_says_of_another_job_is_none_of_a_run() {
    let temporary = Scratch::new("run-environment");
    let mut run = run(&temporary, "", &["--quiet"]);
    let other = [
        ("DPU_OFFLOAD_SERVICE_PROCESSES_PER_DPU", "8"),
        ("DPU_OFFLOAD_LIST_DPUS", "bf1,,bf2"),
        ("UMBRA_SERVICE_PROCESS", "7"),
        ("UMBRA_CONFIG", "/nowhere/platform.cfg"),
        ("UMBRA_SECRET_FILE", "/nowhere/secret"),
        ("MIMOSA_PERSISTENT_CACHE", "maybe"),
    ];
    let output = run.envs(other).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_input_whose_name_is_no_text_is_read() {
    let temporary = Scratch::new("run-name");
    let input = temporary.path().join(OsStr::from_bytes(b"in\xffput"));
    fs::write(&input, "some bytes").unwrap();
    let (umbra, agent) = rig::programs();
    let mut command = Command::new(umbra);
    command.args(["run", "--quiet", "--ranks", "1", "--input"]).arg(&input).arg("--agent").arg(agent);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Ctrl-C: the terminal interrupts the process group in the foreground.
#[test]
fn an_interrupt_of_its_process_group_ends_a_run_and_blames_no_process() {
    let temporary = Scratch::new("run-interrupt");
    // A shell may have started these tests to ignore it.
    let mut run = run(&temporary, "set -- env --default-signal=INT \"$@\";", &LONG);
    let mut running =
        Running(run.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap().into());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("random"))), "no random reads");
    let group = Pid::from_raw(running.0.id().cast_signed()).unwrap();
    let children = running.children();
    assert_eq!(children.len(), 2);
    for &child in &children {
        assert_ne!(getpgid(Pid::from_raw(child.cast_signed())).unwrap(), group, "process {child} is interrupted, too");
    }
    kill_process_group(group, Signal::INT).unwrap();
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(running.ended(), Some(130), "{rest:?}");
    assert!(rest.iter().all(|line| !line.contains("died")), "{rest:?}");
    rig::all_gone(&children);
    assert_eq!(temporary.left(), Vec::<PathBuf>::new());
}

/// An input that no run can map is refused at once, also where opening it would wait for a writer.
#[test]
fn an_input_that_is_a_pipe_is_refused() {
    let temporary = Scratch::new("run-pipe");
    let pipe = temporary.path().join("input");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let (umbra, agent) = rig::programs();
    let mut command = Command::new(umbra);
    command.arg("run").arg("--input").arg(&pipe).arg("--agent").arg(agent).stderr(Stdio::piped());
    let mut running = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap().into());
    assert_eq!(running.ended(), Some(1));
    let mut said = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("not a regular file"), "{said}");
}

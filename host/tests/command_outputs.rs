//! Files that commands write: named when whole, or written through.
#![cfg(feature = "command")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use rustix::pty::OpenptFlags;

/// A directory of its own for a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("umbra-outputs-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    /// Names of all that is in it, hidden files too.
    fn names(&self) -> Vec<String> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(&self.0).unwrap().map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.0.join(name)).unwrap()).into_owned()
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// The command in this directory.
    fn umbra(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("env");
        // Interrupts are heard also where a shell has started these tests in the background.
        command.arg("--default-signal=INT").arg(env!("CARGO_BIN_EXE_umbra")).args(arguments);
        command.current_dir(&self.0).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.umbra(arguments).output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ADVECT: [&str; 14] = [
    "advect",
    "--threads",
    "-n",
    "1",
    "--blocks",
    "4",
    "--cells",
    "8",
    "--fields",
    "1",
    "--radius",
    "2",
    "--cycles",
    "9",
];
const STENCIL: [&str; 4] = ["stencil", "--quiet", "--extents", "100,100"];

/// Arguments with a file behind them.
fn with<'a>(arguments: &[&'a str], option: &'a str, file: &'a str) -> Vec<&'a str> {
    [arguments, &[option, file]].concat()
}

#[test]
fn what_bore_the_name_is_replaced_and_not_written_over() {
    let scratch = Scratch::new("replaced");
    for (given, option) in [(&["dump", "world"][..], "--output"), (&ADVECT, "--plot"), (&STENCIL, "--plot")] {
        let out = if given == ADVECT { "out.html" } else { "out.svg" };
        fs::write(scratch.0.join(out), "old").unwrap();
        fs::hard_link(scratch.0.join(out), scratch.0.join("kept")).unwrap();
        let output = scratch.run(&with(given, option, out));
        assert!(output.status.success(), "{given:?}: {}", said(&output));
        assert_eq!(scratch.read("kept"), "old", "{given:?}");
        assert!(fs::read(scratch.0.join(out)).unwrap() != b"old", "{given:?}");
        assert_eq!(scratch.names(), ["kept", out], "{given:?}");
        for name in ["kept", out] {
            fs::remove_file(scratch.0.join(name)).unwrap();
        }
    }
}

#[test]
fn an_old_file_stays_where_the_new_one_finds_no_room() {
    let scratch = Scratch::new("room");
    fs::write(scratch.0.join("out"), "old").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_umbra")]);
    let output = command.args(["dump", "world", "--output", "out"]).current_dir(&scratch.0).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot write the table out: "), "{}", said(&output));
    assert_eq!(scratch.read("out"), "old");
    assert_eq!(scratch.names(), ["out"]);
}

#[test]
fn the_name_of_a_directory_is_refused_before_the_work() {
    let scratch = Scratch::new("directory");
    for name in ["new/", "new/.", "new//"] {
        let output = scratch.run(&["run", "--quiet", "--agent", "/bin/false", "--report", name]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", said(&output));
        let why = format!("cannot write the report {name}: this is the name of a directory");
        assert!(said(&output).contains(&why), "{name}: {}", said(&output));
    }
    assert_eq!(scratch.names(), [""; 0]);
}

#[test]
fn how_it_went_is_said_also_if_the_file_is_lost() {
    let scratch = Scratch::new("lost");
    for (given, word) in [(&ADVECT[..], "agreed:"), (&STENCIL, "plain sweep")] {
        let output = scratch.run(&with(given, "--plot", "/dev/full"));
        assert_eq!(output.status.code(), Some(1), "{given:?}: {}", said(&output));
        assert!(said(&output).contains("/dev/full: No space"), "{given:?}: {}", said(&output));
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(word) && !shown.contains("drawn"), "{given:?}: {shown}");
    }
}

#[test]
fn a_file_on_which_another_is_mounted_is_written_through() {
    let scratch = Scratch::new("mounted");
    fs::write(scratch.0.join("below"), "below").unwrap();
    fs::write(scratch.0.join("mounted"), "much longer than what was there".repeat(100)).unwrap();
    let mounted = |program: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", "mount --bind mounted below && exec \"$@\"", "sh"]).args(program);
        command.current_dir(&scratch.0).output()
    };
    if !mounted(&["true"]).is_ok_and(|output| output.status.success()) {
        return println!("skipped: nothing can be mounted here");
    }
    let output = mounted(&[env!("CARGO_BIN_EXE_umbra"), "dump", "world", "--output", "below"]).unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(scratch.run(&["dump", "world", "--output", "table"]).status.success());
    assert_eq!(scratch.read("mounted"), scratch.read("table"));
    assert_eq!(scratch.names(), ["below", "mounted", "table"]);
}

#[test]
fn a_link_that_leads_nowhere_yet_is_kept() {
    let scratch = Scratch::new("link");
    fs::create_dir(scratch.0.join("there")).unwrap();
    symlink("second", scratch.0.join("first")).unwrap();
    symlink("there/table", scratch.0.join("second")).unwrap();
    let output = scratch.run(&["dump", "world", "--output", "first"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(scratch.names(), ["first", "second", "there"]);
    assert!(scratch.0.join("second").is_symlink() && scratch.0.join("there/table").is_file());
    // It is one file under both names.
    symlink("other", scratch.0.join("third")).unwrap();
    let given = ["run", "--agent", "/bin/false", "--log", "info", "--log-file", "other", "--report", "third"];
    let output = scratch.run(&given);
    assert!(said(&output).contains("is named for two things"), "{}", said(&output));
}

#[test]
fn what_a_descriptor_leads_to_is_written_through() {
    let scratch = Scratch::new("descriptor");
    assert!(scratch.run(&["dump", "world", "--output", "table"]).status.success());
    for (name, redirection) in
        [("/dev/fd/3", "3>>out"), ("/proc/self/fd/3", "3>>out"), ("link", "3>>out"), ("/dev/stderr", "2>>out")]
    {
        fs::write(scratch.0.join("out"), "before\n").unwrap();
        if name == "link" {
            symlink("/dev/fd/3", scratch.0.join("link")).unwrap();
        }
        let umbra = env!("CARGO_BIN_EXE_umbra");
        let script = format!("{{ {umbra} dump world --output {name} && echo after >&3; }} 3>>out {redirection}");
        let mut command = Command::new("sh");
        let output = command.args(["-c", &script]).current_dir(&scratch.0).output().unwrap();
        assert!(output.status.success(), "{name}: {}", said(&output));
        assert_eq!(scratch.read("out"), format!("before\n{}after\n", scratch.read("table")), "{name}");
    }
}

#[test]
fn a_run_that_fails_leaves_no_report() {
    let scratch = Scratch::new("failed");
    let output = scratch.run(&["run", "--quiet", "--agent", "/bin/false", "--report", "run.html"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(scratch.names(), [""; 0]);
}

#[test]
fn a_file_that_is_read_is_not_written() {
    let scratch = Scratch::new("read");
    fs::write(scratch.0.join("data"), "data").unwrap();
    assert!(scratch.run(&["dump", "world", "--output", "table"]).status.success());
    let table = fs::read(scratch.0.join("table")).unwrap();
    for given in [
        &["run", "--agent", "/bin/false", "--input", "data", "--report", "./data"][..],
        &["run", "--agent", "/bin/false", "--input", "data", "--log", "info", "--log-file", "data"],
        &["run", "--agent", "/bin/false", "--log", "info", "--log-file", "log", "--report", "log"],
        &["advect", "--transport", "agent", "--agent", "data", "--plot", "data"],
        &["dump", "./table", "--output", "table"],
        &["dump", "sp:0/world", "--secret", "data", "--output", "data"],
        &["call", "barrier", "--config", "data", "--plot", "data"],
    ] {
        let output = scratch.run(given);
        assert_eq!(output.status.code(), Some(2), "{given:?}: {}", said(&output));
        assert!(said(&output).contains("is named for two things"), "{given:?}: {}", said(&output));
    }
    assert_eq!((scratch.read("data").as_str(), fs::read(scratch.0.join("table")).unwrap()), ("data", table));
    assert_eq!(scratch.names(), ["data", "table"]);
}

#[test]
fn a_file_that_only_the_environment_names_is_not_written() {
    let scratch = Scratch::new("environment");
    fs::write(scratch.0.join("job.cfg"), "config").unwrap();
    fs::write(scratch.0.join("secret"), "secret").unwrap();
    for given in [
        &["call", "barrier", "--plot", "job.cfg"][..],
        &["call", "barrier", "--plot", "./secret"],
        &["dump", "sp:0/world", "--output", "secret"],
        &["run", "--agent", "/bin/false", "--config", "job.cfg", "--report", "secret"],
    ] {
        let mut command = scratch.umbra(given);
        let output = command.env("UMBRA_CONFIG", "job.cfg").env("UMBRA_SECRET_FILE", "secret").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{given:?}: {}", said(&output));
        assert!(said(&output).contains("is named for two things"), "{given:?}: {}", said(&output));
    }
    assert_eq!((scratch.read("job.cfg").as_str(), scratch.read("secret").as_str()), ("config", "secret"));
}

#[test]
fn a_drawing_of_a_call_is_opened_before_the_job_is_met() {
    let scratch = Scratch::new("call");
    let output = scratch.run(&["call", "barrier", "--job", "none", "--plot", "."]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot write the drawing .: "), "{}", said(&output));
}

#[test]
fn what_goes_to_the_standard_output_has_nothing_else_in_it() {
    let scratch = Scratch::new("standard");
    assert!(scratch.run(&["dump", "world", "--output", "table"]).status.success());
    let table = fs::read(scratch.0.join("table")).unwrap();
    let dumped = scratch.run(&["dump", "world", "--output", "/dev/stdout"]);
    assert!(dumped.status.success() && dumped.stdout == table, "{}", said(&dumped));
    assert!(said(&dumped).contains("8 ranks"), "{}", said(&dumped));
    for (given, first) in [(&ADVECT[..], "<!doctype html>"), (&STENCIL, "<svg ")] {
        let output = scratch.run(&with(given, "--plot", "/dev/stdout"));
        assert!(output.status.success(), "{given:?}: {}", said(&output));
        let drawn = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let last = if first == "<svg " { "</svg>" } else { "</html>" };
        assert!(drawn.to_lowercase().starts_with(first) && drawn.ends_with(last), "{given:?}: {drawn}");
    }
    // Behind what a file has already, if the shell opened it so.
    fs::write(scratch.0.join("log"), "before\n").unwrap();
    let log = OpenOptions::new().append(true).open(scratch.0.join("log")).unwrap();
    let status = scratch.umbra(&with(&STENCIL, "--plot", "/dev/stdout")).stdout(log).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
    assert!(scratch.read("log").starts_with("before\n<svg "), "{}", scratch.read("log"));
}

/// Open MPI gives each rank a terminal, also if its own output goes to a file.
#[test]
fn what_goes_to_a_terminal_as_the_standard_output_has_nothing_else_in_it() {
    let scratch = Scratch::new("terminal");
    let near = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&near).unwrap();
    rustix::pty::unlockpt(&near).unwrap();
    let far = rustix::pty::ptsname(&near, Vec::new()).unwrap();
    let far = File::options().read(true).write(true).open(far.to_str().unwrap()).unwrap();
    let mut command = scratch.umbra(&with(&ADVECT, "--plot", "/dev/stdout"));
    let child = command.stdout(far).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let shown = thread::spawn(move || {
        let mut shown = Vec::new();
        // A terminal that nobody has open any more has no end, but an error.
        let _ = File::from(near).read_to_end(&mut shown);
        String::from_utf8(shown).unwrap()
    });
    let output = child.wait_with_output().unwrap();
    let shown = shown.join().unwrap().trim_end().to_lowercase();
    assert!(output.status.success() && said(&output).contains("agreed"), "{}", said(&output));
    assert!(shown.starts_with("<!doctype html>") && shown.ends_with("</html>"), "{shown}");
}

/// Reads a named pipe to its end, or only its first byte.
fn reader(fifo: &Path, whole: bool) -> thread::JoinHandle<Vec<u8>> {
    let fifo = fifo.to_owned();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let most = if whole { u64::MAX } else { 1 };
        File::open(fifo).unwrap().take(most).read_to_end(&mut bytes).unwrap();
        bytes
    })
}

#[test]
fn what_is_no_file_is_written_through() {
    let scratch = Scratch::new("through");
    let fifo = scratch.fifo("fifo");
    for (given, option) in [(&["dump", "world"][..], "--output"), (&ADVECT, "--plot"), (&STENCIL, "--plot")] {
        let whole = reader(&fifo, true);
        let output = scratch.run(&with(given, option, "fifo"));
        assert!(output.status.success(), "{given:?}: {}", said(&output));
        assert!(whole.join().unwrap().len() > 100, "{given:?}");
        assert_eq!(scratch.names(), ["fifo"], "{given:?}");
        // A reader that has seen enough is no failure.
        let some = reader(&fifo, false);
        let output = scratch.run(&with(given, option, "fifo"));
        assert!(output.status.success(), "{given:?}: {}", said(&output));
        assert_eq!(some.join().unwrap().len(), 1, "{given:?}");
        let full = scratch.run(&with(given, option, "/dev/full"));
        assert!(full.status.code() == Some(1) && said(&full).contains("/dev/full: No space"), "{}", said(&full));
    }
}

/// Waits for a child's end.
fn ended(mut child: Child) -> Option<i32> {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait().unwrap().code()
}

#[test]
fn an_interrupt_leaves_no_file_that_is_not_whole() {
    let scratch = Scratch::new("interrupt");
    let long = ["advect", "--quiet", "-n", "1", "--cycles", "4000000000", "--plot", "page.html"];
    let child = scratch.umbra(&long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while scratch.names().is_empty() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    let made = scratch.names();
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(ended(child), Some(143));
    assert_eq!((made.len(), scratch.names()), (1, Vec::new()), "{made:?}");
}

/// Whether a process has a handler for Ctrl-C.
fn hears_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::INT.as_raw() - 1) != 0
}

#[test]
fn an_interrupt_ends_a_sweep_whose_drawing_nobody_reads_yet() {
    let scratch = Scratch::new("unread");
    scratch.fifo("fifo");
    let mut command = scratch.umbra(&with(&STENCIL, "--plot", "fifo"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while !hears_interrupts(&child) && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    assert_eq!(ended(child), Some(130));
}

/// Ctrl-C: the terminal interrupts the process group in the foreground.
#[test]
fn an_interrupt_of_its_process_group_blames_no_rank() {
    let scratch = Scratch::new("group");
    let long = ["advect", "--quiet", "-n", "2", "--cycles", "4000000000", "--plot", "page.html"];
    let mut child = scratch.umbra(&long).process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let ranks = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    // A child that is no rank yet has not got its group, either.
    let runs = |rank: &str| fs::read_to_string(format!("/proc/{rank}/cmdline")).unwrap().contains("--as-rank");
    while ranks().split_whitespace().filter(|rank| runs(rank)).count() < 2 && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    let group = Pid::from_raw(pid.cast_signed()).unwrap();
    let groups: Vec<Pid> =
        ranks().split_whitespace().map(|rank| getpgid(Pid::from_raw(rank.parse().unwrap())).unwrap()).collect();
    kill_process_group(group, Signal::INT).unwrap();
    let mut errors = String::new();
    // It ends with the last rank.
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(ended(child), Some(130), "{errors}");
    assert!(groups.len() == 2 && !groups.contains(&group), "ranks are interrupted, too: {groups:?}");
    assert!(!errors.contains("rank"), "{errors}");
    assert_eq!(scratch.names(), [""; 0]);
}

#[test]
fn a_rank_whose_starter_has_ended_already_ends() {
    let scratch = Scratch::new("orphan");
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let rank = [&ADVECT[..1], &ADVECT[2..], &["--as-rank", "0"]].concat();
    let child = scratch.umbra(&rank).stdout(write).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("Broken pipe"), "{}", said(&output));
}

//! What `umbra advect` draws, and what it shows while it runs.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;

const SMALL: [&str; 12] =
    ["--threads", "-n", "2", "--blocks", "4", "--cells", "8", "--fields", "1", "--radius", "2", "--cycles"];

fn umbra(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    command.arg("advect").args(SMALL).args(arguments).stdin(Stdio::null());
    command
}

/// No run of these tests takes so long, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits until a process has ended; one that does not end is killed.
fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("a run did not end within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a run says, which is less than a pipe holds.
fn run(arguments: &[&str]) -> Output {
    let mut child = umbra(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ended(&mut child);
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file of this name that goes with this value.
struct Drawing(PathBuf);

impl Drawing {
    fn new(name: &str) -> Drawing {
        Drawing(std::env::temp_dir().join(format!("umbra-advect-{}-{name}", std::process::id())))
    }

    fn plot(&self) -> [&str; 3] {
        ["40", "--plot", self.0.to_str().unwrap()]
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_plot_is_a_page_or_a_picture_as_its_name_ends() {
    let page = Drawing::new("blobs.HTML");
    let output = run(&page.plot());
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read_to_string(&page.0).unwrap().starts_with("<!doctype html>"));
    let picture = Drawing::new("blobs.png");
    let output = run(&picture.plot());
    assert!(output.status.success(), "{}", said(&output));
    let bytes = fs::read(&picture.0).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"), "{} bytes", bytes.len());
    let width = u32::from_be_bytes(*bytes[16..].first_chunk().unwrap());
    assert_eq!(width, 1200);
}

#[test]
fn an_ending_of_no_drawing_is_refused_before_the_work_with_those_that_there_are() {
    for name in ["blobs.svg", "blobs.png.gz", "blobs.htm"] {
        let drawing = Drawing::new(name);
        let output = run(&drawing.plot());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let (_, ending) = name.rsplit_once('.').unwrap();
        let why = format!("nothing is drawn as .{ending}: the name of the file must end with .html or .png");
        assert!(said(&output).contains(&why), "{}", said(&output));
        assert!(!drawing.0.exists());
    }
}

#[test]
fn lines_say_how_far_it_is_where_there_is_no_terminal_if_they_are_asked_for() {
    let tenths: String = (1..=10).map(|tenth| format!("{} of 40 time steps\n", tenth * 4)).collect();
    let output = run(&["40", "--progress"]);
    assert!(output.status.success());
    assert_eq!(said(&output), tenths);
    let smooth = run(&["40", "--progress", "--problem", "smooth"]);
    assert_eq!(said(&smooth), tenths.clone() + &tenths.replace("steps", "steps of the dense run"));
    assert_eq!(said(&run(&["40"])), "");
    assert_eq!(run(&["40", "--progress", "--quiet"]).status.code(), Some(2));
}

/// What a terminal gets as the error output.
fn on_terminal(arguments: &[&str]) -> String {
    let near = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&near).unwrap();
    rustix::pty::unlockpt(&near).unwrap();
    let far = rustix::pty::ptsname(&near, Vec::new()).unwrap();
    let far = File::options().read(true).write(true).open(far.to_str().unwrap()).unwrap();
    let mut command = umbra(arguments);
    let mut child =
        command.stdout(Stdio::null()).stderr(far).env("TERM", "xterm").env_remove("NO_COLOR").spawn().unwrap();
    drop(command);
    let shown = thread::spawn(move || {
        let mut shown = Vec::new();
        // A terminal that nobody has open any more has no end, but an error.
        let _ = File::from(near).read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    assert!(ended(&mut child).success());
    shown.join().unwrap()
}

#[test]
fn a_bar_grows_on_a_terminal_and_is_gone_in_the_end() {
    let shown = on_terminal(&["40", "--delay", "1ms", "--problem", "smooth"]);
    assert!(shown.contains(" of 40 time steps ") && shown.contains(" of 40 time steps of the dense run"), "{shown:?}");
    assert!(shown.contains('━') && shown.contains('%'), "{shown:?}");
    // What clears a line is the last that is sent.
    let last = shown.rfind("\u{1b}[2K").unwrap();
    assert!(!shown[last..].contains("time steps"), "{shown:?}");
    assert_eq!(on_terminal(&["40", "--quiet"]), "");
}

/// A stack for which no machine has addresses.
const NO_STACK: u64 = 1 << 48;

#[test]
fn a_run_that_can_start_no_thread_says_so() {
    let small = SMALL.iter().filter(|&&argument| argument != "--threads").chain(&["3"]);
    let mut processes = Command::new(env!("CARGO_BIN_EXE_umbra"));
    processes.arg("advect").args(small).stdin(Stdio::null());
    let runs = [umbra(&["3"]), umbra(&["3", "--transport", "agent"]), processes];
    for (mut command, of) in runs.into_iter().zip(["rank 0", "the agent", "rank 0"]) {
        let output = command.env("RUST_MIN_STACK", NO_STACK.to_string()).output().unwrap();
        let said = said(&output);
        let is_told = said.starts_with(&format!("error: {of}")) && said.contains(" thread");
        assert!(output.status.code() == Some(1) && is_told, "{}: {said}", output.status);
    }
}

#[test]
fn no_rank_waits_for_one_whose_thread_cannot_be_started() {
    // Some of the stacks have addresses, and not all.
    let limited = "ulimit -v 6291456 && exec \"$@\"";
    for transport in ["shm", "agent"] {
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_umbra"), "advect", "--threads", "-n", "16"]);
        command.args(["--timeout", "1000s", "--transport", transport]).env("RUST_MIN_STACK", (1 << 30).to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        ended(&mut child);
        let output = child.wait_with_output().unwrap();
        let said = said(&output);
        let is_told = said.starts_with("error: rank ") && said.contains("its thread cannot be started: ");
        assert!(output.status.code() == Some(1) && is_told, "{transport}, {}: {said}", output.status);
    }
}

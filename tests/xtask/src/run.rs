//! Programs that a step starts: logged, counted, and ended when they take too long.
//!
//! What a program prints goes to the step's log. A step that fails shows the end of it. The tests it ran are
//! [counted](Tests) by what their harness prints, so that the counts of the summary are real ones.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::counts::Tests;
use crate::step::Failure;

/// How many lines of a failed program are shown.
const SHOWN_LINES: usize = 60;

/// Where the programs of one step print to.
pub(crate) struct Log {
    path: PathBuf,
    page: Page,
    tests: Mutex<Tests>,
}

/// What a log is written on, from several threads.
#[derive(Clone)]
struct Page {
    file: Arc<Mutex<File>>,
    verbose: bool,
}

impl Page {
    fn line(&self, line: &str) {
        // The log is a convenience: a full disk shows up elsewhere.
        let _ = writeln!(self.file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
        if self.verbose {
            println!("{line}");
        }
    }
}

impl Log {
    /// Starts an empty log; `verbose` shows it on the screen as well.
    pub(crate) fn create(path: &Path, verbose: bool) -> Result<Self, Failure> {
        let file = Arc::new(Mutex::new(File::create(path)?));
        Ok(Self { path: path.to_owned(), page: Page { file, verbose }, tests: Mutex::default() })
    }

    /// Where the log lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tests that programs of this step have run so far.
    pub(crate) fn tests(&self) -> Tests {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A program to run.
pub(crate) struct Run {
    command: Command,
    limit: Duration,
    unwanted: Option<Arc<AtomicBool>>,
    together: bool,
}

impl Run {
    /// A program by name or path; it may take 80 minutes, as beside other steps it may get little of a processor.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        // A check builds everything once: what a next build could begin from would be gigabytes for nothing.
        if std::env::var_os("CARGO_INCREMENTAL").is_none() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        Self { command, limit: Duration::from_secs(80 * 60), unwanted: None, together: false }
    }

    /// The cargo that runs this program, or cargo by name, as set up by the user.
    pub(crate) fn cargo() -> Self {
        let mut run = Self::new("cargo");
        // Set by the cargo that started us for this package; programs below shall not take them for theirs.
        for (name, _) in std::env::vars_os() {
            let of_package = name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_"));
            if of_package || name == "CARGO_MANIFEST_DIR" || name == "CARGO_MANIFEST_PATH" {
                run.command.env_remove(name);
            }
        }
        run
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds the words of a line as arguments.
    pub(crate) fn words(mut self, line: &str) -> Self {
        self.command.args(line.split_whitespace());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable from the environment.
    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Works in another folder.
    pub(crate) fn within(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// May take this long; then it is killed with everything it started.
    pub(crate) fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Is killed, with everything it started, once the flag is set.
    pub(crate) fn unless(mut self, unwanted: &Arc<AtomicBool>) -> Self {
        self.unwanted = Some(Arc::clone(unwanted));
        self
    }

    /// Runs the program; anything but exit code 0 is a failure that shows the end of what it printed.
    pub(crate) fn succeed(self, log: &Log) -> Result<(), Failure> {
        let shown = shown(&self.command);
        let (status, printed) = self.finish(log)?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("{}\n{status}: {shown}", telling(&printed).join("\n"))))
    }

    /// Runs programs side by side, as many at a time as there are processors; all their failures are told when all have
    /// ended. What one of them prints is logged at its end, so that it stays together.
    pub(crate) fn all_succeed(runs: impl IntoIterator<Item = Self>, log: &Log) -> Result<(), Failure> {
        let waiting: Mutex<VecDeque<Self>> = Mutex::new(runs.into_iter().collect());
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let run = |run: Self| Self { together: true, ..run }.succeed(log).err();
        let work = || std::iter::from_fn(next).filter_map(run).collect::<Vec<_>>();
        let failures: Vec<Failure> = thread::scope(|scope| {
            let all: Vec<_> = (0..processors()).map(|_| scope.spawn(work)).collect();
            let panicked = |_| vec![Failure::new("a thread panicked")];
            all.into_iter().flat_map(|one| one.join().unwrap_or_else(panicked)).collect()
        });
        let told: Vec<String> = failures.iter().map(Failure::to_string).collect();
        if told.is_empty() { Ok(()) } else { Err(Failure::new(told.join("\n"))) }
    }

    /// Runs the program and returns its exit status and every line it printed, from both streams.
    pub(crate) fn finish(mut self, log: &Log) -> Result<(ExitStatus, Vec<String>), Failure> {
        let shown = shown(&self.command);
        // On a terminal the group stays ours, so that the terminal's interrupt reaches the program.
        let own_group = !io::stdin().is_terminal();
        if own_group {
            self.command.process_group(0);
        }
        let (reader, writer) = io::pipe()?;
        self.command.stdout(writer.try_clone()?).stderr(writer);
        let spawned = self.command.spawn();
        // Drops our copies of the pipe's writing end; else its reader would never see the end.
        drop(self.command);
        let mut child = spawned.map_err(|error| Failure::new(format!("{error}: {shown}")))?;
        let lines = Lines::collect(reader, (!self.together).then(|| log.page.clone()));
        let unwanted = || self.unwanted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        let start = Instant::now();
        let ended = wait(&mut child, || unwanted() || start.elapsed() >= self.limit, own_group)?;
        // A grandchild may hold the pipe; what it prints later is of no interest.
        let printed = lines.within(Duration::from_secs(5));
        if self.together {
            let head = std::slice::from_ref(&shown);
            head.iter().chain(&printed).for_each(|line| log.page.line(line));
        }
        let ran = Tests::of_printed(&printed);
        let mut tests = log.tests.lock().unwrap_or_else(PoisonError::into_inner);
        *tests = std::mem::take(&mut *tests).plus(ran);
        drop(tests);
        let Some(status) = ended else {
            let why = if unwanted() { ", not wanted any more" } else { "" };
            return Err(Failure::new(format!("killed after {} s{why}: {shown}", start.elapsed().as_secs())));
        };
        Ok((status, printed))
    }

    /// Runs the program, which prints where this one does, and returns how it ended.
    pub(crate) fn status(mut self) -> Result<ExitStatus, Failure> {
        let shown = shown(&self.command);
        let own_group = !io::stdin().is_terminal();
        if own_group {
            self.command.process_group(0);
        }
        let mut child = self.command.spawn().map_err(|error| Failure::new(format!("{error}: {shown}")))?;
        let start = Instant::now();
        let ended = wait(&mut child, || start.elapsed() >= self.limit, own_group)?;
        ended.ok_or_else(|| Failure::new(format!("killed after {} s: {shown}", start.elapsed().as_secs())))
    }

    /// Runs the program without a log and returns its standard output if it exits with 0.
    pub(crate) fn output(mut self) -> Option<String> {
        let output = self.command.stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// How many programs can run at a time.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The program that a line of `cargo --message-format=json` says was built, if it has one of these names.
pub(crate) fn built(line: &str, names: &[&str]) -> Option<PathBuf> {
    let (_, rest) = line.split_once("\"executable\":\"")?;
    let program = PathBuf::from(rest.split_once('"')?.0);
    names.iter().any(|name| is_named(&program, name)).then_some(program)
}

/// Whether a program that cargo built is the one of this name: it adds a dash and a digest.
pub(crate) fn is_named(program: &Path, name: &str) -> bool {
    let file = program.file_name().unwrap_or_default().to_string_lossy();
    file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
}

/// The lines of a failed program that say most: what its tests wrote about their failures, else the last ones.
fn telling(printed: &[String]) -> &[String] {
    let position = |tells: fn(&String) -> bool| printed.iter().position(tells);
    // Before its failures, a harness shows what other tests printed, perhaps about errors.
    let first = position(|line| line == "failures:")
        .or_else(|| position(|line| line.starts_with("error") || line.contains("LLVM ERROR")));
    let first = first.unwrap_or_else(|| printed.len().saturating_sub(SHOWN_LINES));
    &printed[first..printed.len().min(first + SHOWN_LINES)]
}

/// The command line as a person would type it, nearly: words with spaces are not quoted.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// What a program prints.
struct Lines {
    printed: Arc<Mutex<Vec<String>>>,
    over: mpsc::Receiver<()>,
}

impl Lines {
    /// Takes down every line, and copies it to a log if there is one.
    fn collect(reader: io::PipeReader, page: Option<Page>) -> Lines {
        let (sender, over) = mpsc::channel();
        let printed = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&printed);
        thread::spawn(move || {
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                if let Some(page) = &page {
                    page.line(&line);
                }
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
            let _ = sender.send(());
        });
        Lines { printed, over }
    }

    /// All of them, or what there is when this time is over.
    fn within(&self, time: Duration) -> Vec<String> {
        let _ = self.over.recv_timeout(time);
        std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits for the child; `None` if it had to be killed because time is over.
fn wait(child: &mut Child, over: impl Fn() -> bool, own_group: bool) -> Result<Option<ExitStatus>, Failure> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if over() {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            match group {
                Some(group) if own_group => kill_process_group(group, Signal::KILL).map_err(io::Error::from)?,
                _ => child.kill()?,
            }
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_the_lines_of_cargo() {
        let line = r#"{"target":{"name":"verbs"},"executable":"/t/ci/deps/verbs_link-5d","fresh":true}"#;
        assert_eq!(built(line, &["verbs", "verbs_link"]), Some(PathBuf::from("/t/ci/deps/verbs_link-5d")));
        assert_eq!(built(line, &["verbs"]), None);
        assert_eq!(built(r#"{"executable":null}"#, &["verbs"]), None);
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_its_children() {
        let folder = std::env::temp_dir();
        let log = Log::create(&folder.join(format!("xtask-run-{}.log", std::process::id())), false).unwrap();
        let failure = Run::new("sh").args(["-c", "sleep 77 & wait"]).limit(1).succeed(&log).unwrap_err();
        assert!(failure.to_string().starts_with("killed after 1 s"), "{failure}");
        std::fs::remove_file(log.path()).unwrap();
    }

    #[test]
    fn a_program_that_prints_where_this_one_does_says_how_it_ended_or_is_killed() {
        assert_eq!(Run::new("sh").args(["-c", "exit 3"]).status().unwrap().code(), Some(3));
        let failure = Run::new("sh").args(["-c", "sleep 77 & wait"]).limit(1).status().unwrap_err();
        assert_eq!(failure.to_string(), "killed after 1 s: sh -c sleep 77 & wait");
    }

    #[test]
    fn of_a_failed_program_what_is_shown_begins_with_the_failures_of_tests_or_an_error() {
        let told = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            telling(&lines)[0].clone()
        };
        assert_eq!(told(&["successes:", "error: expected", "failures:", "    a"]), "failures:");
        assert_eq!(told(&["warning: unused", "error: no such file", "more"]), "error: no such file");
        assert_eq!(told(&["first", "last"]), "first");
    }

    #[test]
    fn a_failed_program_shows_what_it_printed() {
        let folder = std::env::temp_dir();
        let log = Log::create(&folder.join(format!("xtask-fail-{}.log", std::process::id())), false).unwrap();
        let failure = Run::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).succeed(&log).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains("out\nerr\n") && text.contains("exit status: 3"), "{text}");
        std::fs::remove_file(log.path()).unwrap();
    }
}

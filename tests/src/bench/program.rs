//! Peers that are programs of their own, which print a JSON object a line.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Report;

/// How long a program may take.
const MOST: Duration = Duration::from_secs(120);
/// How long one that is told to end may take for that.
const GRACE: Duration = Duration::from_secs(5);

/// The number behind a key in a line of JSON.
///
/// ```
/// let line = r#"{"bench":"alloc_free","ns":1852.5,"procs":2}"#;
/// assert_eq!(umbra_tests::bench::number(line, "ns"), Some(1852.5));
/// assert_eq!(umbra_tests::bench::number(line, "none"), None);
/// ```
#[must_use]
pub fn number(line: &str, key: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

/// Runs a program of a folder: the lines that it prints. That it fails, or takes longer than two minutes and is ended for
/// that, is noted, and it has no lines then.
pub fn lines_of(report: &Report, folder: &Path, program: &str, arguments: &[&str]) -> Vec<String> {
    match output_of(Command::new(folder.join(program)).args(arguments), MOST) {
        Ok((status, said)) if status.success() => said.lines().map(str::to_owned).collect(),
        Ok((status, _)) => {
            report.note(format_args!("{program} {arguments:?} ended with {status}"));
            Vec::new()
        }
        Err(error) => {
            report.note(format_args!("{program} in {}: {error}", folder.display()));
            Vec::new()
        }
    }
}

/// How a program ended, and what it printed. After so long it is told to end, and a little later killed, with all that
/// it started and that stayed in its group of processes.
///
/// # Errors
/// What the system says if it cannot be started or waited for.
pub fn output_of(command: &mut Command, most: Duration) -> io::Result<(ExitStatus, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn()?;
    let (start, group) = (Instant::now(), Pid::from_child(&child));
    let mut out = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut said = Vec::new();
        // What came before an error is what was said.
        let _ = out.as_mut().map(|out| out.read_to_end(&mut said));
        String::from_utf8_lossy(&said).into_owned()
    });
    let mut is_told = false;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if start.elapsed() > most + GRACE => {
                kill_process_group(group, Signal::KILL)?;
                break child.wait()?;
            }
            // A launcher ends those elsewhere whom it has started.
            None if start.elapsed() > most && !is_told => {
                kill_process_group(group, Signal::TERM)?;
                is_told = true;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    Ok((status, reader.join().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn shell(script: &str, most: Duration) -> (ExitStatus, String) {
        output_of(Command::new("sh").args(["-c", script]), most).unwrap()
    }

    #[test]
    fn a_program_that_ends_says_how_and_what_it_said() {
        let (status, said) = shell("echo word; exit 3", Duration::from_secs(60));
        assert_eq!((status.code(), said.as_str()), (Some(3), "word\n"));
    }

    #[test]
    fn a_program_that_takes_too_long_is_told_to_end_and_then_killed() {
        let (status, said) = shell(
            "trap 'echo ends; exit 4' TERM; echo begins; while :; do sleep 0.01; done",
            Duration::from_millis(500),
        );
        assert_eq!((status.code(), said.as_str()), (Some(4), "begins\nends\n"));
        let (status, said) =
            shell("trap '' TERM; echo begins; while :; do sleep 0.01; done", Duration::from_millis(500));
        assert_eq!((status.signal(), said.as_str()), (Some(9), "begins\n"));
    }
}

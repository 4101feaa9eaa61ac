//! Processes that end with the test that started them.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Output};
use std::time::Instant;

use super::finish;

/// A process that is killed and reaped on drop, so also if an assertion fails while it runs.
#[derive(Debug)]
pub struct Guarded(Option<Child>);

impl Guarded {
    /// Waits for it, and tells what it said.
    ///
    /// # Panics
    /// If it does not end before the deadline; it is killed then.
    #[must_use]
    pub fn finish(mut self, deadline: Instant) -> Output {
        finish(self.0.take().expect("only this takes it"), deadline)
    }
}

impl From<Child> for Guarded {
    fn from(child: Child) -> Guarded {
        Guarded(Some(child))
    }
}

impl Deref for Guarded {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("who takes it keeps nothing of this")
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("who takes it keeps nothing of this")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::rig::{all_gone, bound, runs};

    #[test]
    fn a_process_does_not_outlive_the_test_that_fails() {
        let child = Guarded::from(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = child.id();
        let failed = std::thread::spawn(move || {
            let _child = child;
            std::panic::resume_unwind(Box::new("an assertion"));
        });
        assert!(failed.join().is_err() && !runs(pid));
    }

    #[test]
    fn a_process_that_is_stopped_does_not_outlive_a_thread_that_ends_without_a_word() {
        let child = std::thread::spawn(|| {
            let mut command = bound(Path::new("sh"));
            command.args(["-c", "echo; exec sleep 1000"]).stdout(Stdio::piped());
            let mut child = Guarded::from(command.spawn().unwrap());
            // Its end is the thread's from before it says something.
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
            kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
            child
        });
        let child = child.join().unwrap();
        all_gone(&[child.id()]);
    }

    #[test]
    fn a_process_that_ends_says_what_it_said() {
        let child = Command::new("echo").arg("word").stdout(std::process::Stdio::piped()).spawn().unwrap();
        let output = Guarded::from(child).finish(Instant::now() + Duration::from_secs(60));
        assert_eq!(output.stdout, b"word\n");
    }
}

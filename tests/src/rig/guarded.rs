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
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::rig::runs;

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
    fn a_process_that_ends_says_what_it_said() {
        let child = Command::new("echo").arg("word").stdout(std::process::Stdio::piped()).spawn().unwrap();
        let output = Guarded::from(child).finish(Instant::now() + Duration::from_secs(60));
        assert_eq!(output.stdout, b"word\n");
    }
}

//! Programs of tests, as cargo builds them.
//!
//! Cargo runs one at a time, and most of them wait more than they work.

use std::env;
use std::path::{Path, PathBuf};

use crate::guest::tail;
use crate::run::{Log, Run};
use crate::step::Failure;

/// Where the loader looks for libraries first.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// The package's, where cargo would run it.
    folder: PathBuf,
}

impl Program {
    /// Builds all that a command of cargo would run, and finds them.
    pub(crate) fn all(build: Run, log: &Log) -> Result<Vec<Program>, Failure> {
        let (status, printed) = build.words("--no-run --message-format=json-render-diagnostics").finish(log)?;
        let programs: Vec<Program> = printed.iter().filter_map(|line| Program::of_line(line)).collect();
        if !status.success() || programs.is_empty() {
            return Err(Failure::new(format!("{}\nthe tests were not built: {status}", tail(&printed))));
        }
        Ok(programs)
    }

    /// Runs its tests as cargo would; but with cargo at hand, they would look first whether what they start is built.
    pub(crate) fn start(&self) -> Run {
        let run = Run::new(&self.path).within(&self.folder).env_remove("CARGO");
        // Libraries of this build come before those of the build that this program is of.
        let built = self.path.ancestors().skip(1).take(2).map(Path::to_owned);
        let others = env::var_os(LIBRARIES).unwrap_or_default();
        match env::join_paths(built.chain(env::split_paths(&others))) {
            Ok(libraries) => run.env(LIBRARIES, libraries),
            // A path with a colon in it can't be among them.
            Err(_) => run,
        }
    }

    /// What a line of cargo says was built, if it has tests.
    fn of_line(line: &str) -> Option<Program> {
        let text = |name: &str| line.split_once(name)?.1.split_once('"').map(|(text, _)| Path::new(text));
        let (_, profile) = line.split_once("\"profile\":{")?;
        profile.split_once('}')?.0.contains("\"test\":true").then_some(())?;
        let folder = text("\"manifest_path\":\"")?.parent()?.to_owned();
        Some(Program { path: text("\"executable\":\"")?.to_owned(), folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_have_tests_are_found_among_the_lines_of_cargo() {
        let line = |test: bool, program: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/core/Cargo.toml","target":{{"test":true}},"profile":{{"test":{test}}},"executable":{program},"fresh":true}}"#
            )
        };
        let found = Program { path: "/t/ci/deps/ring-5d".into(), folder: "/a/core".into() };
        assert_eq!(Program::of_line(&line(true, r#""/t/ci/deps/ring-5d""#)), Some(found));
        assert_eq!(Program::of_line(&line(false, r#""/t/ci/umbra""#)), None, "a program without tests");
        assert_eq!(Program::of_line(&line(false, "null")), None, "a library");
        assert_eq!(Program::of_line("   Compiling umbra"), None);
    }
}

//! Scripted misfortune: what happens to which process or link, and when.
//!
//! It is written like `kill sp:3@20ms`, `restart sp:3@40ms`, `cut sp:0-sp:2@5ms+10ms` or `heal sp:0-sp:2@9ms`.
//!
//! ```
//! use umbra::sim::{Fault, Process, Scripted};
//! use umbra_core::peer::{Sp, WorldRank};
//! use umbra_core::time::{Lapse, Time};
//!
//! let cut: Scripted = "cut sp:0-rank:2@5ms+10ms".parse()?;
//! assert_eq!(cut.at, Time(5_000_000));
//! assert_eq!(cut.fault, Fault::Cut(Process::Service(Sp(0)), Process::Rank(WorldRank(2))));
//! assert_eq!(cut.lasts, Some(Lapse::from_millis(10)));
//! # Ok::<(), umbra::sim::ScriptError>(())
//! ```

use core::fmt;
use core::str::FromStr;

use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::{Lapse, Time};

use crate::quantity::parse_lapse;

/// One process of the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Process {
    /// A service process.
    Service(Sp),
    /// A rank.
    Rank(WorldRank),
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Service(sp) => write!(f, "sp:{sp}"),
            Process::Rank(rank) => write!(f, "rank:{rank}"),
        }
    }
}

/// What happens to processes and links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process dies without a word.
    Kill(Process),
    /// It starts again, as a new incarnation without memory.
    Restart(Process),
    /// The link breaks and cannot be opened again.
    Cut(Process, Process),
    /// It can be opened again.
    Heal(Process, Process),
}

impl Fault {
    /// The processes that are concerned.
    pub fn processes(&self) -> impl Iterator<Item = Process> + use<> {
        let (one, other) = match *self {
            Fault::Kill(one) | Fault::Restart(one) => (one, None),
            Fault::Cut(one, other) | Fault::Heal(one, other) => (one, Some(other)),
        };
        core::iter::once(one).chain(other)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kill(process) => write!(f, "kill {process}"),
            Fault::Restart(process) => write!(f, "restart {process}"),
            Fault::Cut(a, b) => write!(f, "cut {a}-{b}"),
            Fault::Heal(a, b) => write!(f, "heal {a}-{b}"),
        }
    }
}

/// A fault and when it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scripted {
    /// When.
    pub at: Time,
    /// What.
    pub fault: Fault,
    /// How long a cut lasts; for ever if nothing is said.
    pub lasts: Option<Lapse>,
}

/// Why a line is no fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no fault: write `kill sp:3@20ms`, `restart rank:5@1s`, `cut sp:0-sp:2@5ms+10ms` or `heal ...`")]
pub struct ScriptError {
    /// The line.
    pub text: String,
}

fn process(text: &str) -> Option<Process> {
    let (kind, number) = text.trim().split_once(':')?;
    let number = number.parse().ok()?;
    match kind {
        "sp" => Some(Process::Service(Sp(number))),
        "rank" => Some(Process::Rank(WorldRank(number))),
        _ => None,
    }
}

fn scripted(text: &str) -> Option<Scripted> {
    let (what, when) = text.trim().split_once('@')?;
    let (verb, whom) = what.split_once(' ')?;
    let two = || whom.split_once('-').and_then(|(a, b)| Some((process(a)?, process(b)?))).filter(|(a, b)| a != b);
    let fault = match verb {
        "kill" => Fault::Kill(process(whom)?),
        "restart" => Fault::Restart(process(whom)?),
        "cut" => two().map(|(a, b)| Fault::Cut(a, b))?,
        "heal" => two().map(|(a, b)| Fault::Heal(a, b))?,
        _ => return None,
    };
    let (when, lasts) = match when.split_once('+') {
        Some((when, lasts)) if verb == "cut" => (when, Some(parse_lapse(lasts).ok()?)),
        Some(_) => return None,
        None => (when, None),
    };
    Some(Scripted { at: Time::ZERO + parse_lapse(when).ok()?, fault, lasts })
}

impl FromStr for Scripted {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        scripted(text).ok_or_else(|| ScriptError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_line_is_read() {
        let fault = Fault::Kill(Process::Service(Sp(3)));
        assert_eq!("kill sp:3@20ms".parse(), Ok(Scripted { at: Time(20_000_000), fault, lasts: None }));
        let fault = Fault::Cut(Process::Service(Sp(1)), Process::Rank(WorldRank(2)));
        assert_eq!(" cut sp:1-rank:2@3us".parse(), Ok(Scripted { at: Time(3_000), fault, lasts: None }));
        assert_eq!(fault.to_string(), "cut sp:1-rank:2");
    }

    #[test]
    fn what_is_no_script_line_is_refused() {
        for line in
            ["kill everything", "kill sp:3", "kill sp:3@", "kill sp:3@20ms+1ms", "cut sp:1@3ms", "cut sp:1-sp:1@3ms"]
        {
            assert!(line.parse::<Scripted>().is_err(), "{line}");
        }
    }
}

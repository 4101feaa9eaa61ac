//! Scripted misfortune: `kill sp:3@20ms`, `restart rank:5@1s`, `cut sp:1-sp:2@3ms`, `heal sp:1-sp:2@9ms`.

use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::{Lapse, Time};

/// One process of the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Process {
    /// A service process.
    Service(Sp),
    /// A rank.
    Rank(WorldRank),
}

impl core::fmt::Display for Process {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
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

/// A fault and when it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scripted {
    /// When.
    pub at: Time,
    /// What.
    pub fault: Fault,
}

/// Why a line is no fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no fault: write `kill sp:3@20ms`, `restart rank:5@1s`, `cut sp:1-sp:2@3ms` or `heal ...`")]
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

fn lapse(text: &str) -> Option<Lapse> {
    let text = text.trim();
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ns" => Some(Lapse(number)),
        "us" => Some(Lapse::from_micros(number)),
        "ms" => Some(Lapse::from_millis(number)),
        "s" => Some(Lapse::from_secs(number)),
        _ => None,
    }
}

impl core::str::FromStr for Scripted {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let parse = || {
            let (what, when) = text.trim().split_once('@')?;
            let (verb, whom) = what.split_once(' ')?;
            let two = || whom.split_once('-').and_then(|(a, b)| Some((process(a)?, process(b)?)));
            let fault = match verb {
                "kill" => Fault::Kill(process(whom)?),
                "restart" => Fault::Restart(process(whom)?),
                "cut" => two().map(|(a, b)| Fault::Cut(a, b))?,
                "heal" => two().map(|(a, b)| Fault::Heal(a, b))?,
                _ => return None,
            };
            Some(Scripted { at: Time::ZERO + lapse(when)?, fault })
        };
        parse().ok_or_else(|| ScriptError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_line_is_read() {
        let killed = Fault::Kill(Process::Service(Sp(3)));
        assert_eq!("kill sp:3@20ms".parse(), Ok(Scripted { at: Time(20_000_000), fault: killed }));
        let cut = Fault::Cut(Process::Service(Sp(1)), Process::Rank(WorldRank(2)));
        assert_eq!(" cut sp:1-rank:2 @ 3us".parse(), Ok(Scripted { at: Time(3_000), fault: cut }));
        assert!("kill everything".parse::<Scripted>().is_err());
        assert!("kill sp:3@20".parse::<Scripted>().is_err());
    }
}

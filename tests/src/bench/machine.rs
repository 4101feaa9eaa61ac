//! What else the machine did while a bench ran.
//!
//! Source: proc_loadavg(5), proc_stat(5).

use std::fmt;
use std::fs::read_to_string;

/// Ticks of all processors together since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    all: u64,
    /// In which a hypervisor let somebody else run although this machine had work.
    stolen: u64,
}

/// When a bench began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine(Option<Ticks>);

/// How much else was going on, in words; what the system does not tell is left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Others {
    load: Option<String>,
    stolen: Option<f64>,
}

impl Machine {
    /// Begins to count now.
    pub(super) fn now() -> Self {
        Machine(read_to_string("/proc/stat").ok().and_then(|text| ticks(&text)))
    }

    /// What there was since then.
    pub(super) fn others(self) -> Others {
        let load = read_to_string("/proc/loadavg").ok();
        let load = load.map(|text| text.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
        Others { load, stolen: self.0.zip(Machine::now().0).and_then(|(before, now)| stolen(before, now)) }
    }
}

/// The ticks that the first line of `/proc/stat` tells.
fn ticks(text: &str) -> Option<Ticks> {
    let mut words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    // User, nice, system, idle, waiting for input or output, two kinds of interrupts, stolen; guests count as user.
    let mut kinds = [0; 8];
    for kind in &mut kinds {
        *kind = words.next()?.parse().ok()?;
    }
    Some(Ticks { all: kinds.iter().sum(), stolen: kinds[7] })
}

/// The part that was stolen, in percent.
fn stolen(before: Ticks, now: Ticks) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|&all| all > 0)?;
    Some(now.stolen.checked_sub(before.stolen)? as f64 / all as f64 * 100.0)
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = self.load.as_deref().unwrap_or("unknown");
        write!(f, "load average at the end {load}; stolen from this machine meanwhile ")?;
        match self.stolen {
            Some(part) => write!(f, "{part:.1} % of the time"),
            None => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_part_of_all_between_two_looks() {
        let before = ticks("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        assert_eq!(before, Some(Ticks { all: 100, stolen: 10 }), "guests are not counted twice");
        let now = ticks("cpu  20 0 20 100 10 5 5 40 9 0").unwrap_or_else(|| panic!("a line of ticks"));
        assert_eq!(before.and_then(|before| stolen(before, now)), Some(30.0));
        assert_eq!(stolen(now, now), None, "no time has passed");
        assert_eq!(ticks("cpu  10 0 10"), None);
    }

    #[test]
    fn the_words_say_what_is_not_known() {
        let said = |load: Option<&str>, stolen| Others { load: load.map(str::to_owned), stolen }.to_string();
        let known = "load average at the end 5.12 4.36 2.98; stolen from this machine meanwhile 3.3 % of the time";
        assert_eq!(said(Some("5.12 4.36 2.98"), Some(3.3)), known);
        assert_eq!(said(None, None), "load average at the end unknown; stolen from this machine meanwhile unknown");
        let here = Machine::now().others().to_string();
        assert!(
            !cfg!(target_os = "linux") || here.starts_with("load average at the end ") && !here.contains("end unknown")
        );
    }
}

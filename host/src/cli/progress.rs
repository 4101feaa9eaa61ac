//! What a running job shows on stderr: bars on a terminal, lines elsewhere.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use umbra::job::{Event, Phase};
use umbra::quantity::{Bytes, Count, Nanos};
use umbra_core::peer::{Peer, PeerKind};

use super::paint;

/// Agents that get a bar of their own.
const BARS_MAX: usize = 16;

/// Shows [`Event`]s.
pub(crate) enum Progress {
    /// Says nothing.
    Silent,
    /// One line a phase.
    Lines(Lines),
    /// Live bars.
    Bars(Bars),
}

impl Progress {
    pub(crate) fn silent() -> Progress {
        Progress::Silent
    }

    pub(crate) fn on_stderr(terminal: bool) -> Progress {
        if terminal { Progress::Bars(Bars::new()) } else { Progress::Lines(Lines::default()) }
    }

    pub(crate) fn tell(&mut self, event: &Event) {
        match self {
            Progress::Silent => {}
            Progress::Lines(lines) => lines.tell(event),
            Progress::Bars(bars) => bars.tell(event),
        }
    }

    /// Leaves the terminal clean.
    pub(crate) fn finish(&mut self) {
        if let Progress::Bars(bars) = self {
            // A terminal that went away is no reason to fail.
            let _ = bars.all.clear();
        }
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Says a line to whoever listens; a job does not fail because nobody does.
fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// One line a phase.
#[derive(Default)]
pub(crate) struct Lines {
    started: u64,
}

impl Lines {
    fn tell(&mut self, event: &Event) {
        match event {
            Event::Input { path, bytes, named } => {
                let why = if *named { "" } else { " (this executable: no --input was given)" };
                say(format_args!("{:>9}  reading {}, {}{why}", Nanos(0), path.display(), Bytes(*bytes)));
            }
            Event::Phase { phase, at } => say(format_args!("{:>9}  {}", nanos(*at), phase.text())),
            Event::Started { .. } => self.started += 1,
            Event::Planned { reads, bytes } => {
                let (started, reads, bytes) = (self.started, Count(*reads), Bytes(*bytes));
                say(format_args!("{:>9}  {started} processes run, {reads} reads of {bytes} in all to come", ""));
            }
            _ => {}
        }
    }
}

/// Live bars.
pub(crate) struct Bars {
    all: MultiProgress,
    phase: ProgressBar,
    reads: Option<ProgressBar>,
    agents: BTreeMap<u32, (ProgressBar, u64)>,
    planned: u64,
    processes: u64,
    ready: u64,
}

impl Bars {
    fn new() -> Bars {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(20));
        let phase = all.add(ProgressBar::new_spinner());
        phase.set_style(style("  {spinner:.cyan} {msg}"));
        turn(&phase, Duration::from_millis(80));
        Bars { all, phase, reads: None, agents: BTreeMap::new(), planned: 0, processes: 0, ready: 0 }
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::Input { path, bytes, named } => {
                let why = if *named { "" } else { " (this executable: no --input was given)" };
                let line = format!("  {} {}, {}{why}", paint::faint("input"), path.display(), Bytes(*bytes));
                let _ = self.all.println(paint::for_stderr(line));
            }
            Event::Phase { phase, at } => {
                self.ready = 0;
                self.phase.set_message(phase.text());
                if *phase > Phase::Random {
                    self.clear_reads();
                }
                let line = format!("  {} {:>8}  {}", paint::faint("at"), nanos(*at).to_string(), phase.text());
                let _ = self.all.println(paint::for_stderr(line));
            }
            Event::Started { .. } => self.processes += 1,
            Event::Ready { .. } => {
                self.ready += 1;
                self.phase.set_message(format!("{} of {} processes ready", self.ready, self.processes));
            }
            Event::Planned { reads, .. } => {
                self.planned = *reads;
                let bar = self.all.add(ProgressBar::new(*reads));
                bar.set_style(style("  {msg:>8}  {bar:40.cyan/dim} {percent:>3}%  {human_pos} of {human_len} reads"));
                bar.set_message("all");
                self.reads = Some(bar);
            }
            Event::Progress { peer, reads, bytes } => self.agent(*peer, *reads, *bytes),
            _ => {}
        }
    }

    fn agent(&mut self, peer: Peer, reads: u64, bytes: u64) {
        let PeerKind::Service(sp) = peer.kind() else { return };
        if let Some((bar, done)) = self.agents.get_mut(&sp.0) {
            *done = reads;
            bar.set_position(reads);
            bar.set_message(Bytes(bytes).to_string());
        } else {
            let bar = ProgressBar::new(0);
            // Behind the lines of the phase and of all reads, in the order of the agents.
            let place = 2 + self.agents.range(..sp.0).count();
            let bar = if self.agents.len() < BARS_MAX { self.all.insert(place, bar) } else { bar };
            bar.set_style(style("  {prefix:>8}  {bar:40.blue/dim} {percent:>3}%  {msg}"));
            bar.set_prefix(format!("agent {sp}"));
            self.agents.insert(sp.0, (bar, reads));
        }
        // Reads are planned for all agents together and are shared evenly.
        let share = self.planned / self.agents.len().max(1) as u64;
        for (bar, _) in self.agents.values() {
            bar.set_length(share.max(1));
        }
        if let Some(bar) = &self.reads {
            bar.set_position(self.agents.values().map(|(_, done)| done).sum());
        }
    }

    fn clear_reads(&mut self) {
        for (bar, _) in self.agents.values() {
            bar.finish_and_clear();
        }
        if let Some(bar) = self.reads.take() {
            bar.finish_and_clear();
        }
    }
}

/// Has a bar move by itself, where a thread can be had for that: indicatif panics without one.
pub(super) fn turn(bar: &ProgressBar, every: Duration) {
    if std::thread::Builder::new().spawn(|| ()).is_ok() {
        bar.enable_steady_tick(every);
    }
}

pub(super) fn style(template: &str) -> ProgressStyle {
    // A template that indicatif refuses would only cost the looks; the tests see to it that it does not.
    ProgressStyle::with_template(template).map_or_else(|_| ProgressStyle::default_bar(), |s| s.progress_chars("━━╌"))
}

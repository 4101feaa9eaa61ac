//! What the error output shows while a run goes on: how far the slowest rank is.

use std::io::{self, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::gather::Progress;
use crate::quantity::Count;

/// Lines of a run that shows lines.
const LINES: u64 = 10;

/// How it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Not at all.
    Nothing,
    /// As a line each tenth of the run.
    Lines,
    /// As a bar that grows.
    Bar,
}

impl Shown {
    /// A bar on a terminal; elsewhere lines, if somebody asks for them.
    #[must_use]
    pub fn on_stderr(is_quiet: bool, is_asked: bool) -> Shown {
        match (is_quiet, io::stderr().is_terminal(), is_asked) {
            (true, ..) | (false, false, false) => Shown::Nothing,
            (false, true, _) => Shown::Bar,
            (false, false, true) => Shown::Lines,
        }
    }
}

/// Shows how far a run is, and then another one.
#[derive(Debug)]
pub struct Watch {
    shown: Shown,
    bar: Option<ProgressBar>,
    what: &'static str,
    /// Time steps of each rank, and of the run.
    done: Vec<u32>,
    all: u32,
    lines: u64,
}

impl Watch {
    /// Of a run of so many ranks that tell how far they are, and so many time steps.
    #[must_use]
    pub fn new(shown: Shown, ranks: u32, cycles: u32) -> Watch {
        let mut watch = Watch { shown, bar: None, what: "", done: Vec::new(), all: cycles, lines: 0 };
        watch.begin(ranks, "time steps");
        watch
    }

    /// Another run, to compare with: as long, and of one rank.
    pub fn again(&mut self) {
        self.begin(1, "time steps of the dense run");
    }

    fn begin(&mut self, ranks: u32, what: &'static str) {
        (self.done, self.what, self.lines) = (vec![0; ranks as usize], what, 0);
        self.bar = (self.shown == Shown::Bar).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(20);
            let bar = ProgressBar::with_draw_target(Some(u64::from(self.all)), target);
            let template = "  {bar:40.cyan/dim} {percent:>3}%  {human_pos} of {human_len} {prefix}  {msg}";
            // A template that indicatif refuses would only cost the looks.
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("━━╌")));
            bar.set_prefix(what);
            bar
        });
    }

    /// A rank has got further.
    pub fn tell(&mut self, progress: Progress) {
        if let Some(cycles) = self.done.get_mut(progress.rank as usize) {
            *cycles = progress.cycles;
        }
        let (slowest, fastest) = (self.done.iter().min().copied(), self.done.iter().max().copied());
        let (slowest, fastest) = (slowest.unwrap_or(0), fastest.unwrap_or(0));
        if let Some(bar) = &self.bar {
            bar.set_position(u64::from(slowest));
            if fastest > slowest {
                bar.set_message(format!("the fastest rank has {}", Count(u64::from(fastest))));
            }
        }
        let lines = u64::from(slowest) * LINES / u64::from(self.all.max(1));
        if self.shown == Shown::Lines && lines > self.lines {
            self.lines = lines;
            let [slowest, all] = [slowest, self.all].map(|cycles| Count(u64::from(cycles)));
            // A run does not fail because nobody listens.
            let _ = writeln!(io::stderr(), "{slowest} of {all} {}", self.what);
        }
    }

    /// Leaves the terminal clean.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

//! What a run shows while it runs: the slowest rank's time steps.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use umbra::advect::{Options, Progress};
use umbra::quantity::Count;

/// A bar on a terminal, nothing elsewhere.
pub(super) struct Watch {
    terminal: bool,
    bar: Option<ProgressBar>,
    cycles: Vec<u32>,
}

impl Watch {
    pub(super) fn new(terminal: bool, options: &Options) -> Watch {
        let mut watch = Watch { terminal, bar: None, cycles: Vec::new() };
        watch.begin(options, "time steps");
        watch
    }

    /// Another run, to compare with.
    pub(super) fn again(&mut self, options: &Options) {
        self.begin(options, "time steps of the dense run");
    }

    fn begin(&mut self, options: &Options, what: &str) {
        self.cycles = vec![0; options.ranks as usize];
        self.bar = self.terminal.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(20);
            let bar = ProgressBar::with_draw_target(Some(u64::from(options.cycles)), target);
            let template = "  {bar:40.cyan/dim} {percent:>3}%  {human_pos} of {human_len} {prefix}  {msg}";
            // A template that indicatif refuses would only cost the looks.
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("━━╌")));
            bar.set_prefix(what.to_owned());
            bar
        });
    }

    pub(super) fn tell(&mut self, progress: Progress) {
        if let Some(cycles) = self.cycles.get_mut(progress.rank as usize) {
            *cycles = progress.cycles;
        }
        let Some(bar) = &self.bar else { return };
        let (slowest, fastest) = (self.cycles.iter().min().copied(), self.cycles.iter().max().copied());
        let (slowest, fastest) = (slowest.unwrap_or(0), fastest.unwrap_or(0));
        bar.set_position(u64::from(slowest));
        if fastest > slowest {
            bar.set_message(format!("the fastest rank has {}", Count(u64::from(fastest))));
        }
    }

    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

//! What a run shows while it runs, and what it remembers for the drawing.

use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use umbra::quantity::Count;
use umbra::report::{LINES_MAX, SlotSample, SlotUse, Stay};
use umbra::stencil::{Observe, Progress};

use crate::cli::outcome::nanos;
use crate::cli::paint;

/// Samples that are kept; then every second one is dropped, and the distance between them doubles.
const SAMPLES_MOST: usize = 1024;
/// Stays that are kept: more could not be told apart.
const STAYS_MOST: usize = 8192;
/// The first distance of samples.
const DISTANCE: Duration = Duration::from_micros(100);

/// Watches a run.
pub(super) struct Watch {
    bar: Option<ProgressBar>,
    drawing: bool,
    /// When the run showed the first sign: all times of the drawing count from there.
    start: Option<Instant>,
    distance: Duration,
    slot_use: SlotUse,
    /// The stay at hand of each slot that gets a line.
    at_hand: Vec<Option<Stay>>,
}

impl Watch {
    pub(super) fn new(terminal: bool, drawing: bool, slots: u32) -> Watch {
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(20));
            let style = ProgressStyle::with_template("  {bar:40.cyan/dim} {percent:>3}%  {msg}  {eta} left");
            // A template that indicatif refuses would only cost the looks.
            bar.set_style(style.map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("━━╌")));
            bar
        });
        let at_hand = vec![None; (slots as usize).min(LINES_MAX)];
        let slot_use = SlotUse::default();
        Watch { bar, drawing, start: None, distance: DISTANCE, slot_use, at_hand }
    }

    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// What was seen, until now.
    pub(super) fn into_slot_use(mut self) -> SlotUse {
        let until_ns = self.slot_use.samples.last().map_or(0, |last| last.at_ns);
        let at_hand = std::mem::take(&mut self.at_hand);
        self.slot_use.stays.extend(at_hand.into_iter().flatten().map(|stay| Stay { until_ns, ..stay }));
        self.slot_use
    }

    fn now(&mut self) -> u64 {
        nanos(self.start.get_or_insert_with(Instant::now).elapsed()).0
    }

    fn sample(&mut self, progress: &Progress) {
        let at_ns = self.now();
        let samples = &mut self.slot_use.samples;
        let since = samples.last().map_or(u64::MAX, |last| at_ns.saturating_sub(last.at_ns));
        if Duration::from_nanos(since) < self.distance && progress.done < progress.groups {
            return;
        }
        let Progress { loading, held, idle, empty, statistics, .. } = *progress;
        let uses = statistics.hits + statistics.joins + statistics.loads;
        samples.push(SlotSample { at_ns, slots: [loading, held, idle, empty], uses, loads: statistics.loads });
        if samples.len() > SAMPLES_MOST {
            let mut at = 0;
            samples.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.distance *= 2;
        }
    }
}

impl Observe for Watch {
    fn load(&mut self, slot: u32, data: u64) {
        let now = if self.drawing { self.now() } else { return };
        if let Some(place) = self.at_hand.get_mut(slot as usize) {
            let before = place.replace(Stay { slot, data, from_ns: now, until_ns: now, uses: 0 });
            if let Some(stay) = before.filter(|_| self.slot_use.stays.len() < STAYS_MOST) {
                self.slot_use.stays.push(Stay { until_ns: now, ..stay });
            }
        }
    }

    fn ready(&mut self, _: u64, slots: &[u32]) {
        if self.drawing {
            for &slot in slots {
                if let Some(Some(stay)) = self.at_hand.get_mut(slot as usize) {
                    stay.uses += 1;
                }
            }
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.groups);
            bar.set_position(progress.done);
            let (loads, of) = (Count(progress.statistics.loads), Count(progress.groups));
            bar.set_message(format!("{} of {of} bricks, {loads} loads", Count(progress.done)));
        }
        if self.drawing {
            self.sample(progress);
        }
    }

    fn late(&mut self, waited: Duration) {
        // Said at once: the run ends when what is under way is over, and that may take long.
        // Whether it can be said changes nothing.
        let _ = writeln!(anstream::stderr(), "{} nothing happened for {}", paint::bad("late:"), nanos(waited));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_and_samples_have_one_clock() {
        let mut watch = Watch::new(false, true, 1);
        // Threads are started, and so on: no time of the run.
        std::thread::sleep(Duration::from_millis(50));
        watch.progress(&Progress { groups: 1, ..Progress::default() });
        watch.load(0, 7);
        watch.progress(&Progress { groups: 1, done: 1, ..Progress::default() });
        let SlotUse { samples, stays } = watch.into_slot_use();
        assert_eq!((samples.len(), stays.len()), (2, 1));
        let (first, last, stay) = (samples[0].at_ns, samples[1].at_ns, stays[0]);
        assert!(first <= stay.from_ns && stay.from_ns <= stay.until_ns && stay.until_ns == last);
    }
}

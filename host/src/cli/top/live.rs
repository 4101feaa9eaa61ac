//! The live view: the terminal is taken, redrawn, and given back however it ends.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use umbra::quantity::Nanos;

use super::super::{Done, interrupt};
use super::agents::Watched;
use super::screen::{Next, Screen};
use super::seen::Seen;
use super::view::View;

/// How long a signal may go unnoticed.
const GLANCE: Duration = Duration::from_millis(100);

/// A terminal that is drawn on, until this is dropped.
struct Taken(ratatui::DefaultTerminal);

impl Taken {
    fn new() -> std::io::Result<Taken> {
        ratatui::try_init().map(Taken).inspect_err(|_| {
            let _ = ratatui::try_restore();
        })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // A terminal that went away needs nothing.
        let _ = ratatui::try_restore();
    }
}

/// Shows what there is, until the user or a signal ends it.
pub(super) fn watch(folder: &Path, mut watched: Watched<'_>, interval: Duration) -> Done {
    // What fails for good is said on a terminal that nobody draws on.
    let mut before = Seen::look(folder, &mut watched)?;
    let has_colors = anstream::stdout().current_choice() != anstream::ColorChoice::Never;
    let mut screen = Screen::new(has_colors);
    let mut signals = interrupt::signals()?;
    let about = format!("every {}", Nanos(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)));
    let mut view = View::of(&before, None);
    let mut taken = Taken::new()?;
    let mut next = Instant::now() + interval;
    loop {
        taken.0.draw(|frame| screen.draw(frame, &about, view.sections()))?;
        loop {
            if let Some(signal) = signals.pending().next() {
                return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)));
            }
            let now = Instant::now();
            if now >= next {
                break;
            }
            if event::poll(GLANCE.min(next - now))? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => match screen.on_key(key) {
                        Next::Stay => {}
                        Next::End => return Ok(ExitCode::SUCCESS),
                    },
                    _ => {}
                }
                // A key or another size is seen at once.
                taken.0.draw(|frame| screen.draw(frame, &about, view.sections()))?;
            }
        }
        next = Instant::now() + interval;
        if !screen.is_stopped {
            let now = Seen::look(folder, &mut watched)?;
            view = View::of(&now, Some(&before));
            before = now;
        }
    }
}

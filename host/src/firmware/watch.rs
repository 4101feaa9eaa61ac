//! Waiting for firmware while watching whether it lives.

use std::thread;
use std::time::{Duration, Instant};

use umbra_core::peer::Incarnation;
use umbra_core::ring::Backoff;
use umbra_core::window::{Beat, Phase, State, Window};

use super::{FirmwareError, Map, Patience};

/// How long to sleep between two looks at a board that has not started.
const PAUSE: Duration = Duration::from_millis(2);

/// The window, once the firmware in it serves.
pub(super) fn serving(map: &Map, patience: Patience) -> Result<Window<'_>, FirmwareError> {
    let begun = Instant::now();
    loop {
        match map.window() {
            Ok(window) => match window.state()?.phase() {
                Some(Phase::Serving) => return Ok(window),
                Some(Phase::Failed) => return Err(gave_up(&window.state()?)),
                _ => {}
            },
            Err(FirmwareError::Empty) => {}
            Err(error) => return Err(error),
        }
        if begun.elapsed() >= patience.deadline {
            return Err(FirmwareError::NotStarted { waited: patience.deadline });
        }
        thread::sleep(PAUSE);
    }
}

fn name(state: &State<'_>) -> String {
    let board = state.board();
    String::from_utf8_lossy(&board).trim_end_matches('\0').to_owned()
}

fn gave_up(state: &State<'_>) -> FirmwareError {
    FirmwareError::GaveUp { board: name(state), beats: state.beat().count }
}

/// One life of the firmware, and when it last showed that it goes on.
#[derive(Debug)]
pub(super) struct Watch<'m> {
    state: State<'m>,
    patience: Patience,
    life: Incarnation,
    /// The last heartbeat that was seen, and when it was new.
    seen: (Beat, Instant),
}

impl<'m> Watch<'m> {
    pub(super) fn new(state: State<'m>, patience: Patience) -> Self {
        Watch { life: state.life(), seen: (state.beat(), Instant::now()), state, patience }
    }

    pub(super) fn board(&self) -> String {
        name(&self.state)
    }

    pub(super) const fn life(&self) -> Incarnation {
        self.life
    }

    pub(super) fn beat(&self) -> Beat {
        self.state.beat()
    }

    pub(super) fn stack(&self) -> (u64, u64) {
        self.state.stack()
    }

    pub(super) fn counters(&self) -> (u64, u64) {
        self.state.counters()
    }

    /// Polls until there is something, the firmware is gone, or the deadline has passed.
    pub(super) fn until<T>(
        &mut self,
        what: &'static str,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, FirmwareError> {
        // Whoever waits again after a pause has not watched meanwhile.
        self.seen.1 = Instant::now();
        let begun = self.seen.1;
        loop {
            let mut backoff = Backoff::new();
            while !backoff.spent() {
                if let Some(found) = poll() {
                    return Ok(found);
                }
                backoff.spin();
            }
            thread::yield_now();
            self.check()?;
            if begun.elapsed() >= self.patience.deadline {
                return Err(FirmwareError::Late { board: self.board(), what, deadline: self.patience.deadline });
            }
        }
    }

    /// Whether the firmware is the one that this process attached to. What lies in the window of another life is not this
    /// process's to read or write.
    pub(super) fn same_life(&self) -> Result<(), FirmwareError> {
        if self.state.life() == self.life { Ok(()) } else { Err(FirmwareError::Restarted { board: self.board() }) }
    }

    /// Whether it is, and lives.
    fn check(&mut self) -> Result<(), FirmwareError> {
        self.same_life()?;
        if self.state.phase() == Some(Phase::Failed) {
            return Err(gave_up(&self.state));
        }
        let (beat, now) = (self.state.beat(), Instant::now());
        if beat != self.seen.0 {
            self.seen = (beat, now);
            return Ok(());
        }
        let silent = now - self.seen.1;
        if silent < self.patience.silence {
            return Ok(());
        }
        Err(FirmwareError::Stopped { board: self.board(), beats: beat.count, last: beat.at, silent })
    }
}

//! The image: a station over the window, on a board without an operating system.
//!
//! Start code, board and console are here; what it does is [`umbra_dpu::station`]. Everything is static. It tests
//! itself first, because a processor whose memory is set up wrongly fails in atomics long before it fails elsewhere.
//! `cargo xtask firmware` builds it, starts it and puts it to the test; see docs/firmware.md.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(unsafe_code)]

#[cfg(target_os = "none")]
// Registers and start code.
#[allow(unsafe_code)]
mod board;
#[cfg(all(target_os = "none", feature = "defmt"))]
// The logger that `defmt` asks for.
#[allow(unsafe_code)]
mod log;
#[cfg(target_os = "none")]
mod self_test;
#[cfg(target_os = "none")]
#[allow(unsafe_code)]
mod start;

#[cfg(target_os = "none")]
mod image {
    use core::fmt::Write as _;

    use spin::{Mutex, MutexGuard};
    use umbra_core::atomic::Ordering;
    use umbra_core::cell::CellError;
    use umbra_core::peer::Sp;
    use umbra_core::time::{Lapse, Time};
    use umbra_core::window::{Phase, State, Window, WindowError};
    use umbra_dpu::station::{Station, Storage, TABLE, life_of};

    use crate::board::{self, Console};
    use crate::{self_test, start};

    /// The number of the service process that this image is.
    const ME: Sp = Sp(0);
    /// How often the stack is measured.
    const MEASURE: Lapse = Lapse::from_millis(500);

    static STORAGE: Mutex<Storage> = Mutex::new(Storage::new());
    static CHECKED: Mutex<[u8; TABLE]> = Mutex::new([0; TABLE]);
    /// For whoever ends this life: where to say so.
    static STATE: Mutex<Option<State<'static>>> = Mutex::new(None);

    /// Tests the machine, then serves for ever.
    pub(crate) fn run() -> ! {
        let _ = writeln!(Console, "umbra-firmware {} on {}", env!("CARGO_PKG_VERSION"), name());
        let (window, state) = match begin() {
            Ok(begun) => begun,
            Err(error) => {
                let _ = writeln!(Console, "umbra-firmware: {error}");
                give_up()
            }
        };
        #[cfg(feature = "defmt")]
        crate::log::into(window.log());
        state.enter(Phase::Testing);
        if let Err(failure) = self_test::run() {
            let _ = writeln!(Console, "umbra-firmware: self-test: {failure}");
            give_up()
        }
        let _ = writeln!(Console, "umbra-firmware: {} self-tests passed", self_test::COUNT);
        let (Some(storage), Some(checked)) = (STORAGE.try_lock(), CHECKED.try_lock()) else { give_up() };
        match Station::new(ME, &window, MutexGuard::leak(storage), MutexGuard::leak(checked)) {
            Ok(station) => serve(station, state),
            Err(error) => {
                let _ = writeln!(Console, "umbra-firmware: {error}");
                give_up()
            }
        }
    }

    /// A window for a new life.
    fn begin() -> Result<(Window<'static>, State<'static>), WindowError> {
        let memory = start::window().ok_or(CellError::Unaligned)?;
        // The last word carries what no two starts have in common, if whoever made the memory put it there.
        let seed = memory.words(memory.len() - 8, 1)?;
        let former = seed.iter().fold(board::ticks().0, |seed, word| seed ^ word.load(Ordering::Relaxed));
        let life = life_of(former);
        seed.iter().for_each(|word| word.store(life.0, Ordering::Relaxed));
        let window = Window::create(memory, board::NAME, life)?;
        let state = window.state()?;
        if let Some(mut slot) = STATE.try_lock() {
            *slot = Some(state);
        }
        Ok((window, state))
    }

    fn serve(mut station: Station<'static, 'static>, state: State<'static>) -> ! {
        let mut measured = Time::ZERO;
        loop {
            let now = board::now();
            if now >= measured + MEASURE {
                measured = now;
                let (size, used) = start::stack();
                state.set_stack(size, used);
            }
            station.step(now);
        }
    }

    /// Ends this life: hosts learn from the phase, and from the heartbeat that stops.
    pub(crate) fn give_up() -> ! {
        if let Some(state) = STATE.try_lock().and_then(|state| *state) {
            state.enter(Phase::Failed);
        }
        board::halt()
    }

    fn name() -> &'static str {
        core::str::from_utf8(&board::NAME).unwrap_or("an unnamed board")
    }
}

#[cfg(target_os = "none")]
use image::{give_up, run};

#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    eprintln!("this is firmware: `cargo xtask firmware` builds it for its boards and starts it");
    std::process::ExitCode::from(2)
}

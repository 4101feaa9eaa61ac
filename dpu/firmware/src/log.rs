//! The log: `defmt` frames into the journal in the window.
//!
//! One core and no interrupts, so nobody else logs between acquiring and releasing; what is logged before there is a
//! window is dropped.

use defmt::{Encoder, Logger, global_logger};
use spin::Mutex;
use umbra_core::ring::journal::{Journal, Writer};
use umbra_core::window::WindowError;

use crate::board;

struct Sink {
    encoder: Encoder,
    journal: Option<Writer<'static>>,
}

static SINK: Mutex<Sink> = Mutex::new(Sink { encoder: Encoder::new(), journal: None });

/// From now on statements go into this journal.
pub(crate) fn into(journal: Result<Journal<'static>, WindowError>) {
    if let (Some(mut sink), Ok(journal)) = (SINK.try_lock(), journal) {
        sink.journal = Some(journal.writer());
    }
}

defmt::timestamp!("{=u64:us}", board::now().0 / 1_000);

impl Sink {
    fn with(step: impl FnOnce(&mut Encoder, &mut dyn FnMut(&[u8]))) {
        if let Some(mut sink) = SINK.try_lock() {
            let Sink { encoder, journal } = &mut *sink;
            step(encoder, &mut |bytes| {
                if let Some(journal) = journal {
                    journal.write(bytes);
                }
            });
        }
    }
}

#[global_logger]
struct Window;

// SAFETY: one core and no interrupts: between `acquire` and `release` no other statement can begin.
unsafe impl Logger for Window {
    fn acquire() {
        Sink::with(|encoder, write| encoder.start_frame(write));
    }

    unsafe fn flush() {}

    unsafe fn release() {
        Sink::with(|encoder, write| encoder.end_frame(write));
    }

    unsafe fn write(bytes: &[u8]) {
        Sink::with(|encoder, write| encoder.write(bytes, write));
    }
}

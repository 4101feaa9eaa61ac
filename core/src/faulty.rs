//! A transport around another one that loses, repeats, delays and breaks.
//!
//! What goes wrong is decided by a seed, so a run that fails fails again. Frames are lost, doubled, or held
//! back for some polls, which lets later ones overtake them; reads and writes end with
//! [`Status::QueueBroken`] without having happened; and a [`crash`](Faulty::crash) silences the end for
//! good. Without faults it changes nothing.

use crate::error::Status;
use crate::peer::Peer;
use crate::transport::{Caps, Event, PostError, Transport, Work};
use crate::wire::{Frame, HEAD, INLINE, Token};

/// How often things go wrong, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// A frame disappears.
    pub loss: u16,
    /// A frame arrives twice.
    pub duplicate: u16,
    /// A frame is held back; those behind it overtake it.
    pub delay: u16,
    /// For how many polls at most it is held back.
    pub polls: u8,
    /// A read or a write ends with [`Status::QueueBroken`] and did not happen.
    pub broken: u16,
}

/// Room for one frame or completion that is held back; lent by the caller.
#[derive(Clone, Debug)]
pub struct Held(Option<Late>);

impl Held {
    /// Nothing.
    pub const EMPTY: Held = Held(None);
}

#[derive(Clone, Debug)]
struct Late {
    polls: u8,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Frame { to: Peer, bytes: [u8; HEAD + INLINE], len: usize },
    Done { token: Token, status: Status },
}

/// The wrapper.
#[derive(Debug)]
pub struct Faulty<T, H> {
    inner: T,
    held: H,
    faults: Faults,
    random: u64,
    crashed: bool,
}

impl<T: Transport, H: AsRef<[Held]> + AsMut<[Held]>> Faulty<T, H> {
    /// Wraps `inner`; `held` is the room for what is late, without which nothing is delayed or broken.
    pub fn new(inner: T, held: H, faults: Faults, seed: u64) -> Self {
        // xorshift stands still at zero.
        Faulty { inner, held, faults, random: seed | 1, crashed: false }
    }

    /// From now on this end sends nothing and hears nothing.
    pub const fn crash(&mut self) {
        self.crashed = true;
    }

    /// The transport inside.
    pub const fn inner(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The next number of this seed.
    const fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    const fn happens(&mut self, thousandths: u16) -> bool {
        // Nothing is drawn for what never happens, so a transparent wrapper is transparent.
        thousandths > 0 && self.next() % 1000 < thousandths as u64
    }

    fn hold(&mut self, polls: u8, what: What) -> bool {
        let free = self.held.as_mut().iter_mut().find(|held| held.0.is_none());
        free.map(|held| held.0 = Some(Late { polls, what })).is_some()
    }
}

impl<T: Transport, H: AsRef<[Held]> + AsMut<[Held]>> Transport for Faulty<T, H> {
    fn post(&mut self, to: Peer, work: Work<'_>, token: Token) -> Result<(), PostError> {
        if self.crashed {
            return Err(PostError::Gone);
        }
        let faults = self.faults;
        let Work::Send(frame) = work else {
            if self.happens(faults.broken) && self.hold(0, What::Done { token, status: Status::QueueBroken }) {
                return Ok(());
            }
            return self.inner.post(to, work, token);
        };
        if frame.len_bytes() > self.inner.caps().frame_max {
            return Err(PostError::TooLong);
        }
        if self.happens(faults.loss) {
            return Ok(());
        }
        if self.happens(faults.duplicate) {
            self.inner.post(to, work, token)?;
        }
        if self.happens(faults.delay) {
            let polls = (self.next() % (u64::from(faults.polls) + 1)) as u8;
            let mut bytes = [0; HEAD + INLINE];
            if let Ok(len) = frame.emit(&mut bytes)
                && self.hold(polls, What::Frame { to, bytes, len })
            {
                return Ok(());
            }
        }
        self.inner.post(to, work, token)
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        if self.crashed {
            return 0;
        }
        let mut told = 0;
        for held in self.held.as_mut() {
            let Some(late) = &mut held.0 else { continue };
            if late.polls > 0 {
                late.polls -= 1;
                continue;
            }
            match &late.what {
                What::Done { token, status } => {
                    sink(Event::Done { token: *token, status: *status });
                    told += 1;
                }
                What::Frame { to, bytes, len } => {
                    let frame = Frame::parse(bytes.get(..*len).unwrap_or(&[]));
                    let full =
                        frame.is_ok_and(|f| self.inner.post(*to, Work::Send(f), Token(0)) == Err(PostError::Full));
                    // It stays late while there is no room.
                    if full {
                        continue;
                    }
                }
            }
            *held = Held::EMPTY;
        }
        told + self.inner.poll(sink)
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }
}

//! Processes that talk through streams until killed; the others bury them.

use std::fmt::Display;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;

use umbra::channel::Timeout;
use umbra::stream::{Adapter, ReceiveOptions, SendOptions};
use umbra::sys::clock;
use umbra::sys::futex::Futex;
use umbra::sys::process::ProcessId;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::channel::Patience;
use umbra_core::crew::{Crew, Member};
use umbra_core::event::SPIN;
use umbra_core::stream::{Class, Conversation, Counts, End, Mode, ReadError, Shape, Streams, WriteError};
use umbra_core::time::Lapse;

use super::cache::identity;
use super::heap::Proc;

/// The roles, on a command line: both ends of conversations in a hall, and one end at an adapter.
pub const SENDER: &str = "stream-sender";
/// Receives in a hall.
pub const RECEIVER: &str = "stream-receiver";
/// Sends a little through an adapter, and then nothing, without end.
pub const TALKER: &str = "stream-talker";
/// Receives a little through an adapter, and then nothing, without end.
pub const LISTENER: &str = "stream-listener";
/// What a [`TALKER`] says before it is silent.
pub const SAID: &[u8] = b"something was said";

/// Few and small, so that they are full all the time.
const SHAPE: Shape = Shape { mode: Mode::Nominal, streams: 3, ring: 256, messages: 2, block: 100 };
const MEMBERS: u16 = 10;
const PROGRESS: usize = 16;
const CREW: usize = PROGRESS * MEMBERS as usize;
const STREAMS: usize = CREW + Crew::words_for(MEMBERS);
/// Longer than the others may be in the way, and than a test may be held up by other work of the machine.
const PATIENCE: Lapse = Lapse::from_secs(60);

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Words of a segment in which children talk.
///
/// # Errors
/// Never, unless the numbers above do not go together.
pub fn words() -> Result<usize, String> {
    Ok(STREAMS + SHAPE.words().map_err(text)?)
}

/// The segment as parent and children see it: progress, who is there, and conversations.
#[derive(Clone, Copy, Debug)]
pub struct Hall<'a> {
    progress: &'a [AtomicU64],
    crew: Crew<'a>,
    streams: Streams<'a>,
}

impl<'a> Hall<'a> {
    /// Looks at a segment of [`words`] words; makes it a hall if `is_new`.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(memory: BytesMut<'a>, is_new: bool) -> Result<Hall<'a>, String> {
        let words = memory.words(0, STREAMS).map_err(text)?;
        let rest = memory.part(STREAMS * 8, memory.len() - STREAMS * 8).map_err(text)?;
        let streams = if is_new { Streams::create(rest, SHAPE) } else { Streams::attach(rest) };
        let (progress, crew) = words.split_at(CREW);
        Ok(Hall { progress, crew: Crew::attach(crew), streams: streams.map_err(text)? })
    }

    /// Steps of all who ever had this number on their command line.
    #[must_use]
    pub fn progress(&self, number: u8) -> u64 {
        self.progress[PROGRESS * usize::from(number)].load(Ordering::Relaxed)
    }

    fn step(&self, number: u8) {
        self.progress[PROGRESS * usize::from(number)].fetch_add(1, Ordering::Relaxed);
    }

    /// This process in the hall.
    ///
    /// # Errors
    /// If too many are there.
    pub fn join(&self) -> Result<Member, String> {
        self.crew.join(identity(ProcessId::current().map_err(text)?)).map_err(text)
    }

    /// Takes back what everybody held who does not live any more; how many they were.
    ///
    /// # Errors
    /// If something is left after that.
    pub fn bury(&self, by: Member) -> Result<usize, String> {
        let buried = self.crew.bury_dead(by.number, &Proc, |dead| {
            self.streams.reclaim(dead.number, |_| ());
            match self.streams.reclaim(dead.number, |_| ()) {
                again if again == Default::default() => Ok(()),
                again => Err(format!("the first time left {again:?}")),
            }
        });
        self.streams.tell_all(&Futex);
        buried
    }

    /// With everybody dead and buried, what waits is received; then every place must be free.
    ///
    /// # Errors
    /// What is not as it should be.
    pub fn at_rest(&self, by: Member) -> Result<(), String> {
        while let Some(met) = self.streams.table().meet(by.number) {
            self.hear(by, met, |_| ())?;
        }
        let free = Counts { idle: SHAPE.streams as usize, room: SHAPE.messages as usize, ..Counts::default() };
        let counts = self.streams.table().counts();
        if counts == free { Ok(()) } else { Err(format!("{counts:?}")) }
    }

    /// Reads a conversation, now and then not to its end, and checks it.
    fn hear(&self, by: Member, met: Conversation, mut step: impl FnMut(u64)) -> Result<(), String> {
        let mut inlet = self.streams.inlet(met, by.number).ok_or("no such place")?;
        let (mut all, mut number) = (vec![], None);
        let mut pad = [0; 70];
        let end = loop {
            match inlet.wait(&Futex, patience(all.len() as u64), |inlet| inlet.read(&mut pad)) {
                Ok(piece) => {
                    all.extend(&pad[..piece.len]);
                    if number.is_some_and(|number| number != piece.arg) {
                        return Err(format!("conversations {number:?} and {} are mixed", piece.arg));
                    }
                    number = Some(piece.arg);
                    inlet.tell(&Futex);
                    step(piece.arg);
                    if piece.arg % 16 == 7 && all.len() > 300 {
                        break None;
                    }
                }
                Err(end @ (ReadError::Ended | ReadError::PeerDead)) => break Some(end),
                Err(error) => return Err(format!("conversation {number:?} after {} bytes: {error}", all.len())),
            }
        };
        let outcome = inlet.leave(|_| ());
        self.streams.tell(met, outcome, &Futex);
        let whole = number.map(content).unwrap_or_default();
        let is_right = if end == Some(ReadError::Ended) { all == whole } else { whole.starts_with(&all) };
        if is_right { Ok(()) } else { Err(format!("conversation {number:?} is not what was said")) }
    }
}

/// The bytes of a conversation: a few, more than a ring holds, or as many as a message may have.
fn content(n: u64) -> Vec<u8> {
    let len = if n.is_multiple_of(3) { n % 101 } else { n % 1500 };
    (0..len).map(|at| (n.wrapping_mul(0x9e37_79b9) >> 8).wrapping_add(at * 3) as u8).collect()
}

/// All ways to wait, in turn.
fn patience(turn: u64) -> Patience {
    let spins = [0, 200, SPIN][(turn % 3) as usize];
    Patience { spins, deadline: clock::now() + PATIENCE }
}

/// Talks until killed.
///
/// # Errors
/// What is impossible and was seen.
pub fn send(hall: Hall<'_>, number: u8) -> Result<(), String> {
    let me = hall.join()?;
    let table = hall.streams.table();
    for n in 0_u64.. {
        let class = if n.is_multiple_of(3) { Class::Message } else { Class::Stream };
        let Patience { spins, deadline } = patience(n);
        let claim = || table.claim(me.number, class, false);
        let begun = table.manager().wait(&Futex, spins, deadline, claim).ok_or("no place became free")?;
        let mut outlet = hall.streams.outlet(begun, me.number).ok_or("no such place")?;
        if class == Class::Stream && outlet.deposit() {
            table.main().notify(&Futex);
        }
        let bytes = content(n);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match outlet.wait(&Futex, patience(n), |outlet| outlet.write(rest, n, false)) {
                Ok(written) => rest = &rest[written..],
                Err(WriteError::Unheard | WriteError::PeerDead) => break,
                Err(error) => return Err(format!("conversation {n}: {error}")),
            }
            outlet.tell(&Futex);
            hall.step(number);
        }
        let outcome = outlet.end(End::Complete, |_| ());
        hall.streams.tell(begun, outcome, &Futex);
        hall.step(number);
    }
    Ok(())
}

/// Listens until killed.
///
/// # Errors
/// What is impossible and was seen.
pub fn receive(hall: Hall<'_>, number: u8) -> Result<(), String> {
    let me = hall.join()?;
    let table = hall.streams.table();
    for turn in 0_u64.. {
        let Patience { spins, deadline } = patience(turn);
        let met = table.main().wait(&Futex, spins, deadline, || table.meet(me.number));
        hall.hear(me, met.ok_or("nobody talks")?, |_| hall.step(number))?;
        hall.step(number);
    }
    Ok(())
}

/// Says a little, and is silent until killed.
///
/// # Errors
/// If the adapter is none.
pub fn talk(adapter: OwnedFd) -> Result<(), String> {
    let adapter = Adapter::attach(adapter, []).map_err(text)?;
    let mut sender = adapter.send(&SendOptions::default(), Timeout::Never).map_err(text)?;
    sender.write_all(SAID).map_err(text)?;
    loop {
        thread::park();
    }
}

/// Hears a little, and is idle until killed.
///
/// # Errors
/// If the adapter is none.
pub fn listen(adapter: OwnedFd) -> Result<(), String> {
    let adapter = Adapter::attach(adapter, []).map_err(text)?;
    let mut receiver = adapter.receive(&ReceiveOptions::default(), Timeout::Never).map_err(text)?;
    receiver.receive(Timeout::Never).map_err(text)?;
    loop {
        thread::park();
    }
}

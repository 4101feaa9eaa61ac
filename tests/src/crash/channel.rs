//! Processes that send and receive through a channel until they are killed.

use umbra::sys::clock;
use umbra::sys::futex::Futex;
use umbra_core::atomic::Ordering;
use umbra_core::channel::{Header, Messages, Patience, Port, ReceiveError, Received, Shape};
use umbra_core::event::SPIN;
use umbra_core::time::Lapse;

use super::{Arena, CAPACITY, MESSAGES, NEXT};

/// With a spare for each process that may be stopped.
pub const SHAPE: Shape = Shape { capacity: CAPACITY as u32, spares: 4, block: BLOCK as u32 };
/// Bytes of the longest message.
const BLOCK: usize = 200;
/// Longer than the others may be in the way, and than a test may be held up by other work of the machine.
const PATIENCE: Lapse = Lapse::from_secs(60);

/// The bytes of message `n`: their number differs, and each says where it belongs.
fn content(n: u64) -> Vec<u8> {
    let len = n % BLOCK as u64;
    (0..len).map(|at| (n.wrapping_mul(0x9e37_79b9) >> 8).wrapping_add(at * 3) as u8).collect()
}

/// All ways to wait, in turn.
fn patience(turn: u64) -> Patience {
    let spins = [0, 200, SPIN][(turn % 3) as usize];
    Patience { spins, deadline: clock::now() + PATIENCE }
}

/// The channel in the arena.
///
/// # Errors
/// If it is none.
pub fn attach(arena: Arena<'_>) -> Result<Messages<'_>, String> {
    Messages::attach(arena.structure_bytes()?).map_err(|e| e.to_string())
}

/// Notes a message, and checks that it is whole and new.
///
/// # Errors
/// What is impossible and was seen.
pub fn note(arena: Arena<'_>, received: Received, bytes: &[u8]) -> Result<(), String> {
    let Header { hints, sender, handle, .. } = received.header;
    if bytes != content(hints) || handle != [!hints, sender ^ hints] {
        return Err(format!("torn message {hints} of sender {sender}: {bytes:02x?}"));
    }
    arena.receive(hints)
}

/// Sends until killed.
///
/// # Errors
/// What is impossible and was seen.
pub(super) fn send(arena: Arena<'_>, number: u8) -> Result<(), String> {
    let port = Port::new(attach(arena)?, number.into(), Futex);
    loop {
        let n = arena.words[NEXT].fetch_add(1, Ordering::Relaxed);
        if n >= MESSAGES as u64 {
            return Err("ran out of numbers".to_owned());
        }
        let sender = u64::from(number);
        let header = Header { hints: n, sender, handle: [!n, sender ^ n], flags: number.into() };
        port.send(header, &content(n), patience(n)).map_err(|e| format!("message {n}: {e}"))?;
        arena.step(number);
    }
}

/// Receives until killed, in all the ways there are.
///
/// # Errors
/// What is impossible and was seen.
pub(super) fn receive(arena: Arena<'_>, number: u8) -> Result<(), String> {
    let port = Port::new(attach(arena)?, number.into(), Futex);
    let mut last = [None; 256];
    for turn in 0_u64.. {
        let mut pad = [0; BLOCK];
        let received = match turn % 4 {
            0 => port.take(patience(turn)).map_err(|e| e.to_string()).and_then(|lent| {
                lent.copy_to(&mut pad).map_err(|e| e.to_string())?;
                Ok(lent.received())
            })?,
            1 => {
                // Somebody else may receive what was seen.
                port.peek(&mut pad, patience(turn)).map_err(|e| e.to_string())?;
                match port.try_receive(&mut pad) {
                    Err(ReceiveError::Empty) => continue,
                    done => done.map_err(|e| e.to_string())?,
                }
            }
            _ => port.receive(&mut pad, patience(turn)).map_err(|e| e.to_string())?,
        };
        note(arena, received, &pad[..received.len])?;
        // Numbers are handed out in order, so those of one sender grow, also across its successors.
        let Header { hints, sender, .. } = received.header;
        let last = last.get_mut(sender as usize).ok_or("no such sender")?;
        if last.is_some_and(|last| last >= hints) {
            return Err(format!("sender {sender}: message {hints} came after {last:?}"));
        }
        *last = Some(hints);
        arena.step(number);
    }
    Ok(())
}

/// What is left with everybody dead and buried is received; then the channel must be as good as new. The messages that
/// were lost with those who held them.
///
/// # Errors
/// What is not as it should be.
pub fn at_rest(arena: Arena<'_>) -> Result<u64, String> {
    let messages = attach(arena)?;
    let mut pad = [0; BLOCK];
    while !messages.queue().is_empty() {
        let received = messages.receive(9, &mut pad).map_err(|e| e.to_string())?;
        note(arena, received, &pad[..received.len])?;
    }
    let free = messages.queue().free_slots();
    if free != CAPACITY + SHAPE.spares as usize {
        return Err(format!("only {free} slots are free"));
    }
    for n in 0..CAPACITY {
        messages.send(9, Header::default(), b"again").map_err(|e| format!("message {n} into an empty channel: {e}"))?;
    }
    if messages.send(9, Header::default(), b"").is_ok() {
        return Err("more messages than there is capacity for".to_owned());
    }
    let (numbered, received) = arena.messages();
    Ok(numbered - received)
}

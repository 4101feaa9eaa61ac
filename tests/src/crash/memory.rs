//! Processes that hand memory of a pool to each other until they are killed.
//!
//! The memory goes through streams or a channel.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use umbra::channel::{self, Channel, Timeout, WaitMode};
use umbra::pool::{Allocation, Pool};
use umbra::reference::from_text;
use umbra::stream::{Adapter, Error, ReceiveOptions, SendOptions};

/// The roles, on a command line.
pub const GIVER: &str = "memory-giver";
/// Receives memory, checks it and frees it.
pub const TAKER: &str = "memory-taker";
/// The same two, with a channel.
pub const POSTER: &str = "memory-poster";
/// Receives memory, or what it contains.
pub const GETTER: &str = "memory-getter";
/// Longer than the others may be in the way, and than a test may be held up by other work of the machine.
const PATIENCE: Duration = Duration::from_secs(60);
const WAIT: Timeout = Timeout::After(PATIENCE);
/// Bytes of the board: a counter for each number on a command line.
pub const BOARD: u64 = 8 * 16;

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Steps of all who ever had this number on their command line.
///
/// # Errors
/// If the board is gone.
pub fn progress(board: &Allocation<'_>, number: u8) -> Result<u64, String> {
    let mut bytes = [0; 8];
    board.read(8 * u64::from(number), &mut bytes).map_err(text)?;
    Ok(u64::from_le_bytes(bytes))
}

fn step(board: &Allocation<'_>, number: u8) -> Result<(), String> {
    let next = progress(board, number)? + 1;
    board.write(8 * u64::from(number), &next.to_le_bytes()).map_err(text)
}

fn content(arg: u64) -> Vec<u8> {
    let len = 1 + arg.wrapping_mul(37) % 1000;
    (0..len).map(|at| (arg.wrapping_mul(0x9e37_79b9) >> 8).wrapping_add(at * 3) as u8).collect()
}

/// Hands over what it allocates in the pool of the board until killed.
///
/// # Errors
/// What is impossible and was seen.
pub fn give(adapter: OwnedFd, number: u8, board: &str) -> Result<(), String> {
    let named = from_text(board).map_err(text)?;
    let pool = Arc::new(Pool::attach_reference(&named).map_err(text)?);
    let board = pool.allocation_of(&named).map_err(text)?;
    let adapter = Adapter::attach(adapter, [pool.clone()]).map_err(text)?;
    for turn in 0_u64.. {
        let mut sender = adapter.send(&SendOptions::default(), WAIT).map_err(text)?;
        for part in 0..turn % 7 {
            let arg = turn << 8 | part;
            let bytes = content(arg);
            let memory = pool.alloc_within(bytes.len() as u64, 1, PATIENCE).map_err(text)?;
            memory.write(0, &bytes).map_err(text)?;
            match sender.send_memory(memory, arg, WAIT) {
                Ok(()) => step(&board, number)?,
                Err(Error::Unheard | Error::PeerDead) => {
                    memory.free().map_err(|error| format!("what was not sent is no longer ours: {error}"))?;
                    break;
                }
                Err(error) => return Err(format!("part {part} of {turn}: {error}")),
            }
        }
        match sender.close(WAIT) {
            Ok(()) | Err(Error::Unheard | Error::PeerDead) => step(&board, number)?,
            Err(error) => return Err(format!("end of {turn}: {error}")),
        }
    }
    Ok(())
}

/// Takes, checks and frees memory until killed; now and then it leaves before the end.
///
/// # Errors
/// What is impossible and was seen.
pub fn take(adapter: OwnedFd, number: u8, board: &str) -> Result<(), String> {
    let named = from_text(board).map_err(text)?;
    let pool = Arc::new(Pool::attach_reference(&named).map_err(text)?);
    let board = pool.allocation_of(&named).map_err(text)?;
    let adapter = Adapter::attach(adapter, [pool.clone()]).map_err(text)?;
    loop {
        let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).map_err(text)?;
        loop {
            let received = match receiver.receive_memory(WAIT) {
                Ok(received) => received,
                Err(Error::Ended | Error::PeerDead) => break,
                Err(error) => return Err(text(error)),
            };
            let arg = received.arg;
            let mut bytes = vec![0; received.memory.len() as usize];
            received.memory.read(0, &mut bytes).map_err(text)?;
            if bytes != content(arg) || received.is_lent {
                return Err(format!("message {arg:#x} is not what was sent"));
            }
            received.memory.free().map_err(|error| format!("message {arg:#x} is somebody else's: {error}"))?;
            step(&board, number)?;
            if arg % 64 == 35 {
                break;
            }
        }
        drop(receiver);
        step(&board, number)?;
    }
}

/// Posts what it allocates in the pool of the board to a channel until killed: all of it, or a part.
///
/// # Errors
/// What is impossible and was seen.
pub fn post(channel: OwnedFd, number: u8, board: &str) -> Result<(), String> {
    let named = from_text(board).map_err(text)?;
    let pool = Arc::new(Pool::attach_reference(&named).map_err(text)?);
    let board = pool.allocation_of(&named).map_err(text)?;
    let channel = Channel::attach_with(channel, [pool.clone()]).map_err(text)?;
    let sender = channel.sender(channel::SendOptions::default()).map_err(text)?;
    for turn in 0_u64.. {
        let bytes = content(turn);
        let memory = pool.alloc_within(bytes.len() as u64, 1, PATIENCE).map_err(text)?;
        memory.write(0, &bytes).map_err(text)?;
        // So that some find no room, and are the caller's still.
        match sender.send_memory(memory, turn, if turn % 2 == 0 { WAIT } else { Timeout::Now }) {
            Ok(()) if memory.exists() => return Err(format!("{turn} was sent and is ours still")),
            Ok(()) => step(&board, number)?,
            Err(channel::Error::Full) => memory.free().map_err(|error| format!("{turn} was not sent: {error}"))?,
            Err(error) => return Err(format!("{turn}: {error}")),
        }
    }
    Ok(())
}

/// Receives from a channel until killed: memory as it is, its bytes, or not at all.
///
/// # Errors
/// What is impossible and was seen.
pub fn get(channel: OwnedFd, number: u8, board: &str) -> Result<(), String> {
    let named = from_text(board).map_err(text)?;
    let pool = Arc::new(Pool::attach_reference(&named).map_err(text)?);
    let board = pool.allocation_of(&named).map_err(text)?;
    let channel = Channel::attach_with(channel, [pool.clone()]).map_err(text)?;
    let receiver = channel.receiver(WaitMode::Adaptive).map_err(text)?;
    for turn in 0_u64.. {
        let mut bytes = vec![0; 1000];
        let message = match turn % 3 {
            0 => {
                let message = receiver.receive(&mut bytes, WAIT).map_err(text)?;
                bytes.truncate(message.len);
                message
            }
            1 => {
                let parcel = receiver.receive_memory(WAIT).map_err(text)?;
                bytes.truncate(parcel.message().len);
                parcel.read(0, &mut bytes).map_err(text)?;
                let message = parcel.message();
                parcel.free().map_err(|error| format!("message {message:?} is somebody else's: {error}"))?;
                message
            }
            _ => {
                receiver.pop(WAIT).map_err(text)?;
                step(&board, number)?;
                continue;
            }
        };
        if bytes != content(message.hints) {
            return Err(format!("message {message:?} is not what was sent"));
        }
        step(&board, number)?;
    }
    Ok(())
}

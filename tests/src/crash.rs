//! What processes do in a segment until they are killed, and what must hold then.
//!
//! A child plays one [`Role`] for ever and ends with an error as soon as it sees something impossible: a slot
//! with two takers, a torn or repeated message, messages out of order. The parent kills it at any moment,
//! checks that the others go on, reclaims what it held, and starts a successor.

pub mod cache;
pub mod channel;
pub mod heap;
pub mod memory;
pub mod reads;
pub mod stream;

use std::thread;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::channel::Messages;
use umbra_core::ring::Backoff;
use umbra_core::ring::PushError;
use umbra_core::ring::line::{self, Line};
use umbra_core::ring::mailbox::{self, Mailbox};
use umbra_core::shared_slots::{self, Owner, SharedSlots};

/// Slots of the table that children fight for.
pub const SLOTS: usize = 5;
/// Messages that fit into the queues; few, so that they are full and empty all the time.
pub const CAPACITY: usize = 8;
/// Messages that can be told apart.
const MESSAGES: usize = 1 << 24;

const PROGRESS: usize = 0;
const NEXT: usize = 32;
const USERS: usize = 48;
const SEEN: usize = 64;
const STRUCTURE: usize = SEEN + MESSAGES / 64;
/// Words of a segment in which children play.
pub const WORDS: usize = STRUCTURE + 1024;

/// What a child does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Takes, shares and releases slots.
    Slots,
    /// Sends through the one-to-one ring.
    LineSender,
    /// Receives from it.
    LineReceiver,
    /// Sends through the mailbox.
    MailSender,
    /// Receives from it.
    MailReceiver,
    /// Loads and uses data through a shared cache.
    Cache,
    /// Sends through a channel.
    ChannelSender,
    /// Receives from it.
    ChannelReceiver,
}

impl Role {
    const ALL: [(&'static str, Role); 8] = [
        ("slots", Role::Slots),
        ("line-sender", Role::LineSender),
        ("line-receiver", Role::LineReceiver),
        ("mail-sender", Role::MailSender),
        ("mail-receiver", Role::MailReceiver),
        ("cache", Role::Cache),
        ("channel-sender", Role::ChannelSender),
        ("channel-receiver", Role::ChannelReceiver),
    ];

    /// The role with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Role> {
        Self::ALL.iter().find(|(its, _)| *its == name).map(|&(_, role)| role)
    }

    /// Its name, for a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|&&(_, role)| role == self).map_or("", |&(name, _)| name)
    }
}

/// The segment as parent and children see it.
#[derive(Clone, Copy, Debug)]
pub struct Arena<'a> {
    words: &'a [AtomicU64],
    memory: BytesMut<'a>,
}

impl<'a> Arena<'a> {
    /// Looks at a segment of [`WORDS`] words.
    ///
    /// # Errors
    /// If it is shorter.
    pub fn new(memory: BytesMut<'a>) -> Result<Arena<'a>, String> {
        let words = memory.words(0, WORDS).map_err(|e| e.to_string())?;
        Ok(Arena { words, memory })
    }

    /// Where the structure under test lies.
    #[must_use]
    pub fn structure(&self) -> &'a [AtomicU64] {
        &self.words[STRUCTURE..]
    }

    /// The same place, as bytes.
    ///
    /// # Errors
    /// If the segment is shorter than it was.
    pub fn structure_bytes(&self) -> Result<BytesMut<'a>, String> {
        self.memory.part(STRUCTURE * 8, (WORDS - STRUCTURE) * 8).map_err(|e| e.to_string())
    }

    /// Successful operations of all children that ever played this owner.
    #[must_use]
    pub fn progress(&self, owner: u8) -> u64 {
        self.words[PROGRESS + usize::from(owner)].load(Ordering::Relaxed)
    }

    /// Messages that were numbered, and how many of these were received.
    #[must_use]
    pub fn messages(&self) -> (u64, u64) {
        let seen = self.words[SEEN..STRUCTURE].iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones()));
        (self.words[NEXT].load(Ordering::Relaxed), seen.sum())
    }

    /// Notes that a message was received.
    ///
    /// # Errors
    /// If it was received before.
    pub fn receive(&self, message: u64) -> Result<(), String> {
        let index = usize::try_from(message).ok().filter(|&i| i < MESSAGES).ok_or("a message that nobody sent")?;
        let bit = 1 << (index % 64);
        if self.words[SEEN + index / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return Err(format!("message {message} came twice"));
        }
        Ok(())
    }

    /// Forgets which slots a dead owner said he used; before they are reclaimed.
    pub fn forget_user(&self, owner: u8) {
        for user in &self.words[USERS..USERS + SLOTS] {
            let _ = user.compare_exchange(u64::from(owner) + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// What lies in a slot.
    fn content(&self, slot: u32) -> Option<&'a AtomicU64> {
        self.words[USERS..USERS + SLOTS].get(slot as usize)
    }

    fn step(&self, owner: u8) {
        self.words[PROGRESS + usize::from(owner)].fetch_add(1, Ordering::Relaxed);
    }
}

/// A message for the ring position, or with the number, `n`.
#[must_use]
pub fn line_of(from: u8, n: u64) -> Line {
    let low = n & 0xff_ffff_ffff;
    Line::new([low, n, u64::from(from), !n, n << 3, n ^ 0x55, n.rotate_left(9), !low]).unwrap_or_default()
}

/// Sender and number of a message.
///
/// # Errors
/// If its words do not belong together.
pub fn parse(line: &Line) -> Result<(u8, u64), String> {
    let &[_, n, from, ..] = line.words();
    let from = u8::try_from(from).map_err(|_| format!("sender {from}"))?;
    if *line == line_of(from, n) { Ok((from, n)) } else { Err(format!("torn message {line:?}")) }
}

fn wait(backoff: &mut Backoff) {
    if backoff.spent() {
        thread::yield_now();
    } else {
        backoff.spin();
    }
}

/// Plays a role until killed.
///
/// # Errors
/// What is impossible and was seen.
pub fn play(role: Role, number: u8, arena: Arena<'_>) -> Result<(), String> {
    let owner = Owner::new(number).ok_or("no such owner")?;
    match role {
        Role::Slots => slots(arena, owner),
        Role::LineSender => line_sender(arena, number),
        Role::LineReceiver => line_receiver(arena, number),
        Role::MailSender => mail_sender(arena, owner),
        Role::MailReceiver => mail_receiver(arena, owner),
        Role::Cache => cache::play(arena, number),
        Role::ChannelSender => channel::send(arena, number),
        Role::ChannelReceiver => channel::receive(arena, number),
    }
}

fn slots(arena: Arena<'_>, owner: Owner) -> Result<(), String> {
    let slots = SharedSlots::attach(arena.structure()).map_err(|e| e.to_string())?;
    let mark = u64::from(owner.number()) + 1;
    let mut backoff = Backoff::new();
    loop {
        let mut held = Vec::new();
        for _ in 0..2 {
            let Ok(id) = slots.take(owner) else { break };
            let user = &arena.words[USERS + id.index() as usize];
            if let Err(other) = user.compare_exchange(0, mark, Ordering::AcqRel, Ordering::Relaxed) {
                return Err(format!("slot {id:?} has two takers: {} and {}", other, mark));
            }
            held.push(id);
        }
        if held.is_empty() {
            wait(&mut backoff);
        } else {
            backoff.reset();
        }
        for id in held {
            let user = &arena.words[USERS + id.index() as usize];
            if slots.retain(id, owner) != Ok(false) || user.swap(0, Ordering::AcqRel) != mark {
                return Err(format!("slot {id:?} was taken away from {owner}"));
            }
            if slots.release(id, owner) != Ok(true) {
                return Err(format!("slot {id:?} could not be released by its only holder {owner}"));
            }
            arena.step(owner.number());
        }
    }
}

fn line_sender(arena: Arena<'_>, number: u8) -> Result<(), String> {
    let ring = line::Ring::attach(arena.structure()).map_err(|e| e.to_string())?;
    let mut sender = ring.sender().map_err(|e| e.to_string())?;
    let mut backoff = Backoff::new();
    loop {
        // A message says its position, so that successors need to agree on nothing else.
        let at = sender.position();
        let batch: Vec<Line> = (at..at + 1 + at % 5).map(|n| line_of(number, n)).collect();
        match sender.push_all(&batch) {
            Ok(0) => wait(&mut backoff),
            Ok(_) => {
                backoff.reset();
                arena.step(number);
            }
            Err(e) => return Err(e.to_string()),
        }
    }
}

fn line_receiver(arena: Arena<'_>, number: u8) -> Result<(), String> {
    let ring = line::Ring::attach(arena.structure()).map_err(|e| e.to_string())?;
    let mut receiver = ring.receiver().map_err(|e| e.to_string())?;
    let mut backoff = Backoff::new();
    loop {
        let at = receiver.position();
        let mut lines = [Line::default(); 3];
        let count = receiver.pop_all(&mut lines[..1 + (at % 3) as usize]);
        for (expected, line) in (at..).zip(&lines[..count]) {
            let (_, n) = parse(line)?;
            if n != expected {
                return Err(format!("message {n} at position {expected}"));
            }
        }
        if count == 0 {
            wait(&mut backoff);
        } else {
            backoff.reset();
            arena.step(number);
        }
    }
}

fn mail_sender(arena: Arena<'_>, owner: Owner) -> Result<(), String> {
    let mailbox = Mailbox::attach(arena.structure()).map_err(|e| e.to_string())?;
    let mut backoff = Backoff::new();
    loop {
        let n = arena.words[NEXT].fetch_add(1, Ordering::Relaxed);
        if n >= MESSAGES as u64 {
            return Err("ran out of numbers".to_owned());
        }
        loop {
            match mailbox.push(owner, line_of(owner.number(), n)) {
                Ok(()) => break,
                Err(PushError::Full(_)) => wait(&mut backoff),
                Err(e) => return Err(e.to_string()),
            }
        }
        backoff.reset();
        arena.step(owner.number());
    }
}

fn mail_receiver(arena: Arena<'_>, owner: Owner) -> Result<(), String> {
    let mailbox = Mailbox::attach(arena.structure()).map_err(|e| e.to_string())?;
    let mut last = [None; Owner::COUNT as usize];
    let mut backoff = Backoff::new();
    loop {
        let Some(line) = mailbox.pop(owner).map_err(|e| e.to_string())? else {
            wait(&mut backoff);
            continue;
        };
        let (from, n) = parse(&line)?;
        arena.receive(n)?;
        // Numbers are handed out in order, so those of one sender grow, also across its successors.
        let last = last.get_mut(usize::from(from)).ok_or("no such sender")?;
        if last.is_some_and(|last| last >= n) {
            return Err(format!("sender {from}: message {n} came after {last:?}"));
        }
        *last = Some(n);
        backoff.reset();
        arena.step(owner.number());
    }
}

/// Makes the structure that the role works on.
///
/// # Errors
/// If it does not fit.
pub fn create(role: Role, arena: Arena<'_>) -> Result<(), String> {
    let words = arena.structure();
    match role {
        Role::Slots => SharedSlots::create(words, SLOTS).map(|_| ()).map_err(|e| e.to_string()),
        Role::LineSender | Role::LineReceiver => {
            line::Ring::create(words, CAPACITY).map(|_| ()).map_err(|e| e.to_string())
        }
        Role::MailSender | Role::MailReceiver => {
            Mailbox::create(words, CAPACITY).map(|_| ()).map_err(|e| e.to_string())
        }
        Role::Cache => cache::create(words),
        Role::ChannelSender | Role::ChannelReceiver => {
            Messages::create(arena.structure_bytes()?, channel::SHAPE).map(|_| ()).map_err(|e| e.to_string())
        }
    }
}

const _: () =
    assert!(match (shared_slots::words_for(SLOTS), line::words_for(CAPACITY), mailbox::words_for(CAPACITY)) {
        (Some(slots), Some(line), Some(mailbox)) => {
            STRUCTURE + slots <= WORDS && STRUCTURE + line <= WORDS && STRUCTURE + mailbox <= WORDS
        }
        _ => false,
    });

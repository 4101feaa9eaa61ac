//! A network card in memory, with functions and firmware.
//!
//! Functions have keys of their own, and the firmware carries out commands. The card reads the same bytes as a real
//! one, by offsets that are written down here once more, from the public tables and not from the code under test; so a
//! field in the wrong place is a command that the card refuses. Work is carried out with the checks of a card: the key
//! must exist, cover the range and allow it, and so must all keys behind it. Numbers of destroyed objects are given out
//! again, the last one first, which is what makes stale keys dangerous.

mod worker;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use umbra::sys::segment::Segment;
use umbra::verbs::Local;
use umbra::xgvmi::Commands;
use umbra_core::key::Access;

pub use worker::Worker;

/// Refusals of the firmware.
const BAD_OPCODE: u8 = 0x02;
const BAD_PARAMETER: u8 = 0x03;
const BAD_RESOURCE: u8 = 0x05;
const BAD_LENGTH: u8 = 0x50;
const BAD_ANSWER_LENGTH: u8 = 0x51;

/// What a key stands for.
#[derive(Debug, Clone)]
enum Key {
    /// Registered memory, which begins at an address.
    Direct { memory: Arc<Segment>, start: u64 },
    /// Parts of other keys, of one size each.
    Indirect { start: u64, len: u64, access: Access, log: u32, parts: Vec<(u32, u64)>, secret: Option<[u8; 32]> },
    /// A key of another function.
    Alias { vhca: u16, index: u32 },
}

/// How the card misbehaves.
#[derive(Debug, Clone, Default)]
pub struct Moods {
    /// Refuse the command that comes after so many others, with this status and syndrome.
    pub refuse: Option<(usize, u8, u32)>,
    /// The refusal comes as an answer, and the call says that all went well.
    pub quietly: bool,
    /// Aliases are made in this state.
    pub alias_state: u8,
    /// Aliases have these bits in their number.
    pub alias_bits: u32,
    /// Any secret opens any key.
    pub credulous: bool,
    /// Memory of these functions cannot be reached.
    pub dark: Vec<u16>,
}

#[derive(Debug, Default)]
struct Inside {
    keys: HashMap<(u16, u32), Key>,
    free: Vec<u32>,
    next: u32,
    commands: Vec<u16>,
    moods: Moods,
}

/// The card.
#[derive(Debug, Clone, Default)]
pub struct Card(Rc<RefCell<Inside>>);

/// One function of it.
#[derive(Debug, Clone)]
pub struct Function {
    card: Card,
    vhca: u16,
}

/// An object of the firmware, which lives as long as this does.
#[derive(Debug)]
pub struct Object {
    card: Weak<RefCell<Inside>>,
    name: (u16, u32),
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(card) = self.card.upgrade() {
            let mut inside = card.borrow_mut();
            if inside.keys.remove(&self.name).is_some() {
                inside.free.push(self.name.1);
            }
        }
    }
}

/// Memory that a process registered with its function.
#[derive(Debug)]
pub struct Registered {
    memory: Arc<Segment>,
    object: Object,
    start: u64,
}

impl Local for Registered {
    fn lkey(&self) -> u32 {
        self.object.name.1 << 8
    }
    fn address(&self, offset: usize) -> u64 {
        self.start + offset as u64
    }
    fn size(&self) -> usize {
        self.memory.len()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_be_bytes(*word))
}

impl Card {
    /// Function number `vhca` of the card.
    #[must_use]
    pub fn function(&self, vhca: u16) -> Function {
        Function { card: self.clone(), vhca }
    }

    /// How it behaves from now on; commands are counted from here.
    pub fn set(&self, moods: Moods) {
        let mut inside = self.0.borrow_mut();
        inside.moods = moods;
        inside.commands.clear();
    }

    /// The numbers of the commands that came since [`set`](Self::set).
    #[must_use]
    pub fn commands(&self) -> Vec<u16> {
        self.0.borrow().commands.clone()
    }

    /// Objects that exist.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.0.borrow().keys.len()
    }
}

impl Inside {
    fn put(&mut self, vhca: u16, key: Key) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            0x1000 + self.next
        });
        self.keys.insert((vhca, index), key);
        index
    }

    /// Carries a command out: status and syndrome, or what the answer holds behind them.
    fn carry_out(&mut self, vhca: u16, command: &[u8], answer: &mut [u8]) -> Result<Option<u32>, (u8, u32)> {
        let number = word(command, 0).ok_or((BAD_LENGTH, 1))?;
        let opcode = (number >> 16) as u16;
        self.commands.push(opcode);
        if let Some((after, status, syndrome)) = self.moods.refuse
            && self.commands.len() == after + 1
        {
            return Err((status, syndrome));
        }
        if answer.len() < 16 {
            return Err((BAD_ANSWER_LENGTH, 2));
        }
        match opcode {
            0x100 => {
                // General properties (0), as they are now (1).
                if command.len() != 16 || word(command, 4) != Some(1) || answer.len() != 16 + 4096 {
                    return Err((BAD_PARAMETER, 3));
                }
                answer[16 + 6..16 + 8].copy_from_slice(&vhca.to_be_bytes());
                Ok(None)
            }
            0x200 => {
                let key = self.indirect(vhca, command)?;
                let index = self.put(vhca, key);
                answer[9..12].copy_from_slice(&index.to_be_bytes()[1..]);
                Ok(Some(index))
            }
            0xb16 => {
                let short = (BAD_LENGTH, 4);
                let (kind, index) = (word(command, 0x10).ok_or(short)?, word(command, 0x14).ok_or(short)?);
                let given = command.get(0x20..0x40).and_then(<[u8]>::first_chunk).ok_or(short)?;
                match self.keys.get_mut(&(vhca, index)) {
                    Some(Key::Indirect { secret, .. }) if kind == 0xff01 => *secret = Some(*given),
                    _ => return Err((BAD_RESOURCE, 5)),
                }
                Ok(None)
            }
            0xa00 => {
                let short = (BAD_LENGTH, 6);
                if command.len() != 0x50 || answer.len() != 0x50 {
                    return Err(short);
                }
                let (kind, alias) = (word(command, 4).ok_or(short)?, word(command, 0xc).ok_or(short)?);
                if kind != 0xff01 || alias != 1 << 31 || word(command, 0x40) != Some(domain(vhca)) {
                    return Err((BAD_PARAMETER, 7));
                }
                let (owner, index) = (word(command, 0x10).ok_or(short)? >> 16, word(command, 0x14).ok_or(short)?);
                let owner = owner as u16;
                let given = command.get(0x20..0x40).ok_or(short)?;
                let Some(Key::Indirect { secret: Some(secret), .. }) = self.keys.get(&(owner, index)) else {
                    return Err((BAD_RESOURCE, 8));
                };
                if given != secret && !self.moods.credulous {
                    return Err((BAD_PARAMETER, 9));
                }
                let made = self.put(vhca, Key::Alias { vhca: owner, index });
                answer[8..12].copy_from_slice(&(made | self.moods.alias_bits).to_be_bytes());
                answer[0x13] = self.moods.alias_state;
                Ok(Some(made))
            }
            _ => Err((BAD_OPCODE, 10)),
        }
    }

    fn indirect(&self, vhca: u16, command: &[u8]) -> Result<Key, (u8, u32)> {
        let short = (BAD_LENGTH, 11);
        let mode = word(command, 0x10).ok_or(short)?;
        let any_queue = word(command, 0x14).ok_or(short)? == 0xffff_ff00;
        let (of, start) = (word(command, 0x1c).ok_or(short)?, long(command, 0x20).ok_or(short)?);
        let (len, entries) = (long(command, 0x28).ok_or(short)?, word(command, 0x44).ok_or(short)?);
        let log = word(command, 0x48).ok_or(short)? & 0x1f;
        let parts: Vec<(u32, u64)> = command
            .get(0x110..)
            .ok_or(short)?
            .chunks(16)
            .map(|part| Some((word(part, 4)?, long(part, 8)?)))
            .collect::<Option<_>>()
            .ok_or(short)?;
        // Each right twice, for work of this function and of others: they must agree.
        let rights = mode >> 10 & 0xf;
        let access = match rights {
            0b0101 => Access::READ,
            0b1010 => Access::WRITE,
            0b1111 => Access::READ | Access::WRITE,
            _ => return Err((BAD_PARAMETER, 12)),
        };
        let counted = parts.len() == entries as usize && word(command, 0x60) == Some(entries);
        let covered = (parts.len() as u64) << log >= len;
        let own = parts.iter().all(|(key, _)| self.keys.contains_key(&(vhca, key >> 8)));
        // A key of entries of one size (3), for any queue pair of the domain.
        if mode >> 8 & 3 != 3 || !any_queue || of != domain(vhca) || !counted || !covered || !own {
            return Err((BAD_PARAMETER, 13));
        }
        Ok(Key::Indirect { start, len, access, log, parts, secret: None })
    }

    /// Finds the bytes behind a key of a function.
    fn find(&self, vhca: u16, lkey: u32, at: u64, len: u64, way: Access) -> Option<(Arc<Segment>, usize)> {
        match self.keys.get(&(vhca, lkey >> 8))? {
            Key::Direct { memory, start } => {
                let offset = usize::try_from(at.checked_sub(*start)?).ok()?;
                memory.at(offset, usize::try_from(len).ok()?).ok()?;
                Some((memory.clone(), offset))
            }
            Key::Indirect { start, len: all, access, log, parts, .. } => {
                let offset = at.checked_sub(*start)?;
                if !access.contains(way) || offset > *all || len > all - offset {
                    return None;
                }
                // One entry holds all that these tests move.
                let (key, address) = parts.get(usize::try_from(offset >> log).ok()?)?;
                self.find(vhca, *key, address + (offset & ((1 << log) - 1)), len, way)
            }
            Key::Alias { vhca, .. } if self.moods.dark.contains(vhca) => None,
            Key::Alias { vhca, index } => self.find(*vhca, index << 8, at, len, way),
        }
    }
}

/// The number of the one protection domain of a function.
#[must_use]
pub const fn domain(vhca: u16) -> u32 {
    0x70_0000 + vhca as u32
}

impl Function {
    /// Registers memory under an address.
    #[must_use]
    pub fn register(&self, memory: Arc<Segment>, start: u64) -> Registered {
        let index = self.card.0.borrow_mut().put(self.vhca, Key::Direct { memory: memory.clone(), start });
        Registered { memory, object: self.object(index), start }
    }

    fn object(&self, index: u32) -> Object {
        Object { card: Rc::downgrade(&self.card.0), name: (self.vhca, index) }
    }

    fn call(&self, command: &[u8], answer: &mut [u8]) -> io::Result<Option<u32>> {
        answer.fill(0);
        let mut inside = self.card.0.borrow_mut();
        match inside.carry_out(self.vhca, command, answer) {
            Ok(made) => Ok(made),
            Err((status, syndrome)) => {
                if let Some(head) = answer.get_mut(..8) {
                    head[0] = status;
                    head[4..].copy_from_slice(&syndrome.to_be_bytes());
                }
                // What Linux says of a command that came back with a status.
                if inside.moods.quietly { Ok(None) } else { Err(io::Error::from_raw_os_error(121)) }
            }
        }
    }
}

impl Commands for Function {
    type Object = Object;

    fn run(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<()> {
        self.call(command, answer).map(|_| ())
    }

    fn create(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<Object> {
        // An object that was not made has no number.
        self.call(command, answer).map(|made| self.object(made.unwrap_or(u32::MAX)))
    }

    fn destroy(&mut self, object: Object) -> io::Result<()> {
        drop(object);
        Ok(())
    }
}

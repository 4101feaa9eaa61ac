//! Processes that share a heap: one uses it until killed, the others bury it.

use std::fmt::Display;

use umbra::sys::process::{ProcessError, ProcessId};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::crew::{Liveness, Member};
use umbra_core::heap::{AllocError, Block, Hand, Heap, Keep, Plan};

use super::cache::identity;

/// The role, on a command line.
pub const ROLE: &str = "heap";
/// Bytes of the heap: few, so that it is full all the time.
const BYTES: u64 = 256 << 10;
const GRANULE: u64 = 32;
/// Processes that can play, and the one that buries.
const MEMBERS: u16 = 12;
/// A pair of lines a player.
const PROGRESS: usize = 16;
const MARKS: usize = PROGRESS * MEMBERS as usize;
const HEAP: usize = MARKS + (BYTES / GRANULE) as usize;

fn plan() -> Result<Plan, String> {
    Plan::new(BYTES, GRANULE, 0, MEMBERS).map_err(text)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Words of a segment in which children play.
///
/// # Errors
/// Never, unless the numbers above do not go together.
pub fn words() -> Result<usize, String> {
    Ok(HEAP + plan()?.words())
}

/// The segment as parent and children see it: progress, a mark a granule, and the heap.
#[derive(Clone, Copy, Debug)]
pub struct Yard<'a> {
    words: &'a [AtomicU64],
    heap: Heap<'a>,
}

/// By pid and start time.
#[derive(Debug)]
pub struct Proc;

impl Liveness for Proc {
    fn is_alive(&self, member: Member) -> bool {
        match ProcessId::of(member.identity.pid()) {
            Ok(process) => identity(process) == member.identity,
            Err(ProcessError::Gone(_)) => false,
            Err(_) => true,
        }
    }
}

impl<'a> Yard<'a> {
    /// Makes the heap.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn create(words: &'a [AtomicU64]) -> Result<Self, String> {
        let heap = Heap::create(words.get(HEAP..).ok_or("too short")?, plan()?, &[]).map_err(text)?;
        Ok(Yard { words, heap })
    }

    /// Looks at a heap that somebody made.
    ///
    /// # Errors
    /// If there is none.
    pub fn attach(words: &'a [AtomicU64]) -> Result<Self, String> {
        let heap = Heap::attach(words.get(HEAP..).ok_or("too short")?, BYTES).map_err(text)?;
        Ok(Yard { words, heap })
    }

    /// The heap.
    #[must_use]
    pub fn heap(&self) -> Heap<'a> {
        self.heap
    }

    /// Operations of all who ever played with this number.
    #[must_use]
    pub fn progress(&self, number: u8) -> u64 {
        self.words[PROGRESS * usize::from(number)].load(Ordering::Relaxed)
    }

    fn step(&self, number: u8) {
        self.words[PROGRESS * usize::from(number)].fetch_add(1, Ordering::Relaxed);
    }

    /// This process at the heap.
    ///
    /// # Errors
    /// If too many joined.
    pub fn join(&self) -> Result<Member, String> {
        self.heap.crew().join(identity(ProcessId::current().map_err(text)?)).map_err(text)
    }

    /// Takes back what everybody held who does not live any more; how many they were.
    ///
    /// # Errors
    /// What is impossible and was seen.
    pub fn bury(&self, by: Member) -> Result<usize, String> {
        let buried = |member: Member| match self.heap.recover(member.number, Keep::Nothing) {
            Ok(_) if self.heap.held_by(member.number) == 0 => Ok(()),
            Ok(_) => Err("a buried member still holds blocks".to_owned()),
            Err(error) => Err(text(error)),
        };
        self.heap.crew().bury_dead(by.number, &Proc, buried)
    }

    /// Everything must be free, and in one piece.
    ///
    /// # Errors
    /// What is not.
    pub fn at_rest(&self, by: Member) -> Result<(), String> {
        if let Some(block) = self.heap.blocks().next() {
            return Err(format!("{block:?} is nobody's"));
        }
        let mut hand = self.heap.hand(by);
        let whole = hand.alloc(self.heap.longest(), 0).map_err(|e| format!("{e}: {:?}", self.heap.figures()))?;
        hand.free(whole.id).map_err(text)
    }

    fn marks(&self, block: Block) -> Result<&'a [AtomicU64], String> {
        let granule = |bytes: u64| MARKS + (bytes / GRANULE) as usize;
        let marks = self.words[..HEAP].get(granule(block.offset)..granule(block.offset + block.size));
        marks.ok_or_else(|| format!("{block:?} lies outside"))
    }

    fn alloc(&self, hand: &mut Hand<'a>, len: u64) -> Result<Option<Block>, String> {
        let block = match hand.alloc(len, 7) {
            Ok(block) => block,
            Err(AllocError::NotAvailable { .. } | AllocError::OutOfEntries) => return Ok(None),
            Err(error) => return Err(text(error)),
        };
        // What lies there may be a dead one's; from now on it is ours alone.
        self.marks(block)?.iter().for_each(|mark| mark.store(block.id.to_bits(), Ordering::Relaxed));
        Ok(Some(block))
    }

    fn free(&self, hand: &mut Hand<'a>, block: Block) -> Result<(), String> {
        for mark in self.marks(block)? {
            let now = mark.load(Ordering::Relaxed);
            if now != block.id.to_bits() {
                return Err(format!("{block:?} was written over by {now:#x}"));
            }
        }
        hand.free(block.id).map_err(|_| format!("{block:?} was freed by somebody else"))?;
        if hand.free(block.id).is_ok() {
            return Err(format!("{block:?} was freed twice"));
        }
        Ok(())
    }
}

/// Allocates and frees until killed.
///
/// # Errors
/// What is impossible and was seen.
pub fn play(yard: Yard<'_>, number: u8) -> Result<(), String> {
    let me = yard.join()?;
    let mut hand = yard.heap.hand(me);
    let mut dice = u64::from(std::process::id());
    let mut next = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    let mut held = vec![];
    loop {
        let most = [100, 3000, 60_000][next(30).saturating_sub(27) as usize];
        if held.len() < 24 && next(2) == 0 {
            held.extend(yard.alloc(&mut hand, 1 + next(most))?);
        } else if !held.is_empty() {
            yard.free(&mut hand, held.swap_remove(next(held.len() as u64) as usize))?;
        }
        // As if a thread ended and another began.
        if next(200) == 0 {
            hand.rest();
        }
        yard.step(number);
    }
}

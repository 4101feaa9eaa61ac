//! A slot cache whose loads are reads of another rank's memory.
//!
//! Threads of one rank share the cache and the session; the owner of the memory does nothing.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use umbra::cache::{FilledError, Forgetful, Given, Held};
use umbra::session::{Exported, Session, SessionError, SharedSession};
use umbra_core::cache::waiting::ContentError;
use umbra_core::cache::{Dense, Forgetting, policy::Clock};
use umbra_core::error::Status;
use umbra_core::ticket::Ticket;
use umbra_tests::agents::Agents;

/// Bytes of a block: one answer carries them.
const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

type Blocks = Forgetful<Dense<Vec<u32>>, Clock>;

fn byte_of(block: u64, seed: u8) -> u8 {
    (block as u8).wrapping_mul(37) ^ seed
}

fn export(owner: &mut Session, seed: u8) -> Ticket {
    let bytes = (0..BLOCKS).flat_map(|block| [byte_of(block, seed); BLOCK]).collect();
    let key = owner.export_bytes(bytes).unwrap();
    owner.ticket(key).unwrap()
}

fn revoke(owner: &mut Session, ticket: &Ticket) {
    assert!(matches!(owner.revoke(ticket.key).unwrap(), Exported::Bytes(_)));
}

fn reads_served(agents: &mut Agents) -> u64 {
    agents.status(1)["reads_served"]
}

/// What a rank keeps of the memory of another one.
struct Kept {
    cache: Blocks,
    slots: Vec<RwLock<[u8; BLOCK]>>,
    session: SharedSession,
}

impl Kept {
    fn new(slots: u32, session: Session) -> Kept {
        Kept {
            cache: Forgetful::new(0..slots, Dense::new(vec![0; BLOCKS as usize]), Clock::new()).unwrap(),
            slots: (0..slots).map(|_| RwLock::new([0; BLOCK])).collect(),
            session: SharedSession::new(session).unwrap(),
        }
    }

    /// A block in its slot. Who finds the slot empty reads the block from its owner; if that fails the fill is given up when
    /// it is dropped, and whoever waits for it may try it himself.
    fn block(&self, ticket: &Ticket, block: u64) -> Result<Held<'_, Dense<Vec<u32>>, Clock, Forgetting>, SessionError> {
        loop {
            match self.cache.alloc(block, PATIENCE).unwrap() {
                Given::Empty(fill) => {
                    let mut into = self.slots[fill.slot() as usize].write().unwrap();
                    self.session.read(ticket, block * BLOCK as u64, &mut into[..])?;
                    return Ok(fill.remember().unwrap());
                }
                Given::Remembered(held) => return Ok(held),
                Given::Assigned(held) => match self.cache.filled(block, PATIENCE) {
                    Ok(()) => return Ok(held),
                    Err(FilledError::Refused(ContentError::Abandoned { .. })) => {}
                    Err(error) => panic!("{error}"),
                },
            }
        }
    }

    fn is_right(&self, ticket: &Ticket, block: u64, seed: u8) -> Result<bool, SessionError> {
        let held = self.block(ticket, block)?;
        let bytes = self.slots[held.slot() as usize].read().unwrap();
        Ok(*bytes == [byte_of(block, seed); BLOCK])
    }
}

#[test]
fn threads_load_each_block_of_another_rank_s_memory_once_by_one_read() {
    let mut agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let (mut owner, reader) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let ticket = export(&mut owner, 1);
    let kept = Kept::new(BLOCKS as u32, reader);
    let before = reads_served(&mut agents);
    thread::scope(|scope| {
        for first in 0..4 {
            let (kept, ticket) = (&kept, &ticket);
            scope.spawn(move || {
                for block in 0..BLOCKS {
                    assert!(kept.is_right(ticket, (block + first) % BLOCKS, 1).unwrap(), "{block}");
                }
            });
        }
    });
    let told = kept.cache.look(|cache| cache.statistics());
    assert_eq!((told.loads, told.hits + told.joins), (BLOCKS, 3 * BLOCKS));
    assert_eq!(reads_served(&mut agents) - before, BLOCKS);
    kept.session.into_session().unwrap().leave().unwrap();
}

#[test]
fn blocks_that_lost_their_slots_are_read_again() {
    let mut agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let (mut owner, reader) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let ticket = export(&mut owner, 2);
    let kept = Kept::new(5, reader);
    let before = reads_served(&mut agents);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= 4 * BLOCKS {
                        break;
                    }
                    assert!(kept.is_right(&ticket, at * 29 % BLOCKS, 2).unwrap(), "{at}");
                }
            });
        }
    });
    let told = kept.cache.look(|cache| cache.statistics());
    assert!(told.loads > BLOCKS && told.evictions == told.loads - 5, "{told:?}");
    assert_eq!(reads_served(&mut agents) - before, told.loads);
    kept.session.into_session().unwrap().leave().unwrap();
}

#[test]
fn a_load_that_fails_is_given_up_and_the_next_export_is_loaded_anew() {
    let agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let (mut owner, reader) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let ticket = export(&mut owner, 3);
    let kept = Kept::new(4, reader);
    assert!(kept.is_right(&ticket, 0, 3).unwrap());
    revoke(&mut owner, &ticket);
    assert!(kept.is_right(&ticket, 0, 3).unwrap(), "what was loaded is the reader's");

    let Given::Empty(fill) = kept.cache.alloc(1, PATIENCE).unwrap() else { panic!("nobody has loaded it") };
    thread::scope(|scope| {
        let waits = scope.spawn(|| kept.is_right(&ticket, 1, 3));
        while kept.cache.waiting() == 0 {
            thread::yield_now();
        }
        let mut into = [0; BLOCK];
        let refused = kept.session.read(&ticket, BLOCK as u64, &mut into).unwrap_err();
        assert_eq!(refused.status(), Status::KeyRevoked);
        drop(fill);
        // Who waited tried it as well.
        assert_eq!(waits.join().unwrap().unwrap_err().status(), Status::KeyRevoked);
    });
    assert_eq!(kept.cache.look(|cache| cache.state(1)), Ok(None));

    let ticket = export(&mut owner, 4);
    assert!(kept.cache.forget(0).unwrap());
    for block in 0..BLOCKS {
        assert!(kept.is_right(&ticket, block, 4).unwrap(), "{block}");
    }
    kept.session.into_session().unwrap().leave().unwrap();
}

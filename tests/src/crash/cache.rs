//! Processes that share a cache: one uses it until killed, the others bury it.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use umbra::sys::process::{ProcessError, ProcessId};
use umbra_core::atomic::{AtomicU64, Ordering, spin_hint};
use umbra_core::cache::{Forgetting, Found};
use umbra_core::shared_cache::{
    AllocError, Blocked, Client, FillError, Forgetful, FreeError, Identity, ReclaimError, Reclaimed, Sharing,
};

use super::{Arena, SLOTS};

/// Ids of each of two homes: more than there are slots, so that content leaves all the time, and more than a home has room
/// for, so that some data is away from it.
const OF_A_HOME: usize = 5;
/// Ids begin here: what lies in a slot is no mark of a user of slots.
const FIRST: u64 = 1000;
/// What a slot holds while it is filled.
const MIXED: u64 = u64::MAX;

/// How long those who live may be in the way of a burial: far beyond anything that a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Makes the cache.
///
/// # Errors
/// If it does not fit.
pub fn create(words: &[AtomicU64]) -> Result<(), String> {
    let sharing = Sharing::new(5, 7).ok_or("too many owners")?;
    Forgetful::create(words, SLOTS, sharing, 1).map(|_| ()).map_err(|e| e.to_string())
}

pub(super) fn identity(process: ProcessId) -> Identity {
    Identity::new(process.pid, process.start)
}

/// This process at the cache.
///
/// # Errors
/// If it cannot join.
pub fn join(arena: Arena<'_>) -> Result<Client<'_, Forgetting>, String> {
    let cache = Forgetful::attach(arena.structure()).map_err(|e| e.to_string())?;
    let process = ProcessId::current().map_err(|e| e.to_string())?;
    cache.join(identity(process)).map_err(|e| e.to_string())
}

/// Takes back what the members of the cache held that do not live any more; what that was, and the data whose fills
/// they had begun. It goes over all the dead again and again: one may have died while it buried another.
///
/// # Errors
/// What is impossible and was seen; or who was in the way for [`PATIENCE`].
pub fn bury(arena: Arena<'_>) -> Result<(Reclaimed, Vec<u64>), String> {
    let client = join(arena)?;
    let (mut all, mut told) = (Reclaimed::default(), vec![]);
    let start = Instant::now();
    loop {
        let mut in_the_way = None;
        for (owner, who) in client.cache().members() {
            if lives(who)? {
                continue;
            }
            match client.reclaim(owner, who, |_, data| told.push(data)) {
                Ok(reclaimed) => {
                    all.references += reclaimed.references;
                    all.fills += reclaimed.fills;
                    all.emptied += reclaimed.emptied;
                }
                // Another of the dead, to be buried in this round or the next; or one that lives is at work.
                Err(
                    error @ (ReclaimError::Blocked { why: Blocked::Busy { .. } } | ReclaimError::InProgress { .. }),
                ) => in_the_way = Some(error),
                Err(error) => return Err(error.to_string()),
            }
        }
        match in_the_way {
            None => break,
            Some(error) if start.elapsed() > PATIENCE => return Err(error.to_string()),
            Some(_) => thread::yield_now(),
        }
    }
    client.leave().map_err(|e| e.to_string())?;
    Ok((all, told))
}

/// Whether a member of the cache runs.
fn lives(who: Identity) -> Result<bool, String> {
    match ProcessId::of(who.pid()) {
        Ok(process) => Ok(identity(process) == who),
        Err(ProcessError::Gone(_)) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// Loads and uses data until killed, often two at a time.
pub(super) fn play(arena: Arena<'_>, number: u8) -> Result<(), String> {
    let client = join(arena)?;
    let of = |home| (FIRST..).filter(move |&data| client.cache().home(data).0 == home).take(OF_A_HOME);
    let ids: Vec<u64> = of(0).chain(of(1)).collect();
    let mut dice = u64::from(std::process::id());
    let mut next = |below: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as usize % below
    };
    loop {
        let wanted = [ids[next(ids.len())], ids[next(ids.len())]];
        let mut held = vec![];
        for data in &wanted[..1 + next(2)] {
            match client.alloc(*data) {
                Ok(grant) => held.push((*data, grant)),
                Err(AllocError::Full { .. } | AllocError::Blocked { why: Blocked::Busy { .. } }) => thread::yield_now(),
                Err(error) => return Err(error.to_string()),
            }
        }
        for &(data, grant) in &held {
            let content = arena.content(grant.slot).ok_or("a slot that there is not")?;
            if grant.found == Found::Remembered && content.load(Ordering::Relaxed) != data {
                return Err(format!("slot {} of data {data} holds {}", grant.slot, content.load(Ordering::Relaxed)));
            }
            if grant.found == Found::Empty {
                content.store(MIXED, Ordering::Relaxed);
                (0..200).for_each(|_| spin_hint());
                if content.swap(data, Ordering::Relaxed) != MIXED {
                    return Err(format!("slot {} was filled by two at once", grant.slot));
                }
                settle(|| client.remember(data), |e| matches!(e, FillError::Blocked { .. }))?;
            }
        }
        for &(data, _) in &held {
            settle(|| client.free(data), |e| matches!(e, FreeError::Blocked { .. }))?;
            arena.step(number);
        }
        if next(4) == 0 {
            // In use, being filled, or in a line that somebody else has: all as it should be.
            let _ = client.forget(wanted[0]);
        }
    }
}

/// Repeats what others were in the way of.
fn settle<E: Display>(mut attempt: impl FnMut() -> Result<(), E>, is_busy: impl Fn(&E) -> bool) -> Result<(), String> {
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) if is_busy(&error) => thread::yield_now(),
            Err(error) => return Err(error.to_string()),
        }
    }
}

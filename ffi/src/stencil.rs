//! `umbra_stencil_*`: whole neighbourhoods of a stencil, for a process' threads.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::Duration;

use umbra::stencil::AllocError;
use umbra_core::id::Id;
use umbra_core::stencil::waiting::AllocError as Refused;
use umbra_core::stencil::{self, Group};

use crate::call::{
    announced, enter, numbers, sized, store, store_list, store_sized, store_unless_null, takes, takes_unless_null,
};
use crate::object::{HANDLES, Object, with_stencil};
use crate::statistics::Counted;
use crate::status::{Code, Failure};
use crate::stencil_options::Options;
use crate::stenciled::group;

/// `struct umbra_stencil_action`.
#[repr(C)]
pub struct Action {
    size: usize,
    kind: u32,
    slot: u32,
    point: u64,
    data: u64,
    group: u64,
}

/// `struct umbra_stencil_calls`.
#[repr(C)]
pub struct Calls {
    size: usize,
    user: *mut c_void,
    prepare: Option<unsafe extern "C" fn(*mut c_void, u32, u64)>,
    ready: Option<unsafe extern "C" fn(*mut c_void, u64, u64, *const u32, usize)>,
    failed: Option<unsafe extern "C" fn(*mut c_void, u64, u64)>,
    interrupted: Option<unsafe extern "C" fn(*mut c_void, u64)>,
}

/// Makes a stencil cache.
///
/// # Safety
/// `options` points to a structure that begins with its size, and to what it says; `created` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_create(options: *const Options, created: *mut u64) -> c_int {
    enter(|| {
        takes(created)?;
        // SAFETY: the caller's promise about `options`.
        let plan = unsafe { Options::plan(options) }?;
        let handle = HANDLES.keep(Object::Stencil(Box::new(plan.build()?)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(created, handle) }
    })
}

/// Interrupts the cache and releases its handle.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_destroy(stencil: u64) -> c_int {
    enter(|| {
        with_stencil(stencil, |stencil| {
            stencil.interrupt();
            Ok(())
        })?;
        HANDLES.release(stencil).map(drop)
    })
}

/// Adds the uses of one group to the usage map.
///
/// # Safety
/// `inputs` points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_count(stencil: u64, inputs: *const u64, count: usize) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `inputs`.
        let inputs = unsafe { numbers(inputs, count) }?;
        with_stencil(stencil, |stencil| inputs.iter().try_for_each(|&data| Ok(stencil.expect(data, 1)?)))
    })
}

/// Accepts the group of inputs that an output point is computed from.
///
/// # Safety
/// `inputs` points to `count` numbers; `accepted` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_submit(
    stencil: u64,
    point: u64,
    inputs: *const u64,
    count: usize,
    accepted: *mut u64,
) -> c_int {
    enter(|| {
        takes_unless_null(accepted)?;
        // SAFETY: the caller's promise about `inputs`.
        let inputs = unsafe { numbers(inputs, count) }?;
        let id = with_stencil(stencil, |stencil| Ok(stencil.submit(point, inputs)?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store_unless_null(accepted, id.to_bits()) }
    })
}

/// Accepts a group, waiting in line for its turn and until it has all its slots, for so long.
///
/// # Safety
/// `inputs` points to `count` numbers; `accepted` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_alloc(
    stencil: u64,
    point: u64,
    inputs: *const u64,
    count: usize,
    timeout_ms: u64,
    accepted: *mut u64,
) -> c_int {
    enter(|| {
        takes_unless_null(accepted)?;
        // SAFETY: the caller's promise about `inputs`.
        let inputs = unsafe { numbers(inputs, count) }?;
        let within = Duration::from_millis(timeout_ms);
        let told = with_stencil(stencil, |stencil| Ok(stencil.alloc(point, inputs, within)))?;
        // SAFETY: the caller's promise about the output.
        unsafe { tell_accepted(accepted, told) }
    })
}

/// Stores which group was accepted, if that is known. Who waited in vain may have a group that goes on, and is told in any case
/// whether it has.
///
/// # Safety
/// `accepted` is valid for writing, or null.
pub(crate) unsafe fn tell_accepted(accepted: *mut u64, told: Result<Id<Group>, AllocError>) -> Result<(), Failure> {
    let goes_on = match &told {
        Ok(id) => Some(Some(*id)),
        Err(AllocError::Expired { overdue, .. }) => Some(overdue.accepted),
        Err(AllocError::Refused(Refused::TooManyWaiters { accepted, .. })) => Some(*accepted),
        Err(_) => None,
    };
    if let Some(id) = goes_on {
        // SAFETY: the caller's promise about the output.
        unsafe { store_unless_null(accepted, id.map_or(0, Id::to_bits)) }?;
    }
    told?;
    Ok(())
}

/// Waits until a group that was accepted has all its slots, for so long.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_wait_assigned(stencil: u64, accepted: u64, timeout_ms: u64) -> c_int {
    let within = Duration::from_millis(timeout_ms);
    enter(|| with_stencil(stencil, |stencil| Ok(stencil.assigned(group(accepted), within)?)))
}

/// Tells what is to be done next.
///
/// # Safety
/// `action` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_poll(stencil: u64, action: *mut Action) -> c_int {
    enter(|| {
        let none = Action { size: 0, kind: 0, slot: 0, point: 0, data: 0, group: 0 };
        // News are told once: first of all there must be a place for them.
        // SAFETY: the caller's promise about the structure.
        unsafe { announced(action, size_of::<Action>()) }?;
        let told = match with_stencil(stencil, |stencil| Ok(stencil.poll()))? {
            None => none,
            Some(stencil::Action::Prepare { slot, data }) => Action { kind: 1, slot, data, ..none },
            Some(stencil::Action::Ready { point, group }) => Action { kind: 2, point, group: group.to_bits(), ..none },
            Some(stencil::Action::Failed { point, data }) => Action { kind: 3, point, data, ..none },
            Some(stencil::Action::Interrupted { point }) => Action { kind: 4, point, ..none },
        };
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(action, &told, size_of::<Action>()) }
    })
}

/// Calls the client's functions for all that is to be done, one after the other.
///
/// # Safety
/// `calls` points to a structure that begins with its size; its functions may be called from this thread, with its `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_deliver(stencil: u64, calls: *const Calls) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `calls`; zeros are no functions.
        let Calls { user, prepare, ready, failed, interrupted, .. } = unsafe { sized(calls, size_of::<Calls>()) }?;
        let (Some(prepare), Some(ready)) = (prepare, ready) else {
            return Err(Failure::new(Code::Invalid, "prepare and ready must be functions"));
        };
        with_stencil(stencil, |stencil| {
            // One vector serves all groups: each was told of before the next one is looked at.
            let slots = Cell::new(Vec::new());
            let tell = |action| match action {
                // SAFETY: the caller's promise about the functions.
                stencil::Action::Prepare { slot, data } => unsafe { prepare(user, slot, data) },
                stencil::Action::Ready { point, group } => {
                    let its: Vec<u32> = slots.take();
                    // SAFETY: as above; the slots stay where they are during the call.
                    unsafe { ready(user, point, group.to_bits(), its.as_ptr(), its.len()) };
                    slots.set(its);
                }
                stencil::Action::Failed { point, data } => {
                    if let Some(failed) = failed {
                        // SAFETY: as above.
                        unsafe { failed(user, point, data) }
                    }
                }
                stencil::Action::Interrupted { point } => {
                    if let Some(interrupted) = interrupted {
                        // SAFETY: as above.
                        unsafe { interrupted(user, point) }
                    }
                }
            };
            stencil.deliver_seen(
                |machine, action| {
                    if let stencil::Action::Ready { group, .. } = action {
                        let mut its = slots.take();
                        its.clear();
                        its.extend(machine.slots(group).into_iter().flatten());
                        slots.set(its);
                    }
                    action
                },
                tell,
            );
            Ok(())
        })
    })
}

/// Lists the slots of a ready group, in the order in which its inputs were named.
///
/// # Safety
/// `buffer` has room for `capacity` numbers; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_slots(
    stencil: u64,
    ready: u64,
    buffer: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        let slots: Vec<u32> = with_stencil(stencil, |stencil| {
            Ok(stencil.look(|machine| machine.slots(group(ready)).map(Iterator::collect))?)
        })?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_list(&slots, buffer, capacity, count) }
    })
}

/// The input is in the slot that it was to be loaded into.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_prepared(stencil: u64, data: u64) -> c_int {
    enter(|| with_stencil(stencil, |stencil| Ok(stencil.prepared(data)?)))
}

/// The input could not be loaded: the groups that wait for it fail.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_failed(stencil: u64, data: u64) -> c_int {
    enter(|| with_stencil(stencil, |stencil| Ok(stencil.failed(data)?)))
}

/// The computation is over: gives the slots of a ready group back.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_free_group(stencil: u64, ready: u64) -> c_int {
    enter(|| with_stencil(stencil, |stencil| Ok(stencil.free_group(group(ready))?)))
}

/// Makes every later call fail; groups that nobody was told the end of are told of the interrupt.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_interrupt(stencil: u64) -> c_int {
    enter(|| {
        with_stencil(stencil, |stencil| {
            stencil.interrupt();
            Ok(())
        })
    })
}

/// Lists the slots that somebody was told to fill and may still be writing to.
///
/// # Safety
/// `buffer` has room for `capacity` numbers; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_outstanding(
    stencil: u64,
    buffer: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        let slots: Vec<u32> = with_stencil(stencil, |stencil| {
            Ok(stencil.look(|machine| machine.outstanding_fills().map(|(slot, _)| slot).collect()))
        })?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_list(&slots, buffer, capacity, count) }
    })
}

/// Tells an interrupted cache that nobody writes to this slot any more.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_settle(stencil: u64, slot: u32) -> c_int {
    enter(|| {
        with_stencil(stencil, |stencil| {
            stencil.settle(slot);
            Ok(())
        })
    })
}

/// Makes an interrupted cache ready again, and empty; what is left of the usage map stays.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_reset(stencil: u64) -> c_int {
    enter(|| with_stencil(stencil, |stencil| Ok(stencil.reset()?)))
}

/// Tells what happened so far; also after an interrupt.
///
/// # Safety
/// `statistics` points to a structure that begins with its size and that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_statistics(stencil: u64, statistics: *mut Counted) -> c_int {
    enter(|| {
        let counted = with_stencil(stencil, |stencil| {
            Ok(Counted::new(stencil.look(|machine| machine.statistics()), stencil.waiting()))
        })?;
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(statistics, &counted, Counted::LEAST) }
    })
}

//! `umbra_stencil_*`: places for outputs, and inputs given back one by one.

use std::ffi::c_int;
use std::time::Duration;

use umbra_core::stencil::Member;

use crate::call::{
    counted, enter, numbers, store_counted, store_list, store_unless_null, takes, takes_list, takes_unless_null,
};
use crate::object::with_stencil;
use crate::status::{Code, Failure};
use crate::stencil::tell_accepted;
use crate::stenciled::{Stenciled, group};

/// `struct umbra_stencil_member`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Asked {
    data: u64,
    kind: u32,
}

/// `struct umbra_stencil_uses`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Uses {
    data: u64,
    uses: u32,
}

const SCRATCH: u32 = 1;

impl Asked {
    fn member(&self) -> Member {
        if self.kind == SCRATCH { Member::Scratch(self.data) } else { Member::Load(self.data) }
    }
}

/// The members that C names.
///
/// # Safety
/// As for [`numbers`].
unsafe fn members<'a>(members: *const Asked, count: usize) -> Result<&'a [Asked], Failure> {
    // SAFETY: the caller's promise; all bits are a member.
    let members = unsafe { numbers(members, count) }?;
    match members.iter().find(|member| member.kind > SCRATCH) {
        None => Ok(members),
        Some(Asked { data, kind }) => {
            Err(Failure::new(Code::Invalid, format!("{kind} is no kind of member, for data {data}: they are 0 and 1")))
        }
    }
}

/// Accepts a group of inputs, and of places for outputs.
///
/// # Safety
/// `list` points to `count` members that do not change during the call; `accepted` is valid for writing, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_submit_members(
    stencil: u64,
    point: u64,
    list: *const Asked,
    count: usize,
    accepted: *mut u64,
) -> c_int {
    enter(|| {
        takes_unless_null(accepted)?;
        // SAFETY: the caller's promise about the members.
        let members = unsafe { members(list, count) }?;
        let submit = |stencil: &Stenciled| Ok(stencil.submit_members(point, members.iter().map(Asked::member))?);
        let id = with_stencil(stencil, submit)?;
        // SAFETY: the caller's promise about the output.
        unsafe { store_unless_null(accepted, id.to_bits()) }
    })
}

/// The same, and waits as `umbra_stencil_alloc` does.
///
/// # Safety
/// As for `umbra_stencil_submit_members`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_alloc_members(
    stencil: u64,
    point: u64,
    list: *const Asked,
    count: usize,
    timeout_ms: u64,
    accepted: *mut u64,
) -> c_int {
    enter(|| {
        takes_unless_null(accepted)?;
        // SAFETY: the caller's promise about the members.
        let members = unsafe { members(list, count) }?;
        let within = Duration::from_millis(timeout_ms);
        let alloc = |stencil: &Stenciled| Ok(stencil.alloc_members(point, members.iter().map(Asked::member), within));
        let told = with_stencil(stencil, alloc)?;
        // SAFETY: the caller's promise about the output.
        unsafe { tell_accepted(accepted, told) }
    })
}

/// Lists the slots of a ready group, which ends; its references are given back one by one.
///
/// # Safety
/// `buffer` has room for `capacity` numbers; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_hand_over(
    stencil: u64,
    ready: u64,
    buffer: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        // References are handed over once: first of all there must be a place for what they are told by.
        takes(count)?;
        with_stencil(stencil, |stencil| {
            let mut slots: Vec<u32> =
                stencil.look(|machine| machine.slots(group(ready)).map(Iterator::collect::<Vec<_>>))?;
            if slots.len() <= capacity {
                takes_list(buffer, slots.len())?;
                stencil.hand_over(group(ready), &mut slots)?;
            }
            // SAFETY: the caller's promise about the outputs.
            unsafe { store_list(&slots, buffer, capacity, count) }
        })
    })
}

/// Gives a reference back that was handed over.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_stencil_free(stencil: u64, data: u64) -> c_int {
    enter(|| with_stencil(stencil, |stencil| Ok(stencil.free(data)?)))
}

/// Lists the inputs of which more uses were counted than named, with the rest; also after an interrupt.
///
/// # Safety
/// `buffer` has room for `capacity` of them; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_stencil_unclaimed(
    stencil: u64,
    buffer: *mut Uses,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        let (left, all) = with_stencil(stencil, |stencil| {
            stencil.look(|machine| counted(|| machine.unclaimed().map(|(data, uses)| Uses { data, uses }), capacity))
        })?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_counted((left.into_iter(), all), buffer, capacity, count) }
    })
}

//! `umbra_session_calls`: a rank's seat where chained calls of its agent meet.

use std::ffi::c_int;

use umbra::session::Calls;

use crate::call::{announced, enter, store, store_sized, takes};
use crate::member::Seated;
use crate::object::{HANDLES, Object, session};

/// `struct umbra_session_seat`.
#[repr(C)]
pub struct Told {
    size: usize,
    node: u32,
    resident: u32,
    first: u32,
    residents: u32,
    members: u32,
    places: u32,
}

impl Told {
    fn of(calls: &Calls) -> Told {
        let shape = calls.member.station().shape();
        Told {
            size: size_of::<Told>(),
            node: calls.member.node().0,
            resident: calls.resident.0,
            first: shape.first,
            residents: calls.residents,
            members: shape.members.into(),
            places: shape.places(),
        }
    }
}

/// Takes this rank's seat at the meeting place of its first service process, with the functions that all agents have.
///
/// # Safety
/// `seat` points to a structure that begins with its size and that nobody else uses; `member` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_calls(joined: u64, seat: *mut Told, member: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the structure.
        unsafe { announced(seat.cast_const(), size_of::<Told>()) }?;
        takes(member)?;
        let mut calls = session(joined)?.change(|s| Ok(s.calls()?))?;
        // The rank keeps no values: it only combines those of others.
        calls.member.serve_built_ins(0)?;
        let told = Told::of(&calls);
        let handle = HANDLES.keep(Object::Member(Box::new(Seated::new(calls.member))))?;
        // SAFETY: the caller's promise about the structure.
        unsafe { store_sized(seat, &told, size_of::<Told>()) }?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(member, handle) }
    })
}

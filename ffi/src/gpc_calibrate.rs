//! `umbra_gpc_calibrate`: which tree is the fastest.

use std::ffi::c_int;

use umbra::call::CalibrateError;
use umbra_core::chain::Call;

use crate::call::{enter, store, takes};
use crate::gpc::{Wanted, budget, describe, numbers_of};
use crate::member::Part;
use crate::object::{node_of, with_member_within};
use crate::status::{Code, Failure};

impl From<CalibrateError> for Failure {
    fn from(error: CalibrateError) -> Failure {
        match error {
            CalibrateError::Start(error) => error.into(),
            CalibrateError::Wait(error) => error.into(),
            other => Failure::new(Code::Invalid, other),
        }
    }
}

/// Makes a call over several trees in turn, and says over which it was the fastest.
///
/// # Safety
/// `wanted` points to a structure that begins with its size, and what it points to does not change during the call; the
/// outputs are valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_calibrate(
    member: u64,
    wanted: *const Wanted,
    rounds: u32,
    tree: *mut u32,
    width: *mut u32,
) -> c_int {
    enter(|| {
        takes(tree)?;
        takes(width)?;
        let maker = node_of(member)?;
        let calibrate = |call: &Call<'_>, part: Option<Part>| {
            with_member_within(member, budget(call)?, |seat, _| {
                let data = part.map_or(Ok(call.data), |part| seat.offered(part))?;
                let [fastest, ..] = seat.member.calibrate(&Call { data, ..*call }, rounds)?;
                Ok(numbers_of(fastest.tree))
            })
        };
        // SAFETY: the caller's promise.
        let numbers = unsafe { describe(wanted, maker, calibrate) }?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store(tree, numbers.0) }?;
        // SAFETY: as above.
        unsafe { store(width, numbers.1) }
    })
}

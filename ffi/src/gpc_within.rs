//! `umbra_gpc_work_*`: calls that functions make.

use std::ffi::c_int;

use umbra::call::{BeginError, InnerError};
use umbra_core::chain::Call;
use umbra_core::error::Status;

use crate::call::{enter, store, takes};
use crate::gpc::{Wanted, describe};
use crate::gpc_answer::{Answer, tell};
use crate::gpc_member::{Seen, inside};
use crate::member::Part;
use crate::status::{Code, Failure};

impl From<BeginError> for Failure {
    fn from(error: BeginError) -> Failure {
        match error {
            BeginError::TooMany => Failure::new(Status::Full, error),
            _ => Failure::new(Code::Invalid, error),
        }
    }
}

/// Has a call made by the function that runs.
///
/// # Safety
/// `work` is what the function was given, and it runs; the others are as for [`umbra_gpc_start`](crate::gpc::umbra_gpc_start).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_work_start(work: *const Seen, wanted: *const Wanted, number: *mut u32) -> c_int {
    enter(|| {
        takes(number)?;
        // SAFETY: the caller's promise.
        let local = &mut *unsafe { inside(work) }?.local;
        let maker = local.maker();
        let begin = |call: &Call<'_>, part: Option<Part>| match part {
            None => Ok(local.begin(call)?),
            Some(_) => Err(Failure::new(Code::Invalid, "a function cannot use its member, so it has no offers")),
        };
        // SAFETY: the caller's promise.
        let begun = unsafe { describe(wanted, maker, begin) }?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(number, begun as u32) }
    })
}

/// The answer to a call that the function has made.
///
/// # Safety
/// `work` is what the function was given, and it runs; `answer` is as for [`umbra_gpc_wait`](crate::gpc::umbra_gpc_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_work_answer(work: *const Seen, number: u32, answer: *mut Answer) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let local = &mut *unsafe { inside(work) }?.local;
        if number as usize >= local.begun() {
            return Err(Code::Stale.into());
        }
        let result = match local.answer(number as usize) {
            None => return Err(Failure::new(Status::Timeout, "the call goes on: return that the function is pending")),
            Some(Err(InnerError::NotBegun(error))) => return Err((*error).into()),
            Some(Ok(reply)) => Ok(reply),
            Some(Err(InnerError::Failed(failure))) => Err(failure),
            Some(Err(other)) => return Err(Failure::new(Code::Call, other)),
        };
        if !answer.is_null() {
            // SAFETY: the caller's promise.
            unsafe { tell(result, answer) }?;
        }
        result.map(drop).map_err(|failure| Failure::new(Code::Call, failure))
    })
}

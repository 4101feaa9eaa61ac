//! `umbra_gpc_work_*`: calls that functions make.

use std::ffi::c_int;

use umbra::call::{BeginError, InnerError, Local};
use umbra_core::error::Status;

use crate::call::{enter, sized, store, takes};
use crate::gpc::{Answer, Wanted, describe, tell};
use crate::gpc_member::Seen;
use crate::status::{Code, Failure};

impl From<BeginError> for Failure {
    fn from(error: BeginError) -> Failure {
        match error {
            BeginError::TooMany => Failure::new(Status::Full, error),
            _ => Failure::new(Code::Invalid, error),
        }
    }
}

/// What a function that runs has at its member.
///
/// # Safety
/// `work` is null or what the function was given, and it runs.
unsafe fn local<'a>(work: *const Seen) -> Result<&'a mut Local<'a>, Failure> {
    // SAFETY: the caller's promise.
    let seen = unsafe { sized(work, size_of::<Seen>()) }?;
    takes(seen.local)?;
    // SAFETY: put there for this run of the function, which by the caller's promise is going on; only one thread runs it, and
    // nobody keeps the reference beyond the call that asked for it.
    Ok(unsafe { &mut *seen.local.cast::<Local<'a>>() })
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
        let local = unsafe { local(work) }?;
        let maker = local.maker();
        // SAFETY: the caller's promise.
        let begun = unsafe { describe(wanted, maker, |call| Ok(local.begin(call)?)) }?;
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
        let local = unsafe { local(work) }?;
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

//! `umbra_gpc_stream`: data of any length through calls, a few segments at a time.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use umbra::call::{Reply, Segment as Cut, StreamError, WaitError, Window as Cuts};
use umbra_core::chain::{Call, Data};

use crate::call::{enter, sized};
use crate::gpc::{Wanted, budget, describe};
use crate::gpc_answer::{Answer, takes_answer, tell};
use crate::member::Part;
use crate::object::{node_of, with_member_within};
use crate::status::{Code, Failure};

/// `struct umbra_gpc_window`.
#[repr(C)]
pub struct Window {
    size: usize,
    segment_bytes: usize,
    calls: u32,
    reserved: u32,
}

/// `struct umbra_gpc_segment`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Segment {
    offset: u64,
    length: u64,
    total: u64,
}

/// `umbra_gpc_each`.
type Each = unsafe extern "C" fn(*mut c_void, *const Segment, *const c_void, usize, *const c_void, usize);

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        let code = match &error {
            StreamError::NoWindow => Code::Invalid,
            StreamError::Offer { error, .. } => Failure::from(error.clone()).code,
            StreamError::Start { error, .. } => Failure::from(*error).code,
            StreamError::Call { error, .. } => Failure::from(error.clone()).code,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

/// Makes the call for each segment of its data, and has `each` look at the replies in their order.
///
/// # Safety
/// `wanted` and `answer` are as for [`umbra_gpc_exec`](crate::gpc::umbra_gpc_exec); `window` points to a structure that begins
/// with its size; `each` is null or may be called with `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_stream(
    member: u64,
    wanted: *const Wanted,
    window: *const Window,
    each: Option<Each>,
    user: *mut c_void,
    answer: *mut Answer,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise: nothing is begun whose end could not be told.
        unsafe { takes_answer(answer) }?;
        // SAFETY: the caller's promise; zeros are a valid structure.
        let window = unsafe { sized(window, size_of::<Window>()) }?;
        // A call ends by itself when its time is over.
        let cuts = Cuts { segment: window.segment_bytes, calls: window.calls as usize, patience: Duration::MAX };
        let maker = node_of(member)?;
        let look = |cut: Cut, reply: Reply| {
            let segment = Segment { offset: cut.offset, length: cut.len, total: cut.total };
            let (header, data) = (reply.header.as_slice(), reply.data.as_slice());
            if let Some(each) = each {
                // SAFETY: the caller's promise about the function; what it is given outlives the call.
                unsafe {
                    each(
                        user,
                        &raw const segment,
                        header.as_ptr().cast(),
                        header.len(),
                        data.as_ptr().cast(),
                        data.len(),
                    )
                };
            }
        };
        let stream = |call: &Call<'_>, part: Option<Part>| match (call.data, part) {
            (Data::Bytes(bytes), None) => {
                with_member_within(member, budget(call)?, |seat, _| Ok(seat.member.stream(call, bytes, cuts, look)))
            }
            _ => Err(Failure::new(Code::Invalid, "data that is offered already is in one piece")),
        };
        // SAFETY: the caller's promise.
        let streamed = unsafe { describe(wanted, maker, stream) }?;
        let failed = match &streamed {
            Err(StreamError::Call { error: WaitError::Failed(failure), .. }) => Some(failure),
            _ => None,
        };
        if let Some(failure) = failed.filter(|_| !answer.is_null()) {
            // SAFETY: the caller's promise.
            unsafe { tell(Err(failure), answer) }?;
        }
        Ok(streamed?)
    })
}

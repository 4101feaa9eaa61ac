//! `umbra_gpc_*`: chained calls, a function on many members and one answer.

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::time::Duration;

use umbra_core::chain::{BUDGET_MAX, Call, Caps, Data, Handle, Mode, Node, Plan, StartError, Tag};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::ROOT;

use crate::call::{enter, numbers, sized, store, takes, text};
use crate::gpc_answer::{Answer, takes_answer, tell};
use crate::member::{Part, Seat};
use crate::object::{node_of, with_member, with_member_within};
use crate::pool::{bytes, patience};
use crate::status::{Code, Failure};

/// The maker's own function does not run; beside the bits of [`Mode`].
const COORDINATE: u32 = 1 << 16;
/// The number by which C has the tree chosen.
const AUTO: u32 = 6;

/// `struct umbra_gpc_call`.
#[repr(C)]
pub struct Wanted {
    size: usize,
    function: *const c_char,
    callback: *const c_char,
    members: *const u32,
    count: usize,
    header: *const c_void,
    header_length: usize,
    data: *const c_void,
    data_length: usize,
    reply_header: usize,
    reply_data: usize,
    tree: u32,
    width: u32,
    parents: *const u32,
    parent_of: Option<unsafe extern "C" fn(*mut c_void, u32, u32) -> u32>,
    user: *mut c_void,
    mode: u32,
    reserved: u32,
    timeout_ms: u64,
    offer: u64,
    offer_offset: u64,
    offer_length: u64,
}

/// The tree that C knows by these numbers.
fn shape_of(tree: u32, width: u32) -> Result<Shape, Failure> {
    let invalid = || Failure::new(Code::Invalid, format!("no tree is called {tree} with width {width}"));
    let narrow = u8::try_from(width).map_err(|_| invalid());
    match tree {
        0 => Ok(Shape::BINARY),
        1 => Ok(Shape::BINOMIAL),
        2 => Ok(Shape::FLAT),
        3 => Ok(Shape::CHAIN),
        4 => Shape::kary(narrow?).ok_or_else(invalid),
        5 => Shape::knomial(narrow?).ok_or_else(invalid),
        _ => Err(invalid()),
    }
}

/// The numbers by which C knows a tree: its kind and its width.
pub(crate) fn numbers_of(shape: Shape) -> (u32, u32) {
    match shape.to_bytes() {
        [0, 2] => (0, 0),
        [0, 1] => (3, 0),
        [0, width] => (4, width.into()),
        [1, 2] => (1, 0),
        [1, width] => (5, width.into()),
        _ => (2, 0),
    }
}

/// Uses the call that the caller describes, of this maker, and the offer that it is over, if it is over one.
///
/// # Safety
/// `wanted` points to a structure that begins with its size, and what it points to does not change during the call.
pub(crate) unsafe fn describe<R>(
    wanted: *const Wanted,
    maker: Node,
    use_it: impl FnOnce(&Call<'_>, Option<Part>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: the caller's promise; zeros are a valid structure.
    let wanted = unsafe { sized(wanted, offset_of!(Wanted, offer)) }?;
    // SAFETY: the caller's promise about what it points to.
    let function = unsafe { text(wanted.function, "function") }?;
    let callback = if wanted.callback.is_null() {
        Tag::NONE
    } else {
        // SAFETY: as above.
        Tag::of(unsafe { text(wanted.callback, "callback") }?)
    };
    // SAFETY: as above; any bits are a number.
    let members: Vec<Node> = unsafe { numbers(wanted.members, wanted.count) }?.iter().copied().map(Node).collect();
    // SAFETY: as above.
    let header = unsafe { bytes(wanted.header, wanted.header_length) }?;
    // SAFETY: as above.
    let data = unsafe { bytes(wanted.data, wanted.data_length) }?;
    let too_long = |_| Failure::new(Code::TooLong, "a reply can have a header of 65535 bytes and data of 4 GiB");
    let caps = Caps {
        header: u16::try_from(wanted.reply_header).map_err(too_long)?,
        data: u32::try_from(wanted.reply_data).map_err(too_long)?,
    };
    let parent_of = |len: u32, at: u32| {
        // SAFETY: the caller's promise about the function.
        let parent = wanted.parent_of.map_or(ROOT, |ask| unsafe { ask(wanted.user, len, at) });
        (parent != ROOT).then_some(parent)
    };
    let flags = u16::try_from(wanted.mode & !COORDINATE).ok().and_then(Mode::from_bits);
    let mode = flags
        .filter(|flags| !flags.contains(Mode::SPAN))
        .ok_or_else(|| Failure::new(Code::Invalid, format!("no way to treat a call is called {:#x}", wanted.mode)))?;
    let plan = match (wanted.parents.is_null(), wanted.parent_of) {
        (true, None) if wanted.tree == AUTO => Plan::Auto,
        (true, None) => Plan::Shape(shape_of(wanted.tree, wanted.width)?),
        (true, Some(_)) => Plan::Function(&parent_of),
        (false, None) => {
            let others = members.iter().filter(|&&member| member != maker);
            // Whoever counts once has one position.
            let others = if mode.contains(Mode::DEDUP) { others.collect::<HashSet<_>>().len() } else { others.count() };
            // SAFETY: the caller's promise: a parent for the maker and for every other member.
            Plan::Parents(unsafe { numbers(wanted.parents, 1 + others) }?)
        }
        (false, Some(_)) => return Err(Failure::new(Code::Invalid, "both parents and a function state the tree")),
    };
    let budget_ms = if wanted.timeout_ms == 0 { 1000 } else { wanted.timeout_ms };
    let part = Part { offer: wanted.offer, offset: wanted.offer_offset, length: wanted.offer_length };
    let part = (part != Part { offer: 0, offset: 0, length: 0 }).then_some(part);
    if part.is_some() && !data.is_empty() {
        return Err(Failure::new(Code::Invalid, "data goes with the request or is offered, not both"));
    }
    let call = Call {
        callback,
        header,
        data: Data::Bytes(data),
        plan,
        caps,
        mode,
        budget: Lapse(budget_ms.saturating_mul(1_000_000)),
        at_root: wanted.mode & COORDINATE == 0,
        ..Call::new(Tag::of(function), &members)
    };
    use_it(&call, part)
}

/// How long a call may take, and wait for its turn; one with too much time is refused without that.
pub(crate) fn budget(call: &Call<'_>) -> Result<Duration, Failure> {
    if call.budget > BUDGET_MAX {
        return Err(StartError::TooMuchTime.into());
    }
    Ok(Duration::from_nanos(call.budget.0))
}

/// Begins the call that the caller describes, and goes on with it in the same turn at the member.
///
/// # Safety
/// As for [`describe`].
unsafe fn start<R>(
    member: u64,
    wanted: *const Wanted,
    go_on: impl FnOnce(&mut Seat, u64) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let maker = node_of(member)?;
    let start = |call: &Call<'_>, part: Option<Part>| {
        with_member_within(member, budget(call)?, |seat, left| {
            let data = part.map_or(Ok(call.data), |part| seat.offered(part))?;
            let budget = Lapse(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            let begun = seat.member.start(&Call { data, budget, ..*call })?;
            go_on(seat, begun.to_bits())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { describe(wanted, maker, start) }
}

/// Begins a call.
///
/// # Safety
/// `wanted` points to a structure that begins with its size, and what it points to does not change during the call; `call`
/// is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_start(member: u64, wanted: *const Wanted, call: *mut u64) -> c_int {
    enter(|| {
        takes(call)?;
        // SAFETY: the caller's promise.
        let handle = unsafe { start(member, wanted, |_, call| Ok(call)) }?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(call, handle) }
    })
}

/// Whether a call has ended; serves others once.
///
/// # Safety
/// `ended` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_test(member: u64, call: u64, ended: *mut c_int) -> c_int {
    enter(|| {
        takes(ended)?;
        let has = with_member(member, |seat| seat.has_ended(call))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(ended, c_int::from(has)) }
    })
}

/// Waits for a call and takes its answer.
///
/// # Safety
/// `answer` is null or points to a structure that begins with its size, and so do its buffers with room for what it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_wait(member: u64, call: u64, timeout_ms: u64, answer: *mut Answer) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        with_member_within(member, patience(timeout_ms), |seat, left| unsafe { wait(seat, call, left, answer) })
    })
}

/// Begins a call and waits for its answer.
///
/// # Safety
/// As for [`umbra_gpc_start`] and [`umbra_gpc_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_exec(member: u64, wanted: *const Wanted, answer: *mut Answer) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise: nothing is begun whose answer could not be told.
        unsafe { takes_answer(answer) }?;
        let go_on = |seat: &mut Seat, call: u64| {
            // A call ends by itself when its time is over.
            // SAFETY: the caller's promise.
            let told = unsafe { wait(seat, call, Duration::MAX, answer) };
            if told.is_err() {
                // Nobody else knows the call, so nobody asks for an answer again that does not fit.
                seat.forget(call);
            }
            told
        };
        // SAFETY: the caller's promise.
        unsafe { start(member, wanted, go_on) }
    })
}

/// # Safety
/// As for [`umbra_gpc_wait`].
unsafe fn wait(seat: &mut Seat, call: u64, patience: Duration, answer: *mut Answer) -> Result<(), Failure> {
    seat.answer(call, patience, |result| {
        if answer.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { tell(result.as_ref(), answer) }
    })
}

/// Gives a call up.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gpc_cancel(member: u64, call: u64) -> c_int {
    enter(|| with_member(member, |seat| seat.member.cancel(Handle::from_bits(call)).map_err(|_| Code::Stale.into())))
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use umbra::call::{Member, Shape as Seats, Station};
    use umbra_core::chain::Verdict;

    use super::*;
    use crate::member::Seated;
    use crate::object::{HANDLES, Object};

    #[test]
    fn a_tree_has_the_numbers_by_which_it_is_found() {
        let wider = [Shape::kary(3), Shape::knomial(3), Shape::knomial(255)].map(Option::unwrap);
        for tree in umbra::call::calibrate::TREES.into_iter().chain(wider).chain([Shape::CHAIN]) {
            let (number, width) = numbers_of(tree);
            assert_eq!(shape_of(number, width).unwrap(), tree);
        }
        assert_eq!([Shape::BINARY, Shape::CHAIN].map(numbers_of), [(0, 0), (3, 0)]);
    }

    #[test]
    fn only_answers_that_can_be_asked_for_again_are_kept() {
        let station = Station::create("kept", Seats::new(1)).unwrap();
        let mut member = Member::join(&station, Node(0)).unwrap();
        let eight = |work: &mut umbra_core::chain::Work<'_>| {
            work.reply.set_data(&[7; 8]).map_or(Verdict::Fault(1), |()| Verdict::Done)
        };
        member.register("eight", eight).unwrap();
        let member = HANDLES.keep(Object::Member(Box::new(Seated::new(member)))).unwrap();
        let kept = || with_member(member, |seat| Ok(seat.kept())).unwrap();
        let name = c"eight".as_ptr();
        let wanted = Wanted {
            size: size_of::<Wanted>(),
            function: name,
            callback: name,
            members: null(),
            count: 0,
            header: null(),
            header_length: 0,
            data: null(),
            data_length: 0,
            reply_header: 0,
            reply_data: 8,
            tree: 0,
            width: 0,
            parents: null(),
            parent_of: None,
            user: null_mut(),
            mode: 0,
            reserved: 0,
            timeout_ms: 0,
            offer: 0,
            offer_offset: 0,
            offer_length: 0,
        };
        let (mut data, mut call) = ([0_u8; 8], 0);
        let mut answer = Answer {
            size: size_of::<Answer>(),
            ok: 0,
            failed: 0,
            unreached: 0,
            unknown: 0,
            header: null_mut(),
            header_capacity: 0,
            header_length: 0,
            data: data.as_mut_ptr().cast(),
            data_capacity: 4,
            data_length: 0,
            failures: null_mut(),
            failure_capacity: 0,
            failure_count: 0,
            unreached_members: null_mut(),
            unreached_capacity: 0,
            unreached_count: 0,
        };
        // SAFETY: all structures live, and say how large they and their buffers are.
        let done = unsafe { umbra_gpc_exec(member, &raw const wanted, &raw mut answer) };
        assert_eq!((done, answer.data_length, kept()), (-Code::TooSmall.number(), 8, 0));
        // SAFETY: as above.
        assert_eq!(unsafe { umbra_gpc_start(member, &raw const wanted, &raw mut call) }, 0);
        for (room, left) in [(4, -Code::TooSmall.number()), (8, 0)] {
            answer.data_capacity = room;
            // SAFETY: as above.
            let done = unsafe { umbra_gpc_wait(member, call, 0, &raw mut answer) };
            assert_eq!((done, kept()), (left, usize::from(left != 0)));
        }
        assert_eq!(data, [7; 8]);
    }
}

//! `umbra_gpc_*`: members of chained calls, and the functions that they run.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr::null;

use umbra::call::{Capacities, Local, Member};
use umbra_core::chain::{CallId, Data, HeaderBelow, Members, Node, Phase, Verdict, Work};

use crate::call::{enter, short, sized, takes, text};
use crate::member::Seated;
use crate::object::{HANDLES, Object, leave_seat, serve_seat, with_member, with_station};
use crate::pool::{keep, patience};
use crate::status::{Code, Failure};

/// What a function returns that is to be run again.
const PENDING: c_int = -1;
/// `parent` and `child` where there is none.
const NOBODY: u32 = u32::MAX;

/// `struct umbra_gpc_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    calls: u32,
    functions: u32,
    call_bytes: u64,
    answer_bytes: u64,
    remembered: u32,
    reserved: u32,
}

/// `struct umbra_gpc_work`.
#[repr(C)]
pub struct Seen {
    size: usize,
    phase: u32,
    node: u32,
    maker: u32,
    parent: u32,
    header: *const c_void,
    header_length: usize,
    data: *const c_void,
    data_length: usize,
    reply_header: *mut c_void,
    reply_header_capacity: usize,
    reply_header_length: usize,
    reply_data: *mut c_void,
    reply_data_capacity: usize,
    reply_data_length: usize,
    child: u32,
    child_members: u32,
    last: u32,
    subtree: u32,
    child_header: *const c_void,
    child_header_length: usize,
    child_data: *const c_void,
    child_data_length: usize,
    /// What is [inside](Inside) this run of the function.
    pub(crate) local: *mut c_void,
    offered_length: u64,
}

/// What `local` of a work leads to while the function runs.
pub(crate) struct Inside<'a, 'l> {
    pub(crate) local: &'a mut Local<'l>,
    /// That of the request.
    pub(crate) data: Data<'a>,
    /// Which call it runs for.
    pub(crate) call: CallId,
    /// Those below and with this one.
    pub(crate) members: Members<'a>,
    /// All of the call, if they are wanted.
    pub(crate) all: Option<Members<'a>>,
    /// Where the header for the children is written, where one may be.
    pub(crate) below: Option<HeaderBelow<'a>>,
}

/// What a function that runs has at its member.
///
/// # Safety
/// `work` is null or what the function was given, and it runs.
pub(crate) unsafe fn inside<'a>(work: *const Seen) -> Result<&'a mut Inside<'a, 'a>, Failure> {
    // SAFETY: the caller's promise.
    let seen = unsafe { sized(work, size_of::<Seen>()) }?;
    takes(seen.local)?;
    // SAFETY: put there for this run of the function, which by the caller's promise is going on; only one thread runs it, and
    // nobody keeps the reference beyond the call that asked for it.
    Ok(unsafe { &mut *seen.local.cast::<Inside<'a, 'a>>() })
}

/// `umbra_gpc_function`.
type Function = unsafe extern "C" fn(*mut c_void, *mut Seen) -> c_int;

/// The caller's word for a function, handed to whichever thread runs it.
struct User(*mut c_void);
// SAFETY: it is never looked at here; the header says that the function may be run by any thread that uses the member.
unsafe impl Send for User {}

/// Runs a function of the caller's.
///
/// # Safety
/// `function` may be called with `user` and a structure that is valid while it runs.
unsafe fn run(function: Function, user: &User, work: &mut Work<'_>, local: &mut Local<'_>) -> Verdict {
    let list = |bytes: &[u8]| (bytes.as_ptr().cast::<c_void>(), bytes.len());
    let (header, header_length) = list(work.header);
    // What is offered lies elsewhere, and is asked for.
    let ((data_at, data_length), offered_length) = match work.data {
        Data::Bytes(bytes) => (list(bytes), 0),
        Data::Span(span) => ((null(), 0), span.len),
    };
    let members = work.members();
    let subtree = members.len() as u32;
    let (reply_header_length, reply_data_length) = (work.reply.header().len(), work.reply.data().len());
    let (phase, child) = match work.phase {
        Phase::Init => (1, None),
        Phase::Probe => (2, None),
        Phase::Wait(answer) => (3, Some(answer)),
    };
    let (reply_header, reply_data) = work.reply.memory();
    let (reply_header_at, reply_header_capacity) = (reply_header.as_mut_ptr().cast(), reply_header.len());
    let (reply_data_at, reply_data_capacity) = (reply_data.as_mut_ptr().cast(), reply_data.len());
    let (child_header, child_header_length) = child.map_or((null(), 0), |child| list(child.header));
    let (child_data, child_data_length) = child.map_or((null(), 0), |child| list(child.data));
    let (data, call, all) = (work.data, work.call, work.full_list());
    let (node, maker, parent) = (work.node.0, call.root.0, work.parent.map_or(NOBODY, |parent| parent.0));
    let mut inside = Inside { local, data, call, members, all, below: work.header_below() };
    let mut seen = Seen {
        size: size_of::<Seen>(),
        phase,
        node,
        maker,
        parent,
        header,
        header_length,
        data: data_at,
        data_length,
        reply_header: reply_header_at,
        reply_header_capacity,
        reply_header_length,
        reply_data: reply_data_at,
        reply_data_capacity,
        reply_data_length,
        child: child.map_or(NOBODY, |child| child.from.0),
        child_members: child.map_or(0, |child| child.members),
        last: child.map_or(0, |child| u32::from(child.last)),
        subtree,
        child_header,
        child_header_length,
        child_data,
        child_data_length,
        local: std::ptr::from_mut(&mut inside).cast(),
        offered_length,
    };
    // SAFETY: the caller's promise; all that the structure points to outlives the call, and nobody else uses the reply.
    let verdict = unsafe { function(user.0, &raw mut seen) };
    // A reply that is too long is noted there, and the call fails for that.
    let _ = work.reply.set_lens(seen.reply_header_length, seen.reply_data_length);
    match verdict {
        0 => Verdict::Done,
        PENDING => Verdict::Pending,
        number => Verdict::Fault(number.unsigned_abs()),
    }
}

/// Takes a seat.
///
/// # Safety
/// `options` is null or points to a structure that begins with its size; `member` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_join(station: u64, node: u32, options: *const Options, member: *mut u64) -> c_int {
    enter(|| {
        takes(member)?;
        let joined = with_station(station, |station| {
            let mut room = Capacities::new(station.shape().all);
            if !options.is_null() {
                // SAFETY: the caller's promise about `options`; zeros are valid options.
                let options = unsafe { sized(options, offset_of!(Options, answer_bytes)) }?;
                let or = |number: u32, usual: u16, what| if number == 0 { Ok(usual) } else { short(number, what) };
                // More than there are addresses is more than there is memory for.
                let bytes = |number: u64, usual| match number {
                    0 => usual,
                    _ => usize::try_from(number).unwrap_or(usize::MAX),
                };
                room.calls = or(options.calls, room.calls, "calls")?;
                room.functions = or(options.functions, room.functions, "functions")?;
                room.call_bytes = bytes(options.call_bytes, room.call_bytes);
                room.answer_bytes = bytes(options.answer_bytes, room.answer_bytes);
                room.remembered = if options.remembered == 0 { room.remembered } else { options.remembered };
            }
            Ok(Member::join_with(station, Node(node), room, |config| config)?)
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Member(Box::new(Seated::new(joined))), member) }
    })
}

/// Takes another seat for the same member.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gpc_house(member: u64, node: u32) -> c_int {
    enter(|| with_member(member, |seat| Ok(seat.member.house(Node(node))?)))
}

/// Leaves the seat.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gpc_leave(member: u64) -> c_int {
    enter(|| {
        leave_seat(member)?;
        HANDLES.release(member).map(drop)
    })
}

/// Makes a function callable by a name.
///
/// # Safety
/// `name` ends with a zero; `function` may be called with `user` by any thread that uses the member.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_register(
    member: u64,
    name: *const c_char,
    function: Option<Function>,
    user: *mut c_void,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `name`.
        let name = unsafe { text(name, "name") }?;
        let function = function.ok_or_else(|| Failure::new(Code::Invalid, "function is null"))?;
        let user = User(user);
        with_member(member, |seat| {
            seat.member.register_local(name, move |work, local| {
                let user = &user;
                // SAFETY: the caller's promise about the function.
                unsafe { run(function, user, work, local) }
            })?;
            Ok(())
        })
    })
}

/// Takes no new calls of a function.
///
/// # Safety
/// `name` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_gpc_release(member: u64, name: *const c_char) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about `name`.
        let name = unsafe { text(name, "name") }?;
        let known = with_member(member, |seat| Ok(seat.member.unregister(name)))?;
        if known { Ok(()) } else { Err(Code::NoFunction.into()) }
    })
}

/// Serves the calls of others for this time, or until another thread leaves.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_gpc_serve(member: u64, timeout_ms: u64) -> c_int {
    enter(|| serve_seat(member, patience(timeout_ms)))
}

//! `umbra_session_*`: a rank's membership in a job.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use umbra::config::{Environment, Platform};
use umbra::secret::Secret;
use umbra::session::{Seat, Session, SessionError, Settings};
use umbra::sys::clock;
use umbra_core::error::Status;
use umbra_core::peer::{Host, LocalRank, WorldRank};
use umbra_core::time::Lapse;

use crate::call::{enter, lent, sized, store, store_list, takes, text};
use crate::object::{Grouped, HANDLES, Joined, Object, session};
use crate::standing::Standing;
use crate::status::{Code, Failure};

/// What a rank tells about itself: `struct umbra_join_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct JoinOptions {
    /// Bytes of the caller's version of this structure.
    size: usize,
    config: *const c_char,
    dpus: *const c_char,
    secret: *const c_char,
    sockets: *const c_char,
    rank: u32,
    world_size: u32,
    host: u32,
    local_rank: u32,
    local_size: u32,
    shadows: u32,
    timeout_ms: u64,
    silence_ms: u64,
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        let error = match error {
            SessionError::Calls(error) => return error.into(),
            error => error,
        };
        let code = match &error {
            SessionError::Io { .. }
            | SessionError::Segment(_)
            | SessionError::Process(_)
            | SessionError::NoMemory(_) => Code::System,
            SessionError::Forked => Code::Stale,
            SessionError::NoSuchSeat
            | SessionError::NoMember { .. }
            | SessionError::Descriptor(_)
            | SessionError::Join(_) => Code::Invalid,
            other => match other.status() {
                // All have left it, as they should: no failure of theirs, but one of the caller who waits for it.
                Status::Ok => Code::Status(Status::StaleGeneration),
                status => Code::Status(status),
            },
        };
        Failure::new(code, error)
    }
}

/// # Safety
/// The texts in `options` end with a zero, or are null where that is allowed.
unsafe fn settings(options: &JoinOptions) -> Result<Settings, Failure> {
    // SAFETY: the caller's promise.
    let config = unsafe { text(options.config, "config") }?;
    // SAFETY: the caller's promise.
    let secret = unsafe { text(options.secret, "secret") }?;
    let platform = Platform::read(config).map_err(|e| Failure::new(Code::Invalid, e))?;
    let names: Vec<&str> = if options.dpus.is_null() {
        platform.dpu_names()
    } else {
        // SAFETY: not null; the caller's promise.
        unsafe { text(options.dpus, "dpus") }?.split(',').map(str::trim).collect()
    };
    let job = platform.job(&names).map_err(|e| Failure::new(Code::Invalid, e))?;
    let secret = Secret::read(Path::new(secret)).map_err(|e| Failure::new(Code::Invalid, e))?;
    let seat = Seat {
        rank: WorldRank(options.rank),
        size: options.world_size,
        host: Host(options.host),
        local: LocalRank(options.local_rank),
        n_local: options.local_size,
    };
    let mut settings = Settings::new(job, secret, seat);
    settings.device = Environment::of_process().map_err(|e| Failure::new(Code::Invalid, e))?.device;
    if !options.sockets.is_null() {
        // SAFETY: not null; the caller's promise.
        settings.sockets = Some(unsafe { text(options.sockets, "sockets") }?.into());
    }
    if options.shadows != 0 {
        settings.shadows = options.shadows;
    }
    if options.timeout_ms != 0 {
        settings.deadline = Duration::from_millis(options.timeout_ms);
    }
    if options.silence_ms != 0 {
        settings.silence = Some(Duration::from_millis(options.silence_ms));
    }
    Ok(settings)
}

/// Joins a job and its world group; returns when that is full.
///
/// # Safety
/// `options` is as its size says, its texts end with a zero; `joined` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_join(options: *const JoinOptions, joined: *mut u64) -> c_int {
    enter(|| {
        takes(joined)?;
        // SAFETY: the caller's promise; `JoinOptions` is plain data of which zeros are a valid value.
        let options = unsafe { sized(options, offset_of!(JoinOptions, silence_ms)) }?;
        // SAFETY: the caller's promise about the texts.
        let settings = unsafe { settings(&options) }?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Session::join(settings)?, joined) }
    })
}

/// Keeps a session and stores its handle.
///
/// # Safety
/// `joined` is valid for writing.
pub(crate) unsafe fn keep(session: Session, joined: *mut u64) -> Result<(), Failure> {
    let session = Joined::new(session);
    let handle = HANDLES.keep(Object::Session(Arc::clone(&session))).inspect_err(|_| {
        // Nobody could ever leave a session without its handle.
        let _ = session.take().map(Session::leave);
    })?;
    // SAFETY: the caller's promise about the output.
    unsafe { store(joined, handle) }
}

/// Leaves the job: revokes what is exported, leaves all groups. The handle is released in any case.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_session_leave(handle: u64) -> c_int {
    enter(|| {
        let joined = session(handle)?;
        HANDLES.release(handle)?;
        joined.take()?.leave().map_err(Failure::from)
    })
}

/// The world group, as a handle of its own.
///
/// # Safety
/// `world` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_world(handle: u64, world: *mut u64) -> c_int {
    enter(|| {
        takes(world)?;
        let session = session(handle)?;
        let group = session.ask(|s| s.world().ok_or_else(|| Status::UnknownGroup.into()))?;
        let group = HANDLES.keep(Object::Group(Grouped { session, group: Standing::new(group), is_world: true }))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(world, group) }
    })
}

/// The rank's shadow service processes, in order.
///
/// # Safety
/// `buffer` has room for `capacity` numbers; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_shadows(
    handle: u64,
    buffer: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        let list = session(handle)?.ask(|s| Ok(s.shadows().map(|sp| sp.0).collect::<Vec<_>>()))?;
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_list(&list, buffer, capacity, count) }
    })
}

/// How often the system woke this process for its links: stands still while others read its memory.
///
/// # Safety
/// `wakeups` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_wakeups(handle: u64, wakeups: *mut u64) -> c_int {
    enter(|| {
        let number = session(handle)?.ask(|s| Ok(s.wakeups()))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(wakeups, number) }
    })
}

/// Answers service processes that want something of this rank, until something has happened or the time is over.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_session_progress(handle: u64, timeout_ms: u64) -> c_int {
    enter(|| {
        // All ones saturate to a time that never comes.
        let until = clock::now() + Lapse::from_millis(timeout_ms);
        session(handle)?.change(|s| Ok(s.progress(until)?))
    })
}

/// Sleeps until the descriptor is readable, a signal came or a link to a service process has ended.
///
/// # Safety
/// `descriptor` is open until this returns; `ended` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_session_sleep(handle: u64, descriptor: c_int, ended: *mut c_int) -> c_int {
    enter(|| {
        takes(ended)?;
        // SAFETY: the caller's promise.
        let also = unsafe { lent(descriptor) }?;
        let has_ended = session(handle)?.ask(|s| Ok(s.sleep(also)?))?;
        // SAFETY: the caller's promise about the output.
        unsafe { store(ended, c_int::from(has_ended)) }
    })
}

/// Waits until service processes that were started again have back what they must know of this rank.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_session_recover(handle: u64) -> c_int {
    enter(|| session(handle)?.change(|s| Ok(s.recover()?)))
}

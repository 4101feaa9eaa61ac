//! `umbra_mpi_job_*`: a job of the processes of a communicator.

use std::cell::RefCell;
use std::ffi::c_int;

use umbra_ffi::foreign::{self, Alone, Code, Failure, enter, keep, keep_session, store_list, takes};
use umbra_mpi::{Bootstrap, BootstrapError, RawCommunicator};

use crate::agreed::{agree, refused, up};
use crate::fabric::of_program;

/// A job; none once it has ended.
type Job = Alone<RefCell<Option<Bootstrap>>>;

fn failed(error: BootstrapError) -> Failure {
    match error {
        BootstrapError::Session(error) => error.into(),
        error => Failure::new(Code::System, error),
    }
}

fn with_job<R>(job: u64, act: impl FnOnce(&Bootstrap) -> Result<R, Failure>) -> Result<R, Failure> {
    foreign::with(job, |job: &Job| act(job.get()?.borrow().as_ref().ok_or(Code::Stale)?))
}

/// Makes a job of the processes of a communicator: finds out who is where, and starts an agent on each node.
///
/// # Safety
/// `communicator` is one of this process; `job` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_mpi_job_start(communicator: RawCommunicator, part: u32, job: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let program = unsafe { of_program(communicator) }?;
        let part = takes(job).and_then(|()| {
            let many = |_| Failure::new(Code::Invalid, format!("part {part}: it is {} at most", u16::MAX));
            u16::try_from(part).map_err(many)
        });
        let part = agree(&program, part, |_| [0; 2], "a job")?;
        let world = program.duplicate().map_err(refused)?;
        let started: Job = Alone::new(RefCell::new(Some(Bootstrap::split(world, part).map_err(failed)?)), up);
        // SAFETY: the caller's promise about the output.
        unsafe { keep(started, job) }
    })
}

/// Joins the job.
///
/// # Safety
/// `session` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_mpi_job_join(job: u64, session: *mut u64) -> c_int {
    enter(|| {
        takes(session)?;
        let joined = with_job(job, |job| job.join().map_err(failed))?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep_session(joined, session) }
    })
}

/// Who the processes of another communicator are in the job.
///
/// # Safety
/// `communicator` is one of this process; `ranks` has room for `capacity` numbers; `count` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_mpi_job_members(
    job: u64,
    communicator: RawCommunicator,
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    enter(|| {
        // Whoever may not call MPI does not even say so over MPI, and who has no job is none of those that may.
        foreign::with(job, |job: &Job| job.get().map(drop))?;
        // SAFETY: the caller's promise.
        let program = unsafe { of_program(communicator) }?;
        let mine = with_job(job, |job| Ok(job.seat().rank));
        agree(&program, mine, |_| [0; 2], "to name the members of a job")?;
        let members = with_job(job, |job| job.members(&program).map_err(failed))?;
        let members: Vec<u32> = members.into_iter().map(|member| member.0).collect();
        // SAFETY: the caller's promise about the outputs.
        unsafe { store_list(&members, ranks, capacity, count) }
    })
}

/// Ends the job, together with all processes, after all have left it.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_mpi_job_end(job: u64) -> c_int {
    enter(|| {
        let ended = foreign::with(job, |job: &Job| Ok(job.get()?.borrow_mut().take()))?;
        foreign::release(job)?;
        ended.ok_or(Code::Stale)?.end().map_err(failed)
    })
}

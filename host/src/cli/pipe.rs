//! `umbra pipe`: bytes from shell to shell, through a stream in shared memory.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use umbra::channel::Timeout;
use umbra::quantity::{Bytes, parse_bytes, parse_lapse};
use umbra::stream::{Error, Meeting, Piece, ReceiveOptions, Role, SendOptions, Sender as Sending};
use umbra_core::time::Lapse;

use super::{Done, Failure, paint, progress};

/// Send standard input to another process of this user, or receive it as standard output.
///
/// Both sides name the same NAME, and come in any order. The sender ends with its input, the receiver with the sender; if one
/// of them is killed, the other one says so and fails. Nothing of the pipe is left when both have ended.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pipe {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = paint::examples!(
    "tar c src | umbra pipe send sources"   "in one shell";
    "umbra pipe recv sources | tar x"       "in another one, before or after";
    "umbra pipe recv sums --wait 10s"       "fail if nobody sends within ten seconds";
);

#[derive(Subcommand, Debug)]
enum What {
    /// Send standard input
    Send(How),
    /// Receive to standard output
    Recv(How),
}

#[derive(Args, Debug)]
struct How {
    /// What the other side names too: 1 to 64 bytes
    #[arg(value_name = "NAME")]
    name: String,
    /// Wait at most so long for the other side, all in all, until both are there; without limit if not given
    #[arg(long, value_name = "TIME", value_parser = parse_lapse)]
    wait: Option<Lapse>,
    /// Bytes that may be under way at once, if this side comes first
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    ring: u64,
    /// Show neither what is waited for nor a progress bar, also on a terminal
    #[arg(long)]
    quiet: bool,
}

/// How long a process waits without a word.
const MOMENT: Duration = Duration::from_secs(1);
/// How often one who waits for input looks whether the receiver is there.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Bytes that are copied at once.
const CHUNK: usize = 256 << 10;

/// Standard input or output as a file: neither buffered nor searched for colours.
fn file(of: &impl AsFd) -> io::Result<File> {
    Ok(File::from(of.as_fd().try_clone_to_owned()?))
}

impl How {
    /// What is left to wait for the other side, for one who began to then.
    fn wait(&self, began: Instant) -> Timeout {
        let left = |lapse: Lapse| Duration::from_nanos(lapse.0).saturating_sub(began.elapsed());
        self.wait.map_or(Timeout::Never, |lapse| Timeout::After(left(lapse)))
    }

    fn meet(&self, role: Role, began: Instant) -> Result<Meeting, Failure> {
        let ring = u32::try_from(self.ring).map_err(|_| Failure::usage("--ring is at most 1 GiB"))?;
        Meeting::begin(&self.name, role, ring, self.wait(began)).map_err(|error| self.refused(role, error))
    }

    /// Says on a terminal who is waited for, unless what is returned is dropped within a moment.
    fn waiting(&self, role: Role) -> Option<Sender<()>> {
        if self.quiet || !io::stderr().is_terminal() {
            return None;
        }
        let awaited = format!("waiting for a process that {} as {:?}", missing(role), self.name);
        let (over, is_over) = channel();
        let say = move || {
            if is_over.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {
                // Nothing is lost without it.
                let _ = writeln!(anstream::stderr(), "{awaited}");
            }
        };
        // Nor without the thread.
        std::thread::Builder::new().name("waiting".to_owned()).spawn(say).ok()?;
        Some(over)
    }

    /// Why the other side is not there.
    fn refused(&self, role: Role, error: Error) -> Failure {
        match error {
            Error::Timeout => {
                Failure::failed(format!("nobody {} as {:?} before the deadline", missing(role), self.name))
            }
            Error::NameLength(_) => Failure::usage(error),
            error => Failure::failed(error),
        }
    }

    /// What shows how much has passed, out of so many bytes if they are known.
    fn bar(&self, expected: Option<u64>) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let template = match expected {
            Some(_) => "  {bar:40.cyan/dim} {percent:>3}%  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            None => "  {spinner:.cyan} {bytes}, {bytes_per_sec}",
        };
        let bar = ProgressBar::with_draw_target(expected, ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(progress::style(template));
        bar
    }
}

/// What the other side does.
const fn missing(role: Role) -> &'static str {
    match role {
        Role::Sender => "receives",
        Role::Receiver => "sends",
    }
}

/// What broke the pipe, for who runs both ends in shells.
fn words(error: &Error) -> String {
    match error {
        Error::Unheard => "the receiver has ended and takes no more: it has not read all".to_owned(),
        Error::PeerDead => "the process at the other end of the pipe died or gave up: start both ends again".to_owned(),
        error => error.to_string(),
    }
}

fn broken(error: Error) -> Failure {
    Failure::failed(words(&error))
}

impl Pipe {
    pub(crate) fn execute(&self) -> Done {
        match &self.what {
            What::Send(how) => send(how),
            What::Recv(how) => receive(how),
        }
    }
}

/// Waits until there is input, or its end; meanwhile the receiver is [checked](check), of whom the stream tells only who sends.
fn await_input(input: &File, mut check: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) => check()?,
            Err(Errno::INTR) => {}
            // Whatever cannot be waited for says so when it is read.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// Whether the receiver is there.
fn check(meeting: &Meeting, sender: &mut Sending<'_>) -> Result<(), Error> {
    meeting.adapter().reap()?;
    sender.keep(b"", 0)
}

fn send(how: &How) -> Done {
    let mut input = file(&io::stdin())?;
    let expected = input.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let (began, waiting) = (Instant::now(), how.waiting(Role::Sender));
    let meeting = how.meet(Role::Sender, began)?;
    let options = SendOptions { may_be_cut: true, ..SendOptions::default() };
    let mut sender = meeting.adapter().send(&options, Timeout::Never).map_err(Failure::failed)?;
    meeting.join(how.wait(began)).map_err(|error| how.refused(Role::Sender, error))?;
    drop(waiting);
    let (bar, mut buffer) = (how.bar(expected), vec![0; CHUNK]);
    let stopped = loop {
        if let Err(error) = await_input(&input, || check(&meeting, &mut sender)) {
            break Some(broken(error));
        }
        let sent = match input.read(&mut buffer) {
            Ok(0) => break None,
            Ok(len) => sender.send(&buffer[..len], 0, Timeout::Never).map(|()| len).map_err(broken),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(Failure::failed(format!("standard input: {error}"))),
        };
        match sent {
            Ok(len) => bar.inc(len as u64),
            Err(failure) => break Some(failure),
        }
    };
    bar.finish_and_clear();
    // A receiver that is gone by now has not had all of it, also if there was room for the rest. Without this the end would be
    // the last thing said, to nobody.
    let stopped = stopped.or_else(|| check(&meeting, &mut sender).map_err(broken).err());
    match stopped {
        None => sender.close(Timeout::Never).map_err(broken)?,
        Some(failure) => {
            // Not ended: whoever receives shall know that the rest is missing.
            std::mem::forget(sender);
            return Err(failure);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn receive(how: &How) -> Done {
    let mut output = file(&io::stdout())?;
    let (began, waiting) = (Instant::now(), how.waiting(Role::Receiver));
    let meeting = how.meet(Role::Receiver, began)?;
    let mut receiver =
        meeting.adapter().receive(&ReceiveOptions::default(), Timeout::Never).map_err(Failure::failed)?;
    meeting.join(how.wait(began)).map_err(|error| how.refused(Role::Receiver, error))?;
    drop(waiting);
    let (bar, mut buffer) = (how.bar(None), vec![0; CHUNK]);
    loop {
        match receiver.receive_into(&mut buffer, Timeout::Never) {
            Ok(Piece { len, .. }) => {
                output.write_all(&buffer[..len])?;
                bar.inc(len as u64);
            }
            Err(Error::Ended) => break,
            Err(error) => {
                bar.finish_and_clear();
                let so_far = Bytes(bar.position());
                return Err(Failure::failed(format!("after {so_far}: {}", words(&error))));
            }
        }
    }
    bar.finish_and_clear();
    Ok(ExitCode::SUCCESS)
}

//! Streams that C holds, and what each of them borrows.
//!
//! They are adapters, what is kept of them, and the ends of conversations.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, TryLockError};

use self_cell::self_cell;
use umbra::channel::{Channel, ChannelSet, Error as ChannelError, Event};
use umbra::gateway::{RemoteStreamReceiver, RemoteStreamSender};
use umbra::pool::Pool;
use umbra::stream::{Adapter, Error, NoFile, ReadableFile, Receiver, Sender, Supplied, WritableFile};
use umbra_core::error::Status;

use crate::status::{Code, Failure};

/// An adapter, and the pools that it was told of, by their handles.
pub(crate) struct Streams {
    pub(crate) adapter: Adapter,
    pub(crate) pools: Pools,
}

/// Pools by their handles.
pub(crate) type Pools = Arc<[(u64, Arc<Pool>)]>;

/// An end of a conversation, while a file descriptor stands for it, and when it is over.
pub(crate) enum Talk<End, File> {
    Open(End),
    File(File),
    Over,
}

pub(crate) type Speech<'a> = Talk<Sender<'a>, WritableFile<'a>>;
pub(crate) type Hearing<'a> = Talk<Receiver<'a>, ReadableFile<'a>>;

self_cell!(
    /// A stream that is kept, and its adapter.
    pub(crate) struct Place {
        owner: Adapter,
        #[covariant]
        dependent: Supplied,
    }
);

self_cell!(
    /// The sending end, and its adapter.
    pub(crate) struct Speaker {
        owner: Adapter,
        #[not_covariant]
        dependent: Speech,
    }
);

self_cell!(
    /// The receiving end, and its adapter.
    pub(crate) struct Hearer {
        owner: Adapter,
        #[not_covariant]
        dependent: Hearing,
    }
);

self_cell!(
    /// A set, and its channels.
    struct Together {
        owner: Vec<Arc<Channel>>,
        #[covariant]
        dependent: ChannelSet,
    }
);

/// A receiving end, the pools of its adapter, and the bytes of the last message that was received whole.
pub(crate) struct Ear {
    pub(crate) hearer: Hearer,
    pub(crate) pools: Pools,
    pub(crate) message: Vec<u8>,
}

/// The sending end of a conversation on another host; no file stands for it.
pub(crate) type FarSpeech = Talk<RemoteStreamSender, Infallible>;
/// The receiving end.
pub(crate) type FarHearing = Talk<RemoteStreamReceiver, Infallible>;

/// A receiving end, and the bytes of the last message that was received whole.
pub(crate) struct FarEar {
    pub(crate) hearing: FarHearing,
    pub(crate) message: Vec<u8>,
}

/// Channels that are waited for at once.
pub(crate) struct Set(Together);

impl Set {
    pub(crate) fn new(channels: Vec<Arc<Channel>>, event: Event) -> Result<Set, ChannelError> {
        Together::try_new(channels, |channels| ChannelSet::new(channels.iter().map(|channel| &**channel), event))
            .map(Set)
    }

    pub(crate) fn get(&self) -> &ChannelSet<'_> {
        self.0.borrow_dependent()
    }
}

impl<End, File> Talk<End, File> {
    /// The end, unless a file stands for it.
    pub(crate) fn open(&mut self) -> Result<&mut End, Failure> {
        match self {
            Talk::Open(end) => Ok(end),
            Talk::File(_) => Err(Failure::new(Code::InUse, "a file stands for this end: finish it first")),
            Talk::Over => Err(Failure::new(Code::Stale, "the conversation has ended")),
        }
    }

    /// The end, to do something with it that ends it.
    pub(crate) fn take(&mut self) -> Result<End, Failure> {
        self.open()?;
        match std::mem::replace(self, Talk::Over) {
            Talk::Open(end) => Ok(end),
            _ => Err(Code::Stale.into()),
        }
    }

    /// A descriptor that stands for the end from now on, or else the end goes on.
    pub(crate) fn open_file(
        &mut self,
        chunk: usize,
        open: impl FnOnce(End, usize) -> Result<(OwnedFd, File), NoFile<End>>,
    ) -> Result<OwnedFd, Failure> {
        match open(self.take()?, chunk) {
            Ok((descriptor, file)) => {
                *self = Talk::File(file);
                Ok(descriptor)
            }
            Err(NoFile { error, end }) => {
                *self = Talk::Open(end);
                Err(error.into())
            }
        }
    }

    /// The end again instead of the file, which must be finished; if it never comes back the conversation is over.
    pub(crate) fn finish_file(
        &mut self,
        finish: impl FnOnce(&File) -> Result<(End, Option<Error>), Error>,
    ) -> Result<(), Failure> {
        let Talk::File(file) = self else {
            return Err(Failure::new(Code::Invalid, "no file stands for this end"));
        };
        match finish(file) {
            Ok((end, why)) => {
                *self = Talk::Open(end);
                why.map_or(Ok(()), |error| Err(error.into()))
            }
            Err(error) => {
                if error != Error::Timeout {
                    *self = Talk::Over;
                }
                Err(error.into())
            }
        }
    }

    /// Ends it, and says what came of that; but not while a file stands for the end.
    pub(crate) fn close<E: Into<Failure>>(
        &mut self,
        close: impl FnOnce(End) -> Result<(), E>,
    ) -> Result<Result<(), Failure>, Failure> {
        match self.take() {
            Ok(end) => Ok(close(end).map_err(Into::into)),
            Err(failure) if failure.code == Code::InUse => Err(failure),
            Err(is_over) => Ok(Err(is_over)),
        }
    }
}

/// Bytes that are copied at once between a file and a stream.
pub(crate) fn chunk_of(bytes: usize) -> Result<usize, Failure> {
    if bytes <= 1 << 26 {
        Ok(bytes)
    } else {
        Err(Failure::new(Code::Invalid, format!("a chunk of {bytes} bytes: at most 64 MiB are copied at once")))
    }
}

/// Uses an object that one call at a time may use; a second one does not wait.
pub(crate) fn alone<T, R>(object: &Mutex<T>, act: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
    match object.try_lock() {
        Ok(mut object) => act(&mut object),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::new(Code::InUse, "another call uses this end of the conversation"))
        }
        Err(TryLockError::Poisoned(_)) => Err(Code::Panic.into()),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error {
            Error::Empty => Code::Empty,
            Error::Full | Error::TooManyMembers(_) => Code::Status(Status::Full),
            Error::Timeout => Code::Status(Status::Timeout),
            Error::Partly { .. } => Code::Partly,
            Error::Ended | Error::Unheard => Code::Ended,
            Error::PeerDead => Code::Status(Status::PeerFailed),
            Error::Destroyed => Code::Destroyed,
            Error::MessageTooLarge { .. } => Code::Never,
            Error::NoTasks => Code::WrongKind,
            Error::VersionMismatch(_) => Code::Version,
            Error::Damaged => Code::Damaged,
            Error::Forked => Code::Stale,
            Error::Pool(error) => return error.into(),
            Error::Reference(error) => return error.into(),
            Error::File(_)
            | Error::NoMemory(_)
            | Error::BrokenOff
            | Error::Segment(_)
            | Error::Random(_)
            | Error::Process(_) => Code::System,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

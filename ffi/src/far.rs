//! What handles name of another host, and the gateways through which it is used.

use umbra::channel::Channel;
use umbra::gateway::{Error, Gateways, RemoteChannel, RemotePool, RemoteStreams};
use umbra::pool::Pool;
use umbra_core::error::Status;

use crate::conversed::{FarEar, FarHearing, FarSpeech, Hearing, Pools, Speech, Streams, alone};
use crate::named::{with_hearing, with_speech, with_stream};
use crate::object::{HANDLES, Object, with_pool};
use crate::status::{Code, Failure};

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error {
            Error::Channel(error) => return error.into(),
            Error::Stream(error) => return error.into(),
            Error::Pool(error) => return error.into(),
            Error::Reference(error) => return error.into(),
            Error::NoGateway(_) | Error::NotRegistered(_) => Code::NoGateway,
            Error::Busy(_) | Error::Unreached(_) | Error::Partly { .. } => Code::Status(Status::Timeout),
            Error::TooLarge { .. } => Code::Never,
            Error::System(_) => Code::System,
            Error::Refused { code, .. } => match code {
                "OBJECT_DESTROYED" => Code::Destroyed,
                "VERSION_MISMATCH" => Code::Version,
                "OUT_OF_SPACE" => Code::Status(Status::Full),
                "MEMORY_ERRNO" | "FAILURE" => Code::System,
                _ => Code::Invalid,
            },
            Error::Lost { .. } | Error::Silent(_) | Error::NotSent { .. } | Error::Answer(_) => Code::Lost,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

/// The gateways that a handle names.
pub(crate) fn gateways(handle: u64) -> Result<Gateways, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Gateways(gateways) => Ok(gateways.clone()),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the channel that a handle names, on whatever host; many may at once.
pub(crate) fn with_any_channel<R>(
    handle: u64,
    near: impl FnOnce(&Channel) -> Result<R, Failure>,
    far: impl FnOnce(&RemoteChannel) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Channel(channel) => near(channel),
        Object::FarChannel(channel) => far(channel),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the pool that a handle names, on whatever host; many may at once.
pub(crate) fn with_any_pool<R>(
    handle: u64,
    near: impl FnOnce(&Pool) -> Result<R, Failure>,
    far: impl FnOnce(&RemotePool) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::FarPool(pool) => far(pool),
        _ => with_pool(handle, near),
    }
}

/// Uses the streams that a handle names, on whatever host; many may at once.
pub(crate) fn with_any_stream<R>(
    handle: u64,
    near: impl FnOnce(&Streams) -> Result<R, Failure>,
    far: impl FnOnce(&RemoteStreams) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::FarStream(streams) => far(streams),
        _ => with_stream(handle, near),
    }
}

/// Uses the sending end that a handle names, on whatever host.
pub(crate) fn with_any_speech<R>(
    handle: u64,
    near: impl for<'a> FnOnce(&mut Speech<'a>) -> Result<R, Failure>,
    far: impl FnOnce(&mut FarSpeech) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::FarSender(speech) => alone(speech, far),
        _ => with_speech(handle, near),
    }
}

/// Uses the receiving end that a handle names, on whatever host, and what belongs to it.
pub(crate) fn with_any_hearing<R>(
    handle: u64,
    near: impl for<'a> FnOnce(&mut Hearing<'a>, &Pools, &mut Vec<u8>) -> Result<R, Failure>,
    far: impl FnOnce(&mut FarHearing, &mut Vec<u8>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::FarReceiver(ear) => alone(ear, |FarEar { hearing, message }| far(hearing, message)),
        _ => with_hearing(handle, near),
    }
}

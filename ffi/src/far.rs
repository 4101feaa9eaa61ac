//! What handles name that is of another host, and the gateways through which it is used.

use umbra::channel::Channel;
use umbra::gateway::{Error, Gateways, RemoteChannel};
use umbra_core::error::Status;

use crate::object::{HANDLES, Object};
use crate::status::{Code, Failure};

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error {
            Error::Channel(error) => return error.into(),
            Error::Stream(error) => return error.into(),
            Error::Pool(error) => return error.into(),
            Error::Reference(error) => return error.into(),
            Error::NoGateway(_) | Error::NotRegistered(_) => Code::NoGateway,
            Error::Busy(_) => Code::Status(Status::Timeout),
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

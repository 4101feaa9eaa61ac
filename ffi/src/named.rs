//! What handles of streams, sets of channels and bells name.

use std::sync::Arc;

use umbra::channel::{Bell, Channel};
use umbra::stream::Supplied;

use crate::conversed::{Ear, Hearing, Pools, Set, Speech, Streams, alone};
use crate::object::{HANDLES, Object};
use crate::status::{Code, Failure};

/// Uses the streams of this host that a handle names; many may at once.
pub(crate) fn with_stream<R>(handle: u64, act: impl FnOnce(&Streams) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Stream(streams) => act(streams),
        Object::FarStream(_) => Err(Code::NonLocal.into()),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the kept stream that a handle names, if there is one; 0 is none.
pub(crate) fn with_supplied<R>(
    handle: u64,
    act: impl FnOnce(Option<&Supplied<'_>>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    if handle == 0 {
        return act(None);
    }
    match &*HANDLES.get(handle)? {
        Object::Supplied(place) => act(Some(place.borrow_dependent())),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the sending end on this host that a handle names.
pub(crate) fn with_speech<R>(
    handle: u64,
    act: impl for<'a> FnOnce(&mut Speech<'a>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Sender(speaker) => alone(speaker, |speaker| speaker.with_dependent_mut(|_, speech| act(speech))),
        Object::FarSender(_) => Err(Code::NonLocal.into()),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the receiving end on this host that a handle names, and what belongs to it.
pub(crate) fn with_hearing<R>(
    handle: u64,
    act: impl for<'a> FnOnce(&mut Hearing<'a>, &Pools, &mut Vec<u8>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Receiver(ear) => alone(ear, |ear| {
            let Ear { hearer, pools, message } = ear;
            hearer.with_dependent_mut(|_, hearing| act(hearing, pools, message))
        }),
        Object::FarReceiver(_) => Err(Code::NonLocal.into()),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the set that a handle names; many may at once.
pub(crate) fn with_set<R>(handle: u64, act: impl FnOnce(&Set) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Set(set) => act(set),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the bell that a handle names; many may at once.
pub(crate) fn with_bell<R>(handle: u64, act: impl FnOnce(&Bell) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Bell(bell) => act(bell),
        _ => Err(Code::WrongKind.into()),
    }
}

/// The channels that these handles name, kept in use.
pub(crate) fn channels(handles: &[u64]) -> Result<Vec<Arc<Channel>>, Failure> {
    let channel = |&handle: &u64| match &*HANDLES.get(handle)? {
        Object::Channel(channel) => Ok(Arc::clone(channel)),
        Object::FarChannel(_) => Err(Failure::from(Code::NonLocal)),
        _ => Err(Failure::from(Code::WrongKind)),
    };
    handles.iter().map(channel).collect()
}

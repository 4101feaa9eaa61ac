//! References to pools, allocations, channels and streams: A24 to A27, A70.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::Command;

use umbra::channel::{self, Channel, SendOptions, Timeout, WaitMode};
use umbra::pool::{Attributes, Error, Pool};
use umbra::reference::{self, from_text, is_local, to_text};
use umbra::stream::{self, Adapter, ReceiveOptions};
use umbra_core::reference::{LONGEST, Object, Reference, ReferenceError};

const VARIABLES: [&str; 2] = ["UMBRA_TEST_ALLOCATION", "UMBRA_TEST_CHANNEL"];

fn pool() -> Pool {
    Pool::create(None, &Attributes { bytes: 1 << 20, uid: umbra::uid::draw().unwrap(), ..Attributes::default() })
        .unwrap()
}

/// As one of another host would be.
fn of_another_host(bytes: &[u8]) -> Vec<u8> {
    let mut reference = Reference::parse(bytes).unwrap();
    reference.host ^= 1;
    let mut buffer = [0; LONGEST];
    let len = reference.write(&mut buffer).unwrap();
    buffer[..len].to_vec()
}

/// Attaches what its environment names, and answers; as a test of its own it does nothing.
#[test]
fn another_process() {
    let [Ok(allocation), Ok(channel)] = VARIABLES.map(std::env::var) else { return };
    let pool = Pool::attach_from_environment(VARIABLES[0]).unwrap();
    let allocation = pool.allocation_of(&from_text(&allocation).unwrap()).unwrap();
    let mut bytes = [0; 5];
    allocation.read(0, &mut bytes).unwrap();
    let channel = Channel::attach_reference(&from_text(&channel).unwrap()).unwrap();
    channel.sender(SendOptions::default()).unwrap().send(&bytes, pool.uid(), Timeout::Never).unwrap();
    allocation.free().unwrap();
}

#[test]
fn a27_another_process_attaches_what_its_environment_names() {
    let (pool, channel) = (pool(), Channel::create(&channel::Attributes::default()).unwrap());
    let allocation = pool.alloc(100, 0).unwrap();
    let part = allocation.part(10, 50).unwrap().part(5, 20).unwrap();
    part.write(0, b"hello").unwrap();
    let texts = [part.reference().unwrap(), channel.reference().unwrap()].map(|bytes| to_text(&bytes));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process", "--nocapture"])
        .envs(VARIABLES.into_iter().zip(&texts))
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let mut pad = [0; 64];
    let message = channel.receiver(WaitMode::Idle).unwrap().receive(&mut pad, Timeout::Now).unwrap();
    assert_eq!((&pad[..message.len], message.hints), (&b"hello"[..], pool.uid()));
    assert!(!allocation.exists(), "the other process freed it");
    for text in ["", "not base64!", "AAAA"] {
        assert!(from_text(text).is_err(), "{text:?}");
    }
    let unset = Pool::attach_from_environment("UMBRA_TEST_UNSET").unwrap_err();
    assert_eq!((&unset, unset.code()), (&Error::Variable("UMBRA_TEST_UNSET".into()), "INVALID_ARGUMENT"));
}

#[test]
fn a24_no_part_of_a_reference_and_no_changed_one_is_attached() {
    let (pool, channel) = (pool(), Channel::create(&channel::Attributes::default()).unwrap());
    let allocation = pool.alloc(100, 0).unwrap();
    let streams = Adapter::create(&stream::Attributes::default(), []).unwrap();
    let whole = [
        pool.reference().unwrap(),
        allocation.reference().unwrap(),
        channel.reference().unwrap(),
        streams.reference().unwrap(),
    ];
    let refused = |bytes: &[u8]| {
        let errors = [
            Pool::attach_reference(bytes).unwrap_err(),
            pool.allocation_of(bytes).unwrap_err(),
            Channel::attach_reference(bytes)
                .map_err(|error| match error {
                    channel::Error::Reference(error) => Error::Reference(error),
                    error => panic!("{error}"),
                })
                .unwrap_err(),
            Adapter::attach_reference(bytes, [])
                .map_err(|error| match error {
                    stream::Error::Reference(error) => Error::Reference(error),
                    error => panic!("{error}"),
                })
                .unwrap_err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Error::Reference(reference::Error::Bytes(_)))), "{errors:?}");
    };
    for bytes in &whole {
        (0..bytes.len()).for_each(|len| refused(&bytes[..len]));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] = changed[at].wrapping_add(1);
            refused(&changed);
        }
    }
    // What they are meant for, they are good for; and for nothing else.
    let wrong = Err(reference::Error::WrongObject);
    assert!(Pool::attach_reference(&whole[0]).is_ok() && Pool::attach_reference(&whole[1]).is_ok());
    assert!(pool.allocation_of(&whole[1]).unwrap().is_same(&allocation));
    assert!(Channel::attach_reference(&whole[2]).is_ok() && Adapter::attach_reference(&whole[3], []).is_ok());
    assert_eq!(Adapter::attach_reference(&whole[2], []).map(drop), wrong.map_err(stream::Error::Reference));
    assert_eq!(Channel::attach_reference(&whole[3]).map(drop), wrong.map_err(channel::Error::Reference));
    for other in &whole[2..] {
        assert_eq!(Pool::attach_reference(other).map(drop), wrong.map_err(Error::Reference));
    }
    assert_eq!(pool.allocation_of(&whole[0]).map(drop), wrong.map_err(Error::Reference));
    assert_eq!(Channel::attach_reference(&whole[0]).map(drop), wrong.map_err(channel::Error::Reference));
}

#[test]
fn a26_of_another_host_or_version_only_the_numbers_are_known() {
    let pool = pool();
    let bytes = of_another_host(&pool.alloc(100, 0).unwrap().reference().unwrap());
    let seen = Reference::parse(&bytes).unwrap();
    assert!(!is_local(&seen) && seen.uid == pool.uid() && seen.bytes == 1 << 20);
    assert!(matches!(seen.object, Object::Allocation { offset: 0, len: 100, .. }));
    for error in [Pool::attach_reference(&bytes).map(drop), pool.allocation_of(&bytes).map(drop)] {
        let error = error.unwrap_err();
        assert_eq!(error.code(), "MEMORY_OPERATION_ATTEMPT_ON_NONLOCAL_POOL");
    }
    let mut newer = pool.reference().unwrap();
    newer[4] += 1;
    let error = Pool::attach_reference(&newer).unwrap_err();
    assert_eq!(error, Error::Reference(reference::Error::Bytes(ReferenceError::Version(2))));
    assert_eq!(error.code(), "VERSION_MISMATCH");
}

#[test]
fn what_is_gone_is_not_attached_and_nothing_else_in_its_place() {
    let name = format!("replaced-{}", std::process::id());
    let make = || Pool::create(Some(&name), &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap();
    let first = make();
    let (bytes, freed) = (first.reference().unwrap(), first.alloc(10, 0).unwrap());
    let stale = freed.reference().unwrap();
    freed.free().unwrap();
    assert_eq!(
        (first.allocation_of(&stale).unwrap_err(), freed.reference().unwrap_err()),
        (Error::Stale, Error::Stale)
    );
    drop(first);
    assert!(matches!(Pool::attach_reference(&bytes), Err(Error::Missing { .. })));
    let second = make();
    let replaced = Error::Reference(reference::Error::Replaced);
    assert_eq!(Pool::attach_reference(&bytes).unwrap_err(), replaced);
    assert_eq!(second.allocation_of(&stale).unwrap_err(), replaced);
    // Without a name it is gone with the process's last handle, and another file may have its number.
    let unnamed = pool();
    let bytes = unnamed.reference().unwrap();
    drop(unnamed);
    assert!(Pool::attach_reference(&bytes).is_err());
    let destroyed = pool();
    destroyed.destroy().unwrap();
    assert_eq!(destroyed.reference(), Err(Error::Destroyed));
}

/// Gets an adapter through the stream that its environment names, and answers through that one; as a test of its own it does
/// nothing.
#[test]
fn another_listener() {
    let Ok(text) = std::env::var("UMBRA_TEST_STREAMS") else { return };
    let first = Adapter::attach_reference(&from_text(&text).unwrap(), []).unwrap();
    let mut receiver = first.receive(&ReceiveOptions::default(), Timeout::Never).unwrap();
    let message = receiver.receive(Timeout::Never).unwrap();
    receiver.close(Timeout::Never).unwrap();
    let second = Adapter::attach_reference(&message.bytes, []).unwrap();
    let mut sender = second.send(&stream::SendOptions::default(), Timeout::Never).unwrap();
    sender.send(b"here", message.arg, Timeout::Never).unwrap();
    sender.close(Timeout::Never).unwrap();
}

#[test]
fn a70_streams_are_handed_on_through_a_stream() {
    let make = || Adapter::create(&stream::Attributes::default(), []).unwrap();
    let (first, second) = (make(), make());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_listener", "--nocapture"])
        .env("UMBRA_TEST_STREAMS", to_text(&first.reference().unwrap()))
        .spawn()
        .unwrap();
    // Only a hang lasts longer.
    let wait = Timeout::After(std::time::Duration::from_secs(60));
    let mut sender = first.send(&stream::SendOptions::default(), wait).unwrap();
    sender.send(&second.reference().unwrap(), 5, wait).unwrap();
    sender.close(wait).unwrap();
    let mut receiver = second.receive(&ReceiveOptions::default(), wait).unwrap();
    let message = receiver.receive(wait).unwrap();
    assert_eq!((&message.bytes[..], message.arg), (&b"here"[..], 5));
    assert_eq!(receiver.receive(wait), Err(stream::Error::Ended));
    receiver.close(wait).unwrap();
    assert!(child.wait().unwrap().success());
    let bytes = second.reference().unwrap();
    second.destroy().unwrap();
    assert_eq!(second.reference(), Err(stream::Error::Destroyed));
    assert_eq!(Adapter::attach_reference(&bytes, []).map(drop), Err(stream::Error::Destroyed));
}

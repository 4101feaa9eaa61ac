//! The whole transition table: every call of every channel.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::super::{Channel, Refusal, Role, State};

const CALLS: [&str; 9] = [
    "allocate",
    "free",
    "send",
    "send_null",
    "is_available_for_write",
    "try_start_receive",
    "try_receive",
    "stale",
    "is_safe_to_delete",
];
/// Elements of the strip.
const COUNT: u32 = 3;
/// The storage that a channel has, and the one that it can take.
const OWN: u8 = 7;
const NEXT: u8 = 8;

/// All that a channel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct All {
    role: Role,
    state: State,
    storage: Option<u8>,
    posted: bool,
    done: bool,
    came: Option<u32>,
}

impl All {
    const fn of(channel: &Channel<u8>) -> All {
        let &Channel { role, state, storage, posted, done, came, .. } = channel;
        All { role, state, storage, posted, done, came }
    }

    fn channel(self) -> Channel<u8> {
        let All { role, state, storage, posted, done, came } = self;
        Channel { state, storage, posted, done, came, ..Channel::new(role, COUNT) }
    }

    /// Every one. States that a role never reaches are made by hand, to see that they are refused too.
    fn every() -> Vec<All> {
        let mut every = Vec::new();
        for (role, state) in Role::ALL.into_iter().flat_map(|role| State::ALL.map(|state| (role, state))) {
            // What is posted, what the transport is done with, and what it has seen come.
            let ways: &[_] = match role {
                Role::Local => &[(false, false, None)],
                Role::Sender => &[(false, false, None), (true, false, None), (true, true, None)],
                Role::Receiver | Role::SparseReceiver => &[
                    (false, false, None),
                    (false, false, Some(0)),
                    (false, false, Some(COUNT)),
                    (false, false, Some(COUNT + 1)),
                    (true, false, None),
                    (true, false, Some(0)),
                    (true, false, Some(COUNT)),
                    (true, false, Some(COUNT + 1)),
                ],
            };
            for &(posted, done, came) in ways {
                every.extend([None, Some(OWN)].map(|storage| All { role, state, storage, posted, done, came }));
            }
        }
        every
    }

    const fn sends(self) -> bool {
        matches!(self.role, Role::Local | Role::Sender)
    }

    const fn wrong(self) -> (Result<&'static str, Refusal>, All) {
        (Err(Refusal::WrongRole { role: self.role }), self)
    }

    /// With storage, if it has or gets some.
    fn active(self, next: Option<u8>) -> Result<All, Refusal> {
        let storage = self.storage.or(next).ok_or(Refusal::NoStorage)?;
        Ok(All { storage: Some(storage), ..self })
    }
}

fn call(channel: &mut Channel<u8>, call: &str, next: Option<u8>) -> Result<String, Refusal> {
    match call {
        "allocate" => channel.allocate(|| next).map(|()| "ok".into()),
        "free" => channel.free().map(|storage| format!("{storage:?}")),
        "send" => channel.send().map(|sent| format!("{sent:?}")),
        "send_null" => channel.send_null().map(|sent| format!("{sent:?}")),
        "is_available_for_write" => channel.is_available_for_write().map(|yes| format!("{yes}")),
        "try_start_receive" => channel.try_start_receive(|| next).map(|start| format!("{start:?}")),
        "try_receive" => channel.try_receive(|| next).map(|yes| format!("{yes}")),
        "stale" => channel.stale().map(|()| "ok".into()),
        "is_safe_to_delete" => Ok(format!("{}", channel.is_safe_to_delete())),
        other => unreachable!("{other}"),
    }
}

/// The table, row by row: what the call answers, and what the channel is after it.
fn expected(was: All, call: &str, next: Option<u8>) -> (Result<&'static str, Refusal>, All) {
    use State::{Received, ReceivedNull, Sending, SendingNull, Stale};
    let All { role, state, storage, posted, done, came } = was;
    let busy = (Err(Refusal::Busy { state }), was);
    let sent = |answer, state| (Ok(answer), All { state, posted: role == Role::Sender, ..was });
    match call {
        "allocate" if state != Stale || was.sends() && posted => busy,
        "allocate" => answer("ok", was.active(next), was),
        "free" if state != Stale || posted => busy,
        "free" => (Ok(if storage.is_some() { "Some(7)" } else { "None" }), All { storage: None, ..was }),
        "send" | "send_null" if !was.sends() => was.wrong(),
        "send" | "send_null" if state != Stale || posted => (Err(Refusal::NotWritable { state }), was),
        "send" if storage.is_some() => sent("Live", Sending),
        "send" | "send_null" => sent("Null", SendingNull),
        "is_available_for_write" if !was.sends() => was.wrong(),
        "is_available_for_write" if done => (Ok("true"), All { state: Stale, posted: false, done: false, ..was }),
        "is_available_for_write" => (Ok(if state == Stale { "true" } else { "false" }), was),
        "try_start_receive" | "try_receive" | "stale" if role == Role::Sender => was.wrong(),
        "try_start_receive" => starts(was, next),
        "try_receive" => match (role, state) {
            (_, Received | ReceivedNull) => (Ok("true"), was),
            (Role::Local, Stale) => (Ok("false"), was),
            (Role::Local, Sending) => (Ok("true"), All { state: Received, ..was }),
            (Role::Local, SendingNull) => (Ok("true"), All { state: ReceivedNull, ..was }),
            (_, Sending | SendingNull) => was.wrong(),
            (_, Stale) => receives(was, next),
        },
        "stale" if state.is_received() => (Ok("ok"), All { state: Stale, ..was }),
        "stale" => (Err(Refusal::NotReceived { state }), was),
        "is_safe_to_delete" if role == Role::Sender => (Ok(if posted && !done { "false" } else { "true" }), was),
        "is_safe_to_delete" => (Ok(if state == Stale && !posted && came.is_none() { "true" } else { "false" }), was),
        other => unreachable!("{other}"),
    }
}

fn answer(text: &'static str, after: Result<All, Refusal>, was: All) -> (Result<&'static str, Refusal>, All) {
    after.map_or_else(|refusal| (Err(refusal), was), |after| (Ok(text), after))
}

fn starts(was: All, next: Option<u8>) -> (Result<&'static str, Refusal>, All) {
    let posts = |after: All| All { posted: true, ..after };
    match (was.role, was.came) {
        (Role::Local, _) => (Ok("Nothing"), was),
        _ if was.state != State::Stale || was.posted => (Ok("Nothing"), was),
        (Role::Receiver, _) | (_, Some(COUNT)) => answer("Post", was.active(next).map(posts), was),
        (_, None) => (Ok("Nothing"), was),
        (_, Some(0)) => (Ok("PostNull"), posts(All { storage: None, ..was })),
        (_, Some(came)) => (Err(Refusal::SizeMismatch { count: COUNT, came }), was),
    }
}

/// A stale receiver asks for its message.
fn receives(was: All, next: Option<u8>) -> (Result<&'static str, Refusal>, All) {
    if let Some(came) = was.came.filter(|came| ![0, COUNT].contains(came)) {
        return (Err(Refusal::SizeMismatch { count: COUNT, came }), was);
    }
    let (started, after) = starts(was, next);
    let received = |state| (Ok("true"), All { state, posted: false, came: None, ..after });
    match after.came {
        _ if started.is_err() => (started, was),
        Some(0) if after.posted => received(State::ReceivedNull),
        Some(_) if after.posted => received(State::Received),
        _ => (Ok("false"), after),
    }
}

#[test]
fn s6_every_call_of_every_channel_does_what_the_table_says() {
    let mut cases = 0;
    for was in All::every() {
        for (name, next) in CALLS.into_iter().flat_map(|name| [(name, None), (name, Some(NEXT))]) {
            let mut channel = was.channel();
            let came = call(&mut channel, name, next);
            let (answer, after) = expected(was, name, next);
            assert_eq!(
                came.as_deref(),
                answer.as_ref().map(|text| *text),
                "{name} of {was:?}, which can take {next:?}"
            );
            assert_eq!(All::of(&channel), after, "{name} of {was:?}, which can take {next:?}");
            assert!(answer.is_ok() || after == was, "{name} of {was:?} was refused and changed something");
            cases += 1;
        }
    }
    // Five states and nine calls, with storage and without, where there is more of it and where there is none.
    assert_eq!(cases, (1 + 3 + 8 + 8) * 5 * 9 * 2 * 2);
}

/// A channel with storage in this state.
fn channel(role: Role, state: State) -> Channel<u8> {
    All { role, state, storage: Some(OWN), posted: false, done: false, came: None }.channel()
}

#[test]
fn s1_a_fresh_channel_is_stale_inactive_and_writable() {
    for role in Role::ALL {
        let mut fresh = Channel::<u8>::new(role, 3);
        assert_eq!((fresh.state(), fresh.is_active()), (State::Stale, false));
        match role {
            Role::Local | Role::Sender => assert_eq!(fresh.is_available_for_write(), Ok(true)),
            _ => assert_eq!(fresh.try_receive(|| Some(1)), Ok(false)),
        }
    }
}

#[test]
fn s2_a_local_payload_passes_without_a_copy() {
    let mut channel = Channel::new(Role::Local, 3);
    channel.allocate(|| Some([1, 2, 3])).unwrap();
    channel.fill().unwrap()[0] = 9;
    let at = core::ptr::from_ref(channel.fill().unwrap());
    channel.send().unwrap();
    assert!(channel.fill().is_err(), "frozen while it is being sent");
    assert!(channel.payload().is_err(), "nothing to read before it was received");
    assert_eq!(channel.try_receive(|| None), Ok(true));
    assert_eq!(channel.payload(), Ok(&[9, 2, 3]));
    assert!(core::ptr::eq(channel.payload().unwrap(), at));
    channel.stale().unwrap();
    assert_eq!(channel.is_available_for_write(), Ok(true));
}

#[test]
fn s3_and_s4_a_null_shows_nothing_and_leaves_the_storage() {
    let mut channel = Channel::<[u8; 3]>::new(Role::Local, 3);
    channel.send().unwrap();
    assert_eq!(channel.state(), State::SendingNull);
    assert_eq!(channel.try_receive(|| None), Ok(true));
    assert!(channel.payload().is_err());
    channel.stale().unwrap();
    channel.allocate(|| Some([4; 3])).unwrap();
    channel.send_null().unwrap();
    assert_eq!(channel.try_receive(|| None), Ok(true));
    assert!(channel.payload().is_err(), "storage of the sender is not what was sent");
    channel.stale().unwrap();
    assert_eq!(channel.fill(), Ok(&mut [4; 3]));
}

#[test]
fn s5_receiving_again_says_the_same_and_changes_nothing() {
    for role in [Role::Local, Role::Receiver, Role::SparseReceiver] {
        for state in [State::Received, State::ReceivedNull] {
            let mut channel = channel(role, state);
            for _ in 0..3 {
                assert_eq!(channel.try_receive(|| unreachable!("no storage is taken again")), Ok(true));
                assert_eq!((channel.state(), channel.is_active()), (state, true));
            }
            channel.stale().unwrap();
            assert_eq!(channel.try_receive(|| Some(9)), Ok(false), "nothing new has come");
            assert_eq!(channel.state(), State::Stale);
        }
    }
}

#[test]
fn s7_and_s11_a_message_in_flight_keeps_its_storage_and_the_next_one_out() {
    let mut channel = Channel::new(Role::Sender, 3);
    channel.allocate(|| Some(7)).unwrap();
    channel.send().unwrap();
    for _ in 0..3 {
        assert_eq!(channel.is_available_for_write(), Ok(false));
        assert_eq!(channel.free(), Err(Refusal::Busy { state: State::Sending }));
        assert_eq!(channel.allocate(|| Some(8)), Err(Refusal::Busy { state: State::Sending }));
        assert_eq!(channel.send(), Err(Refusal::NotWritable { state: State::Sending }));
        assert!(!channel.is_safe_to_delete());
    }
    channel.on_sent();
    assert!(channel.is_safe_to_delete());
    assert_eq!(channel.is_available_for_write(), Ok(true));
    assert_eq!(channel.free(), Ok(Some(7)));
}

#[test]
fn s8_a_payload_of_another_size_is_refused_with_both_sizes() {
    for came in [1, 2, 4, u32::MAX] {
        let mut channel = Channel::<u8>::new(Role::Receiver, 3);
        channel.on_message(came).unwrap();
        let refusal = Err(Refusal::SizeMismatch { count: 3, came });
        assert_eq!(channel.try_receive(|| Some(1)), refusal);
        assert_eq!(channel.try_receive(|| Some(1)), refusal, "it stays refused");
        assert_eq!(channel.state(), State::Stale);
    }
}

#[test]
fn s8_a_sparse_receiver_takes_no_storage_for_a_payload_of_another_size() {
    for came in [1, 2, 4, u32::MAX] {
        let mut channel = Channel::<u8>::new(Role::SparseReceiver, 3);
        channel.on_message(came).unwrap();
        let refusal = Refusal::SizeMismatch { count: 3, came };
        for _ in 0..2 {
            assert_eq!(channel.try_start_receive(|| panic!("nothing is received")), Err(refusal));
            assert_eq!(channel.try_receive(|| panic!("nothing is received")), Err(refusal));
            assert_eq!((channel.state(), channel.incoming()), (State::Stale, None));
        }
        assert!(!channel.is_safe_to_delete(), "the message is still there");
    }
}

#[test]
fn a_transport_receives_into_storage_that_is_posted_and_no_other() {
    for role in Role::ALL {
        let mut channel = Channel::new(role, 3);
        let _ = channel.allocate(|| Some(7));
        assert_eq!(channel.incoming(), None, "{role:?}");
        let _ = channel.send();
        let _ = channel.on_message(3);
        let _ = channel.try_start_receive(|| Some(8));
        let receives = matches!(role, Role::Receiver | Role::SparseReceiver);
        assert_eq!(channel.incoming(), receives.then_some(&mut 7), "{role:?}");
        let _ = channel.try_receive(|| Some(8));
        assert_eq!(channel.incoming(), None, "{role:?}: it is the reader's");
    }
}

#[test]
fn s9_an_empty_strip_is_a_flag_within_a_rank_and_refused_between_ranks() {
    let mut remote = Channel::new(Role::Sender, 0);
    remote.allocate(|| Some(())).unwrap();
    assert_eq!(remote.send(), Err(Refusal::Empty));
    assert!(remote.send_null().is_ok());
    let mut flag = Channel::new(Role::Local, 0);
    flag.allocate(|| Some(())).unwrap();
    flag.send().unwrap();
    assert_eq!(flag.try_receive(|| None), Ok(true));
    assert_eq!(flag.state(), State::Received);
}

#[test]
fn s12_a_sparse_receiver_has_storage_only_for_what_is_live() {
    let mut channel = Channel::<u8>::new(Role::SparseReceiver, 3);
    assert_eq!(channel.try_receive(|| panic!("no message, no storage")), Ok(false));
    channel.on_message(3).unwrap();
    assert_eq!(channel.try_receive(|| None), Err(Refusal::NoStorage));
    assert!(!channel.is_safe_to_delete(), "the message is still there");
    assert_eq!(channel.try_receive(|| Some(1)), Ok(true));
    assert_eq!(channel.payload(), Ok(&1));
    channel.stale().unwrap();
    channel.on_message(0).unwrap();
    assert_eq!(channel.try_receive(|| panic!("a null needs no storage")), Ok(true));
    assert!(!channel.is_active(), "and gives back what there was");
}

#[test]
fn a_posted_receiver_is_not_safe_to_delete() {
    let mut channel = Channel::<u8>::new(Role::Receiver, 3);
    assert!(channel.is_safe_to_delete());
    channel.try_start_receive(|| Some(1)).unwrap();
    assert!(!channel.is_safe_to_delete(), "its message would reach whoever comes next");
    assert_eq!(channel.free(), Err(Refusal::Busy { state: State::Stale }));
}

#[test]
fn only_ranks_that_a_channel_joins_have_a_role() {
    assert_eq!(Role::of(1, 1, 1, true), Ok(Role::Local));
    assert_eq!(Role::of(1, 1, 2, false), Ok(Role::Sender));
    assert_eq!(Role::of(2, 1, 2, false), Ok(Role::Receiver));
    assert_eq!(Role::of(2, 1, 2, true), Ok(Role::SparseReceiver));
    assert!(Role::of(3, 1, 2, true).is_err());
}

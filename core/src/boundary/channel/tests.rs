//! The whole transition table: every role, state and call.

use std::format;
use std::string::String;

use super::super::{Channel, Refusal, Role, State};

const CALLS: [&str; 9] = [
    "allocate",
    "free",
    "send",
    "send without storage",
    "send_null",
    "is_available_for_write",
    "try_start_receive",
    "try_receive",
    "stale",
];

/// A channel in this state; states that a role never reaches are made by hand, to see that they are refused too.
fn channel(role: Role, state: State) -> Channel<u8> {
    let mut channel = Channel::new(role, 3);
    channel.storage = Some(7);
    channel.state = state;
    channel.posted = role == Role::Sender && matches!(state, State::Sending | State::SendingNull);
    channel
}

fn call(channel: &mut Channel<u8>, call: &str) -> Result<String, Refusal> {
    match call {
        "allocate" => channel.allocate(|| Some(8)).map(|()| "ok".into()),
        "free" => channel.free().map(|storage| format!("{storage:?}")),
        "send" | "send without storage" => channel.send().map(|sent| format!("{sent:?}")),
        "send_null" => channel.send_null().map(|sent| format!("{sent:?}")),
        "is_available_for_write" => channel.is_available_for_write().map(|yes| format!("{yes}")),
        "try_start_receive" => channel.try_start_receive(|| Some(8)).map(|start| format!("{start:?}")),
        "try_receive" => channel.try_receive(|| Some(8)).map(|yes| format!("{yes}")),
        "stale" => channel.stale().map(|()| "ok".into()),
        other => unreachable!("{other}"),
    }
}

/// The table, row by row: what the call answers, and the state after it.
fn expected(role: Role, state: State, call: &str) -> (Result<&'static str, Refusal>, State) {
    use Role::{Local, Receiver, Sender, SparseReceiver};
    use State::{Received, ReceivedNull, Sending, SendingNull, Stale};
    let wrong = (Err(Refusal::WrongRole { role }), state);
    let sends = matches!(role, Local | Sender);
    match call {
        "allocate" if state == Stale => (Ok("ok"), state),
        "allocate" => (Err(Refusal::Busy { state }), state),
        "free" if state == Stale => (Ok("Some(7)"), state),
        "free" => (Err(Refusal::Busy { state }), state),
        "send" | "send without storage" | "send_null" if !sends => wrong,
        "send" if state == Stale => (Ok("Live"), Sending),
        "send without storage" | "send_null" if state == Stale => (Ok("Null"), SendingNull),
        "send" | "send without storage" | "send_null" => (Err(Refusal::NotWritable { state }), state),
        "is_available_for_write" if !sends => wrong,
        "is_available_for_write" => (Ok(if state == Stale { "true" } else { "false" }), state),
        "try_start_receive" | "try_receive" | "stale" if role == Sender => wrong,
        "try_start_receive" if role == Receiver && state == Stale => (Ok("Post"), state),
        "try_start_receive" => (Ok("Nothing"), state),
        "try_receive" => match (role, state) {
            (_, Received | ReceivedNull) => (Ok("true"), state),
            (_, Stale) => (Ok("false"), state),
            (Local, Sending) => (Ok("true"), Received),
            (Local, SendingNull) => (Ok("true"), ReceivedNull),
            (Receiver | SparseReceiver | Sender, _) => wrong,
        },
        "stale" if state.is_received() => (Ok("ok"), Stale),
        "stale" => (Err(Refusal::NotReceived { state }), state),
        other => unreachable!("{other}"),
    }
}

#[test]
fn s6_every_call_in_every_state_of_every_role_does_what_the_table_says() {
    let mut cases = 0;
    for role in Role::ALL {
        for state in State::ALL {
            for name in CALLS {
                let mut channel = channel(role, state);
                if name == "send without storage" {
                    channel.storage = None;
                }
                let before = format!("{channel:?}");
                let came = call(&mut channel, name);
                let (answer, after) = expected(role, state, name);
                assert_eq!(came.as_deref(), answer.as_ref().map(|text| *text), "{name} of {role:?} in {state:?}");
                assert_eq!(channel.state, after, "{name} of {role:?} in {state:?}");
                if answer.is_err() {
                    assert_eq!(format!("{channel:?}"), before, "{name} was refused and changed something");
                }
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 4 * 5 * 9);
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

//! Control links: strangers that have proven nothing, and bytes changed under way.
//!
//! The first byte of an input chooses the attack; the rest is what comes over the wire.

use umbra::link::{Codec, Identity, Input, Party, Side};
use umbra::secret::Secret;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::wire::{Frame, Op, Token};

/// A stranger's bytes for either side, and changes to an honest peer's bytes.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (mut initiator, mut acceptor) = ends();
    let hello = initiator.outgoing().to_vec();
    pass(&mut initiator, &mut acceptor).expect("both ends are honest");
    let answer = acceptor.outgoing().to_vec();
    let stranger = |choice: u8, bytes: &[u8]| [&[choice], bytes].concat();
    vec![
        stranger(0, &answer),
        stranger(1, &hello),
        stranger(2, &[0, 0, 1]),
        stranger(2, &[30, 0, 128]),
        stranger(2, &[0, 0, 0]),
        stranger(3, &[9, 0, 0, 0]),
    ]
}

/// Nothing that a stranger says makes a frame; a changed byte of an honest peer closes the link.
pub(super) fn feed(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    match choice % 4 {
        0 => stranger(ends().0, rest),
        1 => stranger(ends().1, rest),
        2 => changed_under_way(rest),
        _ => stranger(linked().1, rest),
    }
}

/// Bytes of somebody who does not know the secret: no frame, no rise, bounded memory, and silence after the end.
fn stranger(mut codec: Codec, bytes: &[u8]) {
    let was_up = codec.is_up();
    let mut frame = Vec::new();
    for piece in bytes.chunks(61) {
        if codec.receive(piece).is_err() {
            return;
        }
        match codec.take(&mut frame) {
            Ok(None) => {}
            Ok(Some(input)) => panic!("bytes of a stranger were taken for {input:?}"),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(codec.outgoing().len() < 4096, "a stranger is answered at length");
                assert!(matches!(codec.take(&mut frame), Ok(None)), "a closed link goes on");
                return;
            }
        }
    }
    assert_eq!(codec.is_up(), was_up, "a stranger came up");
}

/// Three frames of an honest peer; the input names a place and what to change there.
fn changed_under_way(change: &[u8]) {
    let (mut sender, mut receiver) = linked();
    let bodies: [&[u8]; 3] = [b"one", b"", b"three"];
    for body in bodies {
        sender.send(&Frame::Call { op: Op(1), token: Token(2), body }, 0).expect("there is room for three frames");
    }
    let mut bytes = sender.outgoing().to_vec();
    let place = change.first_chunk::<2>().map_or(0, |place| usize::from(u16::from_le_bytes(*place))) % bytes.len();
    let flips = change.get(2).copied().unwrap_or(0);
    bytes[place] ^= flips;
    if receiver.receive(&bytes).is_err() {
        return;
    }
    let (mut frame, mut taken) = (Vec::new(), 0);
    let ended = loop {
        match receiver.take(&mut frame) {
            Ok(Some(Input::Frame(0))) => {
                let parsed = Frame::parse(&frame).expect("a frame that is handed over parses");
                assert_eq!(parsed, Frame::Call { op: Op(1), token: Token(2), body: bodies[taken] });
                taken += 1;
            }
            Ok(None) => break true,
            Ok(Some(other)) => panic!("{other:?} after the handshake"),
            Err(_) => break false,
        }
    };
    if flips == 0 {
        assert!(ended && taken == bodies.len());
    } else {
        assert!(taken < bodies.len(), "a changed byte went unnoticed");
    }
}

/// Two fresh ends.
fn ends() -> (Codec, Codec) {
    let secret = Secret::from_bytes([7; 32]);
    let service_process = Peer::service(Sp(0)).expect("a small service process is a peer");
    let identity = |party| Identity { party, incarnation: Incarnation(1) };
    let initiator = Codec::new(Side::Initiator, identity(Party::Tool), &secret, [1; 32], 1 << 20);
    let acceptor = Codec::new(Side::Acceptor, identity(Party::Peer(service_process)), &secret, [2; 32], 1 << 20);
    (initiator, acceptor)
}

/// Two ends that have proven themselves to each other.
fn linked() -> (Codec, Codec) {
    let (mut initiator, mut acceptor) = ends();
    for _ in 0..4 {
        pass(&mut initiator, &mut acceptor).expect("both ends are honest");
        pass(&mut acceptor, &mut initiator).expect("both ends are honest");
    }
    assert!(initiator.is_up() && acceptor.is_up());
    (initiator, acceptor)
}

fn pass(from: &mut Codec, to: &mut Codec) -> Result<(), umbra::link::Close> {
    let bytes = from.outgoing().to_vec();
    from.sent(bytes.len());
    to.receive(&bytes)?;
    let mut frame = Vec::new();
    while to.take(&mut frame)?.is_some() {}
    Ok(())
}

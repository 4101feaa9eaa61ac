//! Bodies of frames: what bootstrap and memory access say to each other.
//!
//! The first byte of an input chooses the message; the rest is its body.

use std::fmt::Debug;

use umbra_core::access::direct::{CONNECTING, Connect, OPENED, Opened};
use umbra_core::access::message::{Description, Export, Fetch, Import, Locate, Revoke, Transfer};
use umbra_core::access::stage::Hint;
use umbra_core::codec::{Reader, Short, Writer};
use umbra_core::group::Cause;
use umbra_core::group::message::{End, Head, Hello, Join, Leave, Part, Phase, Ready, Reply, Snapshot, View};
use umbra_core::key::{Key, Span};
use umbra_core::peer::{Host, LocalRank, Peer, Rank, Sp, WorldRank};

/// Most bytes that a message of the bootstrap takes here.
const LONGEST: usize = 8192;

/// Some valid bodies of the bootstrap, and zeros of every short length for the others.
pub(super) fn group_seeds() -> Vec<Vec<u8>> {
    let hello = Hello { size: 8, rank: WorldRank(3), host: Host(0), local: LocalRank(3), n_local: 4, shadow: 0 };
    let join = Join { rank: Rank(3), total: 20, offset: 4, bytes: b"descriptor" };
    let piece = Snapshot { root: Sp(1), size: 8, total: 64, offset: 8, digest: 7, answer: true, bytes: b"table" };
    let whole = Snapshot { total: 5, offset: 0, digest: 0, answer: false, ..piece };
    let part = written(|w| {
        Part::emit_head(w, Sp(0), 8, Phase::Join, true)?;
        // Two service processes from number 2 on, one rank apart: first rank, count, stride.
        [2, 2, 1, 0, 3, 2].into_iter().try_for_each(|word| w.var(word))
    });
    let bodies = [
        (0, written(|w| hello.emit(w))),
        (1, written(|w| join.emit(w))),
        (4, part),
        (5, written(|w| piece.emit(w))),
        (5, written(|w| whole.emit(w))),
        (7, vec![1; 32]),
        (8, vec![0; 32]),
    ];
    let zeros = (0..10).map(|choice| vec![choice, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bodies.into_iter().map(|(choice, body)| [&[choice], body.as_slice()].concat()).chain(zeros).collect()
}

/// What parses can be told again, and means the same.
pub(super) fn group_feed(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else { return };
    match choice % 10 {
        0 => again(body, |r| Hello::parse(r).ok(), |hello, w| hello.emit(w)),
        1 => again(body, |r| Join::parse(r).ok(), |join, w| join.emit(w)),
        2 => again(body, |r| Leave::parse(r).ok(), |_, _| Ok(())),
        3 => again(body, |r| Ready::parse(r).ok(), |ready, w| ready.emit(w)),
        4 => part(body),
        5 => again(body, |r| Snapshot::parse(r).ok(), |snapshot, w| snapshot.emit(w)),
        6 => again(body, |r| End::parse(r).ok(), |end, w| end.emit(w)),
        7 => again(
            body,
            |r| View::parse(r).ok().map(|view| view.entries().collect::<Vec<_>>()),
            |view, w| view.iter().try_for_each(|entry| entry.emit(w)),
        ),
        8 => again(
            body,
            |r| Head::parse(r).ok().zip(Cause::parse(r).ok()),
            |(head, cause), w| {
                assert!(!cause.to_string().is_empty());
                head.emit(w)?;
                cause.emit(w)
            },
        ),
        _ => again(body, |r| Reply::parse(r.rest()).ok(), |reply, w| reply.emit(w)),
    }
}

/// One valid body of some messages, and zeros for the others.
pub(super) fn access_seeds() -> Vec<Vec<u8>> {
    let owner = Peer::rank(WorldRank(5)).expect("a small rank is a peer");
    let ticket = super::ticket::seeds().remove(0);
    let mut export = vec![1];
    export.extend(ticket);
    export.extend([9; 32]);
    export.extend([2, 0, 0, 0, 0, 1, 0, 0, 0]);
    let locate = Locate { owner, address: 4096 }.to_bytes();
    let mut seeds = vec![export, [&[0], locate.as_slice()].concat()];
    seeds.extend((2..6).map(|choice| [&[choice], [0; 40].as_slice()].concat()));
    seeds.push([&[6], [0; Fetch::LEN].as_slice()].concat());
    let mut opened = [0; OPENED];
    // A region of one byte.
    opened[24] = 1;
    seeds.push([&[7], opened.as_slice()].concat());
    seeds.push([&[8], [0; CONNECTING].as_slice()].concat());
    let hint = Hint(Span { key: Key::new(owner, 1, 1), offset: 7, len: 100_000 });
    seeds.push([&[9], hint.to_bytes().as_slice()].concat());
    seeds
}

/// What parses, emits the same bytes.
pub(super) fn access_feed(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else { return };
    let told = match choice % 10 {
        0 => Locate::parse(body).ok().map(|locate| locate.to_bytes().to_vec()),
        1 => Export::parse(body).ok().map(|export| {
            let mut told = vec![0; 256];
            let length = export.emit(&mut told).expect("an export is short");
            told.truncate(length);
            told
        }),
        2 => Import::parse(body).ok().map(|import| import.to_bytes().to_vec()),
        3 => Revoke::parse(body).ok().map(|revoke| revoke.to_bytes().to_vec()),
        4 => Description::parse(body).ok().map(|description| description.to_bytes().to_vec()),
        5 => Transfer::parse(body).ok().map(|(transfer, rest)| [transfer.to_bytes().as_slice(), rest].concat()),
        6 => Fetch::parse(body).ok().map(|fetch| fetch.to_bytes().to_vec()),
        7 => Opened::parse(body).ok().map(|opened| opened.to_bytes().to_vec()),
        8 => Connect::parse(body).ok().map(|connect| connect.to_bytes().to_vec()),
        _ => Hint::parse(body).ok().map(|hint| {
            let pieces: u64 = hint.pieces().map(|piece| piece.len).sum();
            assert!(pieces == hint.0.len && hint.pieces().count() <= 32);
            hint.to_bytes().to_vec()
        }),
    };
    if let Some(told) = told {
        assert_eq!(told, body, "message {}", choice % 10);
    }
}

/// A part's ranks all lie in the group that it states.
fn part(body: &[u8]) {
    let Ok(part) = Part::parse(&mut Reader::new(body)) else { return };
    for entries in part.entries() {
        assert!(entries.ranks.last().is_some_and(|last| last < part.size), "{entries:?} of {}", part.size);
    }
}

/// Parses, tells again, parses what was told: the same message.
fn again<'a, T: PartialEq + Debug>(
    body: &'a [u8],
    parse: impl Fn(&mut Reader<'a>) -> Option<T>,
    emit: impl Fn(&T, &mut Writer<'_>) -> Result<(), Short>,
) {
    let Some(message) = parse(&mut Reader::new(body)) else { return };
    let told = written(|w| emit(&message, w));
    assert!(body.starts_with(&told), "{message:?} is told in other bytes");
}

fn written(emit: impl FnOnce(&mut Writer<'_>) -> Result<(), Short>) -> Vec<u8> {
    let mut bytes = vec![0; LONGEST];
    let mut writer = Writer::new(&mut bytes);
    emit(&mut writer).expect("the buffer suffices for every message");
    let length = writer.len();
    bytes.truncate(length);
    bytes
}

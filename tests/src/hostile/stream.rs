//! Conversations in memory that another process can write.

use std::cell::Cell;

use umbra_core::atomic::AtomicU64;
use umbra_core::cell::BytesMut;
use umbra_core::event::Wait;
use umbra_core::stream::{Class, End, Inlet, Mode, Outlet, Reference, Shape, Streams};
use umbra_core::time::Time;

use super::shared::{poke, with_bytes, with_steps};

/// Who sends, and who receives.
const ENDS: [u16; 2] = [1, 2];

/// Nobody sleeps here.
struct Nobody;

impl Wait for Nobody {
    fn now(&self) -> Time {
        Time(0)
    }
    fn sleep(&self, _: &AtomicU64, _: u32, _: Time) {}
    fn wake(&self, _: &AtomicU64) {}
}

/// Each mode without conversations, and one with a conversation that waits, and one that is being read.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let laid_out = |mode, streams, messages, talks: u8| {
        let shape = Shape { mode, streams, ring: 128, messages, block: 40 };
        let mut memory = vec![0_u64; shape.words().expect("small streams")];
        let streams = Streams::create(BytesMut::from_words(&mut memory), shape).expect("the memory suffices");
        if talks > 0 {
            let begun = streams.table().claim(ENDS[0], Class::Stream, false).expect("all are idle");
            let mut outlet = streams.outlet(begun, ENDS[0]).expect("it is a place");
            assert!(outlet.deposit() && outlet.write(b"hello", 7, false) == Ok(5));
            outlet.refer(Reference { pool: 1, block: 2, len: 3, ..Reference::default() }, 8).expect("there is room");
        }
        if talks > 1 {
            let met = streams.table().meet(ENDS[1]).expect("somebody waits");
            let mut inlet = streams.inlet(met, ENDS[1]).expect("it is a place");
            assert_eq!(inlet.read(&mut [0; 2]).map(|piece| piece.len), Ok(2));
        }
        with_steps(&memory)
    };
    vec![
        laid_out(Mode::Nominal, 2, 1, 0),
        laid_out(Mode::Nominal, 2, 1, 1),
        laid_out(Mode::Nominal, 2, 1, 2),
        laid_out(Mode::Buffered, 0, 2, 0),
        laid_out(Mode::SenderSupplied, 2, 1, 0),
        laid_out(Mode::ReceiverSupplied, 2, 0, 0),
        laid_out(Mode::Single, 1, 0, 0),
    ]
}

/// Whatever is in the memory: a conversation is in a place, a piece fits where it is read to, clearing a place away finds
/// no more than can lie in it, every operation ends, and none panics.
pub(super) fn feed(bytes: &[u8]) {
    with_bytes(bytes, |memory, words, steps| {
        let Ok(streams) = Streams::attach(memory) else { return };
        let (table, shape) = (streams.table(), streams.table().shape());
        let places = (shape.streams + shape.messages) as usize;
        assert!(places <= words.len() && streams.block() <= words.len() * 8);
        let forgotten = Cell::new(0);
        let dropped = |_: Reference| forgotten.set(forgotten.get() + 1);
        let (mut outlets, mut inlets, mut kept): (Vec<Outlet<'_>>, Vec<Inlet<'_>>, Vec<_>) = (vec![], vec![], vec![]);
        let mut pad = [0; 96];
        for step in steps {
            let (many, is_even) = (usize::from(step / 13), step / 13 % 2 == 0);
            match step % 13 {
                0 => {
                    let class = if is_even { Class::Stream } else { Class::Message };
                    outlets.extend(table.claim(ENDS[0], class, many % 3 == 0).and_then(|c| streams.outlet(c, ENDS[0])));
                }
                1 => drop(outlets.last().map(Outlet::deposit)),
                2 => {
                    let written = outlets.last_mut().map(|outlet| outlet.write(&pad[..5 * many], u64::MAX, is_even));
                    assert!(written.is_none_or(|written| written.unwrap_or(0) <= 5 * many));
                }
                3 => drop(outlets.last_mut().map(|outlet| outlet.refer(Reference::default(), 1))),
                4 => {
                    let how = if is_even { End::Complete } else { End::Broken };
                    let _ = outlets.pop().map(|outlet| outlet.end(how, dropped));
                }
                5 => inlets.extend(table.meet(ENDS[1]).and_then(|c| streams.inlet(c, ENDS[1]))),
                6 => {
                    let read = inlets.last_mut().map(|inlet| inlet.read(&mut pad[..many]));
                    assert!(read.is_none_or(|piece| piece.map_or(0, |piece| piece.len) <= many));
                }
                7 => drop(inlets.last_mut().map(|inlet| inlet.front().map(|front| inlet.skip(&front)))),
                8 => {
                    let _ = inlets.pop().map(|inlet| inlet.leave(dropped));
                }
                9 => {
                    kept.extend(table.keep(ENDS[0]));
                    let begun = kept.last().and_then(|&kept| table.claim_kept(kept, ENDS[0], is_even));
                    outlets.extend(begun.and_then(|c| streams.outlet(c, ENDS[0])));
                    kept.pop_if(|_| is_even).into_iter().for_each(|kept| table.give_up(kept, ENDS[0]));
                }
                10 => {
                    inlets.extend(table.offer(ENDS[1]).and_then(|c| streams.inlet(c, ENDS[1])));
                    outlets.extend(table.accept(ENDS[0], is_even).and_then(|c| streams.outlet(c, ENDS[0])));
                }
                11 => {
                    let all = streams.reclaim(ENDS[usize::from(is_even)], dropped);
                    assert!(all.sent.max(all.received).max(all.kept) <= places);
                    streams.tell_all(&Nobody);
                    let counts = table.counts();
                    assert!(counts.idle + counts.room <= places && counts.waiting.max(counts.offered) <= places);
                    for place in 0..=places {
                        let seen = streams.look(place);
                        assert_eq!(seen.is_some(), place < places);
                        assert!(seen.and_then(|seen| seen.under_way).unwrap_or(0) <= words.len() * 8);
                    }
                }
                _ => poke(words, step),
            }
            assert!(outlets.iter().all(|outlet| outlet.conversation().place() < places));
            assert!(inlets.iter().all(|inlet| inlet.conversation().place() < places));
            assert!(forgotten.take() <= words.len(), "a record is two words at least");
        }
    });
}

//! Structures that another process can write: segments, slots, rings.
//!
//! The front of an input is the memory as it is found; its last bytes say, read backwards, what is done with it and
//! what the other process changes in between.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::channel::{Header, Loan, Messages, Shape, Taken};
use umbra_core::crew::Identity as CrewIdentity;
use umbra_core::heap::{Block, Heap, Keep, Plan};
use umbra_core::ring::line::{self, Line, Ring};
use umbra_core::ring::mailbox::{self, Mailbox};
use umbra_core::segment::{Draft, Kind, Segment};
use umbra_core::shared_cache::{Forgetful, Identity, Sharing, words_for};
use umbra_core::shared_slots::{self, Owner, SharedSlots};

/// Words of memory that an input fills at most.
const WORDS: usize = 480;
/// Steps taken at most with what was attached.
const STEPS: usize = 48;
/// What the other process writes: words that arithmetic on positions trips over.
const POKES: [u64; 8] = [0, 1, 7, 1 << 20, 1 << 32, u64::MAX >> 1, u64::MAX - 1, u64::MAX];

/// A ring of lines, empty and with messages.
pub(super) fn ring_seeds() -> Vec<Vec<u8>> {
    let filled = |messages: usize| {
        laid_out(line::words_for(4), |words| {
            let ring = Ring::create(words, 4).expect("the memory suffices");
            let mut sender = ring.sender().expect("the ring is sound");
            (0..messages).for_each(|_| sender.push(message()).expect("there is room"));
        })
    };
    vec![filled(0), filled(3), filled(4)]
}

/// Whatever is in the memory: no panic, and no more messages than fit between two changes.
pub(super) fn ring_feed(bytes: &[u8]) {
    with_memory(bytes, |words, steps| {
        let Ok(ring) = Ring::attach(words) else { return };
        assert!(ring.capacity().is_power_of_two() && ring.capacity() <= words.len());
        let (Ok(mut sender), Ok(mut receiver)) = (ring.sender(), ring.receiver()) else { return };
        for step in steps {
            match step % 5 {
                0 => drop(sender.push(message())),
                1 => drop(receiver.pop()),
                2 => assert!(sender.push_all(&[message(); 3]).unwrap_or(0) <= 3),
                3 => assert!(receiver.pop_all(&mut [message(); 8]) <= ring.capacity().min(8)),
                _ => poke(words, step),
            }
        }
    });
}

/// A mailbox, empty and with messages.
pub(super) fn mailbox_seeds() -> Vec<Vec<u8>> {
    let filled = |messages: usize| {
        laid_out(mailbox::words_for(4), |words| {
            let mailbox = Mailbox::create(words, 4).expect("the memory suffices");
            (0..messages).for_each(|_| mailbox.push(owner(1), message()).expect("there is room"));
        })
    };
    vec![filled(0), filled(3), filled(4)]
}

/// Whatever is in the memory: every operation ends, and none panics.
pub(super) fn mailbox_feed(bytes: &[u8]) {
    with_memory(bytes, |words, steps| {
        // Nobody contends for it: what does not end soon does not end at all, and finding out is what costs.
        let Ok(mailbox) = Mailbox::attach(words).map(|mailbox| mailbox.with_spare(64)) else { return };
        assert!(mailbox.capacity() <= words.len());
        for step in steps {
            match step % 4 {
                0 => drop(mailbox.push(owner(1), message())),
                1 => drop(mailbox.pop(owner(2))),
                2 => assert!(mailbox.reclaim(owner(1)) <= mailbox.capacity()),
                _ => poke(words, step),
            }
        }
    });
}

/// A channel, empty and with messages.
pub(super) fn channel_seeds() -> Vec<Vec<u8>> {
    let shape = Shape { capacity: 3, spares: 1, block: 40 };
    let filled = |messages: usize| {
        let mut memory = vec![0_u64; shape.words().expect("a small channel")];
        let channel = Messages::create(BytesMut::from_words(&mut memory), shape).expect("the memory suffices");
        (0..messages).for_each(|_| assert!(channel.send(1, Header::default(), b"hello").is_ok(), "there is room"));
        with_steps(&memory)
    };
    vec![filled(0), filled(2), filled(3)]
}

/// Whatever is in the memory: a message fits into its block, every operation ends, and none panics.
pub(super) fn channel_feed(bytes: &[u8]) {
    with_bytes(bytes, |memory, words, steps| {
        // Nobody contends for it: what does not end soon does not end at all, and finding out is what costs.
        let Ok(channel) = Messages::attach(memory).map(|channel| channel.with_spare(64)) else { return };
        let (queue, mut pad) = (channel.queue(), [0; 64]);
        let (mut loans, mut taken) = (vec![], vec![]);
        for step in steps {
            match step % 9 {
                0 => drop(channel.send(1, Header::default(), &pad[..usize::from(step / 4)])),
                1 => assert!(channel.receive(2, &mut pad).map_or(0, |received| received.len) <= channel.block()),
                2 => drop(channel.peek(&mut pad)),
                3 => loans.extend(channel.loan(1, usize::from(step / 9))),
                4 => drop(loans.pop().map(|loan: Loan<'_>| (loan.bytes().write(0, b"h"), loan.send()))),
                5 => taken.extend(channel.take(2)),
                6 => drop(taken.pop().map(|message: Taken<'_>| message.copy_to(&mut pad))),
                7 => {
                    let all = queue.reclaim(1);
                    assert!(all.unsent + all.taken + all.waiting <= 2 * words.len());
                    assert!(queue.len() <= words.len() && queue.free_slots() <= words.len());
                }
                _ => poke(words, step),
            }
        }
    });
}

/// A table of slots, free and partly taken.
pub(super) fn slots_seeds() -> Vec<Vec<u8>> {
    let taken = |count: usize| {
        laid_out(shared_slots::words_for(70), |words| {
            let slots = SharedSlots::create(words, 70).expect("the memory suffices");
            for _ in 0..count {
                let _ = slots.take(owner(1)).expect("a slot is free");
            }
        })
    };
    vec![taken(0), taken(5), taken(70)]
}

/// Whatever is in the memory: an id that was handed out lies in the table, and every operation ends.
pub(super) fn slots_feed(bytes: &[u8]) {
    with_memory(bytes, |words, steps| {
        let Ok(slots) = SharedSlots::attach(words) else { return };
        assert!(slots.capacity() <= words.len());
        let mut held = Vec::new();
        for step in steps {
            match step % 6 {
                0 => held.extend(slots.take(owner(1))),
                1 => drop(held.pop().map(|id| slots.release(id, owner(1)))),
                2 => drop(held.last().map(|&id| slots.retain(id, owner(2)))),
                3 => drop(held.last().map(|&id| slots.transfer(id, owner(1), owner(3)))),
                4 => assert!(slots.reclaim(owner(1)) <= slots.capacity() && slots.free() <= slots.capacity()),
                _ => poke(words, step),
            }
            assert!(held.iter().all(|id| (id.index() as usize) < slots.capacity()));
        }
    });
}

/// A shared cache, empty and in use.
pub(super) fn cache_seeds() -> Vec<Vec<u8>> {
    let sharing = Sharing::new(2, 7).expect("a few");
    let used = |count: u64| {
        laid_out(words_for(8, sharing), |words| {
            let cache = Forgetful::create(words, 8, sharing, 1).expect("the memory suffices");
            let client = cache.join(Identity::new(1, 1)).expect("nobody else joined");
            for data in 0..count {
                client.alloc(data).expect("there is room");
                client.remember(data).expect("it is being filled");
            }
            (0..count / 2).for_each(|data| client.free(data).expect("it is in use"));
        })
    };
    vec![used(0), used(5), used(8)]
}

/// Whatever is in the memory: a slot that was handed out is one, and every operation ends.
pub(super) fn cache_feed(bytes: &[u8]) {
    with_memory(bytes, |words, steps| {
        let Ok(cache) = Forgetful::attach(words) else { return };
        assert!((cache.capacity() as usize) < words.len());
        let Ok(client) = cache.join(Identity::new(2, 2)) else { return };
        for step in steps {
            let data = u64::from(step / 8);
            match step % 8 {
                0 | 1 => assert!(client.alloc(data).map_or(0, |grant| grant.slot) < cache.capacity()),
                2 => drop(client.free(data)),
                3 => drop(client.remember(data)),
                4 => drop((client.forget(data), client.abandon(data), client.state(data))),
                5 => drop(client.pin(data).map(|pin| client.free_pin(pin))),
                6 => {
                    let told = |slot, _| assert!(slot < cache.capacity());
                    let _ = cache.members().next().map(|(owner, who)| client.reclaim(owner, who, told));
                }
                _ => poke(words, step),
            }
        }
    });
}

/// Bytes of the heaps below.
const HEAP: u64 = 512;

/// A heap, empty and in use.
pub(super) fn heap_seeds() -> Vec<Vec<u8>> {
    let plan = Plan::new(HEAP, 32, 0, 2).expect("a small heap");
    assert!(plan.words() <= WORDS, "{}", plan.words());
    let used = |blocks: usize| {
        laid_out(Some(plan.words()), |words| {
            let heap = Heap::create(words, plan, &[]).expect("the memory suffices");
            let mut hand = heap.hand(heap.crew().join(CrewIdentity::new(1, 1)).expect("nobody else joined"));
            (0..blocks).for_each(|_| assert!(hand.alloc(40, 0).is_ok(), "there is room"));
        })
    };
    vec![used(0), used(1), used(4)]
}

/// Whatever is in the memory: a block that was handed out lies inside, and every operation ends.
pub(super) fn heap_feed(bytes: &[u8]) {
    with_memory(bytes, |words, steps| {
        let Ok(heap) = Heap::attach(words, HEAP) else { return };
        let Ok(member) = heap.crew().join(CrewIdentity::new(2, 2)) else { return };
        let mut hand = heap.hand(member);
        let mut held = Vec::new();
        for step in steps {
            match step % 7 {
                0 | 1 => held.extend(hand.alloc(u64::from(step) * 8, 1)),
                2 => drop(held.pop().map(|block: Block| hand.free(block.id))),
                3 => drop(held.last().map(|block: &Block| (heap.block(block.id), hand.rename(block.id)))),
                4 => assert!(heap.blocks().all(|block| inside(&block)) && heap.figures().bytes == HEAP),
                5 => drop(heap.recover(1, Keep::Nothing)),
                _ => poke(words, step),
            }
            assert!(held.iter().all(inside), "{held:?}");
        }
    });
}

fn inside(block: &Block) -> bool {
    block.offset.checked_add(block.len).is_some_and(|end| end <= HEAP)
}

/// A segment with two named parts.
pub(super) fn segment_seeds() -> Vec<Vec<u8>> {
    let segment = laid_out(Some(64), |words| {
        let mut draft = Draft::new(words).expect("the memory suffices");
        for index in 0..2 {
            let part = draft.carve(64, 8).expect("there is room for the part");
            draft.name(index, part).expect("the name is free");
        }
        draft.publish(Kind(7));
    });
    vec![segment]
}

/// Whatever is in the memory: a part that is handed out lies inside, and looking twice is as safe as once.
pub(super) fn segment_feed(bytes: &[u8]) {
    with_memory(bytes, |words, steps| {
        let Ok(segment) = Segment::attach(words, Kind(7)) else { return };
        assert!(segment.len_bytes() <= words.len() * 8);
        for step in steps {
            if step % 2 == 0 {
                poke(words, step);
            }
            for index in 0..16 {
                if let Ok(part) = segment.named(index) {
                    assert!(part.len() <= words.len());
                    // Loads every word: a part outside would fault.
                    part.iter().for_each(|word| {
                        word.load(Ordering::Relaxed);
                    });
                }
            }
        }
    });
}

/// Turns an input into memory and steps, and lets `work` do what it likes with both.
fn with_memory(bytes: &[u8], work: impl FnOnce(&[AtomicU64], &mut dyn Iterator<Item = u8>)) {
    with_bytes(bytes, |_, words, steps| work(words, steps));
}

/// The same, with the memory also as bytes.
pub(super) fn with_bytes(bytes: &[u8], work: impl FnOnce(BytesMut<'_>, &[AtomicU64], &mut dyn Iterator<Item = u8>)) {
    let mut memory: Vec<u64> = bytes.chunks_exact(8).take(WORDS).filter_map(word).collect();
    let mut steps = bytes.iter().rev().copied().take(STEPS);
    let count = memory.len();
    let memory = BytesMut::from_words(&mut memory);
    if let Ok(words) = memory.words(0, count) {
        work(memory, words, &mut steps);
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The other process changes one word.
pub(super) fn poke(words: &[AtomicU64], step: u8) {
    let at = usize::from(step).wrapping_mul(29) % words.len().max(1);
    if let Some(word) = words.get(at) {
        word.store(POKES[usize::from(step / 8) % POKES.len()], Ordering::Relaxed);
    }
}

/// Memory of so many words after something was laid out in it, and a tail of steps behind it.
fn laid_out(count: Option<usize>, work: impl FnOnce(&[AtomicU64])) -> Vec<u8> {
    let mut memory = vec![0_u64; count.expect("the structure has a size")];
    let count = memory.len();
    work(BytesMut::from_words(&mut memory).words(0, count).expect("the memory is there"));
    with_steps(&memory)
}

/// Memory as it was laid out, and a tail of steps behind it.
pub(super) fn with_steps(memory: &[u64]) -> Vec<u8> {
    let words = memory.iter().flat_map(|word| word.to_le_bytes());
    words.chain([0, 5, 10, 1, 6, 3, 2, 7, 4, 9, 8, 11, 0, 1, 2, 3]).collect()
}

fn message() -> Line {
    Line::from_bytes(b"hello").expect("byte 5 is free")
}

fn owner(number: u8) -> Owner {
    Owner::new(number).expect("a small number is an owner")
}

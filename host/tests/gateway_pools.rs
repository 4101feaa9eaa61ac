//! Pools and barriers of other hosts through a gateway.
//!
//! This host is in disguise as another one.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::thread;
use std::time::{Duration, Instant};
use umbra::channel::{self, Attributes as ChannelAttributes, Channel, Event, Timeout, WaitMode};
use umbra::gateway::{Error, Gateways, RemoteBarrier, RemoteChannel, RemotePool};
use umbra::link::Address;
use umbra::pool::{self, Attributes, Pool};
use umbra::sys::host;
use umbra_core::heap::AllocError;

use another::{Another, ready, until};
use gateways::{ANYWHERE, LONG, NOW, be_a_gateway, gateways, serve, start_gateway, text};

const MIB: u64 = 1 << 20;

fn pool() -> Pool {
    let uid = umbra::uid::draw().unwrap();
    Pool::create(None, &Attributes { bytes: MIB, uid, ..Attributes::default() }).unwrap()
}

fn remote(pool: &Pool, gateways: &Gateways) -> RemotePool {
    RemotePool::attach(&pool.reference().unwrap(), gateways, LONG).unwrap()
}

fn refused<T>(error: pool::Error) -> Result<T, Error> {
    Err(Error::Pool(error))
}

/// Bytes that are nowhere the same.
fn long(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// What another process does; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let Some((address, told)) = role.split_once(' ') else { return be_a_gateway(&role) };
    let gateways = gateways(&Address::Tcp(address.parse().unwrap()));
    let (what, reference) = told.split_once(' ').unwrap();
    let bytes = umbra::reference::from_text(reference).unwrap();
    if let "barrier" | "counted" = what {
        let remote = RemoteChannel::attach(&bytes, &gateways, LONG).unwrap();
        let mut barrier = remote.barrier(LONG).unwrap();
        if what == "counted" {
            assert_eq!(barrier.count_in(NOW), Ok(false));
            ready("is counted");
            return thread::sleep(Duration::from_secs(600));
        }
        ready("waits");
        panic!("{:?}", barrier.wait(Timeout::Never));
    }
    let remote = RemotePool::attach(&bytes, &gateways, LONG).unwrap();
    let blocks = [10, 1000, 100_000].map(|len| remote.alloc(len, 3, LONG).unwrap());
    blocks[1].leave(LONG).unwrap();
    ready("has three blocks");
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn memory_of_another_hosts_pool_is_allocated_written_read_and_freed() {
    let (_server, address) = serve();
    let (gateways, pool) = (gateways(&address), pool());
    let far = remote(&pool, &gateways);
    assert_eq!((far.uid(), far.bytes(), far.host()), (pool.uid(), MIB, host::id()));
    // Longer than what fits into one answer.
    let bytes = long(200_000);
    let block = far.alloc(bytes.len() as u64, 7, NOW).unwrap();
    assert_eq!((block.len(), block.kind()), (200_000, 7));
    block.write(0, &bytes, LONG).unwrap();
    let here = pool.allocation(block.id()).unwrap();
    let mut seen = vec![0; bytes.len()];
    here.read(0, &mut seen).unwrap();
    assert_eq!((&seen, here.kind()), (&bytes, Ok(7)));
    here.write(70_000, b"changed").unwrap();
    let mut part = [0; 7];
    block.read(70_000, &mut part, LONG).unwrap();
    assert_eq!(&part, b"changed");
    block.write(199_990, b"in the end", LONG).unwrap();
    block.read(0, &mut seen, LONG).unwrap();
    assert_eq!((&seen[70_000..70_007], &seen[199_990..]), (&b"changed"[..], &b"in the end"[..]));
    // What somebody allocated at hand, too.
    let ours = pool.alloc(100, 2).unwrap();
    ours.write(0, b"ours").unwrap();
    let named = RemotePool::attach(&ours.reference().unwrap(), &gateways, LONG).unwrap();
    let same = named.allocation(ours.id(), LONG).unwrap();
    let mut four = [0; 4];
    same.read(0, &mut four, LONG).unwrap();
    let found = far.allocation_of(&ours.reference().unwrap(), LONG).unwrap();
    assert_eq!((found.id(), found.len()), (ours.id(), 100));
    let other = self::pool();
    for (bytes, why) in [
        (other.alloc(1, 0).unwrap().reference().unwrap(), umbra::reference::Error::Replaced),
        (pool.reference().unwrap(), umbra::reference::Error::WrongObject),
    ] {
        assert_eq!(far.allocation_of(&bytes, LONG).map(|_| ()), Err(Error::Reference(why)));
    }
    assert_eq!((&four, same.len(), same.kind()), (b"ours", 100, 2));
    let (used, figures) = (far.used(LONG).unwrap(), pool.figures());
    assert_eq!((used.bytes, used.free, used.asked), (figures.bytes, figures.free, figures.asked));
    assert_eq!((used.allocations, used.longest_free), (2, figures.longest_free));
    same.free(LONG).unwrap();
    assert!(!ours.exists());
    block.free(LONG).unwrap();
    assert_eq!(pool.blocks().count(), 0);
    // No bytes are an allocation there as here.
    let nothing = far.alloc(0, 0, NOW).unwrap();
    nothing.write(0, b"", LONG).unwrap();
    assert!(nothing.is_empty());
    nothing.free(LONG).unwrap();
}

#[test]
fn what_a_pool_refuses_at_hand_it_refuses_from_afar() {
    let (_server, address) = serve();
    let (gateways, pool) = (gateways(&address), pool());
    let far = remote(&pool, &gateways);
    let too_large = AllocError::TooLarge { len: MIB + 1, longest: MIB };
    assert_eq!(far.alloc(MIB + 1, 0, NOW).map(drop), refused(too_large.into()));
    // The last kind is that of channels.
    for kind in [(1 << 24) - 1, 1 << 24] {
        assert_eq!(far.alloc(1, kind, NOW).map(drop), refused(AllocError::BadKind(kind).into()));
    }
    let all = far.alloc(MIB, 0, NOW).unwrap();
    assert_eq!(far.alloc(10, 0, NOW).map(drop), refused(AllocError::NotAvailable { len: 10 }.into()));
    let start = Instant::now();
    let late = far.alloc(10, 0, Timeout::After(Duration::from_millis(120))).map(drop);
    assert_eq!(late, refused(pool::Error::Timeout { len: 10 }));
    assert!(start.elapsed() >= Duration::from_millis(120));
    let outside = pool::Error::OutOfBounds { offset: MIB, len: 1, size: MIB };
    assert_eq!(all.write(MIB, b"x", LONG), refused(outside.clone()));
    assert_eq!(all.read(MIB, &mut [0], LONG), refused(outside.clone()));
    // By its id the same, which the gateway finds; nothing is copied of what is not inside as a whole.
    let (id, here) = (all.id(), pool.allocation(all.id()).unwrap());
    assert_eq!(far.write(id, MIB, b"x", LONG), refused(outside.clone()));
    assert_eq!(far.read(id, MIB, &mut [0], LONG), refused(outside));
    let (from, mut before, mut after) = (MIB - 150_000, vec![0; 150_000], vec![0; 150_000]);
    here.read(from, &mut before).unwrap();
    let outside = |offset, len| refused(pool::Error::OutOfBounds { offset, len, size: MIB });
    assert_eq!(far.write(id, from, &long(150_001), LONG), outside(from, 150_001));
    assert_eq!(far.read(id, from, &mut long(150_001), LONG), outside(from, 150_001));
    assert_eq!(far.write(id, u64::MAX, &long(150_001), LONG), outside(u64::MAX, 150_001));
    assert_eq!(far.read(id, MIB + 1, &mut [], LONG), outside(MIB + 1, 0));
    here.read(from, &mut after).unwrap();
    assert_eq!(before, after);
    far.write(id, from, &long(150_000), LONG).unwrap();
    far.read(id, from, &mut after, LONG).unwrap();
    assert_eq!(after, long(150_000));
    here.read(from, &mut before).unwrap();
    assert_eq!(before, after);
    // Who waits is served by a free at hand.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| far.alloc(10, 0, LONG).map(|block| block.id()));
        until("the request", || pool.is_awaited());
        pool.allocation(all.id()).unwrap().free().unwrap();
        pool.allocation(waiting.join().unwrap().unwrap()).unwrap().free().unwrap();
    });
    for gone in [all.free(LONG), all.read(0, &mut [0], LONG), all.write(0, b"x", LONG), all.leave(LONG)] {
        assert_eq!(gone, refused(pool::Error::Stale));
    }
    for gone in [far.free(id, LONG), far.read(id, 0, &mut [], LONG), far.write(id, 0, b"", LONG), far.leave(id, LONG)] {
        assert_eq!(gone, refused(pool::Error::Stale));
    }
    assert_eq!(far.allocation(all.id(), LONG).map(drop), refused(pool::Error::Stale));
    let channel = Channel::create(&ChannelAttributes::default()).unwrap();
    let wrong = RemotePool::attach(&channel.reference().unwrap(), &gateways, LONG).map(drop);
    assert_eq!(wrong, Err(umbra::reference::Error::WrongObject.into()));
    let reference = pool.reference().unwrap();
    pool.destroy().unwrap();
    assert_eq!(far.alloc(10, 0, NOW).map(drop), refused(pool::Error::Destroyed));
    drop(pool);
    assert!(RemotePool::attach(&reference, &gateways, LONG).is_err());
    let plain = Gateways::new(gateways::secret());
    assert_eq!(RemotePool::attach(&reference, &plain, LONG).map(drop), Err(Error::Local));
}

#[test]
fn a_thread_frees_what_another_one_with_the_same_handle_waits_for() {
    let (_server, address) = serve();
    let (gateways, pool) = (gateways(&address), pool());
    let far = remote(&pool, &gateways);
    let all = far.alloc(far.used(NOW).unwrap().longest_free, 0, NOW).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| far.alloc(MIB / 2, 0, LONG).map(|block| block.len()));
        thread::sleep(Duration::from_millis(100));
        all.write(0, b"still here", LONG).unwrap();
        all.free(LONG).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(MIB / 2));
    });
}

/// How many blocks are a gateway's.
fn gateways_of(pool: &Pool, gateway: &Another) -> usize {
    pool.allocations_of(gateway.id()).len()
}

#[test]
fn a54_what_a_killed_client_had_is_freed_and_what_it_left_stays() {
    let (agent, address) = start_gateway(ANYWHERE);
    let (gateways, pool) = (gateways(&address), pool());
    let reference = umbra::reference::to_text(&pool.reference().unwrap());
    let (mut client, _) = Another::start_ready(&format!("{} pool {reference}", text(&address)));
    assert_eq!(pool.blocks().count(), 3);
    // Somebody at hand takes one over.
    let shortest = pool.blocks().find(|block| block.len == 10).unwrap();
    pool.allocation(shortest.id).unwrap().own().unwrap();
    client.kill();
    until("the end of its line", || gateways_of(&pool, &agent) == 1);
    let mut left: Vec<_> = pool.blocks().map(|block| (block.len, block.kind)).collect();
    left.sort_unstable();
    assert_eq!(left, [(10, 3), (1000, 3)]);
    // One that ends in peace leaves as little.
    let far = remote(&pool, &gateways);
    far.alloc(10, 0, NOW).unwrap();
    far.alloc(20, 0, NOW).unwrap().leave(NOW).unwrap();
    assert_eq!(gateways_of(&pool, &agent), 3);
    drop(far);
    until("the end of its line", || gateways_of(&pool, &agent) == 2);
}

#[test]
fn what_the_gateways_own_process_took_over_stays_when_the_client_goes() {
    let (_server, address) = serve();
    let (gateways, pool) = (gateways(&address), pool());
    let far = remote(&pool, &gateways);
    let lengths = |pool: &Pool| pool.blocks().map(|block| block.len).collect::<Vec<_>>();
    for len in [100, 200_000] {
        let taken = far.alloc(len, 0, NOW).unwrap();
        far.alloc(len + 1, 0, NOW).unwrap();
        pool.allocation(taken.id()).unwrap().own().unwrap();
    }
    drop(far);
    until("the end of its line", || lengths(&pool).iter().all(|len| len.is_multiple_of(100)));
    assert_eq!(lengths(&pool).iter().sum::<u64>(), 200_100);
}

#[test]
fn a53_a_killed_gateway_takes_what_it_lent_along_and_a_new_one_serves() {
    let (mut agent, address) = start_gateway(ANYWHERE);
    let (gateways, pool) = (gateways(&address), pool());
    let far = remote(&pool, &gateways);
    let block = far.alloc(100, 0, NOW).unwrap();
    let process = agent.id();
    agent.kill();
    assert!(block.write(0, b"lost", Timeout::After(Duration::from_millis(200))).is_err());
    // As of any process that died.
    assert_eq!(pool.free_allocations_of(process), Ok(1));
    let _again = start_gateway(&text(&address));
    assert_eq!(block.write(0, b"gone", LONG), refused(pool::Error::Stale));
    far.alloc(100, 0, NOW).unwrap().free(NOW).unwrap();
    assert_eq!(pool.blocks().count(), 0);
}

#[test]
fn parties_of_two_hosts_meet_at_a_barrier() {
    const ROUNDS: usize = 100;
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let channel = Channel::create(&ChannelAttributes { capacity: 3, ..ChannelAttributes::default() }).unwrap();
    let far = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
    let mut barriers = [0; 2].map(|_| far.barrier(LONG).unwrap());
    let mut came = thread::scope(|scope| {
        let parties = barriers.each_mut();
        let far: Vec<_> = parties
            .into_iter()
            .map(|party| scope.spawn(move || (0..ROUNDS).map(|_| party.wait(LONG).unwrap()).collect::<Vec<u32>>()))
            .collect();
        let wait = |_| channel.barrier().unwrap().wait(WaitMode::Idle, LONG).unwrap();
        let mut all = vec![(0..ROUNDS).map(wait).collect::<Vec<u32>>()];
        all.extend(far.into_iter().map(|party| party.join().unwrap()));
        all
    });
    for round in (0..ROUNDS).rev() {
        let mut numbers: Vec<u32> = came.iter_mut().map(|party| party.pop().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2], "round {round}");
    }
    let broken = Err(Error::Channel(channel::Error::BarrierBroken));
    assert_eq!(barriers[0].wait(NOW), Err(Error::Channel(channel::Error::BarrierTryAgain)));
    assert_eq!(channel.barrier().unwrap().waiting(), 0, "nobody was counted");
    let late = barriers[0].wait(Timeout::After(Duration::from_millis(80)));
    assert_eq!(late, Err(Error::Channel(channel::Error::Timeout)));
    assert_eq!(barriers[1].wait(LONG), broken, "who gives up breaks it");
    channel.barrier().unwrap().reset().unwrap();
    // So does who dies.
    let reference = umbra::reference::to_text(&channel.reference().unwrap());
    let (mut client, _) = Another::start_ready(&format!("{} barrier {reference}", text(&address)));
    until("a party", || channel.barrier().unwrap().waiting() == 1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| barriers[0].wait(LONG));
        until("both parties", || channel.barrier().unwrap().waiting() == 2);
        let killed = Instant::now();
        client.kill();
        assert_eq!(waiting.join().unwrap(), broken);
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    });
}

#[test]
fn parties_of_two_hosts_meet_in_two_steps() {
    const ROUNDS: u64 = 50;
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let channel = Channel::create(&ChannelAttributes { capacity: 3, ..ChannelAttributes::default() }).unwrap();
    let far = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
    let barrier = channel.barrier().unwrap();
    let told = || {
        let mut number = [0; 8];
        channel.receiver(WaitMode::Idle).unwrap().receive(&mut number, LONG).unwrap();
        u64::from_le_bytes(number)
    };
    let mut barriers = [0; 2].map(|_| far.barrier(LONG).unwrap());
    let sum: u64 = thread::scope(|scope| {
        let round = |party: &mut RemoteBarrier| {
            if party.count_in(LONG).unwrap() {
                party.release(LONG).unwrap();
            }
            party.number(LONG).unwrap().unwrap()
        };
        let parties =
            barriers.each_mut().map(|party| scope.spawn(move || (0..ROUNDS).map(|_| round(party)).sum::<u64>()));
        let here = |_| {
            if barrier.count_in(WaitMode::Idle, LONG).unwrap() {
                barrier.release(LONG).unwrap();
            }
            told()
        };
        let here: u64 = (0..ROUNDS).map(here).sum();
        here + parties.map(|party| party.join().unwrap()).iter().sum::<u64>()
    });
    assert_eq!(sum, ROUNDS * 3, "0, 1 and 2 in each");
    // The same by polls, and what they refuse.
    fn refused<T>(error: channel::Error) -> Result<T, Error> {
        Err(Error::Channel(error))
    }
    assert_eq!((far.poll(Event::BarrierWait, NOW), barriers[0].count_in(NOW)), (Ok(0), Ok(false)));
    assert_eq!(barriers[1].wait(LONG), refused(channel::Error::BarrierMixed));
    assert_eq!(
        (far.poll(Event::BarrierWait, NOW), far.poll(Event::BarrierWait, NOW)),
        (Ok(1), refused(channel::Error::BarrierTryAgain))
    );
    assert_eq!((far.poll(Event::BarrierRelease, NOW), told(), barriers[0].number(NOW)), (Ok(11), 0, Ok(Some(1))));
    // One message is not taken: who waits for it no longer breaks the barrier.
    let late = barriers[1].count_in(Timeout::After(Duration::from_millis(80)));
    assert_eq!((late, barrier.is_broken()), (refused(channel::Error::Timeout), true));
    assert_eq!((far.poll(Event::Reset, NOW), channel.count()), (Ok(7), Ok(0)));
    // A client that was counted dies; also one that was released and had not received its number.
    let reference = umbra::reference::to_text(&channel.reference().unwrap());
    for releases in [false, true] {
        let (mut client, _) = Another::start_ready(&format!("{} counted {reference}", text(&address)));
        assert_eq!((barriers[0].count_in(NOW), releases && barriers[1].count_in(NOW).unwrap()), (Ok(false), releases));
        let killed = Instant::now();
        if releases {
            barrier.release(NOW).unwrap();
        }
        client.kill();
        until("a broken barrier", || barrier.is_broken());
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
        far.poll(Event::Reset, NOW).unwrap();
    }
}

/// With a barrier for three parties.
fn of_three() -> Channel {
    Channel::create(&ChannelAttributes { capacity: 3, ..ChannelAttributes::default() }).unwrap()
}

#[test]
fn each_party_that_came_through_one_handle_is_missed() {
    let (_server, address) = serve();
    let (gateways, channel) = (gateways(&address), of_three());
    let barrier = channel.barrier().unwrap();
    for has_one_line in [true, false] {
        let far = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
        let mut party = far.barrier(LONG).unwrap();
        for _ in 0..2 {
            let came =
                if has_one_line { party.count_in(NOW).map(u64::from) } else { far.poll(Event::BarrierWait, NOW) };
            assert_eq!(came, Ok(0));
        }
        assert_eq!((barrier.count_in(WaitMode::Idle, NOW), barrier.release(NOW)), (Ok(true), Ok(())));
        let mut told = [0; 8];
        let first = if has_one_line { party.number(NOW).map(drop) } else { far.receive(&mut told, NOW).map(drop) };
        assert_eq!((first, channel.receiver(WaitMode::Idle).unwrap().receive(&mut told, NOW).is_ok()), (Ok(()), true));
        // Both go, and one of them has not received.
        drop((party, far));
        until("a broken barrier", || barrier.is_broken());
        assert_eq!(channel.poll(Event::Reset, WaitMode::Idle, NOW), Ok(Event::Reset as u64));
    }
}

#[test]
fn a_party_that_came_by_a_poll_and_has_received_is_not_missed() {
    let (server, address) = serve();
    let (gateways, channel) = (gateways(&address), of_three());
    let barrier = channel.barrier().unwrap();
    let far = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
    thread::scope(|scope| {
        // It has the first line until there is a message.
        let waiting = scope.spawn(|| far.poll(Event::In, LONG));
        until("a second line", || far.count().is_ok() && server.lines() > 1);
        assert_eq!(far.poll(Event::BarrierWait, NOW), Ok(0));
        let here = [0; 2].map(|_| barrier.count_in(WaitMode::Idle, NOW));
        assert_eq!((here, barrier.release(NOW)), ([Ok(false), Ok(true)], Ok(())));
        assert_eq!(waiting.join().unwrap(), Ok(Event::In as u64));
    });
    far.receive(&mut [0; 8], NOW).unwrap();
    drop(far);
    until("the end of its lines", || server.lines() == 0);
    assert!(!barrier.is_broken(), "the others are still to receive");
}

#[test]
fn parties_that_receive_elsewhere_take_no_more_lines_than_two() {
    let (server, address) = serve();
    let (gateways, channel) = (gateways(&address), of_three());
    let barrier = channel.barrier().unwrap();
    let far = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, LONG).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    let released = || {
        assert_eq!(far.poll(Event::BarrierWait, NOW), Ok(0));
        let here = [0; 2].map(|_| barrier.count_in(WaitMode::Idle, NOW));
        assert_eq!((here, barrier.release(NOW)), ([Ok(false), Ok(true)], Ok(())));
    };
    for _ in 0..20 {
        released();
        (0..3).for_each(|_| _ = receiver.receive(&mut [0; 8], NOW).unwrap());
        assert_eq!(far.count(), Ok(0));
        assert!(server.lines() <= 2, "{} lines", server.lines());
    }
    // Of all those only the last one has received through the line by which it came.
    released();
    far.receive(&mut [0; 8], NOW).unwrap();
    drop(far);
    until("the end of its lines", || server.lines() == 0);
    assert!(!barrier.is_broken(), "the others are still to receive");
}

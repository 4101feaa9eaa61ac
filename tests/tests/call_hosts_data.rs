//! Offered data of chained calls between hosts (scenarios 58 and 59).
//!
//! Agents are processes that speak TCP to each other.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use umbra::call::{Member, Reply, Station, StreamError, WaitError, Window};
use umbra_core::chain::{Call, Code, Data, Node, Plan, StartError};
use umbra_core::tree::Shape;
use umbra_tests::call::{cross, member, vectors, vectors_sum, words_of};
use umbra_tests::hosts::Hosts;

const LONG: Duration = Duration::from_secs(30);

/// A rank on each host: those elsewhere are processes of their own, the first one is here.
struct Ranks {
    seats: Vec<Node>,
    others: Vec<Child>,
    first: Member,
}

impl Ranks {
    fn on(hosts: &Hosts) -> Ranks {
        Ranks::with(hosts, 3, |_| Vec::new())
    }

    /// On so many hosts, of which those elsewhere are told this, by the seats of all.
    fn with(hosts: &Hosts, count: u32, tell: impl Fn(&[Node]) -> Vec<String>) -> Ranks {
        let places: Vec<Station> = (0..count).map(|host| hosts.meet(host)).collect();
        let seats: Vec<Node> = places.iter().map(|station| Node(station.shape().first + 2)).collect();
        let start = |host: usize| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_call-member"));
            let station = Stdio::from(places[host].share().unwrap());
            command.arg(seats[host].0.to_string()).args(tell(&seats)).stdin(station).spawn().unwrap()
        };
        let others = (1..places.len()).map(start).collect();
        let mut ranks = Ranks { first: member(&places[0], seats[0], 8), seats, others };
        assert!(ranks.first.serve_until(LONG, |member| member.sees(&ranks.seats).is_none()), "all ranks are there");
        ranks
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.others {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

fn words(bytes: usize) -> (Vec<u8>, u64) {
    let words = (0..bytes as u64 / 8).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (words.clone().flat_map(u64::to_le_bytes).collect(), words.fold(0, u64::wrapping_add))
}

const SEGMENT: usize = 256 << 10;
const WINDOW: Window = Window { segment: SEGMENT, calls: 2, patience: LONG };

#[test]
fn s58_data_of_any_length_crosses_once_to_each_host_through_memory_for_a_window() {
    let hosts = Hosts::start("hosts-data", 3, 2);
    let mut ranks = Ranks::on(&hosts);
    let seats = ranks.seats.clone();
    let fetched = || -> Vec<u64> { (0..3).map(|host| hosts.figure(host, "call_bytes_fetched")).collect() };
    let (data, sum) = words(3 << 20);
    for shape in [Shape::FLAT, Shape::CHAIN] {
        let before = fetched();
        let offer = ranks.first.offer(&data).unwrap();
        let call = Call { plan: Plan::Shape(shape), ..words_of(offer.data(), &seats, &[]) };
        let handle = ranks.first.start(&call).unwrap();
        let reply = ranks.first.wait(handle, LONG).unwrap();
        assert_eq!(reply.data, sum.wrapping_mul(3).to_le_bytes(), "{shape:?}");
        let came: Vec<u64> = fetched().iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(came, [0, 3 << 20, 3 << 20], "{shape:?}");
        ranks.first.take_back(offer);
    }
    // Twelve times what an agent has memory for.
    let (data, sum) = words(48 << 20);
    let chain = Call { plan: Plan::Shape(Shape::CHAIN), ..words_of(Data::Bytes(&[]), &seats, &[]) };
    let (mut total, begun) = (0_u64, Instant::now());
    let add = |_, reply: Reply| total = total.wrapping_add(u64::from_le_bytes(reply.data.try_into().unwrap()));
    ranks.first.stream(&chain, &data, WINDOW, add).unwrap();
    assert_eq!(total, sum.wrapping_mul(3));
    println!("48 MiB to two other hosts, one after the other, in {:?}", begun.elapsed());
}

#[test]
fn s60_long_replies_of_ranks_on_three_hosts_cross_once_an_edge() {
    let hosts = Hosts::start("hosts-replies", 3, 2);
    let mut ranks = Ranks::on(&hosts);
    let (seats, bytes) = (ranks.seats.clone(), 3 << 20);
    let fetched = || -> Vec<u64> { (0..3).map(|host| hosts.figure(host, "call_bytes_fetched")).collect() };
    for (shape, come) in [(Shape::FLAT, [2, 0, 0]), (Shape::CHAIN, [1, 1, 0])] {
        // An agent has memory for one such reply, so that the second one waits.
        for _ in 0..2 {
            let before = fetched();
            let call = Call { plan: Plan::Shape(shape), ..vectors(&seats, &[], bytes) };
            let handle = ranks.first.start(&call).unwrap();
            let reply = ranks.first.wait(handle, LONG).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
            assert!(reply.data == vectors_sum(&seats, bytes), "{shape:?}");
            let came: Vec<u64> = fetched().iter().zip(before).map(|(after, before)| after - before).collect();
            assert_eq!(came, come.map(|replies| replies * u64::from(bytes)), "{shape:?}");
        }
    }
}

#[test]
fn s60_ranks_that_offer_all_they_can_to_each_other_have_long_replies_of_each_other() {
    let hosts = Hosts::start("hosts-crossing", 2, 2);
    let crossing = |seats: &[Node]| {
        let seats = seats.iter().map(|node| node.0.to_string());
        ["cross".to_owned(), "6".to_owned()].into_iter().chain(seats).collect()
    };
    let mut ranks = Ranks::with(&hosts, 2, crossing);
    let seats = ranks.seats.clone();
    // At both agents as well there is memory for one offer from elsewhere, and for one reply.
    cross(&mut ranks.first, &seats, 6);
}

#[test]
fn s59_a_stream_ends_by_name_when_a_host_dies_in_the_middle() {
    let mut hosts = Hosts::start("hosts-data-killed", 3, 2);
    let mut ranks = Ranks::on(&hosts);
    let seats = ranks.seats.clone();
    let (data, sum) = words(16 << 20);
    let flat = |members| Call { plan: Plan::Shape(Shape::FLAT), ..words_of(Data::Bytes(&[]), members, &[]) };
    let (mut whole, begun) = (0, Instant::now());
    let each = |_, _| {
        whole += 1;
        if whole == 5 {
            hosts.kill(2);
        }
    };
    let error = ranks.first.stream(&flat(&seats), &data, WINDOW, each).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(8), "long before the deadline: {:?}", begun.elapsed());
    let offset = match error {
        StreamError::Call { offset, error: WaitError::Failed(failure) } => {
            let record = failure.records[0];
            assert_eq!((record.origin, record.code), (seats[2], Code::PeerDead), "{failure}");
            offset
        }
        // It was known to be dead when the next segment was to be sent, behind the one under way.
        StreamError::Start { offset, error: StartError::DeadId(dead) } if dead == seats[2] => {
            offset - (WINDOW.calls as u64 - 1) * SEGMENT as u64
        }
        other => panic!("{other}"),
    };
    assert_eq!(offset, whole * SEGMENT as u64);
    // The others go on, and have all of their memory.
    let mut total = 0_u64;
    let add = |_, reply: Reply| total = total.wrapping_add(u64::from_le_bytes(reply.data.try_into().unwrap()));
    ranks.first.stream(&flat(&seats[..2]), &data, WINDOW, add).unwrap();
    assert_eq!(total, sum.wrapping_mul(2));
}

//! A member of chained calls, started by tests.
//!
//! It serves for a minute at most, or makes a call first, and ends with the test that started it.
//!
//! `call-member NODE [call | watched | count FILE | cross ROUNDS MEMBER... | scripted ROOM]`: the meeting place is the
//! descriptor that standard input is. With `call` it makes a call over all members before it serves, in which the last member
//! hangs; with `watched` it lets its functions be looked at; with `count` it has a function of its own in place of the built-in
//! one that gathers, as which it tells how often it was woken, and in how many calls it was asleep when the request came, and
//! computes until there is such a file if the header names it; with `cross` it makes so many calls over these members, all of
//! whom do the same, and ends if one fails; with `scripted` it is one of a crowd (`umbra_tests::crowd`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "this program is test code: what surprises it ends it")]

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use umbra::call::{Member, Station, built_in};
use umbra::sys::process::end_with_starter;
use umbra_core::chain::{Node, Verdict};
use umbra_tests::call::{Act, call, cross, header, member};
use umbra_tests::crowd::{Room, Scripted};

fn main() {
    // Also if it is stopped: then it does not find out by itself that its time is over.
    end_with_starter().unwrap();
    let mut arguments = std::env::args().skip(1);
    let node = Node(arguments.next().unwrap().parse().unwrap());
    let station = Station::attach(std::io::stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let what = arguments.next();
    if what.as_deref() == Some("scripted") {
        let room = Room::of(&arguments.collect::<Vec<_>>()).unwrap();
        return Scripted::join(&station, node, room).serve(Duration::from_secs(120), || false);
    }
    if what.as_deref() == Some("cross") {
        return crosses(&station, node, arguments);
    }
    let mut member = member(&station, node, 2);
    match what.as_deref() {
        Some("count") => return count(member, arguments.next().unwrap().into()),
        Some("watched") => member.serve_probe().unwrap(),
        Some(_) => {
            let all: Vec<Node> = station.shape().nodes().collect();
            member.start(&call(&all, &header(all[all.len() - 1], Act::Hang))).unwrap();
        }
        None => {}
    }
    member.serve_until(Duration::from_secs(60), |_| false);
}

/// Makes calls over members that do so as well, once all are there.
fn crosses(station: &Station, node: Node, arguments: impl Iterator<Item = String>) {
    let mut member = member(station, node, 32);
    let numbers: Vec<u32> = arguments.map(|argument| argument.parse().unwrap()).collect();
    let (rounds, members) = numbers.split_first().unwrap();
    let members: Vec<Node> = members.iter().copied().map(Node).collect();
    assert!(member.serve_until(Duration::from_secs(30), |member| member.sees(&members).is_none()));
    cross(&mut member, &members, *rounds as usize);
    member.serve_until(Duration::from_secs(60), |_| false);
}

/// Tells by each run of its function how often it was woken, how often it slept, in how many runs it came out of a sleep, and
/// how often the kernel says that it slept, until the last turn before that.
fn count(mut member: Member, until: PathBuf) {
    let (counts, runs): (Arc<[AtomicU64; 3]>, Arc<AtomicU64>) = Default::default();
    let (told, ran) = (Arc::clone(&counts), Arc::clone(&runs));
    member
        .register(built_in::GATHER, move |work| {
            if work.header == work.node.0.to_le_bytes() {
                while !until.exists() {
                    std::hint::spin_loop();
                }
            }
            ran.fetch_add(1, Ordering::Relaxed);
            let [woken, slept, asleep] = told.each_ref().map(|count| count.load(Ordering::Relaxed));
            let value = [woken, slept, asleep, switches()].map(u64::to_le_bytes);
            let head = [work.node.0, size_of_val(&value) as u32].map(u32::to_le_bytes);
            let entry = [head.as_flattened(), value.as_flattened()].concat();
            if work.reply.set_data(&entry).is_ok() { Verdict::Done } else { Verdict::Fault(1) }
        })
        .unwrap();
    let mut last = (0, 0);
    member.serve_until(Duration::from_secs(60), |member| {
        let sleeps = member.sleeps();
        let now = (runs.load(Ordering::Relaxed), sleeps.all);
        counts[2].fetch_add(u64::from(now.0 > last.0 && now.1 > last.1), Ordering::Relaxed);
        last = now;
        counts[0].store(sleeps.woken, Ordering::Relaxed);
        counts[1].store(sleeps.all, Ordering::Relaxed);
        false
    });
}

/// How often this process, which has one thread, has gone to sleep.
fn switches() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

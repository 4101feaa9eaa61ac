//! Memory that its owner takes back while it is read (s46, s48).
//!
//! A thousand reads of it are in flight, and every agent reads it too. The agents are those of two hosts on this
//! machine or, if `UMBRA_TEST_CONFIG` names a configuration, those of the job that it describes, some of them
//! elsewhere. What it came to is printed as one JSON object. Without a device the test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use umbra::admin::{Body as _, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use umbra::driver::now;
use umbra::job::{DataPath, News, Offsets, Options};
use umbra::session::{Exported, Posted, Session, SessionError, Settings};
use umbra::sys::segment::Segment;
use umbra_core::access::relay::CREDIT;
use umbra_core::codec::Reader;
use umbra_core::error::Status;
use umbra_core::id::Id;
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::ticket::Ticket;
use umbra_core::time::Lapse;
use umbra_core::wire::Token;
use umbra_tests::agents::Agents;
use umbra_tests::rig::{self, PATIENCE, service};
use umbra_tests::verbs::port;

/// Ranks of each of the two hosts.
const RANKS: u32 = 4;
/// Whose memory it is: the first rank of the second host.
const OWNER: usize = RANKS as usize;
/// Reads that every other rank posts, each of bytes that no other read of this rank is of.
const POSTED: usize = 200;
/// Reads that must be in flight when the revocation begins.
const IN_FLIGHT: usize = 1000;
/// Bytes of one of them.
const SIZE: usize = 1024;
/// What the owner writes into its memory as soon as it has it back.
const POISON: u8 = 0xEE;
/// More reads by every agent than will ever be made.
const ORDER: ReadOrder = ReadOrder { size: 1024, reads: 1_000_000, seed: 7, patience: 30_000_000_000 };

fn pattern() -> Vec<u8> {
    (0..POSTED * SIZE).map(|at| ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A rank that reads.
struct Rank<'a> {
    session: &'a mut Session,
    /// With the offset of each.
    reads: Vec<(usize, Id<Posted>)>,
}

impl Rank<'_> {
    /// Waits for the ends of all its reads: whole bytes, or a status that says that there is no such memory any more.
    fn ends(&mut self, expected: &[u8]) -> Ends {
        let mut ends = Ends::default();
        for (at, read) in self.reads.drain(..) {
            match self.session.wait_read(read) {
                Ok(bytes) => {
                    assert!(bytes == expected[at..at + SIZE], "other bytes than those of before the revocation");
                    ends.whole += 1;
                }
                Err(SessionError::Read { status, .. }) => {
                    assert!(is_revoked(status), "{status}");
                    ends.refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        ends
    }
}

/// How reads ended.
#[derive(Default, Debug)]
struct Ends {
    whole: usize,
    refused: usize,
}

fn is_revoked(status: Status) -> bool {
    matches!(status, Status::KeyRevoked | Status::StaleKey | Status::UnknownRegion)
}

/// Whether everything that an agent read until it was refused is what the owner held; how many reads these were.
fn judge(sp: u32, body: &[u8], expected: &[u8]) -> u64 {
    let mut r = Reader::new(body);
    ReadTotals::get(&mut r).unwrap();
    let results = ReadResult::list_from_body(r.rest()).unwrap();
    let [result] = results[..] else { panic!("one slice was planned: {results:?}") };
    assert!(result.reads > 0 && result.failed > 0 && is_revoked(result.status), "{result:?}");
    assert_eq!(result.bytes, result.reads * ORDER.size);
    // What was refused brought nothing.
    let mut digest = blake3::Hasher::new();
    let owner = WorldRank(OWNER as u32);
    let offsets = Offsets::new(ORDER.seed, Sp(sp), owner, expected.len() as u64, ORDER.size, ORDER.reads);
    for at in offsets.take(result.reads as usize) {
        digest.update(&expected[at as usize..(at + ORDER.size) as usize]);
    }
    for _ in 0..result.failed {
        digest.update(&[0; ORDER.size as usize]);
    }
    assert_eq!(result.digest, *digest.finalize().as_bytes(), "other bytes than those of before the revocation");
    result.reads
}

/// Has every agent read the owner's memory over and over, and waits until all of them do it by themselves.
fn begin_to_read(agents: &mut Agents, owner: &mut Session, slice: Slice) {
    let all = agents.options.agents();
    let home = agents.options.first_shadow(slice.rank).unwrap();
    for sp in 0..all {
        let _ = agents.ask(sp, ops::PLAN, Token(1), &Slice::list_to_body(&[slice]));
        agents.launcher.call(service(sp), ops::RANDOM, Token(2), &ORDER.to_body(), Vec::new()).unwrap();
    }
    // The owner has to answer those who want to connect.
    let read = OnceLock::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            while read.get().is_none() {
                owner.progress(now() + Lapse::from_millis(20)).unwrap();
            }
        });
        let end = Instant::now() + PATIENCE;
        let mut done = || {
            let opened = agents.status(home.0)["regions_opened_for_others"];
            opened == u64::from(all - 1) && (0..all).all(|sp| agents.status(sp)["reads_made"] > 20)
        };
        while !done() {
            assert!(Instant::now() < end, "not every agent reads");
        }
        read.get_or_init(|| ());
    });
}

/// Waits until every agent has ended its order; how many reads each had made.
fn all_end(agents: &mut Agents, expected: &[u8]) -> BTreeMap<u32, u64> {
    let all = agents.options.agents();
    let answer = |news: &News| match news {
        News::Answer { peer, op: ops::RANDOM, status: Status::Ok, body, .. } => Some((*peer, body.clone())),
        _ => None,
    };
    let enough = |news: &[News]| news.iter().filter_map(answer).count() == all as usize;
    let news = rig::collect(&mut agents.launcher, "the answers of all agents", enough);
    let by = |(peer, body): (Peer, Vec<u8>)| {
        let sp = (0..all).find(|&sp| service(sp) == peer)?;
        Some((sp, judge(sp, &body, expected)))
    };
    news.iter().filter_map(answer).filter_map(by).collect()
}

/// The reads of every rank but the owner, posted at once.
fn post<'a>(sessions: impl Iterator<Item = &'a mut Session>, ticket: &Ticket) -> Vec<Rank<'a>> {
    let post = |session: &'a mut Session| {
        let offsets = (0..POSTED).map(|n| n * SIZE);
        let reads = offsets.map(|at| (at, session.post_read(ticket, at as u64, vec![0; SIZE]).unwrap()));
        Rank { reads: reads.collect(), session }
    };
    sessions.map(post).collect()
}

#[test]
fn s46_s48_a_rank_has_its_memory_back_while_1000_reads_of_it_are_in_flight() {
    if port().is_none() {
        return;
    }
    let started = Instant::now();
    let options =
        Options { data_path: DataPath::Verbs, deadline: 2 * PATIENCE, site: rig::site(), ..rig::options(2, 1, RANKS) };
    let mut agents = Agents::of(options);
    let settings = (0..2 * RANKS).map(|rank| Settings { sockets: None, ..agents.settings(rank) });
    let mut sessions: Vec<Session> = thread::scope(|scope| {
        let joins: Vec<_> = settings.map(|settings| scope.spawn(|| Session::join(settings))).collect();
        joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect()
    });
    let mut owner = sessions.remove(OWNER);
    let bytes = pattern();
    let segment = Segment::create("umbra-test", bytes.len()).unwrap();
    segment.write(0, &bytes).unwrap();
    let key = owner.export_segment(segment).unwrap();
    let ticket = owner.ticket(key).unwrap();
    let (address, len) = owner.exported(key).unwrap();
    let mut ranks = post(sessions.iter_mut(), &ticket);
    begin_to_read(&mut agents, &mut owner, Slice { rank: WorldRank(OWNER as u32), address, len });
    let (_, first) = ranks[0].reads.remove(0);
    assert!(ranks[0].session.wait_read(first).unwrap() == bytes[..SIZE], "reads go through");
    // Only this rank took answers in, at most all of its own; a service process takes no more than its credit of a rank.
    let ended_at_most = POSTED + (ranks.len() - 1) * CREDIT as usize;
    let in_flight = ranks.len() * POSTED - ended_at_most;
    assert!(in_flight >= IN_FLIGHT, "{in_flight}");
    let still = ranks.split_off(ranks.len() / 2);
    let begun = Instant::now();
    let (taken, mut ends) = thread::scope(|scope| {
        let expected = &bytes;
        let reading: Vec<_> = ranks.iter_mut().map(|rank| scope.spawn(move || rank.ends(expected))).collect();
        let Exported::Segment(segment) = owner.revoke(key).unwrap() else { panic!("a segment was exported") };
        // Acknowledged: whoever reads on from here gets other bytes, if it gets any.
        let taken = begun.elapsed();
        segment.write(0, &vec![POISON; bytes.len()]).unwrap();
        (taken, reading.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<_>>())
    });
    // These were not even asked for yet, but the few that the credit allowed.
    for mut rank in still {
        let last = rank.ends(&bytes);
        assert!(last.refused >= POSTED - CREDIT as usize, "{last:?}");
        ends.push(last);
    }
    let read = all_end(&mut agents, &bytes);
    let home = agents.options.first_shadow(WorldRank(OWNER as u32)).unwrap();
    assert_eq!(agents.status(home.0)["regions_opened_for_others"], 0);
    let whole: usize = ends.iter().map(|ends| ends.whole).sum();
    let refused: usize = ends.iter().map(|ends| ends.refused).sum();
    println!(
        "\n{{\"ok\":true,\"in_flight\":{in_flight},\"acknowledged_ms\":{},\"whole\":{},\"refused\":{refused},\
         \"agents\":{},\"read_by_agents\":{},\"took_ms\":{}}}",
        taken.as_millis(),
        whole + 1,
        read.len(),
        read.values().sum::<u64>(),
        started.elapsed().as_millis(),
    );
    assert_eq!(whole + 1 + refused, sessions.len() * POSTED, "every read ended once");
    assert!(taken < PATIENCE, "{taken:?}");
    thread::scope(|scope| {
        for session in sessions.into_iter().chain([owner]) {
            scope.spawn(|| session.leave().unwrap());
        }
    });
}

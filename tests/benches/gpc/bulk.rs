//! A mebibyte for everybody: laid down once, and read where it lies.

use std::time::Instant;

use umbra::call::Local;
use umbra_core::chain::{Call, Caps, Node, Phase, Plan, Tag, Verdict, Work};
use umbra_core::tree::Shape as Tree;
use umbra_tests::bench::Report;

use crate::mpi::Peers;
use crate::procs::{Members, PATIENCE};
use crate::{call, median};

/// The function: everybody sums a word of each page, and the callback adds.
pub(crate) const PAGES: &str = "pages";
pub(crate) const BYTES: usize = 1 << 20;
pub(crate) const PAGE: usize = 4096;
const ROUNDS: usize = 5;
/// At most a quarter of Open MPI's time.
const TIMES: f64 = 4.0;

/// The sum of a word of each page, once a member.
pub(crate) fn pages(work: &mut Work<'_>, local: &mut Local<'_>) -> Verdict {
    let sum = match work.phase {
        Phase::Init | Phase::Probe => local.look(work.data, |bytes| {
            let word = |page: usize| {
                let mut word = [0; 8];
                bytes.read(page * PAGE, &mut word).map(|()| u64::from_le_bytes(word))
            };
            (0..bytes.len() / PAGE).map(word).sum::<Result<u64, _>>()
        }),
        Phase::Wait(answer) => match (work.reply.data().try_into(), answer.data.try_into()) {
            (Ok(ours), Ok(theirs)) => Ok(Ok(u64::from_le_bytes(ours) + u64::from_le_bytes(theirs))),
            _ => return Verdict::Fault(1),
        },
    };
    match sum {
        Ok(Ok(sum)) if work.reply.set_data(&sum.to_le_bytes()).is_ok() => Verdict::Done,
        _ => Verdict::Fault(2),
    }
}

/// Microseconds from the copy to the answer of all.
fn once(members: &mut Members, bytes: &mut [u8], round: u64) -> f64 {
    bytes.as_chunks_mut::<PAGE>().0.iter_mut().for_each(|page| page[..8].copy_from_slice(&round.to_le_bytes()));
    let all: Vec<Node> = members.all.clone();
    let before = members.first.offered_bytes();
    let start = Instant::now();
    let offer = members.first.offer(bytes).expect("room for one offer");
    let caps = Caps { header: 0, data: 8 };
    let wanted = Call {
        func: Tag::of(PAGES),
        callback: Tag::of(PAGES),
        plan: Plan::Shape(Tree::FLAT),
        data: offer.data(),
        caps,
        ..call(&all)
    };
    let handle = members.first.start(&wanted).expect("room for one call");
    let reply = members.first.wait(handle, PATIENCE).expect("a good answer");
    let took = start.elapsed().as_nanos() as f64 / 1000.0;
    members.first.take_back(offer);
    let pages = (BYTES / PAGE) as u64;
    assert_eq!(reply.data, (round * pages * all.len() as u64).to_le_bytes(), "everybody has read all pages");
    assert_eq!(members.first.offered_bytes() - before, BYTES as u64, "one copy");
    took
}

pub(crate) fn rows(report: &mut Report, peers: &Peers) {
    let mut bytes = vec![0; BYTES];
    for count in [8, 16, 32, 64] {
        let mut beside = peers.beside(report, &format!("bulk {count} ids 1 MiB"));
        let calls = 4000 / u64::from(count);
        let ours = || {
            let mut members = Members::start(count);
            median((1..=calls).map(|round| once(&mut members, &mut bytes, round)).collect())
        };
        beside.rounds(report, ROUNDS, (count, BYTES), ours, |theirs| theirs.p50);
        beside.rows(report, "", Some(("G5", TIMES)));
    }
}

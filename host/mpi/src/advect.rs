//! The advection problem on the processes of a communicator, and its proof.

use std::error::Error;

use umbra::advect::{self, Options, Problem, RankOutcome, run_rank};
use umbra_mpi::{Communicator, MpiSlot, MpiStrips};

use crate::options::Carrier;

/// What a rank tells the others, as numbers.
const NUMBERS: usize = 15;

fn told(outcome: &RankOutcome) -> Result<[u64; NUMBERS], Box<dyn Error>> {
    let [messages, payload, heads, live, null, overflows] = outcome.counts;
    let mut cycles = outcome.cycles_ns.clone();
    cycles.sort_unstable();
    let at = |percent: usize| cycles.get(cycles.len() * percent / 100).copied().unwrap_or(0);
    let wrong = outcome.wrong.unwrap_or(0);
    let [_, slots, dense] = outcome.slot_bytes;
    let (hash, bits, nonzero) = (outcome.hash, outcome.max.to_bits(), outcome.nonzero);
    Ok([
        hash,
        bits,
        nonzero,
        wrong,
        messages,
        payload,
        heads,
        live,
        null,
        overflows,
        slots,
        dense,
        at(10),
        at(50),
        at(90),
    ])
}

/// Runs one rank; true on all if every bit is right.
pub(crate) fn run(world: Communicator, options: Options, carrier: Carrier, json: bool) -> Result<bool, Box<dyn Error>> {
    let options = Options { ranks: world.size(), ..options };
    options.check()?;
    let (rank, quiet) = (world.rank(), |_| ());
    let (transport, outcome) = match carrier {
        Carrier::Slot => ("mpi-slot", run_rank(&options, rank, MpiSlot::new(world), quiet)?),
        Carrier::Early => ("mpi-early", run_rank(&options, rank, MpiStrips::early(world), quiet)?),
        Carrier::Probe => ("mpi-probe", run_rank(&options, rank, MpiStrips::probing(world), quiet)?),
    };
    let all = world.gather(&told(&outcome)?)?;
    let sum = |at: usize| all.iter().skip(at).step_by(NUMBERS).fold(0u64, |sum, &n| sum.wrapping_add(n));
    let most = |at: usize| all.iter().skip(at).step_by(NUMBERS).copied().max().unwrap_or(0);
    let hash = sum(0);
    // The first rank alone computes what one rank gets that keeps every field on every block.
    let dense = if world.rank() == 0 && options.problem == Problem::Smooth {
        let alone = Options { ranks: 1, dense: true, delay: std::time::Duration::ZERO, ..options };
        Some(advect::run(&alone, |_| ())?.hash)
    } else {
        None
    };
    let good = sum(3) == 0 && dense.is_none_or(|dense| dense == hash);
    // Everybody ends as the first rank does.
    let good = world.gather(&[u64::from(good)])?.first() == Some(&1);
    if world.rank() == 0 {
        let Options { problem, cycles, ranks, blocks, cells, dimensions, fields, .. } = options;
        let name = if problem == Problem::Shift { "shift" } else { "smooth" };
        let us = |at: usize| most(at) as f64 / 1e3;
        if json {
            println!(
                "{{\"ok\":{good},\"problem\":\"{name}\",\"cycles\":{cycles},\"ranks\":{ranks},\
                 \"blocks\":{},\"B\":{cells},\"d\":{dimensions},\"fields\":{fields},\"dense\":{},\
                 \"transport\":\"{transport}\",\"t_cycle_us\":{{\"p10\":{:.1},\"p50\":{:.1},\"p90\":{:.1}}},\
                 \"wire_msgs\":{},\"wire_bytes_payload\":{},\"wire_bytes_header\":{},\"live\":{},\"null\":{},\
                 \"overflow_msgs\":{},\"comm_bytes\":{{\"recv\":{{\"peak\":{}}}}},\"dense_comm_bytes\":{},\
                 \"max\":{:?},\"nonzero\":{},\"wrong_cells\":{},\"hash\":\"{hash:016x}\"}}",
                blocks.pow(dimensions),
                options.dense,
                us(12),
                us(13),
                us(14),
                sum(4),
                sum(5),
                sum(6),
                sum(7),
                sum(8),
                sum(9),
                sum(10),
                sum(11),
                f64::from_bits(most(1)),
                sum(2),
                sum(3),
            );
        } else {
            let proof = match (problem, good) {
                (Problem::Shift, true) => "every cell is what the closed form says".to_owned(),
                (Problem::Smooth, true) => "the bits are those of a dense run of one rank".to_owned(),
                (_, false) => format!("{} cells are wrong, or the bits differ from the dense run", sum(3)),
            };
            println!(
                "{name} on {ranks} ranks over {transport}, {cycles} steps of {:.1} us: {proof}; hash {hash:016x}\n\
                 {} messages with {} B of payload and {} B of heads, {} overflows; {} B to receive into, {} B if dense",
                us(13),
                sum(4),
                sum(5),
                sum(6),
                sum(9),
                sum(10),
                sum(11),
            );
        }
    }
    Ok(good)
}

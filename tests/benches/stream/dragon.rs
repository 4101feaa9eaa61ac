//! Streams of `dragonhpc`, by programs that were built for its published library.

use std::path::Path;

use umbra::stream::Mode;
use umbra_tests::bench::{Plan, Row, Samples, lines_of, number};

use crate::{Bench, LOWER, MIB, conversations, copied, handed, round_trip};

/// What its program says: the key, and how to get nanoseconds from that.
#[derive(Clone, Copy)]
enum Said {
    /// Microseconds of a conversation.
    Conversation,
    /// Megabytes a second of messages of so many bytes.
    Bandwidth(usize),
    /// Messages a second.
    Rate,
    /// Microseconds of a round trip.
    RoundTrip,
}

impl Said {
    fn nanoseconds(self, line: &str) -> Option<f64> {
        match self {
            Said::Conversation => number(line, "us_conv_run").map(|us| us * 1000.0),
            Said::Bandwidth(len) => number(line, "MB_s_run").map(|rate| len as f64 * 1000.0 / rate),
            Said::Rate => number(line, "msgs_s_run").map(|rate| 1e9 / rate),
            Said::RoundTrip => number(line, "rtt_us_p50").map(|us| us * 1000.0),
        }
    }
}

/// Our side, the other's program with its arguments and what it says, and the ratio to be reached. Where the bandwidth of
/// the memory decides, that is parity.
type Case = (&'static str, fn(usize, &Plan) -> Samples, &'static str, &'static str, Said, f64);

const CASES: [Case; 11] = [
    (
        "conversation dragon nominal, 1 x 64 B",
        |core, plan| conversations(core, plan, Mode::Nominal, 1),
        "fli_bench",
        "nominal 5000 1 64 5",
        Said::Conversation,
        10.0,
    ),
    (
        "conversation dragon nominal, 10 x 64 B",
        |core, plan| conversations(core, plan, Mode::Nominal, 10),
        "fli_bench",
        "nominal 2000 10 64 5",
        Said::Conversation,
        14.0,
    ),
    (
        "conversation dragon buffered, 1 x 64 B",
        |core, plan| conversations(core, plan, Mode::Buffered, 1),
        "fli_bench",
        "buffered 20000 1 64 5",
        Said::Conversation,
        8.0,
    ),
    (
        "conversation dragon buffered, 10 x 64 B",
        |core, plan| conversations(core, plan, Mode::Buffered, 10),
        "fli_bench",
        "buffered 20000 10 64 5",
        Said::Conversation,
        8.0,
    ),
    (
        "conversation dragon single, 1 x 64 B",
        |core, plan| conversations(core, plan, Mode::Single, 1),
        "fli_bench",
        "one 10000 1 64 5",
        Said::Conversation,
        8.0,
    ),
    (
        "stream dragon 8 B, beside its channel",
        |core, plan| copied(core, plan, Mode::Nominal, 8),
        "chan_bench",
        "oneway 8 spin 200000 5 copy",
        Said::Rate,
        37.0,
    ),
    (
        "round trip dragon 8 B, beside its channel",
        |core, plan| round_trip(core, plan, 8),
        "chan_bench",
        "rtt 8 spin 20000 1",
        Said::RoundTrip,
        10.0,
    ),
    (
        "stream dragon 4 KiB",
        |core, plan| copied(core, plan, Mode::Nominal, 4096),
        "fli_bench",
        "nominal 1 50000 4096 5",
        Said::Bandwidth(4096),
        6.0,
    ),
    (
        "stream dragon 1 MiB",
        |core, plan| copied(core, plan, Mode::Nominal, MIB),
        "fli_bench",
        "nominal 1 4000 1048576 5",
        Said::Bandwidth(MIB),
        1.0,
    ),
    (
        "stream dragon 1 MiB as memory",
        |core, plan| handed(core, plan, MIB, false),
        "fli_bench",
        "nominal 1 4000 1048576 5",
        Said::Bandwidth(MIB),
        2.0,
    ),
    (
        "stream dragon 1 MiB as memory, filled, beside its channel",
        |core, plan| handed(core, plan, MIB, true),
        "chan_bench",
        "oneway 1048576 spin 4000 5 move",
        Said::Rate,
        1.0,
    ),
];

/// The rows, if `UMBRA_DRAGON` says where the programs are.
pub(crate) fn rows(bench: &mut Bench) {
    let Some(folder) = std::env::var_os("UMBRA_DRAGON") else {
        bench.report.note("UMBRA_DRAGON is not set: no rows beside dragonhpc");
        return;
    };
    for (name, ours, program, arguments, said, bar) in CASES {
        if !bench.report.wants(name) {
            continue;
        }
        let arguments: Vec<_> = arguments.split(' ').collect();
        let lines = lines_of(&bench.report, Path::new(&folder), program, &arguments);
        if let Some(theirs) = lines.iter().find_map(|line| said.nanoseconds(line)) {
            let ours = ours(bench.core, &bench.plan).median();
            bench.report.row(Row::new(name, ours, theirs, "dragonhpc", "ns", LOWER)).bar(bar);
        }
    }
}

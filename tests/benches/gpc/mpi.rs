//! MPI's answer to the same need: a broadcast and a reduction.
//!
//! The reduction, of eight bytes where nothing else is said, is the acknowledgement of the broadcast. Both are made by calls that
//! wait, and by those that do not, with a wait behind each; the faster form of a round is the one that counts. Open MPI is the
//! peer that gates name; MPICH stands beside it for reference, in the first form, and has no bar: where processes share cores it
//! waits without giving way.

use std::cell::Cell;
use std::env::temp_dir;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use umbra_tests::bench::{Report, Row, output_of};

use crate::{LOWER, median};

/// The program, which says the microseconds of a call: `p50 mean`.
const SOURCE: &str = include_str!("bcast_ack.c");
/// What a run may take: 64 processes of MPICH on two cores need many seconds to begin.
const MOST: Duration = Duration::from_secs(120);

/// A library, and how its programs are built and started.
struct Library {
    name: &'static str,
    /// How its rows end.
    short: &'static str,
    compiler: &'static str,
    launcher: &'static str,
    /// Debian's packages of it.
    packages: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// More processes than cores: the settings that are fastest then.
    options: &'static [&'static str],
    /// After so many seconds a run makes no more calls.
    seconds: &'static str,
    /// Of its calls those that wait, and those that do not, or only the first.
    forms: &'static [&'static str],
    /// Whether rows beside it have bars.
    is_peer: bool,
}

const OPEN: Library = Library {
    name: "Open MPI",
    short: "MPI",
    compiler: "mpicc.openmpi",
    launcher: "mpirun.openmpi",
    packages: "openmpi-bin, libopenmpi-dev",
    environment: &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")],
    options: &[
        "--oversubscribe",
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "btl",
        "vader,self",
        "--mca",
        "mpi_yield_when_idle",
        "1",
    ],
    seconds: "20",
    forms: &["0", "1"],
    is_peer: true,
};

const MPICH: Library = Library {
    name: "MPICH",
    short: "MPICH",
    compiler: "mpicc.mpich",
    launcher: "mpirun.mpich",
    packages: "mpich, libmpich-dev",
    environment: &[],
    options: &[],
    seconds: "0.5",
    forms: &["0"],
    is_peer: false,
};

/// A library's program, built.
struct Program {
    library: Library,
    path: PathBuf,
    /// It has always run so far.
    runs: Cell<bool>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Microseconds a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) p50: f64,
    pub(crate) mean: f64,
}

impl Figures {
    /// The better of each.
    fn best(self, other: Figures) -> Figures {
        Figures { p50: self.p50.min(other.p50), mean: self.mean.min(other.mean) }
    }
}

impl Program {
    /// Builds the program if the library's compiler is there.
    fn build(library: Library, report: &Report) -> Option<Program> {
        let path = temp_dir().join(format!("umbra-bcast-ack-{}-{}", library.short, std::process::id()));
        let source = path.with_extension("c");
        let built = std::fs::write(&source, SOURCE)
            .and_then(|()| Command::new(library.compiler).arg("-O2").arg(&source).arg("-o").arg(&path).status());
        let _ = std::fs::remove_file(&source);
        let Library { name, compiler, packages, .. } = library;
        match built {
            Ok(status) if status.success() => return Some(Program { library, path, runs: Cell::new(true) }),
            Ok(status) => report.note(format_args!("{compiler} ended with {status}: no rows beside {name}")),
            Err(error) => {
                report.note(format_args!("{compiler}: {error} (Debian: {packages}): no rows beside {name}"));
            }
        }
        None
    }

    /// Runs it in so many processes; `None` if it does not run, or did not before.
    fn measure(&self, report: &Report, processes: u16, sizes: [usize; 2]) -> Option<Figures> {
        let forms = self.library.forms.iter();
        forms.filter_map(|form| self.measure_form(report, processes, sizes, form)).reduce(Figures::best)
    }

    fn measure_form(&self, report: &Report, processes: u16, [down, up]: [usize; 2], form: &str) -> Option<Figures> {
        if !self.runs.get() {
            return None;
        }
        let calls = (20_000 / usize::from(processes)).max(200);
        let mut command = Command::new(self.library.launcher);
        command.envs(self.library.environment.iter().copied()).args(self.library.options);
        command.args(["-np", &processes.to_string()]).arg(&self.path);
        let seconds = self.library.seconds.to_owned();
        command.args([down.to_string(), calls.to_string(), seconds, up.to_string(), form.to_owned()]);
        command.stderr(Stdio::null());
        let ended = output_of(&mut command, MOST);
        let figures = ended.as_ref().ok().filter(|(status, _)| status.success()).and_then(|(_, said)| {
            let mut figures = said.split_whitespace().map(str::parse::<f64>);
            Some(Figures { p50: figures.next()?.ok()?, mean: figures.next()?.ok()? })
        });
        if figures.is_none() {
            let how = ended.map_or_else(|error| error.to_string(), |(status, said)| format!("{status}, {said:?}"));
            let Library { name, launcher, .. } = self.library;
            report.note(format_args!(
                "{launcher} with {processes} processes, {down} B down and {up} B up: {how}: no further rows beside {name}"
            ));
            self.runs.set(false);
        }
        figures
    }
}

/// The programs of all libraries that are here.
pub(crate) struct Peers(Vec<Program>);

impl Peers {
    pub(crate) fn find(report: &Report) -> Peers {
        Peers([OPEN, MPICH].into_iter().filter_map(|library| Program::build(library, report)).collect())
    }

    /// Rounds of a case beside those of whose rows this one's name, with what follows it, is wanted.
    pub(crate) fn beside(&self, report: &Report, case: &str) -> Beside<'_> {
        let wanted = |program: &&Program| report.wants(&row_name(case, &program.library));
        let columns = self.0.iter().filter(wanted).map(|program| (program, Vec::new())).collect();
        Beside { case: case.to_owned(), up: 8, columns }
    }
}

fn row_name(case: &str, library: &Library) -> String {
    format!("{case}, {}", library.short)
}

/// One case, round by round beside each library.
pub(crate) struct Beside<'a> {
    case: String,
    /// Bytes of the reduction.
    up: usize,
    /// Ours and theirs, by round.
    columns: Vec<(&'a Program, Vec<(f64, f64)>)>,
}

impl Beside<'_> {
    /// The same with reductions of so many bytes.
    pub(crate) fn reducing(self, up: usize) -> Self {
        Beside { up, ..self }
    }

    /// So many rounds, as long as somebody is there to be measured beside.
    pub(crate) fn rounds(
        &mut self,
        report: &Report,
        rounds: usize,
        size: (u16, usize),
        mut ours: impl FnMut() -> f64,
        figure: fn(Figures) -> f64,
    ) {
        for _ in 0..rounds {
            if !self.columns.iter().any(|(program, _)| program.runs.get()) {
                return;
            }
            self.round(report, size, ours(), figure);
        }
    }

    /// A round in which ours took so long: theirs, right after it.
    pub(crate) fn round(
        &mut self,
        report: &Report,
        (processes, bytes): (u16, usize),
        ours: f64,
        figure: fn(Figures) -> f64,
    ) {
        for (program, rounds) in &mut self.columns {
            rounds.extend(program.measure(report, processes, [bytes, self.up]).map(|theirs| (ours, figure(theirs))));
        }
    }

    /// A row for each of them; that of the peer has to be so many times as slow as ours, if that is a gate.
    pub(crate) fn rows(self, report: &mut Report, what: &str, gate: Option<(&str, f64)>) {
        for (Program { library, .. }, rounds) in self.columns.into_iter().filter(|(_, rounds)| !rounds.is_empty()) {
            let of = |figure: fn(&(f64, f64)) -> f64| median(rounds.iter().map(figure).collect());
            let gate = gate.filter(|_| library.is_peer);
            let peer = gate.map_or_else(|| "for reference: ".to_owned(), |(gate, _)| format!("gate {gate}: "));
            let peer = format!("{peer}{} bcast and reduce{what}", library.name);
            let row =
                Row::new(&row_name(&self.case, library), of(|round| round.0), of(|round| round.1), &peer, "us", LOWER);
            let entry = report.row(Row { ratio: of(|round| round.1 / round.0), ..row });
            if let Some((_, times)) = gate {
                entry.bar(times);
            }
        }
    }
}

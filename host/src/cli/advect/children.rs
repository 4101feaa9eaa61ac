//! Ranks as processes: this executable again.
//!
//! If they share memory, the segment is their standard input. A rank gets the arguments of the command, and its number.
//! It writes one JSON object a line: what it has to say to the other ranks before it begins, how far it is, and in the
//! end its outcome or why it failed. An agent, if there is one, is `umbra-agent` with the same standard input. The
//! kernel kills all of them with the process that started them. Each is a process group of its own: what Ctrl-C does is up to
//! the process that started them alone.

use std::io::{self, BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use umbra::advect::{AdvectError, Options, Outcome, Progress, RankOutcome, run_rank, run_within, summary};
use umbra::boundary::{Agent, Extent, Fabric};
use umbra::job::Programs;
use umbra::sys::process::end_with_starter;
use umbra::sys::segment::{Mapping, Segment};
use umbra::verbs::Choice;

use super::verbs;
use crate::cli::{Done, Failure, Out, print_json};

/// How often a rank tells how far it is.
const TELL: Duration = Duration::from_millis(50);

/// How long the others may take to say what they miss of a rank that has ended early, before they are ended too: they know soon.
const TOLD: Duration = Duration::from_secs(5);

/// A line of a rank.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum Line {
    /// To each rank, before it begins.
    Words(Vec<String>),
    Cycles(u32),
    Failed(String),
    Done(Box<RankOutcome>),
}

/// A line of a rank, or text that is none; nothing when it has ended.
pub(super) type Said = (u32, Option<Result<Line, String>>);

/// How ranks reach each other.
pub(super) enum Way {
    /// By memory that they share.
    Memory,
    /// By queue pairs of this device.
    Verbs(Option<Choice>),
}

/// Ranks that end with this value, however it ends.
pub(super) struct Ranks(pub(super) Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            // It may have ended by itself; it is reaped in both cases.
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

pub(super) fn ended(rank: u32, why: impl ToString) -> AdvectError {
    AdvectError::Ended { rank, why: why.to_string() }
}

/// What a rank said that should have said something else.
pub(super) fn failure(ranks: &mut Ranks, rank: u32, said: Option<Result<Line, String>>) -> AdvectError {
    match said {
        Some(Ok(Line::Failed(why))) => AdvectError::Rank(why),
        Some(Ok(line)) => ended(rank, format!("it said {line:?}")),
        Some(Err(text)) => ended(rank, format!("it said {text:?}")),
        None => {
            let status = ranks.0[rank as usize].wait();
            ended(rank, status.map_or_else(|e| e.to_string(), |status| status.to_string()))
        }
    }
}

/// Starts a program with the memory of the ranks as its standard input, or with a pipe.
fn start(mut command: Command, segment: Option<&Segment>) -> Result<Child, String> {
    let share = segment.map(Segment::share).transpose().map_err(|e| e.to_string())?;
    let input = share.map_or_else(Stdio::piped, Stdio::from);
    command.stdin(input).stdout(Stdio::piped()).process_group(0).spawn().map_err(|e| e.to_string())
}

/// A rank: this program again.
fn start_rank(rank: u32, segment: Option<&Segment>) -> Result<Child, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    command.args(std::env::args_os().skip(1)).args(["--as-rank", &rank.to_string()]);
    start(command, segment)
}

/// The agent's program; the one beside this program if none is named.
fn agent_program(named: Option<&Path>) -> Result<PathBuf, String> {
    let beside = || Programs::agent_beside(&std::env::current_exe()?).map_err(io::Error::other);
    named.map_or_else(beside, |named| Programs::named(named).map_err(io::Error::other)).map_err(|e| e.to_string())
}

/// The agent of all ranks, once it looks out for each of them: a rank that began before would look for itself.
fn start_agent(program: &Path, extent: Extent, segment: &Segment, deadline: Duration) -> Result<Ranks, AdvectError> {
    let mut command = Command::new(program);
    command.args(["--boundary", &extent.to_string()]);
    let told = |why: String| AdvectError::Agent(format!("{}: {why}", program.display()));
    let mut agent = Ranks(vec![start(command, Some(segment)).map_err(told)?]);
    let begun = Instant::now();
    while !Agent::has_begun(segment, extent)? {
        if let Some(status) = agent.0[0].try_wait().map_err(|e| told(e.to_string()))? {
            return Err(told(format!("it ended before its first look, {status}")));
        }
        if begun.elapsed() > deadline {
            return Err(told(format!("it has not looked for {} ms: see what keeps it", deadline.as_millis())));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(agent)
}

/// Runs all ranks as processes; if they shall have an agent it is this program.
pub(super) fn run(
    options: &Options,
    way: &Way,
    agent: Option<&Path>,
    mut tell: impl FnMut(Progress),
) -> Result<Outcome, AdvectError> {
    let extent = options.extent()?;
    let segment = match way {
        Way::Memory if options.agent => Some(Agent::segment(extent)?),
        Way::Memory => Some(Fabric::segment(extent)?),
        Way::Verbs(_) => None,
    };
    // It may have to be built, which no rank shall wait for.
    let agent = options.agent.then(|| agent_program(agent)).transpose().map_err(AdvectError::Agent)?;
    // The ranks do without it if it ends early. It ends after them.
    let _agent = match (&agent, &segment) {
        (Some(program), Some(segment)) => Some(start_agent(program, extent, segment, options.deadline)?),
        _ => None,
    };
    let mut ranks = Ranks(Vec::new());
    let (said, hear) = mpsc::channel();
    for rank in 0..options.ranks {
        let mut child = start_rank(rank, segment.as_ref()).map_err(|why| ended(rank, why))?;
        let output = child.stdout.take();
        ranks.0.push(child);
        let said = said.clone();
        let hear = move || {
            let lines = output.map(|output| BufReader::new(output).lines());
            for line in lines.into_iter().flatten().map_while(Result::ok) {
                let parsed = serde_json::from_str::<Line>(&line).map_err(|_| line);
                if said.send((rank, Some(parsed))).is_err() {
                    return;
                }
            }
            // Nobody listens any more if the run has failed.
            let _ = said.send((rank, None));
        };
        let heard = Builder::new().name(format!("rank {rank}")).spawn(hear);
        heard.map_err(|error| ended(rank, format!("no thread can be started that hears it: {error}")))?;
    }
    drop(said);
    if matches!(way, Way::Verbs(_)) {
        verbs::introduce(&mut ranks, &hear, options.deadline)?;
    }
    let mut outcomes: Vec<Option<RankOutcome>> = (0..options.ranks).map(|_| None).collect();
    for (rank, line) in &hear {
        match line {
            Some(Ok(Line::Cycles(cycles))) => tell(Progress { rank, cycles }),
            Some(Ok(Line::Done(outcome))) => outcomes[rank as usize] = Some(*outcome),
            None if outcomes[rank as usize].is_some() => {}
            None => return Err(with(failure(&mut ranks, rank, None), missed(&hear))),
            line => return Err(failure(&mut ranks, rank, line)),
        }
    }
    let all: Option<Vec<RankOutcome>> = outcomes.into_iter().collect();
    all.map(summary).ok_or_else(|| ended(0, "some rank said nothing"))
}

/// What the first of the other ranks says that misses something of one that has ended.
fn missed(hear: &mpsc::Receiver<Said>) -> Option<String> {
    let until = Instant::now() + TOLD;
    loop {
        match hear.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((_, Some(Ok(Line::Failed(why))))) => return Some(why),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// Why a rank has ended, and what another one missed then.
fn with(error: AdvectError, missed: Option<String>) -> AdvectError {
    match (error, missed) {
        (AdvectError::Ended { rank, why }, Some(missed)) => ended(rank, format!("{why}; {missed}")),
        (error, _) => error,
    }
}

/// The memory of the ranks.
fn memory(options: &Options) -> Result<Arc<Segment>, Failure> {
    let extent = options.extent().map_err(Failure::failed)?;
    let memory = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?;
    let bytes = if options.agent { Agent::bytes(extent) } else { extent.bytes() };
    Segment::attach(memory, Mapping::ReadWrite, bytes).map(Arc::new).map_err(Failure::failed)
}

/// Is one of the ranks, for as long as the process that started it.
pub(super) fn be(options: &Options, rank: u32, way: &Way, out: Out<'_>) -> Done {
    end_with_starter().map_err(Failure::failed)?;
    let mut told = Instant::now();
    let mut say = |line: &Line| print_json(out, line).and_then(|()| out.flush().map_err(Failure::from));
    let ring = match way {
        Way::Memory => None,
        Way::Verbs(device) => Some(verbs::meet(options, rank, device.as_ref(), &mut say)),
    };
    let tell = |cycles| {
        if told.elapsed() > TELL || cycles == options.cycles {
            told = Instant::now();
            // A starter that does not listen any more ends this process.
            let _ = say(&Line::Cycles(cycles));
        }
    };
    let outcome = match ring {
        Some(ring) => ring.and_then(|ring| run_rank(options, rank, ring, tell)),
        None => run_within(options, rank, memory(options)?, tell),
    };
    match outcome {
        Ok(outcome) => say(&Line::Done(Box::new(outcome))).map(|()| ExitCode::SUCCESS),
        Err(error) => say(&Line::Failed(error.to_string())).map(|()| ExitCode::FAILURE),
    }
}

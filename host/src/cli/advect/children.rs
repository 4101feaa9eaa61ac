//! Ranks as processes: this executable again, with the shared segment as its standard input.
//!
//! A rank gets the arguments of the command, and its number. It writes one JSON object a line: how far it is, and in the end
//! its outcome or why it failed. An agent, if there is one, is `umbra-agent` with the same standard input. The kernel kills
//! all of them with the process that started them.

use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use umbra::advect::{AdvectError, Options, Outcome, Progress, RankOutcome, run_within, summary};
use umbra::boundary::{Agent, Extent, Fabric};
use umbra::job::Programs;
use umbra::sys::process::end_with_starter;
use umbra::sys::segment::{Mapping, Segment};

use crate::cli::{Done, Failure, Out, print_json};

/// How often a rank tells how far it is.
const TELL: Duration = Duration::from_millis(50);

/// A line of a rank.
#[derive(Serialize, Deserialize, Debug)]
enum Line {
    Cycles(u32),
    Failed(String),
    Done(Box<RankOutcome>),
}

/// Ranks that end with this value, however it ends.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            // It may have ended by itself; it is reaped in both cases.
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

fn ended(rank: u32, why: impl ToString) -> AdvectError {
    AdvectError::Ended { rank, why: why.to_string() }
}

/// Starts a program with the memory of the ranks as its standard input.
fn start(mut command: Command, segment: &Segment) -> Result<Child, String> {
    let share: OwnedFd = segment.share().map_err(|e| e.to_string())?;
    command.stdin(Stdio::from(share)).stdout(Stdio::piped()).spawn().map_err(|e| e.to_string())
}

/// A rank: this program again.
fn start_rank(rank: u32, segment: &Segment) -> Result<Child, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    command.args(std::env::args_os().skip(1)).args(["--as-rank", &rank.to_string()]);
    start(command, segment)
}

/// The agent's program; the one beside this program if none is named.
fn agent_program(named: Option<&Path>) -> Result<PathBuf, String> {
    let beside = || Programs::agent_beside(&std::env::current_exe()?).map_err(io::Error::other);
    named.map_or_else(beside, |named| Ok(named.to_owned())).map_err(|e| e.to_string())
}

/// The agent of all ranks.
fn start_agent(program: &Path, extent: Extent, segment: &Segment) -> Result<Child, AdvectError> {
    let mut command = Command::new(program);
    command.args(["--boundary", &extent.to_string()]);
    let told = |error| AdvectError::Agent(format!("{}: {error}", program.display()));
    start(command, segment).map_err(told)
}

/// Runs all ranks as processes; if they shall have an agent it is this program.
pub(super) fn run(
    options: &Options,
    agent: Option<&Path>,
    mut tell: impl FnMut(Progress),
) -> Result<Outcome, AdvectError> {
    let extent = options.extent()?;
    let segment = if options.agent { Agent::segment(extent) } else { Fabric::segment(extent) }?;
    // It may have to be built, which no rank shall wait for.
    let agent = options.agent.then(|| agent_program(agent)).transpose().map_err(AdvectError::Agent)?;
    let mut ranks = Ranks(Vec::new());
    let (said, hear) = mpsc::channel();
    for rank in 0..options.ranks {
        let mut child = start_rank(rank, &segment).map_err(|why| ended(rank, why))?;
        let output = child.stdout.take();
        ranks.0.push(child);
        let said = said.clone();
        std::thread::spawn(move || {
            let lines = output.map(|output| BufReader::new(output).lines());
            for line in lines.into_iter().flatten().map_while(Result::ok) {
                let parsed = serde_json::from_str::<Line>(&line).map_err(|_| line);
                if said.send((rank, Some(parsed))).is_err() {
                    return;
                }
            }
            // Nobody listens any more if the run has failed.
            let _ = said.send((rank, None));
        });
    }
    drop(said);
    if let Some(program) = agent {
        // The ranks do without it if it ends early.
        ranks.0.push(start_agent(&program, extent, &segment)?);
    }
    let mut outcomes: Vec<Option<RankOutcome>> = (0..options.ranks).map(|_| None).collect();
    for (rank, line) in hear {
        match line {
            Some(Ok(Line::Cycles(cycles))) => tell(Progress { rank, cycles }),
            Some(Ok(Line::Failed(why))) => return Err(AdvectError::Rank(why)),
            Some(Ok(Line::Done(outcome))) => outcomes[rank as usize] = Some(*outcome),
            Some(Err(line)) => return Err(ended(rank, format!("it said {line:?}"))),
            None if outcomes[rank as usize].is_none() => {
                let status = ranks.0[rank as usize].wait();
                return Err(ended(rank, status.map_or_else(|e| e.to_string(), |status| status.to_string())));
            }
            None => {}
        }
    }
    let all: Option<Vec<RankOutcome>> = outcomes.into_iter().collect();
    all.map(summary).ok_or_else(|| ended(0, "some rank said nothing"))
}

/// The memory of the ranks, for a process that ends with the one that started it.
fn memory(options: &Options) -> Result<Arc<Segment>, Failure> {
    end_with_starter().map_err(Failure::failed)?;
    let extent = options.extent().map_err(Failure::failed)?;
    let memory = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?;
    let bytes = if options.agent { Agent::bytes(extent) } else { extent.bytes() };
    Segment::attach(memory, Mapping::ReadWrite, bytes).map(Arc::new).map_err(Failure::failed)
}

/// Is one of the ranks.
pub(super) fn be(options: &Options, rank: u32, out: Out<'_>) -> Done {
    let segment = memory(options)?;
    let mut told = Instant::now();
    let mut say = |line: &Line| print_json(out, line).and_then(|()| out.flush().map_err(Failure::from));
    let outcome = run_within(options, rank, segment, |cycles| {
        if told.elapsed() > TELL || cycles == options.cycles {
            told = Instant::now();
            // A starter that does not listen any more ends this process.
            let _ = say(&Line::Cycles(cycles));
        }
    });
    match outcome {
        Ok(outcome) => say(&Line::Done(Box::new(outcome))).map(|()| ExitCode::SUCCESS),
        Err(error) => say(&Line::Failed(error.to_string())).map(|()| ExitCode::FAILURE),
    }
}

//! `umbra run`: the main job, on this machine or with agents elsewhere.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use umbra::config::Environment;
use umbra::job::{self, Chosen, DataPath, Options, Site, SiteError};
use umbra::quantity::{parse_bytes, parse_lapse};
use umbra::verbs::Choice;
use umbra_core::time::Lapse;

use super::output::{Output, apart, beside, finish};
use super::progress::Progress;
use super::{Done, Failure, Out, at_least_one, code_of, interrupt, outcome, paint, picture, print_json, verdict};

/// Run a whole job on this machine: real ranks, real agents, every byte checked.
///
/// Ranks load slices of a file into their memory and export them. The endpoint cache is bootstrapped for the world and
/// for the rows and columns of the rank grid. Then every agent reads every rank's slice through the first service process
/// of that rank, and the bytes are compared with the file. The exit code is 0 only if all of them agree.
///
/// With --config the hosts and DPUs are those of a configuration file. The ranks run here; agents that were started by
/// hand (umbra-agent), here or on other machines, are used over TCP and go on when the job has ended.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Logical hosts, each with one DPU
    #[arg(long, value_name = "N", default_value_t = Options::default().hosts, value_parser = at_least_one())]
    hosts: u32,
    /// Service processes (agents) of each DPU
    #[arg(long, short = 's', value_name = "N", default_value_t = Options::default().service_processes, value_parser = at_least_one())]
    service_processes: u32,
    /// Ranks of each host
    #[arg(long, value_name = "N", default_value_t = Options::default().ranks, value_parser = at_least_one())]
    ranks: u32,
    /// Shadow service processes of each rank
    #[arg(long, value_name = "N", default_value_t = Options::default().shadows, value_parser = at_least_one())]
    shadows: u32,
    /// File whose slices the ranks hold; this executable if left out
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Use hosts and DPUs of this configuration file, and agents that run already
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "service_processes"])]
    config: Option<PathBuf>,
    /// File with the secret of the running agents; UMBRA_SECRET_FILE if left out
    #[arg(long, value_name = "FILE", requires = "config")]
    secret: Option<PathBuf>,
    /// The job's DPUs, in order, separated by commas; all of the file if left out
    #[arg(long, value_delimiter = ',', value_name = "DPU", requires = "config")]
    dpus: Vec<String>,
    /// Hosts of the file whose ranks run here, separated by commas; all hosts of the job if left out
    #[arg(long, value_delimiter = ',', value_name = "HOST", requires = "config")]
    here: Vec<String>,
    /// DPUs of the file whose agents are started here and end with the job, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "DPU", requires = "config")]
    start: Vec<String>,
    /// Which way bytes travel
    #[arg(long, value_name = "PATH", default_value_t = DataPath::Auto, value_parser = data_path())]
    data_path: DataPath,
    /// RDMA device of all processes that are started here, as `umbra devices` names them; UMBRA_DEVICE if left out, then what
    /// the configuration file says, then the first that carries data
    #[arg(long, value_name = "NAME[:PORT[:GID_INDEX]]")]
    device: Option<Choice>,
    /// Bytes of one read at most
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = parse_bytes)]
    size: u64,
    /// Reads at random offsets, from every agent to every rank, after the slices were read whole
    #[arg(long, value_name = "N", default_value_t = Options::default().reads)]
    reads: u32,
    /// Chooses the random offsets
    #[arg(long, value_name = "N", default_value_t = Options::default().seed)]
    seed: u64,
    /// How long any single wait may take before it fails by naming who is missing
    #[arg(long, visible_alias = "deadline", value_name = "TIME", default_value = "20s", value_parser = timeout)]
    timeout: Duration,
    /// How long a process may be silent, although its link is up, before it counts as dead; as long as --timeout if left
    /// out
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    silence: Option<Duration>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Also write a self-contained page with topology, timeline and latencies
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// The agent's executable; looked for beside this one if left out
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Append log statements of the agents that are started here to --log-file: a level, or levels by module
    /// (info,umbra_core::group=debug)
    #[arg(long, value_name = "FILTER", requires = "log_file")]
    log: Option<String>,
    /// Where the log statements go
    #[arg(long, value_name = "FILE", requires = "log")]
    log_file: Option<PathBuf>,
    /// Say nothing while the job runs
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra run"                                          "2 hosts x 2 service processes x 4 ranks, reading this executable";
    "umbra run --hosts 4 --ranks 8 --input data.bin"     "a larger job on a file of yours";
    "umbra run --data-path cma --size 4K --reads 10000"  "small reads out of heaps, without shared memory";
    "umbra run --data-path verbs --device mlx5_0:1"      "over RDMA, through this port";
    "umbra run --json | jq .latency_ns"                  "figures for a script";
    "umbra run --report run.html"                        "a page with drawings";
    "umbra run --config job.cfg --secret job.secret --here node1 --start bf1"
        "node1's ranks and bf1's agents here, all other agents as they run";
);

pub(super) fn data_path() -> impl TypedValueParser<Value = DataPath> {
    PossibleValuesParser::new(DataPath::ALL.map(DataPath::name)).try_map(|name| name.parse::<DataPath>())
}

/// The device that is named, or the one of the environment.
pub(super) fn device(named: Option<&Choice>) -> Result<Option<Choice>, Failure> {
    match named {
        Some(device) => Ok(Some(device.clone())),
        None => Environment::device_of_process().map_err(Failure::usage),
    }
}

pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    lapse(text).map(|lapse| Duration::from_nanos(lapse.0))
}

/// A time in which something can happen.
pub(super) fn lapse(text: &str) -> Result<Lapse, String> {
    match parse_lapse(text) {
        Ok(lapse) if lapse.0 == 0 => Err("must be longer than nothing".to_owned()),
        Ok(lapse) => Ok(lapse),
        Err(error) => Err(error.to_string()),
    }
}

impl Run {
    fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            site: self.site()?,
            hosts: self.hosts,
            service_processes: self.service_processes,
            ranks: self.ranks,
            shadows: self.shadows,
            input: self.input.clone(),
            data_path: self.data_path,
            size: self.size,
            reads: self.reads,
            seed: self.seed,
            deadline: self.timeout,
            silence: self.silence,
            device: device(self.device.as_ref())?,
            agent: self.agent.clone(),
            log: self.log.clone().zip(self.log_file.clone()),
            ..Options::default()
        })
    }

    /// The file with the secret of the running agents, wherever it is named.
    fn secret_file(&self) -> Result<Option<PathBuf>, Failure> {
        match (&self.config, &self.secret) {
            (None, _) => Ok(None),
            (_, Some(secret)) => Ok(Some(secret.clone())),
            _ => Ok(Environment::of_process().map_err(Failure::usage)?.secret_file),
        }
    }

    fn site(&self) -> Result<Option<Site>, Failure> {
        let Some(config) = self.config.clone() else { return Ok(None) };
        let secret = self.secret_file()?.ok_or_else(|| {
            Failure::usage(
                "agents talk only to who has the job's secret: name it with --secret, or set UMBRA_SECRET_FILE",
            )
        })?;
        let (dpus, here, start) = (self.dpus.clone(), self.here.clone(), self.start.clone());
        match Site::read(&Chosen { config, secret, dpus, here, start }) {
            Ok(site) => Ok(Some(site)),
            Err(error @ (SiteError::Config(_) | SiteError::Secret(_))) => Err(Failure::failed(error)),
            Err(error) => Err(Failure::usage(error)),
        }
    }

    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let read = [&self.input, &self.config, &self.secret_file()?, &self.agent];
        apart(&read, &[&self.report, &self.log_file])?;
        let options = self.options()?;
        options.check().map_err(Failure::usage)?;
        if let Some(path) = &self.log_file {
            appendable(path)?;
        }
        interrupt::clean_up()?;
        let mut report = self.report.as_deref().map(|path| Output::create("report", path)).transpose()?;
        let mut errors = anstream::stderr();
        let out = beside(report.as_ref(), out, &mut errors);
        let mut progress = match self.quiet {
            true => Progress::silent(),
            false => Progress::on_stderr(std::io::stderr().is_terminal()),
        };
        let done = job::run(&options, &mut |event| progress.tell(&event));
        progress.finish();
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(error) => {
                if self.json {
                    let said = print_json(out, &outcome::Failed::new(&options, &error.to_string()));
                    verdict(ExitCode::FAILURE, said)?;
                }
                return Err(Failure::failed(error));
            }
        };
        let kept = finish(report.as_mut(), || picture::of(&options, &outcome).to_html());
        let shown = if self.json {
            print_json(out, &outcome::Object::new(&options, &outcome))
        } else {
            let report = self.report.as_deref().filter(|_| kept.is_ok());
            outcome::print(out, &options, &outcome, report).map_err(Failure::from)
        };
        // A report that is lost takes nothing else with it.
        let code = verdict(code_of(outcome.is_good()), shown)?;
        kept.map(|()| code)
    }
}

/// Refuses a log that cannot be written before a job is run for it.
fn appendable(log: &Path) -> Result<(), Failure> {
    let opened = OpenOptions::new().append(true).create(true).open(log);
    opened.map(drop).map_err(|e| Failure::failed(format!("cannot write the log {}: {e}", log.display())))
}

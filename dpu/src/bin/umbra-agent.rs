//! The agent: one service process of an Umbra job.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use clap::Parser;
use umbra::admin::ops;
use umbra::ask::{Target, ask_each};
use umbra::boundary::Extent;
use umbra::config::{Environment, EnvironmentError};
use umbra::gateway::Server;
use umbra::link::{Address, Listener};
use umbra::secret::Secret;
use umbra::sys::process::raise_descriptors;
use umbra::sys::slices;
use umbra_core::peer::Sp;
use umbra_core::time::Lapse;
use umbra_dpu::hosted::{LogError, LogOptions, Lookout, Options, ProcessError, SettingsError, look_out, serve};

/// Runs one service process: gathers its ranks, fills the endpoint cache with its peers, serves and reads memory.
///
/// Serves job after job, each in a new life, and ends cleanly on SIGTERM. With --supervised a launcher is at the standard input.
#[derive(Parser, Debug)]
#[command(name = "umbra-agent", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    log: LogOptions,
    /// Ask the running agents of the job how they are, instead of running one; with --service-process only that one
    #[arg(long)]
    status: bool,
    /// Serve channels, streams and pools of this user here, at this address, to programs on others that hold the job's secret
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "status")]
    channels: Option<SocketAddr>,
    /// Look out for the messages of a boundary exchange whose memory is the standard input: so many ranks, slots of a pair
    /// and bytes of a message. With --service-process beside the work of that one; else nothing but that, for as long as the
    /// process lives that has started this one
    #[arg(long, value_name = "RANKS,SLOTS,BYTES", conflicts_with_all = ["status", "supervised"])]
    boundary: Option<Extent>,
}

/// Its options are invalid, wherever they come from; exit code 2, as for those that cannot be parsed.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            say(format_args!("{error}"));
            if is_usage(&*error) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether another command line or environment is what it takes.
fn is_usage(error: &(dyn Error + 'static)) -> bool {
    error.is::<EnvironmentError>()
        || error.is::<Alone>()
        || error.downcast_ref().is_some_and(LogError::is_usage)
        || error.downcast_ref().is_some_and(SettingsError::is_usage)
        || error.downcast_ref().is_some_and(ProcessError::is_usage)
}

/// Channels are asked for without a service process beside which they are served.
#[derive(Debug, thiserror::Error)]
#[error("--channels needs --service-process: who only looks out for a boundary exchange serves no channels")]
struct Alone;

fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.status {
        return ask_status(&arguments.options);
    }
    // Others wait for what all its threads do, also beside programs that compute; without, it is only slower there.
    let _ = slices::shorten();
    if let Some(extent) = arguments.boundary
        && arguments.options.service_process.is_none()
    {
        if arguments.channels.is_some() {
            return Err(Alone.into());
        }
        look_out(extent)?;
        return Ok(ExitCode::SUCCESS);
    }
    let environment = Environment::of_process()?;
    if environment.wants_persistent_groups == Some(true) {
        say(format_args!(
            "groups are asked to outlive their members' leaving; they do not: a freed group ends, and its next \
             creation is a new generation"
        ));
    }
    // Every link is a descriptor, and every segment; where there can be no more, those that there are must do.
    let _ = raise_descriptors();
    let log = arguments.log.settle(&environment)?;
    let settings = arguments.options.settle(environment)?;
    if let Some(log) = log {
        log.begin(settings.sp)?;
    }
    let _gateway = arguments.channels.map(|address| gateway(address, settings.secret.clone())).transpose()?;
    let _lookout = arguments.boundary.map(Lookout::start).transpose()?;
    let (sp, supervised, address) = (settings.sp, settings.supervised, settings.job.address(settings.sp));
    serve(&settings, || {
        if !supervised && let Some(address) = address {
            // Nobody needs it who does not read it.
            let _ = writeln!(
                io::stdout(),
                "umbra-agent: service process {sp} ready: services at {}, ranks at {}",
                address.services,
                address.ranks
            );
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Says a line to whoever listens; an agent does not end because nobody does.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "umbra-agent: {line}");
}

/// Serves channels until it is dropped.
fn gateway(address: SocketAddr, secret: Secret) -> Result<Server, Box<dyn Error>> {
    let told = |error: std::io::Error| {
        format!(
            "cannot serve channels at {address}: {error}: give --channels an address of this machine and a free port"
        )
    };
    let listener = TcpListener::bind(address).map_err(told)?;
    say(format_args!("channels at {}", listener.local_addr().map_err(told)?));
    Ok(Server::start(Listener::Tcp(listener), secret)?)
}

/// Prints what running agents tell; no success if one of them does not answer, which is said.
fn ask_status(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let (job, secret) = options.job(&Environment::of_process()?)?;
    let count = job.service_processes();
    if let Some(sp) = options.service_process.filter(|&sp| sp >= count) {
        return Err(SettingsError::NoSuchServiceProcess { sp, count }.into());
    }
    let wanted = (0..count).map(Sp).filter(|sp| options.service_process.is_none_or(|n| n == sp.0));
    let targets: Vec<Target> =
        wanted.filter_map(|sp| Some(Target { sp, address: Address::Tcp(job.address(sp)?.ranks.into()) })).collect();
    let patience = Lapse::from_millis(options.deadline_ms.min(3_000));
    let mut code = ExitCode::SUCCESS;
    for answer in ask_each(secret, targets, ops::STATUS, &[], patience)? {
        match answer {
            Ok(text) => match writeln!(io::stdout(), "{}", String::from_utf8_lossy(&text)) {
                // A reader that has seen enough changes nothing about whether all answered.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    return Err(format!("cannot write the output: {error}").into());
                }
                _ => {}
            },
            Err(error) => {
                say(format_args!("{error}"));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

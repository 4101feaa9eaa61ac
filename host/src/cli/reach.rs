//! How to reach the agents of a running job.

use std::path::{Path, PathBuf};

use clap::Args;
use rustix::io::Errno;
use umbra::ask::{Asker, Target};
use umbra::config::{Environment, Job, Platform};
use umbra::driver::now;
use umbra::job::JobDirectory;
use umbra::link::{Address, Close, Dial, socket_path};
use umbra::secret::Secret;
use umbra_core::peer::Sp;
use umbra_core::time::{Lapse, Time};

use super::Failure;
use super::run::lapse;

/// Where the agents of a job are.
#[derive(Args, Debug)]
pub(crate) struct Reach {
    /// Directory of a job that umbra run keeps while it runs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "secret"])]
    job: Option<PathBuf>,
    /// Configuration file of the job; UMBRA_CONFIG if left out
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File with the job's secret; UMBRA_SECRET_FILE if left out
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// The job's DPUs, in order, separated by commas; UMBRA_DPUS, else all of the file, if left out
    #[arg(long, value_delimiter = ',', value_name = "DPU")]
    dpus: Vec<String>,
    /// Directory with the Unix sockets of the agents on this machine; the others are asked over TCP
    #[arg(long, value_name = "DIR", conflicts_with = "job")]
    sockets: Option<PathBuf>,
    /// How long to wait for agents, however many of them hang
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = lapse)]
    timeout: Lapse,
}

/// A job whose agents can be asked.
pub(crate) struct Site {
    pub(crate) job: Job,
    pub(crate) secret: Secret,
    /// All of its agents, each at its Unix socket if there is one here.
    pub(crate) targets: Vec<Target>,
}

impl Site {
    /// Has agents asked over TCP at whose Unix sockets nobody listens; tells these.
    pub(crate) fn pass_by_stale(&mut self) -> Vec<(Sp, PathBuf)> {
        let mut stale = Vec::new();
        for Target { sp, address } in &mut self.targets {
            if let (Address::Unix(path), Some(known)) = (&*address, self.job.address(*sp))
                && is_stale(path)
            {
                stale.push((*sp, path.clone()));
                *address = Address::Tcp(known.services.into());
            }
        }
        stale
    }

    /// The name of the DPU on which a service process is.
    pub(crate) fn dpu(&self, sp: Sp) -> String {
        let per_dpu = self.job.service_processes_per_dpu().max(1);
        self.job.dpus().nth((sp.0 / per_dpu) as usize).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }
}

/// What was found.
struct Place {
    config: PathBuf,
    secret: PathBuf,
    sockets: Option<PathBuf>,
    dpus: Vec<String>,
}

impl Reach {
    /// The files that are read, wherever they are named.
    pub(crate) fn files(&self) -> [Option<PathBuf>; 2] {
        match self.place() {
            Ok(place) => [Some(place.config), Some(place.secret)],
            // Whoever reads them says what is wrong.
            Err(_) => [self.config.clone(), self.secret.clone()],
        }
    }

    /// An option of the command line that names a running job, if there is one.
    pub(crate) fn named(&self) -> Option<&'static str> {
        let given = [
            ("--job", self.job.is_some()),
            ("--config", self.config.is_some()),
            ("--secret", self.secret.is_some()),
            ("--dpus", !self.dpus.is_empty()),
            ("--sockets", self.sockets.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// How long to wait for an answer.
    pub(crate) const fn patience(&self) -> Lapse {
        self.timeout
    }

    /// Until when to wait, for a command that begins at this moment.
    pub(crate) fn deadline(&self) -> Time {
        now() + self.timeout
    }

    /// A link to one agent, if it is there: whoever needs only that one waits for no other.
    pub(crate) fn connect(&self, sp: Sp, deadline: Time) -> Result<Asker, Failure> {
        let mut site = self.site_of(sp)?;
        site.pass_by_stale();
        Asker::connect(site.secret, site.targets, deadline.since(now())).map_err(Failure::failed)
    }

    /// A link to one agent whose memory is to be shared, over its Unix socket.
    pub(crate) fn connect_here(&self, sp: Sp) -> Result<Asker, Failure> {
        let mut site = self.site_of(sp)?;
        if let Some((_, path)) = site.pass_by_stale().first() {
            return Err(Failure::failed(format!(
                "service process {sp}: {} is stale, nobody listens there, and what is shared is reached over no other socket: \
                 start it again, or name the directory of its socket with --sockets",
                path.display()
            )));
        }
        Asker::connect(site.secret, site.targets, self.timeout).map_err(Failure::failed)
    }

    /// The job, with one of its agents only.
    fn site_of(&self, sp: Sp) -> Result<Site, Failure> {
        let mut site = self.site()?;
        site.targets.retain(|target| target.sp == sp);
        if site.targets.is_empty() {
            return Err(Failure::failed(format!("the job has no service process {sp}")));
        }
        Ok(site)
    }

    /// The job, and where its agents are.
    pub(crate) fn site(&self) -> Result<Site, Failure> {
        let place = self.place()?;
        let platform = Platform::read(&place.config).map_err(Failure::failed)?;
        let all: Vec<String> = platform.dpu_names().into_iter().map(str::to_owned).collect();
        let job = platform.job(if place.dpus.is_empty() { &all } else { &place.dpus }).map_err(Failure::failed)?;
        let secret = Secret::read(&place.secret).map_err(Failure::failed)?;
        let targets = (0..job.service_processes()).map(Sp).filter_map(|sp| {
            let tcp = Address::Tcp(job.address(sp)?.services.into());
            let unix = place.sockets.as_deref().map(|sockets| socket_path(sockets, sp)).filter(|path| path.exists());
            Some(Target { sp, address: unix.map_or(tcp, Address::Unix) })
        });
        let targets = targets.collect();
        Ok(Site { job, secret, targets })
    }

    /// Whether the command line or the environment names a job; otherwise the one that runs here is meant.
    pub(crate) fn is_named(&self) -> bool {
        // Whoever looks for the job is told what is wrong with the environment.
        let by_environment =
            || Environment::of_process().map_or(true, |e| e.config.is_some() && e.secret_file.is_some());
        self.job.is_some() || self.config.is_some() || self.secret.is_some() || by_environment()
    }

    fn place(&self) -> Result<Place, Failure> {
        if let Some(directory) = &self.job {
            return in_directory(directory, &self.dpus);
        }
        let environment = Environment::of_process().map_err(Failure::usage)?;
        let config = self.config.clone().or(environment.config);
        let secret = self.secret.clone().or(environment.secret_file);
        match (config, secret) {
            (Some(config), Some(secret)) => {
                let dpus = if self.dpus.is_empty() { environment.dpus } else { self.dpus.clone() };
                Ok(Place { config, secret, sockets: self.sockets.clone(), dpus })
            }
            (None, None) => match JobDirectory::all_held().as_slice() {
                [only] => in_directory(only, &self.dpus),
                [] => {
                    Err(Failure::usage("no running job was found: name one with --job, or with --config and --secret"))
                }
                several => {
                    let list: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
                    Err(Failure::usage(format!("several jobs are running, name one with --job: {}", list.join(", "))))
                }
            },
            (None, Some(_)) => Err(Failure::usage("a secret alone says nothing: name the configuration with --config")),
            (Some(_), None) => {
                Err(Failure::usage("agents talk only to who has the job's secret: name it with --secret"))
            }
        }
    }
}

/// Whether nobody listens at a socket, as is so of one that a dead agent left behind.
fn is_stale(path: &Path) -> bool {
    let knock = Dial::new(Address::Unix(path.to_owned()), now(), Time::NEVER).start();
    matches!(knock, Err(Close::Io(errno)) if errno == Errno::CONNREFUSED.raw_os_error())
}

fn in_directory(directory: &Path, dpus: &[String]) -> Result<Place, Failure> {
    if !directory.is_dir() {
        return Err(Failure::failed(format!("{} is not the directory of a job", directory.display())));
    }
    Ok(Place {
        config: directory.join("job.cfg"),
        secret: directory.join("secret"),
        sockets: Some(directory.to_owned()),
        dpus: dpus.to_vec(),
    })
}

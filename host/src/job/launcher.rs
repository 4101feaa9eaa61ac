//! Starts the processes of a job and listens to them.
//!
//! Every process has a link to the launcher as its standard input (see [`Child`]). The launcher binds all
//! listening sockets itself and hands them over, so no port is ever free between choosing and using it. Agents that run
//! already are dialled; they stay when the job has ended.
//! Whatever happens to the launcher, its children end: by the drop of this value, or by the end of the thread that
//! started them.

mod news;
mod ranks;

pub use news::News;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use umbra_core::peer::{Incarnation, Peer, PeerKind, Sp, WorldRank};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Frame, Op, Token};

use super::child::Child;
use super::directory::{DirectoryError, JobDirectory};
use super::{DataPath, JobError, Options, Programs, Site};
use crate::admin::{Door, ops};
use crate::config::DpuLine;
use crate::driver::{self, Driver, Limits, LinkId};
use crate::link::{Address, Close, Identity, Party, SendError, Side, socket_path};
use crate::secret::{self, Secret, SecretError};
use crate::verbs::Choice;

struct Running {
    /// `None` for an agent that ran already.
    child: Option<Child>,
    link: LinkId,
    up: bool,
    /// Its link is gone: a child has ended or will soon.
    gone: bool,
    /// Why its link is gone.
    why: Option<Close>,
    reported: bool,
    /// Frames that wait for the link.
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// What its next answer has no room for.
    more: Vec<u8>,
}

impl Running {
    const fn new(child: Option<Child>, link: LinkId) -> Running {
        Running {
            child,
            link,
            up: false,
            gone: false,
            why: None,
            reported: false,
            waiting: VecDeque::new(),
            more: Vec::new(),
        }
    }
}

/// The processes of one job. Each of them ends at the latest with the thread that started it.
pub struct Launcher {
    options: Options,
    programs: Programs,
    // Before the directory: children go first, then their files.
    running: BTreeMap<Peer, Running>,
    driver: Driver,
    directory: JobDirectory,
    site: Site,
    /// Sockets of agents that were not started yet.
    sockets: BTreeMap<Sp, [TcpListener; 2]>,
    start: Time,
    input: PathBuf,
    input_bytes: u64,
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> JobError {
    move |error| JobError::Io { what, error }
}

/// Hosts with one DPU each on this machine, whose ports the system chooses.
fn alone(options: &Options, path: PathBuf, sockets: &mut BTreeMap<Sp, [TcpListener; 2]>) -> Result<Site, JobError> {
    let mut dpus = Vec::new();
    for host in 0..options.hosts {
        let (mut service_ports, mut rank_ports) = (Vec::new(), Vec::new());
        for lid in 0..options.service_processes {
            let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io_error("bind a port"));
            let pair = [bind()?, bind()?];
            let port = |l: &TcpListener| l.local_addr().map(|a| a.port()).map_err(io_error("name a port"));
            service_ports.push(port(&pair[0])?);
            rank_ports.push(port(&pair[1])?);
            sockets.insert(Sp(host * options.service_processes + lid), pair);
        }
        dpus.push(DpuLine { name: format!("dpu{host}"), address: Ipv4Addr::LOCALHOST, service_ports, rank_ports });
    }
    Ok(Site::alone(path, dpus, Secret::random()?)?)
}

/// Listens where the configuration says that an agent does.
fn bind(site: &Site, sp: Sp) -> Result<[TcpListener; 2], JobError> {
    let address = site.job().address(sp).ok_or(JobError::NoSuchProcess)?;
    let bind = |address: SocketAddrV4| {
        let bound = TcpListener::bind(address);
        bound.map_err(|error| io_error("bind a port")(io::Error::new(error.kind(), format!("{address}: {error}"))))
    };
    Ok([bind(address.services)?, bind(address.ranks)?])
}

impl Launcher {
    /// Prepares directory, secret, sockets and configuration; starts nothing.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn new(options: &Options) -> Result<Launcher, JobError> {
        Self::of_processes(options, options.processes())
    }

    /// The same for a job that starts so many processes here, whatever the counts say.
    pub(super) fn of_processes(options: &Options, processes: u64) -> Result<Launcher, JobError> {
        options.check_for(processes)?;
        if options.data_path.rdma().is_some() {
            // Before any process is started: each of them would say the same.
            match (&options.device, &options.site) {
                (None, Some(site)) => site.devices_here().try_for_each(|device| Choice::open(device).map(|_| ()))?,
                (device, _) => drop(Choice::open(device.as_ref())?),
            }
        }
        let programs = Programs::find(options)?;
        let (input, input_bytes) = options.open_input()?;
        let directory = JobDirectory::create()?;
        let mut sockets = BTreeMap::new();
        let site = match &options.site {
            Some(site) => site.clone(),
            None => alone(options, directory.config(), &mut sockets)?,
        };
        let services = (0..site.job().service_processes()).map(Sp);
        for sp in services.filter(|&sp| options.site.is_some() && site.starts(sp)) {
            sockets.insert(sp, bind(&site, sp)?);
        }
        directory.fill(site.platform(), site.secret())?;
        let life = secret::random::<8>().map_err(SecretError::NoRandom).map_err(DirectoryError::from)?;
        let me = Identity { party: Party::Tool, incarnation: Incarnation(u64::from_le_bytes(life) | 1) };
        Ok(Launcher {
            options: options.clone(),
            programs,
            running: BTreeMap::new(),
            driver: Driver::new(me, site.secret().clone(), Limits::default()),
            directory,
            site,
            sockets,
            start: driver::now(),
            input,
            input_bytes,
        })
    }

    /// When the job began, on the machine's monotonic clock.
    #[must_use]
    pub const fn start(&self) -> Time {
        self.start
    }

    /// Whether this agent is started here; others run already.
    #[must_use]
    pub fn starts(&self, sp: Sp) -> bool {
        self.site.starts(sp)
    }

    /// The file that the ranks hold, and its length.
    #[must_use]
    pub fn input(&self) -> (&Path, u64) {
        (&self.input, self.input_bytes)
    }

    /// The job's private directory.
    #[must_use]
    pub const fn directory(&self) -> &JobDirectory {
        &self.directory
    }

    /// The slice of the file that a rank holds: where it begins, and its length. Lengths differ by at most 1.
    #[must_use]
    pub fn slice(&self, rank: WorldRank) -> (u64, u64) {
        let n = u64::from(self.options.world_size());
        let (each, more) = (self.input_bytes / n, self.input_bytes % n);
        let rank = u64::from(rank.0);
        (rank * each + rank.min(more), each + u64::from(rank < more))
    }

    /// Closes the sockets of an agent that will not be started, so that whoever wants it is refused.
    pub fn withhold(&mut self, sp: Sp) {
        self.sockets.remove(&sp);
    }

    /// Starts an agent; starts it again if it has ended.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn start_agent(&mut self, sp: Sp) -> Result<u32, JobError> {
        let peer = Peer::service(sp).ok_or(JobError::NoSuchProcess)?;
        let [services, ranks] = match self.sockets.remove(&sp) {
            Some(pair) => pair,
            None => bind(&self.site, sp)?,
        };
        let path = socket_path(self.directory.path(), sp);
        // A dead agent cannot remove its socket.
        let _ = std::fs::remove_file(&path);
        let unix = UnixListener::bind(&path).map_err(io_error("bind a Unix socket"))?;
        let doors = vec![OwnedFd::from(services), OwnedFd::from(ranks), OwnedFd::from(unix)];
        let lid = sp.0 % self.site.job().service_processes_per_dpu();
        let dpus_here: Vec<&str> = self.site.dpus_here().collect();
        let mut arguments: Vec<OsString> = vec![
            "--supervised".into(),
            "--config".into(),
            self.directory.config().into(),
            "--dpus".into(),
            self.site.dpus().join(",").into(),
            "--here".into(),
            dpus_here.join(",").into(),
            "--service-process".into(),
            sp.to_string().into(),
            "--lid".into(),
            lid.to_string().into(),
            "--secret-file".into(),
            self.directory.secret().into(),
            "--sockets".into(),
            self.directory.path().into(),
            "--shadows".into(),
            self.options.shadows.to_string().into(),
            "--deadline-ms".into(),
            self.options.deadline.as_millis().max(1).to_string().into(),
        ];
        if let Some(silence) = self.options.silence {
            arguments.extend(["--silence-ms".into(), silence.as_millis().max(1).to_string().into()]);
        }
        if let Some(stage) = self.options.stage {
            arguments.extend(["--stage".into(), stage.to_string().into()]);
        }
        if let Some((filter, file)) = &self.options.log {
            arguments.extend(["--log".into(), filter.into(), "--log-file".into(), file.into()]);
        }
        if self.options.data_path == DataPath::Asked || self.options.data_path.rdma().is_some() {
            arguments.push("--asked".into());
        }
        if let Some(device) = &self.options.device {
            arguments.extend(["--device".into(), device.to_string().into()]);
        }
        let program = self.programs.agent.clone();
        let pid = self.spawn(peer, &program, arguments)?;
        let body = [Door::Tcp as u8, Door::Tcp as u8, Door::Unix as u8];
        self.call(peer, ops::LISTEN, Token(0), &body, doors)?;
        Ok(pid)
    }

    /// Dials an agent that runs already, until the job's deadline; [`News::Linked`] or [`News::Lost`] tells the end.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn link_agent(&mut self, sp: Sp) -> Result<(), JobError> {
        let peer = Peer::service(sp).ok_or(JobError::NoSuchProcess)?;
        let address = self.site.job().address(sp).ok_or(JobError::NoSuchProcess)?;
        let patience = u64::try_from(self.options.deadline.as_nanos()).unwrap_or(u64::MAX);
        let dialled =
            self.driver.dial(Address::Tcp(address.services.into()), Party::Peer(peer), driver::now() + Lapse(patience));
        let link = dialled.map_err(|why| JobError::Send { peer, why })?;
        self.running.insert(peer, Running::new(None, link));
        Ok(())
    }

    fn spawn(&mut self, peer: Peer, program: &Path, arguments: Vec<OsString>) -> Result<u32, JobError> {
        self.running.remove(&peer);
        let name = match peer.kind() {
            PeerKind::Rank(rank) => format!("rank{rank}"),
            PeerKind::Service(sp) => format!("sp{sp}"),
        };
        let (child, link) = Child::spawn(peer, program, arguments, self.directory.log(&name))
            .map_err(|error| JobError::Spawn { peer, program: program.to_owned(), error })?;
        // Who waits for news of it has a deadline.
        let link = self.driver.adopt_until(Time::NEVER, link, true, Side::Acceptor);
        let link = link.map_err(|why| JobError::Link { peer, why })?;
        let pid = child.pid();
        self.running.insert(peer, Running::new(Some(child), link));
        Ok(pid)
    }

    /// The process id of a process that was started.
    #[must_use]
    pub fn pid(&self, peer: Peer) -> Option<u32> {
        self.running.get(&peer)?.child.as_ref().map(Child::pid)
    }

    /// The process id of a process that still runs.
    #[must_use]
    pub fn running_pid(&self, peer: Peer) -> Option<u32> {
        self.running.get(&peer).filter(|r| !r.reported)?.child.as_ref().map(Child::pid)
    }

    /// All processes that were started or dialled.
    pub fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        self.running.keys().copied()
    }

    /// Kills a process (signal 9) and reaps it.
    pub fn kill(&mut self, peer: Peer) {
        if let Some(child) = self.running.get_mut(&peer).and_then(|running| running.child.as_mut()) {
            child.kill();
        }
    }

    /// Asks a process to terminate.
    pub fn terminate(&mut self, peer: Peer) {
        if let Some(child) = self.running.get_mut(&peer).and_then(|running| running.child.as_mut()) {
            child.terminate();
        }
    }

    /// The end of what a process wrote to its standard error.
    #[must_use]
    pub fn last_words(&self, peer: Peer) -> String {
        let child = self.running.get(&peer).and_then(|running| running.child.as_ref());
        child.map(Child::last_words).unwrap_or_default()
    }

    /// Calls a process; its answer comes as [`News::Answer`]. Sent once its link is up.
    ///
    /// # Errors
    /// [`JobError`] if there is no such process or its queue is full.
    pub fn call(
        &mut self,
        peer: Peer,
        op: Op,
        token: Token,
        body: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), JobError> {
        let running = self.running.get_mut(&peer).ok_or(JobError::NoSuchProcess)?;
        let frame = Frame::Call { op, token, body };
        if running.up {
            return match self.driver.send(running.link, &frame, descriptors) {
                // It just ended; the news will say so.
                Ok(()) | Err(SendError::NotUp) => Ok(()),
                Err(why) => Err(JobError::Send { peer, why }),
            };
        }
        let mut bytes = vec![0; frame.len_bytes()];
        frame.emit(&mut bytes).map_err(|_| JobError::Send { peer, why: SendError::TooLarge })?;
        running.waiting.push_back((bytes, descriptors));
        Ok(())
    }
}

//! A job from a communicator: who is where, an agent on each node, one secret.
//!
//! The processes of a node find each other by `MPI_Comm_split_type`, or are a part of those; the first of them starts
//! the node's agent. What a configuration file would say is told by messages: each node's address and ports, and the
//! secret of the job, which is as safe as MPI's own messages are. Files and sockets of an agent lie in a directory of the
//! job on that machine, as those of `umbra run` do: tools find it, and the next job removes that of a process that was killed.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::iter;
use std::net::{IpAddr, Ipv4Addr, TcpListener, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use umbra::config::{ConfigError, Platform};
use umbra::job::{DirectoryError, JobDirectory};
use umbra::secret::{Secret, SecretError};
use umbra::session::{Seat, Session, SessionError, Settings};
use umbra_core::peer::{Host, LocalRank, WorldRank};

use crate::raw::{Communicator, MpiError};

/// Where the program of the agent is; without it, beside this one or on the path.
const AGENT: &str = "UMBRA_AGENT";
/// What an agent says when it listens.
const READY: &str = "ready";
/// Bytes of the line in which it does, at most.
const LINE: u64 = 4096;
/// How long it may take to say so, and how long ranks and agents wait for each other.
const DEADLINE: Duration = Duration::from_secs(60);

/// Why there is no job.
#[derive(Debug)]
#[non_exhaustive]
pub enum BootstrapError {
    /// A call of MPI.
    Mpi(MpiError),
    /// The system: what was tried, and what it said.
    System(&'static str, io::Error),
    /// The agent of this node did not start; it says why on the standard error.
    Agent(PathBuf),
    /// The agent of this node has started and not said that it listens, for so long. It was ended.
    Silent(PathBuf, Duration),
    /// The agent of another node did not start, or there was nothing to start it with.
    Elsewhere,
    /// The directory for the files of this node's agent.
    Directory(DirectoryError),
    /// The secret.
    Secret(SecretError),
    /// The configuration that was put together.
    Config(ConfigError),
    /// Joining.
    Session(SessionError),
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootstrapError::Mpi(error) => error.fmt(f),
            BootstrapError::System(what, error) => write!(f, "cannot {what}: {error}"),
            BootstrapError::Agent(program) => {
                write!(f, "agent {} does not start: see what it says, or set {AGENT} to its path", program.display())
            }
            BootstrapError::Silent(program, patience) => {
                let (program, seconds) = (program.display(), patience.as_secs_f32());
                write!(
                    f,
                    "agent {program} says nothing for {seconds} s: see what it waits for, or set {AGENT} to its path"
                )
            }
            BootstrapError::Elsewhere => {
                f.write_str("the agent of another node does not start: see what is said there")
            }
            BootstrapError::Directory(error) => error.fmt(f),
            BootstrapError::Secret(error) => error.fmt(f),
            BootstrapError::Config(error) => error.fmt(f),
            BootstrapError::Session(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for BootstrapError {}

impl From<MpiError> for BootstrapError {
    fn from(error: MpiError) -> Self {
        BootstrapError::Mpi(error)
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> BootstrapError {
    move |error| BootstrapError::System(what, error)
}

/// The node's agent and its files; both end with this value.
#[derive(Debug)]
struct Agent {
    child: Child,
    /// Dropped after the agent has ended.
    files: JobDirectory,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself; it is reaped in both cases.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where one process sits, what the job is, and on the first process of a node its agent.
#[derive(Debug)]
pub struct Bootstrap {
    world: Communicator,
    seat: Seat,
    config: String,
    secret: Secret,
    /// Where the agent of this node has its socket.
    sockets: Option<PathBuf>,
    agent: Option<Agent>,
}

/// A path, and how long it is, for the other processes of a node.
const PATH: usize = 128;

/// The directory that the first process of a node has, for all of them; none if its name is too long for the path of a socket.
/// Memory cannot be shared then, unless over RDMA.
fn sockets(node: &Communicator, agent: Option<&Agent>) -> Result<Option<PathBuf>, MpiError> {
    let path =
        agent.map(|agent| agent.files.path().as_os_str().as_bytes()).filter(|path| path.len() <= JobDirectory::LONGEST);
    let mut told = [0; PATH];
    for (to, from) in
        told.iter_mut().zip(path.into_iter().flat_map(|path| iter::once(path.len() as u8).chain(path.iter().copied())))
    {
        *to = from;
    }
    node.broadcast(&mut told)?;
    let path = told.get(1..=usize::from(told[0])).unwrap_or(&[]);
    Ok((!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path))))
}

/// This machine's address for the other nodes, which may be on other machines.
fn address(nodes: usize, machines: usize) -> Result<Ipv4Addr, BootstrapError> {
    if nodes == 1 {
        return Ok(Ipv4Addr::LOCALHOST);
    }
    let found = own_address().map_err(system("find the address of this machine"));
    // A machine that is alone needs no address of its own.
    if machines == 1 { Ok(found.unwrap_or(Ipv4Addr::LOCALHOST)) } else { found }
}

/// What this machine's name stands for.
fn own_address() -> io::Result<Ipv4Addr> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let mut found = (name.trim(), 0).to_socket_addrs()?.filter_map(|address| match address.ip() {
        IpAddr::V4(address) if !address.is_loopback() => Some(address),
        _ => None,
    });
    let none = || io::Error::new(io::ErrorKind::NotFound, format!("{} has no IPv4 address", name.trim()));
    found.next().ok_or_else(none)
}

/// Two ports that are free now. The agent says so if somebody takes one before it does.
fn ports() -> Result<[u16; 2], BootstrapError> {
    let bind = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(system("bind a port"));
    let both = [bind()?, bind()?];
    let port = |at: usize| both[at].local_addr().map(|a| a.port()).map_err(system("name a port"));
    Ok([port(0)?, port(1)?])
}

/// The agent's program.
fn program() -> PathBuf {
    let beside = || std::env::current_exe().ok().map(|exe| exe.with_file_name("umbra-agent"));
    let named = std::env::var_os(AGENT).map(PathBuf::from);
    named.or_else(|| beside().filter(|path| path.is_file())).unwrap_or_else(|| "umbra-agent".into())
}

/// Starts this node's agent and waits until it listens, for so long at most.
fn start(
    program: PathBuf,
    node: u32,
    config: &str,
    secret: &Secret,
    patience: Duration,
) -> Result<Agent, BootstrapError> {
    let files = JobDirectory::create_up_to(usize::MAX).map_err(BootstrapError::Directory)?;
    let (job, key) = (files.config(), files.secret());
    fs::write(&job, config).map_err(system("write the configuration"))?;
    secret.create(&key).map_err(BootstrapError::Secret)?;
    // The kernel kills the agent with this process, however that ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(&program);
    command.arg("--config").arg(&job).arg("--secret-file").arg(&key);
    command.args(["--service-process", &node.to_string(), "--deadline-ms", &DEADLINE.as_millis().to_string()]);
    if files.path().as_os_str().len() <= JobDirectory::LONGEST {
        // Agents of other nodes have theirs elsewhere.
        command.arg("--sockets").arg(files.path()).args(["--here", &format!("dpu{node}")]);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(system("start setpriv"))?;
    let says = child.stdout.take();
    let agent = Agent { child, files };
    let Some(says) = says else { return Err(BootstrapError::Agent(program)) };
    match first_line(says).map_err(system("wait for the agent"))?.recv_timeout(patience) {
        Ok(line) if line.contains(READY) => Ok(agent),
        Err(RecvTimeoutError::Timeout) => Err(BootstrapError::Silent(program, patience)),
        Ok(_) | Err(RecvTimeoutError::Disconnected) => Err(BootstrapError::Agent(program)),
    }
}

/// Where the first line comes that an agent says; nothing ever does if it ends without one. Who waits for it is a thread, which ends
/// when the agent's output does: with the agent, and with whatever it has left running.
fn first_line(says: ChildStdout) -> io::Result<Receiver<String>> {
    let (said, line) = mpsc::sync_channel(1);
    let read = move || {
        if let Some(Ok(line)) = BufReader::new(says.take(LINE)).lines().next() {
            // Nobody listens any more after the deadline.
            let _ = said.send(line);
        }
    };
    thread::Builder::new().name("umbra-agent-says".into()).spawn(read)?;
    Ok(line)
}

/// What this process has, if all have theirs: nobody waits for one that has nothing to tell.
fn if_all<T>(world: &Communicator, mine: Result<T, BootstrapError>) -> Result<T, BootstrapError> {
    let failed = world.gather(&[u64::from(mine.is_err())])?;
    let mine = mine?;
    if failed.contains(&1) { Err(BootstrapError::Elsewhere) } else { Ok(mine) }
}

/// The world rank of the first of these processes, which names them, and those that name the others like them, in order.
fn names(world: &Communicator, these: &Communicator) -> Result<(u64, Vec<u64>), MpiError> {
    let mut first = world.rank().to_le_bytes();
    these.broadcast(&mut first)?;
    let first = u64::from(u32::from_le_bytes(first));
    let mut all = world.gather(&[first])?;
    all.sort_unstable();
    all.dedup();
    Ok((first, all))
}

impl Bootstrap {
    /// Finds out who is where, and starts an agent on each node. All processes of the communicator call this.
    ///
    /// # Errors
    /// [`BootstrapError`]; if one process fails, on all of them.
    pub fn new(world: Communicator) -> Result<Bootstrap, BootstrapError> {
        Bootstrap::split(world, 0)
    }

    /// As [`new`](Self::new), but of the processes of a machine only those are one node that say the same number: a job of
    /// several nodes can be tried on one machine, and a large machine can have several agents.
    ///
    /// # Errors
    /// [`BootstrapError`]; if one process fails, on all of them.
    pub fn split(world: Communicator, part: u16) -> Result<Bootstrap, BootstrapError> {
        let machine = world.of_this_node()?;
        let node = machine.split(part)?;
        let leads = node.rank() == 0;
        let (_, machines) = names(&world, &machine)?;
        let (first, nodes) = names(&world, &node)?;
        let here = nodes.binary_search(&first).unwrap_or(0) as u32;
        let place = || Ok((address(nodes.len(), machines.len())?, ports()?));
        let (address, ports) = if_all(&world, if leads { place() } else { Ok((Ipv4Addr::LOCALHOST, [0; 2])) })?;
        let told = world.gather(&[u64::from(address.to_bits()), u64::from(ports[0]), u64::from(ports[1])])?;
        let line = |(number, &first): (usize, &u64)| {
            let [address, services, ranks] = [0, 1, 2].map(|at| told[first as usize * 3 + at]);
            let address = Ipv4Addr::from_bits(address as u32);
            format!("node{number},dpu{number}:{address}:{services}:{ranks}\n")
        };
        let lines: String = nodes.iter().enumerate().map(line).collect();
        let config = format!("# Format version: 1\n{lines}");
        let drawn = if world.rank() == 0 { Secret::random() } else { Ok(Secret::from_bytes([0; 32])) };
        let mut key = *if_all(&world, drawn.map_err(BootstrapError::Secret))?.bytes();
        world.broadcast(&mut key)?;
        let secret = Secret::from_bytes(key);
        let started = if leads { start(program(), here, &config, &secret, DEADLINE).map(Some) } else { Ok(None) };
        let agent = if_all(&world, started)?;
        let sockets = sockets(&node, agent.as_ref())?;
        let seat = Seat {
            rank: WorldRank(world.rank()),
            size: world.size(),
            host: Host(here),
            local: LocalRank(node.rank()),
            n_local: node.size(),
        };
        Ok(Bootstrap { world, seat, config, secret, sockets, agent })
    }

    /// Where this process sits.
    #[must_use]
    pub const fn seat(&self) -> Seat {
        self.seat
    }

    /// What a configuration file of this job would say.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// Who the processes of another communicator are in this job, in their order: the members of its group. All processes of
    /// that communicator call this, and all are of the job.
    ///
    /// # Errors
    /// [`BootstrapError::Mpi`].
    pub fn members(&self, of: &Communicator) -> Result<Vec<WorldRank>, BootstrapError> {
        let ranks = of.gather(&[u64::from(self.seat.rank.0)])?;
        Ok(ranks.into_iter().map(|rank| WorldRank(rank as u32)).collect())
    }

    /// Joins the job.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub fn join(&self) -> Result<Session, BootstrapError> {
        let platform = Platform::parse(&self.config, Path::new("MPI")).map_err(BootstrapError::Config)?;
        let job = platform.job(&platform.dpu_names()).map_err(BootstrapError::Config)?;
        let sockets = self.sockets.clone();
        let settings = Settings { sockets, deadline: DEADLINE, ..Settings::new(job, self.secret.clone(), self.seat) };
        Session::join(settings).map_err(BootstrapError::Session)
    }

    /// Ends the job after all processes have left it; the agents end then.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub fn end(self) -> Result<(), BootstrapError> {
        self.world.gather(&[0])?;
        drop(self.agent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn nodes_of_one_machine_need_no_address_of_it() {
        assert_eq!(address(1, 1).ok(), Some(Ipv4Addr::LOCALHOST));
        // The name of this machine may stand for an address or not.
        match (address(2, 1), address(2, 2)) {
            (Ok(alone), Ok(among)) => assert!(alone == among && !among.is_loopback(), "{alone} {among}"),
            (Ok(alone), Err(BootstrapError::System("find the address of this machine", _))) => {
                assert_eq!(alone, Ipv4Addr::LOCALHOST);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Directories of jobs with this configuration.
    fn left(config: &str) -> usize {
        let all = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
        all.filter(|entry| fs::read_to_string(entry.path().join("job.cfg")).is_ok_and(|job| job == config)).count()
    }

    #[test]
    fn the_secret_of_an_agent_that_cannot_be_started_is_removed() {
        let (secret, config) = (Secret::from_bytes([7; 32]), format!("# of process {}\n", std::process::id()));
        // No argument of a program can have this name.
        let started = start("\0".into(), 0, &config, &secret, DEADLINE);
        assert!(matches!(started, Err(BootstrapError::System("start setpriv", _))), "{started:?}");
        assert_eq!(left(&config), 0);
    }

    #[test]
    fn an_agent_that_does_not_say_that_it_listens_is_ended_and_named() -> io::Result<()> {
        let (secret, id) = (Secret::from_bytes([7; 32]), std::process::id());
        for (nth, (does, is_silent)) in
            [("exec sleep 300", true), ("exit 0", false), ("echo no; exec sleep 300", false)].into_iter().enumerate()
        {
            let config = format!("# {nth} of process {id}\n");
            let program = std::env::temp_dir().join(format!("umbra-test-agent-{id}-{nth}"));
            fs::write(&program, format!("#!/bin/sh\n{does}\n"))?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o700))?;
            let patience = if is_silent { Duration::from_millis(300) } else { DEADLINE };
            let started = start(program.clone(), 0, &config, &secret, patience);
            fs::remove_file(&program)?;
            let right = match &started {
                Err(BootstrapError::Silent(named, _)) => is_silent && *named == program,
                Err(BootstrapError::Agent(named)) => !is_silent && *named == program,
                _ => false,
            };
            assert!(right, "{does}: {started:?}");
            assert_eq!(left(&config), 0, "{does}");
        }
        Ok(())
    }
}

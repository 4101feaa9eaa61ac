//! Agents as a user starts them, without a launcher.
//!
//! Configuration, secret and sockets lie in a directory.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::secret::Secret;

use super::{PATIENCE, bound, programs};

/// A private directory for one test, removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one; `name` tells it from those of other tests.
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("umbra-t-{name}-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).expect("a new directory");
        Scratch(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is in it, sorted.
    ///
    /// # Panics
    /// If it is gone.
    #[must_use]
    pub fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("the directory is there");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What somebody still keeps busy stays; the step that looks for leftovers finds it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An address of this machine that nobody else uses, drawn from the 2^24 that lead to it, and so many ports that are free
/// there. They stay free until an agent listens: the system gives ports to others, but at other addresses.
///
/// # Panics
/// If the system refuses.
#[must_use]
pub fn address(ports: usize) -> (Ipv4Addr, Vec<u16>) {
    // The hash of nothing, with a key that is drawn for each.
    let [low, middle, high, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    let ip = Ipv4Addr::new(127, high.clamp(1, 254), middle, low.clamp(1, 254));
    // Held until all are chosen, so that no port is chosen twice.
    let held: Vec<TcpListener> = (0..ports).map(|_| TcpListener::bind((ip, 0)).expect("a free port")).collect();
    let chosen = held.iter().map(|listener| listener.local_addr().expect("a bound port").port());
    (ip, chosen.collect())
}

/// A job of some hosts with one service process each, whose agents are started one by one; ended on drop.
#[derive(Debug)]
pub struct ByHand {
    // Before the directory: agents go first, then their files.
    agents: Agents,
    directory: Scratch,
    ip: Ipv4Addr,
}

#[derive(Debug, Default)]
struct Agents(Vec<Child>);

impl Drop for Agents {
    fn drop(&mut self) {
        for agent in &mut self.0 {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

impl ByHand {
    /// Writes configuration and secret; starts nothing.
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn new(name: &str, hosts: u32) -> ByHand {
        let directory = Scratch::new(name);
        let mut config = String::from("# Format version: 1\n");
        let (ip, ports) = address(2 * hosts as usize);
        for (host, pair) in ports.chunks(2).enumerate() {
            let [services, ranks] = [0, 1].map(|i| pair[i]);
            config += &format!("node{host},dpu{host}:{ip}:{services}:{ranks}\n");
        }
        let job = ByHand { agents: Agents::default(), directory, ip };
        fs::write(job.config(), config).expect("a file in our directory");
        Secret::random().and_then(|secret| secret.create(&job.secret())).expect("a file in our directory");
        job
    }

    /// The directory of the job, also for its sockets.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address of all agents.
    #[must_use]
    pub fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.directory().join("job.cfg")
    }

    /// The file with the secret.
    #[must_use]
    pub fn secret(&self) -> PathBuf {
        self.directory().join("secret")
    }

    /// Starts an agent, with these options beside the necessary ones, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not say so.
    pub fn start(&mut self, sp: u32, options: &[&str]) {
        let mut agent = bound(&programs().1)
            .arg("--config")
            .arg(self.config())
            .arg("--secret-file")
            .arg(self.secret())
            .args(["--service-process", &sp.to_string()])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut line = String::new();
        let said = agent.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        self.agents.0.push(agent);
        assert!(
            matches!(said, Some(Ok(_))) && line.contains("ready"),
            "agent {sp} said {line:?}, not that it is ready"
        );
    }

    /// The agent that was started as the how-manieth.
    ///
    /// # Panics
    /// If there were fewer.
    pub fn agent(&mut self, which: usize) -> &mut Child {
        &mut self.agents.0[which]
    }

    /// Ends the agents as a user would; nothing of the job may be left.
    ///
    /// # Panics
    /// If an agent does not end well, or something is left.
    pub fn end(mut self) {
        for agent in &self.agents.0 {
            kill_process(Pid::from_child(agent), Signal::TERM).expect("the agent runs");
        }
        let deadline = Instant::now() + PATIENCE;
        for agent in std::mem::take(&mut self.agents.0) {
            let output = finish(agent, deadline);
            assert!(output.status.success(), "an agent ended with {:?}", output.status);
        }
        assert_eq!(self.directory.left(), [self.config(), self.secret()], "what a job leaves in its directory");
    }
}

/// Waits for a process and tells what it said; one that does not end is killed.
///
/// # Panics
/// If it does not end before the deadline.
#[must_use]
pub fn finish(mut child: Child, deadline: Instant) -> Output {
    while child.try_wait().expect("a child of ours").is_none() {
        if Instant::now() > deadline {
            // It may have ended in between; waiting is right in both cases.
            let _ = child.kill();
            let output = child.wait_with_output().expect("a child of ours");
            panic!("a process did not end: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("a child of ours")
}

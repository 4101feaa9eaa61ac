//! Agents as processes that each believe to be alone on a host.
//!
//! They speak TCP to each other.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use umbra::admin::{self, Body as _, ops};
use umbra::ask::{Asker, Target};
use umbra::call::Station;
use umbra::link::{Address, socket_path};
use umbra::secret::Secret;
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::peer::Sp;
use umbra_core::time::Lapse;

use crate::rig::{self, Guarded, Scratch};

/// A port that is free, and that nobody is given who asks for any.
fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Programs that run at once begin at different places.
    let first = 16_000 + std::process::id() % 128 * 120;
    // ORDERING: a count by which nothing is read.
    let mut tries = (0..1000).map(|_| (first + NEXT.fetch_add(1, Ordering::Relaxed)) as u16);
    tries.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).expect("a port is free")
}

/// Agents that each believe to be alone on a host, and reach each other over TCP.
#[derive(Debug)]
pub struct Hosts {
    program: PathBuf,
    scratch: Scratch,
    /// Members at each agent.
    pub residents: u32,
    /// By their hosts.
    pub agents: Vec<Guarded>,
}

impl Hosts {
    /// Starts an agent with so many members on each of so many hosts, and waits until all are ready.
    ///
    /// # Panics
    /// If one does not start.
    #[must_use]
    pub fn start(name: &str, hosts: u32, residents: u32) -> Hosts {
        Hosts::of(rig::programs().1.clone(), name, hosts, residents)
    }

    /// The same with this program.
    ///
    /// # Panics
    /// If one does not start.
    #[must_use]
    pub fn of(program: PathBuf, name: &str, hosts: u32, residents: u32) -> Hosts {
        let scratch = Scratch::new(name);
        let secret = Secret::random().expect("random bytes");
        secret.create(&scratch.path().join("secret")).expect("a new file");
        let ports: Vec<u16> = (0..2 * hosts).map(|_| port()).collect();
        let mut config = "# Format version: 1\n".to_owned();
        for (host, ports) in ports.chunks(2).enumerate() {
            writeln!(config, "node{host},bf{host}:127.0.0.1:{}:{}", ports[0], ports[1]).expect("text grows");
        }
        fs::write(scratch.path().join("job.cfg"), config).expect("a new file");
        let mut all = Hosts { program, scratch, residents, agents: Vec::new() };
        for host in 0..hosts {
            let agent = all.agent(host);
            all.agents.push(agent);
        }
        all
    }

    /// Starts the agent of a host, and waits until it is ready.
    fn agent(&self, host: u32) -> Guarded {
        let sockets = self.scratch.path().join(format!("host{host}"));
        let _ = fs::create_dir(&sockets);
        let child = rig::bound(&self.program)
            .args(["--service-process", &host.to_string(), "--members", &self.residents.to_string()])
            .args(["--deadline-ms", "60000", "--here", &format!("bf{host}"), "--config"])
            .args([self.scratch.path().join("job.cfg").as_os_str(), "--secret-file".as_ref()])
            .args([self.scratch.path().join("secret").as_os_str(), "--sockets".as_ref(), sockets.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an agent");
        let mut child = Guarded::from(child);
        let line = BufReader::new(child.stdout.take().expect("a pipe")).lines().next();
        assert!(matches!(&line, Some(Ok(line)) if line.contains("ready")), "{line:?}");
        child
    }

    fn asker(&self, host: u32) -> Asker {
        let secret = Secret::read(&self.scratch.path().join("secret")).expect("the file that was made");
        let sp = Sp(host);
        let address = Address::Unix(socket_path(&self.scratch.path().join(format!("host{host}")), sp));
        Asker::connect(secret, vec![Target { sp, address }], Lapse::from_secs(30)).expect("an agent that answers")
    }

    /// The meeting place of a host.
    ///
    /// # Panics
    /// If its agent does not give it.
    #[must_use]
    pub fn meet(&self, host: u32) -> Station {
        let given = self.asker(host).call_for(0, ops::CALLS, &[], Lapse::from_secs(30));
        let (body, descriptor) = given.expect("an agent with members");
        assert_eq!(admin::Calls::from_body(&body).expect("numbers").residents, self.residents);
        Station::attach(descriptor).expect("a meeting place")
    }

    /// Has `umbra call` ask the agent of a host with these arguments; what it says.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn umbra_call(&self, host: u32, arguments: &[&str]) -> (Output, String) {
        let file = |name: &str| self.scratch.path().join(name).into_os_string();
        let output = Command::new(&rig::programs().0)
            .args(["--color", "never", "call", "--agent", &host.to_string(), "--config"])
            .args([file("job.cfg"), "--secret".into(), file("secret")])
            .args(["--sockets".into(), file(&format!("host{host}"))])
            .args(arguments)
            .output()
            .expect("the command");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output, text)
    }

    /// A figure of an agent by its name.
    ///
    /// # Panics
    /// If the agent does not answer, or has no such figure.
    #[must_use]
    pub fn figure(&self, host: u32, name: &str) -> u64 {
        let body = self.asker(host).call(0, ops::STATUS, &[], Lapse::from_secs(30)).expect("an agent that answers");
        let text = String::from_utf8(body).expect("lines");
        let figure = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        figure.expect("a figure of that name")
    }

    /// Starts the agent of a host anew after [`kill`](Self::kill), and waits until it is ready.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self, host: usize) {
        self.agents[host] = self.agent(host as u32);
    }

    /// Kills the agent of a host.
    ///
    /// # Panics
    /// If it was not a child of ours any more.
    pub fn kill(&mut self, host: usize) {
        self.agents[host].kill().expect("a child of ours");
        self.agents[host].wait().expect("a child of ours");
    }
}

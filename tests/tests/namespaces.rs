//! Two hosts, as network namespaces with a cable between them.
//!
//! An agent in one of them serves a channel to a client in the other.
//!
//! Needs user namespaces, in which everybody may lay cables, and the commands `unshare` and `ip`; where these are
//! missing or forbidden it says `skipped: `.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{self, Attributes, Channel, SendOptions, Timeout, WaitMode};
use umbra::gateway::{Error, Gateways, RemoteChannel};
use umbra::link::Address;
use umbra::reference::{from_text, to_text};
use umbra::secret::Secret;
use umbra::sys::host;
use umbra_tests::rig::{self, Guarded, Scratch};

/// What this process is: nothing said, the host of the agent, or that of the client.
const ROLE: &str = "UMBRA_TEST_ROLE";
const AGENT: &str = "UMBRA_TEST_AGENT";
const FOLDER: &str = "UMBRA_TEST_FOLDER";
/// What a process says before the word that its starter waits for.
const SAYS: &str = "says: ";
/// Where the agent serves channels, of addresses for which nobody else has a use in there.
const SERVED_AT: &str = "10.77.0.1:7500";
const LONG: Duration = Duration::from_secs(30);
const WAIT: Timeout = Timeout::After(LONG);
const MESSAGES: u64 = 500;

/// This test again, with another role, as `unshare` starts it.
fn again(unshare: &[&str], role: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(unshare).arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "another_host", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

fn ip(line: &str) {
    let output = Command::new("ip").args(line.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Why there can be no two hosts here, if so.
fn obstacle() -> Option<String> {
    let lay = "ip link add here type veth peer name there && unshare --net true";
    match Command::new("unshare").args(["--user", "--map-root-user", "--net", "--", "sh", "-c", lay]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

fn net() -> String {
    fs::read_link("/proc/self/ns/net").unwrap().display().to_string()
}

#[test]
fn an_agent_serves_a_client_of_another_network() {
    if let Some(why) = obstacle() {
        return rig::skip(format_args!("two network namespaces cannot be had: {why}"));
    }
    let scratch = Scratch::new("namespaces");
    Secret::random().unwrap().create(&scratch.path().join("secret")).unwrap();
    let mut host = again(&["--user", "--map-root-user", "--net"], "agent");
    host.env(AGENT, &rig::programs().1).env(FOLDER, scratch.path());
    let host = host.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = rig::finish(host, Instant::now() + 8 * LONG);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("both are content"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What another host does; as a test of its own it does nothing.
#[test]
fn another_host() {
    let Ok(role) = std::env::var(ROLE) else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let folder = std::env::var(FOLDER).unwrap();
    match role.split_once(' ') {
        None => be_the_agents(Path::new(&folder)),
        Some((network, reference)) => be_the_clients(Path::new(&folder), network, reference),
    }
}

/// Lines of another process, to be waited for no longer than is right.
struct Said(mpsc::Receiver<String>);

impl Said {
    fn by(child: &mut Child) -> Said {
        let (lines, (told, hear)) = (BufReader::new(child.stdout.take().unwrap()).lines(), mpsc::channel());
        // Whoever listens is content if the other end is gone before the last line.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| told.send(line)));
        Said(hear)
    }

    /// The rest of the next line in which this stands.
    fn after(&self, mark: &str) -> String {
        loop {
            let line = self.0.recv_timeout(LONG).unwrap_or_else(|error| panic!("no line with {mark:?}: {error}"));
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.to_owned();
            }
        }
    }
}

/// The client's host, as the other one talks to it.
struct Client {
    process: Guarded,
    orders: ChildStdin,
    said: Said,
}

impl Client {
    fn start(reference: &str) -> Client {
        let mut command = again(&["--net"], &format!("{} {reference}", net()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, said) = (child.stdin.take().unwrap(), Said::by(&mut child));
        Client { process: Guarded::from(child), orders, said }
    }

    fn says(&self, word: &str) {
        assert_eq!(self.said.after(SAYS), word);
    }

    fn may_go_on(&mut self) {
        writeln!(self.orders).unwrap();
    }
}

fn be_the_agents(folder: &Path) {
    let (secret, config) = (folder.join("secret"), folder.join("job.cfg"));
    fs::write(&config, "# Format version: 1\nnode1,bf1:127.0.0.1:7501:7502\n").unwrap();
    let channel = Channel::create(&Attributes { capacity: 100, ..Attributes::default() }).unwrap();
    let mut client = Client::start(&to_text(&channel.reference().unwrap()));
    client.says("here");
    ip("link set lo up");
    ip(&format!("link add here type veth peer name there netns {}", client.process.id()));
    ip("addr add 10.77.0.1/24 dev here");
    ip("link set here up");
    let mut agent = Command::new(std::env::var(AGENT).unwrap());
    agent.args(["--channels", SERVED_AT, "--service-process", "0", "--config"]).arg(&config);
    agent.arg("--secret-file").arg(&secret).env_remove("UMBRA_CONFIG").env_remove(ROLE);
    let mut agent = Guarded::from(agent.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    Said::by(&mut agent).after("ready");
    client.may_go_on();

    // Half a conversation each: what the client sends is sent back.
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    let mut pad = [0; 256];
    for number in 0..MESSAGES {
        let message = receiver.receive(&mut pad, WAIT).unwrap();
        assert_eq!((message.hints, message.len), (number, (number % 256) as usize), "in their order");
    }
    // Before all of them are taken out, the client would receive what it sent itself.
    client.may_go_on();
    (0..50).for_each(|number| sender.send(b"back", number, WAIT).unwrap());
    client.says("heard");

    // The cable is pulled out, and put in again.
    ip("link set here down");
    client.may_go_on();
    client.says("alone");
    ip("link set here up");
    client.may_go_on();
    let message = receiver.receive(&mut pad, WAIT).unwrap();
    assert_eq!(message.hints, 7, "only what was said after that");
    assert_eq!(channel.count(), Ok(0));
    client.may_go_on();
    assert!(client.process.wait().unwrap().success());
    println!("both are content");
}

fn be_the_clients(folder: &Path, network: &str, reference: &str) {
    assert_ne!(net(), network, "another network than the agent's");
    let mut orders = std::io::stdin().lines();
    println!("{SAYS}here");
    orders.next().unwrap().unwrap();
    ip("addr add 10.77.0.2/24 dev there");
    ip("link set there up");
    assert!(TcpStream::connect("127.0.0.1:7501").is_err(), "the agent is not here");

    let gateways = Gateways::new(Secret::read(&folder.join("secret")).unwrap()).masquerading();
    gateways.register(host::id(), Address::Tcp(SERVED_AT.parse().unwrap())).unwrap();
    let remote = RemoteChannel::attach(&from_text(reference).unwrap(), &gateways, WAIT).unwrap();
    let mut sender = remote.sender(SendOptions::default(), WAIT).unwrap();
    let mut receiver = remote.receiver(WAIT).unwrap();
    let mut pad = [0; 256];
    for number in 0..MESSAGES {
        sender.send(&pad[..(number % 256) as usize], number, WAIT).unwrap();
    }
    orders.next().unwrap().unwrap();
    for number in 0..50 {
        assert_eq!(receiver.receive(&mut pad, WAIT).unwrap().hints, number);
    }
    assert_eq!(receiver.receive(&mut pad, Timeout::Now), Err(Error::Channel(channel::Error::Empty)));
    println!("{SAYS}heard");

    orders.next().unwrap().unwrap();
    // A question that changes nothing, should it arrive after all.
    let error = remote.count().unwrap_err();
    assert!(matches!(error, Error::Silent(_) | Error::Lost { .. }), "{error:?}");
    println!("{SAYS}alone");
    orders.next().unwrap().unwrap();
    sender.send(b"again", 7, WAIT).unwrap();
    orders.next().unwrap().unwrap();
}

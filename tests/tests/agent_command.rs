//! The agent as a command: settings, readiness, status, doctor, ends (s43).
//!
//! Settings come from the command line and the environment.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{Attributes, Channel, SendOptions, Timeout};
use umbra::config::Platform;
use umbra::gateway::{Gateways, RemoteChannel};
use umbra::link::Address;
use umbra::secret::Secret;
use umbra::sys::host;
use umbra_core::peer::Sp;
use umbra_tests::rig::{self, ByHand, Guarded, Scratch};

/// A directory with a secret.
fn with_secret(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    Secret::random().unwrap().create(&scratch.path().join("secret")).unwrap();
    scratch
}

fn config(scratch: &Scratch, text: &str) -> PathBuf {
    let path = scratch.path().join("job.cfg");
    fs::write(&path, text).unwrap();
    path
}

/// An address of this machine, and ports that are free there.
fn place<const N: usize>() -> (Ipv4Addr, [u16; N]) {
    let (ip, ports) = rig::address(N);
    (ip, ports.try_into().unwrap())
}

fn agent() -> Command {
    let mut command = rig::bound(&rig::programs().1);
    command.stdin(Stdio::null()).env_remove("UMBRA_CONFIG").env_remove("UMBRA_SECRET_FILE");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn s43_settings_that_cannot_be_used_are_told_with_file_and_line() {
    let scratch = with_secret("settings");
    let secret = scratch.path().join("secret");
    let none = agent().output().unwrap();
    assert!(!none.status.success() && said(&none).contains("--config"), "{}", said(&none));
    let alone = agent().args(["--boundary", "2,2,4096", "--channels", "127.0.0.1:0"]).output().unwrap();
    assert!(!alone.status.success() && said(&alone).contains("needs --service-process"), "{}", said(&alone));
    let asked = agent().args(["--status", "--channels", "127.0.0.1:0"]).output().unwrap();
    assert!(!asked.status.success() && said(&asked).contains("cannot be used with"), "{}", said(&asked));
    let kept = agent().env("MIMOSA_PERSISTENT_CACHE", "1").output().unwrap();
    assert!(said(&kept).contains("next creation is a new generation"), "{}", said(&kept));
    let neither = agent().env("MIMOSA_PERSISTENT_CACHE", "yes").output().unwrap();
    assert!(!neither.status.success() && said(&neither).contains("neither 0 nor 1"), "{}", said(&neither));
    for wrong in ["umbra_core=loud", "info,verbose", "", "tokio=info"] {
        let filter = agent().args(["--log", wrong]).output().unwrap();
        let part = format!("log filter {:?}: neither a level", wrong.rsplit(',').next().unwrap());
        assert!(!filter.status.success() && said(&filter).contains(&part), "{wrong:?}: {}", said(&filter));
    }
    let nowhere = agent().env("UMBRA_LOG", "info").env("UMBRA_LOG_FILE", "/nowhere/log").output().unwrap();
    assert!(!nowhere.status.success() && said(&nowhere).contains("cannot append to the log /nowhere/log: "));
    let bad = config(&scratch, "# Format version: 1\nnode1,bf1:127.0.0.1:7010&7011:9010\n");
    let run = |arguments: &[&str]| {
        agent().arg("--config").arg(&bad).arg("--secret-file").arg(&secret).args(arguments).output().unwrap()
    };
    let unequal = run(&["--service-process", "0"]);
    assert!(!unequal.status.success());
    assert!(said(&unequal).contains("job.cfg:2: DPU \"bf1\" has 2 service ports but 1"), "{}", said(&unequal));
    config(&scratch, "# Format version: 1\nnode1,bf1:127.0.0.1:7010:9010\n");
    let unknown = run(&["--service-process", "3"]);
    assert!(!unknown.status.success() && said(&unknown).contains("there is no 3"), "{}", said(&unknown));
    let lid = run(&["--service-process", "0", "--lid", "1"]);
    assert!(!lid.status.success() && said(&lid).contains("number 0 on its DPU"), "{}", said(&lid));
    let many = |from: u32| (from..from + 2049).map(|port| port.to_string()).collect::<Vec<_>>().join("&");
    config(&scratch, &format!("# Format version: 1\nnode1,bf1:127.0.0.1:{}:{}\n", many(7010), many(17010)));
    let crowded = run(&["--service-process", "0"]);
    assert!(!crowded.status.success() && said(&crowded).contains("an agent has 2048 links"), "{}", said(&crowded));
    config(&scratch, "# Format version: 1\nnode1,bf1:127.0.0.1:7010:9010\n");
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let exposed = run(&["--service-process", "0"]);
    assert!(!exposed.status.success() && said(&exposed).contains("chmod 600"), "{}", said(&exposed));
}

#[test]
fn invalid_options_are_told_apart_from_what_an_agent_lacks_by_the_exit_code() {
    let scratch = with_secret("usage");
    let secret = scratch.path().join("secret");
    let job = config(&scratch, "# Format version: 1\nnode1,bf1:127.0.0.1:7010:9010\n");
    let ends = |command: &mut Command, expected: i32| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(expected), "{command:?}: {}", said(&output));
    };
    ends(&mut agent(), 2);
    ends(agent().arg("--config").arg(&job), 2);
    ends(agent().args(["--log", "loud"]), 2);
    ends(agent().args(["--boundary", "2,2,4096", "--channels", "127.0.0.1:0"]), 2);
    ends(agent().env("MIMOSA_PERSISTENT_CACHE", "yes"), 2);
    let with = |arguments: &[&str], expected| {
        let mut command = agent();
        command.arg("--config").arg(&job).arg("--secret-file").arg(&secret).args(arguments);
        ends(&mut command, expected);
    };
    for wrong in [
        &[][..],
        &["--service-process", "1"],
        &["--service-process", "0", "--lid", "1"],
        &["--service-process", "0", "--shadows", "0"],
        &["--service-process", "0", "--shadows", "2"],
        &["--service-process", "0", "--dpus", "bf2"],
        &["--service-process", "0", "--dpus", "bf1,bf1"],
        &["--service-process", "0", "--sockets", "/", "--here", "bf2"],
        &["--status", "--service-process", "1"],
    ] {
        with(wrong, 2);
    }
    // The number in the job is the environment's, that on the DPU the command line's.
    let mut mixed = agent();
    mixed.arg("--config").arg(&job).arg("--secret-file").arg(&secret).args(["--lid", "1"]);
    mixed.envs([("UMBRA_DPUS", "bf1"), ("UMBRA_SERVICE_PROCESS", "0"), ("UMBRA_SERVICE_PROCESS_LID", "0")]);
    // An agent that took them would find no port.
    let _taken = [7010, 9010].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    ends(&mut mixed, 2);
    // Options that are right, and a file or a secret that cannot be used.
    with(&["--service-process", "0", "--log", "info", "--log-file", "/nowhere/log"], 1);
    config(&scratch, "# Format version: 1\nnode1,bf1:127.0.0.1:7010&7011:9010\n");
    with(&["--service-process", "0"], 1);
    fs::remove_file(&job).unwrap();
    with(&["--service-process", "0"], 1);
}

#[test]
fn a_directory_for_sockets_that_is_not_there_is_named_and_nobody_else_is_blamed() {
    let scratch = with_secret("no-sockets");
    let (ip, [a, b]) = place();
    let job = config(&scratch, &format!("# Format version: 1\nnode1,bf1:{ip}:{a}:{b}\n"));
    let missing = scratch.path().join("missing");
    let output = agent()
        .args(["--service-process", "0", "--config"])
        .arg(&job)
        .arg("--secret-file")
        .arg(scratch.path().join("secret"))
        .arg("--sockets")
        .arg(&missing)
        .output()
        .unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(missing.to_str().unwrap()) && told.contains("--sockets"), "{told}");
    assert!(!told.contains("does this agent run already"), "{told}");
}

/// Starts a service process and waits for its readiness line.
fn start(config: &PathBuf, secret: &PathBuf, global: &str, local: &str) -> (Guarded, String) {
    start_with(&[], config, secret, global, local)
}

fn start_with(arguments: &[&str], config: &PathBuf, secret: &PathBuf, global: &str, local: &str) -> (Guarded, String) {
    // By the names of upstream.
    let child = agent()
        .args(arguments)
        .env("DPU_OFFLOAD_CONFIG_FILE_PATH", config)
        .env("UMBRA_SECRET_FILE", secret)
        .env("DPU_OFFLOAD_LIST_DPUS", "bf1")
        .env("DPU_OFFLOAD_SERVICE_PROCESS_GLOBAL_ID", global)
        .env("DPU_OFFLOAD_SERVICE_PROCESS_LOCAL_ID", local)
        .env("DPU_OFFLOAD_SERVICE_PROCESSES_PER_DPU", "2")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Guarded::from(child);
    let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    (child, line)
}

#[test]
fn agents_by_hand_have_their_ports_whatever_becomes_of_those_of_others() {
    let mut job = ByHand::new("ports", 1);
    let platform = Platform::read(job.config()).unwrap();
    let at = platform.job(&platform.dpu_names()).unwrap().address(Sp(0)).unwrap();
    // As those who ask for any port get one: nobody listens yet. Where this is refused, somebody else does what it does.
    let _others = [at.services, at.ranks].map(|at| TcpListener::bind((Ipv4Addr::LOCALHOST, at.port())));
    job.start(0, &[]);
    job.end();
}

#[test]
fn an_agent_says_when_it_is_ready_tells_its_status_and_ends_on_request() {
    let scratch = with_secret("ready");
    let (ip, [a, b, c, d]) = place();
    let config = config(&scratch, &format!("# Format version: 1\nnode1,bf1:{ip}:{a}&{b}:{c}&{d}\n"));
    let secret = scratch.path().join("secret");
    let (mut first, line) = start(&config, &secret, "0", "0");
    assert_eq!(line, format!("umbra-agent: service process 0 ready: services at {ip}:{a}, ranks at {ip}:{c}"));
    let ask = |arguments: &[&str]| {
        let mut command = agent();
        command.args(["--status", "--config"]).arg(&config).arg("--secret-file").arg(&secret).args(arguments);
        command.output().unwrap()
    };
    let status = ask(&["--service-process", "0"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success(), "{}", said(&status));
    assert!(text.contains("service_process 0\n") && text.contains("\nranks_connected 0\n"), "{text}");
    let none = ask(&["--service-process", "7"]);
    assert!(!none.status.success() && said(&none).contains("there is no 7"), "{}", said(&none));
    // Service process 1 was not started: that is told, and the exit code says it.
    let both = ask(&["--deadline-ms", "300"]);
    assert!(!both.status.success() && said(&both).matches("service process 1").count() == 1, "{}", said(&both));
    let doctor = Command::new(&rig::programs().0)
        .args(["doctor", "--timeout", "5s", "--config"])
        .arg(&config)
        .arg("--secret")
        .arg(&secret)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned() + &said(&doctor);
    assert!(!doctor.status.success(), "{told}");
    assert!(told.contains("no link to service process 1"), "{told}");
    // A second one cannot take the same ports.
    let twice = agent()
        .args(["--config"])
        .arg(&config)
        .arg("--secret-file")
        .arg(&secret)
        .args(["--service-process", "0"])
        .output()
        .unwrap();
    assert!(!twice.status.success() && said(&twice).contains(&format!("cannot bind {ip}:{a}: ")), "{}", said(&twice));
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(first.wait().unwrap().success(), "SIGTERM is a request, not a failure");
}

#[test]
fn an_agent_serves_channels_of_its_machine_to_others() {
    let scratch = with_secret("channels");
    let (ip, [a, b, c, d, e]) = place();
    let config = config(&scratch, &format!("# Format version: 1\nnode1,bf1:{ip}:{a}&{b}:{c}&{d}\n"));
    let secret = scratch.path().join("secret");
    let at = format!("{ip}:{e}");
    let (mut agent, _) = start_with(&["--channels", &at], &config, &secret, "0", "0");
    let channel = Channel::create(&Attributes::default()).unwrap();
    let gateways = Gateways::new(Secret::read(&secret).unwrap()).masquerading();
    gateways.register(host::id(), Address::Tcp(at.parse().unwrap())).unwrap();
    let wait = Timeout::After(Duration::from_secs(30));
    let remote = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, wait).unwrap();
    remote.sender(SendOptions::default(), wait).unwrap().send(b"through the agent", 1, wait).unwrap();
    assert_eq!(channel.count(), Ok(1));
    assert_eq!(remote.receiver(wait).unwrap().receive(&mut [0; 64], wait).unwrap().len, 17);
    // Also with lines to it, it ends when it is told to.
    let pid = rustix::process::Pid::from_child(&agent);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(agent.wait().unwrap().success());
    assert!(remote.count().is_err());
}

#[test]
fn an_agent_that_was_taken_for_dead_ends_and_says_so() {
    let scratch = with_secret("fenced");
    let (ip, [a, b, c, d]) = place();
    let config = config(&scratch, &format!("# Format version: 1\nnode1,bf1:{ip}:{a}&{b}:{c}&{d}\n"));
    let secret = scratch.path().join("secret");
    let silence = ["--silence-ms", "4000", "--deadline-ms", "60000"];
    let (mut first, _) = start_with(&silence, &config, &secret, "0", "0");
    let (second, _) = start_with(&silence, &config, &secret, "1", "1");
    let figure = |name: &str| {
        let mut status = agent();
        status.args(["--status", "--service-process", "0", "--config"]).arg(&config);
        let output = status.arg("--secret-file").arg(&secret).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    // Looks at one figure of the first until it is 1.
    let wait_for = |name: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        while figure(name) != Some(1) {
            assert!(Instant::now() < end, "{name} did not become 1");
            thread::sleep(Duration::from_millis(50));
        }
    };
    let signal = |to: &Child, signal| {
        rustix::process::kill_process(rustix::process::Pid::from_child(to), signal).unwrap();
    };
    // Both must know each other first: who was never linked is missing, not dead.
    wait_for("links_to_services");
    signal(&second, rustix::process::Signal::STOP);
    wait_for("services_failed");
    signal(&second, rustix::process::Signal::CONT);
    let output = second.finish(Instant::now() + rig::PATIENCE);
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("took service process 1 for dead"), "{}", said(&output));
    signal(&first, rustix::process::Signal::TERM);
    assert!(first.wait().unwrap().success(), "the one that was right goes on");
}

//! Processes in other spaces of process numbers and of time.
//!
//! They share a pool, a channel and streams with a process outside.
//!
//! Needs user namespaces and the command `unshare`; where these are missing or forbidden it says `skipped: `.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use umbra::channel::{self, Channel, SendOptions, Timeout, WaitMode};
use umbra::pool::{self, Pool};
use umbra::stream::{self, Adapter};
use umbra_tests::rig;

/// What this process does, if it was started by a test.
const ROLE: &str = "UMBRA_TEST_ROLE";
const NAME: &str = "UMBRA_TEST_POOL";
/// What a process says before the words that its starter waits for.
const SAYS: &str = "says: ";
const SOON: Timeout = Timeout::After(Duration::from_secs(30));
/// Clocks that are shifted by whole ticks, or by a part of one, and other numbers of processes.
const LATER: &[&str] =
    &["--user", "--map-root-user", "--time", "--boottime", "100000", "--monotonic", "100000", "--fork"];
const NUMBERED: &[&str] = &["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];

/// Why there is no such space here, if so.
fn obstacle(unshare: &[&str]) -> Option<String> {
    match Command::new("unshare").args(unshare).args(["--", "true"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// What a process in there says that has this role and this input, while `meanwhile` goes on between its first words and the
/// line that it is told then.
fn there(unshare: &[&str], role: &str, input: Option<OwnedFd>, name: &str, meanwhile: impl FnOnce()) -> Vec<String> {
    let mut command = Command::new("unshare");
    command.args(unshare).arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "somebody_there", "--nocapture", "--test-threads=1"]).env(ROLE, role).env(NAME, name);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from)).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = lines.filter_map(|line| Some(line.split_once(SAYS)?.1.to_owned()));
    let first = said.next();
    meanwhile();
    let said = first.into_iter().chain(said).collect();
    assert!(child.wait().unwrap().success(), "{said:?}");
    said
}

fn say(what: std::fmt::Arguments<'_>) {
    println!("{SAYS}{what}");
    std::io::stdout().flush().unwrap();
}

/// Lets those outside look around; as long as they take turns with looking after the dead, and more.
fn pause() {
    std::thread::sleep(Duration::from_millis(700));
}

/// As a test of its own it does nothing.
#[test]
fn somebody_there() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let input = || std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    match role.as_str() {
        "pool" => {
            let name = std::env::var(NAME).unwrap();
            say(format_args!("cleaned {:?}", pool::clean().map(|cleaned| cleaned.contains(&name))));
            say(format_args!("attached {:?}", Pool::attach(&name).map(drop)));
        }
        "channel" => {
            let channel = match Channel::attach(input()) {
                Ok(channel) => channel,
                Err(error) => return say(format_args!("{error:?}")),
            };
            let sender = channel.sender(SendOptions::default()).unwrap();
            let writing = sender.write(5, SOON).unwrap();
            say(format_args!("writing"));
            pause();
            writing.bytes().write(0, b"there").unwrap();
            say(format_args!("sent {:?}", writing.send(7, Timeout::Now).map_err(|unsent| unsent.error)));
        }
        "stream" => {
            let adapter = match Adapter::attach(input(), []) {
                Ok(adapter) => adapter,
                Err(error) => return say(format_args!("{error:?}")),
            };
            let mut sender = adapter.send(&Default::default(), SOON).unwrap();
            sender.send(b"one", 0, SOON).unwrap();
            say(format_args!("began"));
            pause();
            say(format_args!("sent {:?}", sender.send(b"two", 0, SOON)));
            say(format_args!("closed {:?}", sender.close(SOON)));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn who_lives_in_another_space_of_time_is_not_taken_for_dead() {
    if let Some(why) = obstacle(LATER) {
        return rig::skip(format_args!("another space of time cannot be had: {why}"));
    }
    let name = format!("spaces-{}", std::process::id());
    let kept = Pool::create(Some(&name), &pool::Attributes { bytes: 1 << 20, ..Default::default() }).unwrap();
    assert_eq!(there(LATER, "pool", None, &name, || ()), ["cleaned Ok(false)", "attached Ok(())"]);
    assert_eq!(Pool::attach(&name).map(drop), Ok(()));
    drop(kept);

    let small = channel::Attributes { capacity: 2, spares: 0, block: 256, ..Default::default() };
    let channel = Channel::create(&small).unwrap();
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    let meanwhile = || {
        assert_eq!(channel.reap(), Ok(0), "the other lives");
        sender.send(b"first", 1, Timeout::Now).unwrap();
    };
    assert_eq!(there(LATER, "channel", Some(channel.share().unwrap()), "", meanwhile), ["writing", "sent Ok(())"]);
    let mut pad = [0; 5];
    let mut heard = [(); 2].map(|()| {
        receiver.receive(&mut pad, SOON).unwrap();
        pad
    });
    heard.sort_unstable();
    assert_eq!(heard, [*b"first", *b"there"], "nothing was lost");

    let adapter = Adapter::create(&stream::Attributes::default(), []).unwrap();
    let meanwhile = || assert_eq!(adapter.reap(), Ok(0), "the other lives");
    let said = there(LATER, "stream", Some(adapter.share().unwrap()), "", meanwhile);
    assert_eq!(said, ["began", "sent Ok(())", "closed Ok(())"]);
}

#[test]
fn what_belongs_to_other_numbers_of_processes_is_refused_to_both() {
    if let Some(why) = obstacle(NUMBERED) {
        return rig::skip(format_args!("other numbers of processes cannot be had: {why}"));
    }
    let channel = Channel::create(&channel::Attributes::default()).unwrap();
    let sender = channel.sender(SendOptions::default()).unwrap();
    assert_eq!(there(NUMBERED, "channel", Some(channel.share().unwrap()), "", || ()), ["OtherNamespace"]);
    sender.send(b"on", 1, Timeout::Now).unwrap();

    let adapter = Adapter::create(&stream::Attributes::default(), []).unwrap();
    assert_eq!(there(NUMBERED, "stream", Some(adapter.share().unwrap()), "", || ()), ["OtherNamespace"]);
    assert_eq!(adapter.reap(), Ok(0));
}

//! `umbra pool`, `channel`, `stream` and `clean` beside what processes use.
#![cfg(feature = "command")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use umbra::channel::{self, Channel, SendOptions, Timeout};
use umbra::pool::{Attributes, Memory, Pool};
use umbra::reference::to_text;
use umbra::stream::{self, Adapter, ReceiveOptions};

/// What the command prints, if it succeeds.
fn umbra(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_umbra")).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_umbra")).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&umbra(args)).unwrap()
}

/// A folder that goes with this.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(of: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("umbra-{of}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
    fn attributes(&self) -> Attributes {
        let uid = umbra::uid::draw().unwrap();
        Attributes { bytes: 1 << 20, uid, memory: Memory::Folder(self.0.clone()), ..Attributes::default() }
    }
    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
    /// Lets all of it be longer ago than a pool takes to be made.
    fn age(&self) {
        let long_ago = SystemTime::now() - Duration::from_secs(600);
        for entry in std::fs::read_dir(&self.0).unwrap() {
            File::options().write(true).open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_name_that_would_move_the_cursor_is_shown_without() {
    let folder = Folder::new("pool-escapes");
    std::fs::write(folder.0.join("umbra-pool.\u{1b}[2Jgone\r.m"), "no pool").unwrap();
    let text = umbra(&["pool", "ls", "--folder", folder.text()]);
    assert!(text.contains("?[2Jgone?") && !text.contains(['\u{1b}', '\r']), "{text:?}");
    let text = json(&["pool", "ls", "--json", "--folder", folder.text()]);
    assert_eq!(text["pools"][0]["name"], "\u{1b}[2Jgone\r");
}

#[test]
fn pools_are_listed_and_looked_at_without_changing_them() {
    let folder = Folder::new("seen");
    let pool = Pool::create(Some("sums"), &folder.attributes()).unwrap();
    let (first, second) = (pool.alloc(100, 3).unwrap(), pool.alloc(5000, 4).unwrap());
    let listed = json(&["pool", "ls", "--json", "--folder", folder.text()]);
    assert_eq!((&listed["pools"][0]["name"], &listed["pools"][0]["allocations"]), (&"sums".into(), &2.into()));
    let seen = json(&["pool", "stat", "sums", "--json", "--folder", folder.text()]);
    assert_eq!(
        (&seen["uid"], &seen["bytes"], &seen["asked_bytes"]),
        (&pool.uid().into(), &(1 << 20).into(), &5100.into())
    );
    assert_eq!((&seen["over"], &seen["memory"]), (&false.into(), &"files".into()));
    let me = serde_json::json!([{ "pid": std::process::id(), "alive": true, "allocations": 2 }]);
    assert_eq!(seen["processes"], me);
    // By reference too.
    let dump = json(&["pool", "dump", &to_text(&pool.reference().unwrap()), "--json"]);
    let allocations = dump["allocations"].as_array().unwrap();
    let ids: Vec<u64> = allocations.iter().map(|one| one["id"].as_u64().unwrap()).collect();
    assert!(ids.len() == 2 && ids.contains(&first.id().to_bits()) && ids.contains(&second.id().to_bits()));
    for args in [["pool", "ls"], ["pool", "stat"], ["pool", "dump"]] {
        let mut args = args.to_vec();
        if args[1] != "ls" {
            args.push("sums");
        }
        args.extend(["--folder", folder.text()]);
        let shown = umbra(&args);
        assert!(shown.contains(if args[1] == "ls" { "sums" } else { "pid" }), "{shown}");
    }
    assert!(first.exists() && pool.alloc(10, 0).is_ok());
    let (code, message) = refused(&["pool", "stat", "none", "--folder", folder.text()]);
    assert!(
        code == Some(1)
            && message.contains("there is no pool \"none\" in ")
            && message.contains("`umbra pool ls --folder"),
        "{message}"
    );
}

/// Makes a pool in the folder that its environment names, and dies; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Ok(folder) = std::env::var("UMBRA_TEST_FOLDER") else { return };
    let attributes = Attributes { bytes: 1 << 20, memory: Memory::Folder(folder.into()), ..Attributes::default() };
    let _pool = Pool::create(Some("left"), &attributes).unwrap();
    std::process::abort();
}

#[test]
fn what_a_dead_process_left_is_cleaned_and_nothing_else() {
    let folder = Folder::new("left");
    let die = || {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "another_process", "--nocapture"])
            .env("UMBRA_TEST_FOLDER", folder.text())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success());
    };
    let files = || std::fs::read_dir(&folder.0).unwrap().count();
    let kept = Pool::create(Some("kept"), &folder.attributes()).unwrap();
    die();
    assert_eq!(files(), 4);
    assert_eq!(json(&["pool", "stat", "left", "--json", "--folder", folder.text()])["over"], true);
    assert_eq!(json(&["clean", "--json", "--folder", folder.text()])["removed"], serde_json::json!(["left"]));
    assert_eq!(files(), 2);
    assert!(umbra(&["clean", "--folder", folder.text()]).contains("nothing to remove"));
    // Whoever makes the next pool does the same.
    die();
    let next = Pool::create(Some("next"), &folder.attributes()).unwrap();
    assert_eq!(files(), 4);
    drop((kept, next));
    assert_eq!(files(), 0);
    let (code, message) = refused(&["clean", "--folder", "/does/not/exist"]);
    assert!(code == Some(1) && message.contains("/does/not/exist"), "{message}");
}

#[test]
fn a_pool_that_the_command_has_no_memory_to_look_at_is_not_cleaned_away() {
    let folder = Folder::new("short");
    let attributes = Attributes { bytes: 256 << 20, ..folder.attributes() };
    let pool = Pool::create(Some("large"), &attributes).unwrap();
    folder.age();
    // It can map the command, and not the pool.
    let limited =
        ["-c", "ulimit -v 200000 && exec \"$0\" clean --folder \"$1\"", env!("CARGO_BIN_EXE_umbra"), folder.text()];
    let output = Command::new("sh").args(limited).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to remove"));
    assert!(std::fs::read_dir(&folder.0).unwrap().count() == 2 && pool.alloc(100, 0).is_ok());
}

#[test]
fn what_is_no_pool_is_cleaned_away_and_a_pool_of_another_version_is_not() {
    let folder = Folder::new("versions");
    let pools = ["none", "older"].map(|name| Pool::create(Some(name), &folder.attributes()).unwrap());
    // In the first word it says that it is a pool, and in the second one in which version.
    for (name, at, word) in [("none", 0, 0), ("older", 8, 1)] {
        let manifest = folder.0.join(format!("umbra-pool.{name}.m"));
        File::options().write(true).open(manifest).unwrap().write_all_at(&u32::to_le_bytes(word), at).unwrap();
    }
    folder.age();
    assert_eq!(json(&["clean", "--json", "--folder", folder.text()])["removed"], serde_json::json!(["none"]));
    let text = umbra(&["pool", "ls", "--folder", folder.text()]);
    assert!(text.contains("older") && text.contains("layout version 1"), "{text}");
    drop(pools);
}

#[test]
fn channels_are_found_and_looked_at_without_changing_them() {
    let attributes =
        channel::Attributes { uid: 0x7e57 << 32 | u64::from(std::process::id()), capacity: 4, ..Default::default() };
    let channel = Channel::create(&attributes).unwrap();
    channel.sender(SendOptions::default()).unwrap().send(b"first", 9, Timeout::Now).unwrap();
    let listed = json(&["channel", "ls", "--json"]);
    let ours: Vec<_> =
        listed["channels"].as_array().unwrap().iter().filter(|one| one["uid"] == attributes.uid).collect();
    assert_eq!(ours.len(), 1, "each once");
    assert_eq!(
        (&ours[0]["messages"], &ours[0]["capacity"], &ours[0]["destroyed"]),
        (&1.into(), &4.into(), &false.into())
    );
    let place = ours[0]["channel"].as_str().unwrap();
    assert!(place.starts_with(&format!("{}:", std::process::id())));
    let seen = json(&["channel", "stat", &to_text(&channel.reference().unwrap()), "--json"]);
    assert_eq!(seen["processes"], serde_json::json!([{ "pid": std::process::id(), "alive": true }]));
    assert!(seen.get("first").is_none());
    let dump = json(&["channel", "dump", place, "--json"]);
    assert_eq!(dump["first"], serde_json::json!({ "bytes": 5, "hints": 9, "begins": "6669727374" }));
    assert!(umbra(&["channel", "dump", place]).contains("6669727374"));
    assert!(umbra(&["channel", "ls"]).contains(place));
    assert_eq!(channel.count(), Ok(1));
    assert_eq!(refused(&["channel", "stat", "nonsense"]).0, Some(2));
    assert_eq!(refused(&["channel", "stat", "4294967295:3"]).0, Some(1));
}

#[test]
fn streams_are_found_and_looked_at_without_changing_them() {
    let uid = 0x57 << 40 | u64::from(std::process::id());
    let adapter = Adapter::create(&stream::Attributes { uid, tasks: true, ..Default::default() }, []).unwrap();
    let mut sender = adapter.send(&stream::SendOptions::default(), Timeout::Now).unwrap();
    sender.send(b"hello", 9, Timeout::Now).unwrap();
    let listed = json(&["stream", "ls", "--json"]);
    let ours: Vec<_> = listed["streams"].as_array().unwrap().iter().filter(|one| one["uid"] == uid).collect();
    assert_eq!(ours.len(), 1, "each once");
    assert_eq!(
        (&ours[0]["mode"], &ours[0]["idle"], &ours[0]["waiting"], &ours[0]["tasks"]),
        (&"nominal".into(), &7.into(), &1.into(), &0.into())
    );
    let (place, me) = (ours[0]["streams"].as_str().unwrap(), std::process::id());
    let seen = json(&["stream", "stat", &to_text(&adapter.reference().unwrap()), "--json"]);
    assert_eq!(seen["processes"], serde_json::json!([{ "pid": me, "alive": true }]));
    assert!(seen.get("conversations").is_none());
    let conversation = |stage: &str, receiver: Option<u32>, bytes: u32| {
        let one = serde_json::json!({ "place": 0, "of": "stream", "stage": stage, "sender": me, "receiver": receiver,
            "keeper": null, "under_way_bytes": bytes });
        assert_eq!(json(&["stream", "dump", place, "--json"])["conversations"], serde_json::json!([one]));
    };
    // Bytes lie in records of 16 with 16 in front.
    conversation("waits", None, 32);
    let mut receiver = adapter.receive(&ReceiveOptions::default(), Timeout::Now).unwrap();
    conversation("open", Some(me), 32);
    assert_eq!(receiver.receive(Timeout::Now).unwrap().bytes, b"hello");
    conversation("open", Some(me), 0);
    assert!(umbra(&["stream", "dump", place]).contains("under way"));
    assert!(umbra(&["stream", "ls"]).contains(place));
    sender.close(Timeout::Now).unwrap();
    receiver.close(Timeout::Now).unwrap();
    assert_eq!(json(&["stream", "dump", place, "--json"])["conversations"], serde_json::json!([]));
    assert_eq!(refused(&["stream", "stat", "nonsense"]).0, Some(2));
    assert_eq!(refused(&["stream", "stat", "4294967295:3"]).0, Some(1));
}

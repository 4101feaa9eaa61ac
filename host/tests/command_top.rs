//! `umbra top` beside what processes use: as text, as JSON, and on a terminal.
#![cfg(feature = "command")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use serde_json::Value;
use umbra::channel::{self, Channel, SendOptions, Timeout, WaitMode};
use umbra::pool::{Attributes, Memory, Pool};
use umbra::stream::{self, Adapter};

/// A folder that goes with this.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(of: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("umbra-{of}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
    fn pool(&self, name: &str) -> Pool {
        let attributes = Attributes { bytes: 1 << 20, memory: Memory::Folder(self.0.clone()), ..Attributes::default() };
        Pool::create(Some(name), &attributes).unwrap()
    }
    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn top(folder: &Folder, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    command.args(["--color", "never", "top", "--folder", folder.text()]).args(more);
    command
}

fn printed(folder: &Folder, more: &[&str]) -> String {
    let output = top(folder, more).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn find<'v>(all: &'v Value, what: &str, key: &str, value: &Value) -> &'v Value {
    all[what].as_array().unwrap().iter().find(|one| one[key] == *value).unwrap_or_else(|| panic!("{all}"))
}

/// Does something every few milliseconds while something else runs.
fn meanwhile<R>(mut act: impl FnMut() + Send, run: impl FnOnce() -> R) -> R {
    let (ended, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(Duration::from_millis(2)) == Err(mpsc::RecvTimeoutError::Timeout) {
                act();
            }
        });
        let done = run();
        drop(ended);
        done
    })
}

#[test]
fn figures_rates_and_waiting_processes_are_those_of_what_runs() {
    let (folder, uid) = (Folder::new("top"), 0x70 << 40 | u64::from(std::process::id()));
    let pool = folder.pool("sums");
    let kept = pool.alloc(100, 1).unwrap();
    let channel = Channel::create(&channel::Attributes { uid, capacity: 4, ..Default::default() }).unwrap();
    let quiet = Channel::create(&channel::Attributes { uid: uid + 1, ..Default::default() }).unwrap();
    let adapter = Adapter::create(&stream::Attributes { uid, ..Default::default() }, []).unwrap();
    let mut waiting = adapter.send(&stream::SendOptions::default(), Timeout::Now).unwrap();
    waiting.send(b"hello", 0, Timeout::Now).unwrap();
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    let act = || {
        drop(pool.alloc(1000, 2).unwrap().free());
        sender.send(b"hello", 0, Timeout::Now).unwrap();
        receiver.receive(&mut [0; 8], Timeout::Now).unwrap();
    };
    let seen = std::thread::scope(|scope| {
        let idle = scope.spawn(|| {
            let receiver = quiet.receiver(WaitMode::Idle).unwrap();
            receiver.receive(&mut [0; 8], Timeout::After(Duration::from_secs(20)))
        });
        let seen = meanwhile(act, || printed(&folder, &["--json", "--interval", "2s"]));
        quiet.sender(SendOptions::default()).unwrap().send(b"", 0, Timeout::Now).unwrap();
        idle.join().unwrap().unwrap();
        seen
    });
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let rate = |of: &Value, what: &str| {
        let rate = of[what].as_f64().unwrap();
        assert!((1.0..=5000.0).contains(&rate), "one each 2 ms, at most: {what} is {rate}");
    };
    let sums = find(&seen, "pools", "name", &"sums".into());
    assert_eq!((&sums["bytes"], &sums["awaited"]), (&(1 << 20).into(), &false.into()));
    rate(sums, "allocations_per_second");
    let busy = find(&seen, "channels", "uid", &uid.into());
    rate(busy, "sent_per_second");
    rate(busy, "received_per_second");
    assert!(busy.get("first").is_none(), "messages are not shown");
    let me = std::process::id();
    let quiet = find(&seen, "channels", "uid", &(uid + 1).into());
    assert_eq!((&quiet["receivers"], &quiet["sent_per_second"]), (&serde_json::json!([me]), &0.0.into()));
    let streams = find(&seen, "streams", "uid", &uid.into());
    assert_eq!((&streams["waiting"], &streams["bytes_per_second"]), (&1.into(), &0.0.into()));
    let process = find(&seen, "processes", "pid", &me.into());
    let waits = |what: &str, of: &Value| {
        let expected = Value::from(format!("{what} in {}", of.as_str().unwrap()));
        assert!(process["waits_for"].as_array().unwrap().contains(&expected), "{process}");
    };
    waits("message", &quiet["channel"]);
    waits("receiver", &streams["streams"]);
    assert!(process["channels"].as_u64() >= Some(2) && process["allocations"].as_u64() >= Some(1), "{process}");
    drop(kept.free());
}

#[test]
fn once_is_text_that_says_the_same() {
    let folder = Folder::new("once");
    let pool = folder.pool("maps");
    let block = pool.alloc(5000, 1).unwrap();
    let shown = printed(&folder, &["--once", "--interval", "50ms"]);
    let line = |begins: &str| shown.lines().find(|line| line.trim_start().starts_with(begins)).unwrap().to_owned();
    assert!(line("pools").ends_with('1') && line("pool ").contains("alloc/s"), "{shown}");
    let row = line("maps");
    assert!(row.contains("1.00 MiB") && row.ends_with("1 process"), "{shown}");
    assert!(line(&std::process::id().to_string()).contains("runs") || shown.contains("sleeps"), "{shown}");
    assert!(!shown.contains('\u{1b}'));
    drop(block.free());
    drop(pool);
    // A pool that vanished is none.
    assert!(printed(&folder, &["--once", "--interval", "50ms"]).starts_with("pools 0\n"));
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let folder = Folder::new("refused");
    let refused = |more: &[&str]| {
        let output = top(&folder, more).stdin(Stdio::null()).output().unwrap();
        assert!(output.stdout.is_empty());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, why) = refused(&[]);
    assert!(code == Some(2) && why.contains("--once"), "{why}");
    let (code, why) = refused(&["--once", "--interval", "1ms"]);
    assert!(code == Some(2) && why.contains("50 ms"), "{why}");
    let (code, why) = refused(&["--once", "--folder", "/does/not/exist"]);
    assert!(code == Some(2) && why.contains("--folder"), "named twice: {why}");
    std::fs::remove_dir_all(&folder.0).unwrap();
    let (code, why) = refused(&["--json"]);
    assert!(code == Some(1) && why.contains(folder.text()), "{why}");
}

#[test]
fn a_job_that_only_the_environment_names_is_not_passed_over() {
    let folder = Folder::new("environment");
    let mut top = top(&folder, &["--once", "--interval", "50ms"]);
    top.env("UMBRA_CONFIG", "/does/not/exist.cfg").env("UMBRA_SECRET_FILE", "/does/not/exist");
    let output = top.stdin(Stdio::null()).output().unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && why.contains("/does/not/exist.cfg"), "{why}");
}

/// What a terminal shows that was sent this: letters, and where they go; nothing else of it matters here.
fn screen(sent: &str) -> String {
    let mut lines = vec![vec![' '; 100]; 30];
    let (mut row, mut column, mut letters) = (0, 0, sent.chars());
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            let mut sequence = String::new();
            letters
                .by_ref()
                .take_while(|c| {
                    sequence.push(*c);
                    !c.is_ascii_alphabetic()
                })
                .for_each(drop);
            if let Some(place) = sequence.strip_prefix('[').and_then(|rest| rest.strip_suffix('H')) {
                let (y, x) = place.split_once(';').unwrap();
                (row, column) = (y.parse::<usize>().unwrap() - 1, x.parse::<usize>().unwrap() - 1);
            }
        } else {
            lines[row][column.min(99)] = letter;
            column += 1;
        }
    }
    lines.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
}

/// The command on a terminal of 100 columns and 30 lines.
struct OnTerminal {
    child: Child,
    keys: File,
    seen: mpsc::Receiver<Vec<u8>>,
    sent: String,
}

impl OnTerminal {
    fn start(folder: &Folder) -> OnTerminal {
        let near = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&near).unwrap();
        rustix::pty::unlockpt(&near).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&near, size).unwrap();
        let name = rustix::pty::ptsname(&near, Vec::new()).unwrap();
        let far = || Stdio::from(File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap());
        let mut command = top(folder, &["--interval", "50ms"]);
        command.env("TERM", "xterm").stdin(far()).stdout(far()).stderr(far());
        let child = command.spawn().unwrap();
        let (keys, mut screen) = (File::from(near.try_clone().unwrap()), File::from(near));
        let (tell, seen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut buffer) {
                if tell.send(buffer[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        OnTerminal { child, keys, seen, sent: String::new() }
    }

    /// Waits until what was sent to the terminal fulfills this.
    fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !holds(&self.sent) {
            let rest = until.saturating_duration_since(Instant::now());
            let more = self.seen.recv_timeout(rest);
            let more = more.unwrap_or_else(|_| panic!("{what:?} is not on\n{}", screen(&self.sent)));
            self.sent.push_str(&String::from_utf8_lossy(&more));
        }
    }

    /// Waits until this is on the screen.
    fn shows(&mut self, text: &str) {
        self.until(text, |sent| screen(sent).contains(text));
    }

    fn ends(mut self) -> ExitStatus {
        // Back to what was on the screen before, with a cursor.
        self.until("the end", |sent| sent.contains("\u{1b}[?1049l") && sent.contains("\u{1b}[?25h"));
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn the_terminal_is_given_back_by_key_and_by_signal() {
    let folder = Folder::new("live");
    let pool = folder.pool("maps");
    let mut on = OnTerminal::start(&folder);
    for text in ["umbra top", "pools 1", "maps", "processes"] {
        on.shows(text);
    }
    on.keys.write_all(b"s").unwrap();
    on.shows("used \u{25b2}");
    // A pool that comes while it looks, and one that goes.
    let second = folder.pool("sums");
    on.shows("pools 2");
    drop((pool, second));
    on.shows("pools 0");
    on.keys.write_all(b"q").unwrap();
    assert_eq!(on.ends().code(), Some(0));

    let mut on = OnTerminal::start(&folder);
    on.shows("umbra top");
    rustix::process::kill_process(Pid::from_child(&on.child), Signal::TERM).unwrap();
    assert_eq!(on.ends().code(), Some(143));
}

//! What agents log of a job, and that no secret is in it (s42).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tracing_subscriber::util::SubscriberInitExt as _;
use umbra::job::{self, DataPath, Options};
use umbra_core::access::grants::Grants;
use umbra_core::access::message::{Export, IMPORT, Import};
use umbra_core::access::own::{Event, Owner};
use umbra_core::access::serve::{Asker, Reply, Serve};
use umbra_core::error::Status;
use umbra_core::key::{Access, Span};
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::region::{Entry, Secret};
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Token};
use umbra_tests::rig::{self, ByHand, Scratch};

/// No run of hexadecimal digits longer than a group's name, and no list of numbers: whatever else is printed of
/// random bytes looks like one of these.
fn assert_nothing_looks_like_random_bytes(log: &str) {
    for line in log.lines() {
        let longest = line.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max().unwrap_or(0);
        let numbers = line.split(", ").filter(|part| part.trim_matches(['[', ']', ' ']).parse::<u8>().is_ok()).count();
        assert!(longest <= 32 && numbers < 8, "{line}");
    }
}

/// Neither the bytes themselves nor how a program prints them.
fn assert_without(log: &[u8], secret: &[u8], whose: &str) {
    // All forms of one length are looked for at once: a trace has millions of places.
    let mut forms: BTreeMap<usize, HashSet<Vec<u8>>> = BTreeMap::new();
    // A part of a secret is a secret too; eight bytes do not come about by chance.
    for part in secret.windows(8) {
        let lower: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = part.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        for form in [part.to_vec(), lower.to_uppercase().into(), lower.into(), list.into()] {
            forms.entry(form.len()).or_default().insert(form);
        }
    }
    for (len, forms) in forms {
        let shown = log.windows(len).find(|&bytes| forms.contains(bytes));
        assert_eq!(shown.map(String::from_utf8_lossy), None, "{whose} is in the log");
    }
}

#[test]
fn every_agent_of_a_job_logs_to_one_file_that_tells_the_story_and_no_secret() {
    let scratch = Scratch::new("log");
    for path in [DataPath::Auto, DataPath::Asked] {
        let file = scratch.path().join(path.name());
        let log = Some(("trace".to_owned(), file.clone()));
        let outcome = job::run(&Options { data_path: path, log, ..rig::options(2, 2, 2) }, &mut |_| {}).unwrap();
        assert!(outcome.is_good());
        let text = fs::read_to_string(&file).unwrap();
        for sp in 0..4 {
            let whose = format!("sp{sp} ");
            let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&whose)).collect();
            for part in ["is full: 4 ranks", "DEBUG", "is linked, on", " ends"] {
                assert!(lines.iter().any(|line| line.contains(part)), "{path}: {whose}never says {part:?}:\n{text}");
            }
        }
        assert!(text.lines().all(|line| line.starts_with("sp")), "a torn line:\n{text}");
        assert!(text.contains("is served, "), "{path}: no region is served:\n{text}");
        // What is told is told of ranks, groups and regions: a read that goes well says nothing.
        let lines = text.lines().count() as u64;
        assert!(lines < outcome.reads, "{lines} lines for {} reads", outcome.reads);
        assert_nothing_looks_like_random_bytes(&text);
    }
}

fn secret_of(job: &ByHand) -> Vec<u8> {
    let text = fs::read_to_string(job.secret()).unwrap();
    let digits = text.trim().as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn run(job: &ByHand, log: &Path) -> std::process::Output {
    let mut command = Command::new(&rig::programs().0);
    command.args(["run", "--quiet", "--ranks", "2", "--timeout", "60s", "--reads", "5", "--here", "node0"]);
    command.args(["--start", "dpu0", "--log", "trace", "--log-file"]).arg(log);
    command.arg("--config").arg(job.config()).arg("--secret").arg(job.secret()).output().unwrap()
}

#[test]
fn the_secret_of_a_job_is_in_no_log_whoever_started_the_agent() {
    let mut job = ByHand::new("log-secret", 2);
    let logs = Scratch::new("log-secret-logs");
    let [by_hand, by_run] = ["by-hand", "by-run"].map(|name| logs.path().join(name));
    job.start(1, &["--log", "trace", "--log-file", by_hand.to_str().unwrap()]);
    let output = run(&job, &by_run);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let secret = secret_of(&job);
    assert_eq!(secret.len(), 32);
    for (file, sp) in [(&by_hand, "sp1 "), (&by_run, "sp0 ")] {
        let log = fs::read(file).unwrap();
        assert!(log.starts_with(sp.as_bytes()) && log.len() > 1000, "{}", String::from_utf8_lossy(&log));
        assert_without(&log, &secret, "the job's secret");
    }
    job.end();
}

#[test]
fn a_log_that_cannot_be_written_or_is_half_wanted_is_refused_before_the_job() {
    let run = |arguments: &[&str]| {
        let output = Command::new(&rig::programs().0).arg("run").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&["--log", "info"]);
    assert!(code == Some(2) && said.contains("--log-file <FILE>"), "{said}");
    let (code, said) = run(&["--log", "info", "--log-file", "/nowhere/log"]);
    assert!(code == Some(1) && said.contains("cannot write the log /nowhere/log: "), "{said}");
}

/// Takes down what is logged.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<u8>>>);

impl Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const ME: Sp = Sp(0);
const RANK: Link = Link(0);
const ASKER: Link = Link(1);
const RKEY: u32 = 0x5ec1_e7a9;

#[test]
fn the_life_of_a_region_is_logged_without_its_secret_and_its_remote_key() {
    let notes = Notes::default();
    let writer = notes.clone();
    let print = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    let guard = print.with_writer(move || writer.clone()).finish().set_default();

    let secret = Secret(std::array::from_fn(|i| (i as u8).wrapping_mul(77) ^ 0xa5));
    let rank = Peer::rank(WorldRank(3)).unwrap();
    let mut owner = Owner::new(rank, Incarnation(1), vec![Entry::VACANT; 8], vec![Default::default(); 8]);
    let askers = vec![Asker::NONE; 2];
    let mut serve = Serve::new(ME, vec![Entry::VACANT; 8], [const { Slot::EMPTY }; 4], askers);
    serve.on_link(RANK, rank, Incarnation(1), 0, 4).unwrap();
    serve.on_link(ASKER, Peer::service(Sp(1)).unwrap(), Incarnation(2), 0, 4).unwrap();

    let shadows = [ME].into_iter().collect();
    let locator = Locator::Verbs { rkey: RKEY, direct: true };
    let region = owner.export(0x1000, 64, Access::READ, shadows, secret, locator, Time(5)).unwrap();
    let mut buffer = [0; 512];
    let sent = owner.poll(Time(6), &mut buffer).unwrap();
    let question = Frame::parse(&buffer[..sent.len_bytes]).unwrap();
    let Reply::Attach(attach) = serve.on_frame(RANK, &question) else { panic!("not attached") };
    // Too late for the owner's patience, and told so.
    assert!(matches!(owner.on_time(Time(6)), Some(Event::Late { .. })));
    let answer = serve.attached(&attach, Status::Ok);
    assert!(matches!(owner.on_frame(ME, &answer.frame(), Time(6)), Some(Event::Exported { status: Status::Ok, .. })));

    for presented in [secret, Secret([0xee; 32])] {
        let body = Import { key: region.key, secret: presented }.to_bytes();
        let reply = serve.on_frame(ASKER, &Frame::Call { op: IMPORT, token: Token(1), body: &body });
        // It is none of the rank's shadow service processes, whatever it knows.
        assert!(matches!(reply, Reply::Answer(answer) if answer.status != Status::Ok));
    }
    // A ticket that was changed on its way is refused.
    let ticket = Ticket { key: region.key, base: region.base, len: region.len, access: region.access, locator };
    let mut body = [0; 256];
    let len = Export { ticket, secret, shadows: [ME].into_iter().collect() }.emit(&mut body).unwrap();
    body[20] ^= 1;
    let damaged = Frame::Call { op: question.op(), token: Token(2), body: &body[..len] };
    assert!(matches!(serve.on_frame(RANK, &damaged), Reply::Answer(answer) if answer.status == Status::Malformed));

    let mut grants = Grants::new([const { Slot::EMPTY }; 2]);
    let held = serve.hold_own(Span { key: region.key, offset: 0, len: 0 }).unwrap();
    assert!(grants.give(ASKER, region.key, held).is_ok());
    owner.revoke(region.key, false, Time(9)).unwrap();
    let sent = owner.poll(Time(6), &mut buffer).unwrap();
    assert!(matches!(serve.on_frame(RANK, &Frame::parse(&buffer[..sent.len_bytes]).unwrap()), Reply::Later));
    grants.recall(|key| key == region.key, false);
    let recall = grants.poll().unwrap();
    serve.release_own(grants.returned(ASKER, recall.token).unwrap());
    serve.on_gone(RANK);
    drop(guard);

    let log = notes.0.lock().unwrap().clone();
    let text = String::from_utf8_lossy(&log);
    for part in
        ["is served, 64 bytes", "in time", "is refused: Malformed", "is given to", "is asked back", "is taken back"]
    {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert_without(&log, &secret.0, "the region's secret");
    for shown in [RKEY.to_string(), format!("{RKEY:x}"), format!("{RKEY:X}")] {
        assert!(!text.contains(&shown), "the remote key is in the log, as {shown}:\n{text}");
    }
}

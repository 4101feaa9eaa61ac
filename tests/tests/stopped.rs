//! Who was stopped for longer than it waits for others has not been let down.
//!
//! What they said meanwhile is heard before the time that has passed counts. A process that is stopped (signal 19) and one that
//! does not look at its links are the same to others, so a test can stop looking by itself.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Value;
use umbra::admin::{Body as _, Figures, ops};
use umbra::ask::{Asker, Target};
use umbra::driver::{Driver, Event, Limits, now};
use umbra::job::{DataPath, News, Options};
use umbra::link::{Address, Identity, Listener, Party, socket_path};
use umbra::secret::Secret;
use umbra::session::{Exported, Session, Settings};
use umbra_core::access::serve::INLINE_MAX;
use umbra_core::error::Status;
use umbra_core::peer::{Incarnation, Sp};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};
use umbra_tests::agents::{Agents, DEADLINE};
use umbra_tests::rig::{self, Guarded, PATIENCE, Scratch, service};

/// Stops a child of this process, and waits until it stands still.
fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    let stopped = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
    assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{stopped:?}");
}

#[test]
fn a_rank_that_looks_at_nothing_for_longer_than_the_silence_keeps_its_service_process() {
    let silence = Some(Duration::from_secs(2));
    let agents = Agents::of(Options { silence, ..rig::options(1, 1, 1) });
    let mut session = Session::join(Settings { silence, ..agents.settings(0) }).unwrap();
    let key = session.export_bytes(vec![3; 1000]).unwrap();
    let ticket = session.ticket(key).unwrap();
    thread::sleep(Duration::from_secs(5));
    session.progress(now()).unwrap();
    // Who had lost it would be told so, or wait for it to come back.
    let mut bytes = [0; 1000];
    session.read(&ticket, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [3; 1000]);
    session.leave().unwrap();
}

#[test]
fn an_answer_that_came_while_a_launcher_did_not_look_is_no_late_one() {
    let mut agents = Agents::start(1, 1, 1);
    let address = Address::Unix(socket_path(&agents.directory(), Sp(0)));
    let (secret, patience) = (Secret::read(&agents.launcher.directory().secret()).unwrap(), Lapse::from_secs(60));
    let agent = Pid::from_raw(agents.launcher.pid(service(0)).unwrap().cast_signed()).unwrap();
    stop(agent);
    agents.launcher.call(service(0), ops::STATUS, Token(9), &[], Vec::new()).unwrap();
    let mut heard = |deadline| {
        let mut news = std::iter::from_fn(|| agents.launcher.next(deadline).unwrap());
        news.any(|news| matches!(news, News::Answer { op: ops::STATUS, token: Token(9), .. }))
    };
    assert!(!heard(now()), "it does not run");
    kill_process(agent, Signal::CONT).unwrap();
    // Whoever asks it now is answered later.
    let mut asker = Asker::connect(secret, vec![Target { sp: Sp(0), address }], patience).unwrap();
    asker.call(0, ops::STATUS, &[], patience).unwrap();
    assert!(heard(now()));
}

#[test]
fn a_tool_that_is_stopped_while_it_waits_for_an_agent_tells_what_came_meanwhile() {
    let scratch = Scratch::new("stopped-tool");
    let (config, secret) = (scratch.path().join("job.cfg"), scratch.path().join("secret"));
    fs::write(&config, "# Format version: 1\nnode0,dpu0:127.0.0.1:1:2\n").unwrap();
    let key = Secret::random().unwrap();
    key.create(&secret).unwrap();
    let me = Identity { party: Party::Peer(service(0)), incarnation: Incarnation(1) };
    let mut agent = Driver::new(me, key, Limits::default());
    agent.listen(Listener::Unix(UnixListener::bind(socket_path(scratch.path(), Sp(0))).unwrap())).unwrap();

    let mut command = rig::bound(&rig::programs().0);
    command.args(["top", "--json", "--interval", "50ms", "--timeout", "500ms", "--folder"]).arg(scratch.path());
    command.arg("--config").arg(config).arg("--secret").arg(secret).arg("--sockets").arg(scratch.path());
    let tool = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut tool = Guarded::from(tool);
    let (end, mut bytes, mut stops) = (Instant::now() + PATIENCE, Vec::new(), 0);
    while tool.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "stopped {stops} times, and it goes on");
        agent.wait(now() + Lapse::from_millis(5)).unwrap();
        while let Some(event) = agent.next(&mut bytes) {
            let Event::Frame { link, .. } = event else { continue };
            let Ok(Frame::Call { op, token, .. }) = Frame::parse(&bytes) else { panic!("{bytes:02x?}") };
            let mut body = Vec::new();
            let status = if op == ops::FIGURES { Status::Ok } else { Status::PermissionDenied };
            if op == ops::FIGURES {
                Figures { ranks: 77, ..Figures::default() }.put(&mut body);
                stop(Pid::from_child(&tool));
                stops += 1;
            }
            agent.send(link, &Frame::Done { op, token, status, body: &body }, Vec::new()).unwrap();
            agent.flush();
            if op == ops::FIGURES {
                thread::sleep(Duration::from_millis(1500));
                kill_process(Pid::from_child(&tool), Signal::CONT).unwrap();
            }
        }
    }
    let output = tool.finish(Instant::now() + PATIENCE);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &told["service_processes"][0];
    assert!(row["error"].is_null() && row["ranks"] == 77, "{told:#}");
    assert_eq!(stops, 2, "it looks twice");
}

/// Answers come for two ranks, of which one reads what may be kept.
#[test]
fn an_agent_that_was_stopped_takes_the_answers_that_came_meanwhile_before_it_gives_up_on_them() {
    const LEN: usize = 20_000;
    let (data_path, silence) = (DataPath::Asked, Some(PATIENCE));
    let agents = Agents::of(Options { data_path, silence, deadline: DEADLINE, ..rig::options(2, 1, 2) });
    let settings = |rank| Settings { deadline: PATIENCE, silence, ..agents.settings(rank) };
    let mut sessions: Vec<Session> = thread::scope(|scope| {
        let joins = [0, 1, 2, 3].map(|rank| scope.spawn(move || Session::join(settings(rank)).unwrap()));
        joins.map(|join| join.join().unwrap()).into()
    });
    let keys = [sessions[2].export_bytes(vec![5; LEN]), sessions[3].export_constant(Exported::Bytes(vec![6; LEN]))];
    let tickets = [2, 3].map(|rank| sessions[rank].ticket(keys[rank - 2].as_ref().copied().unwrap()).unwrap());
    // That it may be kept is asked for once.
    sessions[1].read(&tickets[1], 1, &mut [0; 8]).unwrap();

    let [reader, server] =
        [0, 1].map(|sp| Pid::from_raw(agents.launcher.pid(service(sp)).unwrap().cast_signed()).unwrap());
    stop(server);
    // One after the other: the answer to the first is heard before that to the second.
    let reads = [0, 1].map(|rank| {
        let read = sessions[rank].post_read(&tickets[rank], 0, vec![0; LEN]).unwrap();
        let end = now() + Lapse::from_millis(300);
        while now() < end {
            sessions[rank].progress(end).unwrap();
        }
        read
    });
    stop(reader);
    kill_process(server, Signal::CONT).unwrap();
    thread::sleep(DEADLINE + Duration::from_secs(1));
    kill_process(reader, Signal::CONT).unwrap();
    let mut came = |rank: usize, byte| sessions[rank].wait_read(reads[rank]).map(|bytes| bytes == [byte; LEN]);
    let came = [came(0, 5), came(1, 6)];
    assert!(matches!(came, [Ok(true), Ok(true)]), "who was asked had answered: {came:?}");
}

#[test]
fn a_rank_that_looked_at_nothing_for_longer_than_a_read_may_take_has_the_bytes_that_came() {
    const LEN: usize = 5 * INLINE_MAX as usize;
    let silence = Some(PATIENCE);
    let agents = Agents::of(Options { silence, deadline: DEADLINE, ..rig::options(1, 1, 1) });
    let mut session = Session::join(Settings { silence, ..agents.settings(0) }).unwrap();
    let key = session.export_bytes(vec![3; LEN]).unwrap();
    let ticket = session.ticket(key).unwrap();
    let read = session.post_read(&ticket, 0, vec![0; LEN]).unwrap();
    thread::sleep(DEADLINE + Duration::from_secs(1));
    assert!(session.wait_read(read).unwrap() == [3; LEN]);
    session.leave().unwrap();
}

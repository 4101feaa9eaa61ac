//! The command and an agent that answers, but slowly.
#![cfg(feature = "command")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use umbra::admin::ops;
use umbra::driver::{Driver, Event, Limits, now};
use umbra::link::{Identity, Listener, Party, socket_path};
use umbra::secret::Secret;
use umbra_core::error::Status;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::time::Lapse;
use umbra_core::wire::Frame;

/// Only a hang lasts longer.
const WAIT: Duration = Duration::from_secs(30);
/// Of the command's `--timeout`, which is four seconds.
const PAUSE: Duration = Duration::from_millis(200);

/// An agent whose table of the world comes in pieces of one byte, until it is told to end.
fn agent(listener: UnixListener, secret: Secret, is_over: &AtomicBool) {
    let party = Party::Peer(Peer::service(Sp(0)).unwrap());
    let mut driver = Driver::new(Identity { party, incarnation: Incarnation(7) }, secret, Limits::default());
    driver.listen(Listener::Unix(listener)).unwrap();
    let mut bytes = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        driver.wait(now() + Lapse::from_millis(50)).unwrap();
        while let Some(event) = driver.next(&mut bytes) {
            let Event::Frame { link, .. } = event else { continue };
            let Ok(Frame::Call { op, token, .. }) = Frame::parse(&bytes) else { continue };
            let body = match op {
                ops::GROUPS => b"world: full, handle 0x1\n".to_vec(),
                _ => {
                    std::thread::sleep(PAUSE);
                    [&1000_u64.to_le_bytes()[..], b"x"].concat()
                }
            };
            let answer = Frame::Done { op, token, status: Status::Ok, body: &body };
            // Whoever has gone hears nothing.
            let _ = driver.send(link, &answer, Vec::new());
            driver.flush();
        }
    }
}

/// What a command says that ends by itself, and when it does.
fn ended(mut child: Child) -> (String, Duration) {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() && began.elapsed() < WAIT {
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = began.elapsed();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), took)
}

#[test]
fn a_table_that_comes_slowly_is_waited_for_no_longer_than_was_said() {
    let here = std::env::temp_dir().join(format!("umbra-slow-{}", std::process::id()));
    std::fs::create_dir(&here).unwrap();
    std::fs::set_permissions(&here, std::fs::Permissions::from_mode(0o700)).unwrap();
    let in_it = |name: &str| here.join(name);
    std::fs::write(in_it("job.cfg"), "# Format version: 1\nnode1,bf1:127.0.0.1:7010:9010\n").unwrap();
    let secret = Secret::from_bytes([7; 32]);
    secret.create(&in_it("secret")).unwrap();
    let listener = UnixListener::bind(socket_path(&here, Sp(0))).unwrap();
    let is_over = AtomicBool::new(false);
    let (message, took) = std::thread::scope(|scope| {
        scope.spawn(|| agent(listener, secret, &is_over));
        let mut umbra = Command::new(env!("CARGO_BIN_EXE_umbra"));
        umbra.args(["dump", "sp:0/world", "--timeout", "4s", "--job"]).arg(&here);
        let umbra = umbra.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let ended = ended(umbra);
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    assert!(message.contains("no answer before the deadline") && took < WAIT, "{took:?}: {message}");
    std::fs::remove_dir_all(here).unwrap();
}

//! Asking agents that answer, refuse, die or were never there.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use umbra::admin::ops;
use umbra::ask::{AskError, Asker, Target, ask_each};
use umbra::driver::{Driver, Event, Limits, now};
use umbra::link::{Address, Close, Identity, Listener, Party};
use umbra::secret::Secret;
use umbra_core::error::Status;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Op, Token};

const ECHO: Op = Op(0x0399);
const REFUSE: Op = Op(0x0398);
const DIE: Op = Op(0x0397);
/// Answered in three frames: the end, behind which what came before belongs.
const RECITE: Op = Op(0x0396);
const PATIENCE: Lapse = Lapse::from_secs(20);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("umbra-ask-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }
    fn target(&self, sp: u32) -> Target {
        Target { sp: Sp(sp), address: Address::Unix(self.0.join(format!("sp{sp}.sock"))) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An agent that serves one tool until it leaves.
fn agent(place: &Place, sp: u32, secret: [u8; 32]) -> JoinHandle<()> {
    let listener = UnixListener::bind(place.0.join(format!("sp{sp}.sock"))).unwrap();
    std::thread::spawn(move || {
        let party = Party::Peer(Peer::service(Sp(sp)).unwrap());
        let me = Identity { party, incarnation: Incarnation(7) };
        let mut driver = Driver::new(me, Secret::from_bytes(secret), Limits::default());
        driver.listen(Listener::Unix(listener)).unwrap();
        let until = now() + Lapse::from_secs(60);
        let mut bytes = Vec::new();
        while now() < until {
            driver.wait(until).unwrap();
            while let Some(event) = driver.next(&mut bytes) {
                match event {
                    Event::Frame { link, .. } => {
                        let Ok(Frame::Call { op, token, body }) = Frame::parse(&bytes) else { continue };
                        let (status, body) = match op {
                            ECHO => (Status::Ok, body),
                            REFUSE => (Status::UnknownGroup, b"row 9".as_slice()),
                            RECITE => {
                                for body in [b"lo, ".as_slice(), b"world"] {
                                    let more = Frame::Call { op: ops::MORE, token, body };
                                    driver.send(link, &more, Vec::new()).unwrap();
                                    // Of what was asked before.
                                    let stale = Frame::Call { op: ops::MORE, token: Token(token.0 - 1), body };
                                    driver.send(link, &stale, Vec::new()).unwrap();
                                }
                                (Status::Ok, b"hel".as_slice())
                            }
                            _ => return,
                        };
                        driver.send(link, &Frame::Done { op, token, status, body }, Vec::new()).unwrap();
                        // An answer has one end.
                        for body in [b"more".as_slice(), b"another end"] {
                            driver.send(link, &Frame::Call { op: ops::MORE, token, body }, Vec::new()).unwrap();
                            driver.send(link, &Frame::Done { op, token, status, body }, Vec::new()).unwrap();
                        }
                        driver.flush();
                    }
                    Event::Gone { .. } => return,
                    _ => {}
                }
            }
        }
    })
}

#[test]
fn answers_come_in_the_order_of_the_agents_and_missing_ones_are_named() {
    let place = Place::new("order");
    let running = [agent(&place, 0, [7; 32]), agent(&place, 2, [7; 32])];
    let targets = vec![place.target(0), place.target(1), place.target(2)];
    let mut asker = Asker::connect(Secret::from_bytes([7; 32]), targets, Lapse::from_millis(300)).unwrap();
    assert_eq!((asker.is_up(0), asker.is_up(1), asker.is_up(2)), (true, false, true));

    let answers = asker.call_all(ECHO, b"hello", PATIENCE).unwrap();
    assert_eq!(answers[0], Ok(b"hello".to_vec()));
    assert!(matches!(&answers[1], Err(AskError::Unreachable { sp: Sp(1), .. })), "{:?}", answers[1]);
    assert_eq!(answers[2], Ok(b"hello".to_vec()));

    let refused = asker.call(2, REFUSE, &[], PATIENCE);
    assert_eq!(refused, Err(AskError::Refused { sp: Sp(2), status: Status::UnknownGroup, text: "row 9".into() }));
    drop(asker);
    running.into_iter().for_each(|agent| agent.join().unwrap());
}

/// All of it has one deadline: whoever hangs keeps neither the others from being asked nor the tool for longer.
#[test]
fn each_is_asked_as_soon_as_it_is_linked_and_one_that_hangs_costs_no_more_than_the_time_given() {
    let place = Place::new("each");
    let patience = Lapse::from_secs(3);
    let _hangs = UnixListener::bind(place.0.join("sp1.sock")).unwrap();
    let first = agent(&place, 0, [7; 32]);
    let targets = (0..4).map(|sp| place.target(sp)).collect();
    let begun = now();
    let late = std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(1500));
            agent(&place, 2, [7; 32])
        });
        let answers = ask_each(Secret::from_bytes([7; 32]), targets, ECHO, b"hello", patience).unwrap();
        let took = now().since(begun);
        assert!(took < Lapse(patience.0 / 2 * 3), "{took:?}");
        assert_eq!((&answers[0], &answers[2]), (&Ok(b"hello".to_vec()), &Ok(b"hello".to_vec())));
        let Err(error @ AskError::Unreachable { sp: Sp(1), .. }) = &answers[1] else { panic!("{:?}", answers[1]) };
        assert!(error.to_string().contains("see that it runs"), "{error}");
        assert!(
            matches!(answers[3], Err(AskError::Unreachable { sp: Sp(3), why: Close::Io(_), .. })),
            "{:?}",
            answers[3]
        );
        late.join().unwrap()
    });
    [first, late].into_iter().for_each(|agent| agent.join().unwrap());
}

#[test]
fn an_answer_of_several_frames_is_one() {
    let place = Place::new("several");
    let running = [agent(&place, 0, [7; 32]), agent(&place, 1, [7; 32])];
    let targets = vec![place.target(0), place.target(1)];
    let mut asker = Asker::connect(Secret::from_bytes([7; 32]), targets, PATIENCE).unwrap();
    for _ in 0..2 {
        assert_eq!(
            asker.call_all(RECITE, &[], PATIENCE).unwrap(),
            [Ok(b"hello, world".to_vec()), Ok(b"hello, world".to_vec())]
        );
        assert_eq!(asker.call(1, RECITE, &[], PATIENCE), Ok(b"hello, world".to_vec()));
        assert_eq!(asker.call(0, ECHO, b"end", PATIENCE), Ok(b"end".to_vec()));
    }
    drop(asker);
    running.into_iter().for_each(|agent| agent.join().unwrap());
}

#[test]
fn an_agent_that_dies_while_it_is_asked_is_unreachable_not_waited_for() {
    let place = Place::new("death");
    let running = agent(&place, 0, [7; 32]);
    let mut asker = Asker::connect(Secret::from_bytes([7; 32]), vec![place.target(0)], PATIENCE).unwrap();
    let answer = asker.call(0, DIE, &[], Lapse::from_secs(3600));
    assert!(matches!(answer, Err(AskError::Unreachable { .. })), "{answer:?}");
    running.join().unwrap();
}

#[test]
fn s25_a_wrong_secret_is_told_as_such() {
    let place = Place::new("secret");
    let running = agent(&place, 0, [7; 32]);
    let mut asker = Asker::connect(Secret::from_bytes([8; 32]), vec![place.target(0)], PATIENCE).unwrap();
    let answer = asker.call(0, ECHO, &[], PATIENCE);
    let Err(AskError::Unreachable { why, .. }) = answer else { panic!("{answer:?}") };
    assert!(!why.is_transient(), "{why}");
    running.join().unwrap();
}

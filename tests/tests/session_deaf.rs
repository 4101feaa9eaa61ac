//! A rank that reads nothing for long, as if it computed; a real agent.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::thread;
use std::time::Duration;

use umbra::driver::{Driver, Event, Limits, LinkId, now};
use umbra::link::{Address, Identity, Party, socket_path};
use umbra_core::codec::Writer;
use umbra_core::group::message::{Head, Hello, WORLD, ops};
use umbra_core::id::Generation;
use umbra_core::peer::{Incarnation, Sp};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};
use umbra_tests::agents::Agents;
use umbra_tests::rig::{rank, service};

/// Questions whose answers are more than the agent's queue and the sockets hold.
const QUESTIONS: u64 = 80_000;
const LIFE: Incarnation = Incarnation(7);

/// A link of rank 0 that says what the test says.
struct Deaf {
    driver: Driver,
    link: LinkId,
    hello: Vec<u8>,
}

impl Deaf {
    fn new(agents: &Agents) -> Deaf {
        let me = Identity { party: Party::Peer(rank(0)), incarnation: LIFE };
        let settings = agents.settings(0);
        let seat = settings.seat;
        let mut driver = Driver::new(me, settings.secret, Limits::default());
        // Its buffers are small.
        let address = Address::Unix(socket_path(&agents.directory(), Sp(0)));
        let deadline = now() + Lapse::from_secs(30);
        let link = driver.dial(address, Party::Peer(service(0)), deadline).unwrap();
        let mut frame = Vec::new();
        while !matches!(driver.next(&mut frame), Some(Event::Up { .. })) {
            assert!(now() < deadline, "no link");
            driver.wait(deadline).unwrap();
        }
        let mut hello = vec![0; 256];
        let mut w = Writer::new(&mut hello);
        Head { key: WORLD, generation: Generation(1), from: LIFE }.emit(&mut w).unwrap();
        let (size, n_local) = (seat.size, seat.n_local);
        Hello { size, rank: seat.rank, host: seat.host, local: seat.local, n_local, shadow: 0 }.emit(&mut w).unwrap();
        let len = w.len();
        hello.truncate(len);
        Deaf { driver, link, hello }
    }

    /// Asks without looking at what comes.
    fn ask(&mut self, token: u64) {
        let frame = Frame::Call { op: ops::HELLO, token: Token(token), body: &self.hello };
        self.driver.send(self.link, &frame, Vec::new()).unwrap();
        while self.driver.unsent(self.link) > 64 << 10 {
            self.driver.flush();
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// Reads until the answer to a question comes, and asks it from time to time.
    fn hear(&mut self, wanted: u64) {
        let (deadline, mut bytes) = (now() + Lapse::from_secs(30), Vec::new());
        let mut again = now();
        loop {
            while let Some(event) = self.driver.next(&mut bytes) {
                let Event::Frame { .. } = event else { panic!("{event:?}") };
                if let Frame::Done { op: ops::HELLO, token, .. } = Frame::parse(&bytes).unwrap()
                    && token == Token(wanted)
                {
                    return;
                }
            }
            assert!(now() < deadline, "no answer");
            if now() >= again {
                // What the agent has no room for is lost.
                self.ask(wanted);
                again = now() + Lapse::from_millis(200);
            }
            self.driver.wait(again).unwrap();
        }
    }
}

/// Nothing that the agent says about groups is worth the link: it can be said again.
#[test]
fn a_rank_that_reads_nothing_keeps_its_link() {
    let agents = Agents::start(1, 1, 1);
    let mut deaf = Deaf::new(&agents);
    (1..=QUESTIONS).for_each(|token| deaf.ask(token));
    deaf.hear(QUESTIONS + 1);
}

//! All interleavings of agents that come and go, and of the rank whose messages they look out for, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_boundary_post`.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::AtomicU64;
use umbra_core::boundary::Post;

const RANK: u64 = 1;
const AGENTS: [u64; 2] = [2, 3];

/// A post and what only its holder writes: how often something was found.
struct Board {
    holder: AtomicU64,
    wish: AtomicU64,
    found: UnsafeCell<u32>,
}

impl Board {
    fn new() -> Arc<Board> {
        Arc::new(Board { holder: AtomicU64::new(0), wish: AtomicU64::new(0), found: UnsafeCell::new(0) })
    }
    fn post(&self) -> Post<'_> {
        Post::new(&self.holder, &self.wish)
    }
    /// Looks if `name` holds the post; loom fails if two do so at the same time, or one does not see what was found.
    fn look(&self, name: u64) -> bool {
        let taken = self.post().take(name).is_some();
        if taken {
            // SAFETY: who holds the post is alone, and loom checks just that.
            self.found.with_mut(|found| unsafe { *found += 1 });
        }
        taken
    }
    /// A rank looks, hands over, looks again.
    fn rank(&self) -> u32 {
        let before = self.look(RANK);
        self.post().hand_over(RANK, |_| true);
        u32::from(before) + u32::from(self.look(RANK))
    }
    /// An agent asks, looks, and leaves.
    fn agent(&self, name: u64) -> u32 {
        let before = self.look(name);
        if !before {
            self.post().ask(name);
        }
        let looks = u32::from(before) + u32::from(self.look(name));
        self.post().leave(name);
        looks
    }
    /// Nobody who has left holds it, so that the rank can have it.
    fn ends(&self, looks: u32) {
        let holder = self.post().holder();
        assert!(holder == 0 || holder == RANK, "{holder} has left");
        assert!(self.look(RANK));
        self.found.with(|found| {
            // SAFETY: all threads have ended.
            assert_eq!(unsafe { *found }, looks + 1);
        });
    }
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

#[test]
fn an_agent_that_leaves_while_it_is_handed_the_post_holds_nothing() {
    check(5, || {
        let board = Board::new();
        assert!(board.look(RANK));
        board.post().ask(AGENTS[0]);
        let agent = {
            let board = board.clone();
            thread::spawn(move || board.post().leave(AGENTS[0]))
        };
        board.post().hand_over(RANK, |_| true);
        agent.join().unwrap_or_else(|_| unreachable!("loom stops at the first panic"));
        board.ends(1);
    });
}

#[test]
fn one_holder_at_a_time_finds_what_is_there_and_passes_it_on() {
    check(3, || {
        let board = Board::new();
        let agents = AGENTS.map(|name| {
            let board = board.clone();
            thread::spawn(move || board.agent(name))
        });
        let mut looks = board.rank();
        for agent in agents {
            looks += agent.join().unwrap_or_else(|_| unreachable!("loom stops at the first panic"));
        }
        board.ends(looks);
    });
}

#[test]
fn a_dead_holder_is_replaced_by_one() {
    check(3, || {
        let board = Board::new();
        let [dead, other] = AGENTS;
        assert!(board.look(dead));
        let agent = {
            let board = board.clone();
            thread::spawn(move || board.agent(other))
        };
        board.post().bury(dead);
        let looks = board.rank() + agent.join().unwrap_or_else(|_| unreachable!("loom stops at the first panic"));
        board.ends(looks + 1);
    });
}

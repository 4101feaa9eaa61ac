//! All interleavings of a rank and of agents that come and go, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_boundary_post`.
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::cell::Cell;
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
    found: Cell<u32>,
}

impl Board {
    fn new() -> Arc<Board> {
        Arc::new(Board { holder: AtomicU64::new(0), wish: AtomicU64::new(0), found: Cell::new(0) })
    }
    fn post(&self) -> Post<'_> {
        Post::new(&self.holder, &self.wish)
    }
}

/// An agent or a rank, with what it knows of what was found: nothing until it has read that.
struct Looker {
    board: Arc<Board>,
    name: u64,
    known: Option<u32>,
    looks: u32,
}

impl Looker {
    fn new(board: &Arc<Board>, name: u64) -> Looker {
        Looker { board: board.clone(), name, known: None, looks: 0 }
    }
    /// Looks if it holds the post. Loom fails if two do so at the same time, or one does not see what was found.
    fn look(&mut self) -> bool {
        let Some(taken) = self.board.post().take(self.name) else { return false };
        let known = self.known.filter(|_| !taken.is_new);
        let found = self.board.found.get() + 1;
        self.board.found.set(found);
        assert!(known.is_none_or(|known| known + 1 == found), "{} was not told that another had the post", self.name);
        self.known = Some(found);
        self.looks += 1;
        true
    }
    /// As an agent: looks, or asks and looks, and leaves; how often it has looked.
    fn comes_and_goes(mut self) -> u32 {
        if !self.look() {
            self.board.post().ask(self.name);
        }
        self.look();
        self.board.post().leave(self.name);
        self.looks
    }
    /// As the rank: looks, hands over, and looks again.
    fn exchanges(&mut self) {
        self.look();
        self.board.post().hand_over(RANK, |_| true);
        self.look();
    }
    /// As the rank, after the agents, which have looked so often: none of them has anything.
    fn ends(mut self, looks: u32) {
        let holder = self.board.post().holder();
        assert!(holder == 0 || holder == RANK, "{holder} has left");
        assert!(self.look());
        assert_eq!(self.known, Some(self.looks + looks));
    }
}

fn joined(agent: thread::JoinHandle<u32>) -> u32 {
    agent.join().unwrap_or_else(|_| unreachable!("loom stops at the first panic"))
}

#[test]
fn an_agent_that_looks_and_leaves_while_it_is_handed_the_post_holds_nothing() {
    check(6, || {
        let board = Board::new();
        let mut rank = Looker::new(&board, RANK);
        assert!(rank.look());
        board.post().ask(AGENTS[0]);
        let agent = Looker::new(&board, AGENTS[0]);
        let agent = thread::spawn(move || agent.comes_and_goes());
        rank.exchanges();
        rank.ends(joined(agent));
    });
}

#[test]
fn one_holder_at_a_time_finds_what_is_there_and_passes_it_on() {
    check(3, || {
        let board = Board::new();
        let mut rank = Looker::new(&board, RANK);
        let agents = AGENTS.map(|name| {
            let agent = Looker::new(&board, name);
            thread::spawn(move || agent.comes_and_goes())
        });
        rank.exchanges();
        let looks = agents.map(joined);
        rank.ends(looks.iter().sum());
    });
}

#[test]
fn a_dead_holder_is_replaced_by_one() {
    check(3, || {
        let board = Board::new();
        let [mut dead, other] = AGENTS.map(|name| Looker::new(&board, name));
        let mut rank = Looker::new(&board, RANK);
        assert!(dead.look());
        let agent = thread::spawn(move || other.comes_and_goes());
        board.post().bury(dead.name);
        rank.exchanges();
        rank.ends(joined(agent) + 1);
    });
}

//! A process dies before every single operation on the words of a heap.
//!
//! Whatever it did there, allocated, freed, took over, renamed or buried, and whoever buries it may die over that as well:
//! then whoever is left keeps what is his as it was, no two blocks overlap, nobody holds what was the dead one's, and the
//! heap is as large as a new one: its longest block, as many of the shortest ones, and all places of its crew.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_heap`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use deaths::{before_each, before_some, scripts, words};
use random::Random;
use umbra_core::atomic::{AtomicU64, crash};
use umbra_core::crew::{BuryError, Identity, Member};
use umbra_core::heap::{Block, BlockId, Hand, Heap, Keep, Plan};

const MEMBERS: u16 = 5;

/// What happens before anybody dies. Numbers of blocks are taken modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Before {
    Alloc(u64),
    Free(usize),
    /// By the one who dies first, and is buried by the other one who dies.
    OthersAlloc(u64),
    /// So that the one who dies has spans.
    AllocAndFree(u64),
}

/// What the process does that dies.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u64),
    FreeOwn(usize),
    FreeOthers(usize),
    Own(usize),
    Rename(usize),
    Rest,
    Bury,
}

#[derive(Debug)]
struct Script {
    plan: Plan,
    before: Vec<Before>,
    steps: Vec<Step>,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let plans = [(170, 32, 3), (1 << 12, 32, 0), (1024, 8, 0), (5000, 16, 20), (1 << 14, 8, 0)];
        let (bytes, granule, blocks) = plans[random.index(plans.len())];
        let plan = Plan::new(bytes, granule, blocks, MEMBERS).unwrap();
        let len = |random: &mut Random| {
            let most = [40, 200, bytes / 4, bytes][random.index(4)];
            1 + random.below(most)
        };
        let before = (0..random.below(14)).map(|_| match random.below(8) {
            0..4 => Before::Alloc(len(random)),
            4..6 => Before::Free(random.index(100)),
            6 => Before::OthersAlloc(len(random)),
            _ => Before::AllocAndFree(len(random)),
        });
        let before = before.collect();
        let steps = (0..1 + random.below(3)).map(|_| match random.below(27) {
            0..9 => Step::Alloc(len(random)),
            9..12 => Step::FreeOwn(random.index(100)),
            12..18 => Step::FreeOthers(random.index(100)),
            18..21 => Step::Own(random.index(100)),
            21..24 => Step::Rename(random.index(100)),
            24..26 => Step::Rest,
            _ => Step::Bury,
        });
        Script { plan, before, steps: steps.collect() }
    }
}

fn join(heap: &Heap<'_>, pid: u32) -> Member {
    heap.crew().join(Identity::new(pid, 1)).unwrap()
}

/// How many of the shortest blocks there is room for.
fn shortest(hand: &mut Hand<'_>) -> usize {
    let mut ids = Vec::new();
    while let Ok(block) = hand.alloc(1, 0) {
        ids.push(block.id);
    }
    ids.iter().for_each(|&id| hand.free(id).unwrap());
    ids.len()
}

/// A heap and who uses it.
struct Scene<'a> {
    heap: Heap<'a>,
    survivor: Member,
    burier: Member,
    dying: Member,
    /// Died before.
    other: Member,
    hand: Hand<'a>,
    dying_hand: Hand<'a>,
    /// The survivor's.
    blocks: Vec<Block>,
    /// Of those, what the dying one began to free or to take over.
    touched: Vec<BlockId>,
}

impl<'a> Scene<'a> {
    fn new(memory: &'a [AtomicU64], script: &Script) -> Scene<'a> {
        let heap = Heap::create(memory, script.plan, &[]).unwrap();
        let [survivor, burier, dying, other] = [1, 2, 3, 4].map(|pid| join(&heap, pid));
        let (mut hand, mut dying_hand, mut others_hand) = (heap.hand(survivor), heap.hand(dying), heap.hand(other));
        let mut blocks = Vec::new();
        for &step in &script.before {
            match step {
                Before::Alloc(len) => blocks.extend(hand.alloc(len, 0)),
                Before::Free(_) if blocks.is_empty() => {}
                Before::Free(at) => hand.free(blocks.swap_remove(at % blocks.len()).id).unwrap(),
                Before::OthersAlloc(len) => drop(others_hand.alloc(len, 0)),
                Before::AllocAndFree(len) => {
                    dying_hand.alloc(len, 0).into_iter().for_each(|block| dying_hand.free(block.id).unwrap());
                }
            }
        }
        Scene { heap, survivor, burier, dying, other, hand, dying_hand, blocks, touched: Vec::new() }
    }

    /// One of the survivor's blocks, which is touched now.
    fn touch(&mut self, at: usize) -> Option<BlockId> {
        let id = self.blocks.get(at % self.blocks.len().max(1))?.id;
        self.touched.push(id);
        Some(id)
    }

    /// Whether the process came to the end of its steps.
    fn play(&mut self, steps: &[Step], death: u64) -> bool {
        let mut own = Vec::new();
        let play = || {
            for &step in steps {
                match step {
                    Step::Alloc(len) => own.extend(self.dying_hand.alloc(len, 1).map(|block| block.id)),
                    Step::FreeOwn(at) if !own.is_empty() => {
                        self.dying_hand.free(own.swap_remove(at % own.len())).unwrap();
                    }
                    Step::Rename(at) if !own.is_empty() => {
                        let at = at % own.len();
                        own[at] = self.dying_hand.rename(own[at]).unwrap();
                    }
                    Step::FreeOwn(_) | Step::Rename(_) => {}
                    // The second time it is gone.
                    Step::FreeOthers(at) => drop(self.touch(at).map(|id| self.dying_hand.free(id))),
                    Step::Own(at) => drop(self.touch(at).map(|id| self.dying_hand.own(id))),
                    Step::Rest => self.dying_hand.rest(),
                    Step::Bury => bury_once_more(&self.heap, self.other, self.dying),
                }
            }
        };
        crash::before(death, play).is_some()
    }

    /// The survivor buries the one that died; with care, if he wants to know first what it held.
    fn bury(&mut self, with_care: bool) {
        let (dead, me) = (self.dying, self.survivor.number);
        if !with_care {
            self.heap.bury(dead, me, Keep::Nothing).unwrap();
            return;
        }
        let held = self.heap.held_by(dead.number);
        let ids: Vec<BlockId> = self.heap.blocks().filter(|block| block.owner == dead.number).map(|b| b.id).collect();
        assert_eq!(ids.len(), held);
        match self.heap.bury(dead, me, Keep::Blocks) {
            Ok(_) => assert_eq!(held, 0),
            Err(BuryError::Failed(holds)) => {
                assert!(held > 0 && holds.blocks == held, "{holds:?}, {held}");
                ids.iter().for_each(|&id| self.hand.free(id).unwrap());
                self.heap.bury(dead, me, Keep::Blocks).unwrap();
            }
            refused => panic!("{refused:?}"),
        }
    }

    /// Everything is as if the dead had never been, when so many are buried.
    fn check(&mut self, shortest_blocks: usize, buried: usize) {
        for block in &self.blocks {
            let now = self.heap.block(block.id);
            assert!(now == Ok(*block) || self.touched.contains(&block.id), "{block:?} is {now:?}");
        }
        let mut all: Vec<Block> = self.heap.blocks().collect();
        all.sort_by_key(|block| block.offset);
        for two in all.windows(2) {
            assert!(two[0].offset + two[0].size <= two[1].offset, "{two:?} overlap");
        }
        for block in all {
            assert_eq!(block.owner, self.survivor.number, "{block:?}");
            self.hand.free(block.id).unwrap();
        }
        assert_eq!(self.heap.figures().blocks, 0);
        for _ in 0..2 {
            let longest = self.hand.alloc(self.heap.longest(), 0).unwrap();
            self.hand.free(longest.id).unwrap();
            assert_eq!(shortest(&mut self.hand), shortest_blocks);
        }
        let places = (10..).map_while(|pid| self.heap.crew().join(Identity::new(pid, 1)).ok()).count();
        assert_eq!(places, buried + usize::from(MEMBERS) - 4);
    }
}

/// Somebody who died may have buried it already.
fn bury_once_more(heap: &Heap<'_>, dead: Member, by: Member) {
    let buried = heap.bury(dead, by.number, Keep::Nothing);
    assert!(matches!(buried, Ok(_) | Err(BuryError::Unknown)), "{buried:?}");
}

fn of_a_new_heap(memory: &[AtomicU64], plan: Plan) -> usize {
    let heap = Heap::create(memory, plan, &[]).unwrap();
    shortest(&mut heap.hand(join(&heap, 1)))
}

#[test]
fn of_a_process_that_dies_in_a_heap_nothing_is_left_when_it_is_buried() {
    scripts(500, |seed, random| {
        let script = Script::new(random);
        let memory = words(script.plan.words());
        let shortest_blocks = of_a_new_heap(&memory, script.plan);
        before_each(seed, &script, |death| {
            let mut scene = Scene::new(&memory, &script);
            let is_over = scene.play(&script.steps, death);
            if death.is_multiple_of(3) {
                // Somebody allocates before it is buried.
                scene.blocks.extend(scene.hand.alloc(1 + death * 7 % script.plan.bytes(), 0));
            }
            scene.bury(!death.is_multiple_of(2));
            bury_once_more(&scene.heap, scene.other, scene.survivor);
            scene.check(shortest_blocks, 2);
            is_over
        })
    });
}

#[test]
fn so_it_is_if_whoever_buries_it_dies_over_that() {
    scripts(25, |seed, random| {
        let script = Script::new(random);
        let memory = words(script.plan.words());
        let shortest_blocks = of_a_new_heap(&memory, script.plan);
        let mut deaths = 0;
        before_some(seed, &script, Random(seed), |death| {
            let mut is_over = false;
            deaths += before_some(seed, &"its burial", Random(death), |buriers_death| {
                let mut scene = Scene::new(&memory, &script);
                is_over = scene.play(&script.steps, death);
                let keep = if buriers_death.is_multiple_of(4) { Keep::Blocks } else { Keep::Nothing };
                let bury = || scene.heap.bury(scene.dying, scene.burier.number, keep);
                let is_buried = crash::before(buriers_death, bury).is_some();
                scene.heap.bury(scene.burier, scene.survivor.number, Keep::Nothing).unwrap();
                bury_once_more(&scene.heap, scene.dying, scene.survivor);
                bury_once_more(&scene.heap, scene.other, scene.survivor);
                scene.check(shortest_blocks, 3);
                is_buried
            });
            is_over
        });
        deaths
    });
}

//! Members of a crew: joining, leaving, burying.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use umbra_core::atomic::AtomicU64;
use umbra_core::crew::{BuryError, Crew, Identity, Liveness, MOST, Member};

fn words(members: u16) -> Vec<AtomicU64> {
    (0..Crew::words_for(members)).map(|_| AtomicU64::new(u64::MAX)).collect()
}

/// Those with an odd pid are dead.
struct Even;
impl Liveness for Even {
    fn is_alive(&self, member: Member) -> bool {
        member.identity.pid().is_multiple_of(2)
    }
}

fn nothing(_: Member) -> Result<(), ()> {
    Ok(())
}

#[test]
fn a_number_is_used_again_after_the_burial_in_a_new_generation() {
    let words = words(2);
    let crew = Crew::create(&words);
    let (a, b) = (crew.join(Identity::new(1, 5)).unwrap(), crew.join(Identity::new(2, 5)).unwrap());
    assert_eq!(crew.join(Identity::new(3, 0)).unwrap_err().0, Identity::new(3, 0));
    assert_eq!(crew.bury(a, b.number, nothing), Ok(()));
    assert_eq!(crew.bury(a, b.number, nothing), Err(BuryError::Unknown));
    let c = crew.join(Identity::new(1, 6)).unwrap();
    assert_eq!((c.number, c.generation, c.identity.start()), (a.number, a.generation + 1, 6));
    assert_eq!(crew.bury(a, b.number, nothing), Err(BuryError::Unknown), "another life has the number");
    assert!(crew.members().eq([c, b]));
}

#[test]
fn a_member_leaves_by_burying_itself() {
    let words = words(1);
    let crew = Crew::create(&words);
    let me = crew.join(Identity::new(0, 0)).unwrap();
    assert_eq!(crew.bury(me, me.number, |_| Ok::<_, ()>(7)), Ok(7));
    assert_eq!(crew.members().count(), 0);
}

#[test]
fn one_buries_at_a_time_and_a_failure_leaves_the_member_to_others() {
    let words = words(3);
    let crew = Crew::create(&words);
    let [dead, a, b] = [1, 2, 4].map(|pid| crew.join(Identity::new(pid, 0)).unwrap());
    let failed = crew.bury(dead, a.number, |_| {
        assert_eq!(crew.bury(dead, b.number, nothing), Err(BuryError::InProgress { by: a.number }));
        Err::<(), _>("no")
    });
    assert_eq!(failed, Err(BuryError::Failed("no")));
    assert_eq!(crew.bury(dead, b.number, nothing), Ok(()));
}

#[test]
fn whom_a_dead_member_was_burying_is_buried_after_it() {
    let words = words(4);
    let crew = Crew::create(&words);
    let [first, second, third, me] = [1, 3, 5, 2].map(|pid| crew.join(Identity::new(pid, 0)).unwrap());
    // Each dies over the burial of the one before; the last one also while it leaves.
    let stack = words[..].iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let mut marked = stack.clone();
    for (member, by) in [(first, second), (second, third), (third, third)] {
        let _ = crew.bury(member, by.number, |_| {
            let at = usize::from(member.number) * 16;
            marked[at] = words[at].load(Ordering::Relaxed);
            Err::<(), ()>(())
        });
    }
    assert_ne!(marked, stack);
    words.iter().zip(&marked).for_each(|(word, &now)| word.store(now, Ordering::Relaxed));
    let order = Cell::new(vec![]);
    let buried = crew.bury_dead(me.number, &Even, |member| {
        let mut all = order.take();
        all.push(member.number);
        order.set(all);
        Ok::<_, ()>(())
    });
    assert_eq!((buried, order.into_inner()), (Ok(3), vec![2, 1, 0]));
    assert!(crew.members().eq([me]));
}

#[test]
fn a_crew_of_any_bytes_answers() {
    for fill in [0, 1, u64::MAX, 0x8000_0000_0000_0001] {
        let words: Vec<_> = (0..Crew::words_for(3) + 5).map(|_| AtomicU64::new(fill)).collect();
        let crew = Crew::attach(&words);
        assert_eq!(crew.capacity(), 3);
        for member in crew.members() {
            let _ = crew.bury(member, 2, nothing);
            assert_eq!(crew.bury(member, MOST, nothing), Err(BuryError::Unknown));
        }
        let _ = crew.bury_dead(1, &Even, nothing);
        assert!(crew.pocket(2).is_some() && crew.pocket(3).is_none());
    }
}

#[test]
fn threads_join_and_leave_at_once() {
    let words = words(3);
    let crew = Crew::create(&words);
    let within = [const { AtomicU32::new(0) }; 3];
    std::thread::scope(|scope| {
        for pid in 0..4 {
            let within = &within;
            scope.spawn(move || {
                let mut joined = 0;
                while joined < 2_000 {
                    let Ok(me) = crew.join(Identity::new(pid, 0)) else {
                        std::thread::yield_now();
                        continue;
                    };
                    joined += 1;
                    let number = usize::from(me.number);
                    assert_eq!(within[number].fetch_add(1, Ordering::SeqCst), 0, "a number has one member");
                    within[number].fetch_sub(1, Ordering::SeqCst);
                    crew.bury(me, me.number, nothing).unwrap();
                }
            });
        }
    });
    assert_eq!(crew.members().count(), 0);
}

#[test]
fn a_newcomer_takes_the_place_of_a_dead_member_whose_things_are_given_back() {
    let words = words(3);
    let crew = Crew::create(&words);
    let [keeps, dead, alive] = [1, 3, 4].map(|pid| crew.join(Identity::new(pid, 0)).unwrap());
    let newcomer = Identity::new(6, 7);
    let full = crew.join_or_succeed(newcomer, &Even, |_| Err(()));
    assert_eq!(full.unwrap_err().0, newcomer, "nothing is given back");
    assert!(crew.members().eq([keeps, dead, alive]));
    let placed = crew.join_or_succeed(newcomer, &Even, |member| if member == keeps { Err(()) } else { Ok(()) });
    let expected = Member { number: dead.number, generation: dead.generation + 1, identity: newcomer };
    assert_eq!(placed.unwrap(), expected);
    assert_eq!(crew.succeed(dead, Identity::new(8, 0), nothing), Err(BuryError::Unknown));
    assert!(crew.members().eq([keeps, expected, alive]));
}

#[test]
fn who_dies_while_it_takes_a_dead_ones_place_is_buried_like_any() {
    let words = words(2);
    let crew = Crew::create(&words);
    let [dead, other] = [1, 2].map(|pid| crew.join(Identity::new(pid, 0)).unwrap());
    let newcomer = Identity::new(3, 0);
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        crew.succeed(dead, newcomer, |_| -> Result<(), ()> { panic!("as if it were killed here") })
    }));
    assert!(killed.is_err());
    assert_eq!(crew.bury(dead, other.number, nothing), Err(BuryError::Unknown), "the number names the newcomer");
    let left = crew.member(dead.number).unwrap();
    assert_eq!(left.identity, newcomer);
    assert_eq!(crew.bury(left, other.number, nothing), Ok(()));
    assert_eq!(crew.join(Identity::new(4, 0)).unwrap().number, dead.number);
}

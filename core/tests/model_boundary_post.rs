//! The post of a rank against a plain record of who holds and who wants it.
#![cfg(not(loom))]

use proptest::prelude::*;
use umbra_core::atomic::AtomicU64;
use umbra_core::boundary::{Post, Taken};

/// The rank is 1, agents are larger.
const RANK: u64 = 1;
const NAMES: std::ops::RangeInclusive<u64> = RANK..=4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u64),
    Take(u64),
    HandOver(u64),
    Leave(u64),
    /// A process ends without a word, and somebody finds that out.
    Die(u64),
    Bury(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (RANK + 1..=4).prop_map(Step::Ask),
        NAMES.prop_map(Step::Take),
        NAMES.prop_map(Step::HandOver),
        NAMES.prop_map(Step::Leave),
        NAMES.prop_map(Step::Die),
        NAMES.prop_map(Step::Bury),
    ]
}

proptest! {
    #[test]
    fn a_post_is_held_by_whom_it_was_given_to(steps in proptest::collection::vec(step(), 1..200)) {
        let words = [const { AtomicU64::new(0) }; 2];
        let post = Post::new(&words[0], &words[1]);
        let (mut holder, mut wish) = (None, None);
        let mut dead = Vec::new();
        for step in steps {
            let lives = |name: &u64| !dead.contains(name);
            match step {
                Step::Ask(name) if lives(&name) => {
                    post.ask(name);
                    wish = wish.or(Some(name));
                }
                Step::Take(name) if lives(&name) => {
                    let expected = match holder {
                        None => Some(Taken { is_new: true }),
                        Some(held) => (held == name).then_some(Taken { is_new: false }),
                    };
                    prop_assert_eq!(post.take(name), expected);
                    holder = holder.or(Some(name));
                }
                Step::HandOver(name) if lives(&name) => {
                    post.hand_over(name, |next| lives(&next));
                    if holder == Some(name) {
                        match wish {
                            Some(next) if lives(&next) => holder = wish,
                            _ => wish = None,
                        }
                    }
                }
                Step::Leave(name) if lives(&name) => {
                    post.leave(name);
                    holder = holder.filter(|&held| held != name);
                    wish = wish.filter(|&next| next != name);
                }
                Step::Die(name) => dead.push(name),
                Step::Bury(name) if dead.contains(&name) => {
                    post.bury(name);
                    holder = holder.filter(|&held| held != name);
                }
                _ => {}
            }
            prop_assert_eq!(post.holder(), holder.unwrap_or(0));
        }
    }
}

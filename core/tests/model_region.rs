//! The table of regions against a plain model.
//!
//! Thousands of exports, holds, releases and revocations are drawn at random.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::HashMap;

use proptest::prelude::*;
use umbra_core::endpoints::Shadows;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::region::{AdmitError, Entry, ExportError, Held, HoldError, ImportError, Region, Regions, Secret};

const SECRET: Secret = Secret([7; 32]);

fn shadows(of: &[u32]) -> Shadows {
    of.iter().map(|&n| Sp(n)).collect()
}

fn rank(n: u32) -> Peer {
    Peer::rank(WorldRank(n)).unwrap()
}

fn table(places: usize) -> Regions<Vec<Entry>> {
    Regions::new(vec![Entry::VACANT; places])
}

#[derive(Clone, Debug)]
enum Step {
    Export { base: u64, len: u64, access: u8 },
    Hold { which: usize, offset: u64, len: u64, right: u8, asker: u32 },
    Release { which: usize },
    Revoke { which: usize },
    Force { which: usize },
    Orphan,
}

fn step() -> impl Strategy<Value = Step> {
    let offset = prop_oneof![0u64..70, Just(u64::MAX), Just(u64::MAX - 1)];
    prop_oneof![
        3 => (0u64..1 << 40, 0u64..64, 0u8..4).prop_map(|(base, len, access)| Step::Export { base, len, access }),
        6 => (any::<prop::sample::Index>(), offset.clone(), offset, 1u8..4, 0u32..3).prop_map(
            |(which, offset, len, right, asker)| Step::Hold { which: which.index(64), offset, len, right, asker }
        ),
        4 => (0usize..64).prop_map(|which| Step::Release { which }),
        2 => (0usize..64).prop_map(|which| Step::Revoke { which }),
        1 => (0usize..64).prop_map(|which| Step::Force { which }),
        1 => Just(Step::Orphan),
    ]
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Live,
    Revoking,
    Revoked,
    Orphaned,
}

struct Known {
    region: Region,
    state: State,
    holds: u32,
}

/// What the plain model says about a hold.
fn expected(known: &[Known], at: usize, span: Span, right: Access, asker: Sp) -> Result<u64, Option<HoldError>> {
    let this = &known[at];
    let newer = known[at + 1..].iter().find(|k| k.region.key.region() == this.region.key.region());
    match (newer, this.state) {
        // The table may have reused the place, and then its later fate decides.
        (Some(_), _) => return Err(None),
        (None, State::Orphaned) => return Err(Some(HoldError::OwnerGone)),
        (None, State::Revoking | State::Revoked) => return Err(Some(HoldError::KeyRevoked)),
        (None, State::Live) => {}
    }
    if asker != Sp(0) && asker != Sp(2) {
        return Err(Some(HoldError::NotShadow));
    }
    if !this.region.access.contains(right) {
        return Err(Some(HoldError::PermissionDenied));
    }
    match span.offset.checked_add(span.len) {
        Some(end) if end <= this.region.len => Ok(this.region.base + span.offset),
        _ => Err(Some(HoldError::OutOfBounds)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_table_does_what_a_list_would(places in 1usize..24, steps in proptest::collection::vec(step(), 1..200)) {
        let (owner, life) = (rank(3), Incarnation(77));
        let mut regions = table(places);
        let mut known: Vec<Known> = Vec::new();
        let mut holds: Vec<(usize, Held)> = Vec::new();
        for step in steps {
            match step {
                Step::Export { base, len, access } => {
                    let access = Access::from_bits(access).unwrap();
                    let made = regions.export(owner, life, base, len, access, shadows(&[0, 2]), SECRET);
                    let open = known.iter().filter(|k| matches!(k.state, State::Live | State::Revoking)).count();
                    match made {
                        Ok(region) => {
                            prop_assert!(len > 0 && open < places);
                            prop_assert!(known.iter().all(|k| k.region.key != region.key), "a key is never made twice");
                            known.push(Known { region, state: State::Live, holds: 0 });
                        }
                        Err(ExportError::Full) => prop_assert_eq!(open, places),
                        Err(ExportError::Empty) => prop_assert_eq!(len, 0),
                        Err(other) => prop_assert!(false, "{other}"),
                    }
                }
                Step::Hold { which, offset, len, right, asker } if !known.is_empty() => {
                    let at = which % known.len();
                    let span = Span { key: known[at].region.key, offset, len };
                    let (right, asker) = (Access::from_bits(right).unwrap(), Sp(asker));
                    let got = regions.hold(span, right, asker);
                    match (expected(&known, at, span, right, asker), got) {
                        (Ok(address), Ok(held)) => {
                            prop_assert_eq!(held.address(), address);
                            known[at].holds += 1;
                            holds.push((at, held));
                        }
                        (Err(Some(error)), got) => prop_assert_eq!(got, Err(error)),
                        (Err(None), got) => {
                            let stale = matches!(got, Err(HoldError::StaleKey | HoldError::OwnerGone));
                            prop_assert!(stale, "an old generation opened: {:?}", got);
                        }
                        (Ok(_), Err(error)) => prop_assert!(false, "{error}"),
                    }
                }
                Step::Release { which } if !holds.is_empty() => {
                    let (at, held) = holds.swap_remove(which % holds.len());
                    let acknowledged = regions.release(held);
                    let last = known[at].state == State::Revoking && known[at].holds == 1;
                    prop_assert_eq!(acknowledged, last.then_some(known[at].region.key));
                    known[at].holds = known[at].holds.saturating_sub(1);
                    if last {
                        known[at].state = State::Revoked;
                    }
                }
                Step::Revoke { which } if !known.is_empty() => {
                    let at = which % known.len();
                    if let Ok(revocation) = regions.revoke(known[at].region.key)
                        && known[at].state == State::Live
                    {
                        prop_assert_eq!(revocation.in_flight, known[at].holds);
                        known[at].state = if known[at].holds == 0 { State::Revoked } else { State::Revoking };
                    }
                }
                Step::Force { which } if !known.is_empty() => {
                    let at = which % known.len();
                    let open = matches!(known[at].state, State::Live | State::Revoking);
                    if regions.force(known[at].region.key).is_ok() && open {
                        known[at].state = State::Revoked;
                    }
                }
                Step::Orphan => {
                    let ended = regions.orphan(owner, |_| true);
                    let open = known.iter().filter(|k| matches!(k.state, State::Live | State::Revoking)).count();
                    prop_assert_eq!(ended, open);
                    known.iter_mut().for_each(|k| k.state = State::Orphaned);
                }
                _ => {}
            }
            let live: usize = known.iter().filter(|k| matches!(k.state, State::Live | State::Revoking)).count();
            prop_assert_eq!(regions.iter().count(), live);
        }
    }

    #[test]
    fn regions_of_many_owners_are_found_by_address(owners in 1u32..60, each in 1u64..4) {
        let mut regions = table(8 * owners as usize * each as usize);
        let mut of: HashMap<(u32, u64), Key> = HashMap::new();
        for n in 0..owners {
            for r in 0..each {
                let key = Key::new(rank(n), r as u32, 1);
                let base = 0x1000 * (r + 1);
                let region = Region { key, incarnation: Incarnation(1), base, len: 0x800, access: Access::READ };
                regions.admit(Sp(0), region, shadows(&[0]), SECRET).unwrap();
                of.insert((n, base), key);
            }
        }
        for (&(n, base), &key) in &of {
            for address in [base, base + 0x7ff] {
                prop_assert_eq!(regions.find(rank(n), address).map(|r| r.key), Ok(key));
            }
            prop_assert_eq!(regions.find(rank(n), base + 0x800).map(|r| r.key), Err(HoldError::UnknownRegion));
            let held = regions.hold(Span { key, offset: 0, len: 1 }, Access::READ, Sp(0));
            prop_assert!(held.is_ok());
        }
    }
}

#[test]
fn s49_a_stranger_and_a_wrong_secret_are_refused() {
    let mut regions = table(4);
    let key = regions.export(rank(1), Incarnation(1), 0, 10, Access::READ, shadows(&[4]), SECRET).unwrap().key;
    assert_eq!(regions.authorise(key, &SECRET, Sp(5)), Err(ImportError::NotShadow));
    let mut wrong = SECRET;
    wrong.0[31] ^= 1;
    assert_eq!(regions.authorise(key, &wrong, Sp(4)), Err(ImportError::WrongSecret));
    assert_eq!(Status::from(ImportError::WrongSecret), Status::Unauthenticated);
    assert!(regions.authorise(key, &SECRET, Sp(4)).is_ok());
    let region = *regions.get(key).unwrap();
    assert_eq!(table(4).admit(Sp(5), region, shadows(&[4]), SECRET), Err(AdmitError::NotShadow));
    assert_eq!(format!("{SECRET:?}"), "Secret(..)", "a secret is never printed");
}

#[test]
fn taking_over_the_same_region_twice_changes_nothing_and_another_one_is_refused() {
    let mut regions = table(4);
    let key = Key::new(rank(1), 0, 1);
    let region = Region { key, incarnation: Incarnation(1), base: 64, len: 10, access: Access::READ };
    regions.admit(Sp(0), region, shadows(&[0]), SECRET).unwrap();
    let held = regions.hold(Span { key, offset: 0, len: 1 }, Access::READ, Sp(0)).unwrap();
    regions.admit(Sp(0), region, shadows(&[0]), SECRET).unwrap();
    let other = Region { len: 11, ..region };
    assert_eq!(regions.admit(Sp(0), other, shadows(&[0]), SECRET), Err(AdmitError::Export(ExportError::Conflict)));
    let wraps = Region { key: Key::new(rank(2), 0, 1), base: u64::MAX, len: 2, ..region };
    assert_eq!(regions.admit(Sp(0), wraps, shadows(&[0]), SECRET), Err(AdmitError::Export(ExportError::Conflict)));
    assert_eq!(regions.release(held), None);
}

#[test]
fn a_hold_that_was_forced_out_does_not_disturb_the_next_region_of_its_place() {
    let mut regions = table(1);
    let life = Incarnation(5);
    let first = regions.export(rank(1), life, 0, 10, Access::READ, shadows(&[0]), SECRET).unwrap().key;
    let old = regions.hold(Span { key: first, offset: 0, len: 1 }, Access::READ, Sp(0)).unwrap();
    assert_eq!(regions.force(first).unwrap().in_flight, 1);
    let second = regions.export(rank(1), life, 0, 10, Access::READ, shadows(&[0]), SECRET).unwrap().key;
    let new = regions.hold(Span { key: second, offset: 0, len: 1 }, Access::READ, Sp(0)).unwrap();
    assert_eq!(regions.release(old), None);
    assert_eq!(regions.revoke(second).unwrap().in_flight, 1);
    assert_eq!(regions.release(new), Some(second));
}

#[test]
fn a_hold_from_before_an_owner_was_lost_does_not_count_when_it_exports_the_same_again() {
    let mut regions = table(1);
    let key = Key::new(rank(1), 0, 1);
    let region = Region { key, incarnation: Incarnation(1), base: 64, len: 10, access: Access::READ };
    regions.admit(Sp(0), region, shadows(&[0]), SECRET).unwrap();
    let old = regions.hold(Span { key, offset: 0, len: 1 }, Access::READ, Sp(0)).unwrap();
    regions.orphan(rank(1), |_| true);
    regions.admit(Sp(0), region, shadows(&[0]), SECRET).unwrap();
    assert_eq!((regions.of(&old), regions.fate(&old)), (None, Some(HoldError::StaleKey)));
    let new = regions.hold(Span { key, offset: 0, len: 1 }, Access::READ, Sp(0)).unwrap();
    assert_eq!(regions.revoke(key).unwrap().in_flight, 1);
    assert_eq!(regions.release(old), None);
    assert_eq!(regions.release(new), Some(key));
}

#[test]
fn two_lives_of_an_owner_do_not_share_keys() {
    let key = |life| {
        let mut regions = table(1);
        regions.export(rank(1), Incarnation(life), 0, 1, Access::READ, shadows(&[0]), SECRET).unwrap().key
    };
    let keys: Vec<Key> = (1..=100).map(key).collect();
    let mut different = keys.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), keys.len());
}

//! Memory windows on a real device: bound, used, taken back by a request (s46).
//!
//! Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use umbra::verbs::{Device, Piece, Queue, Region, Remote, VerbsError, Window, Work, WorkKind, WorkStatus};
use umbra_core::key::Access;
use umbra_tests::verbs::{DEPTHS, PAGE, Pair, all, bytes, connect, device, fill, hear};

/// A pair whose second end has memory that only windows open, and a device that has windows.
fn begin() -> Option<(Pair, Arc<Region>, Region)> {
    let device: Arc<Device> = device()?;
    let pair = Pair::new(&device);
    if !device.has_windows() {
        let none = Window::new(&pair.domain).unwrap_err();
        assert!(matches!(none, VerbsError::NoWindows { .. }), "{none}");
        println!("nothing more to see: {none}");
        return None;
    }
    let theirs = Arc::new(pair.memory(4 * PAGE, Access::empty()));
    let ours = pair.memory(PAGE, Access::empty());
    Some((pair, theirs, ours))
}

/// Binds the second page of `theirs` at the second end.
fn bind(pair: &mut Pair, window: &mut Window, theirs: &Arc<Region>, access: Access) -> Remote {
    let opened = pair.ends[1].bind(1, window, theirs, (PAGE, PAGE as u32), access).unwrap();
    let [bound] = hear(&mut pair.ends[1], 1)[..] else { panic!("one completion was asked for") };
    assert_eq!((bound.id, bound.status, bound.kind), (1, WorkStatus::Success, WorkKind::Bind));
    opened
}

fn read(pair: &mut Pair, from: Remote, ours: &Region) -> WorkStatus {
    pair.post(2, Work::Read { from, to: all(ours) });
    pair.hear().status
}

#[test]
fn a_window_opens_its_part_to_its_own_peer_with_its_own_rights() {
    let Some((mut pair, theirs, ours)) = begin() else { return };
    let expected = fill(&theirs, 4);
    let mut window = Window::new(&pair.domain).unwrap();
    let opened = bind(&mut pair, &mut window, &theirs, Access::READ);
    assert_eq!(read(&mut pair, opened, &ours), WorkStatus::Success);
    assert!(bytes(&ours) == expected[PAGE..2 * PAGE]);
    // The region's own key opens nothing; neither does the window further on, nor for writing. How far it reaches soft-RoCE
    // of Linux 6.1 takes from the region: there only what leaves that is refused.
    let region = Remote { rkey: theirs.rkey(), ..opened };
    let in_software = pair.port.device.name().starts_with("rxe");
    let further = if in_software { 2 * PAGE as u64 + 1 } else { 1 };
    let beyond = Remote { address: opened.address + further, ..opened };
    for refused in [region, beyond] {
        assert_eq!(read(&mut pair, refused, &ours), WorkStatus::RemoteAccess, "{refused:?}");
        pair.rebuild();
    }
    let word = Piece { region: &ours, offset: 0, len: 8 };
    pair.post(3, Work::Write { from: word, to: opened, immediate: None });
    assert_eq!(pair.hear().status, WorkStatus::RemoteAccess);
    // Another queue pair of the same domain is not the one that it was bound for.
    let mut other = Pair::new(&pair.port.device);
    let theirs = Arc::new(other.memory(PAGE, Access::empty()));
    let mut stranger = [(); 2].map(|()| Queue::new(&other.domain, &other.port, DEPTHS).unwrap());
    connect(&mut stranger);
    let ours = other.memory(PAGE, Access::empty());
    let mut window = Window::new(&other.domain).unwrap();
    let opened = other.ends[1].bind(1, &mut window, &theirs, (0, PAGE as u32), Access::READ).unwrap();
    assert_eq!(hear(&mut other.ends[1], 1)[0].status, WorkStatus::Success);
    stranger[0].post(&[(4, Work::Read { from: opened, to: all(&ours) })]).unwrap();
    assert_eq!(hear(&mut stranger[0], 1)[0].status, WorkStatus::RemoteAccess);
    assert_eq!(read(&mut other, opened, &ours), WorkStatus::Success);
}

#[test]
fn s46_an_invalidated_key_is_refused_by_the_card_and_the_next_binding_has_another() {
    let Some((mut pair, theirs, ours)) = begin() else { return };
    let mut window = Window::new(&pair.domain).unwrap();
    let mut seen = Vec::new();
    for round in 0..3 {
        let expected = fill(&theirs, round);
        let opened = bind(&mut pair, &mut window, &theirs, Access::READ);
        assert!(!seen.contains(&opened.rkey), "{opened:?} came before");
        seen.push(opened.rkey);
        assert_eq!(read(&mut pair, opened, &ours), WorkStatus::Success);
        assert!(bytes(&ours) == expected[PAGE..2 * PAGE]);
        pair.ends[1].invalidate(5, &window).unwrap();
        let ended = hear(&mut pair.ends[1], 1)[0];
        assert_eq!((ended.id, ended.status, ended.kind), (5, WorkStatus::Success, WorkKind::Invalidate));
        // Poisoned: not one of these bytes may move, by this key or an earlier one.
        theirs.segment().write(0, &[0xEE; 4 * PAGE]).unwrap();
        for &rkey in &seen {
            assert_eq!(read(&mut pair, Remote { rkey, ..opened }, &ours), WorkStatus::RemoteAccess);
            pair.rebuild();
        }
        assert!(bytes(&ours) == expected[PAGE..2 * PAGE]);
    }
}

#[test]
fn a_dropped_window_ends_its_key_and_leaves_the_region() {
    let Some((mut pair, theirs, ours)) = begin() else { return };
    let mut window = Window::new(&pair.domain).unwrap();
    let opened = bind(&mut pair, &mut window, &theirs, Access::READ | Access::WRITE);
    let word = Piece { region: &ours, offset: 0, len: 8 };
    fill(&ours, 8);
    pair.post(3, Work::Write { from: word, to: opened, immediate: None });
    assert_eq!(pair.hear().status, WorkStatus::Success);
    assert!(bytes(&theirs)[PAGE..PAGE + 8] == bytes(&ours)[..8]);
    drop(window);
    assert_eq!(read(&mut pair, opened, &ours), WorkStatus::RemoteAccess);
    pair.rebuild();
    let mut window = Window::new(&pair.domain).unwrap();
    let outside = pair.ends[1].bind(1, &mut window, &theirs, (3 * PAGE, 2 * PAGE as u32), Access::READ);
    assert!(matches!(outside, Err(VerbsError::OutOfBounds { .. })), "{outside:?}");
    let opened = bind(&mut pair, &mut window, &theirs, Access::READ);
    assert_eq!(read(&mut pair, opened, &ours), WorkStatus::Success);
}

//! Taking registered memory back from a device, and knowing when that failed (s46).
//!
//! Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use umbra::verbs::{
    HeapRegion, Piece, Region, Remote, StillRegistered, VerbsError, Window, Work, WorkStatus, never_taken_back,
};
use umbra_core::key::Access;
use umbra_tests::verbs::{PAGE, Pair, all, at, bytes, device, fill, hear};

/// A pair, and a region at its second end that nobody here holds any more, but a window that is bound to it.
fn forgotten() -> Option<(Pair, Region, Window, Remote)> {
    let device = device()?;
    let mut pair = Pair::new(&device);
    if !device.has_windows() {
        println!("nothing more to see: {} has no windows", device.name());
        return None;
    }
    let [first, second] = [(); 2].map(|()| Arc::new(pair.memory(PAGE, Access::empty())));
    fill(&first, 3);
    let mut window = Window::new(&pair.domain).unwrap();
    let opened = pair.ends[1].bind(1, &mut window, &first, (0, PAGE as u32), Access::READ).unwrap();
    assert_eq!(hear(&mut pair.ends[1], 1)[0].status, WorkStatus::Success);
    // Bound a second time and not invalidated before, which the card refuses: it stays bound to the first region, while the
    // window has let go of it.
    pair.ends[1].bind(2, &mut window, &second, (0, PAGE as u32), Access::READ).unwrap();
    assert_ne!(hear(&mut pair.ends[1], 1)[0].status, WorkStatus::Success);
    pair.rebuild();
    Some((pair, Arc::into_inner(first).unwrap(), window, opened))
}

#[test]
fn s46_what_the_card_does_not_forget_is_not_given_back_until_it_does() {
    let Some((mut pair, first, window, _)) = forgotten() else { return };
    let expected = bytes(&first);
    let StillRegistered { region, error } = first.close().unwrap_err();
    assert!(matches!(error, VerbsError::StillRegistered(_)), "{error}");
    assert!(error.to_string().contains("bound windows"), "{error}");
    assert!(bytes(&region) == expected, "the memory is there as it was");
    let key = at(&region, 0);
    drop(window);
    let segment = region.close().unwrap();
    assert!(Arc::into_inner(segment).is_some(), "it is its owner's alone");
    let ours = pair.memory(PAGE, Access::empty());
    pair.post(3, Work::Read { from: key, to: all(&ours) });
    assert_eq!(pair.hear().status, WorkStatus::RemoteAccess);
}

#[test]
fn s46_dropped_memory_that_the_card_does_not_forget_is_counted_and_stays_mapped() {
    let Some((pair, first, window, _)) = forgotten() else { return };
    let before = never_taken_back();
    let segment = Arc::downgrade(first.segment());
    drop(first);
    assert_eq!(never_taken_back(), before + 1);
    assert!(segment.upgrade().is_some(), "what the card may reach is not unmapped");
    // What is taken back is not counted.
    drop(window);
    drop(pair.memory(PAGE, Access::READ));
    pair.memory(PAGE, Access::READ).close().unwrap();
    assert_eq!(never_taken_back(), before + 1);
}

#[test]
fn bytes_of_the_heap_are_read_where_they_are_and_come_back_unmoved() {
    let Some(device) = device() else { return };
    let mut pair = Pair::new(&device);
    // Neither begins nor ends with a page.
    let expected: Vec<u8> = (0..3 * PAGE + 77).map(|at| (at as u8).wrapping_mul(13) ^ (at >> 8) as u8).collect();
    let (heap, place) = (expected.clone(), expected.len() as u32);
    let before = heap.as_ptr();
    let theirs = HeapRegion::register_bytes(&pair.domain, heap).unwrap();
    let ours = pair.memory(4 * PAGE, Access::empty());
    let to = Piece { region: &ours, offset: 5, len: place };
    let from = Remote { address: theirs.address(0), rkey: theirs.rkey() };
    pair.post(1, Work::Read { from, to });
    assert_eq!(pair.hear().status, WorkStatus::Success);
    assert!(bytes(&ours)[5..5 + expected.len()] == expected);
    // Nobody may write it, or read a byte more.
    let word = Piece { region: &ours, offset: 0, len: 8 };
    let beyond = Remote { address: theirs.address(expected.len() - 7), ..from };
    for refused in [Work::Write { from: word, to: from, immediate: None }, Work::Read { from: beyond, to: word }] {
        pair.post(2, refused);
        assert_eq!(pair.hear().status, WorkStatus::RemoteAccess, "{refused:?}");
        pair.rebuild();
    }
    let back = Arc::into_inner(theirs.close().unwrap()).unwrap();
    assert!(back == expected && back.as_ptr() == before);
    pair.post(3, Work::Read { from, to: word });
    assert_eq!(pair.hear().status, WorkStatus::RemoteAccess);
}

//! What the machine can lose under verbs, and get back.
//!
//! That is the link, the address, the packets' size, the device, the library, and the right to lock memory.
//!
//! These tests change the machine's network and run only where `UMBRA_TEST_LINK` names an interface that is theirs,
//! with a soft-RoCE device on it: one that `cargo xtask rdma` has made.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use umbra::sys::segment::Segment;
use umbra::verbs::{Completion, Device, Domain, Queue, Region, VerbsError, Work, WorkStatus, devices};
use umbra_core::key::Access;
use umbra_tests::machine::{child, is_child, link, passed, system, until, up};
use umbra_tests::verbs::{DEPTHS, PAGE, Pair, all, at, bytes, connect, device, fill};

/// Keeps reads under way until one fails, and hears the ends of all; none if the device stays silent for ten seconds.
fn read_until_it_breaks(queue: &mut Queue, read: Work<'_>, through: &AtomicUsize) -> Option<Vec<Completion>> {
    let (mut posted, mut ended) = (0, Vec::new());
    let mut heard = Instant::now();
    let mut whole = true;
    while whole || (ended.len() as u64) < posted {
        while whole && posted - (ended.len() as u64) < 32 {
            whole = queue.post(&[(posted, read)]).is_ok();
            posted += u64::from(whole);
        }
        let before = ended.len();
        queue.wait(Duration::from_millis(50), &mut |done| ended.push(done)).unwrap();
        whole &= ended.last().is_none_or(|done| done.status == WorkStatus::Success);
        if whole {
            through.store(ended.len(), Ordering::Relaxed);
        }
        if ended.len() > before {
            heard = Instant::now();
        } else if heard.elapsed() > Duration::from_secs(10) {
            return None;
        }
    }
    Some(ended)
}

#[test]
fn a_link_that_goes_down_in_mid_read_ends_every_read_and_comes_back_without_a_leak() {
    let Some((link, device)) = link().zip(device()) else { return };
    let held = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        (system("rdma resource show"), files)
    };
    let before = held();
    let mut heard = 0;
    for round in 0..8 {
        if heard == 3 {
            break;
        }
        let mut pair = Pair::new(&device);
        let (theirs, ours) = (pair.memory(256 * PAGE, Access::READ), pair.memory(256 * PAGE, Access::empty()));
        let expected = fill(&theirs, round);
        let read = Work::Read { from: at(&theirs, 0), to: all(&ours) };
        let through = AtomicUsize::new(0);
        let ended = std::thread::scope(|scope| {
            let cut = scope.spawn(|| {
                until("reads went through", || through.load(Ordering::Relaxed) >= 4);
                system(&format!("ip link set {link} down"));
            });
            let ended = read_until_it_breaks(&mut pair.ends[0], read, &through);
            cut.join().unwrap();
            ended
        });
        // Now and then soft-RoCE loses requests for good with the link. Its user has to give the queue pair up.
        let Some(ended) = ended else {
            up(&link);
            pair.rebuild();
            pair.post(100, read);
            assert_eq!(pair.hear().status, WorkStatus::Success);
            assert!(bytes(&ours) == expected);
            continue;
        };
        heard += 1;
        // Each read ends once, in order: whole ones, the one that was cut off, and those behind it.
        assert!(ended.iter().map(|done| done.id).eq(0..ended.len() as u64), "{ended:?}");
        let broke = ended.iter().position(|done| done.status != WorkStatus::Success).unwrap();
        assert!(broke > 0, "reads went through before");
        // Nobody answered, or soft-RoCE found no way to ask.
        let cut = [WorkStatus::RetryExceeded, WorkStatus::LocalQueueOperation];
        assert!(cut.contains(&ended[broke].status), "{:?}", ended[broke]);
        assert!(ended[broke + 1..].iter().all(|done| done.status == WorkStatus::Flushed), "{ended:?}");
        assert!(ended.len() > broke + 1, "reads were under way behind it");
        assert!(matches!(pair.ends[0].post(&[(99, read)]), Err(VerbsError::NotConnected)));
        up(&link);
        pair.rebuild();
        ours.segment().write(0, &[0; PAGE]).unwrap();
        pair.post(100, read);
        assert_eq!(pair.hear().status, WorkStatus::Success);
        assert!(bytes(&ours) == expected);
    }
    assert!(heard > 0, "a device that never tells that the link is gone");
    until("everything is given back", || held() == before);
}

#[test]
fn a_port_that_is_down_is_named_with_its_remedy() {
    let Some((link, device)) = link().zip(device()) else { return };
    let mut pair = Pair::new(&device);
    system(&format!("ip link set {link} down"));
    let down = device.active_port(1, None).unwrap_err();
    let text = down.to_string();
    assert!(matches!(down, VerbsError::PortNotActive { port: 1, .. }), "{down:?}");
    assert!(text.contains("down") && text.contains("bring its link up"), "{text}");
    pair.ends.iter_mut().for_each(|end| end.reset().unwrap());
    let there = pair.ends[1].address();
    let unreachable = pair.ends[0].connect(&there).unwrap_err();
    assert!(matches!(unreachable, VerbsError::Unreachable { .. }), "{unreachable:?}");
    up(&link);
    pair.rebuild();
}

#[test]
fn an_address_that_is_not_there_or_went_away_is_named_with_its_remedy() {
    let Some((link, device)) = link().zip(device()) else { return };
    let missing = device.active_port(1, Some(200)).unwrap_err();
    let text = missing.to_string();
    assert!(matches!(missing, VerbsError::NoSuchGid { port: 1, index: 200, .. }), "{missing:?}");
    assert!(text.contains("200") && text.contains("umbra devices"), "{text}");
    system(&format!("ip address add 10.99.7.1/24 dev {link}"));
    let second = || device.port(1).unwrap().gids.into_iter().find(|gid| gid.to_string() == "10.99.7.1");
    until("the second address is there", || second().is_some());
    let port = device.active_port(1, second().map(|gid| gid.index)).unwrap();
    let domain = Domain::new(&device).unwrap();
    let mut ends = [(); 2].map(|()| Queue::new(&domain, &port, DEPTHS).unwrap());
    connect(&mut ends);
    ends.iter_mut().for_each(|end| end.reset().unwrap());
    system(&format!("ip address del 10.99.7.1/24 dev {link}"));
    until("the second address is gone", || second().is_none());
    let there = ends[1].address();
    let gone = ends[0].connect(&there).unwrap_err();
    assert!(matches!(gone, VerbsError::NoSuchGid { .. } | VerbsError::Unreachable { .. }), "{gone:?}");
}

#[test]
fn packets_that_the_port_does_not_take_any_more_are_named_with_their_remedy() {
    let Some((link, device)) = link().zip(device()) else { return };
    let mut pair = Pair::new(&device);
    let before = device.port(1).unwrap().mtu;
    pair.ends.iter_mut().for_each(|end| end.reset().unwrap());
    system(&format!("ip link set {link} mtu 700"));
    until("the port takes smaller packets", || device.port(1).unwrap().mtu < before);
    let there = pair.ends[1].address();
    let refused = pair.ends[0].connect(&there).unwrap_err();
    assert!(matches!(refused, VerbsError::Mtu { wanted, takes: 512, .. } if wanted == before), "{refused:?}");
    assert!(refused.to_string().contains("MTU"), "{refused}");
    // Where both ends know what their ports take, they agree on the smaller packets.
    let small = device.active_port(1, None).unwrap();
    system(&format!("ip link set {link} mtu 1500"));
    until("the port takes its packets again", || device.port(1).unwrap().mtu == before);
    pair.ends[1] = Queue::new(&pair.domain, &small, DEPTHS).unwrap();
    pair.rebuild();
    let (theirs, ours) = (pair.memory(8 * PAGE, Access::READ), pair.memory(8 * PAGE, Access::empty()));
    let expected = fill(&theirs, 6);
    pair.post(1, Work::Read { from: at(&theirs, 0), to: all(&ours) });
    assert_eq!(pair.hear().status, WorkStatus::Success);
    assert!(bytes(&ours) == expected);
}

#[test]
fn a_machine_without_a_device_says_how_to_get_one() {
    let Some(link) = link() else { return };
    system("rdma link delete rxe0");
    assert_eq!(devices().unwrap(), Vec::<String>::new());
    let none = Device::open(None).unwrap_err();
    assert!(matches!(none, VerbsError::NoDevice), "{none:?}");
    assert!(none.to_string().contains("rdma link add"), "{none}");
    system(&format!("rdma link add rxe0 type rxe netdev {link}"));
    up(&link);
}

#[test]
fn a_library_that_cannot_be_loaded_says_what_to_install() {
    if is_child() {
        let missing = devices().unwrap_err();
        assert!(matches!(missing, VerbsError::NoLibrary(_)), "{missing:?}");
        assert!(missing.to_string().contains("install libibverbs1"), "{missing}");
        return;
    }
    if umbra::verbs::LINKED {
        println!("no library: no program then, it is linked");
        return;
    }
    // What is found first is no library: as if there were none.
    let folder = std::env::temp_dir().join(format!("umbra-no-library-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libibverbs.so.1"), "not a library").unwrap();
    let child = child("a_library_that_cannot_be_loaded_says_what_to_install", |command| {
        command.env("LD_LIBRARY_PATH", &folder);
    });
    std::fs::remove_dir_all(&folder).unwrap();
    passed(&child);
}

#[test]
fn memory_beyond_the_limit_is_refused_with_the_limit_and_the_remedy() {
    if is_child() {
        // Root may lock as much as it likes; here it gives that up.
        let mut own = capabilities(None).unwrap();
        own.effective.remove(CapabilitySet::IPC_LOCK);
        own.permitted.remove(CapabilitySet::IPC_LOCK);
        set_capabilities(None, own).unwrap();
        let limit = 64 * 1024;
        setrlimit(Resource::Memlock, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
        let domain = Domain::new(&Device::open(None).unwrap()).unwrap();
        let register = |len| {
            let segment = Arc::new(Segment::create("locked", len).unwrap());
            Region::register(&domain, segment, Access::READ)
        };
        // At once, and in sum.
        let _first = register(10 * PAGE).unwrap();
        for len in [100 * PAGE, 10 * PAGE] {
            let refused = register(len).unwrap_err();
            assert!(
                matches!(refused, VerbsError::LockedMemory { len: told, limit: 65536, .. } if told == len),
                "{refused:?}"
            );
            assert!(refused.to_string().contains("ulimit -l"), "{refused}");
        }
        return;
    }
    if device().is_none() {
        return;
    }
    passed(&child("memory_beyond_the_limit_is_refused_with_the_limit_and_the_remedy", |_| ()));
}

//! What pools are made of, and work on allocations' contents: A12, A13, A22.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use umbra::pool::{Attributes, Error, Memory, Pool, list_in};
use umbra::sys::segment::SegmentError;

const MIB: u64 = 1 << 20;

fn of(memory: Memory) -> Attributes {
    Attributes { bytes: MIB, memory, ..Attributes::default() }
}

fn is_usable(pool: &Pool, bytes: u64) {
    let small = pool.alloc(100, 0).unwrap();
    small.write(95, b"ends.").unwrap();
    small.free().unwrap();
    let all = pool.alloc(bytes, 0).unwrap();
    all.write(bytes - 1, &[1]).unwrap();
    all.free().unwrap();
}

#[test]
fn a_pool_in_a_folder_is_private_and_gone_at_the_end() {
    let folder = std::env::temp_dir().join(format!("umbra-pool-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let in_folder = of(Memory::Folder(folder.clone()));
    assert!(matches!(Pool::create(None, &in_folder), Err(Error::Unnamed(Memory::Folder(_)))));
    let pool = Pool::create(Some("kept"), &in_folder).unwrap();
    is_usable(&pool, MIB);
    assert_eq!((list_in(&folder).unwrap(), pool.memory()), (vec!["kept".to_owned()], "files"));
    for entry in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let theirs = Pool::attach_in(&folder, "kept").unwrap();
    assert!(Pool::attach("kept").is_err(), "it is not in /dev/shm");
    let allocation = theirs.alloc(10, 0).unwrap();
    allocation.write(0, b"shared").unwrap();
    let by_bytes = Pool::attach_reference(&pool.reference().unwrap()).unwrap();
    let mut bytes = [0; 6];
    by_bytes.allocation(allocation.id()).unwrap().read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"shared");
    drop(pool);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir(&folder).unwrap();
    assert!(matches!(Pool::create(Some("none"), &in_folder), Err(Error::File { .. })), "the folder is gone");
}

#[test]
fn private_memory_is_nobody_elses() {
    let private = of(Memory::Private);
    assert_eq!(Pool::create(Some("private"), &private).unwrap_err(), Error::Unnamed(Memory::Private));
    let pool = Pool::create(None, &private).unwrap();
    is_usable(&pool, MIB);
    assert_eq!(pool.share().unwrap_err(), Error::Segment(SegmentError::Private));
    assert_eq!(pool.reference().unwrap_err(), Error::Segment(SegmentError::Private));
    assert_eq!(pool.memory(), "private memory");
}

#[test]
fn a_pool_in_the_callers_memory() {
    let attributes = of(Memory::Private);
    let words = attributes.words().unwrap();
    let memory = Box::leak(vec![u64::MAX; words].into_boxed_slice());
    let pool = Pool::create_in(memory, &attributes).unwrap();
    is_usable(&pool, MIB);
    assert!(pool.share().is_err());
    let short = Box::leak(vec![0; words - 1].into_boxed_slice());
    assert!(matches!(Pool::create_in(short, &attributes), Err(Error::Plan(_))));
}

#[test]
fn huge_pages_are_used_or_their_lack_is_said() {
    let huge = of(Memory::HugePages);
    assert_eq!(Pool::create(Some("huge"), &huge).unwrap_err(), Error::Unnamed(Memory::HugePages));
    match Pool::create(None, &huge) {
        Ok(pool) => {
            is_usable(&pool, 2 * MIB);
            let [manifest, data] = pool.share().unwrap();
            is_usable(&Pool::attach_shared(manifest, data).unwrap(), 2 * MIB);
        }
        Err(error) => {
            assert!(matches!(error, Error::HugePages { len: 0x20_0000, .. }), "{error}");
            assert!(error.to_string().contains("vm.nr_hugepages"));
        }
    }
}

#[test]
fn a22_contents_are_compared_copied_and_cleared() {
    let make = |bytes| Pool::create(None, &Attributes { bytes, ..Attributes::default() }).unwrap();
    let (pool, other) = (make(MIB), make(64 << 10));
    let (a, b) = (pool.alloc(10_000, 5).unwrap(), pool.alloc(10_000, 5).unwrap());
    let bytes: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
    a.write(0, &bytes).unwrap();
    b.clear(0, 10_000).unwrap();
    assert!(!a.equals(&b).unwrap() && a.hash().unwrap() != b.hash().unwrap());
    a.copy_to(&b).unwrap();
    assert!(a.equals(&b).unwrap() && a.hash() == b.hash() && !a.is_same(&b));
    assert!(!a.equals(&b.part(0, 9_999).unwrap()).unwrap());
    // The digest is that of the bytes, wherever they lie.
    let digest = umbra_digest(&bytes);
    assert_eq!(a.hash().unwrap(), digest);

    let copy = a.copy_into(&other, Duration::ZERO).unwrap();
    assert!(copy.equals(&a).unwrap());
    assert_eq!(other.blocks().map(|block| block.kind).collect::<Vec<_>>(), [5]);
    let all = other.figures().longest_free;
    let _rest = other.alloc(all, 0).unwrap();
    let start = std::time::Instant::now();
    while other.alloc(5_000, 0).is_ok() {}
    let late = a.copy_into(&other, Duration::from_millis(50)).unwrap_err();
    assert!(late == Error::Timeout { len: 10_000 } && start.elapsed() >= Duration::from_millis(50));

    let part = a.part(100, 200).unwrap();
    part.clear(50, 100).unwrap();
    let mut seen = vec![0; 300];
    a.read(0, &mut seen).unwrap();
    assert_eq!((&seen[..150], &seen[150..250], &seen[250..]), (&bytes[..150], &[0; 100][..], &bytes[250..300]));
    for (offset, len) in [(0, 201), (201, 0), (u64::MAX, 2), (1, u64::MAX)] {
        assert_eq!(part.clear(offset, len).unwrap_err(), Error::OutOfBounds { offset, len, size: 200 });
    }
    assert!(part.is_same(&a) && part.whole().unwrap().len() == 10_000);
    part.free().unwrap();
    assert_eq!(
        (a.hash(), a.equals(&b), a.whole().map(drop)),
        (Err(Error::Stale), Err(Error::Stale), Err(Error::Stale))
    );
}

fn umbra_digest(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*blake3::hash(bytes).as_bytes().first_chunk().unwrap())
}

/// Joins the pool that its environment names, takes a block if it shall, and dies; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Ok(task) = std::env::var("UMBRA_TEST_JOIN") else { return };
    let (name, blocks) = task.split_once(' ').unwrap();
    let pool = Pool::attach(name).unwrap();
    for _ in 0..blocks.parse().unwrap() {
        pool.alloc(64, 0).unwrap();
    }
    // Neither leaves nor frees.
    std::process::abort();
}

#[test]
fn dead_members_make_room_for_newcomers_those_without_blocks_first() {
    let name = format!("crowd-{}", std::process::id());
    let pool = Pool::create(Some(&name), &Attributes { members: 3, ..of(Memory::Shared) }).unwrap();
    let die = |blocks: u32| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "another_process", "--nocapture"])
            .env("UMBRA_TEST_JOIN", format!("{name} {blocks}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let id = umbra::sys::process::ProcessId::of(child.id()).unwrap();
        assert!(!child.wait().unwrap().success());
        id
    };
    let (holder, empty) = (die(2), die(0));
    assert_eq!(pool.allocations_of(holder).len(), 2);
    let newcomer = Pool::attach(&name).unwrap();
    let ours = newcomer.alloc(64, 0).unwrap();
    assert_eq!(pool.allocations_of(holder).len(), 2, "the place of the one without blocks was taken");
    assert!(pool.free_allocations_of(empty).is_ok_and(|freed| freed == 0));
    // Now only that of the one with blocks is left.
    let last = Pool::attach(&name).unwrap();
    assert_eq!((pool.allocations_of(holder).len(), pool.blocks().count()), (0, 3));
    assert_eq!(Pool::attach(&name).unwrap_err(), Error::Members { members: 3 }, "all of them live");
    drop(last);
    assert!(ours.exists());
}

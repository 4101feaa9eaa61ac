//! Descriptors of groups, as they come in the first contact about a group.

use umbra_core::endpoints::{Descriptor, JobKey};
use umbra_core::peer::{Rank, WorldRank};

/// The world, a row, a column, and a group without any pattern.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut buffer = [0; 1024];
    let world = Descriptor::write_world(0, 64, &mut buffer).expect("the world fits").bytes().to_vec();
    let groups: [&[u32]; 4] = [&[8, 9, 10, 11], &[1, 9, 17, 25], &[5, 3, 60, 2, 1, 0], &[7]];
    let group = |members: &&[u32]| {
        let mut buffer = [0; 1024];
        let members = members.iter().map(|&rank| WorldRank(rank));
        Descriptor::write(4, members, &mut buffer).expect("a small group fits").bytes().to_vec()
    };
    groups.iter().map(group).chain([world]).collect()
}

/// What parses is canonical: writing its members again gives the same bytes, and so the same key.
pub(super) fn feed(bytes: &[u8]) {
    let descriptor = match Descriptor::parse(bytes) {
        Ok(descriptor) => descriptor,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(descriptor.bytes(), bytes);
    assert_eq!(descriptor.world_rank_of(Rank(0)), Some(descriptor.lead()));
    assert_eq!(descriptor.world_rank_of(Rank(descriptor.size())), None);
    // A few bytes may rightly describe millions of members; what follows costs time for each.
    if descriptor.size() > 4096 {
        return;
    }
    let mut seen = vec![0; 1 << 17];
    if descriptor.check_distinct(&mut seen).is_ok() {
        for (at, member) in descriptor.members().iter().enumerate().take(16) {
            assert_eq!(descriptor.rank_of(member), Some(Rank(at as u32)));
        }
    }
    let mut buffer = vec![0; Descriptor::bytes_needed(descriptor.size())];
    let again = if descriptor.is_world() {
        Descriptor::write_world(descriptor.id(), descriptor.size(), &mut buffer)
    } else {
        Descriptor::write(descriptor.id(), descriptor.members().iter(), &mut buffer)
    };
    let again = again.expect("members of a valid group make a group");
    assert_eq!(again.bytes(), bytes);
    let key = JobKey::new([3; 16]);
    assert_eq!(key.group(&again), key.group(&descriptor));
}

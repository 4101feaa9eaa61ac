//! Entries of a group's ranks, as service processes exchange them.

use umbra_core::endpoints::{Cursor, Descriptor, EntryRun, JobKey, Shape, TableBuilder};
use umbra_core::peer::{Host, LocalRank, Rank, WorldRank};
use umbra_core::placement::Placement;

/// Hosts, service processes a DPU, ranks a host, shadows a rank: small, so that inputs hit.
const JOB: (u32, u32, u32, u32) = (2, 2, 4, 2);

/// All entries, those of one host, and single ones.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (hosts, _, local, _) = JOB;
    let wanted: [fn(Rank) -> bool; 4] = [|_| true, |rank| rank.0 < 4, |rank| rank.0 == 5, |rank| rank.0 % 3 == 0];
    let written = |keep: &fn(Rank) -> bool| {
        let mut builder = empty();
        for rank in 0..hosts * local {
            let entry = job().entry(WorldRank(rank), Host(rank / local), LocalRank(rank % local));
            let entry = entry.expect("the job has this rank");
            builder.set(Rank(rank), &entry).expect("the entry is new");
        }
        runs_of(&mut builder, *keep)
    };
    wanted.iter().map(written).collect()
}

/// A message is taken whole or not at all; taken twice it adds nothing; what was taken can be told again.
pub(super) fn feed(bytes: &[u8]) {
    let mut builder = empty();
    let before = builder.count();
    match builder.merge_runs(bytes, &job()) {
        Ok(added) => {
            assert_eq!(builder.count(), before + added);
            assert_eq!(builder.merge_runs(bytes, &job()), Ok(0));
            let told = runs_of(&mut builder, |_| true);
            let mut other = empty();
            assert_eq!(other.merge_runs(&told, &job()), Ok(added));
            assert!((0..builder.shape().size).all(|rank| other.get(Rank(rank)) == builder.get(Rank(rank))));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_eq!(builder.count(), before);
            assert_eq!(builder.present().count(), before as usize);
        }
    }
}

fn job() -> Placement<'static> {
    Placement::one_dpu_a_host(JOB.0, JOB.1, JOB.3).expect("the job is a job")
}

fn empty() -> TableBuilder<Vec<u8>> {
    let mut buffer = [0; Descriptor::WORLD_BYTES];
    let world = Descriptor::write_world(0, JOB.0 * JOB.2, &mut buffer).expect("the world fits");
    let shape = Shape::new(&world, JobKey::new([1; 16]).group(&world), &job());
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).expect("the storage suffices");
    // One rank is known already, so that a contradiction can come up.
    let entry = job().entry(WorldRank(3), Host(0), LocalRank(3)).expect("the job has this rank");
    builder.set(Rank(3), &entry).expect("the entry is new");
    builder
}

fn runs_of(builder: &mut TableBuilder<Vec<u8>>, keep: impl Fn(Rank) -> bool + Copy) -> Vec<u8> {
    let (mut cursor, mut told) = (Cursor::default(), Vec::new());
    let mut buffer = [0; EntryRun::BYTES_MAX];
    while !cursor.is_done() {
        let length = builder.write_runs(&mut cursor, &mut buffer, keep);
        assert!(length > 0 || cursor.is_done(), "a buffer for the longest run makes progress");
        told.extend_from_slice(&buffer[..length]);
    }
    told
}

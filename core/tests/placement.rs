//! The shape of a job: who serves whom.
#![allow(missing_docs)]

use umbra_core::endpoints::{Entry, Shadows};
use umbra_core::peer::{Dpu, Host, LocalRank, Sp, SpLid, WorldRank};
use umbra_core::placement::{Misplaced, Placement, PlacementError};

#[test]
fn s08_of_five_local_ranks_service_process_0_waits_for_three_and_1_for_two() {
    let job = Placement::one_dpu_a_host(1, 2, 1).unwrap();
    assert_eq!(job.expected_ranks(Sp(0), 5), Some(3));
    assert_eq!(job.expected_ranks(Sp(1), 5), Some(2));
    assert_eq!(job.expected_ranks(Sp(2), 5), None);
    assert_eq!(job.expected_local_ranks(Sp(1), 5).collect::<Vec<_>>(), [LocalRank(1), LocalRank(3)]);
    assert_eq!(job.expected_local_ranks(Sp(2), 5).count(), 0);
}

#[test]
fn dpus_may_be_listed_in_another_order_than_hosts_and_a_host_may_have_several() {
    // DPU 0 and 3 on host 1, DPU 1 on host 2, DPU 2 on host 0; three service processes each.
    let host_of = [Host(1), Host(2), Host(0), Host(1)];
    let mut storage = [0; 16];
    let job = Placement::listed(&mut storage, 3, &host_of, 3, 2).unwrap();
    assert_eq!(job.service_processes_of(Host(1)).collect::<Vec<_>>(), [0, 1, 2, 9, 10, 11].map(Sp));
    assert_eq!(job.sp_of(Host(1), LocalRank(4)), Some(Sp(10)));
    assert_eq!(job.shadows(Host(1), LocalRank(5)).as_slice(), [Sp(11), Sp(9)]);
    assert_eq!(job.sp_of(Host(0), LocalRank(4)), Some(Sp(7)));
    assert_eq!(job.dpu_of(Sp(11)), Some(Dpu(3)));
    assert_eq!(job.lid_of(Sp(11)), Some(SpLid(2)));
    assert_eq!(job.host_of(Sp(11)), Some(Host(1)));
    assert_eq!(job.host_of(Sp(12)), None);
    for n_local in 0..40 {
        for host in (0..3).map(Host) {
            for sp in job.service_processes_of(host) {
                let served: Vec<_> =
                    (0..n_local).map(LocalRank).filter(|&local| job.sp_of(host, local) == Some(sp)).collect();
                assert_eq!(job.expected_ranks(sp, n_local), Some(served.len() as u32));
                assert_eq!(job.expected_local_ranks(sp, n_local).collect::<Vec<_>>(), served);
            }
        }
    }
}

#[test]
fn numbers_that_describe_no_job_are_refused_by_name() {
    let bad = |hosts, per_dpu, shadows| Placement::one_dpu_a_host(hosts, per_dpu, shadows).err();
    assert_eq!(bad(0, 1, 1), Some(PlacementError::NoHosts));
    assert_eq!(bad(1, 0, 1), Some(PlacementError::NoServiceProcesses));
    assert_eq!(bad(1, 2, 3), Some(PlacementError::BadShadows(3)));
    assert_eq!(bad(1, 2, 0), Some(PlacementError::BadShadows(0)));
    assert_eq!(bad(1, 20, 9), Some(PlacementError::BadShadows(9)));
    assert_eq!(bad(u32::MAX, u32::MAX, 1), Some(PlacementError::TooManyServiceProcesses));
    let mut storage = [0; 8];
    let listed = |storage: &mut [u32], hosts, of: &[Host]| Placement::listed(storage, hosts, of, 1, 1).err();
    assert_eq!(
        listed(&mut storage, 2, &[Host(0), Host(2)]),
        Some(PlacementError::DpuOnUnknownHost { dpu: Dpu(1), host: Host(2) })
    );
    assert_eq!(listed(&mut storage, 2, &[Host(0), Host(0)]), Some(PlacementError::HostWithoutDpu(Host(1))));
    assert_eq!(listed(&mut [], 2, &[Host(0), Host(1)]), Some(PlacementError::StorageTooSmall { needed: 5 }));
}

#[test]
fn s23_an_entry_for_a_host_or_service_process_that_the_job_lacks_is_named() {
    let job = Placement::one_dpu_a_host(2, 2, 1).unwrap();
    let entry = |host, sps: &[u32]| Entry {
        world_rank: WorldRank(0),
        host: Host(host),
        shadows: sps.iter().map(|&sp| Sp(sp)).collect::<Shadows>(),
    };
    assert_eq!(job.check(&entry(1, &[3, 2])), Ok(()));
    assert_eq!(job.check(&entry(2, &[3])), Err(Misplaced::UnknownHost(Host(2))));
    assert_eq!(job.check(&entry(1, &[4])), Err(Misplaced::UnknownServiceProcess(Sp(4))));
    assert_eq!(job.check(&entry(1, &[1])), Err(Misplaced::ForeignServiceProcess { sp: Sp(1), host: Host(0) }));
    assert_eq!(job.check(&entry(1, &[])), Err(Misplaced::NoServiceProcess));
}

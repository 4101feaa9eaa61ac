//! Taking memory back: every revocation ends, is told once, and then nothing moves.

use umbra_core::access::MemoryAccess as _;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::Sp;

use super::{Bench, DEEP, LANDING, LIFE, ME, MEMORY, REGIONS, Rig};

impl<R: Rig> Bench<R> {
    /// Scenario 46.
    pub fn a_revoked_key_opens_nothing(&mut self) {
        let key = self.export(0, 0, 64, Access::READ);
        let kept = self.export(1, 0, 64, Access::READ);
        self.rig.poke(1, 0, &[3; 8]);
        assert!(self.read(key, 0, 8).is_ok());
        self.revoke(0, key);
        assert_eq!(self.read(key, 0, 8), Err(Status::KeyRevoked));
        assert_eq!(self.read(kept, 0, 8), Ok(vec![3; 8]), "another owner's region stays");
    }

    /// Scenario 47.
    pub fn an_old_key_never_reaches_newer_bytes(&mut self) {
        let old = self.export(0, 0, 64, Access::READ);
        self.revoke(0, old);
        let new = self.export(0, 0, 64, Access::READ);
        assert_eq!((old.owner(), old.region()), (new.owner(), new.region()), "the same number, the same address");
        self.rig.poke(0, 0, b"new bytes");
        assert_eq!(self.read(old, 0, 9), Err(Status::StaleKey));
        assert_eq!(self.read(new, 0, 9), Ok(b"new bytes".to_vec()));
    }

    /// Scenario 48.
    pub fn a_revocation_waits_for_reads_in_flight_and_then_nothing_moves(&mut self) {
        let key = self.export(0, 0, MEMORY, Access::READ);
        let bytes: Vec<u8> = (0..MEMORY).map(|at| (at % 251) as u8).collect();
        self.rig.poke(0, 0, &bytes);
        let mut tokens = Vec::new();
        for n in 0..DEEP as u64 {
            match self.post(Span { key, offset: n, len: 64 }, 64 * n) {
                Ok(token) => tokens.push(token),
                Err(status) => panic!("read {n} of {DEEP} was refused: {status}"),
            }
        }
        self.rig.begin_revoke(key);
        assert_eq!(self.post(Span { key, offset: 0, len: 1 }, 0), Err(Status::KeyRevoked), "no new access");
        for _ in 0..100_000 {
            if self.revoked.contains(&key) {
                break;
            }
            self.progress();
        }
        assert!(self.revoked.contains(&key), "the revocation is acknowledged");
        for (n, token) in tokens.into_iter().enumerate() {
            match self.ended.remove(&token) {
                Some(Status::Ok) => {
                    let mut landed = [0; 64];
                    assert_eq!(self.rig.way().take(64 * n as u64, &mut landed), Ok(()));
                    assert!(landed == bytes[n..n + 64], "read {n} brought all of its bytes");
                }
                Some(Status::KeyRevoked) => {}
                other => panic!("when the revocation is acknowledged, access {token} has ended: {other:?}"),
            }
        }
        // From here on not one byte moves: both ends are poisoned, and stay so.
        self.rig.poke(0, 0, &vec![0xbb; MEMORY as usize]);
        let poison = vec![0xaa; LANDING as usize];
        assert_eq!(self.rig.way().put(0, &poison), Ok(()));
        for _ in 0..100 {
            self.progress();
        }
        let mut landing = vec![0; LANDING as usize];
        assert_eq!(self.rig.way().take(0, &mut landing), Ok(()));
        assert!(landing == poison, "bytes moved after the acknowledgement");
    }

    /// Scenarios 46 and 48: however many idle regions are taken back before anybody looks.
    pub fn every_revocation_of_an_idle_region_is_told_once(&mut self) {
        for count in 2..=REGIONS {
            *self = Bench::with_regions(REGIONS);
            let keys: Vec<Key> = (0..count).map(|n| self.export(n % 2, 0, 64, Access::READ)).collect();
            for &key in &keys {
                self.rig.begin_revoke(key);
                assert_eq!(self.rig.way().revoke(key), Ok(()), "revoking twice changes nothing");
            }
            self.settle();
            for key in keys {
                assert!(self.revoked.contains(&key), "the end of {key:?}, one of {count}, was not told");
                assert_eq!(self.read(key, 0, 8), Err(Status::KeyRevoked));
            }
            assert_eq!(self.revoked.len(), count, "nothing else ended");
        }
    }

    /// Scenarios 46 and 48.
    pub fn revocations_of_idle_and_busy_regions_are_told_side_by_side(&mut self) {
        *self = Bench::with_regions(REGIONS);
        let [before, busy, after, kept] = [0, 1, 0, 1].map(|n| self.export(n, 0, 64, Access::READ));
        let token = self.post(Span { key: busy, offset: 0, len: 64 }, 0);
        let token = token.unwrap_or_else(|status| panic!("a live region is read: {status}"));
        for key in [before, busy, after] {
            self.rig.begin_revoke(key);
        }
        self.settle();
        assert!(matches!(self.ended.remove(&token), Some(Status::Ok | Status::KeyRevoked)));
        for key in [before, busy, after] {
            assert!(self.revoked.contains(&key), "the end of {key:?} was not told");
        }
        assert_eq!(self.revoked.len(), 3);
        assert_eq!(self.read(kept, 0, 8), Ok(vec![0; 8]), "the region that was kept is read as before");
    }

    /// Scenario 47: the place of a region is not given away while somebody waits to hear that it ended.
    pub fn a_new_generation_comes_after_the_end_of_the_old_one_was_told(&mut self) {
        let old = self.export(0, 0, 64, Access::READ);
        self.rig.begin_revoke(old);
        // An owner that does not wait for the end of its revocation.
        assert!(self.tables[0].revoke(old).is_ok());
        let next = self.describe(0, 0, 64, Access::READ, &[Sp(0), ME]);
        assert_eq!((old.owner(), old.region()), (next.ticket.key.owner(), next.ticket.key.region()));
        assert_eq!(self.rig.way().import(&next, LIFE), Err(Status::Conflict), "the end of the old one is not told yet");
        self.settle();
        assert_eq!(self.revoked, [old]);
        assert_eq!(self.rig.hand_over(0, &next, LIFE), Ok(()));
        self.rig.poke(0, 0, b"newer");
        assert_eq!(self.read(next.ticket.key, 0, 5), Ok(b"newer".to_vec()));
        self.settle();
        assert_eq!(self.revoked, [old], "the end of the old one is not told again");
    }
}

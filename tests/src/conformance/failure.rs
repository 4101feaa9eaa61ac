//! What breaks, and what does not break with it.

use umbra_core::access::MemoryAccess as _;
use umbra_core::error::Status;
use umbra_core::key::{Access, Span};
use umbra_core::peer::Incarnation;
use umbra_core::region::{Entry, Regions};

use super::{Bench, LIFE, REGIONS, Rig, owner};

impl<R: Rig> Bench<R> {
    /// Scenario 50: a failure comes asynchronously and breaks the owner's queue; a dead owner is told.
    pub fn a_failure_is_a_completion(&mut self) {
        let key = self.export(0, 0, 4096, Access::READ);
        self.rig.poke(0, 0, &[5; 8]);
        self.rig.fault(0, true);
        let token = self.post(Span { key, offset: 0, len: 8 }, 0);
        let token = token.unwrap_or_else(|status| panic!("a failing device is not seen when posting: {status}"));
        assert_eq!(self.end_of(token), R::FAULT);
        self.rig.fault(0, false);
        self.rig.way().rebuild(owner(0));
        assert_eq!(self.read(key, 0, 8), Ok(vec![5; 8]), "the queue is rebuilt");
        self.rig.way().forget(owner(0), LIFE);
        assert_eq!(self.read(key, 0, 8), Err(Status::OwnerGone));
    }

    /// Scenario 51.
    pub fn one_broken_queue_does_not_disturb_the_others(&mut self) {
        let bad = self.export(0, 0, 4096, Access::READ);
        let good = self.export(1, 0, 4096, Access::READ);
        self.rig.poke(1, 0, &[6; 4096]);
        self.rig.fault(0, true);
        let tokens: Vec<(bool, u64)> = (0..40)
            .map(|n| {
                let of_good = n % 2 == 1;
                let key = if of_good { good } else { bad };
                let posted = self.post(Span { key, offset: n * 8, len: 8 }, n * 8);
                (of_good, posted.unwrap_or_else(|status| panic!("access {n}: {status}")))
            })
            .collect();
        for (of_good, token) in tokens {
            let status = self.end_of(token);
            match of_good {
                true => assert_eq!(status, Status::Ok),
                false => assert!(status == R::FAULT || status == Status::QueueBroken, "{status}"),
            }
        }
        let mut bytes = [0; 8];
        assert_eq!(self.rig.way().take(39 * 8, &mut bytes), Ok(()));
        assert_eq!(bytes, [6; 8]);
        self.rig.fault(0, false);
        self.rig.way().rebuild(owner(0));
        assert_eq!(self.read(bad, 0, 8), Ok(vec![0; 8]));
    }

    /// Scenario 50: a revocation that its owner does not live to see is nobody's news.
    pub fn what_died_with_its_owner_is_not_told_as_revoked(&mut self) {
        *self = Bench::with_regions(REGIONS);
        let [idle, busy, untouched] = [0; 3].map(|n| self.export(n, 0, 64, Access::READ));
        let other = self.export(1, 0, 64, Access::READ);
        let posted = [busy, untouched].map(|key| self.post(Span { key, offset: 0, len: 8 }, 0));
        for key in [idle, busy, other] {
            self.rig.begin_revoke(key);
        }
        self.rig.way().forget(owner(0), LIFE);
        self.rig.way().forget(owner(0), LIFE);
        for token in posted {
            let token = token.unwrap_or_else(|status| panic!("a live region is read: {status}"));
            assert_eq!(self.end_of(token), Status::OwnerGone);
        }
        self.settle();
        assert_eq!(self.revoked, [other]);
        for key in [idle, busy, untouched] {
            assert_eq!(self.read(key, 0, 8), Err(Status::OwnerGone));
        }
    }

    /// Scenario 50: an owner is back in its next life before the end of the one before was told.
    pub fn the_end_of_a_life_leaves_the_next_one_as_it_is(&mut self) {
        *self = Bench::with_regions(2);
        let next = Incarnation(LIFE.0 + 1);
        let [same, other] = [0, 64].map(|offset| self.export(0, offset, 64, Access::READ));
        self.rig.poke(0, 0, &[7; 8]);
        let posted = [same, other].map(|key| self.post(Span { key, offset: 0, len: 8 }, 0));
        // Its table is a new one: the first region has the number that the first one had.
        (self.tables[0], self.lives[0]) = (Regions::new(vec![Entry::VACANT; 2]), next);
        let new = self.export(0, 0, 64, Access::READ);
        for token in posted {
            let token = token.unwrap_or_else(|status| panic!("a live region is read: {status}"));
            let status = self.end_of(token);
            assert!(matches!(status, Status::OwnerGone | Status::StaleKey), "{status}");
        }
        for _ in 0..2 {
            assert_eq!(self.read(new, 0, 8), Ok(vec![7; 8]));
            assert_eq!(self.read(same, 0, 8), Err(Status::StaleKey));
            assert_eq!(self.read(other, 0, 8), Err(Status::OwnerGone));
            self.rig.way().forget(owner(0), LIFE);
        }
        self.rig.way().forget(owner(0), next);
        assert_eq!(self.read(new, 0, 8), Err(Status::OwnerGone));
    }
}

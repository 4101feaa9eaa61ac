//! What may be touched, and by whom.

use umbra_core::error::Status;
use umbra_core::key::{Access, Span};
use umbra_core::peer::Sp;

use super::{Bench, LANDING, LIFE, ME, Rig, SECRET};

impl<R: Rig> Bench<R> {
    /// Reads and writes arrive where they should, from one byte to more than one frame carries.
    pub fn bytes_arrive(&mut self) {
        let key = self.export(0, 128, 50_000, Access::READ | Access::WRITE);
        let bytes: Vec<u8> = (0..50_000u32).map(|n| (n * 7 + (n >> 8)) as u8).collect();
        self.rig.poke(0, 128, &bytes);
        for (offset, len) in [(0, 1), (0, 8), (3, 4096), (0, 50_000), (49_999, 1), (50_000, 0)] {
            let got = self.read(key, offset, len);
            let want = &bytes[offset as usize..offset as usize + len];
            assert!(got.as_deref() == Ok(want), "{len} bytes at {offset}: {:?}", got.map(|b| b.len()));
        }
        let other: Vec<u8> = bytes.iter().map(|b| !b).collect();
        assert_eq!(self.write(key, 0, &other), Ok(()));
        assert!(self.rig.peek(0, 128, 50_000) == other);
        assert_eq!(self.rig.peek(0, 0, 128), vec![0; 128], "nothing before the region was touched");
        assert_eq!(self.rig.peek(0, 50_128, 64), vec![0; 64], "nothing behind it");
    }

    /// Scenario 44.
    pub fn out_of_bounds_is_refused_before_posting(&mut self) {
        let len = 4096;
        let key = self.export(0, 0, len, Access::READ);
        for (offset, bytes) in
            [(len - 1, 2), (len, 1), (0, len + 1), (u64::MAX, 1), (u64::MAX, 2), (1, u64::MAX), (u64::MAX, u64::MAX)]
        {
            let refused = self.post(Span { key, offset, len: bytes }, 0);
            assert_eq!(refused, Err(Status::OutOfBounds), "{bytes} bytes at {offset}");
        }
        let beyond = self.post(Span { key, offset: 0, len: 8 }, LANDING - 7);
        assert_eq!(beyond, Err(Status::OutOfBounds), "the landing area has bounds too");
        self.rig.poke(0, 0, &[9; 8]);
        assert_eq!(self.read(key, 0, 8), Ok(vec![9; 8]), "the queue stays usable");
    }

    /// Scenario 45.
    pub fn a_write_to_a_read_only_region_is_denied(&mut self) {
        let key = self.export(0, 0, 64, Access::READ);
        assert_eq!(self.write(key, 0, &[1; 8]), Err(Status::PermissionDenied));
        assert_eq!(self.rig.peek(0, 0, 8), vec![0; 8]);
        let write_only = self.export(1, 0, 64, Access::WRITE);
        assert_eq!(self.read(write_only, 0, 8), Err(Status::PermissionDenied));
        assert_eq!(self.write(write_only, 8, &[1; 8]), Ok(()));
        assert_eq!(self.rig.peek(1, 8, 8), vec![1; 8]);
    }

    /// Scenario 49.
    pub fn a_stranger_cannot_import(&mut self) {
        let export = self.describe(0, 0, 64, Access::READ, &[Sp(0), Sp(1)]);
        assert_eq!(self.rig.hand_over(0, &export, LIFE), Err(Status::NotShadow));
        let refused = self.read(export.ticket.key, 0, 8);
        assert!(matches!(refused, Err(Status::UnknownRegion | Status::KeyRevoked)), "{refused:?}");
        assert_eq!(
            self.tables[0].authorise(export.ticket.key, &SECRET, ME).map_err(Status::from),
            Err(Status::NotShadow),
            "the owner says so too"
        );
    }
}

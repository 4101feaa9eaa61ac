//! Ends of a boundary exchange around another one.

/// In an `impl Transport` of a structure whose first field is a transport: what most of them hand on to that as it is. What is
/// left out is what such tests change, or what has a default. With `plans` those are handed on as well; with `but_votes` those of others
/// are not.
#[macro_export]
macro_rules! hands_on {
    (plans) => {
        $crate::hands_on!();

        fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), umbra::boundary::TransportError> {
            self.0.write_plan(to, bytes)
        }
        fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, umbra::boundary::TransportError> {
            self.0.read_plan(from)
        }
        fn keeps_plans(&self) -> bool {
            self.0.keeps_plans()
        }
    };
    () => {
        $crate::hands_on!(but_votes);

        fn vote_of(
            &self,
            rank: u32,
            round: u32,
        ) -> Result<Option<umbra_core::boundary::Vote>, umbra::boundary::TransportError> {
            self.0.vote_of(rank, round)
        }
    };
    (but_votes) => {
        fn rank(&self) -> u32 {
            self.0.rank()
        }
        fn ranks(&self) -> u32 {
            self.0.ranks()
        }
        fn slots(&self) -> u32 {
            self.0.slots()
        }
        fn plans(
            &mut self,
            epoch: u32,
            peers: &[umbra_core::boundary::Peer],
            entries: &[umbra_core::boundary::Entry],
        ) -> Result<(), umbra::boundary::TransportError> {
            self.0.plans(epoch, peers, entries)
        }
        fn write(
            &mut self,
            to: u32,
            slot: u32,
            place: umbra_core::boundary::Place,
            behind: usize,
            values: &[f64],
        ) -> Result<(), umbra::boundary::TransportError> {
            self.0.write(to, slot, place, behind, values)
        }
        fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, umbra::boundary::TransportError> {
            self.0.look(from, slot, head)
        }
        fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), umbra::boundary::TransportError> {
            self.0.taken(from, slot, room)
        }
        fn read(
            &self,
            from: u32,
            slot: u32,
            place: umbra_core::boundary::Place,
            behind: usize,
            into: &mut [f64],
        ) -> Result<(), umbra::boundary::TransportError> {
            self.0.read(from, slot, place, behind, into)
        }
        fn vote(
            &mut self,
            round: u32,
            vote: umbra_core::boundary::Vote,
        ) -> Result<(), umbra::boundary::TransportError> {
            self.0.vote(round, vote)
        }
    };
}

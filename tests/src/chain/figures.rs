//! What the machines of a world counted, the dead ones included.

use umbra_core::chain::Figures;

use super::World;

impl World {
    /// What all machines counted.
    pub fn figures(&self) -> Figures {
        let mut all = self.dead;
        for machine in self.seats.iter().filter_map(|seat| seat.machine.as_ref()) {
            add(&mut all, machine.figures());
        }
        all
    }
}

pub(super) fn add(all: &mut Figures, one: &Figures) {
    all.requests += one.requests;
    all.request_bytes += one.request_bytes;
    all.responses += one.responses;
    all.response_bytes += one.response_bytes;
    all.failures += one.failures;
    all.repeated += one.repeated;
    all.busy += one.busy;
    all.credits += one.credits;
    all.asks += one.asks;
    all.alive += one.alive;
    all.cancels += one.cancels;
    all.at_home += one.at_home;
    all.runs += one.runs;
    all.stale += one.stale;
    all.malformed += one.malformed;
}

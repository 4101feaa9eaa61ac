//! Every order in which things can happen, one after the other.
//!
//! A run is a list of choices: which of the things that can happen next does. The next run repeats it up to the last
//! choice that has an alternative left. Deadlines pass when nothing else can happen, or whenever a run wants them to.

use super::World;

/// Whether a deadline may pass while other things could still happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Only when nothing else can happen.
    Last,
    /// At any moment.
    Any,
}

/// Runs the worlds that `build` makes, all of them alike, in every order; how many orders there are.
///
/// # Errors
/// What `check` says of the first bad one, with the choices that lead there.
pub fn every_order(
    clock: Clock,
    build: impl Fn() -> World,
    mut check: impl FnMut(&World) -> Result<(), String>,
) -> Result<u64, String> {
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut orders = 0;
    loop {
        let mut world = build();
        let mut depth = 0;
        loop {
            let (events, timer) = (world.agenda.len(), world.earliest_timer());
            let timers = usize::from(timer.is_some() && (clock == Clock::Any || events == 0));
            let count = events + timers;
            if count == 0 {
                break;
            }
            if depth == path.len() {
                path.push((0, count));
            }
            let (pick, promised) = path[depth];
            assert_eq!(count, promised, "a world that is built anew does the same");
            depth += 1;
            if pick < events {
                world.take(pick);
            } else if let Some((at, node)) = timer {
                world.now = world.now.max(at);
                let now = world.now;
                world.at(node).on_time(now);
                world.drain(node);
            }
        }
        orders += 1;
        world.check().and_then(|()| check(&world)).map_err(|wrong| format!("{wrong}, by {path:?}"))?;
        while path.last().is_some_and(|&(pick, count)| pick + 1 == count) {
            path.pop();
        }
        match path.last_mut() {
            Some((pick, _)) => *pick += 1,
            None => return Ok(orders),
        }
    }
}

impl World {
    fn take(&mut self, pick: usize) {
        let key = self.agenda.keys().nth(pick).copied();
        if let Some(key) = key
            && let Some(what) = self.agenda.remove(&key)
        {
            self.replies.behind.0 += self.now.since(key.0).0;
            self.now = self.now.max(key.0);
            self.happen(what);
        }
    }

    fn earliest_timer(&self) -> Option<(umbra_core::time::Time, umbra_core::chain::Node)> {
        let due = |(node, seat): (usize, &super::Seat)| {
            let at = seat.machine.as_ref()?.deadline()?;
            Some((at, umbra_core::chain::Node(node as u32)))
        };
        self.seats.iter().enumerate().filter_map(due).min_by_key(|&(at, _)| at)
    }
}

//! What must hold when nothing happens any more, whatever went wrong.

use std::collections::HashMap;

use umbra_core::chain::{CallId, Node, Tag};

use super::{End, Made, World};

impl World {
    /// What must hold when nothing happens any more.
    ///
    /// # Errors
    /// Which rule is broken, and where.
    pub fn check(&self) -> Result<(), String> {
        for (&(call, node), &count) in &self.began {
            if count != 1 {
                return Err(format!("{call} ran {count} times at {node}"));
            }
        }
        for (&(call, node, child), &count) in &self.combined {
            if count != 1 {
                return Err(format!("{call} combined the answer of {child} at {node} {count} times"));
            }
        }
        if let Some((call, node)) = self.untold.first() {
            return Err(format!("{call} tells {node} another list or header than its own"));
        }
        for made in &self.made {
            self.check_call(made)?;
        }
        self.replies.check()?;
        for (node, seat) in self.seats.iter().enumerate() {
            if let Some(machine) = seat.machine.as_ref().filter(|machine| !machine.is_empty()) {
                return Err(format!("member {node} still has {} calls", machine.len()));
            }
        }
        Ok(())
    }

    fn check_call(&self, made: &Made) -> Result<(), String> {
        let Made { id, plan, end, .. } = made;
        let root = &self.seats[plan.root.index()];
        let Some((end, _)) = end else {
            let died = root.machine.is_none() || root.life != id.life.0;
            return if died { Ok(()) } else { Err(format!("{id} never ended")) };
        };
        let mut members = plan.members.clone();
        members.retain(|&member| member != plan.root);
        members.push(plan.root);
        members.sort_unstable();
        members.dedup();
        let count = |of: &HashMap<(CallId, Node), u32>| {
            members.iter().filter(|&&member| of.contains_key(&(*id, member))).count() as u32
        };
        let (began, ended) = (count(&self.began), count(&self.ended));
        let size = members.len() as u32;
        if end.skipped() != made.skipped {
            return Err(format!("{id} has left {:?} out, and not {:?}", end.skipped(), made.skipped));
        }
        match end {
            End::Done { members: done, .. } => {
                let coordinates = u32::from(!plan.call.at_root);
                if *done != size || ended + coordinates != size {
                    return Err(format!("{id} is done with {done} of {size}, {ended} ended"));
                }
                let combined = self.combined.keys().filter(|(call, ..)| call == id).count() as u32;
                if plan.call.callback != Tag::NONE && combined != size - 1 {
                    return Err(format!("{id} is done with {combined} of {} answers combined", size - 1));
                }
            }
            End::Failed { tallies, records, unreached, skipped } => {
                let (size, members) = (size + skipped.len() as u32, [members, skipped.clone()].concat());
                if tallies.total() != size {
                    return Err(format!("{id} accounts for {tallies} of {size}"));
                }
                if !unreached.ends_with(skipped) {
                    return Err(format!("{id} names {unreached:?} as not reached, and has left {skipped:?} out"));
                }
                // A restart in between may run a function of which nobody knows.
                if began + tallies.unreached > size || tallies.ok > ended + u32::from(!plan.call.at_root) {
                    return Err(format!("{id} accounts for {tallies}, but {began} began and {ended} ended well"));
                }
                if unreached.len() as u64 > u64::from(tallies.unreached) {
                    return Err(format!("{id} names {unreached:?} as not reached, and accounts for {tallies}"));
                }
                for (at, named) in unreached.iter().enumerate() {
                    let is_known = members.contains(named) && !unreached[..at].contains(named);
                    if !is_known || self.began.contains_key(&(*id, *named)) {
                        return Err(format!("{id} names {named} of {unreached:?} as not reached, after {records:?}"));
                    }
                }
                if records.is_empty() {
                    return Err(format!("{id} failed without a reason"));
                }
                let is_strange = |node: &Node| !members.contains(node) || skipped.contains(node);
                if let Some(record) = records.iter().find(|record| is_strange(&record.origin)) {
                    return Err(format!("{id} names a stranger: {record}"));
                }
            }
        }
        Ok(())
    }
}

//! What random schedules have exercised.

use super::Fates;

/// What schedules have exercised, for a test's own report.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Schedules.
    pub schedules: u64,
    /// Calls that ended well.
    pub done: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls that were refused for lack of room at their makers.
    pub blocked: u64,
    /// Requests that were refused for lack of room.
    pub busy: u64,
    /// Messages.
    pub messages: u64,
    /// Answers that came too late, or twice.
    pub stale: u64,
    /// Calls over a tree that is [led](umbra_core::chain::Plan::Led).
    pub led: u64,
    /// Calls over a tree that follows the machines, or hosts.
    pub domains: u64,
    /// Schedules in which there are places enough for every call, and no classes.
    pub roomy: u64,
    /// Calls with replies that are not in answers.
    pub long: u64,
    /// Calls whose functions replaced headers.
    pub rewritten: u64,
    /// Calls with the whole list at every member.
    pub listed: u64,
    /// Calls that left members out who were dead.
    pub skipping: u64,
    /// What became of these replies.
    pub fates: Fates,
}

impl core::fmt::Display for Tally {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Tally { schedules, done, failed, blocked, busy, messages, stale, led, domains, roomy, long, .. } = self;
        let Tally { rewritten, listed, skipping, fates, .. } = self;
        write!(f, "{schedules} schedules: {done} calls done, {failed} failed and {blocked} refused, {led} led and ")?;
        write!(f, "{domains} along hosts, {messages} messages, {busy} without room and {stale} late, ")?;
        write!(
            f,
            "{roomy} schedules with room for all, {rewritten} calls with other headers, {listed} with the whole list, {skipping} without the dead, "
        )?;
        write!(f, "{long} calls with long replies: {fates:?}")
    }
}

impl core::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.schedules += other.schedules;
        self.done += other.done;
        self.failed += other.failed;
        self.blocked += other.blocked;
        self.busy += other.busy;
        self.messages += other.messages;
        self.stale += other.stale;
        self.led += other.led;
        self.domains += other.domains;
        self.roomy += other.roomy;
        self.long += other.long;
        self.rewritten += other.rewritten;
        self.listed += other.listed;
        self.skipping += other.skipping;
        self.fates += other.fates;
    }
}

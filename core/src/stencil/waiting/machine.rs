//! A stencil cache and the line of those who wait for it.

use core::task::{Poll, Waker};

use super::Waiter;
use super::answer::{AllocError, Answer, Overdue, Place};
use crate::cache::slot::NIL;
use crate::cache::waiting::lock::asking;
use crate::cache::waiting::record::Stage as Waits;
use crate::cache::waiting::waiter::Waiters;
use crate::cache::{Interrupted, ResetError};
use crate::id::Id;
use crate::stencil::complete::Action;
use crate::stencil::error::{FreeError, GroupError, PreparedError, SubmitError, UsageError};
use crate::stencil::future::Future;
use crate::stencil::group::{Group, Stage};
use crate::stencil::input::Names;
use crate::stencil::machine::{Member, Stencil};
use crate::stencil::storage::Lent;

/// A stencil cache for several clients, some of whom wait; see the [module](super).
pub struct Waiting<L: Lent, N, F: Future, R> {
    stencil: Stencil<L, N, F>,
    waiters: Waiters<Answer, R>,
    /// Somebody was told that it is its turn, and has not taken it.
    turn: bool,
    /// Those who came to the line.
    came: u64,
    /// The number of the first group of which nobody was told yet that it has its slots.
    seen: u64,
    /// Who tells the news.
    pub(super) teller: Option<u64>,
}

/// Places in line and groups are numbered apart.
const IN_LINE: u64 = 1 << 63;

impl<L: Lent, N: Names, F: Future, R: AsRef<[Waiter]> + AsMut<[Waiter]>> Waiting<L, N, F, R> {
    /// Lets as many wait for the cache as there are records.
    pub fn new(stencil: Stencil<L, N, F>, waiters: R) -> Self {
        let seen = stencil.turn_of();
        Waiting { stencil, waiters: Waiters::new(waiters), turn: false, came: 0, seen, teller: None }
    }

    /// The cache, for questions.
    pub fn stencil(&self) -> &Stencil<L, N, F> {
        &self.stencil
    }

    /// How many wait now.
    pub fn waiting(&self) -> u32 {
        self.waiters.waiting()
    }

    /// Accepts a group as soon as there is a record for it, and tells when it has all its slots: until then `waker` is woken
    /// when it is worth while to ask again, with the same place and group. Who came first is served first.
    /// The members must not panic: what was claimed for the first of them would stay so.
    ///
    /// # Errors
    /// [`AllocError`]; of a group that is not accepted when its turn has come as well.
    pub fn alloc<M>(
        &mut self,
        place: &mut Place,
        point: u64,
        group: M,
        waker: &Waker,
    ) -> Poll<Result<Id<Group>, AllocError>>
    where
        M: IntoIterator<Item = Member> + Clone,
    {
        asking(waker, |spare| self.ask(place, point, &group, waker, spare))
    }

    /// [`Waiting::alloc`]; `None` if that is to be asked again, with a clone of the waker or without it.
    pub(super) fn ask<M>(
        &mut self,
        place: &mut Place,
        point: u64,
        group: &M,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<Id<Group>, AllocError>>>
    where
        M: IntoIterator<Item = Member> + Clone,
    {
        match *place {
            Place::Outside if self.has_line() => {}
            Place::Outside => match self.accept(point, group) {
                Err(SubmitError::GroupsFull { .. }) => {}
                Err(error) => return Some(Poll::Ready(Err(error.into()))),
                Ok(accepted) => return self.ask_assigned(place, accepted, waker, spare),
            },
            Place::InLine(waiter) => {
                let Poll::Ready(answer) = self.waiters.hear(waiter, waker, spare)? else { return Some(Poll::Pending) };
                *place = Place::Outside;
                if answer != Answer::Turn {
                    return Some(Poll::Ready(Err(Interrupted.into())));
                }
                // The record that was kept is there: if this one does not take it, the next in line does.
                self.turn = false;
                let accepted = self.accept(point, group);
                self.serve();
                return match accepted {
                    Err(error) => Some(Poll::Ready(Err(error.into()))),
                    // What is in `spare` now is the waker of an earlier question.
                    Ok(accepted) => self.ask_assigned(place, accepted, waker, &mut None),
                };
            }
            Place::Accepted(accepted, _) => return self.ask_assigned(place, accepted, waker, spare),
        }
        if self.stencil.is_interrupted() {
            return Some(Poll::Ready(Err(Interrupted.into())));
        }
        if spare.is_none() {
            return None;
        }
        let Some(waiter) = self.waiters.enter(self.came | IN_LINE, Waits::Turn, spare) else {
            let waiters = self.waiters.capacity();
            return Some(Poll::Ready(Err(AllocError::TooManyWaiters { waiters, accepted: None })));
        };
        self.came += 1;
        *place = Place::InLine(waiter);
        Some(Poll::Pending)
    }

    /// Whether somebody came before.
    fn has_line(&self) -> bool {
        self.turn || self.waiters.first_in_line().is_some()
    }

    fn accept<M>(&mut self, point: u64, group: &M) -> Result<Id<Group>, SubmitError>
    where
        M: IntoIterator<Item = Member> + Clone,
    {
        let accepted = self.stencil.submit_members(point, group.clone())?;
        self.serve();
        Ok(accepted)
    }

    /// Tells when a group that was accepted has all its slots; [`Waiting::alloc`] for who stopped to wait for that.
    ///
    /// # Errors
    /// [`AllocError`] if the group has ended, or if nobody else can wait.
    pub fn assigned(&mut self, place: &mut Place, group: Id<Group>, waker: &Waker) -> Poll<Result<(), AllocError>> {
        asking(waker, |spare| self.ask_assigned(place, group, waker, spare)).map_ok(drop)
    }

    pub(super) fn ask_assigned(
        &mut self,
        place: &mut Place,
        group: Id<Group>,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Option<Poll<Result<Id<Group>, AllocError>>> {
        let waiter = if let Place::Accepted(_, waiter) = *place { waiter } else { None };
        let told = match waiter {
            Some(waiter) => match self.waiters.hear(waiter, waker, spare)? {
                Poll::Pending => return Some(Poll::Pending),
                Poll::Ready(answer) => told(answer, group),
            },
            None => match self.has_slots(group) {
                Ok(Some(number)) => {
                    // It waits from now on, or its group could end before it asks again with a waker.
                    let wakes = spare.is_some();
                    let mut nobody = Some(Waker::noop().clone());
                    let waker = if wakes { spare } else { &mut nobody };
                    if let Some(waiter) = self.waiters.enter(number, Waits::Event, waker) {
                        *place = Place::Accepted(group, Some(waiter));
                        return wakes.then_some(Poll::Pending);
                    }
                    let waiters = self.waiters.capacity();
                    Err(AllocError::TooManyWaiters { waiters, accepted: Some(group) })
                }
                Ok(None) => Ok(group),
                Err(error) => Err(error),
            },
        };
        *place = Place::Outside;
        Some(Poll::Ready(told))
    }

    /// The number of a group that has not all its slots yet.
    fn has_slots(&self, group: Id<Group>) -> Result<Option<u64>, AllocError> {
        self.stencil.working()?;
        let record = self.stencil.groups.as_ref().get(group.index() as usize);
        let record = record.filter(|record| record.generation == group.generation()).ok_or(AllocError::Ended)?;
        match record.stage {
            Stage::Queued | Stage::Assigning => Ok(Some(record.number)),
            Stage::Assigned | Stage::Ready | Stage::Delivered => Ok(None),
            Stage::Failed | Stage::Ending => Err(AllocError::Failed { data: record.failed }),
            Stage::Free => Err(AllocError::Ended),
        }
    }

    /// Ends a wait: the answer, if there is one that was not told yet. A group that was accepted goes on.
    pub fn end(&mut self, place: Place) -> Option<Result<Id<Group>, AllocError>> {
        self.leave(place, &mut None)
    }

    pub(super) fn leave(&mut self, place: Place, spare: &mut Option<Waker>) -> Option<Result<Id<Group>, AllocError>> {
        match place {
            Place::Outside => None,
            Place::InLine(waiter) => match self.waiters.end(waiter, spare)? {
                Answer::Turn => {
                    self.turn = false;
                    self.serve();
                    None
                }
                _ => Some(Err(Interrupted.into())),
            },
            Place::Accepted(group, waiter) => Some(told(self.waiters.end(waiter?, spare)?, group)),
        }
    }

    /// What can be told to somebody who stops waiting; O(groups + slots).
    pub fn overdue(&self, point: u64, accepted: Option<Id<Group>>) -> Overdue {
        let groups = self.stencil.groups.as_ref();
        let active = |group: &&Group| matches!(group.stage, Stage::Assigned | Stage::Ready | Stage::Delivered);
        let mut points = groups.iter().filter(active).map(|group| group.point);
        Overdue {
            point: accepted.and_then(|group| groups.get(group.index() as usize)).map_or(point, |group| group.point),
            accepted,
            active: self.stencil.active,
            holding: core::array::from_fn(|_| points.next()),
            loading: self.stencil.outstanding_fills().map(|(_, data)| data).next(),
            waiting: self.waiters.waiting(),
        }
    }

    /// Tells those whose groups have got their slots, and the first in line of a record that is free.
    fn serve(&mut self) {
        let next = self.stencil.turn_of();
        if self.waiters.waiting() > 0 {
            for number in self.seen..next {
                if let Some(leader) = self.waiters.leader(number) {
                    self.waiters.answer(leader, |_| Answer::Assigned);
                }
            }
            if !self.turn
                && self.stencil.spare.first != NIL
                && let Some(first) = self.waiters.first_in_line()
            {
                self.waiters.answer(first, |_| Answer::Turn);
                self.turn = true;
            }
        }
        self.seen = next;
    }

    /// [`Stencil::submit_members`], which never waits and passes nobody in line.
    ///
    /// # Errors
    /// [`SubmitError`], as if every record were taken while somebody is in line.
    pub fn submit_members(
        &mut self,
        point: u64,
        group: impl IntoIterator<Item = Member>,
    ) -> Result<Id<Group>, SubmitError> {
        self.stencil.working()?;
        if self.has_line() {
            return Err(SubmitError::GroupsFull { groups: self.stencil.groups.as_ref().len() });
        }
        let accepted = self.stencil.submit_members(point, group)?;
        self.serve();
        Ok(accepted)
    }

    /// [`Stencil::expect`].
    ///
    /// # Errors
    /// [`UsageError`] if the input has no record, or too many uses.
    pub fn expect(&mut self, data: u64, times: u32) -> Result<(), UsageError> {
        self.stencil.expect(data, times)
    }

    /// [`Stencil::poll`].
    pub fn poll(&mut self) -> Option<Action> {
        let action = self.stencil.poll()?;
        // A group that failed ends when that is told.
        self.serve();
        Some(action)
    }

    /// [`Stencil::prepared`].
    ///
    /// # Errors
    /// [`PreparedError`] if nobody was told to load it, or if that was answered before.
    pub fn prepared(&mut self, data: u64) -> Result<(), PreparedError> {
        self.stencil.prepared(data)?;
        self.serve();
        Ok(())
    }

    /// [`Stencil::failed`]; who waits for a group that fails is told.
    ///
    /// # Errors
    /// [`PreparedError`] if nobody was told to load it, or if that was answered before.
    pub fn failed(&mut self, data: u64) -> Result<(), PreparedError> {
        // Of the groups without all their slots only the oldest can wait for a load.
        let oldest = self.stencil.waiting.first;
        self.stencil.failed(data)?;
        if let Some(&Group { stage: Stage::Failed, number, .. }) = self.stencil.groups.as_ref().get(oldest as usize)
            && let Some(leader) = self.waiters.leader(number)
        {
            self.waiters.answer(leader, |_| Answer::Failed { data });
        }
        self.serve();
        Ok(())
    }

    /// [`Stencil::free_group`].
    ///
    /// # Errors
    /// [`GroupError`] if no action has said that the group is ready, or if it has ended.
    pub fn free_group(&mut self, group: Id<Group>) -> Result<(), GroupError> {
        self.stencil.free_group(group)?;
        self.serve();
        Ok(())
    }

    /// [`Stencil::hand_over`].
    ///
    /// # Errors
    /// [`GroupError`] as for [`Waiting::free_group`], or if the place is too short.
    pub fn hand_over(&mut self, group: Id<Group>, slots: &mut [u32]) -> Result<usize, GroupError> {
        let members = self.stencil.hand_over(group, slots)?;
        self.serve();
        Ok(members)
    }

    /// [`Stencil::free`].
    ///
    /// # Errors
    /// [`FreeError`] if no reference to the input is handed over.
    pub fn free(&mut self, data: u64) -> Result<(), FreeError> {
        self.stencil.free(data)?;
        self.serve();
        Ok(())
    }

    /// From now on every operation fails, and whoever waits and does not know its answer yet is told so, once. Groups whose
    /// end nobody was told are told of by [`Waiting::poll`]. A second interrupt changes nothing.
    pub fn interrupt(&mut self) {
        if self.stencil.is_interrupted() {
            return;
        }
        self.stencil.interrupt();
        self.turn = false;
        self.waiters.answer_all(|_, _| Answer::Interrupted, |answer| *answer = Answer::Interrupted);
    }

    /// [`Stencil::settle`].
    pub fn settle(&mut self, slot: u32) -> bool {
        self.stencil.settle(slot)
    }

    /// [`Stencil::reset`].
    ///
    /// # Errors
    /// [`ResetError`] if it was not interrupted, or if slots are still being filled.
    pub fn reset(&mut self) -> Result<(), ResetError> {
        self.stencil.reset()?;
        self.seen = self.stencil.turn_of();
        Ok(())
    }

    /// Who is to be woken next, after any of the operations; until there is none.
    #[inline]
    pub fn next_waker(&mut self) -> Option<Waker> {
        self.waiters.next_waker()
    }
}

fn told(answer: Answer, group: Id<Group>) -> Result<Id<Group>, AllocError> {
    match answer {
        Answer::Assigned => Ok(group),
        Answer::Failed { data } => Err(AllocError::Failed { data }),
        Answer::Turn | Answer::Interrupted => Err(Interrupted.into()),
    }
}

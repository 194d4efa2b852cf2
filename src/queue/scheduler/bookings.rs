//! Bookings as inputs, and the groups that they concern.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use super::{Scheduler, Timer};
use crate::base::Time;
use crate::place::Request;
use crate::queue::groups::{Groups, Member, MemberState, Phase, QueuedGroup};
use crate::queue::holds::{self, BookingStep, Borrower};
use crate::queue::terms::booking::{Booking, BookingChange, BookingOwner, BookingView};
use crate::queue::terms::decision::{Decision, EvictionCause};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::GroupChange;
use crate::queue::world::World;
use crate::state::PodView;

impl Scheduler {
    /// A booking: room that is kept under a name. One of the same name is replaced, and its room is
    /// searched for anew. [`Decision::Booking`](crate::Decision::Booking) says when it has its room, begins and ends.
    ///
    /// # Errors
    /// It has no pods, ends before it begins, or its room makes no sense as a group.
    pub fn handle_booking(&mut self, booking: Booking, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        self.check_booking(&booking)?;
        self.end_booking(&booking.name);
        let number = self.take_number();
        for time in [booking.from, booking.until].into_iter().filter(|time| *time < Time::MAX) {
            self.timers.insert((time, Timer::Booking(number)));
        }
        holds::book(&mut self.holds, number, booking);
        self.follow();
        Ok(())
    }

    /// Whether a booking makes sense.
    pub(super) fn check_booking(&self, booking: &Booking) -> Result<(), QueueError> {
        let fault = |reason| QueueError::Booking { name: booking.name.clone(), reason };
        if booking.until <= booking.from {
            return Err(fault("ends before it begins"));
        }
        if booking.room.all_pods().is_empty() {
            return Err(fault("has no pods"));
        }
        let request = Request::new(&booking.room);
        let _ = crate::place::Planner::new().place(
            self.world.cluster(),
            self.world.framework(),
            request,
        )?;
        Ok(())
    }

    /// The end of a booking, by its name. Groups that run in its room stay.
    ///
    /// # Errors
    /// There is no booking of that name.
    pub fn handle_booking_removed(&mut self, name: &str, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        if !self.end_booking(name) {
            return Err(QueueError::Booking { name: name.to_owned(), reason: "is not known" });
        }
        self.follow();
        Ok(())
    }

    /// The bookings, in the order in which they came. O(their pods).
    pub fn bookings(&self) -> Vec<BookingView> {
        holds::bookings(&self.holds).collect()
    }

    /// Follows the bookings: says what has changed, tries owners, and evicts borrowers that are late.
    pub(super) fn update_bookings(&mut self) {
        let (steps, searches) = self.holds.update_bookings(&mut self.world);
        let timers = searches.into_iter().map(|(time, number)| (time, Timer::Booking(number)));
        self.timers.extend(timers);
        for mut step in steps {
            if matches!(step.change, Some(BookingChange::Ended { .. })) {
                self.room_released(&step.nodes);
            } else {
                self.note_pods_on(&step.nodes);
            }
            if let Some(change) = step.change.take() {
                self.report.decide(Decision::Booking { name: step.name.clone(), change });
            }
            for id in asleep(&self.groups, &step.owners, self.world.now()) {
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
            }
            for id in late(&self.world, &self.groups, &step) {
                let cause = EvictionCause::Booking { name: step.name.clone() };
                self.evict_overdue(id, self.world.now(), cause);
            }
        }
    }

    fn end_booking(&mut self, name: &str) -> bool {
        let Some(number) = self.holds.booking(name) else { return false };
        self.timers.retain(|(_, timer)| *timer != Timer::Booking(number));
        let free = self.holds.end_booking(&mut self.world, number);
        self.room_released(&free);
        true
    }
}

/// Groups that start together, as bookings see them.
pub(super) fn borrower<'a>(
    groups: &'a Groups,
    gang: &[GroupId],
    now: Time,
) -> Option<Borrower<'a>> {
    let all: Vec<(GroupId, &QueuedGroup)> =
        gang.iter().filter_map(|id| Some((*id, groups.get(id)?))).collect();
    let (_, first) = all.first()?;
    let queue: &'a str = first.root().queue.as_str();
    let end = |own: &QueuedGroup| {
        let run = own.root().run_time_estimate.into_iter().chain(own.run_time_left()).min();
        run.map_or(Time::MAX, |run| now.after(run))
    };
    Some(Borrower {
        end: all.iter().map(|(_, own)| end(own)).max()?,
        is_preemptible: all.iter().all(|(_, own)| !own.root().non_preemptible),
        groups: all.iter().map(|(id, own)| (*id, own.name())).collect(),
        repairs: all.iter().all(|(_, own)| own.is_repaired()),
        pods: all
            .iter()
            .flat_map(|(_, own)| own.members().values())
            .filter(|member| member.is_ready())
            .map(Member::pod)
            .collect(),
        queue,
    })
}

/// Groups of a step that are bound on its nodes: borrowers of its booking, or else of any.
pub(super) fn late(world: &World, groups: &Groups, step: &BookingStep) -> Vec<GroupId> {
    let is_there = |own: &QueuedGroup| {
        own.members().values().any(|member| {
            let view = world.cluster().pod(member.pod().namespace(), &member.pod().name);
            let node = view.and_then(PodView::node);
            member.state() == MemberState::Bound
                && node.is_some_and(|node| step.lent_nodes.contains(node.name()))
        })
    };
    let mut late = step.lent.iter().map(|all| {
        let there = |id: &GroupId| groups.get(id).is_some_and(is_there);
        all.iter().copied().filter(there).collect::<Vec<_>>()
    });
    late.find(|all| !all.is_empty()).unwrap_or_default()
}

/// Groups of owners that wait for room.
pub(super) fn asleep(groups: &Groups, owners: &[BookingOwner], now: Time) -> Vec<GroupId> {
    let is_owner = |id: GroupId| {
        let who = borrower(groups, &[id], now);
        who.is_some_and(|who| owners.iter().any(|owner| who.is(owner)))
    };
    let waits = |own: &QueuedGroup| matches!(own.phase(), Phase::Unschedulable(_));
    let all = groups.iter().filter(|(id, own)| !owners.is_empty() && waits(own) && is_owner(**id));
    all.map(|(id, _)| *id).collect()
}

//! Timers of the scheduler, and their effects.

use alloc::vec::Vec;

use super::{Scheduler, Timer};
use crate::base::Time;
use crate::queue::groups::{Phase, QueuedGroup};
use crate::queue::terms::observe::{GroupChange, ReservationEnd};

impl Scheduler {
    /// Fires the timers due by `now`, but for those that evict.
    pub(super) fn expire(&mut self, now: Time) {
        if self.world.is_stopped() {
            return;
        }
        self.recheck_due_permits();
        let mut stale = Vec::new();
        while let Some(&(time, timer)) = self.timers.first().filter(|(time, _)| *time <= now) {
            self.timers.pop_first();
            self.world.advance(time);
            match timer {
                Timer::Below(_) | Timer::RunTime(_) => stale.push((time, timer)),
                timer => self.fire(timer),
            }
            self.follow();
        }
        self.timers.extend(stale);
        self.world.advance(now);
    }

    pub(super) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Phase(id) => {
                if matches!(
                    self.groups.get(&id).map(QueuedGroup::phase),
                    Some(Phase::Unschedulable(_))
                ) {
                    self.report.count(|metrics| &mut metrics.periodic_retries);
                }
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
                if self.holds.room(id).is_some() {
                    // Behind the first of a strict queue it has no turn of its own.
                    self.holds.set_due(None);
                }
            }
            Timer::Plan(ticket) => self.plan_expired(ticket),
            // Evictions of whole groups are judged when decisions are polled.
            Timer::Below(_) | Timer::RunTime(_) => {}
            Timer::Evictions(ticket) => self.evictions_due(ticket),
            Timer::Searches => self.searches_due(),
            Timer::Promises => self.backfill.promises_due(),
            Timer::Booking(_) => self.holds.set_due(None),
            Timer::Reservation(id) => {
                let over = self.holds.room(id);
                if over.is_some_and(|room| room.until() <= self.world.now()) {
                    self.report.count(|metrics| &mut metrics.reservation_timeouts);
                    self.end_reservation(id, ReservationEnd::Timeout);
                }
                self.holds.set_due(None);
            }
        }
    }
}

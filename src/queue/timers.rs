//! Timers of the scheduler: what happens when they fire.

use super::observe::{GroupChange, ReservationEnd};
use super::queued_group::Phase;
use super::scheduler::{Scheduler, Timer};
use crate::base::Time;

impl Scheduler {
    /// Fires the timers due before `now`, or by `now` if `inclusive`.
    pub(super) fn expire(&mut self, now: Time, inclusive: bool) {
        while let Some(&(time, timer)) = self.timers.first() {
            if time > now || time == now && !inclusive {
                break;
            }
            self.timers.pop_first();
            self.now = self.now.max(time);
            self.fire(timer);
        }
        self.now = self.now.max(now);
    }

    pub(super) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Phase(id) => {
                if matches!(
                    self.groups.get(&id).map(|queued| &queued.phase),
                    Some(Phase::Unschedulable(_))
                ) {
                    self.metrics.add_one(|metrics| &mut metrics.periodic_retries);
                }
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
            }
            Timer::Plan(ticket) => self.plan_expired(ticket),
            Timer::Below(id) => self.evict(id),
            Timer::Evictions(ticket) => self.evictions_due(ticket),
            Timer::Searches => self.searches_due(),
            Timer::Promises => self.backfill.promises_due(),
            Timer::Reservation(id) => {
                let over = self.groups.get(&id).and_then(|queued| queued.reservation.as_ref());
                if over.is_some_and(|reserved| reserved.until <= self.now) {
                    self.metrics.add_one(|metrics| &mut metrics.reservation_timeouts);
                    self.end_reservation(id, ReservationEnd::Timeout);
                }
                self.reservations_due = true;
            }
        }
    }
}

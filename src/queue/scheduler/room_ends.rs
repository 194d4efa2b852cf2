//! The end of room that is kept for a group.

use alloc::collections::BTreeSet;

use super::{Scheduler, Timer};
use crate::base::Time;
use crate::queue::groups::Phase;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::{GroupChange, ReservationEnd};

impl Scheduler {
    /// End of a reservation, if there is one: for all groups that it is for.
    pub(super) fn end_reservation(&mut self, id: GroupId, reason: ReservationEnd) {
        let id = self.holds.lead(id);
        let now = self.world.now();
        let preempting = self.holds.claims(id);
        let keeps_nomination = match reason {
            ReservationEnd::Timeout => false,
            ReservationEnd::Used => !preempting || self.tenancy.is_none(),
            _ => !preempting,
        };
        let Some(room) = self.holds.end_room(id, keeps_nomination) else { return };
        let owners = room.owners();
        if preempting && reason != ReservationEnd::Used {
            // Whatever ended the claim, the next one does not come in the same instant.
            let next = now.after(self.world.settings().backoff.after(1));
            for own in owners {
                if let Some(queued) = self.groups.get_mut(own) {
                    queued.put_search_off(next);
                }
            }
        }
        self.timers.remove(&(room.until(), Timer::Reservation(id)));
        if reason == ReservationEnd::Timeout {
            let policy = self.world.settings().discipline.reservation();
            let after = policy.map_or(Time::MAX, |policy| now.after(policy.after));
            let domain = room.domain().map(|(_, value)| value.as_str());
            self.holds.past_mut(id).timed_out(after, domain);
            if after < Time::MAX {
                self.timers.insert((after, Timer::Reservation(id)));
            }
        }
        self.remove_placeholders(room.placeholders());
        for &own in owners {
            self.emit(own, GroupChange::ReservationEnded { reason });
            self.places_after(own, reason);
            if preempting {
                self.unreserve(own, reason == ReservationEnd::Used);
            }
        }
        if preempting {
            self.cancel_evictions(id, &BTreeSet::new());
        }
        // The groups had no wake condition, since they were tried after every change.
        for &own in owners {
            let asleep = self
                .groups
                .get(&own)
                .is_some_and(|queued| matches!(queued.phase(), Phase::Unschedulable(_)));
            if asleep {
                self.set_phase(own, Phase::Queued);
            }
        }
    }

    /// The end of a nomination to held places: they are taken, not held any more, or held again.
    pub(super) fn places_after(&mut self, root: GroupId, reason: ReservationEnd) {
        if reason == ReservationEnd::Outranked {
            self.holds.unnominate_places(root);
            self.holds.set_due(None);
        } else {
            self.release_places(|own, place, _| own.root() == root && place.is_nominated());
        }
    }
}

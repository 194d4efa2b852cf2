//! Booked room during an attempt: taken out for a group that may use it, and put back.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;

use super::Holds;
use super::booking::Borrower;
use super::hold::{Cause, HoldId};
use crate::queue::world::World;
use crate::state::Plan;

/// Takes the placeholders out of the cluster of which a group may use the room. Returns the numbers
/// of their bookings, for [`close_bookings`]. The group is looked at only if room is booked.
pub(in crate::queue) fn open_bookings<'a>(
    holds: &Holds,
    world: &mut World,
    who: impl FnOnce() -> Option<Borrower<'a>>,
) -> Vec<u64> {
    let mut open = Vec::new();
    let mut all = holds.booked().filter(|(_, own, _)| !own.placeholders.is_empty()).peekable();
    let Some(who) = all.peek().and_then(|_| who()) else { return open };
    let all = all.filter(|(.., booked)| booked.lets(&who));
    for (number, own, _) in all {
        let _ = Holds::take_out(world, &own.placeholders);
        open.push(number);
    }
    open
}

/// Puts placeholders back, but for the room that a plan uses, if there is one.
pub(in crate::queue) fn close_bookings(
    holds: &mut Holds,
    world: &mut World,
    open: &[u64],
    (who, plan): (&Borrower<'_>, Option<&Plan>),
) {
    let mut counted = BTreeSet::new();
    for number in open {
        let Some(own) = holds.entries.get_mut(&HoldId::Booking(*number)) else { continue };
        let Cause::Booking(booked) = &mut own.cause else { continue };
        let standing = mem::take(&mut own.placeholders);
        let Some(plan) = plan else {
            for (pod, _) in &standing {
                let _ = world.add_pod(pod.clone());
            }
            own.placeholders = standing;
            continue;
        };
        own.placeholders = booked.close(world, standing, (who, plan), &mut counted);
        holds.set_due(None);
    }
}

//! The entries of the ledger: their begin, content and end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

#[cfg(feature = "serde")]
use super::SavedHolds;
#[cfg(feature = "serde")]
use super::checked::Checked;
use super::hold::{Cause, Hold, HoldId, InFlight};
use super::{Basis, Distances, Holds, KeptQuota, Past, Placeholders};
use crate::base::Time;
use crate::model::{Pod, PodShape};
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::state::{Assignment, Plan, Row};

impl Holds {
    /// Whether something changed that holds may use, since this was last asked.
    pub(in crate::queue) fn take_due(&mut self) -> bool {
        mem::take(&mut self.due)
    }

    /// Groups whose nomination or claim has begun or ended, since this was last asked.
    pub(in crate::queue) fn take_renominated(&mut self) -> BTreeSet<GroupId> {
        mem::take(&mut self.renominated)
    }

    /// Something changed that holds may use: the pods on a row, or anything without one.
    pub(in crate::queue) fn set_due(&mut self, at: Option<Row>) {
        self.due = true;
        match at {
            Some(row) => self.checked.note(row),
            None => self.checked.open_all(),
        }
    }

    /// Groups with a nomination or claim to look at; second, whether claims that hold are left out.
    /// `by_room` says that nothing but the room of nodes decides. `has_room` says whether a row that has
    /// changed has room for a pod of a shape. O(changed rows · shapes + groups).
    pub(in crate::queue) fn rooms_due(
        &mut self,
        by_room: bool,
        has_room: impl Fn(&PodShape, Row) -> bool,
    ) -> (Vec<GroupId>, bool) {
        let last = self.entries.last_key_value();
        let by_room =
            by_room && last.is_none_or(|(id, _)| matches!(id, HoldId::Plan(_) | HoldId::Room(_)));
        self.checked.tell(by_room, has_room);
        let is_nominated = |id: &GroupId| {
            let own = self.entries.get(&HoldId::Room(*id));
            own.is_some_and(Hold::keeps_room) && self.nominated(*id).is_some()
        };
        let open = self.checked.open().iter().copied();
        (open.filter(is_nominated).collect(), by_room)
    }

    pub(in crate::queue) fn get(&self, id: HoldId) -> Option<&Hold> {
        self.entries.get(&id)
    }

    pub(in crate::queue) fn iter(&self) -> impl Iterator<Item = (&HoldId, &Hold)> {
        self.entries.iter()
    }

    // Plans in flight.

    /// A plan that is held, or being bound.
    pub(in crate::queue) fn plan(&self, ticket: Ticket) -> Option<&Hold> {
        self.entries.get(&HoldId::Plan(ticket))
    }

    /// A plan begins: it is held by a permit, or being bound.
    pub(in crate::queue) fn begin_plan(
        &mut self,
        ticket: Ticket,
        owners: Vec<GroupId>,
        plan: Plan,
        (since, until): (Time, Time),
        flight: InFlight,
    ) {
        let hold = Hold::new(owners, Cause::Plan(flight), Some(plan), (since, until));
        self.entries.insert(HoldId::Plan(ticket), hold);
    }

    /// The end of a plan.
    pub(in crate::queue) fn end_plan(&mut self, ticket: Ticket) -> Option<Hold> {
        self.permits_due.remove(&ticket);
        let mut own = self.entries.remove(&HoldId::Plan(ticket))?;
        own.drop_lost();
        Some(own)
    }

    /// A plan in flight without the pods that are gone. O(plan) if there are new ones of them.
    pub(in crate::queue) fn plan_in_flight(&mut self, ticket: Ticket) -> Option<&Plan> {
        let own = self.entries.get_mut(&HoldId::Plan(ticket))?;
        own.drop_lost();
        own.plan.as_ref()
    }

    /// Something has changed that the permits of a held plan may read.
    pub(in crate::queue) fn set_permits_due(&mut self, ticket: Ticket) {
        self.permits_due.insert(ticket);
    }

    /// A held plan whose permits are to be asked again.
    pub(in crate::queue) fn take_permits_due(&mut self) -> Option<Ticket> {
        self.permits_due.pop_first()
    }

    /// A plan is being prepared, or bound, from now on.
    pub(in crate::queue) fn admit_plan(
        &mut self,
        ticket: Ticket,
        (since, until): (Time, Time),
        prepares: bool,
    ) {
        if let Some(hold) = self.entries.get_mut(&HoldId::Plan(ticket)) {
            (hold.since, hold.until) = (since, until);
            if let Cause::Plan(flight) = &mut hold.cause {
                flight.held_by = None;
                flight.prepares = prepares;
            }
        }
    }

    /// A plan is held by a permit, until a time that is no later than before.
    pub(in crate::queue) fn keep_plan(&mut self, ticket: Ticket, by: String, until: Time) {
        if let Some(hold) = self.entries.get_mut(&HoldId::Plan(ticket)) {
            hold.until = hold.until.min(until);
            if let Cause::Plan(flight) = &mut hold.cause {
                flight.held_by = Some(by);
            }
        }
    }

    /// The result for a pod of a plan is known.
    pub(in crate::queue) fn settle_pod(&mut self, ticket: Ticket, pod: &str) {
        if let Some(hold) = self.entries.get_mut(&HoldId::Plan(ticket))
            && let Cause::Plan(flight) = &mut hold.cause
        {
            flight.outstanding.remove(pod);
        }
    }

    /// A pod of a plan is gone: the plan goes on without it. O(log plan).
    pub(in crate::queue) fn drop_from_plan(&mut self, ticket: Ticket, pod: &str) {
        self.settle_pod(ticket, pod);
        if let Some(hold) = self.entries.get_mut(&HoldId::Plan(ticket))
            && let Cause::Plan(flight) = &mut hold.cause
        {
            flight.lost.insert(pod.into());
        }
    }

    /// A binding of a plan has failed. Returns the number of failures before.
    pub(in crate::queue) fn count_failure(&mut self, ticket: Ticket) -> u32 {
        let hold = self.entries.get_mut(&HoldId::Plan(ticket));
        let Some(Cause::Plan(flight)) = hold.map(|own| &mut own.cause) else { return u32::MAX };
        let before = flight.failures;
        flight.failures = before.saturating_add(1);
        before
    }

    // Room for a group that waits.

    /// The first of the groups that share the room of a group: the room stands under it.
    pub(in crate::queue) fn lead(&self, id: GroupId) -> GroupId {
        self.leads.get(&id).copied().unwrap_or(id)
    }

    fn room_of(&self, id: GroupId) -> Option<&Hold> {
        self.entries.get(&HoldId::Room(self.lead(id)))
    }

    /// The quota that is kept for a group that waits for its victims.
    pub(in crate::queue) fn quota(&self, id: GroupId) -> Option<&KeptQuota> {
        self.room_of(id)?.quota.get(&id)
    }

    /// Groups that quota is kept for.
    pub(in crate::queue) fn with_quota(&self) -> impl Iterator<Item = GroupId> {
        self.iter().flat_map(|(_, own)| own.quota.keys().copied())
    }

    fn room_mut(&mut self, id: GroupId) -> Option<&mut Hold> {
        let id = self.lead(id);
        let own = self.entries.get_mut(&HoldId::Room(id))?;
        self.checked.open_up(id);
        Some(own)
    }

    fn remove_room(&mut self, id: GroupId) -> Option<Hold> {
        let id = self.lead(id);
        let own = self.entries.remove(&HoldId::Room(id))?;
        self.checked.remove(id);
        for owner in &own.owners {
            self.leads.remove(owner);
        }
        self.renominated.extend(&own.owners);
        Some(own)
    }

    fn insert_room(&mut self, id: GroupId, hold: Hold) {
        self.checked.open_up(id);
        self.entries.insert(HoldId::Room(id), hold);
    }

    /// The room that is kept for a group: a reservation, a nomination, or a claim.
    pub(in crate::queue) fn room(&self, id: GroupId) -> Option<&Hold> {
        self.room_of(id).filter(|own| own.keeps_room())
    }

    /// The plan that a group is nominated to.
    pub(in crate::queue) fn nominated(&self, id: GroupId) -> Option<&Plan> {
        let own = self.room_of(id)?;
        matches!(own.cause, Cause::Nomination { .. } | Cause::Claim).then_some(own.plan.as_ref()?)
    }

    /// Whether a group claims the room of victims.
    pub(in crate::queue) fn claims(&self, id: GroupId) -> bool {
        self.room_of(id).is_some_and(|own| matches!(own.cause, Cause::Claim))
    }

    /// Groups that room is kept for, in order of arrival.
    pub(in crate::queue) fn with_room(&self) -> impl Iterator<Item = GroupId> {
        let rooms = self.entries.range(HoldId::Room(0)..=HoldId::Room(GroupId::MAX));
        rooms.filter_map(|(id, own)| match id {
            HoldId::Room(group) => own.keeps_room().then_some(*group),
            _ => None,
        })
    }

    /// Capacity is set aside for a group as it frees; a nomination of it ends.
    pub(in crate::queue) fn reserve(
        &mut self,
        id: GroupId,
        domain: Option<(String, String)>,
        span: (Time, Time),
    ) {
        self.renominated.insert(id);
        let cause = Cause::Reservation { domain, whole: 0 };
        self.insert_room(id, Hold::new(alloc::vec![id], cause, None, span));
    }

    /// A group is nominated to a plan. Room is kept for it if `dormant` is not set.
    pub(in crate::queue) fn nominate(
        &mut self,
        id: GroupId,
        plan: Plan,
        span: (Time, Time),
        dormant: bool,
    ) {
        self.renominated.insert(id);
        let cause = Cause::Nomination { dormant };
        self.insert_room(id, Hold::new(alloc::vec![id], cause, Some(plan), span));
    }

    /// A group claims the room of victims, with those that it starts together with; it is the first
    /// of them. Quota is kept for them if it was reserved.
    pub(in crate::queue) fn claim(
        &mut self,
        owners: &[GroupId],
        plan: Plan,
        span: (Time, Time),
        placeholders: Placeholders,
        quota: BTreeMap<GroupId, KeptQuota>,
    ) {
        let Some((&id, others)) = owners.split_first() else { return };
        let mut hold = Hold::new(owners.to_vec(), Cause::Claim, Some(plan), span);
        (hold.placeholders, hold.quota) = (placeholders, quota);
        self.leads.extend(others.iter().map(|other| (*other, id)));
        self.renominated.extend(owners);
        // Room that nobody else holds part of: no other hold can use that, or suffer from it.
        let mut holds = self.entries.iter().filter(|(hold, _)| **hold != HoldId::Room(id));
        if holds.any(|(_, own)| meets(own, &hold.placeholders)) {
            self.set_due(None);
        }
        self.insert_room(id, hold);
    }

    /// The nomination of a group, or its claim, is forgotten; room that is kept for it stays until
    /// [`Holds::end_room`].
    pub(in crate::queue) fn forget_nomination(&mut self, id: GroupId) {
        let Some(own) = self.room_mut(id) else { return };
        if !own.keeps_room() {
            self.remove_room(id);
        } else if !matches!(own.cause, Cause::Reservation { .. }) {
            let whole = own.placeholders.len();
            own.cause = Cause::Reservation { domain: None, whole };
            own.plan = None;
            own.quota.clear();
            let owners = own.owners.clone();
            self.renominated.extend(owners);
        }
    }

    /// The nomination of a group is forgotten; a claim stays one until its room ends.
    pub(in crate::queue) fn forget_unless_claimed(&mut self, id: GroupId) {
        if !self.claims(id) {
            self.forget_nomination(id);
        }
    }

    /// The end of the room that is kept for a group. With `keeps_nomination` its plan outlasts it as
    /// a dormant nomination, unless it is of several groups.
    pub(in crate::queue) fn end_room(
        &mut self,
        id: GroupId,
        keeps_nomination: bool,
    ) -> Option<Hold> {
        self.room(id)?;
        let own = self.remove_room(id)?;
        if keeps_nomination
            && own.owners.len() == 1
            && let Some(plan) = &own.plan
        {
            self.nominate(id, plan.clone(), (own.since, Time::MAX), true);
        }
        self.distances.remove(&id);
        Some(own)
    }

    /// Takes the placeholders of the room of a group out of its entry; they stay where they are.
    pub(in crate::queue) fn take_placeholders(&mut self, id: GroupId) -> (Placeholders, usize) {
        let Some(own) = self.room_mut(id).filter(|own| own.keeps_room()) else {
            return (Vec::new(), 0);
        };
        let whole = own.whole();
        if let Cause::Reservation { whole, .. } = &mut own.cause {
            *whole = 0;
        }
        (mem::take(&mut own.placeholders), whole)
    }

    /// The placeholders of the room of a group, and the domain of a reservation.
    pub(in crate::queue) fn set_placeholders(
        &mut self,
        id: GroupId,
        placeholders: Placeholders,
        whole: usize,
        domain: Option<(String, String)>,
        basis: Option<Basis>,
    ) {
        let Some(own) = self.room_mut(id).filter(|own| own.keeps_room()) else { return };
        own.placeholders = placeholders;
        if let Cause::Reservation { domain: chosen, whole: own } = &mut own.cause {
            (*chosen, *own) = (domain, whole);
        }
        if let Some(basis) = basis {
            self.checked.put(self.lead(id), basis);
        }
    }

    // Promised starts.

    /// The promised start of a group, its plan, and the losses up to which it was checked.
    pub(in crate::queue) fn promise(&self, id: GroupId) -> Option<(Time, &Plan, u64)> {
        let own = self.entries.get(&HoldId::Promise(id))?;
        match (&own.cause, &own.plan) {
            (Cause::Promise { losses }, Some(plan)) => Some((own.since, plan, *losses)),
            _ => None,
        }
    }

    /// Promises a group a start. Returns the start promised before.
    pub(in crate::queue) fn set_promise(
        &mut self,
        id: GroupId,
        at: Time,
        plan: Plan,
        losses: u64,
    ) -> Option<Time> {
        let hold =
            Hold::new(alloc::vec![id], Cause::Promise { losses }, Some(plan), (at, Time::MAX));
        self.entries.insert(HoldId::Promise(id), hold).map(|old| old.since)
    }

    /// Another place for the promised start of a group.
    pub(in crate::queue) fn move_promise(&mut self, id: GroupId, plan: Plan) {
        if let Some(own) = self.entries.get_mut(&HoldId::Promise(id)) {
            own.plan = Some(plan);
        }
    }

    /// The promised place of a group is still there after so many losses.
    pub(in crate::queue) fn confirm_promise(&mut self, id: GroupId, losses: u64) {
        if let Some(own) = self.entries.get_mut(&HoldId::Promise(id)) {
            own.cause = Cause::Promise { losses };
        }
    }

    pub(in crate::queue) fn end_promise(&mut self, id: GroupId) {
        self.entries.remove(&HoldId::Promise(id));
    }

    /// Groups that were promised a start, with it.
    pub(in crate::queue) fn promised(&self) -> impl Iterator<Item = (GroupId, Time)> {
        let promises = self.entries.range(HoldId::Promise(0)..=HoldId::Promise(GroupId::MAX));
        promises.filter_map(|(id, own)| match id {
            HoldId::Promise(group) => Some((*group, own.since)),
            _ => None,
        })
    }

    /// Ends the promises to groups that are not to keep theirs.
    pub(in crate::queue) fn retain_promises(&mut self, keep: impl Fn(GroupId) -> bool) {
        self.entries.retain(|id, _| match id {
            HoldId::Promise(group) => keep(*group),
            _ => true,
        });
    }

    // Past reservations of groups.

    pub(in crate::queue) fn past(&self, id: GroupId) -> Option<&Past> {
        self.past.get(&id)
    }

    pub(in crate::queue) fn past_mut(&mut self, id: GroupId) -> &mut Past {
        self.past.entry(id).or_default()
    }

    /// Forgets a group that is gone. Its holds have ended.
    pub(in crate::queue) fn forget(&mut self, id: GroupId) {
        self.past.remove(&id);
        self.distances.remove(&id);
        self.remove_room(id);
        self.renominated.remove(&id);
        self.entries.remove(&HoldId::Promise(id));
    }

    /// How near domains are to having room for a group, and the count of nodes looked at.
    pub(in crate::queue) fn distances(&mut self, id: GroupId) -> (&mut Distances, &mut u64) {
        (self.distances.entry(id).or_default(), &mut self.looked_at)
    }

    pub(in crate::queue) fn drop_distances(&mut self, id: GroupId) {
        self.distances.remove(&id);
    }

    /// Counts nodes that were looked at.
    pub(in crate::queue) fn count_looked_at(&mut self, nodes: usize) {
        self.looked_at += nodes as u64;
    }

    pub(in crate::queue) fn looked_at(&self) -> u64 {
        self.looked_at
    }
}

impl Past {
    pub(in crate::queue) fn not_before(&self) -> Time {
        self.not_before
    }

    pub(in crate::queue) fn tried_domains(&self) -> &BTreeSet<String> {
        &self.tried_domains
    }

    /// All domains were tried: begins anew.
    pub(in crate::queue) fn forget_domains(&mut self) {
        self.tried_domains.clear();
    }

    /// A reservation timed out.
    pub(in crate::queue) fn timed_out(&mut self, not_before: Time, domain: Option<&str>) {
        self.not_before = not_before;
        self.tried_domains.extend(domain.map(String::from));
    }

    /// Whether an empty cluster of this epoch was found too small.
    pub(in crate::queue) fn is_infeasible(&self, epoch: u64) -> bool {
        self.infeasible_at == Some(epoch)
    }

    pub(in crate::queue) fn set_infeasible(&mut self, epoch: Option<u64>) {
        self.infeasible_at = epoch;
    }
}

#[cfg(feature = "serde")]
impl Holds {
    /// The entries and what is remembered, to be saved.
    pub(in crate::queue) fn save(&self) -> SavedHolds {
        let whole = |(id, own): (&HoldId, &Hold)| {
            let mut own = own.clone();
            own.drop_lost();
            (*id, own)
        };
        SavedHolds {
            holds: self.entries.iter().map(whole).collect(),
            past: self.past.clone(),
            holds_due: self.due,
            permits_due: self.permits_due.clone(),
        }
    }

    /// A ledger that continues from a save.
    pub(in crate::queue) fn restore(saved: SavedHolds) -> Holds {
        let SavedHolds { holds, past, holds_due: due, permits_due } = saved;
        let entries: BTreeMap<HoldId, Hold> = holds.into_iter().collect();
        let (mut leads, mut checked) = (BTreeMap::new(), Checked::default());
        for (id, own) in &entries {
            if let HoldId::Room(lead) = id {
                checked.open_up(*lead);
                let others = own.owners.iter().filter(|owner| *owner != lead);
                leads.extend(others.map(|owner| (*owner, *lead)));
            }
        }
        Holds { entries, leads, past, due, checked, permits_due, ..Holds::default() }
    }
}

/// Whether a hold keeps room on a node of placeholders, or has a plan for one.
fn meets(own: &Hold, placeholders: &[(Pod, String)]) -> bool {
    let places = match &own.cause {
        Cause::Move(own) => &own.places[..],
        _ => &[],
    };
    let planned = own.plan.iter().flat_map(Plan::assignments).map(Assignment::node);
    let held = own.placeholders.iter().map(|(_, node)| node.as_str());
    let mut all = planned.chain(held).chain(places.iter().map(|place| place.to.as_str()));
    all.any(|node| placeholders.iter().any(|(_, own)| own == node))
}

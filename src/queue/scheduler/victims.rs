//! Victims from the decision to their end: deadlines, failures, and evictions that are asked for
//! again.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::cancellation::unasked;
use super::{Scheduler, Timer};
use crate::base::Time;
use crate::model::PodGroup;
use crate::preempt::{DisruptionBudget, EvictedPod, Victim};
use crate::queue::removals::{Among, Removal, is_there, pod_name};
use crate::queue::terms::decision::Decision;
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::{GroupId, Ticket};

impl Scheduler {
    /// A unit of a decision, or a pod of one, that has left its nodes:
    /// [`Gone::Evicted`](crate::queue::Gone::Evicted).
    pub(super) fn unit_evicted(&mut self, ticket: Ticket, unit: &str) -> Result<(), QueueError> {
        let found = self.victim(ticket, unit);
        self.follow();
        let (_, pods) = found?;
        for pod in pods {
            let full = pod_name(&pod);
            if !is_there(self.world.cluster(), &pod) {
                continue;
            }
            match self.groups.member(&full) {
                Some((id, seq)) => self.unbound(id, seq, &full),
                None => self.remove_pod(&pod.namespace, &pod.name),
            }
        }
        self.update_evictions();
        Ok(())
    }

    /// A victim of [`Decision::Evict`] that could not be evicted: a budget refuses, say, and may
    /// not at `retry_at`. Without that time it is not asked for again for this group. In place of a
    /// unit that could not move, others move or victims are searched; it is left alone until then.
    ///
    /// Other victims are searched, those that went before counted as gone; what is not needed then
    /// is taken back. If there are none, room is held until the victim is asked for again. Of a group
    /// that goes whole, all are taken back if none has begun to go; else the rest is asked for
    /// until it has gone.
    ///
    /// `unit` is named as in [`Gone::Evicted`](crate::queue::Gone::Evicted).
    ///
    /// # Errors
    /// The ticket names no victims that are still to go, or none of that name.
    pub fn handle_eviction_failed(
        &mut self,
        ticket: Ticket,
        unit: &str,
        retry_at: Option<Time>,
        now: Time,
    ) -> Result<(), QueueError> {
        self.world.advance(now);
        let found = self.victim(ticket, unit);
        self.follow();
        let (name, _) = found?;
        self.fail_eviction(ticket, &name, retry_at, true);
        self.follow();
        Ok(())
    }

    /// The unit of a decision, by its name or that of one of its pods, with the pods that are named.
    fn victim(
        &mut self,
        ticket: Ticket,
        name: &str,
    ) -> Result<(String, Vec<EvictedPod>), QueueError> {
        self.update_evictions();
        if let Some(own) = self.removals.unit(ticket, name).filter(|own| own.is_whole()) {
            return Ok((String::from(own.name()), own.pods().cloned().collect()));
        }
        let mut found = self.removals.of_pod(name).filter(|(own, _)| own.ticket() == ticket);
        let found = found.next();
        let found = found.map(|(own, pod)| (String::from(own.name()), alloc::vec![pod.clone()]));
        found.ok_or(QueueError::StaleTicket)
    }

    /// The deadlines of victims: those that could not go are asked for again, those that did not go
    /// have failed.
    pub(super) fn evictions_due(&mut self, ticket: Ticket) {
        self.update_evictions();
        self.places_due();
        self.drop_unentitled(ticket);
        let (now, settings) =
            (self.world.now(), self.world.settings().preemption.unwrap_or_default());
        self.drop_due_parts(ticket);
        self.drop_due_beyond_budgets(ticket);
        let Some(plan) = self.removals.plan(ticket).cloned() else { return };
        let unasked = unasked(self.report.decisions(), ticket);
        let times = (now, now.after(settings.start_timeout));
        let known = (self.world.cluster(), &self.groups);
        let mut again = self.removals.ask_due(known, ticket, times, &unasked);
        while let Some(late) = self.removals.first_late(ticket, now) {
            self.fail_eviction(ticket, &late, None, false);
        }
        if !again.is_empty() {
            self.removals.charge(self.world.cluster(), again.iter().flat_map(Removal::pods));
            for own in &again {
                if own.has_begun() {
                    for pod in own.pods() {
                        self.set_deleting(pod, true);
                    }
                }
            }
            again.retain(|own| !own.names().any(|name| unasked.contains(&name)));
            let (evicted, moved): (Vec<_>, Vec<_>) =
                again.into_iter().partition(Removal::is_victim);
            let victims: Vec<Victim> = evicted.iter().map(Removal::victim).collect();
            let moves = self.moves_of(ticket, &moved);
            if !victims.is_empty() {
                self.report.decide(Decision::Evict { ticket, victims, plan: plan.clone() });
            }
            if !moves.is_empty() {
                self.report.decide(Decision::Move { ticket, moves, plan });
            }
        }
        self.set_eviction_timer(ticket);
    }

    /// The units of a decision that the embedder sees now have their time from now on.
    pub(super) fn have_been_asked(&mut self, ticket: Ticket, names: &BTreeSet<&str>) {
        let settings = self.world.settings().preemption.unwrap_or_default();
        let until = self.world.now().after(settings.start_timeout);
        self.removals.have_been_asked(ticket, until, names);
        self.set_eviction_timer(ticket);
    }

    fn set_eviction_timer(&mut self, ticket: Ticket) {
        let next = self.removals.next_deadline(ticket);
        self.timers.extend(next.map(|next| (next, Timer::Evictions(ticket))));
    }

    /// A victim that does not go: that is reported, or its time is over.
    fn fail_eviction(
        &mut self,
        ticket: Ticket,
        name: &str,
        retry_at: Option<Time>,
        is_reported: bool,
    ) {
        let settings = self.world.settings().preemption.unwrap_or_default();
        let now = self.world.now();
        let least = now.after(self.world.settings().backoff.after(1));
        let Some(failed) = self.removals.unit(ticket, name) else { return };
        let own: BTreeSet<GroupId> =
            failed.names().filter_map(|name| Some(self.groups.member(&name)?.0)).collect();
        // Others of its group that have begun leave the minimum, or it would have begun with them.
        let has_begun = failed.has_begun();
        let is_preempted =
            |root| self.groups.get(root).is_some_and(|own| own.health().is_preempted());
        let is_whole = own.iter().any(is_preempted);
        // A group that has begun to go whole, or a unit that does not end, is asked for until it has
        // gone: it counts against the minimum of its group.
        let is_whole_unit = is_whole || failed.is_whole();
        let retry_at = match retry_at {
            None if has_begun && (is_whole_unit || !is_reported) => {
                Some(now.after(settings.start_timeout))
            }
            retry_at => retry_at,
        };
        let retry_at = retry_at.map(|retry| retry.max(least));
        let until = retry_at.unwrap_or_else(|| now.after(settings.timeout));
        // In place of a move that has not begun others are searched, or victims.
        let retry_at = retry_at.filter(|_| failed.is_victim() || has_begun);
        // If a group has not begun to go, its other units stay with the failed one.
        let root_name = failed.root_name().map(String::from);
        let known = (self.world.cluster(), &self.groups);
        let is_parted = own.is_empty()
            && root_name.as_ref().is_some_and(|root| {
                let mut going = self.removals.going_of(root, true);
                for name in failed.names() {
                    going.remove(&name);
                }
                self.removals.is_left_in_part(known, root, &going)
            });
        let groups = &self.groups;
        let is_sibling = |other: &Removal| {
            let is_of_own =
                |name: String| groups.member(&name).is_some_and(|(root, _)| own.contains(&root));
            is_parted && other.root_name() == root_name.as_deref()
                || is_whole && !has_begun && other.names().any(is_of_own)
        };
        let is_sibling = (is_parted || is_whole && !has_begun).then_some(&is_sibling);
        let times = (retry_at, until);
        let failure = self.removals.fail(ticket, name, times, is_reported, is_sibling);
        let Some(failure) = failure else { return };
        for pod in failure.failed.pods() {
            self.set_deleting(pod, false);
            if retry_at.is_none() {
                self.removals.set_assumed(pod_name(pod), Some(false));
            }
        }
        self.cancel_units(ticket, failure.with_it);
        if retry_at.is_none() {
            self.release_places(|own, _, _| own.is(ticket, name));
            for root in own {
                self.stay_in_place(root);
            }
        }
        self.take_back_parts(&root_name.into_iter().collect());
        self.timers.insert((until, Timer::Searches));
        self.set_eviction_timer(ticket);
        self.holds.set_due(None);
    }

    /// Time has passed for which a search for victims waited.
    pub(super) fn searches_due(&mut self) {
        self.removals.forget_refused(self.world.now());
        if let Some(tenancy) = &mut self.tenancy {
            // Groups that were protected until now may be named again.
            tenancy.release_kept_until(self.world.now());
        }
        self.removals.set_searches_due();
    }

    /// Drops evictions of other queues' groups that are to be asked for again now, if quota would
    /// not name them any more. The usage of their queues has changed since. Quota may name others.
    pub(super) fn drop_unentitled(&mut self, ticket: Ticket) {
        let now = self.world.now();
        if self.tenancy.is_none() {
            return;
        }
        let due = self.removals.due(ticket, now).filter(|own| !own.has_begun() && own.is_due(now));
        let due: Vec<(GroupId, GroupId, String)> =
            due.filter_map(|own| Some((own.by(), own.root()?, String::from(own.name())))).collect();
        for (by, root, name) in due {
            if self.is_still_named(by, root) {
                continue;
            }
            let gone = self.removals.take(Among::Unit(ticket, &name), |_| true);
            for (ticket, units) in gone {
                self.cancel_units(ticket, units);
            }
            self.holds.set_due(None);
            if let Some(queued) = self.groups.get_mut(&by) {
                queued.set_no_search_before(now);
            }
        }
    }

    /// A disruption budget that appeared or changed. What it allows is counted down with each
    /// decision until it counts the eviction itself.
    pub fn handle_budget(&mut self, budget: DisruptionBudget, now: Time) {
        self.world.advance(now);
        self.removals.set_budget(budget);
        self.follow();
    }

    /// The removal of a disruption budget. Unknown budgets are ignored.
    pub fn handle_budget_removed(&mut self, namespace: &str, name: &str, now: Time) {
        self.world.advance(now);
        self.removals.remove_budget(namespace, name);
        self.follow();
    }

    /// A root group that another scheduler runs: how its pods, which arrive by
    /// [`Scheduler::handle_event`], may be disrupted. What a group says of its priority, of
    /// `non_preemptible` and of `min_run_time` holds for all of its members. A pod of a group that is
    /// not known is a unit of its own.
    ///
    /// # Errors
    /// The tree is nested too deep, or its root is a group of this scheduler.
    pub fn handle_running_group(&mut self, group: &PodGroup, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        let name = group.full_name();
        if self.groups.named(name.as_str()).is_some() {
            return Err(QueueError::GroupTaken { group: name.clone(), root: name });
        }
        group.check_depth()?;
        self.removals.put_running_group(group)
    }

    /// The end of a group that another scheduler ran. Unknown groups are ignored.
    pub fn handle_running_group_removed(&mut self, namespace: &str, name: &str, now: Time) {
        self.world.advance(now);
        self.removals.remove_running_group(namespace, name);
    }
}

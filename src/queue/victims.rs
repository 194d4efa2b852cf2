//! Victims from the decision to their end: reports, deadlines, budgets, and other running groups.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::decision::Decision;
use super::error::QueueError;
use super::evictions::{Leave, UnitInFlight, is_there, pod_name};
use super::ids::{GroupId, Ticket};
use super::scheduler::{Scheduler, Timer};
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::preempt::{DisruptionBudget, EvictedPod, Move, Victim};
use crate::state::{Event, NodeView, PodView};

impl Scheduler {
    /// A victim of [`Decision::Preempt`] that has gone: its pods have left their nodes. Members are
    /// pending again, and a group that has gone whole is queued from the beginning; report pods that
    /// do not exist any more by [`Scheduler::handle_pod_deleted`] instead.
    ///
    /// The same holds of a unit that was to move and has left its nodes: its members, or pods in their
    /// stead, are bound where it was to go.
    ///
    /// `victim` is the name of the victim or unit, or the full name of one of its pods. Where a group and a
    /// pod of one decision have one name, it is the group.
    ///
    /// # Errors
    /// The ticket names no victims that are still to go, or none of that name: the eviction was
    /// taken back, say, and happened all the same. Report its pods as any other that leaves its node
    /// then.
    pub fn handle_evicted(
        &mut self,
        ticket: Ticket,
        victim: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let (_, pods) = self.victim(ticket, victim)?;
        for pod in pods {
            let full = pod_name(&pod);
            if !is_there(&self.cluster, &pod) {
                continue;
            }
            match self.pods.get(&full).copied() {
                Some((id, seq)) => self.unbound(id, seq, &full),
                None => self.remove_pod(&pod.namespace, &pod.name),
            }
        }
        self.update_evictions();
        Ok(())
    }

    /// A victim of [`Decision::Preempt`] that could not be evicted: a budget refuses, say, and may
    /// not at `retry_at`. Without that time it is not asked for again for this group. In place of a
    /// unit that could not move, others move or victims are searched; it is left alone until then.
    ///
    /// Other victims are searched, those that went before counted as gone; what is not needed then
    /// is taken back. If there are none, room is held until the victim is asked for again. Of a group
    /// that goes whole, all are taken back if none has begun to go; else the rest is asked for
    /// until it has gone.
    ///
    /// `victim` is named as for [`Scheduler::handle_evicted`].
    ///
    /// # Errors
    /// The ticket names no victims that are still to go, or none of that name.
    pub fn handle_eviction_failed(
        &mut self,
        ticket: Ticket,
        victim: &str,
        retry_at: Option<Time>,
        now: Time,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let (index, _) = self.victim(ticket, victim)?;
        self.fail_eviction(ticket, index, retry_at, true);
        Ok(())
    }

    /// A disruption budget that appeared or changed. What it allows is counted down with each
    /// decision until it counts the eviction itself.
    pub fn handle_budget(&mut self, budget: DisruptionBudget, now: Time) {
        self.expire(now, false);
        self.preemption.set_budget(budget);
        self.budgets_changed();
    }

    /// The removal of a disruption budget. Unknown budgets are ignored.
    pub fn handle_budget_removed(&mut self, namespace: &str, name: &str, now: Time) {
        self.expire(now, false);
        self.preemption.budgets.remove(&format!("{namespace}/{name}"));
        self.running_work.remove_budget(namespace, name);
        self.budgets_changed();
    }

    /// A root group that another scheduler runs: how its pods, which arrive by
    /// [`Scheduler::handle_event`], may be disrupted. What a group says of its priority, of
    /// `non_preemptible` and of `min_run_time` holds for all of its members. A pod of a group that is
    /// not known is a unit of its own.
    ///
    /// # Errors
    /// The tree is nested too deep, or its root is a group of this scheduler.
    pub fn handle_running_group(&mut self, group: &PodGroup, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let name = group.full_name();
        if self.names.contains_key(name.as_str()) {
            return Err(QueueError::GroupTaken { group: name.clone(), root: name });
        }
        group.check_depth()?;
        let mut alone = group.clone();
        drop_pods(&mut alone);
        pass_down(&mut alone);
        self.running_work.add_group(&alone)?;
        self.preemption.running.insert(String::from(name.as_str()), alone);
        self.preemption.searches_due = true;
        Ok(())
    }

    /// The end of a group that another scheduler ran. Unknown groups are ignored.
    pub fn handle_running_group_removed(&mut self, namespace: &str, name: &str, now: Time) {
        self.expire(now, false);
        if self.preemption.running.remove(&format!("{namespace}/{name}")).is_some() {
            self.running_work.remove_group(namespace, name);
        }
    }

    /// Takes a group of this scheduler in among those that run.
    pub(super) fn group_changed(&mut self, id: GroupId) -> Result<(), QueueError> {
        let Some(queued) = self.groups.get(&id) else { return Ok(()) };
        self.preemption.running.remove(queued.name.as_str());
        self.preemption.searches_due = true;
        let added = self.running_work.add_group(&queued.root);
        self.release_kept(id);
        Ok(added?)
    }

    /// Passes on what budgets allow now.
    pub(super) fn budgets_changed(&mut self) {
        for known in self.preemption.budgets.values() {
            self.running_work.set_budget(known.left());
        }
        self.preemption.searches_due = true;
    }

    /// The place of a victim among those of a decision, with the pods that are named.
    fn victim(
        &mut self,
        ticket: Ticket,
        name: &str,
    ) -> Result<(usize, Vec<EvictedPod>), QueueError> {
        self.update_evictions();
        let units = match self.preemption.of(ticket) {
            Some(evictions) => &evictions.units,
            None => return Err(QueueError::StaleTicket),
        };
        if let Some(at) =
            units.iter().position(|unit| unit.victim.whole && unit.victim.name == name)
        {
            return Ok((at, units[at].victim.pods.clone()));
        }
        let found = units.iter().enumerate().find_map(|(at, unit)| {
            let pod = unit.victim.pods.iter().find(|pod| pod_name(pod) == name)?;
            Some((at, alloc::vec![pod.clone()]))
        });
        found.ok_or(QueueError::StaleTicket)
    }

    /// Looks which victims have begun to go, and which have gone.
    pub(super) fn update_evictions(&mut self) {
        let Some(settings) = self.settings.preemption else { return };
        let until = self.now.after(settings.grace_period);
        let mut roots: BTreeSet<GroupId> = BTreeSet::new();
        let mut begun: Vec<EvictedPod> = Vec::new();
        let mut timers: BTreeSet<Ticket> = BTreeSet::new();
        let mut lost: Vec<(Ticket, UnitInFlight)> = Vec::new();
        for (ticket, evictions) in &mut self.preemption.evictions {
            evictions.units.retain_mut(|unit| {
                let before = unit.victim.pods.len();
                unit.victim.pods.retain(|pod| is_there(&self.cluster, pod));
                let goes = |pod: &EvictedPod| {
                    let view = self.cluster.pod(&pod.namespace, &pod.name);
                    view.is_some_and(PodView::deleting)
                };
                let has_begun =
                    unit.victim.pods.len() < before || unit.victim.pods.iter().any(goes);
                if has_begun && unit.is_later() {
                    // It goes by itself, and was not asked to.
                    lost.push((*ticket, unit.clone()));
                    return false;
                }
                if has_begun && !unit.begun {
                    unit.begun = true;
                    unit.until = until;
                    timers.insert(*ticket);
                    roots.extend(unit.root);
                    begun.extend(unit.victim.pods.iter().cloned());
                }
                if unit.victim.pods.len() < before {
                    roots.extend(unit.root);
                }
                !unit.victim.pods.is_empty()
            });
        }
        self.preemption.drop_done();
        for (ticket, unit) in lost {
            self.cancel_units(ticket, alloc::vec![unit]);
        }
        // Where too little of a group would be left, the rest of it goes too.
        let going = self.preemption.members(true, |name| self.pods.get(name).copied());
        let none = BTreeSet::new();
        let falls = |root: &GroupId| {
            let gone = going.get(root).unwrap_or(&none);
            self.groups.get(root).is_some_and(|own| !own.keeps_minima(&self.cluster, gone))
        };
        let fallen: BTreeSet<GroupId> = roots.iter().copied().filter(falls).collect();
        for (ticket, evictions) in &mut self.preemption.evictions {
            for unit in &mut evictions.units {
                let is_asked = !unit.begun && !unit.is_later();
                if is_asked && unit.root.is_some_and(|root| fallen.contains(&root)) {
                    unit.begun = true;
                    unit.until = until;
                    timers.insert(*ticket);
                    begun.extend(unit.victim.pods.iter().cloned());
                }
            }
        }
        for pod in &begun {
            self.set_deleting(pod, true);
        }
        for ticket in timers {
            self.timers.insert((until, Timer::Evictions(ticket)));
        }
        for root in roots {
            self.stay_in_place(root);
        }
    }

    /// Records whether a pod counts as terminating: the others of a unit that has begun to go do.
    pub(super) fn set_deleting(&mut self, pod: &EvictedPod, deleting: bool) {
        let view = self.cluster.pod(&pod.namespace, &pod.name);
        let Some(mut own) = view.map(PodView::to_pod) else { return };
        if own.deleting == deleting {
            return;
        }
        own.deleting = deleting;
        let _ = self.cluster.apply(Event::PodChanged { pod: own, version: 0 });
        self.pods_changed(&pod.node);
    }

    /// Completes a bound pod that an event reports: since when it runs, and whether it is to go.
    pub(super) fn complete(&self, pod: &mut Pod) {
        if self.settings.preemption.is_none() {
            return;
        }
        let known = self.cluster.pod(pod.namespace(), &pod.name);
        let known = known.filter(|known| {
            known.uid() == pod.uid && known.node().map(NodeView::name) == pod.node.as_deref()
        });
        pod.start = pod.start.or_else(|| known.and_then(PodView::start)).or(Some(self.now));
        let name = format!("{}/{}", pod.namespace(), pod.name);
        let mut units = self.preemption.units().filter(|(_, unit)| unit.begun);
        pod.deleting |= known.is_some()
            && units
                .any(|(_, unit)| unit.retry_at.is_none() && unit.names().any(|own| own == name));
    }

    /// Records that a pod runs since now.
    pub(super) fn has_started(&mut self, namespace: &str, name: &str) {
        if self.settings.preemption.is_none() {
            return;
        }
        let Some(view) = self.cluster.pod(namespace, name) else { return };
        if view.start().is_none() {
            let mut pod = view.to_pod();
            pod.start = Some(self.now);
            let _ = self.cluster.apply(Event::PodChanged { pod, version: 0 });
        }
    }

    /// The deadlines of victims: those that could not go are asked for again, those that did not go
    /// have failed.
    pub(super) fn evictions_due(&mut self, ticket: Ticket) {
        self.update_evictions();
        self.places_due();
        self.drop_unentitled(ticket);
        let (now, settings) = (self.now, self.settings.preemption.unwrap_or_default());
        self.drop_due_parts(ticket);
        let Some(evictions) = self.preemption.of(ticket) else { return };
        let plan = evictions.plan.clone();
        let mut again = Vec::new();
        let unasked = unasked(&self.outbox, ticket);
        for unit in &mut evictions.units {
            if unit.retry_at.is_some_and(|retry| retry <= now) {
                unit.retry_at = None;
                unit.until = now.after(settings.start_timeout);
                again.push(unit.clone());
            } else if unit.until <= now && unit.names().any(|name| unasked.contains(&name)) {
                // Time passed before the embedder saw the decision.
                unit.until = now.after(settings.start_timeout);
            }
        }
        let is_late = |unit: &UnitInFlight| unit.retry_at.is_none() && unit.until <= now;
        while let Some(late) =
            self.preemption.of(ticket).and_then(|own| own.units.iter().position(is_late))
        {
            self.fail_eviction(ticket, late, None, false);
        }
        if !again.is_empty() {
            for unit in &again {
                for name in unit.names() {
                    self.preemption.refused.remove(&name);
                }
                self.preemption.charge(&self.cluster, &unit.victim.pods);
                if unit.begun {
                    for pod in &unit.victim.pods {
                        self.set_deleting(pod, true);
                    }
                }
            }
            self.budgets_changed();
            again.retain(|unit| !unit.names().any(|name| unasked.contains(&name)));
            let (evicted, moved): (Vec<_>, Vec<_>) =
                again.into_iter().partition(|unit| unit.leave == Leave::Evicted);
            let victims = evicted.into_iter().map(|unit| unit.victim).collect();
            let moves = self.moves_of(ticket, &moved);
            self.outbox.push_back(Decision::Preempt { ticket, victims, moves, plan });
        }
        self.set_eviction_timer(ticket);
    }

    /// The units of a decision that the embedder sees now have their time from now on.
    pub(super) fn have_been_asked(&mut self, ticket: Ticket, victims: &[Victim], moves: &[Move]) {
        let until = self.now.after(self.settings.preemption.unwrap_or_default().start_timeout);
        let names: BTreeSet<&str> = victims.iter().map(|victim| &*victim.name).collect();
        let Some(evictions) = self.preemption.of(ticket) else { return };
        for unit in &mut evictions.units {
            let name = &*unit.victim.name;
            let is_asked = names.contains(name) || moves.iter().any(|step| step.unit == name);
            if is_asked && unit.retry_at.is_none() {
                unit.until = unit.until.max(until);
            }
        }
        self.set_eviction_timer(ticket);
    }

    fn set_eviction_timer(&mut self, ticket: Ticket) {
        let Some(evictions) = self.preemption.of(ticket) else { return };
        let asked = evictions.units.iter().filter(|unit| !unit.is_later());
        let next = asked.map(UnitInFlight::deadline).min();
        self.timers.extend(next.map(|next| (next, Timer::Evictions(ticket))));
    }

    /// A victim that does not go: that is reported, or its time is over.
    fn fail_eviction(
        &mut self,
        ticket: Ticket,
        index: usize,
        retry_at: Option<Time>,
        is_reported: bool,
    ) {
        let settings = self.settings.preemption.unwrap_or_default();
        let least = self.now.after(self.settings.backoff.after(1));
        let Some(evictions) = self.preemption.of(ticket) else { return };
        let Some(failed) = evictions.units.get(index) else { return };
        let own: BTreeSet<GroupId> =
            failed.names().filter_map(|name| find_root(&self.pods, &name)).collect();
        // Others of its group that have begun leave the minimum, or it would have begun with them.
        let has_begun = failed.begun;
        let is_whole =
            own.iter().any(|root| self.groups.get(root).is_some_and(|queued| queued.preempted));
        // What has begun to go whole, or does not end, is asked for until it has gone: it counts
        // against the minimum of its group.
        let is_whole_unit = is_whole || failed.victim.whole;
        let retry_at = match retry_at {
            None if has_begun && is_whole_unit || failed.begun && !is_reported => {
                Some(self.now.after(settings.start_timeout))
            }
            retry_at => retry_at,
        };
        let name = failed.victim.name.clone();
        let retry_at = retry_at.map(|retry| retry.max(least));
        let until = retry_at.unwrap_or_else(|| self.now.after(settings.timeout));
        // In place of a move that has not begun others are searched, or victims.
        let retry_at = retry_at.filter(|_| failed.leave == Leave::Evicted || failed.begun);
        let pods = failed.victim.pods.clone();
        let root_name = failed.root_name.clone();
        for name in failed.names().collect::<Vec<_>>() {
            self.preemption.refused.insert(name, until);
        }
        // Of a group that has not begun to go, the others stay with it.
        let is_parted = root_name.as_ref().is_some_and(|root| {
            let mut going = self.going_of(root, true);
            going.retain(|name| pods.iter().all(|pod| pod_name(pod) != *name));
            own.is_empty() && self.is_left_in_part(root, &going)
        });
        let mut with_it = Vec::new();
        if let Some(evictions) = self.preemption.of(ticket) {
            let is_failed = |at: usize| at == index;
            let is_sibling = |unit: &UnitInFlight| {
                let is_of_own = |name: String| {
                    find_root(&self.pods, &name).is_some_and(|root| own.contains(&root))
                };
                !unit.begun
                    && (is_parted && unit.root_name == root_name
                        || is_whole && !has_begun && unit.names().any(is_of_own))
            };
            let mut at = 0;
            evictions.units.retain_mut(|unit| {
                let failed = is_failed(at);
                at += 1;
                if !failed && !is_sibling(unit) {
                    return true;
                }
                if !failed || !is_reported && !has_begun {
                    with_it.push(unit.clone());
                }
                unit.retry_at = retry_at;
                retry_at.is_some()
            });
        }
        for pod in &pods {
            self.set_deleting(pod, false);
        }
        self.preemption.give_back(&pods);
        self.preemption.drop_done();
        self.cancel_units(ticket, with_it);
        if retry_at.is_none() {
            self.release_places(|own, _| own.ticket == ticket && own.unit == name);
            for root in own {
                self.stay_in_place(root);
            }
        }
        self.budgets_changed();
        self.take_back_parts(&root_name.into_iter().collect());
        self.timers.insert((until, Timer::Searches));
        self.set_eviction_timer(ticket);
        self.reservations_due = true;
    }

    /// Time has passed for which a search for victims waited.
    pub(super) fn searches_due(&mut self) {
        let now = self.now;
        self.preemption.refused.retain(|_, until| *until > now);
        self.release_kept_until_now();
        self.preemption.searches_due = true;
    }
}

/// Full names of the pods of a decision that has not been polled yet.
pub(super) fn unasked(outbox: &VecDeque<Decision>, ticket: Ticket) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for decision in outbox {
        if let Decision::Preempt { ticket: other, victims, moves, .. } = decision
            && *other == ticket
        {
            names.extend(victims.iter().flat_map(|victim| &victim.pods).map(pod_name));
            names.extend(moves.iter().map(|step| pod_name(&step.pod)));
        }
    }
    names
}

fn find_root(pods: &BTreeMap<String, (GroupId, u64)>, name: &str) -> Option<GroupId> {
    pods.get(name).map(|(root, _)| *root)
}

/// Passes on to the groups inside what a group says of all its members.
fn pass_down(group: &mut PodGroup) {
    for inner in &mut group.groups {
        inner.priority = inner.priority.max(group.priority);
        inner.non_preemptible |= group.non_preemptible;
        inner.min_run_time = inner.min_run_time.max(group.min_run_time);
        pass_down(inner);
    }
}

fn drop_pods(group: &mut PodGroup) {
    group.pods.clear();
    group.groups.iter_mut().for_each(drop_pods);
}

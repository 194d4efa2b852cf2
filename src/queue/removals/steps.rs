//! Steps of removals: asked, begun, gone, failed, asked again, taken back.
//!
//! | stage \ event | asked for | a pod terminates or is gone | all pods are gone | fails | deadline | taken back |
//! |---|---|---|---|---|---|---|
//! | `Later` | `Asked` | dropped, cancelled | dropped | | | dropped |
//! | `Asked` | | `Begun` | dropped | `Failed`, or dropped | as if it failed | dropped, cancelled |
//! | `Begun` | | | dropped | `Failed`; a single pod without a time: dropped | `Failed` | stays |
//! | `Failed` | `Asked`, or `Begun` if it had begun | `Begun` stays due | dropped | | asked for again | dropped; cancelled if late |

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::ledger::Number;
use super::removal::{Removal, Stage, is_there, pod_name};
use super::{Removals, Why};
use crate::base::{ObjectName, Time};
use crate::preempt::EvictedPod;
use crate::queue::groups::Groups;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::state::{Cluster, Plan, PodView};

/// Changes that [`Removals::update`] has seen.
#[derive(Debug, Default)]
pub(in crate::queue) struct Progress {
    /// Groups with pods that have begun to go, or are gone.
    pub(in crate::queue) roots: BTreeSet<GroupId>,
    /// Pods of units that have begun to go.
    pub(in crate::queue) begun: Vec<EvictedPod>,
    /// Pods that have gone from where they were to leave.
    pub(in crate::queue) gone: Vec<EvictedPod>,
    /// Decisions with another deadline.
    pub(in crate::queue) tickets: BTreeSet<Ticket>,
    /// Units that go by themselves, and were not asked to.
    pub(in crate::queue) lost: Vec<Removal>,
}

/// The end of an attempt to remove a unit that did not go.
#[derive(Debug)]
pub(in crate::queue) struct Failure {
    pub(in crate::queue) failed: Removal,
    /// Units of its group that stay with it, and the unit itself where nobody reported its failure.
    pub(in crate::queue) with_it: Vec<Removal>,
}

/// Entries that are looked at: no more than these.
#[derive(Debug, Clone, Copy)]
pub(in crate::queue) enum Among<'a> {
    /// Entries that make room for a group.
    By(GroupId),
    /// Entries of a root group, by its full name.
    Root(&'a str),
    /// Entries of a decision whose deadline is over.
    Due(Ticket, Time),
    /// Entries of a unit of a decision.
    Unit(Ticket, &'a str),
}

impl Removals {
    /// A decision: units that are to leave for a group, with the plan that they make room for.
    pub(in crate::queue) fn begin(&mut self, ticket: Ticket, plan: Plan, units: Vec<Removal>) {
        for own in units {
            self.entries.add(own);
        }
        self.plans.insert(ticket, plan);
        self.drop_done(ticket);
    }

    /// Drops what a decision leaves behind if every unit of it has gone.
    pub(super) fn drop_done(&mut self, ticket: Ticket) {
        if !self.entries.has(ticket) {
            self.plans.remove(&ticket);
        }
    }

    /// Takes an entry out of the ledger.
    fn remove(&mut self, number: Number) -> Option<Removal> {
        let own = self.entries.remove(number)?;
        self.drop_done(own.ticket);
        Some(own)
    }

    /// Takes entries out of the ledger, by decision: those of some that `is` says.
    pub(in crate::queue) fn take(
        &mut self,
        among: Among<'_>,
        is: impl Fn(&Removal) -> bool,
    ) -> Vec<(Ticket, Vec<Removal>)> {
        let numbers = match among {
            Among::By(id) => self.entries.numbers_by(id),
            Among::Root(root) => self.entries.numbers_of_root(root),
            Among::Due(ticket, now) => self.entries.numbers_due(ticket, now).into_iter().collect(),
            Among::Unit(ticket, name) => self.entries.numbers_of_unit(ticket, name),
        };
        let mut by_ticket: Vec<(Ticket, Vec<Removal>)> = Vec::new();
        let mut places: BTreeMap<Ticket, usize> = BTreeMap::new();
        for number in numbers {
            if !self.entries.get(number).is_some_and(&is) {
                continue;
            }
            let Some(own) = self.remove(number) else { continue };
            let place = *places.entry(own.ticket).or_insert(by_ticket.len());
            match by_ticket.get_mut(place) {
                Some((_, units)) => units.push(own),
                None => by_ticket.push((own.ticket, alloc::vec![own])),
            }
        }
        by_ticket
    }

    /// Drops units that are put off for a group, if the group wants pods of them now: they are asked for
    /// again at once. A unit that is put off stays until its time.
    pub(in crate::queue) fn drop_put_off(&mut self, id: GroupId, wanted: &BTreeSet<String>) {
        self.coming.clear();
        self.take(Among::By(id), |own| {
            !own.has_begun()
                && own.retry_at().is_some()
                && own.names().any(|name| wanted.contains(&name))
        });
    }

    /// Looks which units have begun to go, and which have gone. `until` is the end of the grace period.
    /// O(pods on nodes that have changed since this was last done · log pods).
    pub(in crate::queue) fn update(&mut self, cluster: &Cluster, until: Time) -> Progress {
        let mut seen = Progress::default();
        for (number, places) in self.entries.take_changed(cluster) {
            let Some(own) = self.entries.get(number) else { continue };
            let pods = places.into_iter().filter_map(|at| Some((at, own.pod(at)?)));
            let (stay, gone): (Vec<_>, Vec<_>) = pods.partition(|(_, pod)| is_there(cluster, pod));
            let goes = |pod: &EvictedPod| {
                cluster.pod(&pod.namespace, &pod.name).is_some_and(PodView::deleting)
            };
            let has_begun = !gone.is_empty() || stay.iter().any(|(_, pod)| goes(pod));
            let (is_later, ticket, root) = (own.is_later(), own.ticket, own.root);
            let (begins, is_asked) = (has_begun && !own.has_begun(), own.retry_at().is_none());
            let gone: Vec<usize> = gone.into_iter().map(|(at, _)| at).collect();
            if has_begun && is_later {
                let mut lost = self.remove(number);
                for at in gone {
                    lost.as_mut().and_then(|own| own.drop_pod(at));
                }
                seen.lost.extend(lost);
                continue;
            }
            if !gone.is_empty() {
                seen.roots.extend(root);
            }
            if begins {
                self.entries.change(number, |own| own.set_begun(until));
                seen.tickets.insert(ticket);
                seen.roots.extend(root);
            }
            for at in gone {
                seen.gone.extend(self.entries.drop_pod(number, at));
            }
            self.drop_done(ticket);
            if begins && is_asked {
                // The rest of a unit that was refused stays until it is asked for again.
                let own = self.entries.get(number);
                seen.begun.extend(own.into_iter().flat_map(Removal::pods).cloned());
            }
        }
        seen
    }

    /// The rest of groups that have begun to go and would be left below their minimum goes too.
    pub(in crate::queue) fn begin_rest(
        &mut self,
        groups: &Groups,
        until: Time,
        seen: &mut Progress,
    ) {
        let is_open = |root: &GroupId| self.entries.open_of(*root).next().is_some();
        if !seen.roots.iter().any(is_open) {
            return;
        }
        let mut going: BTreeMap<GroupId, BTreeSet<u64>> = BTreeMap::new();
        for name in self.begun().flat_map(Removal::names) {
            if let Some((root, seq)) = groups.member(&name) {
                going.entry(root).or_default().insert(seq);
            }
        }
        let none = BTreeSet::new();
        let falls = |root: &&GroupId| {
            let gone = going.get(root).unwrap_or(&none);
            groups.get(root).is_some_and(|own| !own.keeps_minima(gone))
        };
        let fallen = seen.roots.iter().filter(falls);
        let rest: BTreeSet<Number> = fallen.flat_map(|root| self.entries.open_of(*root)).collect();
        for number in rest {
            self.entries.change(number, |own| {
                own.set_begun(until);
                seen.tickets.insert(own.ticket);
                if own.retry_at().is_none() {
                    seen.begun.extend(own.pods().cloned());
                }
            });
        }
    }

    /// Pods of groups that leave whole, and that have come back or were bound since, go with the units of
    /// a decision that are asked for again. O(pods of those units · log pods).
    fn take_in(&mut self, (cluster, groups): (&Cluster, &Groups), ticket: Ticket, now: Time) {
        for number in self.entries.numbers_due(ticket, now) {
            let Some(own) = self.entries.get(number) else { continue };
            let is_again = own.is_due(now) && own.has_begun() && own.is_whole();
            let queued = own.root.filter(|_| is_again).and_then(|root| groups.get(&root));
            let queued = queued.filter(|queued| queued.health().is_preempted());
            let (Some(queued), Some(name)) = (queued, own.group()) else { continue };
            let mut back = Vec::new();
            queued.root().visit(&mut |group| {
                if group.full_name() == *name {
                    group.visit(&mut |leaf| back.extend(cluster.pods_of(leaf).map(EvictedPod::of)));
                }
            });
            let goes = |pod: &EvictedPod| self.entries.of_pod(&pod_name(pod)).next().is_some();
            back.retain(|pod| is_there(cluster, pod) && !goes(pod));
            self.entries.add_pods(number, back);
        }
    }

    /// The unit of a decision that is late for longest. O(log units) where nothing else is due.
    pub(in crate::queue) fn first_late(&self, ticket: Ticket, now: Time) -> Option<ObjectName> {
        let late = self.entries.over(ticket, now).find(|own| own.is_late(now))?;
        Some(late.unit.name.clone())
    }

    /// Units of a decision that are due are asked for again, until a time; those whose pods are
    /// `unasked`, and whose time is over, get that time too. Returns the former. Pods that have come back
    /// to a unit go with it.
    pub(in crate::queue) fn ask_due(
        &mut self,
        known: (&Cluster, &Groups),
        ticket: Ticket,
        (now, until): (Time, Time),
        unasked: &BTreeSet<String>,
    ) -> Vec<Removal> {
        self.take_in(known, ticket, now);
        let mut again = Vec::new();
        for number in self.entries.numbers_due(ticket, now) {
            self.entries.change(number, |own| {
                if own.is_due(now) {
                    own.ask(until);
                    again.push(own.clone());
                } else if own.is_late(now) && own.names().any(|name| unasked.contains(&name)) {
                    // Time passed before the embedder saw the decision.
                    own.set_until(until);
                }
            });
        }
        for name in again.iter().flat_map(Removal::names) {
            self.refused.remove(&name);
        }
        again
    }

    /// Units of a decision, by their names, that the embedder sees now have their time from now on.
    pub(in crate::queue) fn have_been_asked(
        &mut self,
        ticket: Ticket,
        until: Time,
        names: &BTreeSet<&str>,
    ) {
        let numbers = names.iter().flat_map(|name| self.entries.numbers_of_unit(ticket, name));
        let numbers: Vec<Number> = numbers.collect();
        for number in numbers {
            self.entries.change(number, |own| {
                let before = own.deadline().filter(|_| own.retry_at().is_none());
                if let Some(before) = before {
                    own.set_until(before.max(until));
                }
            });
        }
    }

    /// A unit is asked to move now; budgets count it from now on. If it would break a budget as it is,
    /// all units that are still to move for its decision are taken out: second.
    pub(in crate::queue) fn ask_move(
        &mut self,
        cluster: &Cluster,
        (ticket, name): (Ticket, &str),
        until: Time,
    ) -> (Option<Removal>, Vec<Removal>) {
        let Some(number) = self.entries.unit(ticket, name) else { return (None, Vec::new()) };
        let own = self.entries.get(number);
        let pods: Vec<EvictedPod> = own.into_iter().flat_map(Removal::pods).cloned().collect();
        self.work.give_back(&pods);
        if self.work.breaks(cluster, &pods) {
            let Some(by) = own.map(Removal::by) else { return (None, Vec::new()) };
            let later = self.take(Among::By(by), |own| own.ticket == ticket && own.is_later());
            return (None, later.into_iter().flat_map(|(_, units)| units).collect());
        }
        self.work.charge(cluster, &pods);
        let asked = self.entries.change(number, |own| {
            own.stage = Stage::Asked { until };
            own.clone()
        });
        (asked, Vec::new())
    }

    /// A unit that has begun to move has lost its places: it goes for good. Returns whether it has begun.
    pub(in crate::queue) fn goes_for_good(&mut self, ticket: Ticket, name: &str) -> bool {
        let Some(number) = self.entries.unit(ticket, name) else { return true };
        let goes = self.entries.change(number, |own| {
            if own.has_begun() {
                own.why = Why::Victim;
            }
            own.has_begun()
        });
        goes.unwrap_or(true)
    }

    /// The next deadline of a decision. O(log units).
    pub(in crate::queue) fn next_deadline(&self, ticket: Ticket) -> Option<Time> {
        self.entries.next_deadline(ticket)
    }

    /// Decisions with units that are not asked for yet.
    pub(in crate::queue) fn with_later(&self) -> BTreeSet<Ticket> {
        self.entries.later().map(|own| own.ticket).collect()
    }

    /// Pods of a unit stay where they are: the embedder has moved the others. Returns them.
    pub(in crate::queue) fn keep_pods(
        &mut self,
        ticket: Ticket,
        name: &str,
        pods: &BTreeSet<String>,
    ) -> Option<(Option<GroupId>, Vec<EvictedPod>)> {
        let number = self.entries.unit(ticket, name)?;
        let own = self.entries.get(number)?;
        let root = own.root;
        let stay = own.placed().filter(|(_, pod)| pods.contains(&pod_name(pod)));
        let stay: Vec<usize> = stay.map(|(at, _)| at).collect();
        let stay = stay.into_iter().filter_map(|at| self.entries.drop_pod(number, at)).collect();
        self.drop_done(ticket);
        Some((root, stay))
    }

    /// A unit does not go: that is `reported`, or its time is over. `with` gives the times; `is_with`
    /// names units of the decision that stay with it, if any do. O(1), or of the decision's units if
    /// some may stay.
    pub(in crate::queue) fn fail(
        &mut self,
        ticket: Ticket,
        name: &str,
        (retry_at, refused_until): (Option<Time>, Time),
        is_reported: bool,
        is_with: Option<&impl Fn(&Removal) -> bool>,
    ) -> Option<Failure> {
        let failed = self.unit(ticket, name)?.clone();
        for name in failed.names() {
            self.refused.insert(name, refused_until);
        }
        let has_begun = failed.has_begun();
        let mut with_it = Vec::new();
        let numbers = match is_with {
            Some(_) => self.entries.numbers_of(ticket).into_iter().collect(),
            None => self.entries.numbers_of_unit(ticket, name),
        };
        for number in numbers {
            let Some(own) = self.entries.get(number) else { continue };
            let is_failed = own.unit.name == name;
            let is_sibling = !own.has_begun() && is_with.is_some_and(|is| is(own));
            if !is_failed && !is_sibling {
                continue;
            }
            if !is_failed || !is_reported && !has_begun {
                with_it.push(own.clone());
            }
            if let Some(retry) = retry_at {
                self.entries.change(number, |own| {
                    let begun = own.has_begun();
                    own.stage = Stage::Failed { retry, begun, late: begun && !is_reported };
                });
            } else {
                self.remove(number);
            }
        }
        self.give_back(failed.pods());
        Some(Failure { failed, with_it })
    }
}

impl Removal {
    fn set_begun(&mut self, until: Time) {
        self.stage = match self.stage {
            Stage::Failed { retry, late, .. } => Stage::Failed { retry, begun: true, late },
            _ => Stage::Begun { until },
        };
    }

    fn ask(&mut self, until: Time) {
        self.stage = if self.has_begun() { Stage::Begun { until } } else { Stage::Asked { until } };
    }

    fn set_until(&mut self, to: Time) {
        if let Stage::Asked { until } | Stage::Begun { until } = &mut self.stage {
            *until = to;
        }
    }
}

//! The world outside acts on victims; checks on them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::model::LabelSelector;
use phalanx::preempt::{DisruptionBudget, Move, Victim};
use phalanx::queue::{
    Gate, Gone, GroupChange, GroupEvent, GroupState, PreemptionSettings, ReservationEnd, Ticket,
};
use phalanx::{Event, Outcome, Plan, PodGroup, Scheduler, Time, place_gang};

use super::{World, moves, stream_of};
use crate::lifecycle::world::{counts, streams};
use crate::support::budget;

/// Victims that are to go, and the claims to their room.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) asked: Vec<Asked>,
    /// Groups that wait for victims, and whether one of those has gone in the quiet.
    pub(super) claims: BTreeMap<String, bool>,
    /// Pods whose eviction failed once.
    failed: BTreeSet<String>,
    /// Victims that are asked for again while their group goes whole.
    pub(super) put_off: BTreeSet<String>,
    pub(super) budgets: Vec<DisruptionBudget>,
    tickets: BTreeSet<Ticket>,
    /// Groups of which a member was on a node that was removed: it may come back with the node.
    displaced: BTreeSet<String>,
    /// Since the quiet began: claims that ended without a start, and groups that got room.
    ended: Vec<String>,
    got_room: BTreeSet<String>,
    pub(super) moved: moves::Model,
    pub(super) evicted: usize,
    pub(super) started: usize,
    pub(super) taken_over: usize,
}

/// A unit that is to go.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) ticket: Ticket,
    pub(super) name: String,
    pub(super) pods: Vec<String>,
    pub(super) since: Time,
    /// Where its pods go, if it moves.
    pub(super) moves: Vec<Move>,
}

pub(super) fn settings() -> PreemptionSettings {
    let mut settings = PreemptionSettings::default();
    settings.start_timeout = Duration::from_secs(60);
    settings.grace_period = Duration::from_secs(60);
    settings
}

impl Model {
    /// A unit is asked for, which is not asked for already.
    pub(super) fn ask(&mut self, ticket: Ticket, victims: Vec<Victim>, now: Time) {
        for victim in victims {
            let name =
                |pod: &phalanx::preempt::EvictedPod| format!("{}/{}", pod.namespace, pod.name);
            let pods: Vec<String> = victim.pods.iter().map(name).collect();
            // One that has begun to go, and does not end, is asked for again after its time.
            let is_same = |own: &Asked| own.name == victim.name;
            let is_late = |own: &Asked| now.since(own.since) >= settings().start_timeout;
            self.asked.retain(|own| !(is_same(own) && is_late(own)));
            for pod in &pods {
                assert!(!self.is_asked(pod), "{pod} is evicted twice");
                self.put_off.remove(pod);
            }
            let moves = Vec::new();
            self.asked.push(Asked {
                ticket,
                name: victim.name.to_string(),
                pods,
                since: now,
                moves,
            });
        }
    }

    /// A victim that stays after its time to begin is over has failed.
    pub(super) fn cancel(&mut self, ticket: Ticket, victims: &[Victim], now: Time) {
        for victim in victims {
            let is = |asked: &Asked| asked.ticket == ticket && asked.name == victim.name;
            assert!(self.asked.iter().any(is), "{} was not asked for", victim.name);
            let (back, kept) = std::mem::take(&mut self.asked).into_iter().partition(is);
            self.asked = kept;
            let back: Vec<Asked> = back;
            let late =
                back.into_iter().filter(|own| now.since(own.since) >= settings().start_timeout);
            self.failed.extend(late.flat_map(|own| own.pods));
        }
    }

    pub(super) fn is_asked(&self, pod: &str) -> bool {
        self.asked.iter().any(|asked| asked.pods.iter().any(|other| other == pod))
    }

    /// A node is removed, with these pods on it.
    pub(super) fn displace(&mut self, members: &[(String, String)], pods: &[String]) {
        let hit = members.iter().filter(|(_, pod)| pods.contains(pod));
        self.displaced.extend(hit.map(|(root, _)| root.clone()));
        for pod in pods {
            self.forget(pod);
        }
    }

    /// A pod is not there any more.
    pub(super) fn forget(&mut self, pod: &str) {
        self.put_off.remove(pod);
        for asked in &mut self.asked {
            asked.pods.retain(|other| other != pod);
        }
        self.asked.retain(|asked| !asked.pods.is_empty());
    }

    pub(super) fn hear(&mut self, event: &GroupEvent) {
        self.moved.hear(event);
        match &event.change {
            GroupChange::Preempting { .. } => {
                self.got_room.insert(event.group.to_string());
                self.claims.insert(event.group.to_string(), false);
            }
            GroupChange::ReservationEnded { reason } => {
                let Some(has_gone) = self.claims.remove(event.group.as_str()) else { return };
                if *reason == ReservationEnd::Used {
                    self.started += 1;
                    // With other victims than at first.
                    self.ended.retain(|group| *group != *event.group);
                } else if has_gone {
                    self.ended.push(event.group.to_string());
                }
            }
            GroupChange::Binding { .. } | GroupChange::Held { .. } => {
                self.got_room.insert(event.group.to_string());
            }
            GroupChange::Removed => {
                self.claims.remove(event.group.as_str());
            }
            _ => {}
        }
    }
}

impl World {
    pub(super) fn preempts(&self) -> bool {
        self.scheduler.settings().preemption.is_some()
    }

    /// Something happens to a victim, or to a budget.
    pub(super) fn evict(&mut self) {
        let now = self.now;
        if self.random.one_in(8) {
            let colour = ["red", "blue"][self.random.below(2)];
            let allowed = self.random.below(3) as i64;
            let budget =
                DisruptionBudget::new(colour, LabelSelector::label("colour", colour), allowed);
            self.preemption.budgets.retain(|other| other.name != budget.name);
            if self.random.one_in(4) {
                self.both(|s| s.handle_budget_removed("default", colour, now));
            } else {
                self.both(|s| s.handle_budget(budget.clone(), now));
                self.preemption.budgets.push(budget);
            }
            return;
        }
        let Some(asked) = self.random.pick(&self.preemption.asked.clone()) else {
            return self.bind();
        };
        let Some(pod) = self.random.pick(&asked.pods) else { return };
        match self.random.below(8) {
            0..=2 if !asked.moves.is_empty() => self.moves(&asked),
            0 | 1 => self.goes(&asked, &asked.name),
            2 => self.goes(&asked, &pod),
            3 | 4 => {
                self.tell(|| format!("{now:?} {pod} terminates"));
                let name = pod.split_once('/').unwrap().1;
                let mut own = self.scheduler.cluster().pod("default", name).unwrap().to_pod();
                own.deleting = true;
                let event = Event::PodChanged { pod: own, version: 0 };
                self.both(|s| s.handle_event(event.clone(), now)).unwrap();
            }
            5 => self.ends(&pod),
            _ => {
                let later = now.after(Duration::from_secs(1 + self.random.below(50) as u64));
                let retry = if self.random.one_in(2) { Some(later) } else { None };
                self.tell(|| format!("{now:?} {} fails until {retry:?}", asked.name));
                let Asked { ticket, name, pods, .. } = &asked;
                self.both(|s| s.handle_eviction_failed(*ticket, name, retry, now).is_ok());
                self.preemption.failed.extend(pods.iter().cloned());
                self.preemption.put_off.extend(pods.iter().cloned());
                self.preemption
                    .asked
                    .retain(|other| other.name != *name || other.ticket != *ticket);
            }
        }
    }

    /// A victim, or a pod of one, has gone.
    pub(super) fn goes(&mut self, asked: &Asked, name: &str) {
        let now = self.now;
        self.tell(|| format!("{now:?} {name} goes"));
        let pods = if name == asked.name { asked.pods.clone() } else { vec![name.to_string()] };
        for pod in &pods {
            self.bound.remove(pod);
            self.foreign.retain(|other| format!("default/{other}") != *pod);
            self.preemption.forget(pod);
        }
        self.preemption.evicted += 1;
        if self.both(|s| s.handle_gone(Gone::evicted(asked.ticket, name), now)).is_err() {
            // It took too long: it is a pod that leaves its node as any other.
            for pod in &pods {
                let name = pod.split_once('/').unwrap().1;
                self.both(|s| s.handle_gone(Gone::unbound("default", name), now).is_ok());
            }
        }
    }

    /// A pod is deleted.
    fn ends(&mut self, pod: &str) {
        let owner = self.members().into_iter().find(|(_, member)| member == pod);
        if let Some((root, _)) = owner {
            return self.delete_member(&root, pod);
        }
        let (now, name) = (self.now, pod.split_once('/').unwrap().1.to_string());
        self.foreign.retain(|other| *other != name);
        self.preemption.forget(pod);
        self.both(|s| s.handle_gone(Gone::deleted("default", &name), now)).unwrap();
    }

    /// A pod that terminates, and was not asked to.
    fn terminating(&self) -> Option<String> {
        let foreign = self.foreign.iter().map(|name| format!("default/{name}"));
        let mut names = self.bound.iter().cloned().chain(foreign);
        names.find(|name| {
            let own = self.scheduler.cluster().pod("default", name.split_once('/').unwrap().1);
            own.is_some_and(|pod| pod.node().is_some() && pod.deleting())
        })
    }

    /// Checks victims when they are named.
    pub(super) fn check_victims(&mut self, ticket: Ticket, victims: &[Victim], plan: &Plan) {
        let is_again = !self.preemption.tickets.insert(ticket);
        // A group that has begun to go whole is asked for also when the other is not there any more.
        let Some(group) = self.groups.get(plan.group().as_str()) else { return };
        let mut gone: BTreeSet<String> = BTreeSet::new();
        for victim in victims {
            for pod in &victim.pods {
                let name = format!("{}/{}", pod.namespace, pod.name);
                let there = self.scheduler.cluster().pod(&pod.namespace, &pod.name);
                assert!(there.is_some(), "{name} is not there");
                if let Some((root, _)) = self.members().iter().find(|(_, member)| *member == name) {
                    let theirs = &self.groups[root];
                    // One that has begun to move, and has lost its place, goes for good.
                    let unit = (ticket, victim.name.to_string());
                    let is_less = theirs.priority < group.priority
                        || self.preemption.moved.asked.contains(&unit);
                    assert!(is_less, "{root} goes for {}", group.name);
                    assert!(!theirs.non_preemptible);
                    assert!(self.bound.contains(&name), "{name} does not run");
                }
                gone.insert(name);
            }
        }
        // What is left of a group has its minimum, or there is nothing left.
        for (name, root) in &self.groups {
            if is_again && self.preemption.displaced.contains(name) {
                continue;
            }
            let pods = root.all_pods();
            let is_hit = pods.iter().any(|pod| gone.contains(&format!("default/{}", pod.name)));
            let state = self.scheduler.state(&root.full_name());
            let goes_whole = state == Some(GroupState::Gated(Gate::Evicting));
            let left = |pod: &phalanx::Pod| {
                let name = format!("default/{}", pod.name);
                let on = self.scheduler.cluster().pod("default", &pod.name);
                // A pod that terminates counts as gone.
                let on = on.is_some_and(|pod| pod.node().is_some() && !pod.deleting());
                self.finished.contains(&name)
                    || on
                        && self.bound.contains(&name)
                        && !gone.contains(&name)
                        && !self.preemption.is_asked(&name)
                        && !(goes_whole && self.preemption.put_off.contains(&name))
            };
            let runs_on = pods
                .iter()
                .any(|pod| left(pod) && !self.finished.contains(&format!("default/{}", pod.name)));
            let was =
                |pod: &phalanx::Pod| left(pod) || gone.contains(&format!("default/{}", pod.name));
            if is_hit && runs_on && counts(root, &was) {
                assert!(counts(root, &left), "{} is left in part by {victims:?}", root.name);
            }
        }
        self.check_budgets(&gone, plan, group);
    }

    /// A budget is broken only where units that are in none do not suffice.
    fn check_budgets(&self, gone: &BTreeSet<String>, plan: &Plan, group: &PodGroup) {
        let cluster = self.scheduler.cluster();
        let view = |name: &str| cluster.pod("default", name.split_once('/').unwrap().1);
        let covered = |name: &str| {
            let budgets = &self.preemption.budgets;
            view(name).is_some_and(|pod| budgets.iter().any(|b| b.is_charged_for(pod)))
        };
        let is_broken = self.preemption.budgets.iter().any(|budget| {
            let charged = gone.iter().filter_map(|name| view(name));
            let charged = charged.filter(|pod| budget.is_charged_for(*pod)).count() as i64;
            charged > budget.disruptions_allowed
        });
        let own: usize =
            self.scheduler.reservations().iter().flat_map(|own| own.pods.values()).sum();
        let held = cluster.pods().filter(|pod| pod.namespace() == Scheduler::RESERVED_NAMESPACE);
        // What moves keeps its places.
        let simple = self.scheduler.reservations().len() == 1
            && held.count() == own
            && plan.len() == group.all_pods().len()
            && group.gang_group.is_empty();
        if !is_broken || !simple {
            return;
        }
        let mut without = cluster.clone();
        let all: Vec<(String, String)> =
            cluster.pods().map(|pod| (pod.namespace().into(), pod.name().into())).collect();
        for (namespace, name) in all {
            let full = format!("{namespace}/{name}");
            let own = self.members().into_iter().find(|(_, member)| *member == full);
            let free = match own {
                None => true,
                Some((root, _)) => {
                    let root = &self.groups[&root];
                    let pods = root.all_pods();
                    let name = |pod: &&phalanx::Pod| format!("default/{}", pod.name);
                    root.priority < group.priority
                        && !root.non_preemptible
                        && root.min_run_time.is_none()
                        && root.gang_group.is_empty()
                        && self.scheduler.state(&root.full_name()) == Some(GroupState::Running)
                        && pods.iter().all(|pod| {
                            !covered(&name(pod)) && !self.preemption.failed.contains(&name(pod))
                        })
                }
            };
            let placeholder = namespace == Scheduler::RESERVED_NAMESPACE;
            if placeholder
                || free
                    && !covered(&full)
                    && !self.preemption.failed.contains(&full)
                    && group.priority > 0
            {
                without.remove_pod(&namespace, &name).unwrap();
            }
        }
        let outcome = place_gang(&without, &self.framework, group);
        assert!(
            !matches!(outcome, Ok(Outcome::Placed(_))),
            "{} breaks a budget, and need not: {gone:?}",
            group.name
        );
    }

    /// Whether a group is going whole.
    pub(super) fn is_evicting(&self) -> bool {
        let state = |root: &String| self.scheduler.state(root);
        self.groups.keys().any(|root| state(root) == Some(GroupState::Gated(Gate::Evicting)))
    }

    /// Nothing happens but what was decided: all that is to go goes, all that is to be bound is.
    /// Then every group whose victims went has started, unless a more important one took the room.
    pub(super) fn quiet(&mut self) {
        self.preemption.ended.clear();
        self.preemption.got_room.clear();
        for has_gone in self.preemption.claims.values_mut() {
            *has_gone = false;
        }
        self.count_running();
        for round in 0.. {
            assert!(round < 600, "it is never quiet: {:?}", self.preemption);
            let now = self.now;
            if let Some((pod, ticket)) = self.binding.pop() {
                self.begun.insert(ticket);
                let name = pod.split_once('/').unwrap().1.to_string();
                self.both(|s| s.handle_binding(ticket, "default", &name, Ok(()), now)).unwrap();
                self.bound.insert(pod);
            } else if !self.unbinding.is_empty() {
                self.unbind();
            } else if let Some(asked) = self.preemption.asked.first().cloned() {
                for has_gone in self.preemption.claims.values_mut() {
                    *has_gone = true;
                }
                if asked.moves.is_empty() {
                    self.goes(&asked, &asked.name);
                } else {
                    self.moves(&asked);
                }
            } else if let Some(pod) = self.terminating() {
                self.ends(&pod);
            } else if self.preemption.claims.is_empty() && !self.is_evicting() {
                break;
            } else {
                let wake = self.scheduler.next_wake();
                let states: Vec<_> =
                    self.groups.keys().map(|name| self.scheduler.status(name)).collect();
                let wake = wake.unwrap_or_else(|| {
                    panic!("no deadline: {:?} {states:?}", self.preemption.claims)
                });
                self.now = wake.max(now);
            }
            self.poll();
        }
        self.check_moved();
        if self.kind == 3 {
            // Its verdicts change with any pod that starts anywhere.
            return;
        }
        for name in std::mem::take(&mut self.preemption.ended) {
            let Some(own) = self.groups.get(&name).map(|group| group.priority) else { continue };
            let is_higher =
                |other: &String| self.groups.get(other).is_some_and(|other| other.priority > own);
            let cause = self.preemption.got_room.iter().find(|other| is_higher(other));
            assert!(cause.is_some(), "victims went in vain for {name}");
            self.preemption.taken_over += 1;
        }
    }
}

/// One stream: what was evicted, started, and taken over.
pub(crate) fn stream(seed: u64, events: usize) -> (usize, usize, usize) {
    let world = stream_of(World::new(seed, Some(settings())), seed, events);
    (world.preemption.evicted, world.preemption.started, world.preemption.taken_over)
}

/// One stream again, told by `PHALANX_STREAM_TRACE`.
#[test]
fn one_stream_with_preemption_by_its_seed() {
    stream(budget::number("PHALANX_STREAM_TRACE").unwrap_or(7), 250);
}

#[test]
fn random_event_streams_with_preemption_keep_every_promise() {
    let events = budget::of(3_000, 200_000) as usize;
    let (evicted, started, taken_over) = streams(events, "PHALANX_STREAM_SEED", stream)
        .into_iter()
        .fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
    eprintln!("{evicted} evicted, {started} started, {taken_over} taken over");
    // The streams do get somewhere.
    assert!(evicted * 125 > events, "{evicted} evictions in {events} events");
    assert!(started * 200 > events, "{started} starts in {events} events");
}

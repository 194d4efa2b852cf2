//! Victims of several schedulers: what the store does with them, and what must hold of them.
//!
//! The store takes a decision to evict whole or not at all: it refuses one that would leave a gang
//! below its minimum, or break a budget, by what its scheduler had not heard of. What it takes
//! terminates, and goes some time later; whoever owns it makes its pods anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::model::LabelSelector;
use phalanx::preempt::{DisruptionBudget, EvictedPod, Victim};
use phalanx::queue::{GroupChange, GroupEvent, GroupState, PreemptionSettings, ReservationEnd};
use phalanx::state::PodView;
use phalanx::{Event, Outcome, Plan, PodGroup, Scheduler, place_gang};

use super::{Ticket, World, counts};

/// Victims that are to go or go, and the claims to their room.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) asked: Vec<Asked>,
    /// Pods that terminate.
    pub(super) going: BTreeSet<String>,
    budgets: BTreeMap<String, DisruptionBudget>,
    /// How often a budget has changed.
    changes: usize,
    /// Pods whose eviction failed once.
    failed: BTreeSet<String>,
    /// The claims of groups to the room of victims, and the last of each that was asked for.
    claims: BTreeMap<String, Claim>,
    asking: BTreeMap<String, Claim>,
    /// Claims that ended without a start although victims went, since the quiet began.
    ended: Vec<(String, Claim)>,
    /// Since the quiet began: by whom which nodes were taken, and groups that got room.
    taken: Vec<(usize, BTreeSet<String>)>,
    got_room: BTreeSet<String>,
    /// By whom victims on which nodes were asked for that the store refused, since the quiet began.
    stayed: Vec<(usize, BTreeSet<String>)>,
    /// Schedulers that know of a failure, and have not said yet what they take back for it.
    pub(super) unsaid: BTreeSet<usize>,
    is_quiet: bool,
    pub(super) evicted: usize,
    pub(super) started: usize,
    pub(super) refused: usize,
    pub(super) in_vain: usize,
}

/// A unit that is to go.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    owner: usize,
    ticket: Ticket,
    by: String,
    name: String,
    pods: Vec<String>,
    /// Events that its scheduler had heard of, and which change of budgets.
    heard: usize,
    changes: usize,
}

#[derive(Debug, Clone)]
struct Claim {
    owner: usize,
    nodes: BTreeSet<String>,
    /// Made since the quiet began.
    is_quiet: bool,
    has_gone: bool,
}

pub(super) fn settings() -> PreemptionSettings {
    let mut settings = PreemptionSettings::default();
    settings.start_timeout = Duration::from_secs(600);
    settings.grace_period = Duration::from_secs(600);
    settings
}

fn short(pod: &EvictedPod) -> String {
    assert_eq!(pod.namespace, "default");
    pod.name.clone()
}

impl World {
    pub(super) fn ask(&mut self, owner: usize, ticket: Ticket, victims: Vec<Victim>, plan: &Plan) {
        let by = plan.group().to_string();
        self.check_victims(owner, &victims, plan);
        let nodes = plan.assignments().map(|to| to.node().to_string()).collect();
        let is_quiet = self.evictions.is_quiet;
        let claim = Claim { owner, nodes, is_quiet, has_gone: false };
        self.evictions.asking.insert(by.clone(), claim);
        for victim in victims {
            let pods: Vec<String> = victim.pods.iter().map(short).collect();
            for pod in &pods {
                let is_same =
                    |own: &Asked| own.owner == owner && own.pods.iter().any(|other| other == pod);
                assert!(!self.evictions.asked.iter().any(is_same), "{pod} is evicted twice");
            }
            let (heard, changes) = (self.processes[owner].read, self.evictions.changes);
            let (by, name) = (by.clone(), victim.name.to_string());
            let asked = Asked { owner, ticket, by, name, pods, heard, changes };
            self.evictions.asked.push(asked);
        }
    }

    pub(super) fn cancel(&mut self, owner: usize, ticket: Ticket, victims: &[Victim]) {
        // What the store has taken goes all the same.
        self.evictions.asked.retain(|asked| {
            let is = |victim: &Victim| victim.name == asked.name;
            asked.owner != owner || asked.ticket != ticket || !victims.iter().any(is)
        });
    }

    pub(super) fn note(&mut self, event: &GroupEvent) {
        let model = &mut self.evictions;
        let name = event.group.to_string();
        match &event.change {
            GroupChange::Preempting { .. } => {
                model.got_room.insert(name.clone());
                if let Some(claim) = model.asking.get(&name) {
                    model.claims.insert(name, claim.clone());
                }
            }
            GroupChange::Binding { .. } | GroupChange::Held { .. } => {
                model.got_room.insert(name);
            }
            GroupChange::ReservationEnded { reason } => {
                let Some(claim) = model.claims.remove(&name) else { return };
                if *reason == ReservationEnd::Used {
                    model.started += 1;
                    // With other victims than at first.
                    model.ended.retain(|(group, _)| *group != name);
                } else if claim.has_gone {
                    model.ended.push((name, claim));
                }
            }
            GroupChange::Removed => drop(model.claims.remove(&name)),
            _ => {}
        }
    }

    /// Something happens to a victim, or to a budget.
    pub(super) fn evict(&mut self) {
        match self.random.below(12) {
            0 => {
                let colour = ["red", "blue"][self.random.below(2)];
                let allowed = self.random.below(3) as i64;
                let selector = LabelSelector::label("colour", colour);
                let budget = DisruptionBudget::new(colour, selector, allowed);
                self.set_budget(budget);
            }
            1 => {
                let Some(asked) = self.random.pick(&self.evictions.asked) else { return };
                let retry = self.random.one_in(2).then_some(self.random.below(50) as u64);
                self.fail(&asked, retry);
            }
            2..=6 => {
                let Some(asked) = self.random.pick(&self.evictions.asked) else { return };
                self.take_decision(asked.owner, asked.ticket);
            }
            _ => {
                let going: Vec<String> = self.evictions.going.iter().cloned().collect();
                if let Some(name) = self.random.pick(&going) {
                    self.goes(&name);
                }
            }
        }
    }

    fn set_budget(&mut self, budget: DisruptionBudget) {
        for process in &mut self.processes {
            process.scheduler.handle_budget(budget.clone(), self.now);
        }
        self.evictions.changes += 1;
        self.evictions.budgets.insert(budget.name.clone(), budget);
    }

    fn fail(&mut self, asked: &Asked, retry: Option<u64>) {
        let is = |other: &Asked| {
            (other.owner, other.ticket, &other.name) == (asked.owner, asked.ticket, &asked.name)
        };
        self.evictions.asked.retain(|other| !is(other));
        self.evictions.failed.extend(asked.pods.iter().cloned());
        let retry = retry.map(|secs| self.now.after(Duration::from_secs(1 + secs)));
        self.evictions.unsaid.insert(asked.owner);
        let scheduler = &mut self.processes[asked.owner].scheduler;
        // It may have been taken back meanwhile, because of what was heard.
        let _ = scheduler.handle_eviction_failed(asked.ticket, &asked.name, retry, self.now);
    }

    /// The store takes the evictions of a decision, or refuses them.
    fn take_decision(&mut self, owner: usize, ticket: Ticket) {
        let is_own = |asked: &&Asked| asked.owner == owner && asked.ticket == ticket;
        let units: Vec<Asked> = self.evictions.asked.iter().filter(is_own).cloned().collect();
        let Some(first) = units.first().cloned() else { return };
        let goes =
            |name: &String| self.store.is_bound(name) && !self.evictions.going.contains(name);
        let pods: BTreeSet<String> =
            units.iter().flat_map(|unit| &unit.pods).filter(|name| goes(name)).cloned().collect();
        self.tell(|| format!("{owner} evicts {pods:?} for {}", first.by));
        let is_stale = first.heard < self.store.log.len() || self.evictions.unsaid.contains(&owner);
        if let Some(root) = self.left_in_part(&pods) {
            // What its scheduler asked for before, and the store has not taken yet, goes too.
            let before = self.evictions.asked.iter().take_while(|asked| asked.ticket != ticket);
            let before = before.filter(|asked| asked.owner == owner);
            let all: BTreeSet<String> =
                before.flat_map(|asked| &asked.pods).filter(|name| goes(name)).cloned().collect();
            let is_early = !self.is_left_in_part(&self.groups[&root].1, &(&all | &pods));
            assert!(is_stale || is_early, "{root} is left below its minimum by {pods:?}");
            return self.refuse(&units, &root);
        }
        let broken = self.broken_by(&pods);
        if let Some(budget) = broken.filter(|_| first.changes < self.evictions.changes) {
            return self.refuse(&units, &budget);
        }
        self.evictions.asked.retain(|asked| !(asked.owner == owner && asked.ticket == ticket));
        self.evictions.evicted += pods.len();
        if let Some(claim) = self.evictions.claims.get_mut(&first.by) {
            claim.has_gone |= !pods.is_empty();
        }
        for name in &pods {
            let mut pod = self.store.cluster.pod("default", name).unwrap().to_pod();
            pod.deleting = true;
            self.store.apply(Event::PodChanged { pod, version: 0 });
        }
        self.evictions.going.extend(pods.iter().cloned());
        for mut budget in self.evictions.budgets.clone().into_values() {
            let is_charged = |name: &&String| {
                budget.is_charged_for(self.store.cluster.pod("default", name).unwrap())
            };
            let charged: Vec<String> = pods.iter().filter(is_charged).cloned().collect();
            if !charged.is_empty() {
                budget.disruptions_allowed -= charged.len() as i64;
                budget.disrupted_pods.extend(charged);
                self.set_budget(budget);
            }
        }
    }

    /// A decision is refused for what its scheduler has not heard of; it hears of it then.
    fn refuse(&mut self, units: &[Asked], reason: &str) {
        self.tell(|| format!("refused: {reason}"));
        self.evictions.refused += 1;
        let owner = units[0].owner;
        let pods = units.iter().flat_map(|unit| &unit.pods);
        let nodes = pods.filter_map(|pod| self.store.cluster.pod("default", pod)?.node());
        let nodes = nodes.map(|node| node.name().to_string()).collect();
        self.evictions.stayed.push((owner, nodes));
        self.hear(owner, usize::MAX);
        for unit in units {
            self.fail(unit, Some(5));
        }
    }

    /// A group that would be left below its minimum, yet not without pods.
    fn left_in_part(&self, pods: &BTreeSet<String>) -> Option<String> {
        let is_left = |group: &PodGroup| self.is_left_in_part(group, pods);
        self.groups.iter().find(|(_, (_, group))| is_left(group)).map(|(name, _)| name.clone())
    }

    fn is_left_in_part(&self, group: &PodGroup, pods: &BTreeSet<String>) -> bool {
        let stays = |pod: &phalanx::Pod| {
            let is_going = self.evictions.going.contains(&pod.name) || pods.contains(&pod.name);
            self.store.runs(pod) && !is_going
        };
        let was = |pod: &phalanx::Pod| stays(pod) || pods.contains(&pod.name);
        let all = group.all_pods();
        all.iter().any(|pod| pods.contains(&pod.name))
            && all.iter().any(|pod| stays(pod))
            && counts(group, &was)
            && !counts(group, &stays)
    }

    fn broken_by(&self, pods: &BTreeSet<String>) -> Option<String> {
        let view = |name: &String| self.store.cluster.pod("default", name).unwrap();
        let is_broken = |budget: &&DisruptionBudget| {
            let charged = pods.iter().filter(|name| budget.is_charged_for(view(name))).count();
            charged > 0 && charged as i64 > budget.disruptions_allowed
        };
        self.evictions.budgets.values().find(is_broken).map(|budget| budget.name.clone())
    }

    /// A pod that terminates has gone.
    fn goes(&mut self, name: &str) {
        self.evictions.going.remove(name);
        if !self.store.is_bound(name) {
            return;
        }
        let is_of = |group: &PodGroup| group.all_pods().iter().any(|pod| pod.name == name);
        let owner = self.groups.values().find(|(_, group)| is_of(group)).map(|(owner, _)| *owner);
        if let Some(owner) = owner {
            self.take_off(owner, name);
        } else {
            self.foreign.retain(|other| other != name);
            self.store.delete(name);
        }
    }

    /// Checks victims when they are named.
    fn check_victims(&self, owner: usize, victims: &[Victim], plan: &Plan) {
        let scheduler = &self.processes[owner].scheduler;
        let Some((_, group)) = self.groups.get(plan.group().as_str()) else { return };
        let mut gone = BTreeSet::new();
        for victim in victims {
            assert!(victim.priority < group.priority, "{victim:?} goes for {}", group.name);
            for pod in &victim.pods {
                let view = scheduler.cluster().pod(&pod.namespace, &pod.name);
                let Some(view) = view else { panic!("{pod:?} is not there") };
                assert!(!view.deleting() || view.node().is_some(), "{pod:?} goes already");
                let is_of =
                    |root: &PodGroup| root.all_pods().iter().any(|member| member.name == pod.name);
                let root = self.groups.values().find(|(_, root)| is_of(root));
                if let Some((_, root)) = root {
                    assert!(!root.non_preemptible, "{} goes for {}", root.name, group.name);
                    assert!(root.priority < group.priority, "{} for {}", root.name, group.name);
                }
                gone.insert(pod.name.clone());
            }
        }
        self.check_budgets(owner, &gone, plan, group);
    }

    /// A budget is broken only where units that are in none do not suffice.
    fn check_budgets(&self, owner: usize, gone: &BTreeSet<String>, plan: &Plan, group: &PodGroup) {
        let scheduler = &self.processes[owner].scheduler;
        let cluster = scheduler.cluster();
        let covered = |name: &str| {
            let view = cluster.pod("default", name);
            let mut budgets = self.evictions.budgets.values();
            view.is_some_and(|pod| budgets.any(|budget| budget.is_charged_for(pod)))
        };
        let is_broken = self.evictions.budgets.values().any(|budget| {
            let charged = gone.iter().filter_map(|name| cluster.pod("default", name));
            let charged = charged.filter(|pod| budget.is_charged_for(*pod)).count() as i64;
            charged > budget.disruptions_allowed.max(0)
        });
        let simple = scheduler.reservations().len() == 1
            && plan.len() == group.all_pods().len()
            && group.gang_group.is_empty();
        if !is_broken || !simple {
            return;
        }
        let is_free = |name: &str| {
            let is_of = |root: &PodGroup| root.all_pods().iter().any(|pod| pod.name == name);
            let Some((other, root)) = self.groups.values().find(|(_, root)| is_of(root)) else {
                return !covered(name)
                    && !self.evictions.failed.contains(name)
                    && self.foreign.iter().any(|other| other == name)
                    && group.priority > 0;
            };
            let state = scheduler.state(&root.full_name());
            // Those that its scheduler has not heard the end of, too: they go with the others.
            let pods = root.all_pods();
            let mut known: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
            root.visit(&mut |group| known.extend(cluster.pods_of(group).map(PodView::name)));
            let mut names = known.into_iter();
            root.priority < group.priority
                && !root.non_preemptible
                && root.min_run_time.is_none()
                && root.gang_group.is_empty()
                && (*other != owner || state == Some(GroupState::Running))
                && names.all(|name| !covered(name) && !self.evictions.failed.contains(name))
        };
        let mut without = cluster.clone();
        for pod in cluster.pods() {
            if pod.namespace() == Scheduler::RESERVED_NAMESPACE || is_free(pod.name()) {
                without.remove_pod(pod.namespace(), pod.name()).unwrap();
            }
        }
        let outcome = place_gang(&without, &self.framework, group);
        let is_placed = matches!(outcome, Ok(Outcome::Placed(_)));
        assert!(!is_placed, "{} breaks a budget, and need not: {gone:?}", group.name);
    }

    pub(super) fn begin_quiet(&mut self) {
        let model = &mut self.evictions;
        model.is_quiet = true;
        model.ended.clear();
        model.taken.clear();
        model.stayed.clear();
        model.got_room.clear();
        for claim in model.claims.values_mut() {
            claim.is_quiet = false;
        }
    }

    /// The next eviction that nothing disturbs. Returns whether there was one.
    pub(super) fn evict_quietly(&mut self) -> bool {
        if let Some(name) = self.evictions.going.first().cloned() {
            self.goes(&name);
        } else if let Some(asked) = self.evictions.asked.first().cloned() {
            self.take_decision(asked.owner, asked.ticket);
        } else {
            return false;
        }
        true
    }

    /// A group whose victims went has started, unless another scheduler took the room, a more
    /// important group of its own did, or the store refused what its scheduler asked for there.
    pub(super) fn end_quiet(&mut self) {
        self.evictions.is_quiet = false;
        for (name, claim) in std::mem::take(&mut self.evictions.ended) {
            let Some((_, group)) = self.groups.get(&name) else { continue };
            // Beside filters that are not monotone, its verdict changes with any pod that starts.
            if !claim.is_quiet || self.kind == 3 {
                continue;
            }
            let is_taken =
                self.evictions.taken.iter().any(|(owner, nodes)| {
                    *owner != claim.owner && !nodes.is_disjoint(&claim.nodes)
                });
            let is_higher = |other: &String| {
                self.groups.get(other).is_some_and(|(_, other)| other.priority > group.priority)
            };
            let is_outranked = self.evictions.got_room.iter().any(is_higher);
            // The plan may count on the room of what was to go for others of its scheduler.
            let mut stayed = self.evictions.stayed.iter();
            let has_failed = stayed
                .any(|(owner, nodes)| *owner == claim.owner && !nodes.is_disjoint(&claim.nodes));
            let is_known = is_taken || is_outranked || has_failed;
            assert!(is_known, "victims went in vain for {name}: {claim:?}");
            self.evictions.in_vain += usize::from(is_taken && !is_outranked);
        }
    }

    pub(super) fn took(&mut self, owner: usize, plan: &Plan) {
        let nodes = plan.assignments().map(|to| to.node().to_string()).collect();
        self.evictions.taken.push((owner, nodes));
    }
}

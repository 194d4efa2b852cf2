//! Quiet times: everything that was decided is carried out, nothing else happens, and time passes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::drive::Waits;
use super::setup::{Line, RETRY_AFTER};
use super::world::{Gang, Leave, World};

/// Events since the quiet began.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// Groups for which a victim has gone or moved, with the nodes of their claims.
    pub(super) pressed: BTreeMap<(usize, String), BTreeSet<String>>,
    /// Groups that were bound.
    pub(super) bound: BTreeSet<(usize, String)>,
    /// Groups that got room, by a plan or a claim.
    pub(super) room: Vec<(usize, String, BTreeSet<String>)>,
    /// Commits that the store has bound, by scheduler.
    pub(super) commits: Vec<(usize, BTreeSet<String>)>,
    /// Schedulers of which the store has refused something.
    pub(super) refused: BTreeSet<usize>,
    /// Groups that moved.
    pub(super) moved: BTreeSet<String>,
    /// Groups that lost pods by other decisions.
    pub(super) disturbed: BTreeSet<String>,
    /// Groups of which pods have gone for others.
    pub(super) hit: BTreeSet<String>,
    /// Groups that had their minimum when the quiet began.
    whole: BTreeSet<String>,
}

/// How long a quiet time is: longer than all time-outs and back-offs.
const HORIZON: Duration = Duration::from_secs(900);

impl World {
    pub(super) fn quiet(&mut self) {
        self.tell(|| "it is quiet".into());
        for pod in self.stranded() {
            self.leave(&pod, Leave::Anew);
        }
        self.poll();
        self.check();
        // One of which too few pods are left, wherever they are, will not be whole again. Nor may one
        // of which a part terminates or has left its nodes, once a node of its places has changed.
        let is_whole = |(name, gang): &(&String, &Gang)| {
            let stays = |pod: &str| self.stays(&self.pods[pod]);
            let has_places = self.places.get(*name).is_none_or(|(since, nodes)| {
                let stands = |node: &String| {
                    let state = &self.nodes[node];
                    state.there && !state.cordoned && state.changed < *since
                };
                nodes.values().all(stands)
            });
            gang.started
                && gang.below.is_none()
                && self.has_no_part(name, &gang.tree)
                && (has_places || self.counts(name, &gang.tree, stays))
        };
        let whole = self.gangs.iter().filter(is_whole).map(|(name, _)| name.clone()).collect();
        self.quiet = Some(Quiet { whole, ..Quiet::default() });
        let end = self.now.after(HORIZON);
        for round in 0.. {
            let wakes = || self.processes.iter().map(super::drive::Process::next_wake);
            assert!(round < 3_000, "it is never quiet: {:?}", wakes().collect::<Vec<_>>());
            if !self.carry_one() {
                let wakes = self.processes.iter().filter_map(super::drive::Process::next_wake);
                match wakes.min().filter(|wake| *wake <= end) {
                    Some(wake) => {
                        self.now = wake.max(self.now);
                        self.tell(|| "the next wake".into());
                    }
                    None => break,
                }
            }
            self.poll();
            self.check();
        }
        let quiet = self.quiet.take().unwrap();
        self.check_idle();
        self.check_vain(&quiet);
        self.check_moved(&quiet);
        self.check_asleep();
    }

    /// The next thing that was decided. Returns whether there was one.
    fn carry_one(&mut self) -> bool {
        let open = self.flights.iter().position(|flight| !flight.open.is_empty());
        let going = self.pods.iter().find(|(_, pod)| pod.deleting && pod.node.is_some());
        let going = going.map(|(name, _)| name.clone());
        if let Some(at) = open {
            self.carry_flight(at, true);
        } else if !self.leaving.is_empty() {
            self.carry_leaving(0);
        } else if let Some(pod) = going {
            self.terminated(&pod);
        } else if let Some(ask) = self.asks.first().cloned() {
            self.unit_goes(&ask);
        } else if let Some((owner, group)) = self.first_held() {
            self.processes[owner].permit(&group, true, self.now).unwrap();
        } else {
            return false;
        }
        true
    }

    fn first_held(&self) -> Option<(usize, String)> {
        let is_held =
            |(name, gang): &(&String, &Gang)| self.processes[gang.owner].waits(name) == Waits::Held;
        self.gangs.iter().find(is_held).map(|(name, gang)| (gang.owner, name.clone()))
    }

    /// Nothing is under way, every scheduler sees the store as it is, and nothing is held for nobody.
    fn check_idle(&self) {
        assert!(self.flights.is_empty(), "plans are left in flight: {:?}", self.flights);
        for (name, gang) in &self.gangs {
            let waits = self.processes[gang.owner].waits(name);
            let is_idle = !matches!(waits, Waits::Busy | Waits::Evicting | Waits::Held);
            assert!(is_idle, "{name} is left {waits:?}");
        }
        let bound = self.pods.iter().filter(|(_, pod)| pod.node.is_some());
        let truth: BTreeMap<String, Option<String>> =
            bound.map(|(name, pod)| (name.clone(), pod.node.clone())).collect();
        for (owner, process) in self.processes.iter().enumerate() {
            assert_eq!(process.view(), truth, "scheduler {owner} sees another cluster");
            let placeholders = process.placeholders();
            let reservations = process.reservations();
            assert!(
                placeholders.is_empty() || !reservations.is_empty(),
                "room is held for nobody: {placeholders:?}"
            );
        }
    }

    /// A group whose victims went has been bound, unless another got the room.
    fn check_vain(&self, quiet: &Quiet) {
        for ((owner, by), nodes) in &quiet.pressed {
            let Some(gang) = self.gangs.get(by) else { continue };
            let is_hit = gang.lowered || quiet.disturbed.contains(by) || quiet.hit.contains(by);
            if quiet.bound.contains(&(*owner, by.clone())) || is_hit {
                continue;
            }
            let is_outranked = quiet.room.iter().any(|(other, group, taken)| {
                let theirs = self.gangs.get(group).map_or(0, |gang| gang.tree.priority);
                let is_above = if self.rules.tenants {
                    !taken.is_disjoint(nodes)
                } else {
                    theirs > gang.tree.priority
                };
                other == owner && group != by && is_above
            });
            let is_taken = quiet
                .commits
                .iter()
                .any(|(other, taken)| other != owner && !taken.is_disjoint(nodes));
            // It may have grown since, and have no quota any more.
            let pending = self.members(by).filter(|(_, pod)| pod.node.is_none() && !pod.finished);
            let amount: i64 = pending.map(|(_, pod)| pod.gpus()).sum();
            let is_aside = self.processes[*owner].aside().is_some_and(|other| other != *by);
            let is_short = self.rules.tenants
                && (is_aside || !self.is_within_guarantee(*owner, &gang.tree.queue, amount));
            let is_refused = quiet.refused.contains(owner) || is_short;
            // A permit, or a partner that came after the claim.
            let is_held = gang.tree.attributes.contains_key("deny")
                || !gang.tree.gang_group.is_empty()
                || self.is_named(by);
            assert!(
                is_outranked || is_taken || is_refused || is_held,
                "victims went in vain for {by} of {owner}: {}",
                self.processes[*owner].story(by)
            );
        }
    }

    /// A group of which units moved is whole again.
    fn check_moved(&self, quiet: &Quiet) {
        for root in &quiet.moved {
            let Some(gang) = self.gangs.get(root) else { continue };
            // One that has left its nodes starts together with a partner that came meanwhile.
            let has_partner = !gang.tree.gang_group.is_empty() || self.is_named(root);
            // A pod of a unit that was refused, and terminated all the same, may be gone.
            let is_free = quiet.disturbed.contains(root)
                || !quiet.whole.contains(root)
                || !self.has_no_part(root, &gang.tree);
            if is_free
                || gang.paused
                || has_partner
                || !self.is_alone()
                || gang.tree.attributes.contains_key("deny")
            {
                continue;
            }
            let was_victim = quiet.pressed.contains_key(&(gang.owner, root.clone()));
            let is = |pod: &str| self.pods[pod].finished || self.runs(&self.pods[pod]);
            assert!(
                was_victim || self.counts(root, &gang.tree, is),
                "{root} has moved, and does not run: {}",
                self.processes[gang.owner].story(root)
            );
        }
    }

    /// Whether another group starts together with this one.
    fn is_named(&self, name: &str) -> bool {
        let named = |own: &Gang| own.tree.gang_group.iter().any(|other| other.name() == name);
        self.gangs.values().any(named)
    }

    /// No group is left asleep that would start now and has quota.
    fn check_asleep(&mut self) {
        let names: Vec<String> = self.gangs.keys().cloned().collect();
        for name in names {
            let gang = &self.gangs[&name];
            let process = &self.processes[gang.owner];
            let waits = process.waits(&name);
            let (Waits::Queued | Waits::Asleep(_)) = waits else { continue };
            self.counts.waiting += 1;
            let queue = &gang.tree.queue;
            let pending =
                self.members(&name).filter(|(_, pod)| pod.node.is_none() && !pod.finished);
            let amount: i64 = pending.map(|(_, pod)| pod.gpus()).sum();
            let is_behind = match self.rules.line {
                Line::Strict => process.line(queue).first() != Some(&name),
                line if line.is_backfill() => {
                    // A start may be in the way of what is promised to others.
                    process.promised().iter().any(|other| *other != name)
                }
                _ => false,
            };
            let is_aside = process.aside().is_some_and(|other| other != name);
            let has_quota = !self.rules.tenants
                || gang.tree.gang_group.is_empty()
                    && !self.is_named(&name)
                    && !is_aside
                    && process.reservations().is_empty()
                    && self.is_within_guarantee(gang.owner, queue, amount);
            // A permit that reads the time is asked again now and then.
            let is_denied = gang.tree.attributes.contains_key("deny")
                && matches!(waits, Waits::Asleep(Some(retry)) if retry <= self.now.after(RETRY_AFTER));
            if is_behind || !has_quota || is_denied {
                continue;
            }
            let would = process.would_start(&name, self.now);
            let story = || format!("{} {}", process.story(&name), process.queue_story(queue));
            assert!(!would, "{name} is left {waits:?}, and would start: {}", story());
            self.counts.tried += 1;
        }
    }
}

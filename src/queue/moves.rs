//! Moves: units that run elsewhere in the end, so that a group fits and nobody is evicted for good.
//!
//! A unit that moves leaves its nodes as a victim does, and its places are held from the decision on.
//! Units are asked for in order, each once there is room where it goes: so the one that has gone can
//! start there at once, whatever becomes of the others.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::decision::Decision;
use super::evictions::{Evictions, HeldPlace, Leave, UnitInFlight, UnitMove, pod_name};
use super::held_places::Places;
use super::ids::{GroupId, Ticket};
use super::observe::GroupChange;
use super::preemption::Found;
use super::queued_group::{MemberState, QueuedGroup, full_name};
use super::scheduler::{Scheduler, Timer};
use super::takeable::Takeable;
use crate::base::{ObjectName, Time};
use crate::model::{IslandRule, PodGroup, TopologyRequest};
use crate::preempt::{Consolidation, EvictedPod, Move, Preemption, PreemptionRequest, Victim};
use crate::state::{Cluster, Plan};

impl Scheduler {
    /// The fewest moves that make room for a group. Moves that break a budget are none, nor are those
    /// for which something would have to stop meanwhile.
    pub(super) fn find_moves(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        victims: &BTreeMap<String, bool>,
    ) -> Option<Found> {
        let settings = self.settings.preemption.filter(|own| own.consolidation > 0)?;
        if self.tenancy.is_some() || self.settings.backfill.is_some() {
            return None;
        }
        let movable = self.movable(id);
        if movable.is_empty() {
            return None;
        }
        let without = self.without_claims(id, &[], true);
        let cluster = without.as_ref().unwrap_or(&self.cluster);
        let queued = self.groups.get(&id)?;
        let policy = alloc::sync::Arc::clone(&self.move_policy);
        let takeable = Takeable {
            policy: &*policy,
            cluster,
            groups: &self.groups,
            pods: &self.pods,
            state: &self.preemption,
            victims: victims.clone(),
            queue: None,
            partners: self.partners.groups(id),
            movable: Some(movable),
        };
        let moves = Consolidation::new(settings.consolidation).policy(&takeable);
        let request = self.request(tree, queued.strategy, self.now);
        let request = PreemptionRequest::new(request).consolidation(moves).budget(settings.budget);
        let mut planner = mem::take(&mut self.victim_planner);
        let answer = planner.place(cluster, &self.framework, &self.running_work, request);
        self.victim_planner = planner;
        let (mut moves, plan) = match answer {
            Ok(Preemption::Placed(plan)) => (Vec::new(), plan),
            Ok(Preemption::Preempt(own)) if own.move_cost.budgets_broken == 0 => {
                (own.moves, own.plan)
            }
            _ => return None,
        };
        if moves.iter().any(|step| step.stops) {
            return None;
        }
        // A unit that was laid out anew may have got the place that it has.
        let stays = |step: &Move| {
            let own = self.cluster.pod(&step.pod.namespace, &step.pod.name);
            step.to == step.pod.node && own.is_some_and(|pod| pod.device_indexes() == step.devices)
        };
        let still: BTreeSet<String> = by_unit(&moves)
            .filter(|unit| unit.iter().all(stays))
            .filter_map(|unit| Some(unit.first()?.unit.clone()))
            .collect();
        moves.retain(|step| !still.contains(&step.unit));
        let found = Found::new(Vec::new(), moves, plan)?;
        (found.moves.is_empty() || self.is_admitted(tree, &found)).then_some(found)
    }

    /// The groups of which units may move for another: they run whole and by themselves, and places
    /// can be found anew for each of their members alone.
    fn movable(&self, id: GroupId) -> BTreeSet<GroupId> {
        let is_free = |own: &UnitMove| {
            let is_less = own.by == id || self.is_less_important(id, own.by);
            let mut units = self.preemption.units_of(own.ticket);
            is_less && units.any(|unit| unit.victim.name == own.unit && !unit.begun)
        };
        let may = |(root, queued): &(&GroupId, &QueuedGroup)| {
            let mut moves =
                self.preemption.moves.iter().filter(|own| own.root == **root).peekable();
            let moves_now = moves.peek().is_some();
            queued.started
                && **root != id
                && !queued.paused
                && queued.below_since.is_none()
                && !queued.phase.busy()
                && (!queued.evicting || moves_now)
                && queued.nominated.is_none()
                && queued.reservation.is_none()
                && moves.all(is_free)
                && !self.partners.contains(**root)
                && !queued.root.any(&is_bound_together)
                && queued.members.values().all(|member| match member.state {
                    MemberState::Done => true,
                    MemberState::Bound => {
                        let pod = self.cluster.pod(member.pod.namespace(), &member.pod.name);
                        pod.is_some_and(|pod| {
                            pod.node().is_some() && (!pod.deleting() || moves_now)
                        })
                    }
                    _ => false,
                })
        };
        self.groups.iter().filter(may).map(|(root, _)| *root).collect()
    }

    /// Makes moves in a cluster, one unit after another. Returns whether each of them holds.
    pub(super) fn make_moves(&self, cluster: &mut Cluster, moves: &[Move]) -> bool {
        by_unit(moves).all(|unit| {
            for Move { pod, .. } in unit {
                let _ = cluster.remove_pod(&pod.namespace, &pod.name);
            }
            let mut root = None;
            let mut places: Places<'_> = BTreeMap::new();
            for step in unit {
                let Some((own, seq)) = self.pods.get(&pod_name(&step.pod)) else { return false };
                root = Some(*own);
                places.insert(*seq, (&step.to, &step.devices));
            }
            let plan = root.and_then(|root| self.plan_of_places(cluster, root, &places));
            plan.is_some_and(|plan| cluster.commit(&self.framework, &plan).is_ok())
        })
    }

    /// The units of a claim that have not begun to move, made to in a cluster which their pods have
    /// left. Returns whether they still can.
    pub(super) fn can_move(&self, by: GroupId, cluster: &mut Cluster) -> bool {
        let own = self.preemption.moves.iter().filter(|own| own.by == by);
        let open: Vec<&UnitMove> = own
            .filter(|own| {
                let mut units = self.preemption.units_of(own.ticket);
                units.any(|unit| unit.victim.name == own.unit && !unit.begun)
            })
            .collect();
        for (pod, _) in open.iter().flat_map(|own| own.placeholders()) {
            let _ = cluster.remove_pod(pod.namespace(), &pod.name);
        }
        open.iter().all(|own| self.moves_in(own, cluster))
    }

    /// Whether a unit whose pods have left a cluster has its places there; it is put there.
    fn moves_in(&self, own: &UnitMove, cluster: &mut Cluster) -> bool {
        let mut places: Places<'_> = BTreeMap::new();
        for place in &own.places {
            let name = full_name(&place.pod);
            let Some((_, seq)) = self.pods.get(&name) else { return false };
            places.insert(*seq, (&place.to, &place.devices));
        }
        let plan = self.plan_of_places(cluster, own.root, &places);
        plan.is_some_and(|plan| cluster.commit(&self.framework, &plan).is_ok())
    }

    /// A decision to move units: their places are held, and the first are asked for.
    pub(super) fn begin_moves(&mut self, by: GroupId, moves: &[Move], plan: Plan) {
        let ticket = Ticket(self.take_number());
        let mut units = Vec::new();
        for unit in by_unit(moves) {
            let Some((victim, own)) = self.unit_of(ticket, by, unit) else { continue };
            self.preemption.charge(&self.cluster, &victim.pods);
            units.push(UnitInFlight {
                root: Some(own.root),
                root_name: self.groups.get(&own.root).map(|queued| queued.name.clone().into()),
                victim,
                leave: Leave::Later,
                begun: false,
                until: Time::MAX,
                retry_at: None,
            });
            self.preemption.moves.push(own);
        }
        self.budgets_changed();
        self.preemption.evictions.push((ticket, Evictions { group: by, plan, units }));
        self.update_places();
        self.ask_moves(ticket);
    }

    /// A unit that moves, as a unit to evict and with its places.
    fn unit_of(&self, ticket: Ticket, by: GroupId, unit: &[Move]) -> Option<(Victim, UnitMove)> {
        let first = unit.first()?;
        let (root, _) = *self.pods.get(&pod_name(&first.pod))?;
        let queued = self.groups.get(&root)?;
        let mut places = Vec::with_capacity(unit.len());
        let (mut priority, mut work_lost) = (queued.root.priority, 0_u64);
        let mut group = None;
        for step in unit {
            let (_, seq) = self.pods.get(&pod_name(&step.pod))?;
            let mut pod = queued.members.get(seq)?.pod.clone();
            pod.node = None;
            pod.device_indexes = Vec::new();
            let (to, devices) = (step.to.clone(), step.devices.clone());
            let view = self.cluster.pod(&step.pod.namespace, &step.pod.name)?;
            priority = priority.max(view.priority());
            let run = self.now.since(view.start().unwrap_or(self.now)).as_millis();
            work_lost = work_lost.saturating_add(u64::try_from(run).unwrap_or(u64::MAX));
            let leaf = pod.group.as_deref().unwrap_or("");
            group = group.or(Some(ObjectName::new(pod.namespace(), leaf)));
            places.push(HeldPlace { pod, to, devices, nominated: false, placeholder: None });
        }
        let mut pods: Vec<EvictedPod> = unit.iter().map(|step| step.pod.clone()).collect();
        pods.sort();
        let whole = unit.len() > 1 || first.unit != pod_name(&first.pod);
        let name = first.unit.clone();
        let own =
            UnitMove { ticket, by, root, unit: name.clone(), places, arrives: false, until: None };
        Some((Victim { name, whole, group, priority, work_lost, pods }, own))
    }

    /// The next units of all decisions that can move now.
    pub(super) fn ask_next_moves(&mut self) {
        let is_later = |unit: &UnitInFlight| unit.is_later();
        let open =
            self.preemption.evictions.iter().filter(|(_, own)| own.units.iter().any(is_later));
        let tickets: Vec<Ticket> = open.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            self.ask_moves(ticket);
        }
    }

    /// Asks for the next units of a decision, as far as there is room where they go.
    fn ask_moves(&mut self, ticket: Ticket) {
        let Some(settings) = self.settings.preemption else { return };
        let until = self.now.after(settings.start_timeout);
        let mut asked: Vec<UnitInFlight> = Vec::new();
        while let Some(own) = self.preemption.of(ticket) {
            let Some(at) = own.units.iter().position(UnitInFlight::is_later) else { break };
            let (by, name) = (own.group, own.units[at].victim.name.clone());
            if !self.may_move_now(by, ticket, &name) {
                break;
            }
            let Some(unit) = self.preemption.of(ticket).and_then(|own| own.units.get_mut(at))
            else {
                break;
            };
            unit.leave = Leave::Moves;
            unit.until = until;
            asked.push(unit.clone());
        }
        let Some(own) = self.preemption.of(ticket).filter(|_| !asked.is_empty()) else { return };
        let (by, plan) = (own.group, own.plan.clone());
        let count = asked.len() as u64;
        self.metrics.moves = self.metrics.moves.saturating_add(count);
        self.timers.insert((until, Timer::Evictions(ticket)));
        let moves = self.moves_of(ticket, &asked);
        let victims = Vec::new();
        self.outbox.push_back(Decision::Preempt { ticket, victims, moves, plan });
        let by = self.groups.get(&by).map(|queued| queued.name.clone());
        for unit in &asked {
            let (Some(root), Some(by)) = (unit.root, by.clone()) else { continue };
            self.emit(root, GroupChange::Moving { by, pods: unit.victim.pods.len() });
        }
        self.settle_victims();
    }

    /// Whether a unit can go where it is to go, as things are.
    fn may_move_now(&self, by: GroupId, ticket: Ticket, name: &str) -> bool {
        let mut moves = self.preemption.moves.iter();
        let Some(own) = moves.find(|own| own.ticket == ticket && own.unit == name) else {
            return false;
        };
        if self.groups.get(&own.root).is_none_or(|queued| queued.phase.busy()) {
            return false;
        }
        let mut cluster = self.cluster.clone();
        self.set_claim_aside(by, &mut cluster);
        for place in &own.places {
            let _ = cluster.remove_pod(place.pod.namespace(), &place.pod.name);
        }
        self.moves_in(own, &mut cluster)
    }

    /// The moves of some units of a decision, in order.
    pub(super) fn moves_of(&self, ticket: Ticket, units: &[UnitInFlight]) -> Vec<Move> {
        let mut moves = Vec::new();
        for unit in units {
            let own = self.preemption.moves.iter();
            let own = own.filter(|own| own.ticket == ticket && own.unit == unit.victim.name);
            for place in own.flat_map(|own| &own.places) {
                let name = full_name(&place.pod);
                let Some(pod) = unit.victim.pods.iter().find(|pod| pod_name(pod) == name) else {
                    continue;
                };
                let (to, devices) = (place.to.clone(), place.devices.clone());
                let unit = unit.victim.name.clone();
                moves.push(Move { pod: pod.clone(), unit, to, devices, stops: false });
            }
        }
        moves
    }

    /// Pods of a unit that were to leave for where they are: the embedder has moved the others.
    pub(super) fn stays_moved(&mut self, ticket: Ticket, name: &str, pods: &BTreeSet<String>) {
        let Some(own) = self.preemption.of(ticket) else { return };
        let is = |unit: &&mut UnitInFlight| unit.victim.name == name;
        let Some(unit) = own.units.iter_mut().find(is) else { return };
        let root = unit.root;
        let (stay, leave): (Vec<_>, Vec<_>) = mem::take(&mut unit.victim.pods)
            .into_iter()
            .partition(|pod| pods.contains(&pod_name(pod)));
        unit.victim.pods = leave;
        own.units.retain(|unit| !unit.victim.pods.is_empty());
        self.preemption.drop_done();
        for pod in &stay {
            self.set_deleting(pod, false);
        }
        self.preemption.give_back(&stay);
        if let Some(root) = root {
            self.stay_in_place(root);
        }
    }
}

/// Moves cut into those of one unit each.
fn by_unit(moves: &[Move]) -> impl Iterator<Item = &[Move]> {
    moves.chunk_by(|a, b| a.unit == b.unit)
}

/// Whether the places of members of a group depend on each other in more ways than by one domain.
fn is_bound_together(group: &PodGroup) -> bool {
    let TopologyRequest { require, prefer, .. } = &group.topology;
    let known = TopologyRequest {
        require: require.clone(),
        prefer: prefer.clone(),
        island: IslandRule::Any,
        ..TopologyRequest::default()
    };
    group.leader || group.topology != known
}

//! Moves: units that run elsewhere in the end, so that a group fits and nobody is evicted for good.
//!
//! A unit that moves leaves its nodes as a victim does, and its places are held from the decision on.
//! Units are asked for in order, each once there is room where it goes: so the one that has gone can
//! start there at once, whatever becomes of the others.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::places::Places;
use super::{Scheduler, Timer};
use crate::base::ObjectName;
use crate::preempt::{EvictedPod, Move, Victim};
use crate::queue::groups::full_name;
use crate::queue::holds::{HeldPlace, UnitMove, View};
use crate::queue::removals::{Removal, Stage, Why, pod_name};
use crate::queue::terms::decision::Decision;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::GroupChange;
use crate::state::Plan;

impl Scheduler {
    /// Makes moves in a view, one unit after another. Returns whether each of them holds.
    pub(super) fn make_moves(&self, view: &mut View, moves: &[Move]) -> bool {
        view.leave(moves.iter().filter(|step| step.stops).map(|step| &step.pod));
        by_unit(moves).all(|unit| {
            let mut root = None;
            let mut places: Places<'_> = BTreeMap::new();
            view.leave(unit.iter().map(|step| &step.pod));
            for step in unit {
                let Some((own, seq)) = self.groups.member(&pod_name(&step.pod)) else {
                    return false;
                };
                root = Some(own);
                places.insert(seq, (&step.to, &step.devices, &step.zone_shares));
            }
            let plan = root.and_then(|root| self.plan_of_places(view.cluster(), root, &places));
            plan.is_some_and(|plan| view.takes(self.world.framework(), &plan))
        })
    }

    /// The units of a claim that have not begun to move, made to in a view which their pods have left.
    /// Returns whether they still can.
    pub(super) fn can_move(&self, by: GroupId, view: &mut View) -> bool {
        let own = self.holds.moves().filter(|own| own.by() == by);
        let open: Vec<&UnitMove> = own.filter(|own| self.has_not_begun(own)).collect();
        view.take_out(open.iter().flat_map(|own| own.placeholders()).map(|(pod, _)| pod));
        open.iter().all(|own| self.moves_in(own, view))
    }

    /// A unit that moves, as a unit to evict and with its places.
    fn unit_of(&self, ticket: Ticket, by: GroupId, unit: &[Move]) -> Option<(Victim, UnitMove)> {
        let first = unit.first()?;
        let (root, _) = self.groups.member(&pod_name(&first.pod))?;
        let queued = self.groups.get(&root)?;
        let mut places = Vec::with_capacity(unit.len());
        let (mut priority, mut work_lost) = (queued.root().priority, 0_u64);
        let mut group = None;
        for step in unit {
            let (_, seq) = self.groups.member(&pod_name(&step.pod))?;
            let pod = queued.members().get(&seq)?.pod().clone();
            let to = step.to.clone();
            let held = (step.devices.clone(), step.zone_shares.clone());
            let view = self.world.cluster().pod(&step.pod.namespace, &step.pod.name)?;
            priority = priority.max(view.priority());
            let run = self.world.now().since(view.start().unwrap_or(self.world.now())).as_millis();
            work_lost = work_lost.saturating_add(u64::try_from(run).unwrap_or(u64::MAX));
            let leaf = pod.group.as_deref().unwrap_or("");
            group = group.or(Some(ObjectName::new(pod.namespace(), leaf)));
            places.push(HeldPlace::new(pod, to, held));
        }
        let mut pods: Vec<EvictedPod> = unit.iter().map(|step| step.pod.clone()).collect();
        pods.sort();
        let whole = unit.len() > 1 || *first.unit != *pod_name(&first.pod);
        let name = first.unit.clone();
        let own = UnitMove::new((ticket, name.clone()), by, root, (places, first.stops));
        Some((Victim { name, whole, group, priority, work_lost, pods }, own))
    }

    /// A decision to move units: their places are held, and the first are asked for.
    pub(super) fn begin_moves(&mut self, by: GroupId, moves: &[Move], plan: Plan) {
        let ticket = Ticket(self.take_number());
        let mut units = Vec::new();
        for (number, unit) in (0..).zip(by_unit(moves)) {
            let Some((victim, own)) = self.unit_of(ticket, by, unit) else { continue };
            let name = self.groups.get(&own.root()).map(|queued| queued.name().clone().into());
            let root = (Some(own.root()), name);
            units.push(Removal::new((ticket, by), (Why::Move, Stage::Later), root, victim));
            self.holds.begin_move(number, own, self.world.now());
        }
        self.removals.charge(self.world.cluster(), units.iter().flat_map(Removal::pods));
        self.removals.begin(ticket, plan, units);
        self.update_places();
        self.ask_moves(ticket);
    }

    /// The next units of all decisions that can move now.
    pub(super) fn ask_next_moves(&mut self) {
        for ticket in self.removals.with_later() {
            self.ask_moves(ticket);
        }
    }

    /// Asks for the next units of a decision, as far as there is room where they go.
    fn ask_moves(&mut self, ticket: Ticket) {
        let Some(settings) = self.world.settings().preemption else { return };
        let until = self.world.now().after(settings.start_timeout);
        let mut asked: Vec<Removal> = Vec::new();
        loop {
            // Units that stop leave before the first that moves.
            let stops = |own: &&Removal| self.holds.stops(ticket, own.name());
            let later = || self.removals.of(ticket).filter(|own| own.is_later());
            let stopping = later().find(stops);
            let next = stopping.or_else(|| later().next());
            let is_stopping = stopping.is_some();
            let Some((by, name)) = next.map(|own| (own.by(), String::from(own.name()))) else {
                break;
            };
            if !is_stopping && !self.may_move_now(by, ticket, &name) {
                break;
            }
            let (unit, beyond) =
                self.removals.ask_move(self.world.cluster(), (ticket, &name), until);
            if !beyond.is_empty() {
                self.search_in_place_of(ticket, beyond);
                break;
            }
            asked.extend(unit);
        }
        let Some(by) = asked.first().map(Removal::by) else { return };
        let Some(plan) = self.removals.plan(ticket).cloned() else { return };
        let count = asked.len() as u64;
        self.report.totals().add(count, |metrics| &mut metrics.moves);
        self.timers.insert((until, Timer::Evictions(ticket)));
        let moves = self.moves_of(ticket, &asked);
        self.report.decide(Decision::Move { ticket, moves, plan });
        let by = self.groups.get(&by).map(|queued| queued.name().clone());
        for own in &asked {
            let (Some(root), Some(by)) = (own.root(), by.clone()) else { continue };
            self.emit(root, GroupChange::Moving { by, pods: own.len() });
        }
        self.settle_victims();
    }

    /// Whether a unit can go where it is to go, as things are.
    fn may_move_now(&self, by: GroupId, ticket: Ticket, name: &str) -> bool {
        let Some(own) = self.holds.moves().find(|own| own.is(ticket, name)) else { return false };
        if self.groups.get(&own.root()).is_none_or(|queued| queued.phase().busy()) {
            return false;
        }
        let mut view = View::of(self.world.cluster());
        view.take_out(self.claim_placeholders(by));
        view.take_out(own.places().iter().map(HeldPlace::pod));
        self.moves_in(own, &mut view)
    }

    /// The moves of some units of a decision, in order.
    pub(super) fn moves_of(&self, ticket: Ticket, units: &[Removal]) -> Vec<Move> {
        let mut moves = Vec::new();
        for unit in units {
            let name = unit.name();
            let own = self.holds.moves().filter(|own| own.is(ticket, name));
            let stops = self.holds.stops(ticket, name);
            for place in own.flat_map(UnitMove::places) {
                let full = full_name(place.pod());
                let Some(pod) = unit.pods().find(|pod| pod_name(pod) == full) else {
                    continue;
                };
                let (to, devices) = (place.to().into(), place.devices().to_vec());
                let (unit, zone_shares) = (ObjectName::of_text(name), place.zone_shares().to_vec());
                moves.push(Move { pod: pod.clone(), unit, to, devices, zone_shares, stops });
            }
        }
        moves
    }
}

/// Moves cut into those of one unit each.
pub(super) fn by_unit(moves: &[Move]) -> impl Iterator<Item = &[Move]> {
    moves.chunk_by(|a, b| a.unit == b.unit)
}

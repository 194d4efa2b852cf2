//! Evictions and moves under way, budgets, and groups that other schedulers run: what preemption remembers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::ids::{GroupId, Ticket};
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::preempt::{DisruptionBudget, EvictedPod, Victim};
use crate::state::{Cluster, Plan};

/// What preemption remembers.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub(super) struct PreemptionState {
    /// Victims that have not gone yet, by the decision that names them.
    pub(super) evictions: Vec<(Ticket, Evictions)>,
    /// Units that do not run yet where they move to, in the order of the decisions.
    pub(super) moves: Vec<UnitMove>,
    /// Pods whose eviction failed, by full name, and the time until which no other is asked for.
    pub(super) refused: BTreeMap<String, Time>,
    /// By full name.
    pub(super) budgets: BTreeMap<String, KnownBudget>,
    /// Groups that other schedulers run, by full name.
    pub(super) running: BTreeMap<String, PodGroup>,
    /// Whether a change may help groups for which no victims were found.
    pub(super) searches_due: bool,
}

/// The victims of one decision that have not gone yet.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Evictions {
    /// The group that room is made for.
    pub(super) group: GroupId,
    pub(super) plan: Plan,
    pub(super) units: Vec<UnitInFlight>,
}

/// How a unit leaves its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Leave {
    /// It is evicted.
    #[default]
    Evicted,
    /// It moves.
    Moves,
    /// It is to move, and was not asked for yet.
    Later,
}

/// A unit that is to go.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct UnitInFlight {
    /// The group of this scheduler that it is of.
    pub(super) root: Option<GroupId>,
    /// Full name of its root group, of this scheduler or another.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) root_name: Option<String>,
    /// The unit, with the pods that have not gone.
    pub(super) victim: Victim,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) leave: Leave,
    /// Whether a pod of it, or of others without which too little of its group is left, is being
    /// deleted or gone: it is not taken back any more.
    pub(super) begun: bool,
    /// Deadline of the beginning, then of the end.
    pub(super) until: Time,
    /// Time at which it is asked for again, after a failure.
    pub(super) retry_at: Option<Time>,
}

/// A unit that moves, from the decision until it runs elsewhere.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct UnitMove {
    pub(super) ticket: Ticket,
    /// The group that room is made for.
    pub(super) by: GroupId,
    /// Its own root group.
    pub(super) root: GroupId,
    /// Its name, as that of a victim.
    pub(super) unit: String,
    /// The places that its pods do not run at yet, in order.
    pub(super) places: Vec<HeldPlace>,
    /// Whether a pod of it was seen on another node: the embedder moves it itself.
    pub(super) arrives: bool,
    /// The end of the hold, once the unit has left its nodes.
    pub(super) until: Option<Time>,
}

/// A place that is held for a pod.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct HeldPlace {
    /// The pod that leaves its node for it; one in its stead is of the same leaf and requests.
    pub(super) pod: Pod,
    pub(super) to: String,
    pub(super) devices: Vec<Vec<u32>>,
    /// Whether the group is nominated to it: its reservation holds it then.
    pub(super) nominated: bool,
    /// The pod that holds it, while it is in the cluster.
    pub(super) placeholder: Option<Pod>,
}

/// A budget as it was passed in, and the evictions that it does not count yet.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct KnownBudget {
    pub(super) budget: DisruptionBudget,
    /// Full names of pods.
    pub(super) charged: BTreeSet<String>,
}

impl KnownBudget {
    /// The budget with what it allows now.
    pub(super) fn left(&self) -> DisruptionBudget {
        let charged = i64::try_from(self.charged.len()).unwrap_or(i64::MAX);
        let mut left = self.budget.clone();
        left.disruptions_allowed = left.disruptions_allowed.saturating_sub(charged);
        left
    }
}

/// Full name of a pod that is to go.
pub(super) fn pod_name(pod: &EvictedPod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

impl UnitInFlight {
    /// Full names of the pods that have not gone.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.victim.pods.iter().map(pod_name)
    }

    /// Whether it is to move, and was not asked for yet.
    pub(super) fn is_later(&self) -> bool {
        self.leave == Leave::Later
    }

    /// The time of its next deadline.
    pub(super) fn deadline(&self) -> Time {
        self.retry_at.unwrap_or(self.until)
    }
}

impl UnitMove {
    /// The placeholders of its places, with their nodes.
    pub(super) fn placeholders(&self) -> impl Iterator<Item = (&Pod, &str)> {
        self.places.iter().filter_map(|place| Some((place.placeholder.as_ref()?, &*place.to)))
    }
}

impl PreemptionState {
    /// The units that have not gone, each with the group that room is made for.
    pub(super) fn units(&self) -> impl Iterator<Item = (GroupId, &UnitInFlight)> {
        self.evictions
            .iter()
            .flat_map(|(_, evictions)| evictions.units.iter().map(|unit| (evictions.group, unit)))
    }

    /// The units of one decision that have not gone.
    pub(super) fn units_of(&self, ticket: Ticket) -> impl Iterator<Item = &UnitInFlight> {
        let own = self.evictions.iter().filter(move |(other, _)| *other == ticket);
        own.flat_map(|(_, evictions)| &evictions.units)
    }

    /// The victims of a decision.
    pub(super) fn of(&mut self, ticket: Ticket) -> Option<&mut Evictions> {
        self.evictions.iter_mut().find(|(other, _)| *other == ticket).map(|(_, own)| own)
    }

    /// Drops the units that are to be asked for again for a group later, and stay until then, of
    /// which it wants pods now: they are asked for anew.
    pub(super) fn drop_put_off(&mut self, id: GroupId, wanted: &BTreeSet<String>) {
        for (_, evictions) in self.evictions.iter_mut().filter(|(_, own)| own.group == id) {
            evictions.units.retain(|unit| {
                unit.begun
                    || unit.retry_at.is_none()
                    || !unit.names().any(|name| wanted.contains(&name))
            });
        }
        self.drop_done();
    }

    /// Whether a victim of a decision is to go now, as named there.
    pub(super) fn is_open(&self, ticket: Ticket, name: &str) -> bool {
        self.units_of(ticket).any(|unit| unit.victim.name == name && unit.retry_at.is_none())
    }

    /// Drops decisions of which every victim has gone.
    pub(super) fn drop_done(&mut self) {
        self.evictions.retain(|(_, evictions)| !evictions.units.is_empty());
    }

    /// The root groups and members of which pods are to go. `find` returns those of a pod.
    pub(super) fn members(
        &self,
        begun_only: bool,
        find: impl Fn(&str) -> Option<(GroupId, u64)>,
    ) -> BTreeMap<GroupId, BTreeSet<u64>> {
        let mut members: BTreeMap<GroupId, BTreeSet<u64>> = BTreeMap::new();
        let is_going = |unit: &UnitInFlight| unit.begun || !begun_only && !unit.is_later();
        for (_, unit) in self.units().filter(|(_, unit)| is_going(unit)) {
            for (id, seq) in unit.names().filter_map(|name| find(&name)) {
                members.entry(id).or_default().insert(seq);
            }
        }
        members
    }

    /// Whether a unit is still to leave its nodes.
    pub(super) fn is_leaving(&self, own: &UnitMove) -> bool {
        self.units_of(own.ticket).any(|unit| unit.victim.name == own.unit)
    }

    /// Whether places are held for a group.
    pub(super) fn is_moving(&self, root: GroupId) -> bool {
        self.moves.iter().any(|own| own.root == root)
    }

    /// Charges budgets with pods that are to go.
    pub(super) fn charge(&mut self, cluster: &Cluster, pods: &[EvictedPod]) {
        for pod in pods {
            let Some(view) = cluster.pod(&pod.namespace, &pod.name) else { continue };
            for known in self.budgets.values_mut() {
                if known.budget.is_charged_for(view) {
                    known.charged.insert(pod_name(pod));
                }
            }
        }
    }

    /// Gives back what budgets were charged for pods that stay.
    pub(super) fn give_back(&mut self, pods: &[EvictedPod]) {
        for pod in pods {
            let name = pod_name(pod);
            for known in self.budgets.values_mut() {
                known.charged.remove(&name);
            }
        }
    }

    /// Sets a budget. What it was charged for is kept as long as its pods are to go and it does not
    /// count them itself: their eviction has not begun.
    pub(super) fn set_budget(&mut self, budget: DisruptionBudget) {
        let name = format!("{}/{}", budget.namespace, budget.name);
        let mut charged = self.budgets.remove(&name).map(|known| known.charged).unwrap_or_default();
        let open: BTreeSet<String> = self
            .units()
            .filter(|(_, unit)| !unit.begun)
            .flat_map(|(_, unit)| unit.names())
            .collect();
        charged.retain(|pod| {
            let short = pod.split_once('/').map_or("", |(_, name)| name);
            open.contains(pod) && !budget.disrupted_pods.contains(short)
        });
        self.budgets.insert(name, KnownBudget { budget, charged });
    }
}

/// Whether a pod that is to go is still where it was.
pub(super) fn is_there(cluster: &Cluster, pod: &EvictedPod) -> bool {
    cluster.pod(&pod.namespace, &pod.name).is_some_and(|view| {
        view.uid() == pod.uid && view.node().is_some_and(|node| node.name() == pod.node)
    })
}

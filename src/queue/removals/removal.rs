//! One entry of the ledger: a unit that is to leave its nodes, and how far that has come.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::ObjectName;
use crate::base::Time;
use crate::preempt::{EvictedPod, Victim};
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::state::Cluster;

/// Why a unit is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum Why {
    /// It makes room, and goes.
    Victim,
    /// It makes room, and runs elsewhere in the end.
    Move,
}

/// How far a removal has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum Stage {
    /// It was not asked for yet: there is no room where it goes.
    Later,
    /// It was asked for, and is to begin until a time.
    Asked { until: Time },
    /// A pod of it terminates or is gone; it is to end until a time.
    Begun { until: Time },
    /// It could not go, and is asked for again at a time; `begun`: it had begun; `late`: not reported.
    Failed {
        retry: Time,
        begun: bool,
        #[cfg_attr(feature = "serde", serde(default))]
        late: bool,
    },
}

/// A unit that is to leave.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Removal {
    /// The decision that names it.
    pub(super) ticket: Ticket,
    /// The group that room is made for.
    pub(super) by: GroupId,
    pub(super) why: Why,
    pub(super) stage: Stage,
    /// The group of this scheduler that it is of.
    pub(super) root: Option<GroupId>,
    /// Full name of its root group, of this scheduler or another.
    pub(super) root_name: Option<String>,
    /// The unit, with all of its pods.
    pub(super) unit: Victim,
    /// Indexes of the pods that have not gone.
    #[cfg_attr(feature = "serde", serde(skip))]
    left: BTreeSet<usize>,
}

impl Removal {
    pub(in crate::queue) fn new(
        (ticket, by): (Ticket, GroupId),
        (why, stage): (Why, Stage),
        (root, root_name): (Option<GroupId>, Option<String>),
        unit: Victim,
    ) -> Removal {
        let left = (0..unit.pods.len()).collect();
        Removal { ticket, by, why, stage, root, root_name, unit, left }
    }

    /// The decision that names it.
    pub(in crate::queue) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The group that room is made for.
    pub(in crate::queue) fn by(&self) -> GroupId {
        self.by
    }

    /// The group of this scheduler that it is of.
    pub(in crate::queue) fn root(&self) -> Option<GroupId> {
        self.root
    }

    /// Full name of its root group, of this scheduler or another.
    pub(in crate::queue) fn root_name(&self) -> Option<&str> {
        self.root_name.as_deref()
    }

    /// The name of the unit.
    pub(in crate::queue) fn name(&self) -> &str {
        &self.unit.name
    }

    /// Whether the unit is all that runs of a group.
    pub(in crate::queue) fn is_whole(&self) -> bool {
        self.unit.whole
    }

    /// The group of the unit, of this scheduler or another.
    pub(in crate::queue) fn group(&self) -> Option<&ObjectName> {
        self.unit.group.as_ref()
    }

    /// The unit, with the pods that have not gone.
    pub(in crate::queue) fn victim(&self) -> Victim {
        let Victim { name, whole, group, priority, work_lost, .. } = &self.unit;
        // Pods that came back or were bound since stand behind the others.
        let mut pods: Vec<EvictedPod> = self.pods().cloned().collect();
        pods.sort();
        Victim {
            name: name.clone(),
            whole: *whole,
            group: group.clone(),
            priority: *priority,
            work_lost: *work_lost,
            pods,
        }
    }

    /// The pods that have not gone.
    pub(in crate::queue) fn pods(&self) -> impl Iterator<Item = &EvictedPod> + Clone {
        self.placed().map(|(_, pod)| pod)
    }

    /// The number of pods that have not gone.
    pub(in crate::queue) fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether all pods have gone.
    pub(in crate::queue) fn has_gone(&self) -> bool {
        self.left.is_empty()
    }

    /// The pods that have not gone, with their places in the unit.
    pub(super) fn placed(&self) -> impl Iterator<Item = (usize, &EvictedPod)> + Clone {
        self.left.iter().filter_map(|at| Some((*at, self.unit.pods.get(*at)?)))
    }

    /// A pod that has not gone, by its place in the unit.
    pub(super) fn pod(&self, at: usize) -> Option<&EvictedPod> {
        self.unit.pods.get(at).filter(|_| self.left.contains(&at))
    }

    /// A pod has gone. Returns it.
    pub(super) fn drop_pod(&mut self, at: usize) -> Option<EvictedPod> {
        self.left.remove(&at).then(|| self.unit.pods.get(at).cloned())?
    }

    /// A pod leaves with the unit. Returns its place.
    pub(super) fn add_pod(&mut self, pod: EvictedPod) -> usize {
        let at = self.unit.pods.len();
        self.unit.pods.push(pod);
        self.left.insert(at);
        at
    }

    /// Full names of the pods that have not gone.
    pub(in crate::queue) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.pods().map(pod_name)
    }

    /// The entry as it is saved: with the pods that have not gone.
    #[cfg(feature = "serde")]
    pub(super) fn save(&self) -> Removal {
        Removal { unit: self.victim(), left: (0..self.len()).collect(), ..self.clone() }
    }

    /// An entry that was saved.
    #[cfg(feature = "serde")]
    pub(super) fn restore(mut self) -> Removal {
        self.left = (0..self.unit.pods.len()).collect();
        self
    }

    /// Whether it is asked to evict, not to move.
    pub(in crate::queue) fn is_victim(&self) -> bool {
        self.why == Why::Victim
    }

    /// Whether it was not asked for yet.
    pub(in crate::queue) fn is_later(&self) -> bool {
        self.stage == Stage::Later
    }

    /// Whether a pod of it, or of others without which too little of its group is left, terminates or
    /// is gone: it is not taken back any more.
    pub(in crate::queue) fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Begun { .. } | Stage::Failed { begun: true, .. })
    }

    /// Whether it goes, or is asked to go: it is not put off.
    pub(in crate::queue) fn goes_now(&self) -> bool {
        self.has_begun() || self.retry_at().is_none()
    }

    /// The time at which it is asked for again, after a failure.
    pub(in crate::queue) fn retry_at(&self) -> Option<Time> {
        match self.stage {
            Stage::Failed { retry, .. } => Some(retry),
            _ => None,
        }
    }

    /// Whether the embedder has it to do: it was asked for, and not reported failed.
    pub(in crate::queue) fn is_asked(&self) -> bool {
        !matches!(self.stage, Stage::Later | Stage::Failed { late: false, .. })
    }

    /// Whether it could not go, and is to be asked for again by a time.
    pub(in crate::queue) fn is_due(&self, now: Time) -> bool {
        self.retry_at().is_some_and(|retry| retry <= now)
    }

    /// Whether it did not begin, or end, in time.
    pub(in crate::queue) fn is_late(&self, now: Time) -> bool {
        match self.stage {
            Stage::Asked { until } | Stage::Begun { until } => until <= now,
            _ => false,
        }
    }

    /// The time of its next deadline.
    pub(in crate::queue) fn deadline(&self) -> Option<Time> {
        match self.stage {
            Stage::Later => None,
            Stage::Asked { until } | Stage::Begun { until } => Some(until),
            Stage::Failed { retry, .. } => Some(retry),
        }
    }
}

/// Full name of a pod that is to go.
pub(in crate::queue) fn pod_name(pod: &EvictedPod) -> String {
    named(&pod.namespace, &pod.name)
}

/// The full name of a pod, by its parts: each search for victims makes one for each pod that runs.
pub(super) fn named(namespace: &str, name: &str) -> String {
    [namespace, "/", name].concat()
}

/// Whether a pod that is to go is still where it was.
pub(in crate::queue) fn is_there(cluster: &Cluster, pod: &EvictedPod) -> bool {
    cluster.pod(&pod.namespace, &pod.name).is_some_and(|view| {
        view.uid() == pod.uid && view.node().is_some_and(|node| node.name() == pod.node)
    })
}

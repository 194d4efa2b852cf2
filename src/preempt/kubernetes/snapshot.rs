//! Input of kube-scheduler's preemption: the cluster, its running groups, and nominations.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::{ObjectName, Time};
use crate::framework::Framework;
use crate::model::{DisruptionMode, Pod};
use crate::preempt::RunningWork;
use crate::state::{Cluster, NodeView, PodId, PodView, Row, StateError};

/// A moment of a cluster, with what the scheduler knows beside it: the input of everything in this
/// module.
///
/// ```
/// use phalanx::preempt::RunningWork;
/// use phalanx::preempt::kubernetes::{PreemptionSnapshot, preempt_pod, schedule_pod};
/// use phalanx::{Cluster, Framework, Node, Pod, Time};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("cpu", 4).capacity("pods", 10))?;
/// for (name, priority) in [("a", 1), ("b", 2)] {
///     cluster.add_pod(Pod::new().name(name).priority(priority).request("cpu", 2).on("n1"))?;
/// }
/// let (framework, running) = (Framework::kubernetes(), RunningWork::new());
/// let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, Time::from_secs(60));
///
/// let pod = Pod::new().name("p").priority(9).request("cpu", 2);
/// let attempt = schedule_pod(&snapshot, &pod)?;
/// assert!(attempt.feasible().is_empty());
/// let preemption = preempt_pod(&snapshot, &pod, &attempt)?;
/// let best = preemption.chosen().expect("`a` can go");
/// assert_eq!((best.node(), &*best.victims()[0].pod.name), ("n1", "a"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct PreemptionSnapshot<'a> {
    pub(super) cluster: Cluster,
    pub(super) framework: &'a Framework,
    pub(super) running: &'a RunningWork,
    pub(super) now: Time,
    pub(super) nominations: Vec<Nomination>,
    /// The places of pods in the lists of their nodes.
    order: BTreeMap<PodId, u64>,
    /// Pods that are being deleted because the scheduler preempted them.
    preempted: BTreeSet<PodId>,
}

/// A pod that waits for room on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nomination {
    /// The pod.
    pub pod: Pod,
    /// The name of the node (`status.nominatedNodeName`).
    pub node: String,
}

impl<'a> PreemptionSnapshot<'a> {
    /// A snapshot without nominations.
    ///
    /// Running groups are read by name, disruption mode and priority; groups inside others are not
    /// read.
    pub fn new(
        cluster: &Cluster,
        framework: &'a Framework,
        running: &'a RunningWork,
        now: Time,
    ) -> PreemptionSnapshot<'a> {
        PreemptionSnapshot {
            cluster: cluster.clone(),
            framework,
            running,
            now,
            nominations: Vec::new(),
            order: BTreeMap::new(),
            preempted: BTreeSet::new(),
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The nominations, in the order they were made.
    pub fn nominations(&self) -> &[Nomination] {
        &self.nominations
    }

    /// Nominates a pod to a node, in place of the node it was nominated to.
    ///
    /// # Errors
    /// The pod is unsound.
    pub fn nominate(&mut self, pod: &Pod, node: impl Into<String>) -> Result<(), StateError> {
        pod.check()?;
        self.clear_nomination(pod.namespace(), &pod.name);
        self.nominations.push(Nomination { pod: pod.clone(), node: node.into() });
        Ok(())
    }

    /// Takes the nomination of a pod away, if it has one.
    pub fn clear_nomination(&mut self, namespace: &str, name: &str) {
        self.nominations.retain(|nomination| !is(&nomination.pod, namespace, name));
    }

    /// Sets the place of a running pod in the list of its node. It decides between pods of one
    /// priority that started at the same time, and which pod of a group is met first. Pods without
    /// a place come last, by namespace and name.
    ///
    /// # Errors
    /// There is no such pod.
    pub fn set_place(&mut self, namespace: &str, name: &str, place: u64) -> Result<(), StateError> {
        let id = self.id_of(namespace, name)?;
        self.order.insert(id, place);
        Ok(())
    }

    /// Marks a running pod as being deleted because the scheduler preempted it: it has the condition
    /// `DisruptionTarget` with status `True` and reason `PreemptionByScheduler`.
    ///
    /// # Errors
    /// There is no such pod.
    pub fn preempt(&mut self, namespace: &str, name: &str) -> Result<(), StateError> {
        let id = self.id_of(namespace, name)?;
        let unknown = || StateError::UnknownPod(ObjectName::new(namespace, name));
        let mut pod = self.cluster.pod(namespace, name).ok_or_else(unknown)?.to_pod();
        let id = if pod.deleting {
            id
        } else {
            pod.deleting = true;
            self.cluster.remove_pod(namespace, name)?;
            let place = self.order.remove(&id);
            let id = self.cluster.add_pod(pod)?;
            self.order.extend(place.map(|place| (id, place)));
            id
        };
        self.preempted.insert(id);
        Ok(())
    }

    /// Binds a pod, which is nominated no longer.
    ///
    /// # Errors
    /// As [`Cluster::add_pod`].
    pub fn bind(&mut self, pod: &Pod, node: &str, start: Time) -> Result<(), StateError> {
        self.cluster.add_pod(pod.clone().on(node).since(start))?;
        self.clear_nomination(pod.namespace(), &pod.name);
        Ok(())
    }

    /// The snapshot without a running pod.
    ///
    /// # Errors
    /// There is no such pod.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Result<(), StateError> {
        let id = self.id_of(namespace, name)?;
        self.order.remove(&id);
        self.preempted.remove(&id);
        self.cluster.remove_pod(namespace, name)
    }

    /// The snapshot of a cluster that consists of the nodes whose label has a value, and of their
    /// pods.
    ///
    /// # Errors
    /// None that a sound cluster meets.
    pub fn within(&self, key: &str, value: &str) -> Result<PreemptionSnapshot<'a>, StateError> {
        let mut inner = self.clone();
        for node in self.cluster.nodes().filter(|node| !node.has_label(key, value)) {
            for pod in node.pods() {
                inner.remove(pod.namespace(), pod.name())?;
            }
            inner.cluster.remove_node(node.name())?;
        }
        Ok(inner)
    }

    fn id_of(&self, namespace: &str, name: &str) -> Result<PodId, StateError> {
        let unknown = || StateError::UnknownPod(ObjectName::new(namespace, name));
        Ok(self.cluster.pod(namespace, name).ok_or_else(unknown)?.id())
    }

    /// The rows of all nodes, in node order.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.cluster.nodes().map(NodeView::row).collect()
    }

    /// The pods of a node of the cluster, or of a working copy of it, in the order of its list.
    pub(super) fn pods_on<'c>(&self, node: NodeView<'c>) -> Vec<PodView<'c>> {
        let mut pods: Vec<PodView<'c>> = node.pods().collect();
        pods.sort_by_cached_key(|pod| {
            let place = self.order.get(&pod.id()).copied();
            (place.is_none(), place, pod.namespace(), pod.name())
        });
        pods
    }

    /// Whether a pod is being deleted because the scheduler preempted it.
    pub(super) fn is_preempted(&self, pod: PodView<'_>) -> bool {
        pod.deleting() && self.preempted.contains(&pod.id())
    }

    /// The full name and the priority of a pod's group whose pods go together; `None` of any other,
    /// or if the group is not known.
    pub(super) fn whole_group<'c>(&self, pod: PodView<'c>) -> Option<(&'c str, i32)> {
        let full = pod.group()?;
        let group = self.running.group(pod.namespace(), full.get(pod.namespace().len() + 1..)?)?;
        (group.disruption == DisruptionMode::All).then_some((full, group.priority))
    }

    /// When a pod started; one that has not is taken to start now.
    pub(super) fn start(&self, start: Option<Time>) -> Time {
        start.unwrap_or(self.now)
    }
}

/// Whether a pod has a namespace and a name.
pub(super) fn is(pod: &Pod, namespace: &str, name: &str) -> bool {
    pod.name == name && pod.namespace() == namespace
}

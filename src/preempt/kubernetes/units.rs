//! Units of eviction: a pod, or a group that goes whole.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::node_infos::PodInfo;
use super::snapshot::PreemptionSnapshot;
use crate::base::Time;

/// Pods that go together.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// In the order in which they are met: nodes in order, pods in the order of their node.
    pub(super) pods: Vec<PodInfo>,
    pub(super) priority: i32,
}

/// The order of units: the least is the most important.
type Importance = (Reverse<i32>, bool, Reverse<usize>, Time);

impl Unit {
    /// The importance of the unit: its priority, and members of a group before other pods. Then
    /// groups are compared by their number of pods. Then age decides, which is that of the pod met
    /// first. A lone member of a group is a group of one pod.
    ///
    /// Source: kube-scheduler, `framework/preemption/podgrouppreemption.go`
    /// (`moreImportantVictim`).
    pub(super) fn importance(&self, snapshot: &PreemptionSnapshot<'_>) -> Importance {
        let first = self.pods.first().map(|info| &info.pod);
        let lone = first.is_none_or(|pod| pod.group.is_none());
        let size = if lone { 0 } else { self.pods.len() };
        let start = snapshot.start(first.and_then(|pod| pod.start));
        (Reverse(self.priority), lone, Reverse(size), start)
    }
}

/// All units of a snapshot, in the order in which they are met.
///
/// Source: kube-scheduler, `framework/preemption/types.go` (`GetAllPossibleVictims`).
pub(super) fn units(snapshot: &PreemptionSnapshot<'_>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut whole: BTreeMap<String, usize> = BTreeMap::new();
    for node in snapshot.cluster.nodes() {
        for view in snapshot.pods_on(node) {
            let Some(info) = PodInfo::new(view) else { continue };
            match snapshot.whole_group(view) {
                None => units.push(Unit { priority: info.pod.priority, pods: [info].into() }),
                Some((name, priority)) => {
                    if let Some(&at) = whole.get(name) {
                        units[at].pods.push(info);
                    } else {
                        whole.insert(name.into(), units.len());
                        units.push(Unit { priority, pods: [info].into() });
                    }
                }
            }
        }
    }
    units
}

//! Pods in the cluster: removed, begun, terminating; and placeholders that are taken out.

use alloc::format;
use alloc::string::String;

use super::Scheduler;
use crate::base::Time;
use crate::model::Pod;
use crate::preempt::EvictedPod;
use crate::queue::holds::{HeldPlace, Holds, UnitMove};
use crate::queue::removals::pod_name;
use crate::state::{Event, NodeView, PodView};

impl Scheduler {
    /// Removes a pod from the cluster, if present.
    pub(super) fn remove_pod(&mut self, namespace: &str, name: &str) {
        let node = self.node_of(namespace, name);
        if self.world.remove_pod(namespace, name).is_err() {
            return;
        }
        // One that did not go in its time has gone: where it runs again it may be named again.
        let full = format!("{namespace}/{name}");
        self.removals.forget_refusal(&full);
        if let Some(node) = node {
            self.backfill.note_freed();
            self.pods_changed(&node);
        }
        if self.tenancy.is_some() {
            self.discharge(&full);
        }
    }

    /// Takes placeholders out of the cluster.
    pub(super) fn remove_placeholders(&mut self, placeholders: &[(Pod, String)]) {
        let free = Holds::take_out(&mut self.world, placeholders);
        self.room_released(&free);
    }

    /// Gives some held places back.
    pub(super) fn release_places(&mut self, is: impl Fn(&UnitMove, &HeldPlace, Time) -> bool) {
        let (free, pods) = self.holds.release_places(&mut self.world, is);
        self.room_released(&free);
        for pod in pods {
            self.discharge(&pod);
        }
    }

    /// Records that capacity was freed on nodes.
    pub(super) fn room_released(&mut self, nodes: &[String]) {
        if !nodes.is_empty() {
            self.backfill.note_freed();
            self.pods_changed_on(nodes);
        }
    }

    /// Records that a pod runs since now.
    pub(super) fn has_started(&mut self, namespace: &str, name: &str) {
        if self.world.settings().preemption.is_none() {
            return;
        }
        let Some(view) = self.world.cluster().pod(namespace, name) else { return };
        if view.start().is_none() {
            let mut pod = view.to_pod();
            pod.start = Some(self.world.now());
            let _ = self.world.apply(Event::PodChanged { pod, version: 0 });
        }
    }

    /// Records whether a pod counts as terminating: the others of a unit that has begun to go do.
    pub(super) fn set_deleting(&mut self, pod: &EvictedPod, deleting: bool) {
        if self.set_terminating(&pod.namespace, &pod.name, Some(deleting)) {
            self.removals.set_assumed(pod_name(pod), None);
        }
    }

    /// Sets whether a pod terminates, until an event says otherwise, or turns that round. Returns
    /// whether it changed.
    pub(super) fn set_terminating(
        &mut self,
        namespace: &str,
        name: &str,
        is: Option<bool>,
    ) -> bool {
        let view = self.world.cluster().pod(namespace, name);
        let Some(mut own) = view.map(PodView::to_pod).filter(|own| is != Some(own.deleting)) else {
            return false;
        };
        own.deleting = !own.deleting;
        let node = own.node.clone().unwrap_or_default();
        let _ = self.world.apply(Event::PodChanged { pod: own, version: 0 });
        self.pods_changed(&node);
        true
    }

    /// Completes a bound pod that an event reports: since when it runs, and whether it is to go.
    pub(super) fn complete(&self, pod: &mut Pod) {
        if self.world.settings().preemption.is_none() {
            return;
        }
        let known = self.world.cluster().pod(pod.namespace(), &pod.name);
        let known = known.filter(|known| {
            known.uid() == pod.uid && known.node().map(NodeView::name) == pod.node.as_deref()
        });
        pod.start = pod.start.or_else(|| known.and_then(PodView::start)).or(Some(self.world.now()));
        let name = format!("{}/{}", pod.namespace(), pod.name);
        let mut going = self.removals.of_pod(&name);
        pod.deleting |=
            known.is_some() && going.any(|(own, _)| own.has_begun() && own.retry_at().is_none());
    }
}

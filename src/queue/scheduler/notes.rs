//! Notes: events of groups, and changes of the cluster that others follow.

use alloc::borrow::ToOwned;
use alloc::string::String;

use super::Scheduler;
use crate::model::Pod;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::GroupChange;
use crate::state::Row;

impl Scheduler {
    pub(super) fn emit(&mut self, queued: GroupId, change: GroupChange) {
        let Some(queued) = self.groups.get(&queued) else { return };
        let most = self.world.settings().event_capacity;
        self.report.event(self.world.now(), queued.name().clone(), change, most);
    }

    pub(super) fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(super) fn node_of(&self, namespace: &str, name: &str) -> Option<String> {
        let pod = self.world.cluster().pod(namespace, name)?;
        Some(pod.node()?.name().to_owned())
    }

    /// Records a change of the pods on a node.
    pub(super) fn pods_changed(&mut self, node: &str) {
        let row = self.world.cluster().row_of(node);
        if let Some(row) = row {
            self.line.note_pods(row);
        }
        self.holds.set_due(row);
    }

    /// Records changes of the pods on nodes.
    pub(super) fn pods_changed_on(&mut self, nodes: &[String]) {
        for node in nodes {
            self.pods_changed(node);
        }
    }

    /// Records changes of the pods on nodes that holds have seen.
    pub(super) fn note_pods_on(&mut self, nodes: &[String]) {
        for row in nodes.iter().filter_map(|node| self.world.cluster().row_of(node)) {
            self.line.note_pods(row);
        }
    }

    pub(super) fn placeholders_changed(&mut self, placeholders: &[(Pod, String)]) {
        for (_, node) in placeholders {
            self.pods_changed(node);
        }
    }

    /// Records a change of a node itself, or its removal from a row.
    pub(super) fn node_changed(&mut self, name: &str, gone: Option<Row>) {
        match (gone, self.world.cluster().row_of(name)) {
            (Some(row), _) => self.line.note_removal(row),
            (None, Some(row)) => self.line.note_node(row),
            (None, None) => {}
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.cluster_changed();
    }

    pub(super) fn cluster_changed(&mut self) {
        self.backfill.note_freed();
        self.backfill.note_loss();
        self.line.note_all();
        self.holds.set_due(None);
    }
}

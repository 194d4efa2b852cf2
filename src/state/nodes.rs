//! Nodes in the columns: adding, replacing and removing one, and the changes of each.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::columns::{NO_POD_LIMIT, NodeSpec, NodeSpecs, PLAIN, Rare};
use super::devices::DeviceSpecs;
use super::error::StateError;
use super::ids::{LabelKey, LabelValue, NONE, ResourceId};
use super::journal::{Change, NodeChange};
use super::order::{fresh_ranks, rank_between};
use crate::base::Row;
use crate::base::hash::hash_of;
use crate::model::resources::PODS;
use crate::model::{ModelError, Node, NodeUsage, Problem};

impl Cluster {
    pub(crate) fn insert_node(&mut self, node: &Node, version: u64) -> Result<Row, StateError> {
        let waiting = self.parked.waiting(&node.name).to_vec();
        self.check_sums(node, &waiting)?;
        let devices = self.devices_of(node, waiting.iter().copied())?;
        if !waiting.is_empty() {
            Arc::make_mut(&mut self.parked).release(&node.name);
        }
        let row = self.free_rows.pop().map_or_else(
            || {
                self.columns.push_row();
                self.journal.suit(self.columns.len());
                Row::new(self.columns.len() - 1)
            },
            Row::from,
        );
        self.columns.set_version(row, version);
        let change = NodeChange::ADDED.and(self.change_of(row, node), true);
        self.set_spec(row, node, change, devices.as_ref().map(|(specs, _)| Arc::clone(specs)));
        self.columns
            .device_state
            .set(row.index(), devices.map(|(specs, _)| Arc::new(specs.idle())));
        self.node_count += 1;
        let specs = &self.columns.spec;
        let hash = hash_of(node.name.as_str());
        self.node_index.insert(hash, row.as_u32(), |_| false, |row| hash_in(specs, row));
        self.rank(row);
        for slot in waiting {
            self.link(slot, row);
            self.record_pod(row, slot, true);
        }
        self.count_specials(row, 1);
        Ok(row)
    }

    pub(crate) fn replace_node(
        &mut self,
        row: Row,
        node: &Node,
        version: u64,
    ) -> Result<(), StateError> {
        let change = self.change_of(row, node);
        if change == NodeChange::NOTHING {
            self.columns.set_version(row, version);
            return Ok(());
        }
        self.check_sums(node, &[])?;
        let slots: Vec<u32> =
            if has_devices(node) { self.slots_on(row).collect() } else { Vec::new() };
        let devices = self.devices_of(node, slots.into_iter())?;
        let moved = change.has(NodeChange::TIE_RANK);
        self.count_specials(row, -1);
        if moved {
            self.unrank(row);
        }
        let (specs, state) = devices.unzip();
        self.columns.set_version(row, version);
        self.set_spec(row, node, change, specs);
        self.columns.device_state.set(row.index(), state.map(Arc::new));
        if moved {
            self.rank(row);
        }
        self.count_specials(row, 1);
        Ok(())
    }

    /// Marks a node unschedulable, or takes the mark off. What it was comes back.
    pub(super) fn mark_unschedulable(&mut self, row: Row, unschedulable: bool) -> bool {
        let Some(spec) = self.columns.spec.get(row.index()).cloned().flatten() else {
            return false;
        };
        let was = spec.rare().unschedulable;
        if was == unschedulable {
            return was;
        }
        let rare = Rare { unschedulable, ..spec.rare().clone() };
        self.count_specials(row, -1);
        let spec = NodeSpec {
            name: spec.name.clone(),
            labels: spec.labels.clone(),
            packed: rare.packed(),
        };
        self.columns.set_spec(row, Some(Arc::new(spec)));
        self.count_specials(row, 1);
        self.record_node(row, NodeChange::UNSCHEDULABLE);
        was
    }

    /// Whether pods kept aside can be counted on the node they wait for.
    fn check_sums(&self, node: &Node, waiting: &[u32]) -> Result<(), StateError> {
        if node.allocatable.lists(PODS) && node.allocatable.of(PODS) < 0 {
            let problem = ModelError::new(&*node.name, "allocatable.pods", Problem::Negative);
            return Err(problem.into());
        }
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        let pods = waiting.iter().filter_map(|&slot| self.pod_view(slot));
        for pod in pods {
            let shape = pod.shape;
            let scored = ["scored cpu", "scored memory"].into_iter().zip(shape.existing_requests);
            for (name, amount) in shape.requests.iter().chain(scored) {
                let sum = sums.entry(name).or_default();
                *sum = sum.checked_add(amount).ok_or_else(|| StateError::Overflow {
                    node: node.name.clone(),
                    resource: name.into(),
                })?;
            }
        }
        Ok(())
    }

    pub(crate) fn remove_row(&mut self, row: Row) {
        let Some(spec) = self.columns.spec.get(row.index()).cloned().flatten() else { return };
        let mut orphans = Vec::new();
        while self.columns.first_pod(row) != NONE {
            let slot = self.columns.first_pod(row);
            self.unlink(slot);
            self.record_pod(row, slot, false);
            orphans.push(slot);
        }
        if !orphans.is_empty() {
            Arc::make_mut(&mut self.parked).park(&Arc::from(&*spec.name), orphans);
        }
        // The node's content is its difference from an empty node.
        let change = NodeChange::REMOVED.and(self.change_of(row, &Node::default()), true);
        self.count_specials(row, -1);
        self.unrank(row);
        self.level_parts.leave(row, &spec.labels, &self.label_values);
        let specs = &self.columns.spec;
        self.node_index.remove(hash_of(&*spec.name), row.as_u32(), |row| hash_in(specs, row));
        let columns = &mut self.columns;
        columns.set_spec(row, None);
        columns.device_state.set(row.index(), None);
        columns.measured.set(row.index(), None);
        columns.set_marks(row, 0, 0);
        columns.set_version(row, 0);
        columns.use_anew(row);
        columns.set_allocatable(row, &[]);
        *columns.pod_limit.get_mut(row.index()) = 0;
        self.free_rows.push(row.as_u32());
        self.node_count -= 1;
        self.record_node(row, change);
    }

    /// Sets what was measured on a node.
    pub(super) fn set_measured(&mut self, row: Row, measured: Option<(NodeUsage, u64)>) {
        self.columns.measured.set(row.index(), measured.map(Arc::new));
        self.record_node(row, NodeChange::USAGE);
    }

    fn record_node(&mut self, row: Row, change: NodeChange) {
        let change = Change::Node { row: row.as_u32(), change };
        *self.columns.head(row).generation = self.journal.record(change);
    }

    fn set_spec(
        &mut self,
        row: Row,
        node: &Node,
        change: NodeChange,
        device_specs: Option<Arc<DeviceSpecs>>,
    ) {
        let mut labels: Vec<_> = node
            .labels
            .iter()
            .map(|(key, value)| {
                let key = LabelKey(self.label_keys.intern(key));
                (key, LabelValue(self.label_values.intern(value)))
            })
            .collect();
        labels.sort_unstable();
        let amounts = node.allocatable.iter().filter(|(name, _)| *name != PODS);
        let amounts =
            amounts.map(|(name, amount)| (ResourceId(self.resources.intern(name)), amount));
        let (listed_zero, amounts): (Vec<_>, Vec<_>) =
            amounts.partition(|(_, amount)| *amount == 0);
        self.columns.set_allocatable(row, &amounts);
        *self.columns.pod_limit.get_mut(row.index()) = pod_limit(node);
        let rare = Rare {
            taints: node.taints.clone(),
            images: node.images.clone(),
            devices: node.devices.clone(),
            partitions: node.partitions.clone(),
            zones: node.zones.clone(),
            device_specs,
            capacity: (node.capacity != node.allocatable).then(|| node.capacity.clone()),
            listed_zero: listed_zero.into_iter().map(|(resource, _)| resource).collect(),
            unschedulable: node.unschedulable,
        };
        if let Some(old) = &self.columns.spec[row] {
            self.level_parts.leave(row, &old.labels, &self.label_values);
        }
        self.level_parts.enter(row, &labels, &self.label_values);
        let spec = NodeSpec {
            name: node.name.as_str().into(),
            labels: labels.into(),
            packed: rare.packed(),
        };
        self.columns.set_spec(row, Some(Arc::new(spec)));
        self.columns.set_marks(row, node.key, node.tie_rank);
        self.record_node(row, change);
    }

    fn count_specials(&mut self, row: Row, sign: i32) {
        let Some(spec) = self.columns.spec[row].clone() else { return };
        let spec = spec.rare();
        self.specials.count(row, spec, sign);
        if spec.images.is_empty() {
            return;
        }
        let mut names: Vec<&String> = spec.images.iter().flat_map(|image| &image.names).collect();
        names.sort_unstable();
        names.dedup();
        let counts = Arc::make_mut(&mut self.image_nodes);
        for name in names {
            let count = counts.entry(name.as_str().into()).or_default();
            *count = count.saturating_add_signed(sign);
            if *count == 0 {
                counts.remove(name.as_str());
            }
        }
    }

    /// The fields in which a node differs from its row; for a row that is not in use, the fields
    /// that the node sets. Compares every field that a plugin can read.
    fn change_of(&self, row: Row, node: &Node) -> NodeChange {
        let known = self.spec(row);
        let rare = known.map_or(&PLAIN, NodeSpec::rare);
        let (label, labels) = self.labels_changed(known, node);
        NodeChange::NOTHING
            .and(NodeChange::labels(label), labels)
            .and(NodeChange::TAINTS, rare.taints != node.taints)
            .and(NodeChange::UNSCHEDULABLE, rare.unschedulable != node.unschedulable)
            .and(NodeChange::RESOURCES, !self.has_same_amounts(row, rare, node))
            .and(NodeChange::DEVICES, differs(rare, node))
            .and(NodeChange::IMAGES, rare.images != node.images)
            .and(NodeChange::TIE_RANK, self.columns.tie_rank(row) != node.tie_rank)
            .and(NodeChange::KEY, self.columns.key(row) != node.key)
    }

    /// Whether labels differ, and the key if it is one alone that has a number.
    fn labels_changed(&self, known: Option<&NodeSpec>, node: &Node) -> (Option<LabelKey>, bool) {
        let old = known.map_or(&[][..], |spec| &spec.labels);
        let gone = old.iter().map(|(key, _)| *key);
        let gone =
            gone.filter(|key| !node.labels.contains_key(self.label_key_text(*key))).map(Some);
        let others = node.labels.iter().filter_map(|(text, value)| {
            let key = self.label_key(text);
            let old = key.and_then(|key| known?.label(key));
            (old.map(|old| self.label_text(old)) != Some(value)).then_some(key)
        });
        let mut changed = gone.chain(others);
        let first = changed.next();
        let only = if changed.next().is_none() { first.flatten() } else { None };
        (only, first.is_some())
    }

    fn has_same_amounts(&self, row: Row, rare: &Rare, node: &Node) -> bool {
        let (mut zeros, mut others) = (0, 0);
        let same =
            node.allocatable.iter().filter(|(name, _)| *name != PODS).all(|(name, amount)| {
                *(if amount == 0 { &mut zeros } else { &mut others }) += 1;
                self.resource(name).is_some_and(|resource| {
                    self.columns.allocatable(row, resource) == amount
                        && (amount != 0 || rare.listed_zero.contains(&resource))
                })
            });
        let limit = self.spec(row).map_or(NO_POD_LIMIT, |_| self.columns.pod_limit[row]);
        let own = self.columns.offers(row).count();
        let capacity = (node.capacity != node.allocatable).then_some(&node.capacity);
        same && (zeros, others) == (rare.listed_zero.len(), own)
            && limit == pod_limit(node)
            && rare.capacity.as_ref() == capacity
    }
}

/// The order among equals.
impl Cluster {
    /// Gives a row its place in the order among equals.
    pub(super) fn rank(&mut self, row: Row) {
        let columns = &self.columns;
        let place = |row: Row| {
            columns.spec[row].as_deref().map(|spec| (columns.tie_rank(row), &*spec.name))
        };
        let own = place(row);
        let found = self.order.insert(row.as_u32(), |other| place(Row::from(other)).cmp(&own));
        self.order.in_row_order &= found.after.is_none() && row.index() + 1 == columns.len();
        let of = |row: u32| columns.rank[Row::from(row)];
        if let Some(rank) = rank_between(found.before.map(of), found.after.map(of)) {
            *self.columns.rank.get_mut(row.index()) = rank;
            return;
        }
        let rows: Vec<u32> = self.order.iter().collect();
        self.order.in_row_order = rows.is_sorted();
        for (rank, row) in fresh_ranks(rows.len()).zip(rows) {
            *self.columns.rank.get_mut(row as usize) = rank;
        }
        self.rank_epoch += 1;
    }

    pub(super) fn unrank(&mut self, row: Row) {
        let columns = &self.columns;
        let own = columns.rank[row];
        self.order.remove(|other| columns.rank[Row::from(other)].cmp(&own));
    }
}

/// Whether pods can hold parts of the node.
fn has_devices(node: &Node) -> bool {
    !(node.devices.is_empty() && node.zones.list.is_empty())
}

/// Whether a node has other devices, sets of them or zones.
fn differs(rare: &Rare, node: &Node) -> bool {
    let own = (&rare.devices, &rare.partitions, &rare.zones);
    own != (&node.devices, &node.partitions, &node.zones)
}

/// The limit on a node's pods.
fn pod_limit(node: &Node) -> i64 {
    if node.allocatable.lists(PODS) { node.allocatable.of(PODS) } else { NO_POD_LIMIT }
}

fn hash_in(specs: &NodeSpecs, row: u32) -> u64 {
    hash_of(specs[Row::from(row)].as_ref().map_or("", |spec| &*spec.name))
}

//! Draining: the amounts that have yet to be freed before the pending members of a group fit, by
//! node and by domain.
//!
//! A node is a place for a member if the member would fit were all pods of others gone. What is
//! missing there for the member is the largest share of any of its requests that is not free, in
//! thousandths. Members go one by one to the node on which least is missing, and what is missing for
//! all of them says how near a domain is.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::framework::Framework;
use crate::model::resources::PODS;
use crate::model::{DeviceAsk, DeviceRequest, PodShape};
use crate::queue::line::capacity::CapacityBound;
use crate::state::{Cluster, DeviceNeed, NodeView, ResourceId, Row};

/// The thousandths of a whole request.
const WHOLE: i128 = 1_000;

/// The request of a shape in one dimension: a resource, devices, or places for pods.
#[derive(Clone, Copy)]
struct Need {
    /// Index of the dimension.
    of: usize,
    amount: i64,
}

/// A dimension in which nodes have capacity.
enum Dimension {
    /// `None`: no node has the resource.
    Resource(Option<ResourceId>),
    Pods,
    /// How often one device's part of a request fits.
    Devices(Box<(DeviceRequest, DeviceNeed)>),
}

/// Members of one shape.
struct Members<'a> {
    shape: Arc<PodShape>,
    count: u64,
    needs: Vec<Need>,
    bound: CapacityBound<'a>,
}

/// Members to be placed, and what nodes have for them.
pub(in crate::queue) struct Drain<'a> {
    cluster: &'a Cluster,
    dimensions: Vec<Dimension>,
    members: Vec<Members<'a>>,
    /// Shapes of the group's own pods by their nodes: they stay.
    own: BTreeMap<Row, Vec<Arc<PodShape>>>,
}

/// Capacity of a node by dimension: free now, and if all pods of others were gone.
struct Left {
    free: Vec<i64>,
    empty: Vec<i64>,
}

/// Places for members: the shape and the node of each.
pub(in crate::queue) struct Places {
    /// Thousandths of members that are missing, summed.
    pub(in crate::queue) missing: u64,
    pub(in crate::queue) of: Vec<(Arc<PodShape>, Row)>,
}

impl<'a> Drain<'a> {
    /// The members to be placed, by shape, beside pods of the group's own.
    pub(in crate::queue) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        members: &'a [(Arc<PodShape>, u64)],
        own: BTreeMap<Row, Vec<Arc<PodShape>>>,
    ) -> Drain<'a> {
        let mut drain = Drain { cluster, dimensions: Vec::new(), members: Vec::new(), own };
        let mut resources: BTreeMap<&str, usize> = BTreeMap::new();
        for (shape, count) in members {
            let mut needs = alloc::vec![Need { of: drain.dimension(Dimension::Pods), amount: 1 }];
            for (name, amount) in shape.requests.iter().filter(|(name, _)| *name != PODS) {
                let of = *resources.entry(name).or_insert_with(|| {
                    drain.dimension(Dimension::Resource(cluster.resource(name)))
                });
                needs.push(Need { of, amount });
            }
            let devices = DeviceNeed::of(cluster, shape);
            for (request, need) in shape.devices.iter().zip(devices) {
                let of = drain.dimension(Dimension::Devices(Box::new((request.clone(), need))));
                let amount = match request.ask {
                    DeviceAsk::Whole { count } | DeviceAsk::Shares { count, .. } => count,
                };
                needs.push(Need { of, amount: i64::from(amount) });
            }
            needs.retain(|need| need.amount > 0);
            let bound = CapacityBound::new(cluster, framework, shape);
            drain.members.push(Members { shape: Arc::clone(shape), count: *count, needs, bound });
        }
        drain
    }

    /// The index of a dimension. Equal requests of devices share one.
    fn dimension(&mut self, dimension: Dimension) -> usize {
        let known = self.dimensions.iter().position(|known| match (known, &dimension) {
            (Dimension::Pods, Dimension::Pods) => true,
            (Dimension::Devices(a), Dimension::Devices(b)) => a.0 == b.0,
            _ => false,
        });
        known.unwrap_or_else(|| {
            self.dimensions.push(dimension);
            self.dimensions.len() - 1
        })
    }

    /// The places on some nodes of which least is missing; `None` if the members would not fit if
    /// the nodes were empty. Among equals, nodes that hold something already come first, then those
    /// that come first in `rows`. O((nodes + members) · log nodes).
    pub(in crate::queue) fn places(&self, rows: &[Row], held: &BTreeSet<Row>) -> Option<Places> {
        let mut left: Vec<Left> = rows.iter().map(|row| self.left(*row)).collect();
        let mut places = Places { missing: 0, of: Vec::new() };
        for members in &self.members {
            let missing = |left: &Left| missing(left, &members.needs);
            let key = |at: usize, missing: u64| Reverse((missing, !held.contains(&rows[at]), at));
            let mut nearest: BinaryHeap<_> = (0..rows.len())
                .filter(|at| members.bound.may_ever(rows[*at]))
                .filter_map(|at| Some(key(at, missing(&left[at])?)))
                .collect();
            for _ in 0..members.count {
                let Reverse((short, _, at)) = nearest.pop()?;
                places.missing = places.missing.saturating_add(short);
                places.of.push((Arc::clone(&members.shape), rows[at]));
                for need in &members.needs {
                    let own = &mut left[at];
                    own.free[need.of] = own.free[need.of].saturating_sub(need.amount).max(0);
                    own.empty[need.of] = own.empty[need.of].saturating_sub(need.amount);
                }
                nearest.extend(missing(&left[at]).map(|missing| key(at, missing)));
            }
        }
        Some(places)
    }

    /// Capacity of a node by dimension.
    fn left(&self, row: Row) -> Left {
        let mut left = Left { free: Vec::new(), empty: Vec::new() };
        let node = self.cluster.view(row);
        let own = self.own.get(&row).map_or(&[][..], Vec::as_slice);
        for dimension in &self.dimensions {
            let (free, empty) = match (node, dimension) {
                (None, _) | (_, Dimension::Resource(None)) => (0, 0),
                (Some(node), Dimension::Resource(Some(resource))) => {
                    let name = self.cluster.resource_name(*resource);
                    let kept = own
                        .iter()
                        .fold(0, |sum: i64, shape| sum.saturating_add(shape.requests.of(name)));
                    let empty = node.allocatable(*resource).saturating_sub(kept);
                    (node.free(*resource).max(0), empty)
                }
                (Some(node), Dimension::Pods) => {
                    let limit = node.pod_limit();
                    let kept = i64::try_from(own.len()).unwrap_or(i64::MAX);
                    (node.free_pods().max(0), limit.saturating_sub(kept))
                }
                (Some(node), Dimension::Devices(asked)) => devices(node, &asked.0, &asked.1),
            };
            left.free.push(free);
            left.empty.push(empty);
        }
        left
    }
}

/// The missing share of a node for one more pod, in thousandths of its request; `None` if it would
/// not fit if all pods of others were gone.
fn missing(left: &Left, needs: &[Need]) -> Option<u64> {
    let mut most = 0;
    for need in needs {
        if left.empty[need.of] < need.amount {
            return None;
        }
        let short = i128::from(need.amount) - i128::from(left.free[need.of]);
        most = most
            .max((short.max(0) * WHOLE + i128::from(need.amount) - 1) / i128::from(need.amount));
    }
    u64::try_from(most).ok()
}

/// How often one device's part of a request fits the devices of a node: now, and if all were idle.
fn devices(node: NodeView<'_>, request: &DeviceRequest, need: &DeviceNeed) -> (i64, i64) {
    let Some(devices) = node.device_room() else { return (0, 0) };
    let (mut free, mut empty) = (0_i64, 0_i64);
    for device in (0..devices.len()).filter(|device| devices.matches(need, *device)) {
        let fits = i64::from(devices.admits(need, device));
        let (now, idle) = match &request.ask {
            DeviceAsk::Whole { .. } => (fits, 1),
            DeviceAsk::Shares { .. } => {
                let mut times = (i64::MAX, i64::MAX);
                for &(unit, amount) in need.each().iter().filter(|(_, amount)| *amount > 0) {
                    let unit = unit.and_then(|unit| devices.unit(unit));
                    let of = |amounts: &dyn Fn(usize) -> i64| unit.map_or(0, amounts) / amount;
                    times.0 = times.0.min(of(&|unit| devices.free(device, unit)));
                    times.1 = times.1.min(of(&|unit| devices.capacity(device, unit)));
                }
                if times.1 == i64::MAX { (fits, 1) } else { (times.0 * fits, times.1) }
            }
        };
        free = free.saturating_add(now.max(0));
        empty = empty.saturating_add(idle);
    }
    (free, empty)
}

/// The part of a shape that is free on a node now; `None` if nothing of it is. Devices are whole, or
/// shares of whole ones.
pub(in crate::queue) fn free_part(
    cluster: &Cluster,
    node: NodeView<'_>,
    shape: &PodShape,
) -> Option<(PodShape, Vec<Vec<u32>>)> {
    if node.free_pods() <= 0 {
        return None;
    }
    let mut part = PodShape { existing_requests: [0, 0], ..PodShape::default() };
    part.incoming_requests = crate::model::Amounts::new();
    for (name, amount) in shape.requests.iter().filter(|(name, _)| *name != PODS) {
        let free = cluster.resource(name).map_or(0, |resource| node.free(resource));
        let amount = amount.min(free);
        if amount > 0 {
            part.set_request(name, amount);
        }
    }
    let mut indexes: Vec<Vec<u32>> = Vec::new();
    if let Some(devices) = node.device_room() {
        let mut taken = BTreeSet::new();
        for (request, need) in shape.devices.iter().zip(DeviceNeed::of(cluster, shape)) {
            let mut held = Vec::new();
            for device in 0..devices.len() {
                if held.len() < need.count()
                    && devices.admits(&need, device)
                    && taken.insert(device)
                {
                    held.extend(u32::try_from(device));
                }
            }
            let Some(count) = u32::try_from(held.len()).ok().filter(|count| *count > 0) else {
                continue;
            };
            let mut request = request.clone();
            match &mut request.ask {
                DeviceAsk::Whole { count: own } | DeviceAsk::Shares { count: own, .. } => {
                    *own = count;
                }
            }
            part.devices.push(request);
            indexes.push(held);
        }
    }
    let is_some = !part.devices.is_empty() || part.requests.iter().next().is_some();
    is_some.then_some((part, indexes))
}

/// The missing shares of a group by domain, kept for as long as the members are the same and no
/// node of the domain changes. They follow from the cluster, and are not saved.
#[derive(Debug, Default)]
pub(in crate::queue) struct Distances {
    key: String,
    members: Vec<(Arc<PodShape>, u64)>,
    domains: BTreeMap<String, Distance>,
}

/// The missing share of one domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Distance {
    /// The last change of a node of the domain, and the number of its nodes.
    of: (u64, usize),
    missing: u64,
}

impl Distances {
    /// The missing share of each domain of a key, in thousandths of members; `u64::MAX` where
    /// counting says that the members would not fit if the domain were empty. If members run, only
    /// their domain counts. Nodes are looked at, and counted, in domains of which a node has
    /// changed.
    pub(in crate::queue) fn update(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        key: &str,
        members: Vec<(Arc<PodShape>, u64)>,
        own: BTreeMap<Row, Vec<Arc<PodShape>>>,
        looked_at: &mut u64,
    ) -> BTreeMap<String, u64> {
        if self.key != key || self.members != members {
            *self = Distances { key: key.into(), members, domains: BTreeMap::new() };
        }
        let mut domains = by_domain(cluster, key);
        if let Some(fixed) = own.keys().find_map(|row| cluster.view(*row)?.label(key)) {
            domains.retain(|value, _| value == fixed);
        }
        let drain = Drain::new(cluster, framework, &self.members, own);
        let mut known = BTreeMap::new();
        for (value, rows) in domains {
            let changes = rows.iter().filter_map(|row| Some(cluster.view(*row)?.generation()));
            let of = (changes.max().unwrap_or(0), rows.len());
            let kept = self.domains.get(&value).copied().filter(|kept| kept.of == of);
            let distance = kept.unwrap_or_else(|| {
                *looked_at += rows.len() as u64;
                let places = drain.places(&rows, &BTreeSet::new());
                Distance { of, missing: places.map_or(u64::MAX, |places| places.missing) }
            });
            known.insert(value, distance);
        }
        self.domains = known;
        self.domains.iter().map(|(value, own)| (value.clone(), own.missing)).collect()
    }
}

/// Nodes by their value of a label, in the cluster's order of nodes; those without it are left out.
fn by_domain(cluster: &Cluster, key: &str) -> BTreeMap<String, Vec<Row>> {
    let mut domains: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for node in cluster.nodes() {
        let Some(value) = node.label(key) else { continue };
        if let Some(rows) = domains.get_mut(value) {
            rows.push(node.row());
        } else {
            domains.insert(value.into(), alloc::vec![node.row()]);
        }
    }
    domains
}

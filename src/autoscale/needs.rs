//! The needs of groups in numbers, and the part that a block of each variant covers.
//!
//! A set that does not suffice by these numbers does not suffice. The planner judges all others.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::error::AutoscaleError;
use super::stage::Stage;
use super::template::Variant;
use crate::base::Time;
use crate::base::hash::{FixedMap, hash_of};
use crate::framework::Framework;
use crate::model::{DeviceAsk, Pod, PodGroup, PodShape};
use crate::place::Planner;
use crate::place::numbers::Leaf;
use crate::place::topology::requirement::Requirement;
use crate::state::{Cluster, DeviceTerm, NodeView, ResourceId, Row, Txn};

/// A dimension in which pods are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dimension {
    /// Pods.
    Pods,
    /// A resource.
    Resource(String, ResourceId),
    /// Devices of a kind, in millionths of one; by a unit that is shared, with the largest amount
    /// that one device has.
    Devices { kind: String, unit: Option<String>, most: i64 },
}

/// A whole device.
const WHOLE: i64 = 1_000_000;

/// A shape of members.
#[derive(Debug)]
pub(super) struct Shape {
    own: Arc<PodShape>,
    /// Amounts of one pod, by dimension.
    pub(super) ask: Vec<i64>,
    /// How many fit a node of each variant, with nothing else on it.
    pub(super) each: Vec<i64>,
    /// How many fit each row, with what runs there.
    pub(super) fits: Vec<i64>,
}

/// A group or a slice that must be within one domain, for certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Confined {
    /// The label of the domain.
    pub(super) key: String,
    /// The least that it takes, by dimension.
    pub(super) least: Vec<i64>,
    /// The shapes of its pods, ascending.
    pub(super) shapes: Vec<usize>,
}

/// A group in numbers.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) leaves: Vec<Leaf>,
    pub(super) confined: Vec<Confined>,
    /// Least amounts, by dimension.
    pub(super) least: Vec<i64>,
}

/// The needs of some groups and the sizes of some templates.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) dimensions: Vec<Dimension>,
    pub(super) shapes: Vec<Shape>,
    /// Amounts of an empty node of each variant, by dimension.
    pub(super) nodes: Vec<Vec<i64>>,
    /// By group.
    pub(super) profiles: Vec<Profile>,
}

impl Dimension {
    /// Amount that a pod takes of it.
    fn of(&self, shape: &PodShape) -> i64 {
        match self {
            Dimension::Pods => 1,
            Dimension::Resource(name, _) => shape.requests.of(name).max(0),
            Dimension::Devices { kind, unit, most } => {
                let own = shape.devices.iter().filter(|request| request.kind == *kind);
                own.fold(0, |sum: i64, request| {
                    let each = match (&request.ask, unit) {
                        (DeviceAsk::Whole { .. }, _) => WHOLE,
                        (DeviceAsk::Shares { each, .. }, Some(unit)) => {
                            let part = i128::from(each.of(unit).max(0)) * i128::from(WHOLE);
                            (part / i128::from((*most).max(1))).min(i128::from(WHOLE)) as i64
                        }
                        (DeviceAsk::Shares { .. }, None) => 0,
                    };
                    sum.saturating_add(each.saturating_mul(i64::from(request.count())))
                })
            }
        }
    }

    /// Amount of it that is free on a node.
    pub(super) fn free(&self, cluster: &Cluster, node: NodeView<'_>) -> i64 {
        match self {
            Dimension::Pods => node.free_pods().max(0),
            Dimension::Resource(_, id) => node.free(*id).max(0),
            Dimension::Devices { kind, unit, .. } => {
                let Some(room) = node.device_room() else { return 0 };
                // Units are numbered among the values of labels.
                let unit = unit.as_ref().and_then(|unit| cluster.find_label_value(unit));
                let unit = unit.and_then(|unit| room.unit(DeviceTerm(unit.0)));
                let of_kind = |device: &usize| node.devices()[*device].kind == *kind;
                let free = |device: usize| {
                    if room.is_idle(device) {
                        return WHOLE;
                    }
                    let Some(unit) = unit else { return 0 };
                    let all = i128::from(room.capacity(device, unit).max(1));
                    let free = i128::from(room.free(device, unit).max(0)) * i128::from(WHOLE);
                    ((free + all - 1) / all).min(i128::from(WHOLE)) as i64
                };
                (0..room.len().min(node.devices().len())).filter(of_kind).map(free).sum()
            }
        }
    }
}

impl Needs {
    /// The needs of some groups, on a transaction in which nothing has changed, and which is left so.
    ///
    /// O(shapes · nodes) the first time, and for what has changed since after that.
    pub(super) fn new(
        (txn, planner): (&mut Txn, &mut Planner),
        framework: &Framework,
        groups: &[(&PodGroup, Time)],
        variants: &[Variant],
    ) -> Result<Needs, AutoscaleError> {
        let before = txn.changes();
        let mut samples = Vec::with_capacity(variants.len());
        for variant in variants {
            let block = (0..=u32::MAX).find_map(|number| variant.block(txn, number));
            if let Some(node) = block.and_then(|nodes| nodes.into_iter().next()) {
                samples.push(Row::from(txn.add_node(node)?.row));
            }
        }
        let mut needs = Needs {
            dimensions: vec![Dimension::Pods],
            shapes: Vec::new(),
            nodes: Vec::new(),
            profiles: Vec::new(),
        };
        let cluster: &Cluster = txn;
        let mut known: FixedMap<u64, Vec<usize>> = FixedMap::default();
        let mut numbers: FixedMap<usize, usize> = FixedMap::default();
        let mut asked: Vec<(&Arc<PodShape>, &PodGroup, Time)> = Vec::new();
        for &(group, now) in groups {
            group.visit(&mut |leaf| {
                for pod in &leaf.pods {
                    let place = Arc::as_ptr(pod.shape()) as usize;
                    if numbers.contains_key(&place) {
                        continue;
                    }
                    let same = known.entry(hash_of(&**pod.shape())).or_default();
                    let number = same.iter().copied().find(|&at| asked[at].0 == pod.shape());
                    let number = number.unwrap_or_else(|| {
                        asked.push((pod.shape(), leaf, now));
                        same.push(asked.len() - 1);
                        asked.len() - 1
                    });
                    numbers.insert(place, number);
                }
            });
        }
        for (shape, ..) in &asked {
            needs.add_dimensions(cluster, shape);
        }
        needs.measure_devices(cluster, &asked);
        for (shape, leaf, now) in asked {
            let judged = framework.judges_room(shape);
            let ask = |dimension: &Dimension| match dimension {
                Dimension::Devices { .. } => dimension.of(shape),
                _ => dimension.of(shape) * i64::from(judged),
            };
            let fits = planner.capacities(cluster, framework, shape, (leaf, now));
            needs.shapes.push(Shape {
                own: Arc::clone(shape),
                ask: needs.dimensions.iter().map(ask).collect(),
                each: samples.iter().map(|row| fits[row.index()]).collect(),
                fits: fits.to_vec(),
            });
        }
        for row in &samples {
            for shape in &mut needs.shapes {
                shape.fits[row.index()] = 0;
            }
            let free = |dimension: &Dimension| {
                cluster.view(*row).map_or(0, |node| dimension.free(cluster, node))
            };
            needs.nodes.push(needs.dimensions.iter().map(free).collect());
        }
        for &(group, _) in groups {
            let ask = Requirement::new(cluster, group);
            let number = |pod: &Pod| numbers.get(&(Arc::as_ptr(pod.shape()) as usize)).copied();
            let (leaves, mut confined) = (ask.leaves(|_, pod| number(pod)), Vec::new());
            needs.confine(&ask, &number, &mut confined, &mut Vec::new());
            let least = needs.least(&ask, &number);
            needs.profiles.push(Profile { leaves, confined, least });
        }
        txn.rollback_to(before)?;
        Ok(needs)
    }

    /// Reads anew how many pods of a group's shapes fit each row of the stage.
    pub(super) fn refresh_group(&mut self, stage: &mut Stage<'_, '_>, group: usize) {
        let ask = &stage.asks[group];
        let asker = (ask.group(), ask.request.now);
        for (number, _) in self.profiles[group].leaves.iter().flat_map(|leaf| &leaf.counts) {
            let shape = &mut self.shapes[*number];
            let fits = stage.planner.capacities(stage.txn, stage.framework, &shape.own, asker);
            shape.fits.clear();
            shape.fits.extend_from_slice(fits);
        }
    }

    fn add_dimensions(&mut self, cluster: &Cluster, shape: &PodShape) {
        let mut add = |dimension: Dimension| {
            if !self.dimensions.contains(&dimension) {
                self.dimensions.push(dimension);
            }
        };
        for (name, _) in shape.requests.iter().filter(|(_, amount)| *amount > 0) {
            if let Some(id) = cluster.resource(name) {
                add(Dimension::Resource(name.into(), id));
            }
        }
        for request in &shape.devices {
            let kind = request.kind.clone();
            match &request.ask {
                DeviceAsk::Whole { .. } => add(Dimension::Devices { kind, unit: None, most: 0 }),
                DeviceAsk::Shares { each, .. } => {
                    for (unit, _) in each.iter().filter(|(_, amount)| *amount > 0) {
                        let unit = Some(unit.into());
                        add(Dimension::Devices { kind: kind.clone(), unit, most: 0 });
                    }
                }
            }
        }
    }

    /// Finds the most that a device has of each unit.
    fn measure_devices(&mut self, cluster: &Cluster, asked: &[(&Arc<PodShape>, &PodGroup, Time)]) {
        if asked.iter().all(|(shape, ..)| shape.devices.is_empty()) {
            return;
        }
        for node in cluster.nodes() {
            for device in node.devices() {
                for dimension in &mut self.dimensions {
                    if let Dimension::Devices { kind, unit: Some(unit), most } = dimension
                        && device.kind == *kind
                    {
                        *most = (*most).max(device.capacity.of(unit));
                    }
                }
            }
        }
    }

    /// Adds the groups and slices of a requirement that must be within one domain. `within` are the
    /// labels that it is confined by already.
    fn confine(
        &self,
        ask: &Requirement<'_>,
        number: &dyn Fn(&Pod) -> Option<usize>,
        confined: &mut Vec<Confined>,
        within: &mut Vec<String>,
    ) {
        let key = ask.loosest().filter(|key| !within.iter().any(|known| known == key));
        if let Some(key) = key {
            let mut shapes = Vec::new();
            shapes_of(ask, number, &mut shapes);
            shapes.sort_unstable();
            shapes.dedup();
            confined.push(Confined { key: key.into(), least: self.least(ask, number), shapes });
            within.push(key.into());
        }
        for inside in ask.needed() {
            self.confine(inside, number, confined, within);
        }
        if key.is_some() {
            within.pop();
        }
    }

    fn least(&self, ask: &Requirement<'_>, number: &dyn Fn(&Pod) -> Option<usize>) -> Vec<i64> {
        let of = |dimension: usize| {
            ask.least(&|pod| number(pod).map_or(0, |shape| self.shapes[shape].ask[dimension]))
        };
        (0..self.dimensions.len()).map(of).collect()
    }
}

fn shapes_of(
    ask: &Requirement<'_>,
    number: &dyn Fn(&Pod) -> Option<usize>,
    shapes: &mut Vec<usize>,
) {
    shapes.extend(ask.pods.iter().filter_map(|pod| number(pod)));
    for inside in &ask.inside {
        shapes_of(inside, number, shapes);
    }
}

impl Profile {
    /// How many pods of some shapes must be placed for certain, whatever others stay out.
    pub(super) fn count(&self, is_one: &dyn Fn(usize) -> bool) -> i64 {
        self.leaves.iter().map(|leaf| leaf.certain(is_one)).sum()
    }

    /// The least that its pods of some shapes take of a dimension.
    pub(super) fn amount(
        &self,
        shapes: &[Shape],
        dimension: usize,
        is_one: &dyn Fn(usize) -> bool,
    ) -> i64 {
        let of = |shape: usize| if is_one(shape) { shapes[shape].ask[dimension] } else { 0 };
        self.leaves.iter().map(|leaf| leaf.least(of)).fold(0, i64::saturating_add)
    }
}

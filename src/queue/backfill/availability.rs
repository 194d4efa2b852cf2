//! A working copy of the nodes with their free resources throughout a span of time.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::demand::{Demand, ResourceNumbers};
use super::free::free_by_row;
use super::node_profiles::{NodeProfiles, ShapeNeed};
use super::profile::Least;
use crate::base::{Row, Time};
use crate::framework::Framework;
use crate::model::{Pod, PodShape};
use crate::queue::line::capacity::{CapacityBound, is_by_room};
use crate::state::journal::{Change, Moment};
use crate::state::{Cluster, PodView, ResourceId};

/// The namespace of placeholders; none of a cluster has such a name.
const NAMESPACE: &str = "phalanx.backfill";

/// The nodes of a cluster. In place of the pods, each node has a placeholder: it takes what is not
/// free throughout a span of time. Where room alone decides, a place in this copy is one for the
/// whole span. It is kept while nodes do not change: from one span to the next, only the
/// placeholders that differ are replaced.
#[derive(Debug)]
pub(in crate::queue) struct Availability {
    copy: Cluster,
    seen: Moment,
    /// Free resources of each empty node.
    empty: Vec<Demand>,
    /// The resources that the placeholder of each node leaves free.
    free: Vec<Least>,
    resources: Vec<Option<ResourceId>>,
    /// The needs of pods of a shape, with the nodes that may take them.
    shapes: BTreeMap<Arc<PodShape>, ShapeNeed>,
}

impl Availability {
    /// Empty nodes. O(pods).
    fn new(cluster: &Cluster, resources: Vec<Option<ResourceId>>) -> Availability {
        let mut copy = cluster.clone();
        let name = |pod: PodView<'_>| (pod.namespace().into(), pod.name().into());
        let names: Vec<(String, String)> = cluster.pods().map(name).collect();
        for (namespace, name) in names {
            let _ = copy.remove_pod(&namespace, &name);
        }
        let empty: Vec<Demand> = free_by_row(&copy, &resources).collect();
        let free = empty.iter().map(|own| own.amounts().into()).collect();
        let seen = cluster.journal.now();
        Availability { copy, seen, empty, free, resources, shapes: BTreeMap::new() }
    }

    /// The copy that was kept if its nodes are still those of the cluster, or a new one.
    pub(in crate::queue) fn of(
        kept: Option<Availability>,
        cluster: &Cluster,
        numbers: &ResourceNumbers,
    ) -> Availability {
        let resources = numbers.resources(cluster);
        let is_of_pods = |change| matches!(change, Change::Pods { .. });
        let kept = kept.filter(|kept| {
            let changes = cluster.journal.since(kept.seen);
            kept.resources == resources && changes.is_some_and(|mut own| own.all(is_of_pods))
        });
        match kept {
            Some(kept) => Availability { seen: cluster.journal.now(), ..kept },
            None => Availability::new(cluster, resources),
        }
    }

    /// The copy in which so much is free as is throughout a span of time.
    pub(in crate::queue) fn over(
        &mut self,
        nodes: &NodeProfiles,
        (from, to): (Time, Time),
        numbers: &ResourceNumbers,
    ) -> &Cluster {
        for (row, least) in nodes.least(from, to) {
            let Some(before) = self.free.get_mut(row.index()) else { continue };
            if *before == least {
                continue;
            }
            let Some(empty) = self.empty.get(row.index()) else { continue };
            let mut taken = empty.clone();
            taken.subtract(&Demand::of_amounts(least.iter().copied()));
            let name = format!("{}", row.index());
            let _ = self.copy.remove_pod(NAMESPACE, &name);
            let Some(node) = self.copy.view(row).map(|node| String::from(node.name())) else {
                continue;
            };
            let mut pod = Pod::new().name(name).in_namespace(NAMESPACE).on(node);
            for (amount, resource) in taken.amounts().iter().skip(1).zip(numbers.names()) {
                if *amount > 0 {
                    pod.shape_mut().set_request(resource, *amount);
                }
            }
            if taken.amounts().iter().skip(1).any(|amount| *amount > 0) {
                let _ = self.copy.add_pod(pod);
            }
            *before = least;
        }
        &self.copy
    }

    /// The need of pods of a shape; `None` unless room alone decides between the nodes that static
    /// filters admit.
    pub(in crate::queue) fn need(
        &mut self,
        shape: &Arc<PodShape>,
        cluster: &Cluster,
        framework: &Framework,
        numbers: &mut ResourceNumbers,
    ) -> Option<ShapeNeed> {
        if !is_by_room(framework, cluster, shape) {
            return None;
        }
        if let Some(need) = self.shapes.get(shape) {
            return Some(need.clone());
        }
        let bound = CapacityBound::new(cluster, framework, shape);
        let one = numbers.of_shape(shape).with_pod(1);
        let rows = Row::all(cluster.rows()).filter(|row| bound.may_ever(*row));
        let rows: Arc<[Row]> = rows.collect();
        let shares = rows
            .iter()
            .any(|row| self.empty.get(row.index()).is_some_and(|own| own.holds(&one) > 1));
        let need = ShapeNeed { one, count: 1, rows, shares };
        self.shapes.insert(Arc::clone(shape), need.clone());
        Some(need)
    }
}

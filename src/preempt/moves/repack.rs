//! Repacking: a group and running units that leave their nodes, all laid out together.
//!
//! The group and the units are one request to the search strategy. It is a tree with the group, and
//! every running group that has pods among them, each with its own constraints, under a root
//! without any. Members that stay pin their groups as they always do.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::framework::device_fit::still_fit;
use crate::framework::{Evaluation, Framework, Strategy};
use crate::model::{GroupPolicy, Pod, PodGroup};
use crate::place::gang::Gang;
use crate::place::topology::pinned::{leaders_of, refuse_scattered, running};
use crate::place::topology::tiers::DomainSense;
use crate::place::{Certificate, Outcome, PlaceError, Planner, Request, UnplacedKind};
use crate::preempt::cost::Cost;
use crate::preempt::running::{RunningWork, Tree};
use crate::preempt::unit::Units;
use crate::state::{Cluster, DeviceNeed, Devices, Plan, PodId, PodView, Row, ShapeId, Txn};

/// A pod and the node that it moves to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) pod: PodId,
    pub(crate) row: Row,
    pub(crate) devices: Option<Devices>,
}

/// The verdict on a group and units laid out together.
#[derive(Debug)]
pub(crate) enum Joint {
    /// They fit: the places of the units' pods, in the order in which filters passed them.
    Fits(Vec<Place>),
    /// There is no layout.
    Never(Option<Box<Proof>>),
    /// None was found.
    Unknown,
}

/// The proof that there is no layout: a certificate, and the tree that it is about.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) tree: PodGroup,
    pub(crate) certificate: Certificate,
}

/// The pods of some blocks.
pub(crate) fn pods_of<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Vec<PodId> {
    blocks.into_iter().flat_map(|block| block.pods.iter().copied()).collect()
}

/// Units that move as one: a unit, or the rest of a group that has lost more than it can spare.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The atoms, ascending.
    pub(crate) atoms: Vec<u32>,
    /// By name: the order in which pods came to a cluster is no part of its state.
    pub(crate) pods: Vec<PodId>,
}

/// Means to lay out sets of units.
#[derive(Debug)]
pub(crate) struct Repack<'t> {
    pub(crate) cluster: &'t Cluster,
    pub(crate) units: &'t Units,
    pub(crate) work: &'t [Option<u64>],
    pub(crate) running: &'t RunningWork,
    framework: &'t Framework,
    /// The same without permits: those judge plans of the group alone.
    without_permits: Framework,
    request: &'t Request<'t>,
    planner: &'t mut Planner,
    pub(crate) txn: &'t mut Txn,
    /// Pods as values, by slot.
    pods: BTreeMap<u32, Pod>,
    /// How many layouts were looked for.
    pub(crate) count: u64,
}

impl<'t> Repack<'t> {
    pub(crate) fn new(
        (cluster, units, work): (&'t Cluster, &'t Units, &'t [Option<u64>]),
        running: &'t RunningWork,
        (framework, request): (&'t Framework, &'t Request<'t>),
        (planner, txn): (&'t mut Planner, &'t mut Txn),
    ) -> Repack<'t> {
        Repack {
            cluster,
            units,
            work,
            running,
            framework,
            without_permits: framework.without_permits(),
            request,
            planner,
            txn,
            pods: BTreeMap::new(),
            count: 0,
        }
    }

    /// A set of atoms, closed, cut into what moves as one.
    pub(crate) fn blocks(&self, set: &[u32]) -> Vec<Block> {
        let mut taken = vec![false; self.units.atoms.len()];
        for &atom in set {
            taken[atom as usize] = true;
        }
        let mut blocks: Vec<Block> = Vec::new();
        let mut known = vec![false; self.units.atoms.len()];
        for &atom in set {
            if known[atom as usize] {
                continue;
            }
            let (atoms, _) = self.units.moves_with(atom, &taken);
            let mut pods: Vec<PodView<'_>> = Vec::new();
            for &atom in &atoms {
                known[atom as usize] = true;
                pods.extend(self.units.pods_of(self.cluster, atom as usize));
            }
            pods.sort_unstable_by_key(PodView::names);
            blocks.push(Block { atoms, pods: pods.into_iter().map(PodView::id).collect() });
        }
        blocks
    }

    /// Takes pods off their nodes.
    pub(crate) fn evict(&mut self, pods: &[PodId]) -> Result<(), PlaceError> {
        for &pod in pods {
            self.txn.evict_pod(pod)?;
        }
        Ok(())
    }

    /// Puts a pod on the node it moves to.
    pub(crate) fn put(&mut self, place: &Place) -> Result<(), PlaceError> {
        let pod = pod_of(&mut self.pods, self.cluster, place.pod);
        self.txn.place_with(pod, place.row, place.devices.clone())?;
        Ok(())
    }

    /// Whether every filter passes a pod on the node it moves to, and its devices are free there.
    pub(crate) fn passes(&mut self, place: &Place) -> bool {
        let pod = pod_of(&mut self.pods, self.cluster, place.pod);
        let group = pod.group.as_ref().and_then(|name| {
            let groups = self.running.trees().find_map(|tree| find(tree, pod.namespace(), name));
            groups.map(|tree| &*tree.group)
        });
        let Some(node) = self.txn.view(place.row) else { return false };
        let now = self.request.now;
        let evaluation = Evaluation::new(self.framework, self.txn, pod.shape(), group, now);
        if evaluation.filter(node).is_err() {
            return false;
        }
        let held = place.devices.as_ref();
        held.is_none() || still_fit(node, &DeviceNeed::of(self.txn, pod.shape()), held)
    }

    /// Whether a pod has room on the node it moves to, by amounts and devices alone. Where no filter
    /// judges room there is always room.
    pub(crate) fn has_room(&mut self, place: &Place) -> bool {
        let pod = pod_of(&mut self.pods, self.cluster, place.pod);
        let shape = pod.shape();
        if !self.framework.judges_room(shape) {
            return true;
        }
        let Some(node) = self.txn.view(place.row) else { return false };
        let enough = |(name, amount): (&str, i64)| {
            let id = self.txn.resource(name);
            amount <= 0 || id.is_some_and(|id| node.free(id) >= amount)
        };
        let held = place.devices.as_ref();
        node.free_pods() > 0
            && shape.requests.iter().all(enough)
            && (held.is_none() || still_fit(node, &DeviceNeed::of(self.txn, shape), held))
    }

    /// Whether a pod stays where it is.
    pub(crate) fn stays(&self, place: &Place) -> bool {
        let own = self.cluster.pod_view(place.pod.0);
        own.is_some_and(|pod| {
            let held = place.devices.as_deref().unwrap_or(&[]);
            pod.node().is_some_and(|node| node.row() == place.row) && pod.device_indexes() == held
        })
    }

    /// The running trees, without pods, that have a group among some names.
    pub(crate) fn shells(&self, names: &[&str]) -> Vec<PodGroup> {
        let named = |group: &PodGroup| names.contains(&String::from(group.full_name()).as_str());
        self.running.trees().map(shell).filter(|shell| shell.any(&named)).collect()
    }

    /// Whether groups of the pods that move are all within the domains they require.
    pub(crate) fn is_together(&self, pods: &[PodId]) -> bool {
        let pods = pods.iter().filter_map(|pod| self.cluster.pod_view(pod.0));
        let names: Vec<&str> = pods.filter_map(PodView::group).collect();
        let holds = |group: &PodGroup, leaders: &[&PodGroup]| {
            refuse_scattered(self.txn, DomainSense::Path, (group, leaders)).is_ok()
        };
        self.shells(&names).iter().all(|shell| {
            let mut sound = holds(shell, &[]);
            shell.visit(&mut |outer| {
                for inner in &outer.groups {
                    sound &= holds(inner, &leaders_of(outer, inner));
                }
            });
            sound
        })
    }

    /// The plan of the group on the cluster as it is now, by the strategy of the request or else by
    /// search.
    pub(crate) fn gang(&mut self) -> Result<Option<Plan>, PlaceError> {
        for strategy in [self.request.strategy, Some(Strategy::Search)] {
            self.count += 1;
            let mut request = self.request.clone();
            request.strategy = strategy;
            match self.planner.place(self.txn, self.framework, request)? {
                Outcome::Placed(plan) | Outcome::Held { plan, .. } => return Ok(Some(plan)),
                Outcome::Denied { .. } => return Ok(None),
                Outcome::Unplaced(_) => {}
            }
        }
        Ok(None)
    }

    /// Lays out the group and pods that are on no node now.
    pub(crate) fn joint(&mut self, pods: &[PodId]) -> Result<Joint, PlaceError> {
        self.count += 1;
        let tree = self.tree(pods);
        // A running group may be unsound as a request: a name that is used twice, nested too deep.
        let Ok(gang) = Gang::new(tree) else { return Ok(Joint::Unknown) };
        let request = self.request.for_gang(&gang).strategy(Strategy::Search);
        let plan = match self.planner.place(self.txn, &self.without_permits, request) {
            Ok(Outcome::Placed(plan)) => plan,
            Ok(Outcome::Unplaced(unplaced)) if unplaced.kind == UnplacedKind::Infeasible => {
                let proof = |certificate| Proof { tree: gang.group().clone(), certificate };
                return Ok(Joint::Never(unplaced.certificate.map(proof).map(Box::new)));
            }
            Ok(_) | Err(PlaceError::Unsupported { .. }) => return Ok(Joint::Unknown),
            // What stays of a group is scattered already: the rest has no domain to go to.
            Err(PlaceError::Scattered { .. }) => return Ok(Joint::Never(None)),
            Err(error) => return Err(error),
        };
        let mut places = Vec::with_capacity(pods.len());
        for assignment in plan.assignments() {
            let pod = assignment.pod();
            let Some(slot) = self.cluster.slot_of(pod.namespace(), &pod.name) else { continue };
            let (row, devices) = (assignment.row(), assignment.held().cloned());
            places.push(Place { pod: PodId(slot), row, devices });
        }
        // The tree needs all of them, so all of them are there.
        Ok(if places.len() == pods.len() { Joint::Fits(places) } else { Joint::Unknown })
    }

    /// Lays out the group and pods that are taken off their nodes for it; the transaction is left as
    /// it was.
    pub(crate) fn joint_anew(&mut self, pods: &[PodId]) -> Result<Joint, PlaceError> {
        let before = self.txn.changes();
        self.evict(pods)?;
        let joint = self.joint(pods);
        self.txn.rollback_to(before)?;
        joint
    }

    /// A pod of some, all of which leave their nodes, that has no room by counting; the transaction is
    /// left as it was.
    pub(crate) fn without_room(&mut self, pods: &[PodId]) -> Result<Option<PodId>, PlaceError> {
        let before = self.txn.changes();
        self.evict(pods)?;
        // The first of each shape by name, and how many there are.
        let mut views: Vec<PodView<'_>> =
            pods.iter().filter_map(|pod| self.cluster.pod_view(pod.0)).collect();
        views.sort_unstable_by_key(PodView::names);
        let mut shapes: Vec<(ShapeId, PodId, i64)> = Vec::new();
        for view in views {
            match shapes.iter_mut().find(|(shape, ..)| *shape == view.shape_id()) {
                Some((.., count)) => *count += 1,
                None => shapes.push((view.shape_id(), view.id(), 1)),
            }
        }
        let mut found = None;
        for (_, pod, count) in shapes {
            let own = pod_of(&mut self.pods, self.cluster, pod);
            let leaf = own.group.as_ref().and_then(|name| {
                self.running.trees().find_map(|tree| find(tree, own.namespace(), name))
            });
            let leaf = leaf.map_or(self.request.group(), |tree| &tree.group);
            let asker = (leaf, self.request.now);
            let framework = &self.without_permits;
            let fits = self.planner.capacities(self.txn, framework, own.shape(), asker);
            if fits.iter().fold(0_i64, |sum, fits| sum.saturating_add(*fits)) < count {
                found = Some(pod);
                break;
            }
        }
        self.txn.rollback_to(before)?;
        Ok(found)
    }

    /// Cost of a set of atoms, closed, in ascending order.
    pub(crate) fn cost(&self, atoms: &[u32]) -> Cost {
        self.units.cost(atoms, |atom| self.work[atom as usize].unwrap_or(0))
    }

    /// The tree of the group and pods.
    fn tree(&mut self, pods: &[PodId]) -> PodGroup {
        let mut of_group: BTreeMap<(String, Option<String>), Vec<Pod>> = BTreeMap::new();
        for &id in pods {
            let pod = pod_of(&mut self.pods, self.cluster, id);
            let key = (String::from(pod.namespace()), pod.group.clone());
            of_group.entry(key).or_default().push(pod.clone());
        }
        for pods in of_group.values_mut() {
            pods.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
        }
        let mut own = self.request.group().clone();
        if own.groups.is_empty() {
            // Of a group of which enough runs, one more is wanted at least.
            let runs = u32::try_from(running(self.txn, &own)).unwrap_or(u32::MAX);
            let least = own.policy.minimum().max(runs.saturating_add(1));
            own.policy = GroupPolicy::Gang { min_count: least };
        }
        let namespace = own.namespace.clone();
        // Units that only leave their nodes make room for no group.
        let mut groups = if own.pod_count() == 0 { Vec::new() } else { vec![own] };
        for tree in self.running.trees() {
            groups.extend(part(self.txn, tree, &mut of_group));
        }
        // Pods of groups that are not known.
        for ((namespace, name), pods) in of_group {
            let mut loose = PodGroup::basic(name.unwrap_or_else(|| String::from("moved pods")));
            loose.namespace = namespace;
            loose.pods = pods;
            loose.policy = all_of(self.txn, &loose);
            groups.push(loose);
        }
        let count = groups.len() as u32;
        let mut root = PodGroup::gang("group and moved pods", count);
        root.namespace = namespace;
        root.groups = groups;
        root
    }
}

/// A pod as a value that is to be placed.
fn pod_of<'p>(pods: &'p mut BTreeMap<u32, Pod>, cluster: &Cluster, id: PodId) -> &'p Pod {
    pods.entry(id.0).or_insert_with(|| {
        let mut pod = cluster.pod_view(id.0).map_or_else(Pod::new, PodView::to_pod);
        pod.node = None;
        pod.device_indexes.clear();
        pod.zone_shares.clear();
        pod
    })
}

/// The policy under which all pods of a group must be placed, beside what runs.
fn all_of(cluster: &Cluster, group: &PodGroup) -> GroupPolicy {
    let runs = u32::try_from(running(cluster, group)).unwrap_or(u32::MAX);
    GroupPolicy::Gang { min_count: runs.saturating_add(group.pods.len() as u32).max(1) }
}

/// As much of a running tree as has pods to be placed; these are taken out of `pods`.
fn part(
    cluster: &Cluster,
    tree: &Tree,
    pods: &mut BTreeMap<(String, Option<String>), Vec<Pod>>,
) -> Option<PodGroup> {
    let mut group = PodGroup::clone(&tree.group);
    let key = (group.namespace.clone(), Some(group.name.clone()));
    group.pods = pods.remove(&key).unwrap_or_default();
    group.groups = tree.inside.iter().filter_map(|inner| part(cluster, inner, pods)).collect();
    group.min_pods = None;
    group.policy = match group.groups.len() as u32 {
        0 => all_of(cluster, &group),
        count => GroupPolicy::Gang { min_count: count },
    };
    if !group.groups.is_empty() {
        pin(cluster, tree, &mut group);
    }
    (!group.pods.is_empty() || !group.groups.is_empty()).then_some(group)
}

/// Keeps the moving part of a tree in the required domain of the part that stays. Groups without a
/// moving member are not in the request, so it does not see their members.
fn pin(cluster: &Cluster, tree: &Tree, group: &mut PodGroup) {
    let Some(key) = group.topology.require.clone() else { return };
    let mut home = None;
    shell(tree).visit(&mut |inner| {
        home = home.or_else(|| cluster.pods_of(inner).find_map(PodView::node));
    });
    let Some(home) = home else { return };
    let above = cluster.levels().position(|level| level == key).unwrap_or(0);
    let keys = cluster.levels().take(above).chain([&*key]);
    let labels: Vec<(String, String)> =
        keys.filter_map(|key| Some((String::from(key), String::from(home.label(key)?)))).collect();
    select(group, &labels);
}

/// Confines all pods of a tree to nodes with some labels, beside what they select themselves.
fn select(group: &mut PodGroup, labels: &[(String, String)]) {
    for pod in &mut group.pods {
        for (key, value) in labels {
            if !pod.shape().node_selector.contains_key(key) {
                pod.shape_mut().node_selector.insert(key.clone(), value.clone());
            }
        }
    }
    for inner in &mut group.groups {
        select(inner, labels);
    }
}

/// A running tree without pods.
fn shell(tree: &Tree) -> PodGroup {
    let mut group = PodGroup::clone(&tree.group);
    group.groups = tree.inside.iter().map(shell).collect();
    group
}

fn find<'a>(tree: &'a Tree, namespace: &str, name: &str) -> Option<&'a Tree> {
    if tree.group.namespace == namespace && tree.group.name == name {
        return Some(tree);
    }
    tree.inside.iter().find_map(|inner| find(inner, namespace, name))
}

//! Kueue's assignment as a strategy of the planner: a cluster and a tree of groups in Kueue's
//! terms, and pods on nodes out of the assignment.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::input::{HOSTNAME_LABEL, KueueCluster as Input, KueueFlavor, KueuePodSet};
use super::mirror::{input, pod_set};
use super::outcome::{AssignedDomain, KueueAssignment};
use super::pass::Pass;
use super::tree::Tree;
use crate::base::ObjectName;
use crate::framework::device_fit::choose_for;
use crate::framework::{Evaluation, Framework};
use crate::model::{PodGroup, TopologyRequest};
use crate::place::error::PlaceError;
use crate::place::failure::Failure;
use crate::place::gang::Gang;
use crate::place::layout::{Layout, Member};
use crate::place::outcome::{Answer, Unplaced, UnplacedKind};
use crate::place::request::{Request, Task, tie};
use crate::place::topology::partition::all_rows;
use crate::state::plan::{PlanDomain, PlanLabel};
use crate::state::{Cluster, NodeView, PodView, Row, Txn};

/// A leaf of the tree of groups with pods to be placed.
struct Set<'a> {
    leaf: &'a PodGroup,
    asked: KueuePodSet,
    /// Its pods by number, in order.
    members: Vec<u32>,
    /// The assignment of its running members, if any run.
    running: Option<KueueAssignment>,
}

/// The answer of Kueue's algorithm. Pod set by pod set gets domains. Then its pods go to the nodes
/// of the domains assigned, each to the feasible node with the best score.
pub(crate) fn place(task: Task<'_>) -> Result<Answer, PlaceError> {
    let mut layout = Layout::default();
    let failed = assign_all(task, &mut layout)?;
    if failed.is_none() && !layout.members.is_empty() {
        return Ok(Answer::Placed(layout));
    }
    let mut reason = Unplaced::new(task.group().full_name(), UnplacedKind::Greedy);
    if let Some((group, failure)) = failed {
        (reason.group, reason.failure) = (group, Some(failure));
    }
    let partial = (!layout.members.is_empty()).then_some(layout);
    Ok(Answer::unplaced(reason, partial))
}

/// Lays out the groups in order up to the first that fails; that group, by name, and why.
fn assign_all(
    task: Task<'_>,
    layout: &mut Layout,
) -> Result<Option<(ObjectName, Failure)>, PlaceError> {
    let Task { cluster, framework, gang, request } = task;
    let rows = request.rows(cluster);
    let rows = rows.unwrap_or_else(|| all_rows(cluster));
    let input = input(cluster, &rows, gang);
    let Ok(tree) = Tree::new(&input) else {
        return Ok(Some((gang.group().full_name(), Failure::NoLevel)));
    };
    let mut sets = Vec::new();
    collect(cluster, gang, gang.group(), None, &tree, &mut 0, &mut sets)?;
    let hosts = rows_of_leaves(&tree, &input, cluster);
    let flavor = KueueFlavor::default();
    let free = tree.free();
    let mut run = Pass { tree: &tree, flavor: &flavor, gates: request.kueue_gates, free };
    let mut txn = cluster.txn();
    let mut first = 0;
    while first < sets.len() {
        // Sets with the same group are one unit.
        let group = &sets[first].asked.group;
        let same = |set: &&Set<'_>| group.is_some() && set.asked.group == *group;
        let end = first + 1 + sets[first + 1..].iter().take_while(same).count();
        let unit = &sets[first..end];
        first = end;
        run.gates = request.kueue_gates;
        run.gates.balanced_placement |= unit.iter().any(|set| set.leaf.topology.balanced);
        for (set, result) in assign(&mut run, unit) {
            let placed = match result {
                Ok(assignment) => settle(
                    (framework, &mut txn, request),
                    (&tree, &hosts),
                    set,
                    &assignment,
                    layout,
                )?,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = placed {
                return Ok(Some((set.leaf.full_name(), failure)));
            }
        }
    }
    Ok(None)
}

/// The assignment of each set of a unit, in its order.
fn assign<'s, 'a>(
    run: &mut Pass<'_>,
    unit: &'s [Set<'a>],
) -> Vec<(&'s Set<'a>, Result<KueueAssignment, Failure>)> {
    if let [set] = unit
        && let Some(running) = &set.running
    {
        return Vec::from([(set, run.place_lost(&set.asked, running, set.asked.count))]);
    }
    let pod_sets: Vec<&KueuePodSet> = unit.iter().map(|set| &set.asked).collect();
    unit.iter().zip(run.unit(&pod_sets)).map(|(set, outcome)| (set, outcome.result)).collect()
}

/// Collects the leaves with pods to be placed, in order.
fn collect<'a>(
    cluster: &Cluster,
    gang: &Gang,
    group: &'a PodGroup,
    unit: Option<&str>,
    tree: &Tree,
    next: &mut u32,
    sets: &mut Vec<Set<'a>>,
) -> Result<(), PlaceError> {
    refuse_unsupported(gang, group, *next)?;
    if !group.groups.is_empty() {
        let leads = group.groups.iter().position(|inner| inner.leader);
        let led = leads.and_then(|_| group.groups.iter().position(|inner| !inner.leader));
        let name = group.full_name();
        // A leader and those it leads are one unit, unless some of them run already.
        let apart = [leads, led]
            .into_iter()
            .flatten()
            .any(|place| runs(cluster, &group.groups[place]).next().is_some());
        let pair = [leads, led].map(|place| place.filter(|_| leads.is_some() && !apart));
        // Members keep their numbers, but a unit's sets stand together.
        let mut starts = Vec::new();
        for inner in &group.groups {
            starts.push(*next);
            *next += inner.pod_count() as u32;
        }
        let mut order: Vec<usize> = (0..group.groups.len()).collect();
        let both = pair[0].zip(pair[1]).map(|(a, b)| (a.min(b), a.max(b)));
        if let Some((early, late)) = both {
            order.retain(|place| *place != late);
            let at = order.iter().position(|place| *place == early).map_or(0, |at| at + 1);
            order.insert(at, late);
        }
        for place in order {
            let unit = both.filter(|(a, b)| place == *a || place == *b).map(|_| &*name);
            let inner = &group.groups[place];
            collect(cluster, gang, inner, unit, tree, &mut starts[place].clone(), sets)?;
        }
        return Ok(());
    }
    let numbers = *next..*next + group.pods.len() as u32;
    *next = numbers.end;
    let waiting = |&(_, pod): &(u32, &crate::model::Pod)| pod.scheduling_gates.is_empty();
    let members: Vec<u32> =
        numbers.clone().zip(&group.pods).filter(waiting).map(|(number, _)| number).collect();
    let Some(&any) = members.first() else { return Ok(()) };
    let shape = gang.shape(gang.shape_of()[any as usize]);
    let mut asked = pod_set(group, shape, members.len());
    asked.group = unit.map(String::from);
    refuse_scattered(cluster, group, tree)?;
    let mut leaves: BTreeMap<usize, i64> = BTreeMap::new();
    for node in runs(cluster, group) {
        // A pod outside the tree is in no domain of it.
        if let Some(leaf) = tree.leaf(&values(tree, node)) {
            *leaves.entry(tree.leaves[leaf].domain).or_default() += 1;
        }
    }
    let running = (!leaves.is_empty()).then(|| tree.assignment(&leaves));
    sets.push(Set { leaf: group, asked, members, running });
    Ok(())
}

/// The nodes that members of a group run on.
fn runs<'c>(cluster: &'c Cluster, group: &PodGroup) -> impl Iterator<Item = NodeView<'c>> {
    cluster.pods_of(group).filter_map(PodView::node).collect::<Vec<_>>().into_iter()
}

fn refuse_unsupported(gang: &Gang, group: &PodGroup, first: u32) -> Result<(), PlaceError> {
    let topology = &group.topology;
    let inner = !group.groups.is_empty();
    let shapes = gang.shape_of();
    let range = first as usize..first as usize + if inner { 0 } else { group.pods.len() };
    let mixed = shapes.get(range).is_some_and(|own| own.iter().any(|shape| *shape != own[0]));
    let what = if inner && *topology != TopologyRequest::default() {
        "topology of a group of groups"
    } else if topology.highest.is_some() {
        "a highest level"
    } else if topology.spread.is_some() {
        "spreading over domains"
    } else if topology.ranked {
        "ranked members"
    } else if group.wants_island() {
        "islands of devices"
    } else if mixed {
        "members that differ"
    } else {
        return Ok(());
    };
    Err(PlaceError::Unsupported { group: group.full_name(), what })
}

/// How an assignment writes the leaf of a node.
fn values(tree: &Tree, node: NodeView<'_>) -> Vec<String> {
    let value = |level: &String| super::mirror::value(node, level).map(String::from);
    let finest = tree.levels.last().is_some_and(|level| level == HOSTNAME_LABEL);
    let first = if finest { tree.levels.len() - 1 } else { 0 };
    tree.levels[first..].iter().map_while(value).collect()
}

/// The rows of each leaf, in the order of ties.
fn rows_of_leaves(tree: &Tree, input: &Input, cluster: &Cluster) -> Vec<Vec<Row>> {
    let mut rows = alloc::vec![Vec::new(); tree.leaves.len()];
    for node in input.nodes.iter().filter_map(|node| cluster.node(&node.name)) {
        if let Some(leaf) = tree.leaf(&values(tree, node)).filter(|_| !node.unschedulable()) {
            rows[leaf].push(node.row());
        }
    }
    rows
}

/// Puts the pods of a set on nodes of the domains assigned, in order.
fn settle(
    (framework, txn, request): (&Framework, &mut Txn, &Request<'_>),
    (tree, hosts): (&Tree, &[Vec<Row>]),
    set: &Set<'_>,
    assignment: &KueueAssignment,
    layout: &mut Layout,
) -> Result<Result<(), Failure>, PlaceError> {
    let first = layout.members.len();
    let pods = set.leaf.pods.iter().filter(|pod| pod.scheduling_gates.is_empty());
    let mut pods = set.members.iter().zip(pods);
    for AssignedDomain { values, count } in &assignment.domains {
        let rows = tree.leaf(values).map_or(&[][..], |leaf| &hosts[leaf]);
        for (&number, pod) in pods.by_ref().take(*count as usize) {
            let shape = pod.shape();
            let mut judged = Evaluation::new(framework, txn, shape, Some(set.leaf), request.now);
            let passes = |row: &Row| txn.view(*row).is_some_and(|node| judged.filter(node).is_ok());
            let feasible: Vec<Row> = rows.iter().copied().filter(passes).collect();
            let totals = if feasible.len() > 1 { judged.totals(&feasible) } else { [0].into() };
            let mut ranked: Vec<_> = feasible.into_iter().zip(totals).enumerate().collect();
            ranked.sort_by_key(|&(at, (row, total))| {
                (Reverse(total), tie(txn, row, request.salt), at)
            });
            let served = ranked.into_iter().find_map(|(_, (row, _))| {
                Some((row, choose_for(framework, txn, shape, row).ok()?))
            });
            let Some((row, devices)) = served else {
                let pod = format!("{}/{}", pod.namespace(), pod.name);
                return Ok(Err(Failure::NoNode { pod, domain: values.clone() }));
            };
            txn.place_with(pod, row, devices.clone())?;
            layout.members.push(Member { number, row, devices });
        }
    }
    Ok(confine(tree, set, txn, first, layout))
}

/// The labels of a node from the coarsest level down, up to a level.
fn path(tree: &Tree, node: NodeView<'_>, end: usize) -> Vec<PlanLabel> {
    let label = |key: &String| PlanLabel {
        key: key.clone(),
        value: super::mirror::value(node, key).map(String::from),
    };
    tree.levels[..end].iter().map(label).collect()
}

/// Refuses a group whose running members are not in one domain of the level it requires, as Kueue
/// tells domains apart.
fn refuse_scattered(cluster: &Cluster, group: &PodGroup, tree: &Tree) -> Result<(), PlaceError> {
    let Some(key) = &group.topology.require else { return Ok(()) };
    let Some(level) = tree.level(key) else { return Ok(()) };
    let mut paths = runs(cluster, group).map(|node| path(tree, node, level + 1));
    let Some(first) = paths.next() else { return Ok(()) };
    let has_domain = first.last().is_some_and(|own| own.value.is_some());
    if has_domain && paths.all(|path| path == first) {
        return Ok(());
    }
    Err(PlaceError::Scattered { group: group.full_name(), key: key.clone() })
}

/// Records the finest domain, up from the level requested, that holds all members placed. Members
/// that run are held to the required part of it.
///
/// Kueue leaves those alone that run outside its tree, or whose slices cannot be made whole. Where
/// those are in another required domain, there is no plan.
fn confine(
    tree: &Tree,
    set: &Set<'_>,
    cluster: &Cluster,
    first: usize,
    layout: &mut Layout,
) -> Result<(), Failure> {
    let topology = &set.leaf.topology;
    let asked = topology.require.as_ref().or(topology.prefer.as_ref());
    let Some(level) = asked.and_then(|level| tree.level(level)) else { return Ok(()) };
    let path_of = |row: Row| Some(path(tree, cluster.view(row)?, level + 1));
    let members = &layout.members[first..];
    let Some(one) = members.first().and_then(|member| path_of(member.row)) else { return Ok(()) };
    let within = |end: &usize| {
        let same = |row: Row| path_of(row).is_some_and(|path| path[..*end] == one[..*end]);
        members.iter().all(|member| same(member.row))
    };
    let Some(end) = (1..=level + 1).rev().find(within) else { return Ok(()) };
    let required = topology.require.as_ref().and_then(|key| Some((key, tree.level(key)? + 1)));
    let held = |node: NodeView<'_>, end: usize| path(tree, node, end) == one[..end];
    if let Some((key, end)) = required
        && !runs(cluster, set.leaf).all(|node| held(node, end))
    {
        return Err(Failure::RunningElsewhere { level: key.clone() });
    }
    layout.domains.push(PlanDomain {
        group: set.leaf.full_name().into(),
        path: one[..end].to_vec(),
        island: false,
        required: required.map_or(0, |(_, required)| required).min(end),
        first,
        end: layout.members.len(),
    });
    Ok(())
}

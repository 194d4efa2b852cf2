//! The same problems through the planner: as a cluster and a group under `Strategy::Kueue`.

use std::collections::BTreeMap;

use phalanx::model::{
    NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredNodeTerm, Requirement, Slice, Taint,
    Toleration,
};
use phalanx::plugins::Fit;
use phalanx::reference::kueue::{
    self, AssignedDomain, HOSTNAME_LABEL, KueueAmounts, KueueAssignment, KueueOutcome, KueuePodSet,
    PODS_RESOURCE, PodSetOutcome,
};
use phalanx::state::PodView;
use phalanx::{Cluster, Framework, Plan, Planner, Pod, PodGroup, Request, Strategy, model};

/// The planner's answer to the problem; `None` if it cannot be said of a cluster: pod sets that
/// shrink, malformed slices, tolerations that compare numbers.
///
/// # Errors
/// The cluster or the request is unsound.
pub(crate) fn assign(
    input: &kueue::KueueCluster,
    pod_sets: &[KueuePodSet],
) -> Result<Option<KueueOutcome>, String> {
    let Some(problem) = Problem::new(input, pod_sets)? else { return Ok(None) };
    let framework = Framework::builder().filter(Fit).strategy(Strategy::Kueue);
    let framework = framework.build().map_err(|error| error.to_string())?;
    let request = Request::new(&problem.group).kueue_gates(input.gates);
    let outcome = Planner::new().place(&problem.cluster, &framework, request);
    let outcome = outcome.map_err(|error| error.to_string())?;
    let mut found = KueueOutcome::default();
    let (plan, unplaced) = match &outcome {
        phalanx::Outcome::Unplaced(unplaced) => (unplaced.partial.as_ref(), Some(unplaced)),
        placed => (placed.plan(), None),
    };
    let failed = unplaced.map(|unplaced| unplaced.group.trim_start_matches("default/"));
    // Sets of a unit fail together.
    let unit = pod_sets.iter().find(|set| Some(&*set.name) == failed);
    let unit = unit.and_then(|set| set.group.as_ref());
    for set in pod_sets {
        let name = set.name.clone();
        if Some(&*name) == failed || unit.is_some() && set.group.as_ref() == unit {
            let failure = unplaced.and_then(|unplaced| unplaced.failure.clone());
            let result = Err(failure.ok_or("no failure in what was not placed")?);
            found.pod_sets.push(PodSetOutcome { name, result });
            continue;
        }
        let group = format!("default/{name}");
        let running = problem.cluster.group_pods(&group).filter_map(PodView::node);
        let own = plan.into_iter().flat_map(Plan::assignments);
        let own = own.filter(|one| one.pod().group.as_deref() == Some(&name));
        let own = own.filter_map(|one| problem.cluster.node(one.node()));
        let mut leaves: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        for node in own.chain(running) {
            let path = input.levels.iter().filter_map(|level| node.label(level));
            *leaves.entry(path.map(String::from).collect()).or_default() += 1;
        }
        let hosts = input.levels.last().is_some_and(|level| level == HOSTNAME_LABEL);
        let first = if hosts { input.levels.len() - 1 } else { 0 };
        let domains = leaves
            .into_iter()
            .map(|(path, count)| AssignedDomain { values: path[first..].to_vec(), count });
        let levels = input.levels[first..].to_vec();
        let result = Ok(KueueAssignment { levels, domains: domains.collect() });
        // Sets after the one that failed were not tried.
        if unplaced.is_none() || result.as_ref().is_ok_and(|one| !one.domains.is_empty()) {
            found.pod_sets.push(PodSetOutcome { name, result });
        }
    }
    Ok(Some(found))
}

struct Problem {
    cluster: Cluster,
    group: PodGroup,
}

impl Problem {
    fn new(
        input: &kueue::KueueCluster,
        pod_sets: &[KueuePodSet],
    ) -> Result<Option<Problem>, String> {
        let cluster = Cluster::builder().levels(input.levels.iter().cloned()).build();
        let mut problem = Problem {
            cluster: cluster.map_err(|error| error.to_string())?,
            group: PodGroup::gang("workload", pod_sets.len() as u32),
        };
        let mut nodes: BTreeMap<Vec<&str>, &kueue::KueueNode> = BTreeMap::new();
        let spare: usize = pod_sets.iter().map(|set| set.count as usize).sum();
        for node in &input.nodes {
            let own = |(key, value)| node.labels.get(key) == Some(value);
            let path = input.levels.iter().map(|key| node.labels.get(key).map(String::as_str));
            let Some(path) = path.collect::<Option<Vec<_>>>() else { continue };
            if node.ready && input.flavor.node_labels.iter().all(own) {
                problem.add_node(node, if replaces(pod_sets) { spare as i64 } else { 0 })?;
                nodes.entry(path).or_insert(node);
            }
        }
        for (number, pod) in input.pods.iter().enumerate().filter(|(_, pod)| !pod.terminated) {
            if let Some(node) = &pod.node {
                let name = format!("background-{number}");
                problem.bind(pod_of(&pod.requests).name(name), node)?;
            }
        }
        let hosts = input.levels.last().is_some_and(|level| level == HOSTNAME_LABEL);
        let leaf = |values: &[String]| {
            let same = |path: &Vec<&str>| match values {
                [host] if hosts => path.last() == Some(&host.as_str()),
                _ => path.iter().eq(values),
            };
            nodes.iter().find(|(path, _)| same(path)).map(|(_, node)| node.name.clone())
        };
        for (number, usage) in input.usage.iter().enumerate() {
            let counts = !usage.other_flavor || input.gates.overlapping_flavors;
            if let Some(node) = leaf(&usage.values).filter(|_| counts) {
                for pod in 0..usage.count {
                    let name = format!("usage-{number}-{pod}");
                    problem.bind(pod_of(&usage.requests).name(name), &node)?;
                }
            }
        }
        let mut units: Vec<(Option<&String>, Vec<PodGroup>)> = Vec::new();
        for set in pod_sets {
            // If a part of an elastic unit ran in a domain that is gone, all of it is placed afresh.
            let lost = |set: &KueuePodSet| {
                let mut known = set.previous.iter().flat_map(|previous| &previous.domains);
                set.replace_node.is_none() && known.any(|domain| leaf(&domain.values).is_none())
            };
            let beside = |other: &&KueuePodSet| set.group.is_some() && other.group == set.group;
            let afresh = pod_sets.iter().filter(beside).any(lost);
            let group = problem.leaf_of(input, set, afresh, &leaf)?;
            let Some(group) = group else { return Ok(None) };
            match units.iter_mut().find(|(name, _)| name.is_some() && *name == set.group.as_ref()) {
                Some((_, unit)) => unit.push(group),
                None => units.push((set.group.as_ref(), vec![group])),
            }
        }
        for (name, mut unit) in units {
            if let [first, second] = &mut *unit {
                let workers_first = first.policy.minimum() >= second.policy.minimum();
                (if workers_first { second } else { first }).leader = true;
            }
            // What runs already has nothing left to place.
            unit.retain(|group| !group.pods.is_empty());
            problem.group = match (name, unit.len()) {
                (Some(name), 2) => {
                    let both = unit.into_iter().fold(PodGroup::gang(name, 2), PodGroup::group);
                    problem.group.group(both)
                }
                _ => unit.into_iter().fold(problem.group, PodGroup::group),
            };
        }
        problem.group.policy =
            model::GroupPolicy::Gang { min_count: problem.group.groups.len() as u32 };
        Ok((!problem.group.groups.is_empty()).then_some(problem))
    }

    fn add_node(&mut self, own: &kueue::KueueNode, pods: i64) -> Result<(), String> {
        let mut node = phalanx::Node::new(&*own.name);
        for (key, value) in &own.labels {
            node = node.label(key, value);
        }
        for (resource, amount) in &own.allocatable {
            let more = if resource == PODS_RESOURCE { pods } else { 0 };
            node.allocatable.set(resource, amount + more);
        }
        if !own.allocatable.contains_key(PODS_RESOURCE) {
            node.allocatable.set(PODS_RESOURCE, pods);
        }
        for taint in &own.taints {
            let effect = taint.effect.clone().into();
            node = node.taint(Taint::new(taint.key.clone(), taint.value.clone(), effect));
        }
        node.unschedulable = own.unschedulable;
        self.cluster.add_node(node).map(|_| ()).map_err(|error| error.to_string())
    }

    fn bind(&mut self, pod: Pod, node: &str) -> Result<(), String> {
        self.cluster.add_pod(pod.on(node)).map(|_| ()).map_err(|error| error.to_string())
    }

    /// The group of a pod set, with the pods that run bound; `None` for what a group cannot say.
    fn leaf_of(
        &mut self,
        input: &kueue::KueueCluster,
        set: &KueuePodSet,
        afresh: bool,
        leaf: &impl Fn(&[String]) -> Option<String>,
    ) -> Result<Option<PodGroup>, String> {
        let mut running: Vec<(String, u32)> = Vec::new();
        let replaces = set.replace_node.is_some();
        if let Some(previous) = &set.previous
            && (replaces || set.elastic && input.gates.elastic)
        {
            let lost = |domain: &&AssignedDomain| {
                domain.values.last().is_some_and(|value| set.replace_node.as_ref() == Some(value))
            };
            let stay: Vec<_> = previous.domains.iter().filter(|domain| !lost(domain)).collect();
            let homes = stay.iter().map(|domain| Some((leaf(&domain.values)?, domain.count)));
            match homes.collect::<Option<Vec<_>>>() {
                Some(homes) if !afresh => running = homes,
                None if replaces => return Ok(None),
                // Elastic pods of a domain that is gone are placed afresh.
                Some(_) | None => {}
            }
        }
        let template = template(set);
        let mut numbers = 0..;
        for (node, count) in &running {
            for number in numbers.by_ref().take(*count as usize) {
                // Kueue does not charge the pods that survive a node.
                let requests = if replaces { KueueAmounts::new() } else { set.requests.clone() };
                let name = format!("{}-{number}", set.name);
                self.bind(pod_of(&requests).name(name).in_group(&*set.name), node)?;
            }
        }
        let runs: u32 = running.iter().map(|(_, count)| count).sum();
        let shrinks = runs > set.count || runs == set.count && set.group.is_none();
        let slices: Option<Vec<Slice>> = set
            .topology
            .slices
            .iter()
            .map(|layer| Some(Slice::new(&*layer.level, layer.size?)))
            .collect();
        let (Some(slices), Some(template), false) = (slices, template, shrinks) else {
            return Ok(None);
        };
        let mut group = PodGroup::gang(&*set.name, set.count.max(1));
        for number in numbers.take((set.count - runs) as usize) {
            let pod = template.clone().name(format!("{}-{number}", set.name));
            group = group.pod(pod.in_group(&*set.name));
        }
        group.topology.require.clone_from(&set.topology.required);
        group.topology.prefer.clone_from(&set.topology.preferred);
        group.topology.slices = slices;
        Ok(Some(group))
    }
}

fn replaces(pod_sets: &[KueuePodSet]) -> bool {
    pod_sets.iter().any(|set| set.replace_node.is_some())
}

fn pod_of(requests: &KueueAmounts) -> Pod {
    let mut pod = Pod::new();
    for (resource, amount) in requests {
        pod.shape_mut().set_request(resource, *amount);
    }
    pod
}

fn template(set: &KueuePodSet) -> Option<Pod> {
    let mut pod = pod_of(&set.requests);
    for (key, value) in &set.node_selector {
        pod = pod.node_selector(key, value);
    }
    let term = |expressions: &Vec<kueue::Expression>| {
        NodeSelectorTerm::labels(expressions.iter().map(|one| {
            let operator = format!("{:?}", one.operator).into();
            Requirement::new(&*one.key, operator, one.values.iter().cloned())
        }))
    };
    let mut affinity = NodeAffinity::default();
    if !set.affinity.required.is_empty() {
        affinity.required = Some(NodeSelector::any_of(set.affinity.required.iter().map(term)));
    }
    affinity.preferred = set
        .affinity
        .preferred
        .iter()
        .map(|one| PreferredNodeTerm::new(one.weight, term(&one.expressions)))
        .collect();
    if affinity != NodeAffinity::default() {
        pod = pod.node_affinity(affinity);
    }
    for own in &set.tolerations {
        let operator = match own.operator {
            kueue::KueueTolerationOperator::Equal => model::TolerationOperator::Equal,
            kueue::KueueTolerationOperator::Exists => model::TolerationOperator::Exists,
            _ => return None,
        };
        let mut toleration = Toleration::default();
        (toleration.key, toleration.value) = (own.key.clone(), own.value.clone());
        toleration.operator = operator;
        toleration.effect = own.effect.clone().map(Into::into);
        pod = pod.toleration(toleration);
    }
    Some(pod)
}

//! Plugins that read beyond the node: the planner answers what the plain loop answers, and asks
//! them once a class of nodes.

mod dice;

use std::sync::Arc;

use dice::Dice;
use phalanx::framework::{
    Context, CountedPods, CounterSpec, Declaration, Feasible, Filter, Grain, Normalization,
    Preparation, Prepared, Reach, Score, Verdict, filter_fn,
};
use phalanx::model::{
    Effect, LabelSelector, Labels, Node, NodeInclusion, Pod, PodAffinityTerm, PodGroup, PodShape,
    SpreadConstraint, Taint, Toleration, WeightedPodAffinityTerm,
};
use phalanx::plugins::{
    Fit, InterPodAffinity, KubernetesProfile, LeastAllocated, MostAllocated, PodTopologySpread,
    SpreadDefaults, TaintToleration,
};
use phalanx::state::{LabelKey, NodeView};
use phalanx::{Cluster, Framework, Outcome, PlaceError, Planner, Request, Strategy};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "rack";

fn counting(key: &str) -> CounterSpec {
    let selector = LabelSelector::label("app", "a");
    CounterSpec { key: key.into(), pods: CountedPods::Matching { namespace: None, selector } }
}

/// A score of how many pods of an app share a label, under every kind of normalisation.
struct Crowd(&'static str, Normalization);

impl Score for Crowd {
    fn name(&self) -> &str {
        "Crowd"
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        match cx.count(0, node) {
            None if self.1 == Normalization::Extremes => Normalization::IGNORED,
            count => (7 * count.unwrap_or(0)).min(100),
        }
    }

    fn normalization(&self) -> Normalization {
        self.1
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        if high == low { 50 } else { 100 * (high - raw) / (high - low) }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain([self.0]).counting(counting(self.0)).grained()
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        Some(Grain::of(cx, [self.0]))
    }
}

/// At most so many pods of an app in the whole cluster, and on a node of its own.
struct Few(i64);

#[derive(Default)]
struct Seen {
    all: i64,
    rows: Vec<i64>,
}

impl Seen {
    fn add(&mut self, placed: &PodShape, node: NodeView<'_>, amount: i64) {
        if placed.labels.get("app").is_some_and(|app| app == "a") {
            self.all += amount;
            self.rows[node.row()] += amount;
        }
    }
}

impl Filter for Few {
    fn name(&self) -> &str {
        "Few"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let mut seen = Seen { all: 0, rows: vec![0; cx.cluster().rows()] };
        for pod in cx.cluster().pods() {
            if let Some(node) = pod.node() {
                seen.add(pod.shape(), node, 1);
            }
        }
        Preparation::with(seen)
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let seen: &Seen = cx.prepared().unwrap();
        Verdict::pass_if(seen.all < self.0 && seen.rows[node.row()] < 2)
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::cluster().grained()
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        let seen: &Seen = cx.prepared()?;
        Some(Grain::default().each().epoch(seen.all.max(0) as u64))
    }

    fn take(&self, prepared: &mut Prepared, _: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        prepared.value_mut::<Seen>().unwrap().add(placed, on, 1);
    }

    fn undo(&self, prepared: &mut Prepared, _: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        prepared.value_mut::<Seen>().unwrap().add(placed, on, -1);
    }
}

/// Likes racks the more, the more feasible nodes there are; counts them by class or by node.
struct Room {
    each: bool,
}

#[derive(Default)]
struct Sizes(usize, Vec<phalanx::state::LabelValue>);

impl Score for Room {
    fn name(&self) -> &str {
        "Room"
    }

    fn prepare(&self, _: &Context<'_>) -> Preparation {
        Preparation::with(Sizes::default())
    }

    fn consider(&self, prepared: &mut Prepared, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let key: Option<LabelKey> = cx.cluster().label_key(RACK);
        let values = key.map(|key| feasible.values(key, &[])).unwrap_or_default();
        let labelled = feasible.with_labels(key.as_slice());
        *prepared.value_mut().unwrap() = Sizes(labelled + 3 * feasible.with_labels(&[]), values);
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Sizes(count, values) = cx.prepared().unwrap();
        let value = cx.cluster().label_key(RACK).and_then(|key| node.label_value(key));
        let place = value.and_then(|value| values.iter().position(|other| *other == value));
        let own = if self.each { node.row() } else { 0 };
        ((count + own) * (2 + place.unwrap_or(7)) % 101) as i64
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain([RACK]).reading_nodes().reading_feasible().grained()
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        let Sizes(count, values) = cx.prepared()?;
        let mut epoch = *count as u64;
        for value in values {
            epoch = epoch.wrapping_mul(31).wrapping_add(value.index() as u64 + 1);
        }
        let grain = Grain::of(cx, [RACK]).epoch(epoch);
        Some(if self.each { grain.each() } else { grain })
    }
}

fn framework(dice: &mut Dice) -> Framework {
    match dice.roll(6) {
        0 => return Framework::kubernetes(),
        1 => {
            let constraint = |dice: &mut Dice, key| {
                let selector = LabelSelector::default();
                let constraint = SpreadConstraint::new(1 + dice.roll(2) as i32, key, selector);
                if dice.one_in(2) { constraint.preferred() } else { constraint }
            };
            let list = vec![constraint(dice, ZONE), constraint(dice, HOSTNAME)];
            return KubernetesProfile::new()
                .default_constraints(SpreadDefaults::List(list))
                .hard_pod_affinity_weight(dice.roll(101) as u8)
                .framework();
        }
        _ => {}
    }
    let mut builder = Framework::builder().filter(Fit);
    if dice.roll(4) > 0 {
        builder = builder.filter(InterPodAffinity::new());
    }
    if dice.roll(4) > 0 {
        builder = builder.filter(PodTopologySpread::new());
    }
    if dice.one_in(5) {
        builder = builder.filter(Few(1 + dice.roll(12) as i64));
    }
    if dice.one_in(40) {
        let total = |cx: &Context<'_>, node: NodeView<'_>| {
            (cx.cluster().nodes().map(NodeView::pod_count).sum::<i64>() + node.pod_count()) % 5 > 0
        };
        builder = builder.filter(filter_fn("far", Reach::Cluster, total));
    }
    let resources = [("cpu", 1), ("memory", 1)];
    match dice.roll(3) {
        0 => builder = builder.score(2, MostAllocated::of(resources)),
        1 => builder = builder.score(1, LeastAllocated::of(resources)),
        _ => {}
    }
    if dice.one_in(3) {
        builder = builder.filter(TaintToleration).score(2, TaintToleration);
    }
    if dice.one_in(2) {
        let company = InterPodAffinity::new().hard_weight(dice.roll(101) as u8);
        let other = dice.one_in(3);
        let company =
            if other { company.ignore_preferred_terms_of_existing_pods() } else { company };
        builder = builder.score(1 + dice.roll(3) as u32, company);
    }
    if dice.one_in(2) {
        builder = builder.score(2, PodTopologySpread::new());
    }
    let key = [ZONE, RACK, HOSTNAME, "nowhere"][dice.roll(4) as usize];
    match dice.roll(8) {
        0 => builder = builder.score(1, Crowd(key, Normalization::None)),
        1 => builder = builder.score(2, Crowd(key, Normalization::Max)),
        2 => builder = builder.score(1, Crowd(key, Normalization::MaxReversed)),
        3 => builder = builder.score(3, Crowd(key, Normalization::Extremes)),
        _ => {}
    }
    match dice.roll(8) {
        0 => builder = builder.score(1, Room { each: false }),
        1 => builder = builder.score(1, Room { each: true }),
        _ => {}
    }
    builder.build().unwrap()
}

fn node(dice: &mut Dice, name: u64) -> Node {
    let mut node = Node::new(format!("n{name}"))
        .capacity("cpu", 1 + dice.roll(8) as i64)
        .capacity("memory", 1_000_000_000 * (1 + dice.roll(5) as i64));
    if dice.roll(8) > 0 {
        node = node.label(ZONE, dice.of(&["a", "b", "c", ""]));
    }
    if dice.roll(5) > 0 {
        node = node.label(RACK, format!("r{}", dice.roll(5)));
    }
    if dice.roll(6) > 0 {
        let twin = if dice.one_in(10) { 0 } else { name };
        node = node.label(HOSTNAME, format!("n{twin}"));
    }
    match dice.roll(8) {
        0 => node = node.taint(Taint::new("t", "", Effect::PreferNoSchedule)),
        1 => node = node.taint(Taint::new("t", "", Effect::NoSchedule)),
        _ => {}
    }
    if dice.one_in(4) { node.capacity("pods", dice.roll(5) as i64) } else { node }
}

fn term(dice: &mut Dice) -> PodAffinityTerm {
    let key = dice.of(&[ZONE, RACK, RACK, HOSTNAME, "nowhere"]);
    let mut term = PodAffinityTerm::new(key, LabelSelector::label("app", dice.of(&["a", "b"])));
    match dice.roll(8) {
        0 => term.namespaces = vec!["other".into()],
        1 => term.namespace_selector = Some(LabelSelector::label("team", "x")),
        _ => {}
    }
    term
}

fn constraint(dice: &mut Dice) -> SpreadConstraint {
    let key = dice.of(&[ZONE, ZONE, RACK, HOSTNAME, "nowhere"]);
    let selector = LabelSelector::label("app", dice.of(&["a", "b"]));
    let mut constraint = SpreadConstraint::new(1 + dice.roll(3) as i32, key, selector);
    if dice.one_in(3) {
        constraint = constraint.preferred();
    } else if dice.one_in(4) {
        constraint.min_domains = Some(1 + dice.roll(4) as i32);
    }
    if dice.one_in(3) {
        constraint.match_label_keys = vec!["rev".into()];
    }
    if dice.one_in(3) {
        constraint.node_taints_policy = NodeInclusion::Honor;
    }
    if dice.one_in(4) {
        constraint.node_affinity_policy = NodeInclusion::Ignore;
    }
    constraint
}

fn pod(dice: &mut Dice) -> Pod {
    let mut pod = Pod::new().request("cpu", format!("{}m", 250 * dice.roll(5)).as_str());
    if dice.roll(4) > 0 {
        pod = pod.label("app", dice.of(&["a", "a", "b"]));
    }
    if dice.one_in(2) {
        pod = pod.label("rev", dice.of(&["1", "2"]));
    }
    if dice.one_in(6) {
        pod = pod.in_namespace("other");
    }
    if dice.one_in(6) {
        pod = pod.node_selector(RACK, format!("r{}", dice.roll(5)));
    }
    if dice.one_in(4) {
        pod = pod.toleration(Toleration::exists("t"));
    }
    for _ in 0..dice.roll(3) {
        pod = pod.spread(constraint(dice));
    }
    if dice.one_in(4) {
        pod = pod.affinity(term(dice));
    }
    if dice.one_in(5) {
        pod = pod.anti_affinity(term(dice));
    }
    let weighted = |dice: &mut Dice| {
        let weight = 1 + dice.roll(100) as i32;
        WeightedPodAffinityTerm { weight, term: term(dice) }
    };
    if dice.one_in(5) {
        let one = weighted(dice);
        pod.shape_mut().preferred_pod_affinity.push(one);
    }
    if dice.one_in(6) {
        let one = weighted(dice);
        pod.shape_mut().preferred_pod_anti_affinity.push(one);
    }
    if dice.one_in(5) {
        pod.shape_mut().owner_selector = Some(LabelSelector::label("app", "a"));
    }
    pod
}

fn leaf(dice: &mut Dice, name: &str) -> PodGroup {
    let members = 1 + dice.roll(7);
    let mut group = PodGroup::gang(name, 1 + dice.roll(members) as u32);
    let mixed = dice.one_in(2);
    let template = pod(dice);
    for _ in 0..members {
        let mut next = if mixed && dice.one_in(2) { pod(dice) } else { template.clone() };
        next.shape_mut().namespace.clone_from(&template.shape().namespace);
        group = group.pods(1, next);
    }
    group.namespace.clone_from(&template.shape().namespace);
    topology(dice, group)
}

fn topology(dice: &mut Dice, group: PodGroup) -> PodGroup {
    match dice.roll(7) {
        0 => group.require(RACK),
        1 => group.require(ZONE),
        2 => group.prefer(RACK),
        3 => group.prefer(RACK).require(ZONE),
        _ => group,
    }
}

fn group(dice: &mut Dice, name: &str) -> PodGroup {
    if dice.roll(3) > 0 {
        return leaf(dice, name);
    }
    let children = 1 + dice.roll(3);
    let mut group = PodGroup::gang(name, 1 + dice.roll(children) as u32);
    for child in 0..children {
        let mut part = leaf(dice, &format!("{name}-{child}"));
        part.namespace = "default".into();
        for pod in &mut part.pods {
            pod.shape_mut().namespace = "default".into();
        }
        group = group.group(part);
    }
    topology(dice, group)
}

/// The same group under another name.
fn again(shared: &PodGroup, name: &str) -> PodGroup {
    let mut again = shared.clone();
    again.name = name.into();
    for (index, pod) in again.pods.iter_mut().enumerate() {
        pod.name = format!("{name}-{index}");
    }
    again
}

/// What there is to see at a glance.
fn brief(outcome: &Result<Outcome, PlaceError>) -> String {
    match outcome {
        Ok(Outcome::Placed(plan)) => {
            let pairs = plan.assignments().map(|a| format!("{}>{}", a.pod().name, a.node()));
            format!("{:?} {:?}", pairs.collect::<Vec<_>>(), plan.domains().collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

/// Something happens between two gangs.
fn disturb(dice: &mut Dice, cluster: &mut Cluster, nodes: u64, step: u64) {
    let names: Vec<(String, String)> =
        cluster.pods().map(|pod| (pod.namespace().into(), pod.name().into())).collect();
    let some = |dice: &mut Dice| names.get(dice.roll(names.len().max(1) as u64) as usize);
    match dice.roll(12) {
        0 | 1 => {
            if let Some((namespace, name)) = some(dice) {
                cluster.remove_pod(namespace, name).unwrap();
            }
        }
        2 | 3 => {
            let bound = pod(dice).name(format!("b{step}")).on(format!("n{}", dice.roll(nodes)));
            cluster.add_pod(bound).unwrap();
        }
        4 => {
            let mut bound = pod(dice).name(format!("d{step}")).on(format!("n{}", dice.roll(nodes)));
            bound.deleting = true;
            cluster.add_pod(bound).unwrap();
        }
        5 => {
            if let Some((namespace, name)) = some(dice) {
                let pod = cluster.pod(namespace, name).unwrap();
                let shape = Arc::new(pod.shape().clone());
                let node = pod.node().map_or("gone", NodeView::name).to_string();
                cluster.remove_pod(namespace, name).unwrap();
                let mut leaving = Pod::of_shape(shape).name(name.as_str()).on(node);
                leaving.deleting = true;
                cluster.add_pod(leaving).unwrap();
            }
        }
        8 if dice.one_in(2) => {
            let name = dice.roll(nodes);
            let changed = node(dice, name);
            cluster.update_node(&changed).unwrap();
        }
        6 if dice.one_in(2) => {
            let team = Labels::from([("team".to_string(), dice.of(&["x", "y"]).to_string())]);
            cluster.set_namespace(dice.of(&["default", "other"]), team);
        }
        7 => *cluster = cluster.clone(),
        _ => {}
    }
}

#[test]
fn classes_answer_like_the_plain_loop() {
    let (mut placed, mut fast, mut asked) = (0, 0, 0);
    for seed in 0..2_000 {
        let mut dice = Dice(seed);
        let mut cluster = Cluster::builder().levels([ZONE, RACK]).build().unwrap();
        let most = if dice.one_in(4) { 40 } else { 12 };
        let nodes = 1 + dice.roll(most);
        for name in 0..nodes {
            let node = node(&mut dice, name);
            cluster.add_node(node).unwrap();
        }
        let framework = framework(&mut dice);
        let mut planner = if dice.one_in(4) { Planner::unpruned() } else { Planner::new() };
        planner = planner.threads(1 + dice.roll(2) as usize);
        let shared = leaf(&mut dice, "shared");
        for step in 0..12 {
            let name = format!("g{step}");
            let group =
                if dice.one_in(2) { again(&shared, &name) } else { group(&mut dice, &name) };
            let request = Request::new(&group).strategy(Strategy::Kubernetes);
            let calls = planner.plugin_calls();
            let given = planner.place(&cluster, &framework, request);
            asked += 1;
            fast += u32::from(planner.plugin_calls() > calls);
            let expected = Planner::place_reference(&cluster, &framework, &group);
            assert_eq!(brief(&given), brief(&expected), "seed {seed} step {step}");
            assert_eq!(given, expected, "seed {seed} step {step}");
            if let Ok(outcome) = given
                && let Some(plan) = outcome.plan()
                && dice.roll(4) > 0
            {
                placed += plan.len();
                let asked = Request::new(&group).strategy(Strategy::Kubernetes);
                phalanx::reference::is_sound(plan, asked, &cluster, &framework).unwrap();
                cluster.commit(&framework, plan).unwrap();
            }
            disturb(&mut dice, &mut cluster, nodes, step);
        }
    }
    assert!(placed > 20_000, "only {placed} pods placed");
    assert!(fast * 10 > asked * 7, "{fast} of {asked} with what was kept");
}

/// Nodes in 20 racks and 4 zones.
fn racks(nodes: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels([ZONE, RACK]).build().unwrap();
    for number in 0..nodes {
        let name = format!("n{number:05}");
        let node = Node::new(name.as_str())
            .capacity("cpu", 16)
            .capacity("pods", 110)
            .label(RACK, format!("r{}", number % 20))
            .label(ZONE, format!("z{}", number % 4))
            .label(HOSTNAME, name);
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn app() -> LabelSelector {
    LabelSelector::label("app", "x")
}

/// Evaluations per placement, beyond the first look at every node: for gangs of 100 pods on few
/// and on many nodes.
fn work(pod: &Pod) -> Vec<f64> {
    let framework = Framework::kubernetes();
    let calls = |nodes: usize, members: usize| {
        let cluster = racks(nodes);
        let mut planner = Planner::new();
        let gang = PodGroup::gang("g", members as u32).pods(members, pod.clone());
        let request = Request::new(&gang).strategy(Strategy::Kubernetes);
        let outcome = planner.place(&cluster, &framework, request).unwrap();
        assert_eq!(outcome.plan().map_or(0, phalanx::Plan::len), members);
        let calls = planner.plugin_calls();
        assert!(calls > 0, "not by classes");
        calls as f64
    };
    let per_placement = |nodes| (calls(nodes, 101) - calls(nodes, 1)) / 100.0;
    [200, 1_000, 4_000].map(per_placement).to_vec()
}

/// Near plugins are asked about the changed node, far ones once a domain at most.
#[test]
fn work_is_bounded_by_domains_not_by_nodes() {
    let pod = || Pod::new().request("cpu", "100m").label("app", "x");
    let near = 8.0;
    let zones = pod().spread(SpreadConstraint::new(1, ZONE, app()));
    let racks = pod().affinity(PodAffinityTerm::new(RACK, app()));
    let anti = pod().anti_affinity(PodAffinityTerm::new(HOSTNAME, app()));
    let wish = pod().spread(SpreadConstraint::new(1, RACK, app()).preferred());
    let both = anti.clone().spread(SpreadConstraint::new(1, ZONE, app()));
    for (pod, far) in
        [(&zones, 4.0), (&racks, 2.0), (&anti, 2.0), (&wish, 20.0), (&both, 4.0 + 2.0)]
    {
        let work = work(pod);
        for calls in &work {
            assert!(*calls <= near + far, "{work:?} for {:?}", pod.shape());
        }
    }
}

/// A kept company is told of pods that come and go, and asks about those domains alone.
#[test]
fn one_pod_at_a_time_costs_what_has_changed() {
    let framework = Framework::kubernetes();
    let mut cluster = racks(2_000);
    let mut planner = Planner::new();
    let shape = Arc::clone(
        Pod::new()
            .request("cpu", "100m")
            .label("app", "x")
            .spread(SpreadConstraint::new(1, ZONE, app()))
            .anti_affinity(PodAffinityTerm::new(HOSTNAME, app()))
            .shape(),
    );
    let mut place = |cluster: &mut Cluster, number: usize| {
        let before = planner.plugin_calls();
        let gang = PodGroup::gang(format!("g{number}"), 1).pods(1, Pod::of_shape(shape.clone()));
        let request = Request::new(&gang).strategy(Strategy::Kubernetes);
        let outcome = planner.place(cluster, &framework, request).unwrap();
        assert_eq!(Ok(outcome.clone()), Planner::place_reference(cluster, &framework, &gang));
        cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
        planner.plugin_calls() - before
    };
    for number in 0..4 {
        place(&mut cluster, number);
    }
    for number in 4..24 {
        let calls = place(&mut cluster, number);
        assert!(calls <= 20, "{calls}");
        if number % 5 == 0 {
            cluster.remove_pod("default", &format!("g{}-0", number - 3)).unwrap();
        }
    }
}

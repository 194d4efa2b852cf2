//! A planner's kept results through changes of nodes. It answers as the plain loop does, and asks
//! plugins only about the rows that a change reaches by their declarations.

use phalanx::model::{
    Effect, Image, LabelSelector, Labels, PodAffinityTerm, SpreadConstraint, Taint, Toleration,
};
use phalanx::reference;
use phalanx::{
    Cluster, Event, Framework, Node, Outcome, Planner, Pod, PodGroup, Request, Strategy,
};

use crate::support::budget;
use crate::support::dice::Dice;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "rack";

fn node(dice: &mut Dice, name: u64) -> Node {
    let mut node = Node::new(format!("n{name}"))
        .capacity("cpu", 1 + dice.roll(6) as i64)
        .capacity("memory", 1_000_000_000 * (1 + dice.roll(5) as i64))
        .label(HOSTNAME, format!("n{name}"));
    if dice.roll(8) > 0 {
        node = node.label(ZONE, dice.of(&["a", "b", "c"]));
    }
    if dice.roll(5) > 0 {
        node = node.label(RACK, format!("r{}", dice.roll(4)));
    }
    if dice.one_in(4) {
        node = node.label("disk", dice.of(&["ssd", "hdd"]));
    }
    if dice.one_in(6) {
        node = node.capacity(dice.of(&["example.com/a", "example.com/b"]), 1 + dice.roll(3) as i64);
    }
    match dice.roll(10) {
        0 => node = node.taint(Taint::new("t", "", Effect::PreferNoSchedule)),
        1 => node = node.taint(Taint::new("t", "", Effect::NoSchedule)),
        2 => node = node.unschedulable(),
        3 => node = node.capacity("pods", dice.roll(4) as i64),
        4 => node.tie_rank = dice.roll(3) as i64 - 1,
        _ => {}
    }
    if dice.one_in(3) {
        let size = 100_000_000 * (1 + dice.roll(9) as i64);
        node.images.push(Image::new([dice.of(&["app:1", "app:2"])], size));
    }
    node
}

/// One thing of a node made another.
fn changed(dice: &mut Dice, mut node: Node) -> Node {
    match dice.roll(9) {
        0 => {}
        1 => node.unschedulable = !node.unschedulable,
        2 if node.taints.is_empty() => {
            let effect = dice.of(&[0, 1]);
            let effect = if effect == 0 { Effect::NoSchedule } else { Effect::PreferNoSchedule };
            node = node.taint(Taint::new("t", "", effect));
        }
        2 => node.taints.clear(),
        3 => node = node.label(dice.of(&["note", "disk"]), dice.of(&["ssd", "x"])),
        4 => node = node.label(dice.of(&[ZONE, RACK]), dice.of(&["a", "b", "r1"])),
        5 => {
            node.labels.remove(dice.of(&[ZONE, RACK, "disk"]));
        }
        6 => node = node.capacity("cpu", dice.roll(8) as i64),
        7 => node.tie_rank = dice.roll(3) as i64 - 1,
        _ => {
            node.images.clear();
            if dice.one_in(2) {
                node.images.push(Image::new(["app:1"], 300_000_000));
            }
        }
    }
    node
}

fn pod(dice: &mut Dice) -> Pod {
    let mut pod = Pod::new().request("cpu", format!("{}m", 250 * dice.roll(5)).as_str());
    if dice.roll(3) > 0 {
        pod = pod.label("app", dice.of(&["a", "b"]));
    }
    if dice.one_in(5) {
        pod = pod.node_selector("disk", "ssd");
    }
    if dice.one_in(6) {
        pod = pod.toleration(Toleration::exists("t"));
    }
    if dice.one_in(6) {
        pod = pod.request(dice.of(&["example.com/a", "example.com/b"]), 1);
    }
    if dice.one_in(12) {
        pod.shape_mut().node_name = Some(format!("n{}", dice.roll(8)));
    }
    if dice.one_in(4) {
        pod.shape_mut().images.push(dice.of(&["app:1", "app:2"]).into());
    }
    if dice.one_in(3) {
        let selector = LabelSelector::label("app", dice.of(&["a", "b"]));
        let key = dice.of(&[ZONE, RACK, HOSTNAME]);
        let constraint = SpreadConstraint::new(1 + dice.roll(2) as i32, key, selector);
        pod = pod.spread(if dice.one_in(2) { constraint } else { constraint.preferred() });
    }
    if dice.one_in(5) {
        let key = dice.of(&[ZONE, RACK, HOSTNAME]);
        let mut term = PodAffinityTerm::new(key, LabelSelector::label("app", "a"));
        if dice.one_in(3) {
            term.namespace_selector = Some(LabelSelector::label("team", "x"));
        }
        pod = if dice.one_in(2) { pod.affinity(term) } else { pod.anti_affinity(term) };
    }
    pod
}

/// Something happens to the cluster.
fn disturb(dice: &mut Dice, cluster: &mut Cluster, step: u64) {
    let nodes: Vec<Node> = cluster.nodes().map(phalanx::state::NodeView::to_node).collect();
    let some = |dice: &mut Dice| nodes.get(dice.roll(nodes.len().max(1) as u64) as usize).cloned();
    match dice.roll(10) {
        0 => {
            let name = dice.roll(16);
            let added = node(dice, name);
            let _ = cluster.apply(Event::NodeChanged { node: added, version: 0 }).unwrap();
        }
        1 => {
            if let Some(node) = some(dice) {
                cluster.remove_node(&node.name).unwrap();
            }
        }
        2..=5 => {
            if let Some(node) = some(dice) {
                let changed = changed(dice, node);
                cluster.update_node(&changed).unwrap();
            }
        }
        6 => {
            let team = Labels::from([("team".to_string(), dice.of(&["x", "y"]).to_string())]);
            cluster.set_namespace("default", team);
        }
        7 => {
            let mut bound = pod(dice).name(format!("b{step}")).on(format!("n{}", dice.roll(16)));
            bound.deleting = dice.one_in(4);
            let _ = cluster.apply(Event::PodChanged { pod: bound, version: 0 });
        }
        8 => {
            let pods: Vec<String> = cluster.pods().map(|pod| pod.name().to_string()).collect();
            if let Some(name) = pods.get(dice.roll(pods.len().max(1) as u64) as usize) {
                cluster.remove_pod("default", name).unwrap();
            }
        }
        _ => *cluster = cluster.clone(),
    }
}

fn gang(dice: &mut Dice, name: &str, shapes: &[Pod]) -> PodGroup {
    let members = 1 + dice.roll(5);
    let mut group = PodGroup::gang(name, 1 + dice.roll(members) as u32);
    let mixed = dice.one_in(3);
    let one = dice.roll(shapes.len() as u64) as usize;
    for _ in 0..members {
        let at = if mixed { dice.roll(shapes.len() as u64) as usize } else { one };
        group = group.pods(1, shapes[at].clone());
    }
    match dice.roll(5) {
        0 => group.require(ZONE),
        1 => group.prefer(RACK),
        _ => group,
    }
}

/// Streams of changes of nodes, pods and namespaces: with what was kept, and salted or not, a
/// planner answers as the plain loop does; a search answers as a planner that keeps nothing.
/// Pods that were placed, and groups that a search found a place for.
pub(crate) fn stream(seed: u64) -> (usize, u64) {
    let (mut placed, mut found) = (0, 0);
    let mut dice = Dice(seed);
    let mut cluster = Cluster::builder().levels([ZONE, RACK]).build().unwrap();
    for name in 0..dice.roll(12) {
        let node = node(&mut dice, name);
        cluster.add_node(node).unwrap();
    }
    let framework = match seed % 2 {
        0 => Framework::kubernetes(),
        _ => Framework::default(),
    };
    let mut planner = Planner::new().threads(1 + dice.roll(2) as usize);
    let shapes: Vec<Pod> = (0..3).map(|_| pod(&mut dice)).collect();
    let own = dice.of(&[0, 0, 1, 77]);
    for step in 0..25 {
        let group = gang(&mut dice, &format!("g{step}"), &shapes);
        let salt = if dice.one_in(8) { dice.roll(7) } else { own };
        let request = || Request::new(&group).strategy(Strategy::Kubernetes).salt(salt);
        let given = planner.place(&cluster, &framework, request());
        let expected = reference::place_by_definition(&cluster, &framework, request());
        assert_eq!(given, expected, "seed {seed} step {step} salt {salt}");
        if dice.one_in(3) {
            let request = || Request::new(&group).strategy(Strategy::Search).salt(salt);
            let given = planner.place(&cluster, &framework, request());
            let expected = Planner::new().place(&cluster, &framework, request());
            assert_eq!(given, expected, "seed {seed} step {step} salt {salt}");
            found += u64::from(given.is_ok_and(|outcome| outcome.is_placed()));
        }
        if let Ok(Outcome::Placed(plan)) = expected
            && dice.roll(3) > 0
        {
            placed += plan.len();
            cluster.commit(&framework, &plan).unwrap();
        }
        for _ in 0..dice.roll(4) {
            disturb(&mut dice, &mut cluster, step);
        }
    }
    (placed, found)
}

#[test]
fn what_is_kept_through_changes_of_nodes_is_right() {
    let seeds = budget::of(20, 3_000);
    let sum = |sum: (usize, u64), one: (usize, u64)| (sum.0 + one.0, sum.1 + one.1);
    let (placed, found) = (0..seeds).map(stream).fold((0, 0), sum);
    assert!(placed as u64 > 6 * seeds, "{placed} pods placed");
    assert!(found > seeds, "{found} groups found a place");
}

/// Streams of one planner that goes between clusters of other sizes, copies of each other among
/// them, and transactions that are taken back: what it keeps of one is nothing it says of another.
#[test]
fn what_is_kept_of_one_cluster_is_not_said_of_another() {
    let mut placed = 0;
    let seeds = budget::of(10, 2_000);
    for seed in 0..seeds {
        let mut dice = Dice(seed);
        let mut clusters: Vec<Cluster> = Vec::new();
        for _ in 0..3 {
            let mut cluster = Cluster::builder().levels([ZONE, RACK]).build().unwrap();
            for name in 0..dice.roll(12) {
                let node = node(&mut dice, name);
                cluster.add_node(node).unwrap();
            }
            clusters.push(cluster);
        }
        let framework = Framework::kubernetes();
        let mut planner = Planner::new();
        let shapes: Vec<Pod> = (0..3).map(|_| pod(&mut dice)).collect();
        for step in 0..16 {
            if dice.one_in(4) {
                let (from, to) = (dice.roll(3) as usize, dice.roll(3) as usize);
                clusters[to] = clusters[from].clone();
            }
            let cluster = &mut clusters[dice.roll(3) as usize];
            let group = gang(&mut dice, &format!("g{step}"), &shapes);
            let salt = dice.of(&[0, 0, 1, 77]);
            let mut check = |cluster: &Cluster| {
                let request = |strategy| Request::new(&group).strategy(strategy).salt(salt);
                let search = || request(Strategy::Search);
                let given = planner.place(cluster, &framework, search());
                let expected = Planner::new().place(cluster, &framework, search());
                assert_eq!(given, expected, "seed {seed} step {step} salt {salt}");
                let sequential = || request(Strategy::Kubernetes);
                let given = planner.place(cluster, &framework, sequential());
                let expected = reference::place_by_definition(cluster, &framework, sequential());
                assert_eq!(given, expected, "seed {seed} step {step} salt {salt}");
                given
            };
            let mut txn = cluster.txn();
            let before = txn.checkpoint();
            let _ = txn.add_node(node(&mut dice, 20));
            if let Some(node) = txn.nodes().last() {
                let id = node.id();
                let _ = txn.place(&pod(&mut dice), id);
            }
            let _ = check(&txn);
            txn.rollback(before).unwrap();
            let _ = check(&txn);
            if let Ok(Outcome::Placed(plan)) = check(cluster)
                && dice.one_in(2)
            {
                placed += plan.len() as u64;
                cluster.commit(&framework, &plan).unwrap();
            }
            for _ in 0..dice.roll(4) {
                disturb(&mut dice, cluster, step);
            }
        }
    }
    assert!(placed > 3 * seeds, "{placed} pods placed");
}

/// The free total is counted anew where a cluster has fewer nodes than the last.
#[test]
fn a_smaller_cluster_has_only_the_room_of_its_own_nodes() {
    let cluster = |nodes: usize| {
        let mut cluster = Cluster::new();
        for n in 0..nodes {
            cluster.add_node(Node::new(format!("n{n}")).capacity("pods", 1)).unwrap();
        }
        cluster
    };
    let framework = Framework::default();
    let mut planner = Planner::new();
    let mut place = |cluster: &Cluster, members: u32| {
        let group = PodGroup::gang("g", members).pods(members as usize, Pod::new());
        let request = || Request::new(&group).strategy(Strategy::Search);
        let given = planner.place(cluster, &framework, request());
        assert_eq!(given, Planner::new().place(cluster, &framework, request()));
        given.unwrap().is_placed()
    };
    assert!(!place(&cluster(10), 11));
    assert!(!place(&cluster(2), 4));
    assert!(place(&cluster(2), 2));
}

const NODES: usize = 2_000;

/// Nodes in 20 racks.
fn racks() -> Cluster {
    let mut cluster = Cluster::builder().levels([RACK]).build().unwrap();
    for n in 0..NODES {
        let node = Node::new(format!("n{n}")).capacity("cpu", 64).capacity("memory", 1_i64 << 40);
        cluster.add_node(node.label(RACK, format!("r{}", n % 20))).unwrap();
    }
    cluster
}

/// A planner that has placed a gang of four some times, and how often it calls plugins for one
/// more after an event.
struct Warm {
    cluster: Cluster,
    framework: Framework,
    planner: Planner,
    pod: Pod,
    salt: u64,
    gangs: usize,
}

impl Warm {
    fn new(framework: Framework, pod: Pod, salt: u64) -> Warm {
        let planner = Planner::new();
        let mut warm = Warm { cluster: racks(), framework, planner, pod, salt, gangs: 0 };
        (0..4).for_each(|_| {
            warm.calls();
        });
        warm
    }

    fn calls(&mut self) -> u64 {
        self.gangs += 1;
        let group = PodGroup::gang(format!("g{}", self.gangs), 4).pods(4, self.pod.clone());
        let before = reference::plugin_calls(&self.planner);
        let request = || Request::new(&group).strategy(Strategy::Kubernetes).salt(self.salt);
        let given = self.planner.place(&self.cluster, &self.framework, request()).unwrap();
        let calls = reference::plugin_calls(&self.planner) - before;
        assert!(given.is_placed());
        let expected = reference::place_by_definition(&self.cluster, &self.framework, request());
        assert_eq!(given, expected.unwrap());
        calls
    }

    fn update(&mut self, change: impl FnOnce(Node) -> Node) -> u64 {
        let node = self.cluster.node("n7").unwrap().to_node();
        self.cluster.apply(Event::NodeChanged { node: change(node), version: 0 }).unwrap();
        self.calls()
    }

    /// Every kind of change of one node, by name.
    fn events(&mut self) -> Vec<(&'static str, u64)> {
        let taint = Taint::new("t", "", Effect::NoSchedule);
        let mut events = vec![
            ("equal", self.update(|node| node)),
            ("relabelled", self.update(|node| node.label("note", "x"))),
            ("tainted", self.update(|node| node.taint(taint))),
            ("cordoned", self.update(Node::unschedulable)),
            (
                "opened",
                self.update(|mut node| {
                    node.unschedulable = false;
                    node
                }),
            ),
            (
                "cleared",
                self.update(|mut node| {
                    node.taints.clear();
                    node
                }),
            ),
            ("resized", self.update(|node| node.capacity("cpu", 65))),
            (
                "ranked",
                self.update(|mut node| {
                    node.tie_rank = -1;
                    node
                }),
            ),
        ];
        let node = Node::new("added").capacity("cpu", 64).label(RACK, "r1");
        self.cluster.add_node(node).unwrap();
        events.push(("added", self.calls()));
        self.cluster.remove_node("n9").unwrap();
        events.push(("removed", self.calls()));
        self.cluster.set_namespace("default", Labels::from([("team".into(), "x".into())]));
        events.push(("namespace", self.calls()));
        events
    }
}

/// One row of 2,000 is judged again, salted or not.
#[test]
fn a_change_of_one_node_costs_one_row() {
    for framework in [Framework::kubernetes(), Framework::default()] {
        for salt in [0, 9] {
            let mut warm = Warm::new(framework.clone(), Pod::new().request("cpu", 1), salt);
            let usual = warm.calls();
            assert!(usual < 60, "{usual} calls of plugins where nothing has changed");
            for (event, calls) in warm.events() {
                assert!(calls <= usual + 24, "{event}: {usual} calls of plugins, then {calls}");
            }
        }
    }
}

/// Plugins that read beyond the node are asked once a class, and others about one row.
#[test]
fn a_change_of_one_node_costs_classes_where_plugins_read_beyond_it() {
    let selector = LabelSelector::label("app", "a");
    let pod = Pod::new().request("cpu", 1).label("app", "a");
    let pod = pod.spread(SpreadConstraint::new(2, RACK, selector));
    for salt in [0, 9] {
        let mut warm = Warm::new(Framework::kubernetes(), pod.clone(), salt);
        let usual = warm.calls();
        for (event, calls) in warm.events() {
            assert!(calls <= usual + 100, "{event}: {usual} calls of plugins, then {calls}");
        }
    }
}

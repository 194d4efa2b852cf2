//! The third check: a sound plan passes, and each promise, broken alone, is noticed.

use crate::support::budget;
use crate::support::dice::Dice;
use phalanx::model::{Device, DeviceRequest, Effect, GroupPolicy, IslandRule, Taint};
use phalanx::plugins::{DeviceFit, Fit};
use phalanx::reference::{Broken, is_sound};
use phalanx::{
    Cluster, Framework, Node, Outcome, Plan, Planner, Pod, PodGroup, Request, Strategy, place_gang,
};
use serde_json::{Value, json};

/// Two zones `a` and `b` of two racks of two nodes: `a0-0`, `a0-1`, `a1-0`, … Racks have names of
/// their own, or the same in both zones.
fn cluster(repeated: bool) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for zone in ["a", "b"] {
        for number in 0..4 {
            let rack = format!("{zone}{}", number / 2);
            let name = format!("{rack}-{}", number % 2);
            let rack = if repeated { rack[1..].to_owned() } else { rack };
            let node = Node::new(name).capacity("cpu", 8).capacity("pods", 16);
            cluster.add_node(node.label("zone", zone).label("rack", rack)).unwrap();
        }
    }
    cluster
}

fn pod() -> Pod {
    Pod::new().request("cpu", 1)
}

fn gang(pods: u32) -> PodGroup {
    PodGroup::gang("g", pods).pods(pods as usize, pod())
}

fn placed(cluster: &Cluster, request: &Request<'_>) -> Plan {
    match place_gang(cluster, &Framework::default(), request.clone()).unwrap() {
        Outcome::Placed(plan) => plan,
        other => panic!("{other}"),
    }
}

/// A plan with these pods on these nodes, and these domains.
fn plan(group: &str, pods: &[(Pod, &str)], domains: &[(&str, &str, &str)]) -> Plan {
    let lines: Vec<Value> =
        pods.iter().map(|(pod, node)| json!({ "pod": pod, "node": node })).collect();
    let (all, mut found) = (pods.len(), Vec::new());
    for (group, key, value) in domains {
        let range = json!({ "first": 0, "end": all });
        let path = json!([{ "key": key, "value": value }]);
        let mut domain = json!({ "group": group, "path": path });
        domain.as_object_mut().unwrap().extend(range.as_object().unwrap().clone());
        found.push(domain);
    }
    let root = json!({
        "namespace": "default", "name": group, "parent": 0, "minCount": 1, "planned": all,
    });
    let data = json!({ "groups": [root], "assignments": lines, "domains": found });
    serde_json::from_value(data).unwrap()
}

/// The members of a group on these nodes, in order.
fn on<'n>(group: &PodGroup, nodes: &[&'n str]) -> Vec<(Pod, &'n str)> {
    group.all_pods().into_iter().cloned().zip(nodes.iter().copied()).collect()
}

fn broken(
    plan: &Plan,
    group: &PodGroup,
    cluster: &Cluster,
    strategy: Strategy,
) -> Result<(), Vec<Broken>> {
    let request = Request::new(group).strategy(strategy);
    is_sound(plan, request, cluster, &Framework::default()).map_err(|unsound| unsound.broken)
}

/// The only promise broken.
#[track_caller]
fn one(plan: &Plan, group: &PodGroup, cluster: &Cluster) -> Broken {
    let [search, kubernetes] = [Strategy::Search, Strategy::Kubernetes].map(|strategy| {
        let mut found = broken(plan, group, cluster, strategy).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    });
    assert_eq!(search, kubernetes);
    search
}

/// A plan with one thing changed in its text.
fn altered(plan: &Plan, change: impl FnOnce(&mut Value)) -> Plan {
    let mut value = serde_json::to_value(plan).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

#[test]
fn pods_are_those_of_the_request_each_once() {
    let cluster = cluster(false);
    let group = gang(2);
    let good = placed(&cluster, &Request::new(&group));
    assert_eq!(broken(&good, &group, &cluster, Strategy::Search), Ok(()));

    let named = |name: &str| format!("default/{name}");
    let other = altered(&good, |plan| plan["groups"][0]["name"] = "h".into());
    assert_eq!(one(&other, &group, &cluster), Broken::OtherGroup(named("h")));
    let empty = altered(&good, |plan| plan["assignments"] = json!([]));
    assert_eq!(one(&empty, &group, &cluster), Broken::Empty);
    // A third pod that is not known, and one of another shape.
    let more = altered(&good, |plan| {
        let mut line = plan["assignments"][0].clone();
        line["pod"]["name"] = "g-7".into();
        plan["assignments"].as_array_mut().unwrap().push(line);
    });
    assert_eq!(one(&more, &group, &cluster), Broken::UnknownPod(named("g-7")));
    let larger = PodGroup::gang("g", 1).pods(1, pod()).pods(1, pod().request("cpu", 2));
    assert_eq!(one(&good, &larger, &cluster), Broken::UnknownPod(named("g-1")));
    let twice = altered(&good, |plan| {
        let line = plan["assignments"][1].clone();
        plan["assignments"].as_array_mut().unwrap().push(line);
    });
    assert_eq!(one(&twice, &group, &cluster), Broken::Twice(named("g-1")));
    let nowhere = altered(&good, |plan| plan["assignments"][0]["node"] = "gone".into());
    let found = broken(&nowhere, &group, &cluster, Strategy::Search).unwrap_err();
    let (pod_name, node) = (named("g-0"), String::from("gone"));
    assert!(found.contains(&Broken::UnknownNode { pod: pod_name, node }), "{found:?}");

    let mut gated = gang(2);
    gated.pods[1].scheduling_gates.push("later".into());
    assert_eq!(one(&good, &gated, &cluster), Broken::Gated(named("g-1")));
    let mut bound = cluster.clone();
    bound.add_pod(pod().name("g-1").on("b1-1")).unwrap();
    assert_eq!(one(&good, &group, &bound), Broken::AlreadyBound(named("g-1")));

    let inside = Request::new(&group).within("zone", "b");
    let outside = is_sound(&good, inside, &cluster, &Framework::default()).unwrap_err();
    assert!(matches!(&outside.broken[..], [Broken::Outside { .. }, Broken::Outside { .. }]));
    let unsound = PodGroup::gang("g", 0);
    assert!(matches!(one(&good, &unsound, &cluster), Broken::Request(_)));
}

#[test]
fn minima_hold_at_every_level() {
    let cluster = cluster(false);
    let leaf = |name: &str, pods: u32| PodGroup::gang(name, pods).pods(pods as usize, pod());
    let group = PodGroup::gang("t", 1).group(leaf("x", 2)).group(leaf("y", 2));
    let all = on(&group, &["a0-0"; 4]);
    let whole = plan("t", &all, &[]);
    assert_eq!(broken(&whole, &group, &cluster, Strategy::Search), Ok(()));
    assert_eq!(broken(&plan("t", &all[..2], &[]), &group, &cluster, Strategy::Search), Ok(()));
    let below = |group: &str, have: usize, need: u32| Broken::BelowMinimum {
        group: format!("default/{group}"),
        have,
        need,
    };
    assert_eq!(one(&plan("t", &all[..3], &[]), &group, &cluster), below("y", 1, 2));
    let both = PodGroup::gang("t", 2).group(leaf("x", 2)).group(leaf("y", 2));
    assert_eq!(one(&plan("t", &all[..2], &[]), &both, &cluster), below("t", 1, 2));
    let mut pods = group.clone();
    pods.min_pods = Some(3);
    let few = Broken::BelowMinPods { group: "default/t".into(), have: 2, need: 3 };
    assert_eq!(one(&plan("t", &all[..2], &[]), &pods, &cluster), few);

    // Members that run count: of the group of the same namespace alone.
    let mut running = cluster.clone();
    running.add_pod(pod().name("old").in_group("y").on("b1-0")).unwrap();
    assert_eq!(broken(&plan("t", &all[..3], &[]), &both, &running, Strategy::Search), Ok(()));
    assert_eq!(broken(&plan("t", &all[..3], &[]), &pods, &running, Strategy::Search), Ok(()));
    let mut alike = cluster.clone();
    alike.add_pod(pod().in_namespace("a/b").name("old").in_group("c").on("b1-0")).unwrap();
    let slashed = PodGroup::gang("b/c", 2).in_namespace("a").pods(1, pod());
    let mut half = serde_json::to_value(plan("b/c", &on(&slashed, &["a0-0"]), &[])).unwrap();
    half["groups"][0]["namespace"] = "a".into();
    let half: Plan = serde_json::from_value(half).unwrap();
    let found = Broken::BelowMinimum { group: "a/b/c".into(), have: 1, need: 2 };
    assert_eq!(one(&half, &slashed, &alike), found);

    // To Kueue minima are nothing, and every pending pod is placed.
    let mut loose = gang(3);
    loose.policy = GroupPolicy::Gang { min_count: 1 };
    let two = plan("g", &on(&loose, &["a0-0", "a0-1"]), &[]);
    assert_eq!(broken(&two, &loose, &cluster, Strategy::Search), Ok(()));
    let left = broken(&two, &loose, &cluster, Strategy::Kueue).unwrap_err();
    assert_eq!(left, [Broken::LeftOut("default/g-2".into())]);
}

#[test]
fn required_levels_are_one_domain_at_every_depth() {
    let cluster = cluster(false);
    let leaf = |name: &str| PodGroup::gang(name, 2).pods(2, pod());
    let scattered = |group: &str, key: &str, domains: &[&str]| Broken::Scattered {
        group: format!("default/{group}"),
        key: key.into(),
        domains: domains.iter().map(ToString::to_string).collect(),
    };
    let paths = |plan: &Plan, group: &PodGroup, cluster: &Cluster| {
        broken(plan, group, cluster, Strategy::Search).unwrap_err()
    };
    let tree = PodGroup::gang("t", 2).group(leaf("x").require("rack")).group(leaf("y"));
    let tree = tree.require("zone");
    let domains = [("default/t", "zone", "a"), ("default/x", "rack", "a0")];
    let ranged = |nodes: &[&str]| {
        let plan = plan("t", &on(&tree, nodes), &domains);
        altered(&plan, |plan| plan["domains"][1]["end"] = 2.into())
    };
    let good = ranged(&["a0-0", "a0-1", "a1-0", "a0-0"]);
    assert_eq!(broken(&good, &tree, &cluster, Strategy::Search), Ok(()));
    assert_eq!(broken(&good, &tree, &cluster, Strategy::Kubernetes), Ok(()));
    let racks = paths(&ranged(&["a0-0", "a1-1", "a1-0", "a0-0"]), &tree, &cluster);
    assert_eq!(racks[0], scattered("x", "rack", &["a/a0", "a/a1"]));
    assert!(matches!(&racks[1..], [Broken::Misrecorded { .. }]), "{racks:?}");
    let zones = paths(&ranged(&["a0-0", "a0-1", "a1-0", "b0-0"]), &tree, &cluster);
    assert_eq!(zones[0], scattered("t", "zone", &["a", "b"]));

    // Those that run are members too.
    let group = gang(1).require("rack");
    let alone = plan("g", &on(&group, &["a0-0"]), &[("default/g", "rack", "a0")]);
    assert_eq!(broken(&alone, &group, &cluster, Strategy::Search), Ok(()));
    let mut running = cluster.clone();
    running.add_pod(pod().name("old").in_group("g").on("b0-0")).unwrap();
    assert_eq!(paths(&alone, &group, &running), [scattered("g", "rack", &["a/a0", "b/b0"])]);

    // A preference beside a requirement takes nothing from it.
    for (prefer, highest) in [("zone", None), ("rack", Some("zone")), ("rack", None)] {
        let mut group = gang(2).prefer(prefer).require("rack");
        group.topology.highest = highest.map(Into::into);
        let two = plan("g", &on(&group, &["a0-0", "a1-0"]), &[("default/g", "zone", "a")]);
        let found = scattered("g", "rack", &["a/a0", "a/a1"]);
        assert_eq!(paths(&two, &group, &cluster), [found], "{prefer}");
    }
    // The highest level bounds a preference.
    let mut bounded = gang(2).prefer("rack");
    bounded.topology.highest = Some("zone".into());
    let two = |nodes| plan("g", &on(&bounded, nodes), &[("default/g", "zone", "a")]);
    assert_eq!(broken(&two(&["a0-0", "a1-0"]), &bounded, &cluster, Strategy::Search), Ok(()));
    let found = paths(&two(&["a0-0", "b1-0"]), &bounded, &cluster);
    assert_eq!(found[0], scattered("g", "zone", &["a", "b"]));
    let free = gang(2).prefer("rack");
    let apart = plan("g", &on(&free, &["a0-0", "b1-0"]), &[]);
    assert_eq!(broken(&apart, &free, &cluster, Strategy::Search), Ok(()));

    // A node without the label is in no domain.
    let mut bare = cluster.clone();
    bare.add_node(Node::new("bare").capacity("cpu", 8).label("zone", "a")).unwrap();
    let off = plan("g", &on(&group, &["bare"]), &[("default/g", "zone", "a")]);
    assert_eq!(paths(&off, &group, &bare), [scattered("g", "rack", &["node bare"])]);
}

#[test]
fn racks_of_one_name_are_one_domain_to_kubernetes_alone() {
    let cluster = cluster(true);
    let group = gang(2).require("rack");
    let two = plan("g", &on(&group, &["a0-0", "b0-0"]), &[("default/g", "rack", "0")]);
    assert_eq!(broken(&two, &group, &cluster, Strategy::Kubernetes), Ok(()));
    for strategy in [Strategy::Search, Strategy::Kueue] {
        let found = broken(&two, &group, &cluster, strategy).unwrap_err();
        assert!(
            matches!(&found[0], Broken::Scattered { domains, .. } if *domains == ["a/0", "b/0"])
        );
    }
    // A key that is no level is told by its value alone.
    let mut flat = Cluster::new();
    for (name, zone) in [("n1", "a"), ("n2", "b")] {
        let node = Node::new(name).capacity("cpu", 8).label("zone", zone).label("rack", "0");
        flat.add_node(node).unwrap();
    }
    let two = plan("g", &on(&group, &["n1", "n2"]), &[("default/g", "rack", "0")]);
    assert_eq!(broken(&two, &group, &flat, Strategy::Search), Ok(()));
}

#[test]
fn what_is_recorded_is_so() {
    let cluster = cluster(false);
    let group = gang(2).require("rack");
    let good = placed(&cluster, &Request::new(&group));
    let wrong = altered(&good, |plan| {
        let path = plan["domains"][0]["path"].as_array_mut().unwrap();
        path.last_mut().unwrap()["value"] = "b1".into();
    });
    let Broken::Misrecorded { value, pod, .. } = one(&wrong, &group, &cluster) else { panic!() };
    assert_eq!((&*value, &*pod), ("b1", "default/g-0"));
    let none = altered(&good, |plan| plan["domains"] = json!([]));
    let missing = Broken::Unrecorded { group: "default/g".into(), key: "rack".into() };
    assert_eq!(one(&none, &group, &cluster), missing);
    let strange = altered(&good, |plan| {
        let mut domain = plan["domains"][0].clone();
        domain["group"] = "default/h".into();
        plan["domains"].as_array_mut().unwrap().push(domain);
    });
    assert_eq!(one(&strange, &group, &cluster), Broken::UnknownRecord("default/h".into()));
}

#[test]
fn slices_and_leaders() {
    let cluster = cluster(false);
    let mut group = gang(5).slice("zone", 4).slice("rack", 2);
    group.policy = GroupPolicy::Gang { min_count: 1 };
    let search = |nodes: &[&str]| {
        let plan = plan("g", &on(&group, nodes), &[]);
        broken(&plan, &group, &cluster, Strategy::Search)
    };
    assert_eq!(search(&["a0-0", "a0-1", "a1-0", "a1-1", "b0-0"]), Ok(()));
    let found = search(&["a0-0", "a1-1", "a1-0", "a1-1", "b0-0"]).unwrap_err();
    assert!(matches!(&found[..], [Broken::Scattered { group, .. }] if group == "default/g[0][0]"));
    let found = search(&["a0-0", "a0-1", "b1-0", "b1-1", "b0-0"]).unwrap_err();
    assert!(matches!(&found[..], [Broken::Scattered { group, .. }] if group == "default/g[0]"));
    let found = search(&["a0-0", "a0-1"]).unwrap_err();
    let half = Broken::HalfSlice { slice: "default/g[0]".into(), placed: 2, size: 4 };
    assert_eq!(found, [half]);

    let mut leader = PodGroup::gang("l", 1).pods(1, pod());
    leader.leader = true;
    let workers = PodGroup::gang("w", 2).pods(2, pod()).require("rack");
    let tree = PodGroup::gang("t", 2).group(leader).group(workers);
    let near = plan("t", &on(&tree, &["a0-0", "a0-1", "a0-1"]), &[("default/w", "rack", "a0")]);
    assert_eq!(broken(&near, &tree, &cluster, Strategy::Search), Ok(()));
    let far = plan("t", &on(&tree, &["a1-0", "a0-1", "a0-1"]), &[("default/w", "rack", "a0")]);
    let found = broken(&far, &tree, &cluster, Strategy::Search).unwrap_err();
    assert!(matches!(&found[..], [Broken::Scattered { group, .. }] if group == "default/l"));
}

#[test]
fn nodes_are_not_filled_beyond_what_they_have() {
    let mut cluster = cluster(false);
    cluster.add_pod(Pod::new().name("old").request("cpu", 7).on("a0-0")).unwrap();
    let group = gang(2);
    let two = plan("g", &on(&group, &["a0-0", "a0-0"]), &[]);
    let over = Broken::Room {
        node: "a0-0".into(),
        resource: "cpu".into(),
        taken: 9_000,
        allocatable: 8_000,
    };
    assert_eq!(one(&two, &group, &cluster), over);
    // A framework that does not judge room promises none.
    let blind = Framework::builder().without_room_filter().build().unwrap();
    assert_eq!(is_sound(&two, &group, &cluster, &blind), Ok(()));
    let none = PodGroup::gang("g", 1).pods(17, Pod::new());
    let many = plan("g", &on(&none, &["b0-0"; 17]), &[]);
    let Broken::Room { resource, taken: 17, .. } = one(&many, &none, &cluster) else { panic!() };
    assert_eq!(resource, "pods");
    // What is overcommitted already takes what asks for nothing of it.
    cluster.add_pod(Pod::new().name("more").request("cpu", 7).on("a0-0")).unwrap();
    let light = PodGroup::gang("g", 1).pods(1, Pod::new());
    let one = plan("g", &on(&light, &["a0-0"]), &[]);
    assert_eq!(broken(&one, &light, &cluster, Strategy::Search), Ok(()));

    for node in [
        Node::new("shut").capacity("cpu", 8).unschedulable(),
        Node::new("marked").capacity("cpu", 8).taint(Taint::new("k", "v", Effect::NoExecute)),
    ] {
        let away = plan("g", &on(&group, &[&*node.name, "b0-0"]), &[]);
        cluster.add_node(node).unwrap();
        let found = broken(&away, &group, &cluster, Strategy::Search).unwrap_err();
        assert!(matches!(&found[..], [Broken::Repelled { .. }]), "{found:?}");
        assert_eq!(is_sound(&away, &group, &cluster, &blind), Ok(()));
    }
}

/// A node of four GPUs in two islands, and a network card.
fn machine(name: &str) -> Node {
    let gpu = |island: &str, numa| {
        Device::new("gpu", "H100").capacity("milli", 1_000).island(island).numa(numa)
    };
    let node = Node::new(name).capacity("cpu", 8).device(gpu("l", 0)).device(gpu("l", 1));
    node.device(gpu("r", 0)).device(gpu("r", 1)).device(Device::new("nic", "x"))
}

fn framework() -> Framework {
    Framework::builder().filter(Fit).filter(DeviceFit).build().unwrap()
}

/// Faults of one pod that holds these devices.
fn holding(request: DeviceRequest, devices: &[u32], others: &[&[u32]]) -> Vec<Broken> {
    let mut cluster = Cluster::new();
    cluster.add_node(machine("n")).unwrap();
    for (at, held) in others.iter().enumerate() {
        let held = held.to_vec();
        let whole = DeviceRequest::whole("gpu", held.len() as u32);
        let pod = Pod::new().name(format!("old-{at}")).device(whole).holding([held]);
        cluster.add_pod(pod.on("n")).unwrap();
    }
    let group = PodGroup::gang("g", 1).pods(1, Pod::new().device(request));
    let plan = plan("g", &on(&group, &["n"]), &[]);
    let plan = altered(&plan, |plan| plan["assignments"][0]["devices"] = json!([devices]));
    is_sound(&plan, &group, &cluster, &framework())
        .map_or_else(|unsound| unsound.broken, |()| vec![])
}

#[test]
fn devices_are_those_asked_for_and_have_one_holder() {
    let whole = |count| DeviceRequest::whole("gpu", count);
    let what = |request: DeviceRequest, devices: &[u32]| match &holding(request, devices, &[])[..] {
        [] => "",
        [Broken::Devices { what, .. }] => *what,
        other => panic!("{other:?}"),
    };
    assert_eq!(what(whole(2), &[0, 2]), "");
    assert_eq!(what(whole(2), &[0]), "has another number of them");
    assert_eq!(what(whole(1), &[9]), "names a device that the node does not have");
    assert_eq!(what(whole(1), &[4]), "has a device of another kind");
    assert_eq!(what(whole(1).model("A100"), &[1]), "has a device of another model");
    let mut right = whole(1);
    right.islands.push("r".into());
    assert_eq!(what(right.clone(), &[3]), "");
    assert_eq!(what(right, &[0]), "has a device of an island that is not allowed");
    let linked = || whole(2).island(IslandRule::Required);
    assert_eq!(what(linked(), &[0, 1]), "");
    assert_eq!(what(linked(), &[1, 2]), "has devices of several islands, or of none");
    let numa = || whole(2).numa(IslandRule::Required);
    assert_eq!(what(numa(), &[0, 2]), "");
    assert_eq!(what(numa(), &[0, 1]), "has devices of several NUMA nodes, or of none");
    let twice = holding(whole(2), &[1, 1], &[]);
    assert!(matches!(twice[0], Broken::Devices { what: "names a device twice", .. }));

    let share = |amount| DeviceRequest::share("gpu", "milli", amount);
    let over = |device| [Broken::DeviceOvertaken { node: "n".into(), device }];
    assert_eq!(holding(whole(1), &[1], &[&[0]]), []);
    assert_eq!(holding(whole(1), &[0], &[&[0]]), over(0));
    assert_eq!(holding(share(100), &[2], &[&[0, 2]]), over(2));
    assert_eq!(holding(share(1_000), &[2], &[&[0]]), []);
    assert_eq!(holding(share(1_001), &[2], &[]), over(2));

    // Two pods of the plan itself; and one without a list.
    let mut cluster = Cluster::new();
    cluster.add_node(machine("n")).unwrap();
    for (request, sound) in [(whole(1), false), (share(600), false), (share(500), true)] {
        let group = PodGroup::gang("g", 2).pods(2, Pod::new().device(request));
        let plan = plan("g", &on(&group, &["n", "n"]), &[]);
        let both = altered(&plan, |plan| {
            for at in 0..2 {
                plan["assignments"][at]["devices"] = json!([[3]]);
            }
        });
        let found = is_sound(&both, &group, &cluster, &framework());
        assert_eq!(found.is_ok(), sound, "{found:?}");
        let found = is_sound(&plan, &group, &cluster, &framework()).unwrap_err().broken;
        assert!(matches!(&found[..], [Broken::Devices { .. }, Broken::Devices { .. }]));
    }
}

#[test]
fn a_group_is_in_the_island_it_requires() {
    let mut cluster = Cluster::new();
    cluster.add_node(machine("n1")).unwrap();
    cluster.add_node(machine("n2")).unwrap();
    let pod = Pod::new().device(DeviceRequest::whole("gpu", 1));
    let group = PodGroup::gang("g", 2).pods(2, pod.clone()).require_island();
    let outcome = place_gang(&cluster, &framework(), &group).unwrap();
    let good = outcome.plan().unwrap();
    assert_eq!(is_sound(good, &group, &cluster, &framework()), Ok(()));
    let check = |plan: &Plan, cluster: &Cluster| {
        is_sound(plan, &group, cluster, &framework()).unwrap_err().broken
    };
    let torn = altered(good, |plan| plan["assignments"][1]["devices"] = json!([[2]]));
    let found = check(&torn, &cluster);
    assert!(
        matches!(&found[..], [Broken::Islands { .. }, Broken::Misrecorded { .. }]),
        "{found:?}"
    );
    let away = altered(good, |plan| plan["assignments"][1]["node"] = "n2".into());
    let found = check(&away, &cluster);
    assert!(
        matches!(&found[..], [Broken::Islands { .. }, Broken::Misrecorded { .. }]),
        "{found:?}"
    );
    let bare = altered(good, |plan| plan["domains"] = json!([]));
    let found = check(&bare, &cluster);
    assert_eq!(found, [Broken::Unrecorded { group: "default/g".into(), key: "island".into() }]);
    let old = pod.name("old").in_group("g").holding([vec![2]]).on("n1");
    cluster.add_pod(old).unwrap();
    assert!(matches!(&check(good, &cluster)[..], [Broken::Islands { .. }]));
}

/// Choices that are drawn beside those that every planner keeps to today.
#[derive(Clone, Copy)]
struct Drawn {
    strategy: Strategy,
    /// Racks of one name in two zones.
    repeated: bool,
    /// A preference beside a requirement, bounded or not.
    both: bool,
    /// Leaders.
    leaders: bool,
    /// A minimum of pods of groups of groups.
    min_pods: bool,
    /// Islands required or preferred of groups.
    islands: bool,
}

impl Drawn {
    fn new(strategy: Strategy) -> Drawn {
        let islands = strategy != Strategy::Kueue;
        Drawn { strategy, repeated: false, both: false, leaders: false, min_pods: false, islands }
    }
}

fn draw_cluster(dice: &mut Dice, drawn: Drawn) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for number in 0..4 + dice.roll(9) {
        let (zone, rack) = (dice.of(&["a", "b"]), dice.of(&["0", "1", "2"]));
        let mut node = Node::new(format!("n{number}"))
            .capacity("cpu", 2 + dice.roll(7) as i64)
            .capacity("pods", 2 + dice.roll(5) as i64);
        if !dice.one_in(8) {
            let rack = if drawn.repeated { rack.to_owned() } else { format!("{zone}{rack}") };
            node = node.label("zone", zone).label("rack", rack);
        }
        if dice.one_in(8) {
            node = node.unschedulable();
        }
        if dice.one_in(8) {
            node = node.taint(Taint::new("k", "v", Effect::NoSchedule));
        }
        for _ in 0..dice.roll(5) {
            let device = Device::new("gpu", dice.of(&["H100", "A100"])).capacity("milli", 1_000);
            node = node.device(match dice.roll(3) {
                0 => device,
                island => device.island(["l", "r"][island as usize - 1]).numa(island as u32),
            });
        }
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn draw_pod(dice: &mut Dice) -> Pod {
    let pod = pod().request("cpu", 1 + dice.roll(3) as i64);
    let rule = dice.of(&[IslandRule::Any, IslandRule::Preferred, IslandRule::Required]);
    match dice.roll(8) {
        0 => pod.device(DeviceRequest::whole("gpu", 1 + dice.roll(2) as u32).island(rule)),
        1 => pod.device(DeviceRequest::share("gpu", "milli", 400).model("H100")),
        2 => pod.device(DeviceRequest::shares("gpu", 2, "milli", 300).numa(rule)),
        _ => pod,
    }
}

/// Whether a group asks what only the search knows.
fn draw_topology(dice: &mut Dice, mut group: PodGroup, drawn: Drawn) -> PodGroup {
    let (leaf, search) = (group.groups.is_empty(), drawn.strategy == Strategy::Search);
    let kueue = drawn.strategy == Strategy::Kueue;
    if kueue && !leaf {
        return group;
    }
    let level = dice.of(&["zone", "rack"]);
    match dice.roll(7) {
        0 | 1 => group = group.require(level),
        2 => group = group.prefer(level),
        3 if !kueue => {
            group = group.prefer("rack");
            group.topology.highest = Some(level.into());
        }
        4 if drawn.both => {
            group = group.prefer(level).require(dice.of(&["zone", "rack"]));
            if dice.one_in(2) && !kueue {
                group.topology.highest = Some(dice.of(&["zone", "rack"]).into());
            }
        }
        5 if leaf && (search || kueue) => {
            let size = if kueue { group.pods.len() as u32 } else { 2 };
            group = group.slice("rack", size);
        }
        6 if drawn.islands => {
            group = if dice.one_in(2) { group.require_island() } else { group.prefer_island() }
        }
        _ => {}
    }
    group
}

fn draw_group(dice: &mut Dice, name: &str, depth: u32, drawn: Drawn) -> PodGroup {
    if depth > 0 && dice.one_in(2) {
        let children = 1 + dice.roll(3) as u32;
        let mut group = PodGroup::gang(name, 1 + dice.roll(u64::from(children)) as u32);
        for child in 0..children {
            group = group.group(draw_group(dice, &format!("{name}-{child}"), depth - 1, drawn));
        }
        if drawn.leaders && children > 1 && dice.one_in(2) {
            group.groups[0].leader = true;
        }
        if drawn.min_pods && dice.one_in(4) {
            group.min_pods = Some(1 + dice.roll(4) as u32);
        }
        return draw_topology(dice, group, drawn);
    }
    let pods = 1 + dice.roll(4) as usize;
    let mut group = PodGroup::gang(name, 1 + dice.roll(pods as u64) as u32);
    let template = draw_pod(dice);
    group = group.pods(pods, template);
    if drawn.strategy != Strategy::Kueue && dice.one_in(3) {
        group = group.pods(1, draw_pod(dice));
    }
    if dice.one_in(6) {
        group.pods[0].scheduling_gates.push("later".into());
    }
    draw_topology(dice, group, drawn)
}

/// A group in a line, with what runs of it.
fn sketch(group: &PodGroup, cluster: &Cluster) -> String {
    let asked = &group.topology;
    let mut words = vec![format!("{}: min {}", group.name, group.policy.minimum())];
    words.extend(group.min_pods.map(|pods| format!("pods {pods}")));
    let keys =
        [("require", &asked.require), ("prefer", &asked.prefer), ("highest", &asked.highest)];
    words.extend(keys.iter().filter_map(|(what, key)| Some(format!("{what} {}", key.as_ref()?))));
    words.extend(asked.slices.iter().map(|slice| format!("slice {} {}", slice.level, slice.size)));
    words.push(format!("island {:?}, leader {}:", asked.island, group.leader));
    words.extend(group.pods.iter().map(|pod| pod.name.clone()));
    words.extend(cluster.group_pods(&group.full_name()).map(|pod| {
        format!("({} runs on {})", pod.name(), pod.node().map_or("-", |node| node.name()))
    }));
    words.extend(group.groups.iter().map(|inner| sketch(inner, cluster)));
    format!("[{}]", words.join(" "))
}

/// Places random gangs one after another; some members leave again, so that later ones join those
/// that run. Returns how many plans there were, and what is said of those that are not sound.
fn run(seeds: std::ops::Range<u64>, drawn: Drawn) -> (usize, Vec<String>) {
    let framework = Framework::builder()
        .filter(Fit)
        .filter(DeviceFit)
        .filter(phalanx::plugins::NodeUnschedulable)
        .filter(phalanx::plugins::TaintToleration)
        .build()
        .unwrap();
    let (mut plans, mut unsound) = (0, Vec::new());
    for seed in seeds {
        let mut dice = Dice(seed);
        let mut cluster = draw_cluster(&mut dice, drawn);
        let mut planner = Planner::new();
        for number in 0..4 {
            let mut group = draw_group(&mut dice, &format!("g{number}"), 2, drawn);
            for _ in 0..3 {
                let request = Request::new(&group).strategy(drawn.strategy);
                let answer = planner.place(&cluster, &framework, request.clone());
                let Ok(Outcome::Placed(plan)) = answer else { break };
                plans += 1;
                if let Err(error) = is_sound(&plan, request, &cluster, &framework) {
                    let sketch = sketch(&group, &cluster);
                    unsound.push(format!("seed {seed}: {error}; {sketch}; {plan:?}"));
                    break;
                }
                cluster.commit(&framework, &plan).unwrap();
                // Some of them leave, and are asked for again.
                for placed in plan.assignments() {
                    if dice.one_in(2) {
                        cluster.remove_pod("default", &placed.pod().name).unwrap();
                    }
                }
                forget(&mut group, &cluster);
                if group.check().is_err() {
                    break;
                }
            }
        }
    }
    (plans, unsound)
}

/// Leaves those that run out of a tree, and leaves without pods.
fn forget(group: &mut PodGroup, cluster: &Cluster) {
    group.pods.retain(|pod| cluster.pod("default", &pod.name).is_none());
    for inner in &mut group.groups {
        forget(inner, cluster);
    }
    group.groups.retain(|inner| inner.check().is_ok());
}

fn all_sound(drawn: Drawn) {
    let seeds = budget::part(400);
    let (plans, unsound) = run(0..seeds, drawn);
    assert!(unsound.is_empty(), "{} of {plans}:\n{}", unsound.len(), unsound.join("\n"));
    assert!(plans * 4 > 9 * seeds as usize, "{plans} plans only");
}

#[test]
fn what_the_search_places_is_sound() {
    let drawn = Drawn::new(Strategy::Search);
    all_sound(drawn);
    all_sound(Drawn { both: true, islands: false, ..drawn });
    all_sound(Drawn { repeated: true, islands: false, ..drawn });
}

#[test]
fn what_the_sequence_places_is_sound() {
    let drawn = Drawn::new(Strategy::Kubernetes);
    all_sound(drawn);
    all_sound(Drawn { repeated: true, ..drawn });
}

#[test]
fn what_kueue_places_is_sound() {
    let drawn = Drawn::new(Strategy::Kueue);
    all_sound(drawn);
    all_sound(Drawn { both: true, ..drawn });
}

// What was not kept once; the last is not yet.

#[test]
fn the_sequence_keeps_a_requirement_beside_a_preference() {
    all_sound(Drawn { both: true, ..Drawn::new(Strategy::Kubernetes) });
}

#[test]
fn a_search_knows_one_sense_of_a_domain() {
    let drawn = Drawn::new(Strategy::Search);
    all_sound(Drawn { repeated: true, ..drawn });
    all_sound(Drawn { repeated: true, min_pods: true, islands: false, ..drawn });
}

#[test]
fn kueue_records_the_domain_it_means() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for (name, zone) in [("n1", "a"), ("n2", "b")] {
        let node = Node::new(name).capacity("cpu", 2).label("zone", zone).label("rack", "0");
        cluster.add_node(node).unwrap();
    }
    let group = gang(4).prefer("rack");
    let request = Request::new(&group).strategy(Strategy::Kueue);
    let plan = placed(&cluster, &request);
    is_sound(&plan, request, &cluster, &Framework::default()).unwrap();
}

#[test]
fn a_minimum_of_pods_holds_of_what_runs() {
    let cluster = {
        let mut cluster = cluster(false);
        cluster.add_pod(pod().name("old").in_group("x").on("b0-0")).unwrap();
        cluster
    };
    // `inner` has one pod, and needs four; so only `y` counts of the two needed.
    let x = PodGroup::gang("x", 1).pods(1, pod().request("cpu", 100));
    let mut inner = PodGroup::gang("inner", 1).group(x);
    inner.min_pods = Some(4);
    let group = PodGroup::gang("t", 2).group(inner).group(PodGroup::gang("y", 1).pods(1, pod()));
    let request = Request::new(&group).strategy(Strategy::Kubernetes);
    let outcome = place_gang(&cluster, &Framework::default(), request.clone()).unwrap();
    if let Some(plan) = outcome.plan() {
        is_sound(plan, request, &cluster, &Framework::default()).unwrap();
    }
    all_sound(Drawn { min_pods: true, ..Drawn::new(Strategy::Kubernetes) });
}

/// A leader, and a sibling that it leads; one of them is enough.
fn led(leader: PodGroup, sibling: PodGroup) -> PodGroup {
    let mut leader = leader;
    leader.leader = true;
    PodGroup::gang("t", 1).group(leader).group(sibling)
}

#[test]
fn a_leader_keeps_its_own_requirement() {
    let cluster = cluster(false);
    let leader = PodGroup::gang("l", 2).pods(3, pod().request("cpu", 8)).require("rack");
    let group = led(leader, PodGroup::gang("w", 1).pods(1, pod()));
    let outcome = place_gang(&cluster, &Framework::default(), &group).unwrap();
    if let Some(plan) = outcome.plan() {
        is_sound(plan, &group, &cluster, &Framework::default()).unwrap();
    }
}

#[test]
fn a_leader_is_placed_whole() {
    let cluster = cluster(false);
    let leader = PodGroup::gang("l", 4).pods(3, pod());
    let group = led(leader, PodGroup::gang("w", 1).pods(1, pod()));
    let outcome = place_gang(&cluster, &Framework::default(), &group).unwrap();
    if let Some(plan) = outcome.plan() {
        is_sound(plan, &group, &cluster, &Framework::default()).unwrap();
    }
}

#[test]
fn what_leaders_are_promised_is_kept() {
    all_sound(Drawn { leaders: true, islands: false, ..Drawn::new(Strategy::Search) });
}

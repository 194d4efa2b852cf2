//! Groups that are kept in one island of devices.

use phalanx::model::{Device, DeviceAsk, DeviceRequest, IslandRule};
use phalanx::place::UnplacedKind;
use phalanx::plugins::{DeviceFit, Fit, PodGroupPodsCount};
use phalanx::reference;
use phalanx::state::Assignment;
use phalanx::{
    Cluster, CommitError, Framework, Node, Outcome, PlaceError, Plan, Planner, Pod, PodGroup,
    Request, place_gang,
};
use proptest::prelude::*;

use super::world::*;

/// The node and the island of all devices of a plan's members, if they are of one.
fn one_island<'a>(
    nodes: &'a [Vec<Device>],
    mut members: impl Iterator<Item = Assignment<'a>>,
) -> Option<(String, &'a str)> {
    let mut homes = Vec::new();
    let mut on = Vec::new();
    members.by_ref().for_each(|member| {
        let devices = &nodes[member.node()[1..].parse::<usize>().unwrap()];
        on.push(member.node().to_string());
        let held = member.devices().iter().flatten();
        homes.extend(held.map(|&device| devices[device as usize].island.as_deref()));
    });
    on.dedup();
    homes.dedup();
    match (&*on, &*homes) {
        ([node], [Some(island)]) => Some((node.clone(), island)),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_group_gets_an_island_exactly_if_one_can_hold_it(
        nodes in nodes(),
        gangs in proptest::collection::vec((request(), 1..4_usize, any::<bool>()), 1..5),
        choice in 0..5_usize,
        salt in 0..2_u64,
    ) {
        let mut cluster = cluster_of(&nodes);
        let framework = framework(choice);
        let mut planner = Planner::new();
        for (index, (request, count, required)) in gangs.into_iter().enumerate() {
            let bare = PodGroup::gang(format!("g{index}"), count as u32)
                .pods(count, shape_of(vec![request.clone()]));
            let preferred = bare.clone().prefer_island();
            let strict = bare.clone().require_island();
            let possible = nodes.iter().enumerate().any(|(node, devices)| {
                let ledger = ledger_of(&cluster, node, devices);
                (0..3).any(|island| {
                    let mut request = request.clone();
                    request.islands = vec![format!("i{island}")];
                    most(devices, &ledger, &[request], count as u64) == count as u64
                })
            });
            // Several shares a pod, or a pod with preferences of its own, can be given devices
            // that leave too few for the next.
            let easy = request.count() == 1 || matches!(request.ask, DeviceAsk::Whole { .. })
                && request.numa == IslandRule::Any;
            for strategy in [phalanx::Strategy::Kubernetes, phalanx::Strategy::Search] {
                let ask = Request::new(&strict).strategy(strategy).salt(salt);
                let outcome = planner.place(&cluster, &framework, ask.clone()).unwrap();
                let reference = reference::place_by_definition(&cluster, &framework, ask.clone()).unwrap();
                prop_assert_eq!(outcome.plan(), reference.plan());
                prop_assert!(possible || !outcome.is_placed());
                prop_assert!(!possible || !easy || outcome.is_placed());
                if let Outcome::Unplaced(unplaced) = &outcome {
                    prop_assert!(!possible || unplaced.kind == UnplacedKind::Greedy);
                    if let Some(certificate) = &unplaced.certificate {
                        certificate.verify(&cluster, &framework, ask).unwrap();
                    }
                }
                let ask = Request::new(&preferred).strategy(strategy).salt(salt);
                let wish = planner.place(&cluster, &framework, ask.clone()).unwrap();
                if let Some(plan) = wish.plan() {
                    phalanx::reference::is_sound(plan, ask, &cluster, &framework).unwrap();
                }
                let assigned = |plan: &Plan| format!("{:?}", plan.assignments()
                    .map(|a| (a.pod().name.clone(), a.node().to_string(), a.devices().to_vec()))
                    .collect::<Vec<_>>());
                if let Some(plan) = outcome.plan() {
                    phalanx::reference::is_sound(plan, &strict, &cluster, &framework).unwrap();
                    let (node, island) = one_island(&nodes, plan.assignments()).unwrap();
                    let islands: Vec<_> = plan.islands().collect();
                    prop_assert_eq!(islands, [(&*strict.full_name(), &*node, island)]);
                    prop_assert_eq!(assigned(wish.plan().unwrap()), assigned(plan));
                } else {
                    let ask = Request::new(&bare).strategy(phalanx::Strategy::Kubernetes).salt(salt);
                    let bare = planner.place(&cluster, &framework, ask).unwrap();
                    prop_assert_eq!(wish.plan().map(assigned), bare.plan().map(assigned));
                }
            }
            let group = if required { &strict } else { &preferred };
            if let Some(plan) = planner.place(&cluster, &framework, group).unwrap().plan() {
                cluster.commit(&framework, plan).unwrap();
            }
            check(&cluster, &nodes);
        }
    }

    #[test]
    fn groups_inside_have_islands_of_their_own(
        nodes in nodes(),
        inside in proptest::collection::vec(
            (request(), 1..3_usize, 0..3_usize), 1..4),
        outer in any::<bool>(),
    ) {
        let mut cluster = cluster_of(&nodes);
        let framework = framework(0);
        let mut group = PodGroup::gang("outer", inside.len() as u32);
        for (index, (request, count, rule)) in inside.iter().enumerate() {
            let leaf = PodGroup::gang(format!("g{index}"), *count as u32)
                .pods(*count, shape_of(vec![request.clone()]));
            group = group.group(match rule {
                0 => leaf,
                1 => leaf.prefer_island(),
                _ => leaf.require_island(),
            });
        }
        if outer {
            group = group.require_island();
        }
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        let ask = Request::new(&group);
        if let Outcome::Unplaced(unplaced) = &outcome
            && let Some(certificate) = &unplaced.certificate
        {
            certificate.verify(&cluster, &framework, ask).unwrap();
        }
        if let Some(plan) = outcome.plan() {
            let all: Vec<_> = plan.assignments().collect();
            if outer {
                prop_assert!(one_island(&nodes, all.iter().copied()).is_some());
            }
            for leaf in group.groups.iter().filter(|leaf| leaf.topology.island == IslandRule::Required) {
                let own = all.iter().copied().filter(|member| leaf.pods.iter().any(|pod| pod.name == member.pod().name));
                prop_assert!(one_island(&nodes, own).is_some());
            }
            cluster.commit(&framework, plan).unwrap();
            check(&cluster, &nodes);
            for (node, devices) in nodes.iter().enumerate() {
                prop_assert!(ledger_of(&cluster, node, devices).is_sound(devices));
            }
        }
    }
}

/// Nodes of two islands, of so many GPUs each.
fn linked(nodes: usize, left: usize, right: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for index in 0..nodes {
        let mut node = Node::new(format!("n{index}")).label("rack", format!("r{}", index / 2));
        for at in 0..left + right {
            node = node.device(gpu().island(if at < left { "left" } else { "right" }));
        }
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn islands_of(outcome: &Outcome) -> Vec<(&str, &str, &str)> {
    outcome.plan().map_or_else(Vec::new, |plan| plan.islands().collect())
}

#[test]
fn a_group_is_kept_in_an_island_the_one_with_the_fewest_idle_devices() {
    let mut cluster = linked(2, 4, 2);
    let framework = framework(2);
    let pairs =
        |name: &str, pods| PodGroup::gang(name, pods as u32).pods(pods, whole(2)).require_island();
    for (name, pods, expected) in [
        ("a", 2, Some(("n0", "left"))),
        ("b", 1, Some(("n0", "right"))),
        ("c", 3, None),
        ("d", 1, Some(("n1", "right"))),
        ("e", 2, Some(("n1", "left"))),
        ("f", 1, None),
    ] {
        let group = pairs(name, pods);
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        let full = group.full_name();
        let expected: Vec<_> = expected.iter().map(|&(node, name)| (&*full, node, name)).collect();
        assert_eq!(islands_of(&outcome), expected, "{name}");
        if let Some(plan) = outcome.plan() {
            cluster.commit(&framework, plan).unwrap();
        }
    }
}

#[test]
fn fractions_and_mixed_members_share_an_island() {
    let framework = framework(0);
    let share = |milli| Pod::new().device(DeviceRequest::share("gpu", UNIT, milli));
    // Two GPUs an island: a whole one and three thirds of the other, and nothing more.
    let mixed = |thirds: usize| {
        PodGroup::gang("mixed", thirds as u32 + 1)
            .pods(1, whole(1))
            .pods(thirds, share(333))
            .require_island()
    };
    let cluster = linked(1, 2, 2);
    let three = place_gang(&cluster, &framework, mixed(3)).unwrap();
    assert_eq!(islands_of(&three), [("default/mixed", "n0", "left")]);
    let four = place_gang(&cluster, &framework, mixed(4)).unwrap();
    let Outcome::Unplaced(unplaced) = four else { panic!("{four}") };
    // Without islands it would fit, so nothing is proven.
    assert_eq!(unplaced.kind, UnplacedKind::Greedy);
    let many = place_gang(&cluster, &framework, mixed(20)).unwrap();
    let Outcome::Unplaced(unplaced) = many else { panic!("{many}") };
    assert_eq!(unplaced.kind, UnplacedKind::Infeasible);
    // A wish is given up, and a member without devices comes along.
    let wish = mixed(4).prefer_island();
    let outcome = place_gang(&cluster, &framework, &wish).unwrap();
    assert_eq!((outcome.plan().unwrap().len(), islands_of(&outcome)), (5, vec![]));
    let helped = mixed(2).pods(1, Pod::new());
    let outcome = place_gang(&linked(3, 1, 2), &framework, &helped).unwrap();
    assert_eq!(islands_of(&outcome), [("default/mixed", "n0", "right")]);
    // Nothing is asked of groups without devices.
    let plain = PodGroup::gang("plain", 2).pods(2, Pod::new()).require_island();
    assert!(place_gang(&Cluster::clone(&linked(1, 0, 0)), &framework, &plain).unwrap().is_placed());
}

#[test]
fn a_tree_reaches_down_to_islands() {
    let cluster = linked(4, 4, 0);
    let framework = framework(2);
    let pairs = |name: &str| PodGroup::gang(name, 2).pods(2, whole(2)).require_island();
    let tree = |leaves: usize| {
        let outer = PodGroup::gang("outer", leaves as u32).require("rack");
        (0..leaves).fold(outer, |outer, index| outer.group(pairs(&format!("g{index}"))))
    };
    for strategy in [phalanx::Strategy::Kubernetes, phalanx::Strategy::Search] {
        let two = tree(2);
        let outcome =
            place_gang(&cluster, &framework, Request::new(&two).strategy(strategy)).unwrap();
        let expected = [("default/g0", "n0", "left"), ("default/g1", "n1", "left")];
        assert_eq!(islands_of(&outcome), expected);
        let domains: Vec<_> = outcome.plan().unwrap().domains().collect();
        assert_eq!(domains, [("default/outer", "rack", "r0")]);
        let three = tree(3);
        let outcome =
            place_gang(&cluster, &framework, Request::new(&three).strategy(strategy)).unwrap();
        assert!(!outcome.is_placed());
    }
    // Where domains are scored, every island is tried, and the best domain's is taken.
    let scored = Framework::builder()
        .filter(Fit)
        .filter(DeviceFit)
        .domain_score(1, PodGroupPodsCount)
        .build()
        .unwrap();
    let outcome = place_gang(&cluster, &scored, pairs("g")).unwrap();
    assert_eq!(islands_of(&outcome), [("default/g", "n0", "left")]);
    // A level of the group itself is one of its node's.
    let mut bare = cluster.clone();
    bare.update_node(&Node::new("n0").device(gpu().island("left")).device(gpu().island("left")))
        .unwrap();
    let racked = PodGroup::gang("g", 1).pods(1, whole(2)).require_island().require("rack");
    let outcome = place_gang(&bare, &framework, &racked).unwrap();
    assert_eq!(islands_of(&outcome), [("default/g", "n1", "left")]);
}

#[test]
fn members_that_run_say_which_island() {
    let mut cluster = linked(2, 2, 2);
    let framework = framework(2);
    let old = whole(1).name("old").in_group("g").on("n1").holding([vec![3]]);
    cluster.add_pod(old).unwrap();
    let group = PodGroup::gang("g", 2).pods(1, whole(1)).require_island();
    let outcome = place_gang(&cluster, &framework, &group).unwrap();
    assert_eq!(islands_of(&outcome), [("default/g", "n1", "right")]);
    cluster.add_pod(whole(1).name("older").in_group("g").on("n1").holding([vec![0]])).unwrap();
    let refused = place_gang(&cluster, &framework, &group);
    assert!(matches!(refused, Err(PlaceError::Scattered { .. })), "{refused:?}");
    let wish = group.prefer_island();
    let outcome = place_gang(&cluster, &framework, &wish).unwrap();
    assert_eq!((outcome.is_placed(), islands_of(&outcome)), (true, vec![]));
}

#[test]
fn a_plan_whose_island_is_gone_is_refused_whole() {
    let mut cluster = linked(1, 2, 0);
    let framework = framework(2);
    let group = PodGroup::gang("g", 2).pods(2, whole(1)).require_island();
    let outcome = place_gang(&cluster, &framework, &group).unwrap();
    let plan = outcome.plan().unwrap();
    let text = serde_json::to_string(plan).unwrap();
    let back: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!((&back, back.islands().count()), (plan, 1));
    let text = serde_json::to_string(&group).unwrap();
    assert_eq!(serde_json::from_str::<PodGroup>(&text).unwrap(), group);
    let node = Node::new("n0").device(gpu().island("left")).device(gpu().island("right"));
    cluster.update_node(&node).unwrap();
    let before = serde_json::to_string(&cluster).unwrap();
    let refused = cluster.commit(&framework, plan);
    assert!(matches!(refused, Err(CommitError::Domain { .. })), "{refused:?}");
    assert_eq!(serde_json::to_string(&cluster).unwrap(), before);
    let node = Node::new("n0").device(gpu().island("left")).device(gpu().island("left"));
    cluster.update_node(&node).unwrap();
    cluster.commit(&framework, &back).unwrap();
}

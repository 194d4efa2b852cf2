//! Cases from the field, by name. Each fails, or wastes, under some scheduler in use.

use std::collections::BTreeMap;

use phalanx::place::UnplacedKind;
use phalanx::{
    Cluster, Framework, Node, Outcome, PlaceError, Plan, Pod, PodGroup, Strategy, place_gang,
};

const GPU: &str = "nvidia.com/gpu";

fn gpus(count: i64) -> Pod {
    Pod::new().request(GPU, count)
}

/// Racks of nodes with so many GPUs each, named `r0n0` and so on.
fn racks(racks: &[&[i64]]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for (rack, nodes) in racks.iter().enumerate() {
        for (number, gpus) in nodes.iter().enumerate() {
            let node = Node::new(format!("r{rack}n{number:02}"))
                .capacity(GPU, *gpus)
                .label("zone", "z")
                .label("rack", format!("r{rack}"));
            cluster.add_node(node).unwrap();
        }
    }
    cluster
}

fn placed(cluster: &Cluster, group: &PodGroup) -> Plan {
    match place_gang(cluster, &Framework::default(), group).unwrap() {
        Outcome::Placed(plan) => {
            phalanx::reference::is_sound(&plan, group, cluster, &Framework::default()).unwrap();
            cluster.clone().commit(&Framework::default(), &plan).unwrap();
            plan
        }
        other => panic!("{other}"),
    }
}

/// How many pods each value of a label gets.
fn per(cluster: &Cluster, plan: &Plan, key: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for assignment in plan.assignments() {
        let node = cluster.node(assignment.node()).unwrap();
        *counts.entry(node.label(key).unwrap_or("-").to_string()).or_default() += 1;
    }
    counts
}

fn greedy_fails(cluster: &Cluster, group: &PodGroup) {
    let request = phalanx::Request::new(group).strategy(Strategy::Kubernetes);
    let outcome = place_gang(cluster, &Framework::default(), request).unwrap();
    assert_eq!(outcome.word(), "greedy", "the case is too easy");
}

#[test]
fn twenty_from_nineteen_ten_ten_without_waste() {
    let cluster = racks(&[&[19], &[10], &[10]]);
    let group = PodGroup::gang("g", 20).pods(20, gpus(1)).prefer("rack");
    let plan = placed(&cluster, &group);
    let counts = per(&cluster, &plan, "rack");
    assert_eq!(counts, BTreeMap::from([("r1".into(), 10), ("r2".into(), 10)]));
}

#[test]
fn a_greedy_child_starves_its_sibling() {
    // The small child likes the rack that alone can take the large one.
    let cluster = racks(&[&[8, 8], &[4, 4]]);
    let small = PodGroup::gang("small", 2).pods(2, gpus(4)).require("rack");
    let large = PodGroup::gang("large", 2).pods(2, gpus(8)).require("rack");
    let group = PodGroup::gang("w", 2).group(small).group(large);
    let plan = placed(&cluster, &group);
    let domains: Vec<_> = plan.domains().map(|(group, _, value)| (group, value)).collect();
    assert!(
        domains.contains(&("default/small", "r1")) && domains.contains(&("default/large", "r0"))
    );
}

#[test]
fn a_child_that_takes_one_slot_too_many_starves_its_sibling() {
    // Elastic: if the first child takes all it can, nothing is left for the second.
    let cluster = racks(&[&[1, 1, 1, 1]]);
    let first = PodGroup::gang("first", 2).pods(4, gpus(1));
    let second = PodGroup::gang("second", 2).pods(2, gpus(1));
    let group = PodGroup::gang("w", 2).group(first).group(second).require("rack");
    greedy_fails(&cluster, &group);
    assert_eq!(placed(&cluster, &group).len(), 4);
}

#[test]
fn wrong_child_order() {
    // In the order given, the first child fills the nodes the second needs whole.
    let cluster = racks(&[&[8, 8, 2, 2, 2, 2]]);
    let ones = PodGroup::gang("ones", 8).pods(8, gpus(1));
    let eights = PodGroup::gang("eights", 2).pods(2, gpus(8));
    let group = PodGroup::gang("w", 2).group(ones).group(eights).require("rack");
    let framework = Framework::kubernetes();
    let request = phalanx::Request::new(&group).strategy(Strategy::Search);
    assert!(place_gang(&cluster, &framework, request).unwrap().is_placed());
    let request = phalanx::Request::new(&group).strategy(Strategy::Kubernetes);
    assert_eq!(place_gang(&cluster, &framework, request).unwrap().word(), "greedy");
}

#[test]
fn a_gang_that_fits_only_if_its_large_members_go_first() {
    let cluster = racks(&[&[8, 8]]);
    let group = PodGroup::gang("g", 4)
        .pods(2, gpus(3))
        .pod(gpus(5).name("a"))
        .pod(gpus(5).name("b"))
        .require("rack");
    greedy_fails(&cluster, &group);
    assert_eq!(placed(&cluster, &group).len(), 4);
}

#[test]
fn nodes_fragmented_so_that_sums_fit_and_pods_do_not() {
    let cluster = racks(&[&[3; 8], &[3; 8]]);
    let group = PodGroup::gang("g", 4).pods(4, gpus(4)).require("rack");
    let framework = Framework::default();
    let Outcome::Unplaced(unplaced) = place_gang(&cluster, &framework, &group).unwrap() else {
        panic!("24 GPUs a rack are free, but no 4 of them on a node")
    };
    assert_eq!(unplaced.kind, UnplacedKind::Infeasible);
    let certificate = unplaced.certificate.unwrap();
    certificate.verify(&cluster, &framework, &group).unwrap();
    assert!(certificate.to_string().contains("4 pods like g-0 are needed, 0 fit"), "{certificate}");
}

#[test]
fn sixteen_node_cliques() {
    // One of 20 cliques is whole; the others each have one node taken by another.
    let clique: &[i64] = &[8; 16];
    let mut cluster = racks(&[clique; 20]);
    for rack in (0..20).filter(|rack| *rack != 13) {
        let pod = gpus(1).name(format!("b{rack}")).on(format!("r{rack}n{:02}", rack % 16));
        cluster.add_pod(pod).unwrap();
    }
    let group = PodGroup::gang("g", 16).pods(16, gpus(8)).require("rack");
    let plan = placed(&cluster, &group);
    assert_eq!(per(&cluster, &plan, "rack"), BTreeMap::from([("r13".into(), 16)]));
    let framework = Framework::default();
    cluster.commit(&framework, &plan).unwrap();
    let again = PodGroup::gang("h", 16).pods(16, gpus(8)).require("rack");
    let Outcome::Unplaced(unplaced) = place_gang(&cluster, &framework, &again).unwrap() else {
        panic!("no clique is whole")
    };
    unplaced.certificate.unwrap().verify(&cluster, &framework, &again).unwrap();
}

#[test]
fn mixed_depth() {
    // One rack hangs from a block, one from the zone, and one node is in no rack.
    let mut cluster = Cluster::builder().levels(["zone", "block", "rack"]).build().unwrap();
    let node = |name: &str, labels: &[(&str, &str)]| {
        let node = Node::new(name).capacity(GPU, 8);
        labels.iter().fold(node, |node, (key, value)| node.label(*key, *value))
    };
    for name in ["a", "b"] {
        cluster.add_node(node(name, &[("zone", "z"), ("block", "k"), ("rack", "r")])).unwrap();
    }
    for name in ["c", "d", "e"] {
        cluster.add_node(node(name, &[("zone", "z"), ("rack", "r")])).unwrap();
    }
    cluster.add_node(node("f", &[("zone", "z")])).unwrap();
    // The racks are two, though they have one name.
    let three = PodGroup::gang("three", 3).pods(3, gpus(8)).require("rack");
    let nodes: Vec<_> =
        placed(&cluster, &three).assignments().map(|a| a.node().to_string()).collect();
    assert_eq!(nodes, ["c", "d", "e"]);
    let four = PodGroup::gang("four", 4).pods(4, gpus(8));
    let outcome = place_gang(&cluster, &Framework::default(), four.clone().require("rack"));
    assert_eq!(outcome.unwrap().word(), "infeasible");
    assert_eq!(placed(&cluster, &four.prefer("rack")).len(), 4);
    let all = PodGroup::gang("all", 6).pods(6, gpus(8)).require("zone");
    assert_eq!(placed(&cluster, &all).len(), 6);
}

#[test]
fn a_gang_partly_running_in_a_domain_that_lost_a_node() {
    let mut cluster = racks(&[&[8; 5], &[8; 8]]);
    for number in 0..4 {
        let pod = gpus(8).name(format!("g-{number}")).in_group("g").on(format!("r0n{number:02}"));
        cluster.add_pod(pod).unwrap();
    }
    cluster.remove_node("r0n01").unwrap();
    cluster.remove_pod("default", "g-1").unwrap();
    // The pod that was lost comes back beside those that run, though the other rack is free.
    let mut group = PodGroup::gang("g", 4).require("rack");
    group = group.pod(gpus(8).name("g-1b"));
    let plan = placed(&cluster, &group);
    assert_eq!(plan.assignments().next().unwrap().node(), "r0n04");
    // Two lost at once do not fit any more: nothing is moved elsewhere.
    cluster.remove_node("r0n00").unwrap();
    cluster.remove_pod("default", "g-0").unwrap();
    let group =
        PodGroup::gang("g", 4).require("rack").pod(gpus(8).name("g-1b")).pod(gpus(8).name("g-0b"));
    let framework = Framework::default();
    let Outcome::Unplaced(unplaced) = place_gang(&cluster, &framework, &group).unwrap() else {
        panic!("one node is left in the rack")
    };
    unplaced.certificate.unwrap().verify(&cluster, &framework, &group).unwrap();
    // Preferred, it may leave.
    let mut preferring = group.clone();
    preferring.topology.require = None;
    preferring.topology.prefer = Some("rack".into());
    assert_eq!(placed(&cluster, &preferring).len(), 2);
}

#[test]
fn running_members_in_two_domains_are_an_error_where_one_is_required() {
    let mut cluster = racks(&[&[8], &[8]]);
    for rack in 0..2 {
        let pod = gpus(1).name(format!("g-{rack}")).in_group("g").on(format!("r{rack}n00"));
        cluster.add_pod(pod).unwrap();
    }
    let group = PodGroup::gang("g", 3).require("rack").pod(gpus(1).name("g-2"));
    let error = place_gang(&cluster, &Framework::default(), &group).unwrap_err();
    assert!(matches!(error, PlaceError::Scattered { .. }));
}

#[test]
fn slices_stay_together_and_nest() {
    let mut cluster = Cluster::builder().levels(["block", "rack"]).build().unwrap();
    for block in 0..2 {
        for rack in 0..3 {
            for number in 0..2 {
                let node = Node::new(format!("b{block}r{rack}n{number}"))
                    .capacity(GPU, 3)
                    .label("block", format!("b{block}"))
                    .label("rack", format!("r{rack}"));
                cluster.add_node(node).unwrap();
            }
        }
    }
    // A block has room for 18, but slices of 4 a rack leave two GPUs of each rack unused.
    let group = PodGroup::gang("g", 16).pods(16, gpus(1)).slice("block", 8).slice("rack", 4);
    let plan = placed(&cluster, &group);
    let nodes: BTreeMap<String, String> =
        plan.assignments().map(|a| (a.pod().name.clone(), a.node()[..4].to_string())).collect();
    for slice in 0..4 {
        let racks: std::collections::BTreeSet<_> =
            (0..4).map(|pod| &nodes[&format!("g-{}", 4 * slice + pod)]).collect();
        assert_eq!(racks.len(), 1, "slice {slice}");
    }
    let block = |pod: usize| &nodes[&format!("g-{pod}")][..2];
    assert!((0..8).all(|pod| block(pod) == block(0)) && (8..16).all(|pod| block(pod) == block(8)));
    let many = PodGroup::gang("g", 28).pods(28, gpus(1)).slice("rack", 4);
    let framework = Framework::default();
    let outcome = place_gang(&cluster, &framework, &many).unwrap();
    assert_eq!(outcome.word(), "infeasible");
}

#[test]
fn a_leader_sits_with_its_workers() {
    let cluster = racks(&[&[4, 4], &[4, 1], &[4, 2]]);
    let mut leader = PodGroup::gang("leader", 1).pods(1, gpus(1));
    leader.leader = true;
    let workers = PodGroup::gang("workers", 5).pods(5, gpus(1)).require("rack");
    let group = PodGroup::gang("w", 2).group(leader).group(workers);
    let plan = placed(&cluster, &group);
    // The tightest rack has room for the workers alone.
    assert_eq!(per(&cluster, &plan, "rack"), BTreeMap::from([("r2".into(), 6)]));
}

#[test]
fn spread_is_as_even_as_there_is_room() {
    let cluster = racks(&[&[8], &[2], &[8]]);
    let mut group = PodGroup::gang("g", 10).pods(10, gpus(1));
    group.topology.spread = Some("rack".into());
    let counts = per(&cluster, &placed(&cluster, &group), "rack");
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [4, 2, 4]);
}

#[test]
fn balanced_takes_the_fewest_domains_evenly() {
    let cluster = racks(&[&[12], &[9], &[8], &[3]]);
    let mut group = PodGroup::gang("g", 16).pods(16, gpus(1)).prefer("rack");
    group.topology.balanced = true;
    let counts = per(&cluster, &placed(&cluster, &group), "rack");
    assert_eq!(counts, BTreeMap::from([("r1".into(), 8), ("r2".into(), 8)]));
}

#[test]
fn neighbours_in_rank_are_neighbours_in_the_tree() {
    let cluster = racks(&[&[2, 2], &[2, 2]]);
    let mut group = PodGroup::gang("g", 8).pods(8, gpus(1));
    group.topology.ranked = true;
    let plan = placed(&cluster, &group);
    let mut nodes: Vec<(String, String)> =
        plan.assignments().map(|a| (a.pod().name.clone(), a.node().to_string())).collect();
    nodes.sort();
    let nodes: Vec<String> = nodes.into_iter().map(|(_, node)| node).collect();
    assert!(nodes.is_sorted(), "{nodes:?}");
}

#[test]
fn elastic_gangs_get_their_minimum_then_what_fits() {
    let cluster = racks(&[&[4, 4], &[3]]);
    let group = PodGroup::gang("g", 2).pods(12, gpus(1)).require("rack");
    let plan = placed(&cluster, &group);
    assert!(plan.len() >= 2);
    // Growing: those that run count, and pin the rack.
    let mut cluster = racks(&[&[4, 4], &[3]]);
    cluster.add_pod(gpus(1).name("g-x").in_group("g").on("r0n00")).unwrap();
    let grown = placed(&cluster, &group);
    assert_eq!(per(&cluster, &grown, "rack"), BTreeMap::from([("r0".into(), 7)]));
}

#[test]
fn a_plan_places_something_even_where_minima_are_met() {
    let mut cluster = racks(&[&[4]]);
    cluster.add_pod(gpus(2).name("a-x").in_group("a").on("r0n00")).unwrap();
    let nested = |gpu: i64| {
        let running = PodGroup::gang("a", 1).pods(1, gpus(gpu));
        let pending = PodGroup::gang("b", 2).pods(2, gpus(9));
        PodGroup::gang("w", 1).group(running).group(pending)
    };
    assert_eq!(placed(&cluster, &nested(2)).len(), 1);
    let outcome = place_gang(&cluster, &Framework::default(), nested(3)).unwrap();
    assert_eq!(outcome.word(), "infeasible");
}

#[test]
fn a_budget_of_few_steps_is_exhausted_and_claims_nothing() {
    // Three nodes do, but neither the largest first nor the best fit finds it.
    let cluster = racks(&[&[61, 61, 61]]);
    let mut group = PodGroup::gang("g", 10).require("rack");
    for (index, size) in [44, 24, 24, 22, 21, 17, 8, 8, 6, 6].into_iter().enumerate() {
        group = group.pod(gpus(size).name(format!("p{index}")));
    }
    assert!(place_gang(&cluster, &Framework::default(), &group).unwrap().is_placed());
    let request = phalanx::Request::new(&group).budget(3);
    let outcome = place_gang(&cluster, &Framework::default(), request).unwrap();
    assert_eq!(outcome.word(), "exhausted");
}

//! Domains, and those that a group is confined to. Each strategy keeps to its own sense of a
//! domain, a requirement binds whatever is preferred beside it, and a certificate speaks of the
//! sense of the search that made it.

use phalanx::place::{Flaw, Proof};
use phalanx::reference;
use phalanx::reference::is_sound;
use phalanx::{
    Cluster, CommitError, Framework, Node, Outcome, PlaceError, Plan, Pod, PodGroup, Request,
    Strategy, place_gang,
};

const STRATEGIES: [Strategy; 2] = [Strategy::Kubernetes, Strategy::Search];

/// A cluster with levels, of nodes with labels for those levels; `-` is no label.
fn cluster(levels: &[&str], nodes: &[(&str, i64, &[&str])]) -> Cluster {
    let mut cluster = Cluster::builder().levels(levels.to_vec()).build().unwrap();
    for (name, cpu, values) in nodes {
        cluster.add_node(node(name, *cpu, levels, values)).unwrap();
    }
    cluster
}

fn node(name: &str, cpu: i64, levels: &[&str], values: &[&str]) -> Node {
    let labels = levels.iter().zip(values).filter(|(_, value)| **value != "-");
    labels.fold(Node::new(name).capacity("cpu", cpu), |node, (level, value)| {
        node.label(*level, *value)
    })
}

fn gang(pods: usize) -> PodGroup {
    PodGroup::gang("g", pods as u32).pods(pods, Pod::new().request("cpu", 1))
}

fn place(cluster: &Cluster, group: &PodGroup, strategy: Strategy) -> Outcome {
    let request = Request::new(group).strategy(strategy);
    place_gang(cluster, &Framework::default(), request).unwrap()
}

fn placed(cluster: &Cluster, group: &PodGroup, strategy: Strategy) -> Plan {
    let outcome = place(cluster, group, strategy);
    outcome.plan().unwrap_or_else(|| panic!("{strategy:?}: {outcome:?}")).clone()
}

fn domains(plan: &Plan) -> Vec<String> {
    plan.confinements().iter().map(ToString::to_string).collect()
}

fn certificate_holds(cluster: &Cluster, group: &PodGroup, outcome: &Outcome) -> bool {
    let Outcome::Unplaced(unplaced) = outcome else { return false };
    let Some(certificate) = &unplaced.certificate else { return false };
    let proof = certificate.verify(cluster, &Framework::default(), Request::new(group)).unwrap();
    proof == Proof::Counted
}

#[test]
fn a_preference_coarser_than_the_requirement_asks_nothing_more() {
    let nodes: [(&str, i64, &[&str]); 2] = [("n1", 2, &["z", "r1"]), ("n2", 2, &["z", "r2"])];
    let cluster = cluster(&["zone", "rack"], &nodes);
    let asked = |pods| gang(pods).prefer("zone").require("rack");
    for strategy in STRATEGIES {
        assert!(!place(&cluster, &asked(4), strategy).is_placed(), "{strategy:?}");
        let plan = placed(&cluster, &asked(2), strategy);
        assert_eq!(plan.domains().next().unwrap().1, "rack");
    }
    let outcome = place(&cluster, &asked(4), Strategy::Search);
    assert!(certificate_holds(&cluster, &asked(4), &outcome), "{outcome:?}");
}

#[test]
fn a_preference_for_a_key_that_is_no_level_asks_nothing_beside_a_requirement() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack) in [("n1", "r1"), ("n2", "r2")] {
        let node = Node::new(name).capacity("cpu", 2).label("rack", rack).label("row", "x");
        cluster.add_node(node).unwrap();
    }
    let asked = gang(4).prefer("row").require("rack");
    for strategy in STRATEGIES {
        assert!(!place(&cluster, &asked, strategy).is_placed(), "{strategy:?}");
    }
}

#[test]
fn a_preference_falls_back_no_further_than_the_requirement() {
    let levels = ["region", "zone", "rack"];
    let nodes: [(&str, i64, &[&str]); 2] =
        [("n1", 2, &["e", "a", "r1"]), ("n2", 2, &["e", "b", "r2"])];
    let cluster = cluster(&levels, &nodes);
    let mut asked = gang(4).prefer("rack").require("zone");
    asked.topology.highest = Some("region".into());
    for strategy in STRATEGIES {
        let outcome = place(&cluster, &asked, strategy);
        assert!(!outcome.is_placed(), "{strategy:?}: {outcome:?}");
    }
    let outcome = place(&cluster, &asked, Strategy::Search);
    assert!(certificate_holds(&cluster, &asked, &outcome), "{outcome:?}");
}

#[test]
fn a_preference_falls_back_to_no_level_above_the_highest() {
    let levels = ["region", "zone", "rack"];
    let nodes: [(&str, i64, &[&str]); 2] =
        [("n1", 2, &["e", "a", "r1"]), ("n2", 2, &["e", "b", "r2"])];
    let cluster = cluster(&levels, &nodes);
    // The highest level is above, at and below the preferred one.
    for (highest, fits) in [("region", true), ("zone", false), ("rack", false)] {
        let mut asked = gang(4).prefer("zone");
        asked.topology.highest = Some(highest.into());
        for strategy in STRATEGIES {
            let outcome = place(&cluster, &asked, strategy);
            assert_eq!(outcome.is_placed(), fits, "{strategy:?} {highest}: {outcome:?}");
        }
    }
}

/// Racks of one name in two zones, or in a zone and outside of any.
#[test]
fn each_strategy_keeps_to_its_own_sense_of_a_domain() {
    for zones in [["a", "b"], ["a", "-"]] {
        let nodes: [(&str, i64, &[&str]); 2] =
            [("n1", 2, &[zones[0], "1"]), ("n2", 2, &[zones[1], "1"])];
        let cluster = cluster(&["zone", "rack"], &nodes);
        let wide = gang(4).require("rack");
        // By its value, the rack has both nodes.
        let plan = placed(&cluster, &wide, Strategy::Kubernetes);
        assert_eq!(domains(&plan), ["rack=1"]);
        // By their paths there are two racks, and that neither has the room is proven.
        let outcome = place(&cluster, &wide, Strategy::Search);
        assert!(certificate_holds(&cluster, &wide, &outcome), "{outcome:?}");
        let plan = placed(&cluster, &gang(2).require("rack"), Strategy::Search);
        let zone = plan.assignments().next().unwrap().node() == "n1";
        let zone = if zone { zones[0] } else { zones[1] };
        assert_eq!(domains(&plan), [format!("zone={zone}/rack=1")]);
    }
}

/// Trees with a minimum of pods are placed by the sequential engine under `Strategy::Search`, too.
#[test]
fn the_search_keeps_to_its_sense_where_the_sequence_serves_it() {
    let nodes: [(&str, i64, &[&str]); 2] = [("n1", 2, &["a", "1"]), ("n2", 2, &["b", "1"])];
    let cluster = cluster(&["zone", "rack"], &nodes);
    let tree = |pods| {
        let mut tree = PodGroup::gang("tree", 1).group(gang(pods)).require("rack");
        tree.min_pods = Some(pods as u32);
        tree
    };
    assert!(placed(&cluster, &tree(4), Strategy::Kubernetes).len() == 4);
    assert!(!place(&cluster, &tree(4), Strategy::Search).is_placed());
    let plan = placed(&cluster, &tree(2), Strategy::Search);
    assert!(domains(&plan)[0].starts_with("zone="), "{plan:?}");
}

#[test]
fn a_preferred_domain_lies_within_one_required_domain() {
    let nodes: [(&str, i64, &[&str]); 4] = [
        ("n1", 2, &["a", "1"]),
        ("n2", 2, &["b", "1"]),
        ("n3", 2, &["-", "2"]),
        ("n4", 2, &["-", "2"]),
    ];
    let cluster = cluster(&["zone", "rack"], &nodes);
    for strategy in STRATEGIES {
        let asked = |pods| gang(pods).prefer("rack").require("zone");
        assert!(!place(&cluster, &asked(4), strategy).is_placed(), "{strategy:?}");
        let plan = placed(&cluster, &asked(2), strategy);
        assert!(domains(&plan)[0].starts_with("zone="), "{plan:?}");
    }
}

#[test]
fn scattered_members_leave_a_preference_open_and_break_a_requirement() {
    let nodes: [(&str, i64, &[&str]); 3] =
        [("n1", 4, &["a", "1"]), ("n2", 4, &["a", "2"]), ("n3", 4, &["b", "1"])];
    let mut cluster = cluster(&["zone", "rack"], &nodes);
    for (name, node) in [("x", "n1"), ("y", "n2")] {
        let pod = Pod::new().name(name).request("cpu", 1).in_group("g").on(node);
        cluster.add_pod(pod).unwrap();
    }
    let framework = Framework::default();
    for strategy in STRATEGIES {
        // Two racks, one zone.
        let plan = placed(&cluster, &gang(3).prefer("rack"), strategy);
        assert_eq!(domains(&plan), ["zone=a"]);
        let wrong = gang(3).require("rack");
        let request = Request::new(&wrong).strategy(strategy);
        let error = place_gang(&cluster, &framework, request).unwrap_err();
        assert!(matches!(error, PlaceError::Scattered { .. }), "{error}");
        // A key without domains has the members in none.
        let nowhere = gang(3).require("row");
        let request = Request::new(&nowhere).strategy(strategy);
        let error = place_gang(&cluster, &framework, request).unwrap_err();
        assert!(matches!(error, PlaceError::Scattered { .. }), "{error}");
    }
    // A certificate of before does not hold of it either.
    let apart = gang(30).require("rack");
    let mut empty = cluster.clone();
    for name in ["x", "y"] {
        empty.remove_pod("default", name).unwrap();
    }
    let outcome = place(&empty, &apart, Strategy::Search);
    let Outcome::Unplaced(unplaced) = outcome else { panic!("{outcome}") };
    let flaw = unplaced.certificate.unwrap().verify(&cluster, &framework, &apart).unwrap_err();
    assert!(matches!(flaw, Flaw::Request(PlaceError::Scattered { .. })), "{flaw}");
}

/// A leader goes where those it leads are, and there keeps its own requirement.
#[test]
fn a_leader_keeps_its_own_requirement() {
    let nodes: [(&str, i64, &[&str]); 2] = [("n1", 3, &["a", "1"]), ("n2", 3, &["a", "2"])];
    let cluster = cluster(&["zone", "rack"], &nodes);
    let mut leader = PodGroup::gang("lead", 4).pods(4, Pod::new().request("cpu", 1));
    leader.leader = true;
    let workers = PodGroup::gang("work", 1).pods(1, Pod::new().request("cpu", 1));
    let tree = PodGroup::gang("tree", 2).group(leader.require("rack")).group(workers);
    let outcome = place(&cluster, &tree, Strategy::Search);
    assert!(!outcome.is_placed(), "{outcome:?}");
}

/// A leader that runs pins the sibling it leads, to the reference as to the search.
#[test]
fn a_leader_that_runs_pins_those_it_leads() {
    let pod = || Pod::new().request("cpu", 1);
    let nodes: [(&str, i64, &[&str]); 2] = [("n1", 9, &["1"]), ("n2", 4, &["2"])];
    let mut led = cluster(&["rack"], &nodes);
    // By itself the group goes to the other rack, which has less room.
    led.add_pod(pod().name("l9").in_group("lead").on("n1")).unwrap();
    let mut apart = led.clone();
    apart.add_pod(pod().name("w9").in_group("work").on("n2")).unwrap();
    let framework = Framework::default();
    let mut leader = PodGroup::gang("lead", 2).pod(pod().name("l0"));
    leader.leader = true;
    for highest in [None, Some("rack")] {
        let workers = PodGroup::gang("work", 2).pods(2, pod());
        let mut workers =
            if highest.is_some() { workers.prefer("rack") } else { workers.require("rack") };
        workers.topology.highest = highest.map(String::from);
        let tree = PodGroup::gang("tree", 2).group(leader.clone()).group(workers);
        let request = || Request::new(&tree).strategy(Strategy::Search);
        let both = |cluster| {
            let planned = place_gang(cluster, &framework, request());
            [planned, reference::place_by_definition(cluster, &framework, request())]
        };
        for outcome in both(&led) {
            let outcome = outcome.unwrap();
            let plan = outcome.plan().unwrap();
            assert_eq!(plan.pods_per_node(), [("n1", 3)]);
            is_sound(plan, request(), &led, &framework).unwrap();
        }
        // They cannot be together any more.
        for outcome in both(&apart) {
            match outcome {
                Ok(Outcome::Unplaced(unplaced)) => {
                    assert!(highest.is_some());
                    if let Some(certificate) = unplaced.certificate {
                        certificate.verify(&apart, &framework, request()).unwrap();
                    }
                }
                Err(PlaceError::Scattered { group, key }) => {
                    assert_eq!((&*group, &*key, highest), ("default/work", "rack", None));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn commit_holds_a_plan_to_the_sense_of_its_strategy() {
    let levels = ["zone", "rack"];
    let nodes: [(&str, i64, &[&str]); 2] = [("n1", 2, &["a", "1"]), ("n2", 2, &["a", "1"])];
    let before = cluster(&levels, &nodes);
    let framework = Framework::default();
    for strategy in STRATEGIES {
        let plan = placed(&before, &gang(4).require("rack"), strategy);
        let mut after = before.clone();
        after.update_node(&node("n2", 2, &levels, &["b", "1"])).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        let travelled: Plan = serde_json::from_str(&text).unwrap();
        assert_eq!(plan, travelled);
        for plan in [&plan, &travelled] {
            let committed = after.clone().commit(&framework, plan);
            if strategy == Strategy::Kubernetes {
                committed.unwrap();
                continue;
            }
            let Err(CommitError::Domain { node, domain, .. }) = committed else {
                panic!("{committed:?}")
            };
            assert_eq!((&*node, &*domain), ("n2", "zone=a/rack=1"));
        }
    }
}

mod any_small_cluster {
    use super::*;
    use crate::support::budget;
    use phalanx::reference::is_sound;
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    const LEVELS: [&str; 3] = ["region", "zone", "rack"];
    const NAMES: [&str; 3] = ["-", "x", "y"];

    /// A node in plain data: which name it has of each level, free room, members that run.
    type Plain = ([usize; 3], i64, usize);

    /// The domain of a level that a node is in, if it is in one.
    fn domain((names, ..): &Plain, level: usize, strategy: Strategy) -> Option<Vec<usize>> {
        let from = if strategy == Strategy::Kubernetes { level } else { 0 };
        (names[level] > 0).then(|| names[from..=level].to_vec())
    }

    /// Whether nodes are in one domain of a level.
    fn together(nodes: &[&Plain], level: usize, strategy: Strategy) -> bool {
        let mut domains = nodes.iter().map(|node| domain(node, level, strategy));
        let Some(first) = domains.next() else { return true };
        first.is_some() && domains.all(|other| other == first)
    }

    /// The levels of which one is to hold all members; `None` where they may be anywhere.
    fn bounds(asked: [Option<usize>; 3]) -> Option<Vec<usize>> {
        match asked {
            [Some(require), ..] => Some(vec![require]),
            [None, Some(prefer), Some(highest)] => Some((highest.min(prefer)..=prefer).collect()),
            _ => None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(budget::of(500, 20_000) as u32))]
        #[test]
        fn a_plan_is_sound_and_there_is_one_if_there_can_be(
            nodes in proptest::collection::vec(
                ((0..3_usize, 0..3_usize, 0..3_usize), 0..4_i64, 0..10_usize), 1..6),
            asked in proptest::array::uniform3(proptest::option::of(0..3_usize)),
            pods in 1..7_usize,
        ) {
            let plain: Vec<Plain> = nodes
                .into_iter()
                .map(|((a, b, c), free, runs)| ([a, b, c], free, runs.saturating_sub(8)))
                .collect();
            let mut cluster = Cluster::builder().levels(LEVELS).build().unwrap();
            for (at, (names, free, runs)) in plain.iter().enumerate() {
                let values = names.map(|name| NAMES[name]);
                let name = format!("n{at}");
                let cpu = free + *runs as i64;
                cluster.add_node(node(&name, cpu, &LEVELS, &values)).unwrap();
                for run in 0..*runs {
                    let pod = Pod::new().name(format!("r{at}-{run}")).request("cpu", 1);
                    cluster.add_pod(pod.in_group("g").on(&*name)).unwrap();
                }
            }
            let homes: Vec<&Plain> = plain.iter().filter(|(.., runs)| *runs > 0).collect();
            let running: usize = homes.iter().map(|(.., runs)| runs).sum();
            let mut group = PodGroup::gang("g", (pods + running) as u32)
                .pods(pods, Pod::new().request("cpu", 1));
            let [require, prefer, highest] = asked.map(|level| level.map(|at| LEVELS[at].into()));
            group.topology.require = require;
            group.topology.prefer = prefer;
            group.topology.highest = highest;
            for strategy in STRATEGIES {
                let request = Request::new(&group).strategy(strategy);
                let outcome = place_gang(&cluster, &Framework::default(), request);
                if asked[0].is_some_and(|level| !together(&homes, level, strategy)) {
                    let scattered = matches!(outcome, Err(PlaceError::Scattered { .. }));
                    prop_assert!(scattered, "{:?}: {:?}", strategy, outcome);
                    continue;
                }
                let outcome = outcome.unwrap();
                // One domain with room for all, with the members that run in it.
                let fits = |nodes: &[&Plain]| {
                    nodes.iter().map(|(_, free, _)| free).sum::<i64>() >= pods as i64
                };
                let can = match bounds(asked) {
                    None => fits(&plain.iter().collect::<Vec<_>>()),
                    Some(levels) => levels.iter().any(|&level| plain.iter().any(|one| {
                        let inside: Vec<&Plain> = plain
                            .iter()
                            .filter(|other| together(&[one, other], level, strategy))
                            .collect();
                        fits(&inside) && homes.iter().all(|home| inside.contains(home))
                    })),
                };
                prop_assert_eq!(outcome.is_placed(), can, "{:?} {:?}", strategy, outcome);
                let Some(plan) = outcome.plan() else {
                    if strategy == Strategy::Search {
                        let holds = certificate_holds(&cluster, &group, &outcome);
                        prop_assert!(holds, "{:?}", outcome);
                    }
                    continue;
                };
                prop_assert_eq!(plan.len(), pods);
                let mut used = homes.clone();
                let mut free: Vec<i64> = plain.iter().map(|(_, free, _)| *free).collect();
                for assignment in plan.assignments() {
                    let at: usize = assignment.node()[1..].parse().unwrap();
                    free[at] -= 1;
                    used.push(&plain[at]);
                }
                prop_assert!(free.iter().all(|free| *free >= 0));
                if let Some(levels) = bounds(asked) {
                    let held = levels.iter().any(|&level| together(&used, level, strategy));
                    prop_assert!(held, "{:?} {:?}", strategy, plan);
                }
                let request = Request::new(&group).strategy(strategy);
                prop_assert_eq!(is_sound(plan, request, &cluster, &Framework::default()), Ok(()));
                // What travels is held to the same, and holds where nothing has changed.
                let text = serde_json::to_string(plan).unwrap();
                let travelled: Plan = serde_json::from_str(&text).unwrap();
                let mut copy = cluster.clone();
                prop_assert_eq!(copy.commit(&Framework::default(), &travelled), Ok(()));
            }
        }
    }
}

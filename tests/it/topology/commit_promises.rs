//! Commit holds a plan to what its strategy promised: a group is whole, with its minimum at every
//! level of its tree, and in one domain, or the cluster is untouched.

use phalanx::{
    Cluster, CommitError, Framework, Node, Plan, Pod, PodGroup, Request, Strategy, place_gang,
};

fn cluster(levels: &[&str], nodes: &[(&str, i64, &str)]) -> Cluster {
    let mut cluster = Cluster::builder().levels(levels.to_vec()).build().unwrap();
    for (name, cpu, rack) in nodes {
        cluster.add_node(Node::new(*name).capacity("cpu", *cpu).label("rack", *rack)).unwrap();
    }
    cluster
}

fn member(name: &str, node: &str) -> Pod {
    Pod::new().name(name).request("cpu", 1).in_group("g").on(node)
}

fn pods(group: PodGroup, count: usize) -> PodGroup {
    group.pods(count, Pod::new().request("cpu", 1))
}

fn plan<'a>(cluster: &Cluster, request: impl Into<Request<'a>>) -> Plan {
    let outcome = place_gang(cluster, &Framework::default(), request).unwrap();
    outcome.plan().unwrap_or_else(|| panic!("{outcome:?}")).clone()
}

/// The plan as a stranger gets it.
fn travelled(plan: &Plan) -> Plan {
    serde_json::from_value(serde_json::to_value(plan).unwrap()).unwrap()
}

/// Refused, with nothing changed.
fn refused(cluster: &Cluster, plan: &Plan) -> CommitError {
    let mut copy = cluster.clone();
    let error = copy.commit(&Framework::default(), plan).unwrap_err();
    assert_eq!(copy.pod_count(), cluster.pod_count());
    error
}

fn below(group: &str, have: u32, need: u32) -> CommitError {
    CommitError::BelowMinimum { group: group.parse().unwrap(), have, need }
}

#[test]
fn a_plan_that_rests_on_members_that_run_is_refused_when_they_are_gone() {
    let mut cluster = cluster(&[], &[("n1", 8, "a"), ("n2", 8, "a")]);
    for name in ["r0", "r1"] {
        cluster.add_pod(member(name, "n1")).unwrap();
    }
    for strategy in [Strategy::Kubernetes, Strategy::Search] {
        let group = pods(PodGroup::gang("g", 4), 2);
        let plan = plan(&cluster, Request::new(&group).strategy(strategy));
        let mut now = cluster.clone();
        now.remove_pod("default", "r0").unwrap();
        for plan in [&plan, &travelled(&plan)] {
            assert_eq!(refused(&now, plan), below("default/g", 3, 4));
        }
        // Another in its place is as good.
        now.add_pod(member("r2", "n2")).unwrap();
        for plan in [&plan, &travelled(&plan)] {
            now.clone().commit(&Framework::default(), plan).unwrap();
        }
    }
}

#[test]
fn a_plan_that_joins_members_in_a_rack_is_refused_when_those_are_elsewhere() {
    let nodes = [("n1", 2, "a"), ("n2", 2, "a"), ("n3", 2, "b")];
    let mut cluster = cluster(&["rack"], &nodes);
    cluster.add_pod(member("r0", "n1")).unwrap();
    for strategy in [Strategy::Kubernetes, Strategy::Search] {
        let group = pods(PodGroup::gang("g", 3), 2).require("rack");
        let plan = plan(&cluster, Request::new(&group).strategy(strategy));
        let mut now = cluster.clone();
        now.remove_pod("default", "r0").unwrap();
        now.add_pod(member("r0", "n3")).unwrap();
        for plan in [&plan, &travelled(&plan)] {
            let expected = CommitError::Apart {
                group: "default/g".into(),
                pod: "default/r0".parse().unwrap(),
                node: "n3".into(),
                domain: "rack=a".into(),
            };
            assert_eq!(refused(&now, plan), expected);
        }
        // Within the rack it may move.
        now.remove_pod("default", "r0").unwrap();
        now.add_pod(member("r0", "n2")).unwrap();
        let whole = now.commit(&Framework::default(), &plan);
        assert!(matches!(whole, Ok(()) | Err(CommitError::Conflict { .. })), "{whole:?}");
    }
}

#[test]
fn a_preference_does_not_hold_members_that_run() {
    let nodes = [("n1", 3, "a"), ("n2", 3, "b")];
    let mut cluster = cluster(&["rack"], &nodes);
    cluster.add_pod(member("r0", "n1")).unwrap();
    let group = pods(PodGroup::gang("g", 3), 2).prefer("rack");
    let plan = plan(&cluster, &group);
    cluster.remove_pod("default", "r0").unwrap();
    cluster.add_pod(member("r0", "n2")).unwrap();
    cluster.commit(&Framework::default(), &plan).unwrap();
}

#[test]
fn a_preference_with_a_highest_level_holds_members_to_that() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for (name, zone, rack) in [("n1", "a", "1"), ("n2", "a", "2"), ("n3", "b", "3")] {
        let node = Node::new(name).capacity("cpu", 3).label("zone", zone).label("rack", rack);
        cluster.add_node(node).unwrap();
    }
    cluster.add_pod(member("r0", "n1")).unwrap();
    let mut group = pods(PodGroup::gang("g", 3), 2).prefer("rack");
    group.topology.highest = Some("zone".into());
    let plan = plan(&cluster, &group);
    assert_eq!(plan.confinements()[0].to_string(), "zone=a/rack=1");
    for (node, holds) in [("n2", true), ("n3", false)] {
        cluster.remove_pod("default", "r0").unwrap();
        cluster.add_pod(member("r0", node)).unwrap();
        let committed = cluster.clone().commit(&Framework::default(), &plan);
        assert_eq!(committed.is_ok(), holds, "{node}: {committed:?}");
    }
}

#[test]
fn half_a_plan_is_not_committed() {
    let cluster = cluster(&[], &[("n1", 8, "a")]);
    // Also where the half would be enough.
    for minimum in [4, 1] {
        let group = pods(PodGroup::gang("g", minimum), 4);
        let mut value = serde_json::to_value(plan(&cluster, &group)).unwrap();
        value["assignments"].as_array_mut().unwrap().truncate(2);
        let half: Plan = serde_json::from_value(value.clone()).unwrap();
        let expected =
            CommitError::Incomplete { group: "default/g".parse().unwrap(), have: 2, planned: 4 };
        assert_eq!(refused(&cluster, &half), expected);
        // Nor after another journey.
        assert_eq!(refused(&cluster, &travelled(&half)), expected);
        value["assignments"].as_array_mut().unwrap().clear();
        let none: Plan = serde_json::from_value(value).unwrap();
        assert_eq!(refused(&cluster, &none), CommitError::Empty("default/g".parse().unwrap()));
    }
}

#[test]
fn a_plan_without_pods_is_not_committed() {
    let cluster = cluster(&[], &[("n1", 8, "a")]);
    assert!(matches!(refused(&cluster, &Plan::default()), CommitError::Empty(_)));
}

/// Every group of the tree that gets pods is to be whole, not only the tree.
#[test]
fn minima_hold_at_every_level_of_the_tree() {
    let mut cluster = cluster(&[], &[("n1", 9, "a")]);
    let leaf = |name: &str, count| {
        let pods = Pod::new().request("cpu", 1);
        (0..count).fold(PodGroup::gang(name, 2), |group, number| {
            group.pod(pods.clone().name(format!("{name}-{number}")))
        })
    };
    let tree = PodGroup::gang("tree", 1).group(leaf("g", 1)).group(leaf("h", 2));
    cluster.add_pod(member("r0", "n1")).unwrap();
    let plan = plan(&cluster, &tree);
    assert_eq!(plan.len(), 3);
    cluster.remove_pod("default", "r0").unwrap();
    for plan in [&plan, &travelled(&plan)] {
        assert_eq!(refused(&cluster, plan), below("default/g", 1, 2));
    }
    cluster.add_pod(member("r1", "n1")).unwrap();
    cluster.commit(&Framework::default(), &travelled(&plan)).unwrap();
}

#[test]
fn a_minimum_of_pods_holds_too() {
    let mut cluster = cluster(&[], &[("n1", 9, "a")]);
    cluster.add_pod(member("r0", "n1")).unwrap();
    let inner = pods(PodGroup::gang("g", 1), 2);
    let mut tree = PodGroup::gang("tree", 1).group(inner);
    tree.min_pods = Some(3);
    let plan = plan(&cluster, &tree);
    cluster.remove_pod("default", "r0").unwrap();
    for plan in [&plan, &travelled(&plan)] {
        assert_eq!(refused(&cluster, plan), below("default/tree", 2, 3));
    }
}

/// Kueue places all pending pods or none, whatever the minimum.
#[test]
fn a_plan_of_kueue_counts_by_itself() {
    let mut cluster = cluster(&["rack"], &[("n1", 9, "a"), ("n2", 9, "b")]);
    let group = pods(PodGroup::gang("g", 4), 2).require("rack");
    let plan = plan(&cluster, Request::new(&group).strategy(Strategy::Kueue));
    cluster.add_pod(Pod::new().name("other").on("n1")).unwrap();
    for plan in [&plan, &travelled(&plan)] {
        cluster.clone().commit(&Framework::default(), plan).unwrap();
    }
    let mut value = serde_json::to_value(&plan).unwrap();
    value["assignments"].as_array_mut().unwrap().truncate(1);
    let half: Plan = serde_json::from_value(value).unwrap();
    assert!(matches!(refused(&cluster, &half), CommitError::Incomplete { .. }));
}

#[test]
fn a_list_of_groups_that_is_no_tree_is_no_plan() {
    let cluster = cluster(&[], &[("n1", 8, "a")]);
    let group = pods(PodGroup::gang("g", 2), 2);
    let tree = PodGroup::gang("tree", 1).group(group);
    let value = serde_json::to_value(plan(&cluster, &tree)).unwrap();
    assert!(serde_json::from_value::<Plan>(value.clone()).is_ok());
    for parent in [1, 2, 9] {
        let mut value = value.clone();
        value["groups"][1]["parent"] = parent.into();
        assert!(serde_json::from_value::<Plan>(value).is_err(), "{parent}");
    }
    let mut deep = value.clone();
    let mut groups: Vec<_> = (0..100_000_u32)
        .map(|at| {
            let mut group = value["groups"][1].clone();
            group["parent"] = at.saturating_sub(1).into();
            group
        })
        .collect();
    deep["groups"] = std::mem::take(&mut groups).into();
    assert!(serde_json::from_value::<Plan>(deep).is_err());
    for (field, wrong) in [
        ("groups", serde_json::json!([])),
        ("assignments", {
            let mut lines = value["assignments"].clone();
            lines[0]["group"] = 7.into();
            lines
        }),
    ] {
        let mut value = value.clone();
        value[field] = wrong;
        assert!(serde_json::from_value::<Plan>(value).is_err(), "{field}");
    }
}

/// The short form of a plan for one group, as a person writes it.
#[test]
fn a_plan_may_name_its_only_group_in_short() {
    let mut cluster = cluster(&[], &[("n1", 8, "a")]);
    let group = pods(PodGroup::gang("g", 2), 2);
    let value = serde_json::to_value(plan(&cluster, &group)).unwrap();
    let short = |assignments: serde_json::Value| {
        let (namespace, name, domains) = ("default", "g", serde_json::json!([]));
        let short = serde_json::json!({
            "namespace": namespace, "name": name, "assignments": assignments, "domains": domains,
        });
        serde_json::from_value::<Plan>(short).unwrap()
    };
    let none = short(serde_json::json!([]));
    assert_eq!(refused(&cluster, &none), CommitError::Empty("default/g".parse().unwrap()));
    cluster.commit(&Framework::default(), &short(value["assignments"].clone())).unwrap();
    assert_eq!(cluster.group_pods("default/g").count(), 2);
}

#[test]
fn a_domain_of_no_members_is_no_part_of_a_plan() {
    let cluster = cluster(&["rack"], &[("n1", 4, "a"), ("n2", 4, "b")]);
    let group = pods(PodGroup::gang("g", 2), 2).require("rack");
    let value = serde_json::to_value(plan(&cluster, &group)).unwrap();
    for (field, wrong) in [
        ("first", serde_json::json!(3)),
        ("end", serde_json::json!(3)),
        ("end", serde_json::json!(u64::MAX)),
        ("required", serde_json::json!(2)),
        ("path", serde_json::json!([])),
        ("path", serde_json::json!([{"key": "rack"}])),
    ] {
        let mut altered = value.clone();
        altered["domains"][0][field] = wrong;
        let read: Result<Plan, _> = serde_json::from_value(altered);
        assert!(read.is_err(), "{field}: {read:?}");
    }
}

/// Where a leader runs, and where the sibling it leads does, is promised by what is required of the
/// sibling or of a group around both, at any depth. Commit holds a plan to it when one of them has
/// moved, as the third check does, and to no more.
#[test]
fn leaders_that_move_are_noticed_as_far_as_a_domain_is_required() {
    let nodes = [("n1", 4, "a"), ("n2", 4, "a"), ("n3", 4, "b"), ("n4", 4, "b")];
    let framework = Framework::default();
    let pod = |name: &str| Pod::new().name(name).request("cpu", 1);
    let (mut kept, mut refused) = (0, 0);
    // Which of the groups requires the rack: leader, sibling, the group around, the root; and which
    // of the first two is not to be placed yet, if any.
    let cases = (0..16_u32).flat_map(|keys| [None, Some(0), Some(1)].map(|gated| (keys, gated)));
    for (keys, gated) in cases {
        let key = |at: u32, group: PodGroup| match keys >> at & 1 {
            1 => group.require("rack"),
            _ => group,
        };
        let leaf = |name: &str, at: u32| {
            let mut group = PodGroup::gang(name, 1).pod(pod(&format!("{name}-0")));
            group.leader = at == 0;
            if gated == Some(at) {
                group.pods[0].scheduling_gates.push("later".into());
            }
            key(at, group)
        };
        let pair = PodGroup::gang("pair", 1).group(leaf("leader", 0)).group(leaf("workers", 1));
        let root = key(3, PodGroup::gang("root", 1).group(key(2, pair)));
        let request = || Request::new(&root).strategy(Strategy::Search);
        for running in ["leader", "workers"] {
            let runner = |node: &str| pod("runs").in_group(running).on(node);
            let mut before = cluster(&["rack"], &nodes);
            before.add_pod(runner("n1")).unwrap();
            for outcome in [
                place_gang(&before, &framework, request()).unwrap(),
                phalanx::reference::place_by_definition(&before, &framework, request()).unwrap(),
            ] {
                let plan = outcome.plan().unwrap();
                phalanx::reference::is_sound(plan, request(), &before, &framework).unwrap();
                for to in ["n2", "n3"] {
                    let mut after = before.clone();
                    after.remove_pod("default", "runs").unwrap();
                    after.add_pod(runner(to)).unwrap();
                    let sound = phalanx::reference::is_sound(plan, request(), &after, &framework);
                    for plan in [plan, &travelled(plan)] {
                        let held = after.clone().commit(&framework, plan);
                        let case = format!("keys {keys:04b}, {running} to {to}, gated {gated:?}");
                        assert_eq!(held.is_ok(), sound.is_ok(), "{case}: {held:?} {sound:?}");
                        *(if sound.is_ok() { &mut kept } else { &mut refused }) += 1;
                    }
                }
            }
        }
    }
    assert!(kept > 200 && refused > 200, "{kept} {refused}");
}

/// The node of a leader is held to the domain of its sibling, too.
#[test]
fn a_node_that_leaves_the_domain_of_a_leaders_sibling_is_noticed() {
    let cluster = cluster(&["rack"], &[("n1", 1, "a"), ("n2", 1, "a"), ("n3", 1, "b")]);
    let mut leader = pods(PodGroup::gang("leader", 1), 1);
    leader.leader = true;
    let workers = pods(PodGroup::gang("workers", 1), 1).require("rack");
    let gang = PodGroup::gang("gang", 2).group(leader).group(workers);
    let plan = plan(&cluster, Request::new(&gang).strategy(Strategy::Search));
    for node in ["n1", "n2"] {
        let mut now = cluster.clone();
        now.update_node(&Node::new(node).capacity("cpu", 1).label("rack", "b")).unwrap();
        for plan in [&plan, &travelled(&plan)] {
            let error = refused(&now, plan);
            assert!(matches!(error, CommitError::Domain { .. }), "{node}: {error}");
        }
    }
}

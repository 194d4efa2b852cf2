//! NUMA zones, held to a definition that tries every combination of hints.

use std::collections::BTreeMap;

use phalanx::framework::align_zones;
use phalanx::model::{Amounts, Zone, ZonePart, ZonePolicy, ZoneScope, ZoneShare};
use phalanx::plugins::{Fit, ZoneAlignment, ZoneFit};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, place_gang, reference};
use proptest::prelude::*;

const RESOURCES: [&str; 3] = ["cpu", "gpu", "memory"];

const POLICIES: [ZonePolicy; 4] =
    [ZonePolicy::None, ZonePolicy::BestEffort, ZonePolicy::Restricted, ZonePolicy::SingleNumaNode];

/// Amounts of a node by zone and resource: all, and taken. A resource that no zone has is in no list.
type Zones = Vec<BTreeMap<&'static str, (i64, i64)>>;

/// Amounts that a container wants, and whether it gives them back.
type Part = (BTreeMap<&'static str, i64>, bool);

fn zones() -> impl Strategy<Value = Zones> {
    let amount = (0..7_i64, 0..4_i64).prop_map(|(all, taken)| (all, taken.min(all)));
    (1..4_usize, proptest::sample::subsequence(RESOURCES.to_vec(), 1..=3)).prop_flat_map(
        move |(zones, names)| {
            let count = zones * names.len();
            let amounts = proptest::collection::vec(amount.clone(), count);
            amounts.prop_map(move |amounts| {
                let zone =
                    |of: &[(i64, i64)]| names.iter().copied().zip(of.iter().copied()).collect();
                amounts.chunks(names.len()).map(zone).collect()
            })
        },
    )
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let amounts = proptest::collection::vec(0..7_i64, 3);
    let part = (amounts, proptest::bool::weighted(0.2)).prop_map(|(amounts, passing)| {
        (RESOURCES.into_iter().zip(amounts).filter(|(_, amount)| *amount > 0).collect(), passing)
    });
    proptest::collection::vec(part, 1..3)
}

fn node(name: String, zones: &Zones, policy: ZonePolicy, scope: ZoneScope) -> Node {
    let mut node = Node::new(name).capacity("cpu", 100).aligning(policy, scope);
    for (number, amounts) in zones.iter().enumerate() {
        let mut zone = Zone::new(number as u32 * 2);
        for (name, (all, taken)) in amounts {
            zone = zone.capacity(name, *all).taken(name, *taken);
        }
        node = node.zone(zone);
    }
    node
}

fn pod(parts: &[Part]) -> Pod {
    let mut pod = Pod::new().request("cpu", "1m");
    for (amounts, passing) in parts {
        let part =
            amounts.iter().fold(ZonePart::new(), |part, (name, amount)| part.amount(name, *amount));
        pod = pod.zone_part(if *passing { part.passing() } else { part });
    }
    pod
}

/// The hints of a resource: sets of zones, each with whether it is preferred.
fn hints(all: &[i64], free: &[i64], amount: i64) -> Vec<(u32, bool)> {
    let sum = |of: &[i64], mask: u32| -> i64 {
        (0..of.len()).filter(|zone| mask >> zone & 1 == 1).map(|zone| of[zone]).sum()
    };
    let masks = || 1..1_u32 << all.len();
    let fewest = masks().filter(|mask| sum(all, *mask) >= amount).map(u32::count_ones).min();
    let found = masks().filter(|mask| sum(free, *mask) >= amount);
    found.map(|mask| (mask, Some(mask.count_ones()) == fewest)).collect()
}

/// The best merger of all combinations, and whether it is admitted. `None` in place of a hint is no
/// matter to the resource.
fn merge(
    zones: usize,
    mut hints: Vec<Vec<(u32, bool)>>,
    policy: ZonePolicy,
) -> Option<(u32, bool)> {
    let all = (1_u32 << zones) - 1;
    // A resource that has no hint is no matter, and keeps the merger from being preferred.
    let lacking = hints.iter().any(Vec::is_empty);
    if policy == ZonePolicy::SingleNumaNode {
        for hints in &mut hints {
            hints.retain(|(mask, preferred)| *preferred && mask.is_power_of_two());
        }
        if hints.iter().any(Vec::is_empty) {
            return None;
        }
    }
    hints.retain(|hints| !hints.is_empty());
    let target = hints.iter().map(|hints| hints.iter().map(|(mask, _)| mask.count_ones()).min());
    let target = target.max().flatten().unwrap_or(0);
    let mut mergers = vec![(all, !lacking, None)];
    for hints in &hints {
        let mut next = Vec::new();
        for (mask, preferred, first) in &mergers {
            for (hint, own) in hints {
                let equal = first.is_none_or(|first| first == *hint);
                next.push((mask & hint, *preferred && *own && equal, Some(first.unwrap_or(*hint))));
            }
        }
        mergers = next;
    }
    let mut best = (all, false);
    let mut found = false;
    for (mask, preferred, _) in mergers.into_iter().filter(|(mask, ..)| *mask != 0) {
        let better = if !found {
            true
        } else if preferred != best.1 {
            preferred
        } else if preferred {
            (mask.count_ones(), mask) < (best.0.count_ones(), best.0)
        } else {
            // As wide as the target if possible, then the widest below it, then the narrowest above.
            let key = |mask: u32| {
                let size = mask.count_ones();
                (u32::from(size > target), size.abs_diff(target), mask)
            };
            key(mask) < key(best.0)
        };
        if better {
            best = (mask, preferred);
        }
        found = true;
    }
    let admitted = matches!(policy, ZonePolicy::None | ZonePolicy::BestEffort) || best.1;
    admitted.then_some(best)
}

/// Amounts that a pod holds, by zone.
type Held = Vec<BTreeMap<&'static str, i64>>;

/// The verdict on a pod: amounts held, whether all is preferred, and the width of the widest merger;
/// `None` if it is refused.
fn define(
    zones: &Zones,
    parts: &[Part],
    policy: ZonePolicy,
    scope: ZoneScope,
) -> Option<(Held, bool, u32)> {
    let mut held: Held = vec![BTreeMap::new(); zones.len()];
    if policy == ZonePolicy::None {
        return Some((held, false, 0));
    }
    let mut together: BTreeMap<&'static str, i64> = BTreeMap::new();
    for name in RESOURCES {
        let of = |passing: bool| {
            let own = parts.iter().filter(move |part| part.1 == passing);
            own.map(move |part| part.0.get(name).copied().unwrap_or(0))
        };
        together.insert(name, of(false).sum::<i64>().max(of(true).max().unwrap_or(0)));
    }
    let whole = [(together, false)];
    let parts = if scope == ZoneScope::Pod { &whole[..] } else { parts };
    let (mut aligned, mut width) = (true, 0);
    for (amounts, passing) in parts {
        let homed: Vec<(&'static str, i64)> = amounts
            .iter()
            .filter(|(name, amount)| **amount > 0 && zones[0].contains_key(*name))
            .map(|(name, amount)| (*name, *amount))
            .collect();
        let free = |name: &'static str, zone: usize, held: &Held| {
            let (all, taken) = zones[zone][name];
            all - taken - held[zone].get(name).copied().unwrap_or(0)
        };
        let lists = homed.iter().map(|(name, amount)| {
            let all: Vec<i64> = zones.iter().map(|zone| zone[name].0).collect();
            let free: Vec<i64> = (0..zones.len()).map(|zone| free(name, zone, &held)).collect();
            hints(&all, &free, *amount)
        });
        let (mask, preferred) = merge(zones.len(), lists.collect(), policy)?;
        if homed.is_empty() {
            continue;
        }
        aligned &= preferred;
        width = width.max(mask.count_ones());
        if *passing {
            continue;
        }
        for (name, amount) in homed {
            let mut rest = amount;
            let inside = |zone: &usize| mask >> zone & 1 == 1;
            let order = (0..zones.len())
                .filter(inside)
                .chain((0..zones.len()).filter(|zone| !inside(zone)));
            for zone in order.collect::<Vec<_>>() {
                let own = rest.min(free(name, zone, &held));
                if own > 0 {
                    *held[zone].entry(name).or_default() += own;
                    rest -= own;
                }
            }
        }
    }
    Some((held, aligned && width > 0, width))
}

fn shares(held: &Held) -> Vec<ZoneShare> {
    let own = held.iter().enumerate().filter(|(_, held)| !held.is_empty());
    own.map(|(zone, held)| {
        let mut amounts = Amounts::new();
        held.iter().for_each(|(name, amount)| amounts.set(name, *amount));
        ZoneShare::new(zone as u32 * 2, amounts)
    })
    .collect()
}

fn scope(pod: bool) -> ZoneScope {
    if pod { ZoneScope::Pod } else { ZoneScope::Container }
}

fn framework() -> Framework {
    Framework::builder().filter(Fit).filter(ZoneFit).score(1, ZoneAlignment).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_node_admits_as_all_combinations_of_hints_do(
        zones in zones(),
        parts in parts(),
        policy in proptest::sample::select(POLICIES.to_vec()),
        of_pod in any::<bool>(),
    ) {
        let mut cluster = Cluster::new();
        cluster.add_node(node("n".into(), &zones, policy, scope(of_pod))).unwrap();
        let found = align_zones(cluster.node("n").unwrap(), &pod(&parts).shape().zones);
        let expected = define(&zones, &parts, policy, scope(of_pod));
        prop_assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some((held, aligned, width))) = (found, expected) {
            prop_assert_eq!((found.aligned, found.width as u32), (aligned, width));
            prop_assert_eq!(found.shares, shares(&held));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn pods_are_placed_where_a_node_admits_them_and_zones_are_counted(
        nodes in proptest::collection::vec((zones(), 0..4_usize, any::<bool>()), 1..4),
        gangs in proptest::collection::vec((parts(), 1..3_usize), 1..7),
    ) {
        let mut nodes = nodes;
        let mut cluster = Cluster::new();
        for (at, (zones, policy, of_pod)) in nodes.iter().enumerate() {
            let node = node(format!("n{at}"), zones, POLICIES[*policy], scope(*of_pod));
            cluster.add_node(node).unwrap();
        }
        let framework = framework();
        let mut planner = Planner::new();
        for (index, (parts, count)) in gangs.iter().enumerate() {
            let group = PodGroup::gang(format!("g{index}"), *count as u32).pods(*count, pod(parts));
            let before = serde_json::to_string(&cluster).unwrap();
            let request = || Request::new(&group).strategy(phalanx::Strategy::Kubernetes);
            let outcome = planner.place(&cluster, &framework, request()).unwrap();
            let again = reference::place_by_definition(&cluster, &framework, request()).unwrap();
            prop_assert_eq!(outcome.plan(), again.plan());
            let admits = |(zones, policy, of_pod): &(Zones, usize, bool)| {
                define(zones, parts, POLICIES[*policy], scope(*of_pod)).is_some()
            };
            let Some(plan) = outcome.plan() else {
                prop_assert!(*count > 1 || !nodes.iter().any(admits), "a node admits it");
                continue;
            };
            reference::is_sound(plan, &group, &cluster, &framework).unwrap();
            let text = serde_json::to_string(plan).unwrap();
            let read: phalanx::Plan = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, plan);
            let mut txn = cluster.txn();
            let mark = txn.checkpoint();
            txn.apply_plan(plan).unwrap();
            txn.rollback(mark).unwrap();
            prop_assert_eq!(&serde_json::to_string(&*txn).unwrap(), &before);
            for assignment in plan.assignments() {
                let at: usize = assignment.node()[1..].parse().unwrap();
                let (zones, policy, of_pod) = &mut nodes[at];
                let held = define(zones, parts, POLICIES[*policy], scope(*of_pod));
                let (held, ..) = held.expect("the node admits it");
                prop_assert_eq!(assignment.zone_shares(), &shares(&held)[..]);
                for (zone, held) in held.iter().enumerate() {
                    for (name, amount) in held {
                        zones[zone].get_mut(name).unwrap().1 += amount;
                    }
                }
            }
            cluster.commit(&framework, plan).unwrap();
            let text = serde_json::to_string(&cluster).unwrap();
            let back: Cluster = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&back).unwrap(), text);
            for cluster in [&cluster, &back] {
                for (at, (zones, ..)) in nodes.iter().enumerate() {
                    let room = cluster.node(&format!("n{at}")).unwrap().zone_room().unwrap();
                    for (zone, amounts) in zones.iter().enumerate() {
                        for (name, (all, taken)) in amounts {
                            let resource = room.resource(name).unwrap();
                            prop_assert_eq!(room.free(zone, resource), all - taken);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_plan_whose_zone_is_taken_meanwhile_is_refused() {
    let zone = |number| Zone::new(number).capacity("cpu", 4);
    let node = Node::new("n").capacity("cpu", 100).zone(zone(0)).zone(zone(1));
    let mut cluster = Cluster::new();
    let node = node.aligning(ZonePolicy::SingleNumaNode, ZoneScope::Pod);
    cluster.add_node(node).unwrap();
    let framework = framework();
    let ask = |name: &str, cpu| {
        let pod = Pod::new().request("cpu", "1m").zone_part(ZonePart::new().amount("cpu", cpu));
        PodGroup::gang(name, 1).pods(1, pod)
    };
    let place = |cluster: &Cluster, group: &PodGroup| {
        place_gang(cluster, &framework, group).unwrap().plan().cloned()
    };
    let (first, second) = (ask("first", 3), ask("second", 2));
    let plans = [&first, &second].map(|group| place(&cluster, group).unwrap());
    cluster.commit(&framework, &plans[0]).unwrap();
    // Both were to have the first zone; the second zone would do, but others may have been told.
    let error = cluster.commit(&framework, &plans[1]).unwrap_err();
    assert!(matches!(error, phalanx::CommitError::Devices { .. }), "{error}");
    let anew = place(&cluster, &second).unwrap();
    cluster.commit(&framework, &anew).unwrap();
    assert_eq!(anew.assignments().next().unwrap().zone_shares()[0].zone, 1);
    assert!(place(&cluster, &ask("third", 3)).is_none());
    assert!(place(&cluster, &ask("fourth", 2)).is_some());
    // The zone is free again when the pod has gone.
    let name = plans[0].assignments().next().unwrap().pod().name.clone();
    cluster.remove_pod("default", &name).unwrap();
    assert!(place(&cluster, &ask("third", 3)).is_some());
}

#[test]
fn a_pod_that_wants_a_policy_goes_to_no_laxer_node() {
    let framework = framework();
    for (at, least) in POLICIES.into_iter().enumerate() {
        for (own, policy) in POLICIES.into_iter().enumerate() {
            let mut cluster = Cluster::new();
            let node = Node::new("n").capacity("cpu", 1).zone(Zone::new(0).capacity("cpu", 1_000));
            cluster.add_node(node.aligning(policy, ZoneScope::Pod)).unwrap();
            let group = PodGroup::gang("g", 1).pods(1, Pod::new().request("cpu", 1).aligned(least));
            let placed = place_gang(&cluster, &framework, &group).unwrap().plan().is_some();
            assert_eq!(placed, at <= own, "{least:?} on {policy:?}");
        }
    }
    // Without zones nothing is promised.
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 1)).unwrap();
    let pod = |least| Pod::new().request("cpu", 1).aligned(least);
    for (least, expected) in [(ZonePolicy::None, true), (ZonePolicy::BestEffort, false)] {
        let group = PodGroup::gang("g", 1).pods(1, pod(least));
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        assert_eq!(outcome.plan().is_some(), expected);
    }
}

#[test]
fn the_score_keeps_zones_whole() {
    let framework = framework();
    let zone = |number, taken| Zone::new(number).capacity("cpu", 8_000).taken("cpu", taken);
    let node = |name: &str, taken: [i64; 2]| {
        Node::new(name)
            .capacity("cpu", 16)
            .zone(zone(0, taken[0]))
            .zone(zone(1, taken[1]))
            .aligning(ZonePolicy::BestEffort, ZoneScope::Pod)
    };
    let best = |nodes: [Node; 2], cpu: i64| {
        let mut cluster = Cluster::new();
        nodes.into_iter().for_each(|node| {
            cluster.add_node(node).unwrap();
        });
        let pod = Pod::new().request("cpu", 1).zone_part(ZonePart::new().amount("cpu", cpu));
        let group = PodGroup::gang("g", 1).pods(1, pod);
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        outcome.plan().unwrap().assignments().next().unwrap().node().to_owned()
    };
    // One zone before two, whatever the order of names; then the fuller zone.
    assert_eq!(best([node("a", [3_000, 3_000]), node("b", [2_000, 8_000])], 6_000), "b");
    assert_eq!(best([node("a", [0, 0]), node("b", [4_000, 0])], 4_000), "b");
}

//! The domain of a group, and how the group is shared out, against brute force.
//!
//! For each objective that is exact: of all domains in which the group can be placed, the search
//! takes one with the best value, on thousands of small random instances.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::framework::{DomainScore, Reach, filter_fn};
use phalanx::plugins::{DomainAllocation, Fit, LeastFree};
use phalanx::state::{Assignment, NodeView};
use phalanx::{Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup, Strategy};

use crate::support::budget;
use crate::support::dice::Dice;

const LEVELS: [&str; 3] = ["zone", "block", "rack"];

fn cluster(random: &mut Dice) -> Cluster {
    let mut cluster = Cluster::builder().levels(LEVELS).build().unwrap();
    for number in 0..3 + random.roll(6) {
        let name = format!("n{number}");
        let mut node = Node::new(&*name)
            .capacity("gpu", random.of(&[2, 3, 4, 8]))
            .capacity("cpu", 64)
            .capacity("pods", 20)
            .label("kind", random.of(&["a", "b"]));
        for (level, count) in [("zone", 2), ("block", 2), ("rack", 2)] {
            node = node.label(level, format!("{level}{}", random.roll(count)));
        }
        cluster.add_node(node).unwrap();
        let taken = random.roll(3) as i64;
        if taken > 0 {
            let pod = Pod::new().name(format!("b{number}")).request("gpu", taken).on(&*name);
            cluster.add_pod(pod).unwrap();
        }
    }
    cluster
}

fn leaf(random: &mut Dice, name: &str, pods: u64, roles: u64) -> PodGroup {
    let role = |random: &mut Dice| {
        let pod = Pod::new().request("gpu", random.of(&[1, 1, 2, 3])).request("cpu", 1);
        if random.roll(4) == 0 { pod.attribute("kind", random.of(&["a", "b"])) } else { pod }
    };
    let roles: Vec<Pod> = (0..roles).map(|_| role(random)).collect();
    let mut group = PodGroup::gang(name, pods as u32);
    for number in 0..pods {
        let pod = roles[random.roll(roles.len() as u64) as usize].clone();
        group = group.pod(pod.name(format!("{name}-{number}")));
    }
    group
}

/// The nodes of each domain of a level within some nodes, by path.
fn domains(cluster: &Cluster, level: &str, nodes: &[String]) -> BTreeMap<Vec<String>, Vec<String>> {
    let place = LEVELS.iter().position(|own| *own == level).unwrap();
    let mut found: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for name in nodes {
        let node = cluster.node(name).unwrap();
        let path = LEVELS[..=place].iter().map(|key| node.label(key).unwrap().to_string());
        found.entry(path.collect()).or_default().push(name.clone());
    }
    found
}

fn free(cluster: &Cluster, node: &str) -> i64 {
    cluster.node(node).unwrap().free(cluster.resource("gpu").unwrap())
}

fn takes(node: NodeView<'_>, pod: &Pod) -> bool {
    let kind = pod.shape().attributes.get("kind");
    kind.is_none_or(|kind| node.has_label("kind", kind))
}

/// Whether the pods can be placed on what is left, each within its nodes.
fn packs(cluster: &Cluster, left: &mut BTreeMap<String, i64>, pods: &[(&Pod, &[String])]) -> bool {
    let Some(((pod, nodes), rest)) = pods.split_first() else { return true };
    let gpus = pod.shape().requests.of("gpu");
    let mut tried = BTreeSet::new();
    for node in *nodes {
        let here = left[node];
        let view = cluster.node(node).unwrap();
        let twin = (here, view.label("kind"), view.label("rack"), view.label("block"));
        if here < gpus || !takes(view, pod) || !tried.insert(twin) {
            continue;
        }
        left.insert(node.clone(), here - gpus);
        let found = packs(cluster, left, rest);
        left.insert(node.clone(), here);
        if found {
            return true;
        }
    }
    false
}

/// Whether a group of groups, each of which is confined to a domain of a level, fits some nodes.
fn fits(
    cluster: &Cluster,
    groups: &[(&PodGroup, Option<&str>)],
    nodes: &[String],
    chosen: &mut Vec<(usize, Vec<String>)>,
) -> bool {
    let Some((_, level)) = groups.get(chosen.len()) else {
        let mut left = nodes.iter().map(|name| (name.clone(), free(cluster, name))).collect();
        let pods: Vec<(&Pod, &[String])> = chosen
            .iter()
            .flat_map(|(group, nodes)| groups[*group].0.pods.iter().map(move |pod| (pod, &**nodes)))
            .collect();
        return packs(cluster, &mut left, &pods);
    };
    let places: Vec<Vec<String>> = match level {
        Some(level) => domains(cluster, level, nodes).into_values().collect(),
        None => vec![nodes.to_vec()],
    };
    places.into_iter().any(|place| {
        chosen.push((chosen.len(), place));
        let found = fits(cluster, groups, nodes, chosen);
        chosen.pop();
        found
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Objective {
    /// The least is left free: the least surplus.
    LeastFree,
    /// The most of what is allocatable is used.
    MostAllocated,
    /// Without a domain-level score: the least room.
    BestFit,
}

fn framework(objective: Objective) -> Framework {
    let builder = Framework::builder()
        .filter(Fit)
        .filter(filter_fn("Kind", Reach::Static, |cx, node| {
            cx.pod().attributes.get("kind").is_none_or(|kind| node.has_label("kind", kind))
        }))
        .strategy(Strategy::Search);
    match objective {
        Objective::LeastFree => builder.domain_score(1, LeastFree::of("gpu")),
        Objective::MostAllocated => builder.domain_score(1, DomainAllocation::of([("gpu", 1)])),
        Objective::BestFit => builder,
    }
    .build()
    .unwrap()
}

/// How good a domain is; higher is better.
fn value(objective: Objective, cluster: &Cluster, nodes: &[String], gpus: i64) -> i64 {
    let gpu = cluster.resource("gpu").unwrap();
    let all: i64 = nodes.iter().map(|name| cluster.node(name).unwrap().allocatable(gpu)).sum();
    let free: i64 = nodes.iter().map(|name| free(cluster, name)).sum();
    match objective {
        Objective::LeastFree | Objective::BestFit => -free,
        Objective::MostAllocated => (all - free + gpus).min(all) * 100 / all,
    }
}

fn many() -> u64 {
    budget::of(200, 4_000)
}

fn the_best_domain_is_taken(objective: Objective) {
    let framework = framework(objective);
    let (mut placed, mut compared) = (0, 0);
    let mut planner = Planner::new();
    for seed in 0..many() {
        let mut random = Dice(seed * 104_729 + objective as u64);
        let cluster = cluster(&mut random);
        let level = random.of(&LEVELS);
        let (mut group, mut groups) = (PodGroup::gang("w", 2), Vec::new());
        if random.roll(2) == 0 {
            let pods = 1 + random.roll(6);
            group = leaf(&mut random, "g", pods, 2).require(level);
        } else {
            for name in ["a", "b"] {
                let pods = 1 + random.roll(3);
                let inner = leaf(&mut random, name, pods, 2);
                group = group.group(inner.require(random.of(&LEVELS)));
            }
            group = group.require(level);
        }
        if group.groups.is_empty() {
            groups.push((&group, None));
        }
        for inner in &group.groups {
            groups.push((inner, inner.topology.require.as_deref()));
        }
        let gpus = groups.iter().flat_map(|(group, _)| &group.pods);
        let gpus = gpus.map(|pod| pod.shape().requests.of("gpu")).sum();
        let names: Vec<String> = cluster.nodes().map(|node| node.name().to_string()).collect();
        let candidates = domains(&cluster, level, &names);
        let feasible: Vec<i64> = candidates
            .values()
            .filter(|nodes| fits(&cluster, &groups, nodes, &mut Vec::new()))
            .map(|nodes| value(objective, &cluster, nodes, gpus))
            .collect();
        compared += usize::from(feasible.len() > 1);
        // A planner that has seen other clusters answers as a fresh one does.
        let outcome = planner.place(&cluster, &framework, &group).unwrap();
        assert_eq!(outcome, Planner::new().place(&cluster, &framework, &group).unwrap());
        let Outcome::Placed(plan) = outcome else {
            assert_eq!((outcome.word(), feasible.len()), ("infeasible", 0), "seed {seed}");
            continue;
        };
        placed += 1;
        let node = plan.assignments().next().unwrap().node().to_string();
        let home = candidates.values().find(|nodes| nodes.contains(&node)).unwrap();
        assert!(plan.assignments().all(|one| home.iter().any(|name| name == one.node())));
        let best = feasible.iter().max().copied();
        let got = value(objective, &cluster, home, gpus);
        assert_eq!(Some(got), best, "seed {seed}: {objective:?} of {group:?}");
    }
    println!("{objective:?}: {placed} placed, {compared} with a choice");
    assert!(placed > many() / 4 && compared > many() as usize / 10);
}

#[test]
fn least_free() {
    the_best_domain_is_taken(Objective::LeastFree);
    assert_eq!(LeastFree::of("gpu").name(), "LeastFree");
}

#[test]
fn most_allocated() {
    the_best_domain_is_taken(Objective::MostAllocated);
}

#[test]
fn best_fit() {
    the_best_domain_is_taken(Objective::BestFit);
}

/// Equal pods that no domain of the level preferred holds use the fewest of them, and of those
/// choices one with the least room to spare.
#[test]
fn fewest_domains_and_least_surplus() {
    let framework = framework(Objective::BestFit);
    let mut split = 0;
    for seed in 0..many() {
        let mut random = Dice(seed * 15_485_863 + 1);
        let cluster = cluster(&mut random);
        let level = random.of(&LEVELS);
        let pods = 2 + random.roll(14);
        let group = leaf(&mut random, "g", pods, 1).prefer(level);
        let names: Vec<String> = cluster.nodes().map(|node| node.name().to_string()).collect();
        let room = |nodes: &[String]| -> i64 {
            let pod = &group.pods[0];
            let own = nodes.iter().filter(|name| takes(cluster.node(name).unwrap(), pod));
            own.map(|name| free(&cluster, name) / pod.shape().requests.of("gpu")).sum()
        };
        let outcome = Planner::new().place(&cluster, &framework, &group).unwrap();
        assert_eq!(outcome.is_placed(), room(&names) >= pods as i64, "seed {seed}");
        let Outcome::Placed(plan) = outcome else { continue };
        // The first level, from the one preferred up, with a domain that holds all.
        let own = LEVELS.iter().position(|one| *one == level).unwrap();
        let mut tiers: Vec<Vec<Vec<String>>> = LEVELS[..=own]
            .iter()
            .rev()
            .map(|key| domains(&cluster, key, &names).into_values().collect())
            .collect();
        tiers.push(vec![names.clone()]);
        let holds = |nodes: &Vec<String>| room(nodes) >= pods as i64;
        let tier = tiers.iter().find(|tier| tier.iter().any(holds)).unwrap();
        let used: BTreeSet<&str> = plan.assignments().map(Assignment::node).collect();
        let home =
            tier.iter().find(|nodes| used.iter().all(|node| nodes.iter().any(|name| name == node)));
        let home = home.unwrap_or_else(|| panic!("seed {seed}: not in one domain of its tier"));
        let finer: Vec<Vec<String>> = domains(&cluster, level, home).into_values().collect();
        let rooms: Vec<i64> = finer.iter().map(|nodes| room(nodes).min(pods as i64)).collect();
        let choices = (1_u32..1 << finer.len()).map(|bits| {
            let of = |place: &usize| bits >> place & 1 == 1;
            let sum: i64 = (0..finer.len()).filter(of).map(|place| rooms[place]).sum();
            (bits.count_ones() as usize, sum)
        });
        let best = choices.filter(|(_, sum)| *sum >= pods as i64).min().unwrap();
        let taken = (0..finer.len())
            .filter(|&place| finer[place].iter().any(|name| used.contains(name.as_str())));
        let taken: Vec<i64> = taken.map(|place| rooms[place]).collect();
        assert_eq!((taken.len(), taken.iter().sum()), best, "seed {seed}: {finer:?} {rooms:?}");
        split += usize::from(best.0 > 1);
    }
    println!("{split} in several domains");
    assert!(split > many() as usize / 20);
}

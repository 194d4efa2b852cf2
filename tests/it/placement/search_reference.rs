//! The search strategy against its reference, brute force, on thousands of tiny random instances.
//!
//! A group is placed if and only if brute force places it, a certificate of the planner verifies,
//! and both plans can be committed. Where room alone is judged and every member is needed, the root
//! group gets the very domain that brute force gives it.

use phalanx::framework::{Reach, filter_fn};
use phalanx::model::{GroupPolicy, LabelSelector, PodAffinityTerm};
use phalanx::place::{Proof, UnplacedKind};
use phalanx::plugins::{Fit, InterPodAffinity};
use phalanx::reference;
use phalanx::{Cluster, Framework, Node, Outcome, PlaceError, Pod, PodGroup, Strategy, place_gang};

use crate::support::budget;
use crate::support::dice::Dice;

const LEVELS: [&str; 2] = ["zone", "rack"];

fn many() -> u64 {
    budget::of(150, 20_000)
}

fn cluster(random: &mut Dice) -> Cluster {
    let mut cluster = Cluster::builder().levels(LEVELS).build().unwrap();
    for number in 0..=random.roll(5) {
        let name = format!("n{number}");
        let mut node = Node::new(&*name)
            .capacity("gpu", random.of(&[1, 2, 2, 4]))
            .capacity("cpu", 1 + random.roll(6) as i64)
            .capacity("pods", 1 + random.roll(4) as i64)
            .label("kind", random.of(&["a", "b"]));
        // Some nodes lack a level; racks of one name are in both zones.
        for (level, count) in [("zone", 2), ("rack", 2)] {
            if random.chance(90) {
                node = node.label(level, format!("{level}{}", random.roll(count)));
            }
        }
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn confine(random: &mut Dice, mut group: PodGroup) -> PodGroup {
    let level = random.of(&LEVELS);
    match random.roll(12) {
        0..4 => group,
        4..8 => group.require(level),
        8 | 9 => group.prefer(level),
        10 => {
            group.topology.highest = Some("zone".into());
            group.prefer("rack")
        }
        _ if random.chance(50) => group.prefer("rack").require("zone"),
        _ => group.require("kind"),
    }
}

fn leaf(random: &mut Dice, name: &str, pods: u64, roles: bool) -> PodGroup {
    let mut group = PodGroup::gang(name, 1);
    let kinds: Vec<Pod> = (0..=random.roll(2))
        .map(|_| {
            let mut pod = Pod::new()
                .request("gpu", random.of(&[0, 1, 1, 2]))
                .request("cpu", random.of(&[0, 1, 1, 2, 3]));
            for key in ["lead", "follow", "apart"] {
                if roles && random.chance(30) {
                    pod = pod.label(key, "x");
                }
            }
            pod
        })
        .collect();
    for number in 0..pods {
        let mut pod = kinds[random.roll(kinds.len() as u64) as usize]
            .clone()
            .name(format!("{name}-{number}"));
        let term = |key: &str| PodAffinityTerm::new("rack", LabelSelector::label(key, "x"));
        let has = |key: &str| pod.shape().labels.contains_key(key);
        let (follow, apart) = (has("follow"), has("apart"));
        if follow {
            pod = pod.affinity(term("lead"));
        }
        if apart {
            pod = pod.anti_affinity(term("apart"));
        }
        group = group.pod(pod);
    }
    let need = if random.chance(70) { pods } else { 1 + random.roll(pods) };
    group.policy = GroupPolicy::Gang { min_count: need as u32 };
    confine(random, group)
}

fn group(random: &mut Dice, roles: bool) -> PodGroup {
    let most = if roles { 3 } else { 4 };
    match random.roll(6) {
        0..3 => {
            let pods = 1 + random.roll(most);
            let group = leaf(random, "g", pods, roles);
            if random.chance(25) { group.slice("rack", 2) } else { group }
        }
        3 => {
            // A group of groups inside another.
            let minimum = 1 + random.roll(2) as u32;
            let middle = PodGroup::gang("m", minimum)
                .group(leaf(random, "a", 1, roles))
                .group(leaf(random, "b", 1, roles));
            let middle = confine(random, middle);
            let pods = 1 + random.roll(2);
            let root = PodGroup::gang("w", 1 + random.roll(2) as u32)
                .group(middle)
                .group(leaf(random, "c", pods, roles));
            confine(random, root)
        }
        _ => {
            let leader = random.chance(30);
            let mut root = PodGroup::gang("w", 1 + random.roll(2) as u32);
            for name in ["a", "b"] {
                let pods = 1 + random.roll(most / 2);
                let mut inner = leaf(random, name, pods, roles);
                inner.leader = leader && name == "b";
                root = root.group(inner);
            }
            confine(random, root)
        }
    }
}

/// Whether every member at every level must be placed.
fn is_rigid(group: &PodGroup) -> bool {
    let all = if group.groups.is_empty() { group.pods.len() } else { group.groups.len() };
    group.policy.minimum() as usize == all && group.groups.iter().all(is_rigid)
}

/// The key and the value of the domain that a plan gives the root group.
fn root_domain(outcome: &Outcome, root: &str) -> Option<(String, String)> {
    let plan = outcome.plan()?;
    let (_, key, value) = plan.domains().find(|(group, ..)| *group == root)?;
    Some((key.into(), value.into()))
}

fn framework(roles: bool) -> Framework {
    let mut builder = Framework::builder().filter(Fit).strategy(Strategy::Search);
    if roles {
        builder = builder.filter(InterPodAffinity::new()).filter(filter_fn(
            "Late",
            Reach::Cluster,
            // Not monotone: a pod that follows goes only where some pod is already.
            |cx, node| !cx.pod().labels.contains_key("follow") || node.pods().next().is_some(),
        ));
    }
    builder.build().unwrap()
}

/// Groups that were placed, refused, and of which the domain of the root was compared.
#[derive(Default)]
pub(crate) struct Seen {
    placed: u32,
    infeasible: u32,
    rooted: u32,
}

/// Holds the answer in one world to the reference.
pub(crate) fn holds(seed: u64, roles: bool, running: bool, seen: &mut Seen) {
    let framework = framework(roles);
    let mut random = Dice(seed * 6_007 + u64::from(roles) * 3 + u64::from(running) * 7);
    let mut cluster = cluster(&mut random);
    let group = group(&mut random, roles);
    if running {
        // Members of some leaf that run already, wherever they are.
        let names: Vec<String> = cluster.nodes().map(|node| node.name().into()).collect();
        for number in 0..=random.roll(2) {
            let leaf = random.of(&["g", "a", "b", "c"]);
            let pod = Pod::new().name(format!("r{number}")).in_group(leaf);
            let node = &names[random.roll(names.len() as u64) as usize];
            cluster.add_pod(pod.on(&**node)).unwrap();
        }
    }
    let planned = place_gang(&cluster, &framework, &group);
    let defined = reference::place_by_definition(&cluster, &framework, &group);
    let (planned, defined) = match (planned, defined) {
        (Ok(planned), Ok(defined)) => (planned, defined),
        (Err(one), Err(other)) => {
            assert_eq!(one, other, "seed {seed}");
            return;
        }
        (one, other) => panic!("seed {seed}: {one:?}\n{other:?}\n{group:#?}"),
    };
    assert_eq!(
        planned.is_placed(),
        defined.is_placed(),
        "seed {seed}: {planned}\n{group:#?}\n{:#?}",
        cluster.nodes().collect::<Vec<_>>()
    );
    match (&planned, &defined) {
        (Outcome::Placed(plan), Outcome::Placed(other)) => {
            for plan in [plan, other] {
                phalanx::reference::is_sound(plan, &group, &cluster, &framework)
                    .unwrap_or_else(|unsound| panic!("seed {seed}: {unsound}\n{group:#?}"));
                cluster
                    .clone()
                    .commit(&framework, plan)
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{plan:#?}\n{group:#?}"));
            }
            if !roles && !running && is_rigid(&group) {
                let name = group.full_name();
                assert_eq!(
                    root_domain(&planned, &name),
                    root_domain(&defined, &name),
                    "seed {seed}: {group:#?}"
                );
                seen.rooted += 1;
            }
            seen.placed += 1;
        }
        (Outcome::Unplaced(unplaced), Outcome::Unplaced(other)) => {
            assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "seed {seed}");
            assert_eq!(other.kind, UnplacedKind::Infeasible, "seed {seed}");
            if let Some(certificate) = &unplaced.certificate {
                let proof = certificate.verify(&cluster, &framework, &group);
                assert!(
                    matches!(proof, Ok(Proof::Counted | Proof::Searched)),
                    "seed {seed}: {proof:?}\n{certificate}"
                );
            }
            seen.infeasible += 1;
        }
        (one, other) => panic!("seed {seed}: {one}\n{other}"),
    }
}

fn compare(seeds: std::ops::Range<u64>, roles: bool, running: bool) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        holds(seed, roles, running, &mut seen);
    }
    seen
}

#[test]
fn room_alone() {
    let seen = compare(0..many(), false, false);
    assert!(seen.placed > many() as u32 / 4 && seen.infeasible > many() as u32 / 8);
    assert!(seen.rooted > many() as u32 / 8, "{}", seen.rooted);
}

#[test]
fn filters_for_which_the_order_counts() {
    let seen = compare(0..many(), true, false);
    assert!(seen.placed > many() as u32 / 8 && seen.infeasible > many() as u32 / 8);
}

#[test]
fn members_that_run() {
    let seen = compare(0..many(), false, true);
    assert!(seen.placed > many() as u32 / 8 && seen.infeasible > many() as u32 / 8);
}

#[test]
fn the_reference_refuses_what_it_cannot_enumerate() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 64)).unwrap();
    let framework = framework(false);
    let gang = |pods: usize| PodGroup::gang("g", 1).pods(pods, Pod::new().request("cpu", 1));
    let ten = reference::place_by_definition(&cluster, &framework, gang(10)).unwrap();
    assert_eq!(ten.plan().unwrap().len(), 10);
    let refused =
        PlaceError::TooManyMembers { group: "default/g".parse().unwrap(), members: 11, most: 10 };
    assert_eq!(reference::place_by_definition(&cluster, &framework, gang(11)), Err(refused));
    // Under the sequential strategy any number will do.
    let eleven = gang(11);
    let request = phalanx::Request::new(&eleven).strategy(Strategy::Kubernetes);
    assert!(reference::place_by_definition(&cluster, &framework, request).unwrap().is_placed());
}

#[test]
fn the_reference_goes_back_where_the_sequential_strategy_does_not() {
    // The first pod fits both nodes, the second only the first node.
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("large").capacity("gpu", 2)).unwrap();
    cluster.add_node(Node::new("small").capacity("gpu", 1)).unwrap();
    let pod = |gpus| Pod::new().request("gpu", gpus);
    let gang = PodGroup::gang("g", 2).pods(1, pod(1)).pods(1, pod(2));
    let framework = framework(false);
    let with = |strategy| {
        let request = phalanx::Request::new(&gang).strategy(strategy);
        reference::place_by_definition(&cluster, &framework, request).unwrap().is_placed()
    };
    assert!(with(Strategy::Search));
    assert!(!with(Strategy::Kubernetes));
}

//! A planner's memory for searches changes no answer. A planner that has followed a cluster through
//! a random history answers as a fresh one does, and layouts from kept tables are those of the
//! plain way.

use phalanx::framework::{Reach, filter_fn, score_fn};
use phalanx::model::GroupPolicy;
use phalanx::plugins::{DomainAllocation, Fit, LeastFree, MostAllocated, TaintToleration};
use phalanx::{Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup, Request, Strategy};

use crate::support::budget;
use crate::support::dice::Dice;

const LEVELS: [&str; 2] = ["zone", "rack"];

/// With `far`, a filter that says nothing but might read anything: nothing can be kept then.
fn framework(far: bool) -> Framework {
    let mut builder = Framework::builder()
        .filter(Fit)
        .filter(filter_fn("Kind", Reach::Static, |cx, node| {
            cx.pod().attributes.get("kind").is_none_or(|kind| node.has_label("kind", kind))
        }))
        .score(2, MostAllocated::of([("gpu", 3), ("cpu", 1)]))
        .score(1, TaintToleration)
        .score(
            1,
            score_fn("Rack", Reach::Static, |_, node| {
                node.label("rack").map_or(0, |rack| i64::from(rack.as_bytes()[1] % 7))
            }),
        )
        .domain_score(1, LeastFree::of("gpu"))
        .domain_score(2, DomainAllocation::of([("gpu", 2), ("cpu", 1), ("memory", 1)]))
        .strategy(Strategy::Search);
    if far {
        builder = builder.filter(filter_fn("Idle", Reach::Cluster, |_, _| true));
    }
    builder.build().unwrap()
}

fn node(random: &mut Dice, name: String) -> Node {
    let mut node = Node::new(name)
        .capacity("gpu", random.of(&[4, 8]))
        .capacity("cpu", 16)
        .capacity("memory", "64Gi")
        .capacity("pods", 12)
        .label("kind", random.of(&["a", "b"]));
    for (level, count) in [("zone", 2), ("rack", 4)] {
        if random.chance(95) {
            let initial = &level[..1];
            node = node.label(level, format!("{initial}{}", random.roll(count)));
        }
    }
    node
}

fn pod(random: &mut Dice) -> Pod {
    let pod = Pod::new()
        .request("gpu", random.of(&[1, 2, 4]))
        .request("cpu", 1 + random.roll(3) as i64)
        .request("memory", "1Gi");
    if random.chance(20) { pod.attribute("kind", random.of(&["a", "b"])) } else { pod }
}

fn leaf(random: &mut Dice, name: &str) -> PodGroup {
    let pods = 1 + random.roll(6);
    let roles: Vec<Pod> = (0..=random.roll(2)).map(|_| pod(random)).collect();
    let mut group = PodGroup::gang(name, pods as u32);
    for number in 0..pods {
        let role = &roles[random.roll(roles.len() as u64) as usize];
        group = group.pod(role.clone().name(format!("{name}-{number}")).in_group(name));
    }
    if random.chance(20) {
        group.policy = GroupPolicy::Gang { min_count: 1 + random.roll(pods) as u32 };
    }
    match random.roll(6) {
        0 | 1 => group.require(random.of(&LEVELS)),
        2 => group.prefer("rack"),
        3 => group.slice("rack", 2),
        4 => group.require("kind"),
        _ => group,
    }
}

fn group(random: &mut Dice, name: &str) -> PodGroup {
    if random.chance(50) {
        return leaf(random, name);
    }
    let inner = [format!("{name}-a"), format!("{name}-b")].map(|name| leaf(random, &name));
    let root = inner.into_iter().fold(PodGroup::gang(name, 2), PodGroup::group);
    if random.chance(60) { root.require(random.of(&LEVELS)) } else { root }
}

#[test]
fn a_warm_planner_answers_as_a_fresh_one() {
    let (near, far) = (framework(false), framework(true));
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..budget::of(15, 400) {
        let mut random = Dice(seed * 32_452_843 + 5);
        let mut cluster = Cluster::builder().levels(LEVELS).build().unwrap();
        for number in 0..16 {
            let node = node(&mut random, format!("n{number}"));
            cluster.add_node(node).unwrap();
        }
        let (mut warm, mut plain) = (Planner::new(), Planner::new());
        let mut bound: Vec<String> = Vec::new();
        for step in 0..14 {
            match random.roll(8) {
                0 => {
                    let name = format!("m{step}");
                    cluster.add_node(node(&mut random, name)).unwrap();
                }
                1..4 if !bound.is_empty() => {
                    let name = bound.swap_remove(random.roll(bound.len() as u64) as usize);
                    cluster.remove_pod("default", &name).unwrap();
                }
                4 => {
                    let name = format!("alone-{step}");
                    let node = format!("n{}", random.roll(16));
                    let pod = Pod::new().name(&*name).request("gpu", 1).on(node);
                    cluster.add_pod(pod).unwrap();
                    bound.push(name);
                }
                // A snapshot of the cluster, as another thread would have it.
                5 => cluster = cluster.clone(),
                _ => {}
            }
            let group = group(&mut random, &format!("g{step}"));
            let mut request = Request::new(&group);
            if random.chance(15) {
                request = request.within("zone", "z0");
            }
            let outcome = warm.place(&cluster, &near, request.clone()).unwrap();
            let fresh = Planner::new().place(&cluster, &near, request.clone()).unwrap();
            assert_eq!(outcome, fresh, "seed {seed}, step {step}: {group:?}");
            let slow = plain.place(&cluster, &far, request).unwrap();
            assert_eq!(outcome, slow, "seed {seed}, step {step}: {group:?}");
            match &outcome {
                Outcome::Placed(plan) => {
                    placed += 1;
                    bound.extend(plan.assignments().map(|one| one.pod().name.clone()));
                    cluster.commit(&near, plan).unwrap();
                }
                other => refused += usize::from(other.word() == "infeasible"),
            }
        }
    }
    println!("{placed} placed, {refused} refused");
    assert!(placed > budget::of(25, 100) && refused > budget::of(5, 20) as usize);
}

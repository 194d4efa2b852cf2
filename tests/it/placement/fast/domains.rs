//! Counts of domains, trials side by side, and kept parts of levels.

use phalanx::framework::{Context, Declaration, DomainScore, FrameworkBuilder, Verdict};
use phalanx::model::PodShape;
use phalanx::plugins::{
    DomainAllocation, FewestDomains, Fit, LeastAllocated, LeastFree, PodGroupPodsCount,
};
use phalanx::reference;
use phalanx::state::{NodeView, Row};
use phalanx::{Cluster, Filter, Framework, Node, Planner, Pod, PodGroup};

use super::random::*;
use crate::support::budget;
use crate::support::dice::Dice;

/// A pod that asks for devices goes only where another runs already.
struct Company;

impl Filter for Company {
    fn name(&self) -> &str {
        "Company"
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let shy = cx.pod().requests.of("gpu") == 0;
        if shy || node.pod_count() > 0 { Verdict::Pass } else { Verdict::Unschedulable }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

/// A domain where nothing fits may be one where something fits once a sibling is there.
#[test]
fn a_sibling_opens_a_domain() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for name in 0..12 {
        let node = Node::new(format!("n{name:02}")).capacity("cpu", 4).capacity("gpu", 4);
        let node = node.label("rack", format!("r{}", name / 3));
        cluster.add_node(node.label("zone", format!("z{}", name / 6))).unwrap();
    }
    let framework = Framework::builder()
        .filter(Company)
        .filter(Fit)
        .score(1, LeastAllocated::of([("cpu", 1)]))
        .domain_score(1, DomainAllocation::of([("cpu", 1)]))
        .build()
        .unwrap();
    let plain = Pod::new().request("cpu", 1);
    let group = |root: &str| {
        PodGroup::gang(root, 2)
            .group(PodGroup::gang(format!("{root}-a"), 2).pods(2, plain.clone()).require("rack"))
            .group(
                PodGroup::gang(format!("{root}-b"), 2)
                    .pods(2, plain.clone().request("gpu", 1))
                    .require("rack"),
            )
    };
    for mut planner in [Planner::new(), reference::unpruned(), Planner::new().threads(2)] {
        assert!(held(&mut planner, &cluster, &framework, &group("g")).is_placed());
        assert!(held(&mut planner, &cluster, &framework, &group("z").require("zone")).is_placed());
    }
}

fn with_domain_scores(dice: &mut Dice, mut builder: FrameworkBuilder) -> Framework {
    let resources = [("cpu", 1), ("memory", 1), ("gpu", 2)];
    if dice.roll(3) == 0 {
        builder = builder.domain_score(2, FewestDomains::of("tilt"));
    }
    match dice.roll(5) {
        0 => builder = builder.domain_score(1, DomainAllocation::of(resources)),
        1 => builder = builder.domain_score(3, DomainAllocation::of(resources).reversed()),
        2 => builder = builder.domain_score(1, LeastFree::of("cpu")),
        3 => {
            builder = builder
                .domain_score(1, PodGroupPodsCount)
                .domain_score(2, DomainAllocation::of(resources));
        }
        _ => {}
    }
    builder.build().unwrap()
}

/// A level, asked for in one of the ways there are.
fn confined(dice: &mut Dice, group: PodGroup) -> PodGroup {
    match dice.roll(5) {
        0 => group.require("zone"),
        1 => group.prefer("rack"),
        2 => group.prefer("rack").require("zone"),
        _ => group.require("rack"),
    }
}

#[test]
fn identical_pods_are_counted_into_domains() {
    let mut placed = 0;
    for seed in 0..budget::part(150) {
        let mut dice = Dice(seed);
        let racks = 2 + dice.roll(20);
        let mut cluster = topology_cluster(&mut dice, racks, 4);
        let builder = scored(&mut dice);
        let framework = with_domain_scores(&mut dice, builder);
        let mut planner = Planner::new();
        for step in 0..6 {
            let members = 1 + dice.roll(30) as usize;
            let minimum = 1 + dice.roll(members as u64) as u32;
            let name = format!("s{seed}-{step}");
            let group = PodGroup::gang(&name, minimum).pods(members, pod(&mut dice));
            let group = confined(&mut dice, group);
            let outcome = held(&mut planner, &cluster, &framework, &group);
            if dice.roll(3) > 0 {
                placed += commit(&mut cluster, &framework, &outcome);
            }
            // More members, where some run already, if they still fit.
            if outcome.is_placed() && dice.roll(2) == 0 {
                let mut more = group.clone();
                for (index, pod) in more.pods.iter_mut().enumerate() {
                    pod.name = format!("{name}-more-{index}");
                }
                let outcome = held(&mut planner, &cluster, &framework, &more);
                placed += commit(&mut cluster, &framework, &outcome);
            }
            if dice.roll(4) == 0 {
                remove_pods(&mut cluster, 1, 2);
            }
        }
    }
    assert!(placed > budget::part(3_000) as usize, "{placed}");
}

/// A score of places, so that every domain is tried.
struct Places;

impl DomainScore for Places {
    fn name(&self) -> &str {
        "Places"
    }

    fn score(&self, cx: &phalanx::framework::DomainContext<'_>) -> i64 {
        let of = |(at, (_, row)): (usize, &(&PodShape, Row))| (at as i64 + 1) * row.index() as i64;
        cx.proposed.iter().enumerate().map(of).sum::<i64>() % 101
    }
}

#[test]
fn domains_tried_side_by_side() {
    let mut placed = 0;
    for seed in 0..budget::part(24) {
        let mut dice = Dice(500 + seed);
        let racks = 25 + dice.roll(10);
        let mut cluster = topology_cluster(&mut dice, racks, 5);
        let builder = scored(&mut dice).domain_score(1, Places);
        let framework = with_domain_scores(&mut dice, builder);
        let mut planners = [
            Planner::new(),
            Planner::new().threads(2),
            reference::unpruned().threads(2),
            Planner::new().threads(7),
        ];
        for step in 0..4 {
            let name = format!("s{seed}-{step}");
            let mixed = dice.roll(2) == 0;
            let leaf = |dice: &mut Dice, name: &str, members: usize| {
                let minimum = 1 + dice.roll(8) as u32;
                let mut group = PodGroup::gang(name, minimum);
                let shapes: Vec<Pod> = (0..if mixed { 4 } else { 1 }).map(|_| pod(dice)).collect();
                // In turn: each pod is a run of its own.
                for pod in shapes.iter().cycle().take(members) {
                    group = group.pods(1, pod.clone());
                }
                confined(dice, group)
            };
            let group = if dice.roll(2) == 0 {
                leaf(&mut dice, &name, 60).require("rack")
            } else {
                let mut root = PodGroup::gang(&name, 1 + dice.roll(3) as u32);
                for child in 0..3 {
                    root = root.group(leaf(&mut dice, &format!("{name}-{child}"), 48));
                }
                if dice.roll(2) == 0 { root.require("rack") } else { root }
            };
            let mut answers =
                planners.iter_mut().map(|planner| held(planner, &cluster, &framework, &group));
            let first = answers.next().unwrap();
            assert!(answers.all(|other| other == first));
            if dice.roll(2) == 0 {
                placed += commit(&mut cluster, &framework, &first);
            }
        }
    }
    assert!(placed > budget::part(300) as usize, "{placed}");
}

/// One planner over clones that part ways, while nodes change racks, go and come back.
#[test]
fn parts_of_levels_follow_nodes_on_clones() {
    let mut placed = 0;
    for seed in 0..60 {
        let mut dice = Dice(900 + seed);
        let mut clusters = vec![topology_cluster(&mut dice, 6, 3)];
        clusters.push(clusters[0].clone());
        let builder = scored(&mut dice);
        let framework = with_domain_scores(&mut dice, builder);
        let mut planner = Planner::new();
        for step in 0..10 {
            let at = dice.roll(2) as usize;
            let name = format!("n{}", dice.roll(18));
            let other = node(&mut dice, name[1..].parse().unwrap())
                .label("zone", format!("z{}", dice.roll(3)))
                .label("rack", format!("r{}", dice.roll(7)));
            let cluster = &mut clusters[at];
            match (cluster.node(&name).is_some(), dice.roll(3)) {
                (true, 0) => cluster.remove_node(&name).unwrap(),
                (true, _) => cluster.update_node(&other).unwrap(),
                (false, _) => drop(cluster.add_node(other).unwrap()),
            }
            if dice.roll(6) == 0 {
                clusters[1 - at] = clusters[at].clone();
            }
            for (side, cluster) in clusters.iter_mut().enumerate() {
                let members = 1 + dice.roll(6) as usize;
                let name = format!("s{seed}-{step}-{side}");
                let group = PodGroup::gang(&name, 1).pods(members, pod(&mut dice));
                let group = confined(&mut dice, group);
                let outcome = held(&mut planner, cluster, &framework, &group);
                placed += commit(cluster, &framework, &outcome);
            }
        }
    }
    assert!(placed > 500, "{placed}");
}

/// Groups whose domains are scored while pods of their siblings are on some nodes.
#[test]
fn siblings_count_in_the_sums_of_domains() {
    let mut placed = 0;
    for seed in 0..60 {
        let mut dice = Dice(8_000 + seed);
        let racks = 3 + dice.roll(6);
        let mut cluster = topology_cluster(&mut dice, racks, 6);
        let builder = scored(&mut dice).domain_score(1, LeastFree::of("gpu"));
        let framework =
            builder.domain_score(5, DomainAllocation::of([("cpu", 1), ("gpu", 2)])).build();
        let framework = framework.unwrap();
        let mut planner = Planner::new();
        for step in 0..4 {
            let name = format!("s{seed}-{step}");
            let mut group = PodGroup::gang(&name, 1);
            for part in 0..3 {
                let leaf = PodGroup::gang(format!("{name}-{part}"), 1);
                group = group.group(leaf.pods(3, pod(&mut dice)).require("rack"));
            }
            let outcome = held(&mut planner, &cluster, &framework, &group);
            placed += commit(&mut cluster, &framework, &outcome);
        }
    }
    assert!(placed > 600, "{placed}");
}

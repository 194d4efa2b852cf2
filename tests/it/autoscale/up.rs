//! Scaling up: the first set of brute force, plans that hold, and what is claimed.

use phalanx::autoscale::{Autoscaler, ScaleUp, ScaleUpClaim, ScaleUpOutcome, ScaleUpRequest};
use phalanx::{Framework, Planner, PodGroup};

use super::brute;
use super::world::World;
use crate::support::budget;

fn request<'a>(world: &World, groups: &'a [PodGroup]) -> ScaleUpRequest<'a> {
    ScaleUpRequest::new(groups)
        .templates(world.templates())
        .max_nodes(world.max_nodes)
        .budget(2_000_000)
}

/// How many blocks of each variant were bought.
fn counts(world: &World, start: &ScaleUp) -> Vec<u32> {
    let variants = world.variants();
    let mut counts = vec![0; variants.len()];
    for block in &start.blocks {
        let zone = block.nodes[0].labels.get("zone");
        let is = |(offer, machine): &(usize, _)| {
            let machine: &super::world::Machine = machine;
            format!("t{offer}") == block.template && machine.zone.as_ref() == zone
        };
        counts[variants.iter().position(is).unwrap()] += 1;
    }
    counts
}

/// Adds the nodes to the cluster and commits the plans; where the list is short, places all groups by
/// the plain planner too.
pub(super) fn check(world: &World, groups: &[PodGroup], start: &ScaleUp, short: bool) {
    let framework = Framework::default();
    let mut cluster = world.cluster();
    for node in start.nodes() {
        cluster.add_node(node.clone()).unwrap();
    }
    let bare = cluster.clone();
    for plan in &start.plans {
        cluster.commit(&framework, plan).unwrap();
    }
    for group in groups {
        let runs =
            group.all_pods().iter().filter(|p| cluster.pod("default", &p.name).is_some()).count();
        assert!(runs >= group.policy.minimum() as usize, "{}: {runs}", group.name);
    }
    if short {
        let mut all = PodGroup::gang("all", groups.len() as u32);
        all.groups = groups.to_vec();
        assert!(Planner::new().place(&bare, &framework, &all).unwrap().is_placed());
    }
    let price: u64 = start.blocks.iter().map(|block| block.price).sum();
    assert_eq!(price, start.price);
}

#[test]
fn sets_are_those_of_brute_force() {
    let count = budget::part(500) as usize;
    let (mut start, mut bought, mut impossible, mut joint) = (0, 0, 0, 0);
    for seed in 0..count as u64 {
        let world = World::random(seed);
        let (cluster, groups) = (world.cluster(), world.groups());
        let mut autoscaler = Autoscaler::new();
        let answer =
            autoscaler.scale_up(&cluster, &Framework::default(), request(&world, &groups)).unwrap();
        let first = brute::first(&world);
        match (&answer, first) {
            (ScaleUpOutcome::Start(found), Some(first)) => {
                assert_eq!(counts(&world, found), first, "seed {seed}: {world:?}");
                assert_eq!(found.claim, ScaleUpClaim::First, "seed {seed}");
                assert!(found.is_cheapest());
                check(&world, &groups, found, true);
                start += 1;
                bought += usize::from(!found.blocks.is_empty());
                joint += usize::from(found.plans.len() == 1 && groups.len() > 1);
            }
            (ScaleUpOutcome::Impossible { .. }, None) => impossible += 1,
            (answer, first) => panic!("seed {seed}: {answer}, brute force {first:?}: {world:?}"),
        }
    }
    eprintln!(
        "{start} start, {bought} with new nodes, {joint} laid out together, {impossible} cannot"
    );
    assert!(bought > count / 4 && impossible > count / 50);
}

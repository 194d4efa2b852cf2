//! First-fit decreasing by template, as cluster-autoscaler estimates: never cheaper.
//!
//! For each template alone pods are put, the largest first, on the first machine that takes them, and
//! on a new one where none does; groups start whole, in one domain where they ask for one.

use phalanx::Framework;
use phalanx::autoscale::{Autoscaler, ScaleUpRequest};

use super::world::{Kind, Machine, Want, World};

/// Cost of one variant alone; `None` if it does not start all groups.
fn cost(world: &World, (offer, machine): &(usize, Machine)) -> Option<u64> {
    let own = &world.offers[*offer];
    let mut machines = world.machines.clone();
    let mut blocks = 0;
    let mut wants: Vec<&Want> = world.wants.iter().collect();
    let size = |want: &Want| want.pods.iter().map(|pod| 8 * pod.gpu + pod.cpu).sum::<i64>();
    wants.sort_by_key(|want| -size(want));
    for want in wants {
        let mut pods: Vec<Kind> = want.pods.clone();
        pods.sort_by_key(|pod| -(8 * pod.gpu + pod.cpu));
        loop {
            if let Some(placed) = start(&machines, want, &pods) {
                machines = placed;
                break;
            }
            blocks += 1;
            if blocks * own.nodes > world.max_nodes || own.limit.is_some_and(|most| blocks > most) {
                return None;
            }
            for _ in 0..own.nodes {
                let mut machine = machine.clone();
                if own.own_rack {
                    machine.rack = Some(format!("new-{blocks}"));
                }
                machines.push(machine);
            }
        }
    }
    Some(u64::from(blocks) * own.price)
}

/// The machines with a group on the first that take its pods, in the first domain that takes all.
fn start(machines: &[Machine], want: &Want, pods: &[Kind]) -> Option<Vec<Machine>> {
    let domain = |machine: &Machine| match want.require {
        None => Some(String::new()),
        Some(label) => machine.domain(label),
    };
    let mut domains: Vec<String> = machines.iter().filter_map(domain).collect();
    domains.dedup();
    domains.iter().find_map(|own| {
        let mut machines = machines.to_vec();
        for pod in pods {
            let machine = machines
                .iter_mut()
                .find(|machine| domain(machine).as_ref() == Some(own) && machine.takes(pod))?;
            machine.cpu -= pod.cpu;
            machine.gpu -= pod.gpu;
            machine.pods -= 1;
        }
        Some(machines)
    })
}

#[test]
fn no_template_alone_is_cheaper_by_first_fit() {
    let (mut compared, mut cheaper) = (0, 0);
    for seed in 0..500 {
        let mut world = World::random(seed);
        // First fit knows no slices.
        for want in &mut world.wants {
            want.slice = None;
        }
        let costs = world.variants();
        let Some(first_fit) = costs.iter().filter_map(|variant| cost(&world, variant)).min() else {
            continue;
        };
        let (cluster, groups) = (world.cluster(), world.groups());
        let request = ScaleUpRequest::new(&groups).templates(world.templates());
        let request = request.max_nodes(world.max_nodes);
        let answer = Autoscaler::new().scale_up(&cluster, &Framework::default(), request).unwrap();
        let price = answer.start().expect("first fit has found a set").price;
        assert!(price <= first_fit, "seed {seed}: {price} above {first_fit}");
        compared += 1;
        cheaper += usize::from(price < first_fit);
    }
    assert!(compared > 200 && cheaper > 20, "{compared} compared, {cheaper} cheaper");
}

#[test]
fn long_lists_cost_no_more_than_first_fit_and_close_to_the_bound() {
    for seed in 0..6 {
        let world = World::long(seed, 60);
        let variants = world.variants();
        let first_fit = variants.iter().filter_map(|variant| cost(&world, variant)).min();
        let (cluster, groups) = (world.cluster(), world.groups());
        let request = ScaleUpRequest::new(&groups).templates(world.templates());
        let answer = Autoscaler::new().scale_up(&cluster, &Framework::default(), request).unwrap();
        let start = answer.start().expect("there is no limit");
        super::up::check(&world, &groups, start, false);
        assert!(start.lower_bound <= start.price);
        assert!(first_fit.is_none_or(|first_fit| start.price <= first_fit), "seed {seed}");
        assert!(start.price * 10 <= start.lower_bound * 11, "seed {seed}: {answer}");
    }
}

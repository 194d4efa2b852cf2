//! Tight gangs in slices: as many nodes as members, each with one device or one host port to give.
//! A search that packed by amounts alone would look at every one of the domains.

use phalanx::model::{Device, DeviceRequest};
use phalanx::place::UnplacedKind;
use phalanx::{Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scarce {
    Whole,
    Share,
    Port,
}

/// Nodes in two racks, with CPU for all members each.
fn cluster(scarce: Scarce, nodes: usize, devices: impl Fn(usize) -> usize) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for number in 0..nodes {
        let mut node = Node::new(format!("n{number}"))
            .capacity("cpu", 1_000)
            .label("rack", format!("r{}", number % 2));
        if scarce != Scarce::Port {
            for _ in 0..devices(number) {
                node = node.device(Device::new("gpu", "m").capacity("milli", 1_000));
            }
        }
        cluster.add_node(node).unwrap();
    }
    cluster
}

/// Pods that differ in their CPU, so that they are of several classes.
fn gang(scarce: Scarce, members: usize, kinds: usize, devices: impl Fn(usize) -> u32) -> PodGroup {
    let pods = (0..members).map(|number| {
        let kind = number % kinds;
        let pod = Pod::new().name(format!("p{number}")).request("cpu", 1 + kind as i64);
        match scarce {
            Scarce::Whole => pod.device(DeviceRequest::whole("gpu", devices(kind))),
            Scarce::Share => pod.device(DeviceRequest::share("gpu", "milli", 600)),
            Scarce::Port => pod.host_port("TCP", 80),
        }
    });
    pods.fold(PodGroup::gang("g", members as u32), PodGroup::pod).slice("rack", 1)
}

fn place(cluster: &Cluster, gang: &PodGroup) -> Outcome {
    Planner::new().place(cluster, &Framework::default(), gang).unwrap()
}

#[test]
fn slices_of_scarce_units_are_placed_or_proven_not_to_fit() {
    for scarce in [Scarce::Whole, Scarce::Share, Scarce::Port] {
        for (nodes, kinds) in [(10, 1), (10, 2), (20, 3)] {
            let cluster = cluster(scarce, nodes, |_| 1);
            let outcome = place(&cluster, &gang(scarce, nodes, kinds, |_| 1));
            let Outcome::Placed(plan) = outcome else { panic!("{scarce:?} {nodes} {kinds}") };
            let mut taken: Vec<&str> = plan.assignments().map(|own| own.node()).collect();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), nodes, "{scarce:?}: each on a node of its own");
        }
        for kinds in [1, 2] {
            let outcome = place(&cluster(scarce, 10, |_| 1), &gang(scarce, 11, kinds, |_| 1));
            let Outcome::Unplaced(unplaced) = outcome else { panic!("{scarce:?}: one too many") };
            assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "{scarce:?} {kinds}");
        }
    }
}

#[test]
fn members_that_ask_for_one_and_two_devices_share_what_there_is() {
    let cluster = cluster(Scarce::Whole, 10, |number| 1 + usize::from(number >= 5));
    let outcome = place(&cluster, &gang(Scarce::Whole, 10, 2, |kind| 1 + kind as u32));
    assert!(outcome.is_placed(), "{outcome:?}");
    let outcome = place(&cluster, &gang(Scarce::Whole, 12, 2, |kind| 1 + kind as u32));
    let Outcome::Unplaced(unplaced) = outcome else { panic!("eighteen of fifteen devices") };
    assert_eq!(unplaced.kind, UnplacedKind::Infeasible);
}

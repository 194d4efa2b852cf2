//! Devices of claims in preemption, what-if questions and autoscaling.

use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpRequest};
use phalanx::claims::Cel;
use phalanx::model::{ClaimSpec, DeviceClass, DeviceDemand, ResourceSlice, SliceDevice};
use phalanx::plugins::DynamicResources;
use phalanx::preempt::{PreemptingPlanner, Preemption, RunningWork};
use phalanx::reference::is_sound;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, place_gang};

const DRIVER: &str = "gpu.example.com";

fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

fn gpus(node: &str) -> ResourceSlice {
    let gpus = (0..8).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
    gpus.fold(ResourceSlice::on(node, DRIVER), ResourceSlice::device)
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for at in 0..nodes {
        let name = format!("n{at}");
        cluster.add_node(Node::new(&name).capacity("cpu", 64)).unwrap();
        cluster.set_resource_slice(gpus(&name));
    }
    cluster
}

fn gang(name: &str, members: u32, devices: u64) -> PodGroup {
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", devices));
    let pod = Pod::new().request("cpu", 1).own_claim("gpus", spec);
    PodGroup::gang(name, members).pods(members as usize, pod)
}

#[test]
fn devices_of_victims_count_as_free_and_no_more_of_them_go_than_must() {
    let framework = framework();
    let mut cluster = cluster(3);
    let mut running = RunningWork::new();
    for (name, devices) in [("a", 8), ("b", 8), ("c", 4)] {
        let group = gang(name, 1, devices).priority(1).evicted_whole();
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
        running.set_group(&group).unwrap();
    }
    let group = gang("new", 2, 8).priority(100);
    assert!(!place_gang(&cluster, &framework, &group).unwrap().is_placed());
    let mut planner = PreemptingPlanner::new();
    let answer = planner.place(&cluster, &framework, &running, Request::new(&group)).unwrap();
    let Preemption::Preempt(found) = answer else { panic!("{answer:?}") };
    assert_eq!(found.cost.units, 2, "{:?}", found.victims);
    let mut after = cluster.clone();
    for victim in &found.victims {
        for pod in &victim.pods {
            after.remove_pod(&pod.namespace, &pod.name).unwrap();
        }
    }
    is_sound(&found.plan, &group, &after, &framework).unwrap();
    after.commit(&framework, &found.plan).unwrap();
    let none = gang("larger", 4, 8).priority(100);
    let answer = planner.place(&cluster, &framework, &running, Request::new(&none)).unwrap();
    assert!(!matches!(answer, Preemption::Preempt(_)), "{answer:?}");
}

#[test]
fn a_node_template_has_slices() {
    let framework = framework();
    let mut cluster = cluster(1);
    let group = gang("g", 3, 8);
    let template = Node::new("gpu").capacity("cpu", 64).slice(gpus("any"));
    let bare = Node::new("plain").capacity("cpu", 64);
    let request = ScaleUpRequest::new([&group])
        .template(NodeTemplate::new(bare, 1).limit(4))
        .template(NodeTemplate::new(template, 10).limit(4));
    let answer = Autoscaler::new().scale_up(&cluster, &framework, request).unwrap();
    let start = answer.start().expect("two nodes do");
    assert_eq!(start.price, 20);
    assert_eq!(cluster.claims().slices().count(), 1);
    for node in start.nodes() {
        cluster.add_node(node.clone()).unwrap();
    }
    assert_eq!(cluster.claims().slices().count(), 3);
    for plan in &start.plans {
        cluster.commit(&framework, plan).unwrap();
    }
}

#[test]
fn a_transaction_takes_back_the_slices_of_its_nodes_and_leaves_published_pools_alone() {
    let mut cluster = cluster(1);
    let mut txn = cluster.txn();
    let before = txn.checkpoint();
    txn.add_nodes(&Node::new("t").capacity("cpu", 8).slice(gpus("any")), 2).unwrap();
    assert_eq!(txn.claims().slices().count(), 3);
    assert!(place_gang(&txn, &framework(), &gang("g", 3, 8)).unwrap().is_placed());
    txn.rollback(before).unwrap();
    assert_eq!(txn.claims().slices().count(), 1);
    // The driver was faster than the node.
    cluster.set_resource_slice(gpus("n9"));
    cluster.add_node(Node::new("n9").slice(gpus("any"))).unwrap();
    assert_eq!(cluster.claims().slices().count(), 2);
}

//! Claims of groups that ask for domains, and of groups of groups.

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, DeviceClass, DeviceDemand, NodeReach, NodeSelector, NodeSelectorTerm, Operator,
    Requirement, ResourceClaim, ResourceSlice, SliceDevice,
};
use phalanx::plugins::DynamicResources;
use phalanx::reference::is_sound;
use phalanx::{Cluster, Framework, Node, Plan, Pod, PodGroup, Request, Strategy, place_gang};

const STRATEGIES: [Strategy; 2] = [Strategy::Kubernetes, Strategy::Search];

fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

/// The devices of a driver.
fn class(name: &str, driver: &str) -> DeviceClass {
    DeviceClass::new(name).selector(format!(r#"device.driver == "{driver}""#))
}

/// Racks of two nodes each, with so many devices a node.
fn cluster(racks: &[(&str, usize)]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    cluster.set_device_class(class("gpu", "gpu.example.com"));
    for (rack, devices) in racks {
        for at in 0..2 {
            let name = format!("{rack}{at}");
            cluster.add_node(Node::new(&name).capacity("cpu", 64).label("rack", *rack)).unwrap();
            let gpus = (0..*devices).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
            let slice = ResourceSlice::on(name, "gpu.example.com");
            cluster.set_resource_slice(gpus.fold(slice, ResourceSlice::device));
        }
    }
    cluster
}

fn pod(name: &str, devices: u64) -> Pod {
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", devices));
    Pod::new().name(name).request("cpu", 1).own_claim("gpus", spec)
}

fn placed(cluster: &Cluster, group: &PodGroup, strategy: Strategy) -> Option<Plan> {
    let request = Request::new(group).strategy(strategy);
    let outcome = place_gang(cluster, &framework(), request.clone()).unwrap();
    let plan = outcome.plan().cloned()?;
    is_sound(&plan, request, cluster, &framework()).unwrap();
    cluster.clone().commit(&framework(), &plan).unwrap();
    Some(plan)
}

#[test]
fn a_gang_goes_to_the_rack_whose_devices_suffice() {
    let cluster = cluster(&[("a", 2), ("b", 4), ("c", 3)]);
    let gang = (0..4).fold(PodGroup::gang("g", 4).require("rack"), |gang, at| {
        gang.pod(pod(&format!("p{at}"), 2))
    });
    for strategy in STRATEGIES {
        let plan = placed(&cluster, &gang, strategy).expect("rack b");
        assert!(plan.assignments().all(|own| own.node().starts_with('b')), "{strategy:?}");
        let mut larger = gang.clone().pod(pod("p4", 2));
        larger.policy = PodGroup::gang("g", 5).policy;
        assert!(placed(&cluster, &larger, strategy).is_none(), "{strategy:?}");
    }
}

#[test]
fn groups_of_a_tree_leave_each_other_their_devices() {
    let cluster = cluster(&[("a", 2), ("b", 2)]);
    let part = |name: &str| {
        let leaf = PodGroup::gang(name, 2).require("rack");
        leaf.pod(pod(&format!("{name}-0"), 2)).pod(pod(&format!("{name}-1"), 2))
    };
    let tree = PodGroup::gang("tree", 2).group(part("x")).group(part("y"));
    let larger = PodGroup::gang("tree", 3).group(part("x")).group(part("y")).group(part("z"));
    for strategy in STRATEGIES {
        let plan = placed(&cluster, &tree, strategy).expect("a rack each");
        assert_eq!(plan.len(), 4, "{strategy:?}");
        assert!(placed(&cluster, &larger, strategy).is_none(), "{strategy:?}");
    }
}

#[test]
fn a_claim_of_a_group_confines_it_to_the_nodes_that_reach_its_devices() {
    let mut cluster = cluster(&[("a", 1), ("b", 1)]);
    cluster.set_device_class(class("channel", "net.example.com"));
    let rack = Requirement::new("rack", Operator::In, ["b"]);
    let nodes = NodeSelector::any_of([NodeSelectorTerm::labels([rack])]);
    let slice = ResourceSlice::new("fabric", "net.example.com", "fabric");
    let slice = slice.reached_by(NodeReach::Selector(nodes)).device(SliceDevice::new("channel-0"));
    cluster.set_resource_slice(slice);
    let spec = ClaimSpec::new().request("channel", DeviceDemand::of("channel", 1));
    cluster.set_claim(ResourceClaim::new("shared", spec));
    let member = |name: &str| pod(name, 1).claim("shared");
    let gang = PodGroup::gang("g", 2).pod(member("p0")).pod(member("p1"));
    for strategy in STRATEGIES {
        let plan = placed(&cluster, &gang, strategy).expect("rack b has the fabric");
        assert!(plan.assignments().all(|own| own.node().starts_with('b')), "{strategy:?}");
    }
}

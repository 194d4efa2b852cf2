//! Devices of claims come and go with their pods.

use std::sync::Arc;

use phalanx::claims::{Cel, NoSelectors};
use phalanx::model::{
    Allocation, ClaimSpec, DeviceClass, DeviceDemand, ResourceClaim, ResourceSlice, SliceDevice,
};
use phalanx::plugins::DynamicResources;
use phalanx::{
    Cluster, CommitError, Framework, Node, Outcome, Pod, PodGroup, Unplaced, place_gang,
};

const DRIVER: &str = "gpu.example.com";

fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

/// Nodes with so many devices each.
fn cluster(devices: &[usize]) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for (at, count) in devices.iter().enumerate() {
        let name = format!("n{at}");
        cluster.add_node(Node::new(&name).capacity("cpu", 8)).unwrap();
        let devices = (0..*count).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
        cluster.set_resource_slice(
            devices.fold(ResourceSlice::on(name, DRIVER), ResourceSlice::device),
        );
    }
    cluster
}

fn own(name: &str, count: u64) -> Pod {
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", count));
    Pod::new().name(name).request("cpu", 1).own_claim("gpus", spec)
}

fn gang(name: &str, pods: impl IntoIterator<Item = Pod>) -> PodGroup {
    let pods: Vec<Pod> = pods.into_iter().collect();
    let gang = PodGroup::gang(name, pods.len() as u32);
    pods.into_iter().fold(gang, PodGroup::pod)
}

fn in_use(cluster: &Cluster) -> usize {
    let slices = cluster.claims().slices();
    let used = slices.flat_map(|slice| slice.devices.iter().map(move |own| (slice, own)));
    let used = used.filter(|(slice, own)| {
        cluster.claims().usage(&slice.driver, &slice.pool, &own.name).is_some()
    });
    used.count()
}

fn placed(cluster: &Cluster, gang: &PodGroup) -> phalanx::Plan {
    match place_gang(cluster, &framework(), gang).unwrap() {
        Outcome::Placed(plan) => plan,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_gangs_that_want_one_device_conflict_by_its_name() {
    let mut cluster = cluster(&[2]);
    let first = placed(&cluster, &gang("a", [own("a", 2)]));
    let second = placed(&cluster, &gang("b", [own("b", 1)]));
    cluster.commit(&framework(), &first).unwrap();
    assert_eq!(in_use(&cluster), 2);
    let before = cluster.clone();
    let CommitError::Conflict { filter, .. } = cluster.commit(&framework(), &second).unwrap_err()
    else {
        panic!("no filter objects");
    };
    assert_eq!(filter, "DynamicResources");
    assert_eq!(cluster.pod_count(), before.pod_count());
    // Another device is free, but it is not the one that was chosen.
    let mut cluster = self::cluster(&[3]);
    cluster.commit(&framework(), &first).unwrap();
    let CommitError::Claim { device, .. } = cluster.commit(&framework(), &second).unwrap_err()
    else {
        panic!("not about a claim");
    };
    assert_eq!(device, "gpu.example.com/n0/gpu-0");
}

#[test]
fn devices_of_a_pod_that_leaves_are_free_and_come_back_with_it() {
    let mut cluster = cluster(&[2, 2]);
    let plan = placed(&cluster, &gang("a", [own("a", 2), own("b", 1)]));
    cluster.commit(&framework(), &plan).unwrap();
    assert_eq!(in_use(&cluster), 3);
    let mut txn = cluster.txn();
    let before = txn.checkpoint();
    txn.evict("default", "a").unwrap();
    assert_eq!(in_use(&txn), 1);
    let other = gang("c", [own("c", 2)]);
    assert!(place_gang(&txn, &framework(), &other).unwrap().is_placed());
    txn.rollback(before).unwrap();
    assert_eq!(in_use(&txn), 3);
    assert!(!place_gang(&txn, &framework(), &other).unwrap().is_placed());
    cluster.remove_pod("default", "a").unwrap();
    cluster.remove_pod("default", "b").unwrap();
    assert_eq!(in_use(&cluster), 0);
}

#[test]
fn a_shared_claim_has_devices_once_and_as_long_as_one_of_its_pods_stays() {
    let mut cluster = cluster(&[2, 4]);
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 3));
    cluster.set_claim(ResourceClaim::new("shared", spec));
    let member = |name: &str| Pod::new().name(name).request("cpu", 1).claim("shared");
    let plan = placed(&cluster, &gang("a", ["x", "y", "z"].map(member)));
    assert!(plan.assignments().all(|own| own.node() == "n1"));
    let held: usize = plan.assignments().map(|own| own.allocations().len()).sum();
    assert_eq!(held, 1);
    cluster.commit(&framework(), &plan).unwrap();
    assert_eq!(in_use(&cluster), 3);
    for (left, name) in ["x", "y", "z"].into_iter().enumerate() {
        assert_eq!(in_use(&cluster), 3, "{left}");
        cluster.remove_pod("default", name).unwrap();
    }
    assert_eq!(in_use(&cluster), 0);
    assert!(cluster.claims().claim("default", "shared").unwrap().allocation().is_none());
}

#[test]
fn a_claim_that_was_allocated_elsewhere_confines_its_pods_until_it_is_released() {
    let mut cluster = cluster(&[1, 1]);
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 1));
    let plan = placed(&cluster, &gang("a", [own("a", 1)]));
    let given: Arc<Allocation> = {
        let first = plan.assignments().next().unwrap();
        Arc::clone(&first.allocations()[0].allocation)
    };
    let mut claim = ResourceClaim::new("c", spec);
    claim.allocation = Some(given);
    cluster.set_claim(claim);
    assert_eq!(in_use(&cluster), 1);
    let user = gang("b", [Pod::new().name("b").claim("c")]);
    let plan = placed(&cluster, &user);
    assert_eq!(plan.assignments().next().unwrap().node(), "n0");
    cluster.commit(&framework(), &plan).unwrap();
    assert_eq!(in_use(&cluster), 1);
    assert!(cluster.deallocate_claim("default", "c"));
    assert_eq!(in_use(&cluster), 0);
}

#[test]
fn plans_and_clusters_with_claims_survive_being_written() {
    let mut cluster = cluster(&[2, 2]);
    let spec =
        ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 1)).same("gpu.example.com/x");
    cluster.set_claim(ResourceClaim::new("c", spec));
    let plan = placed(&cluster, &gang("a", [own("a", 2), own("b", 1)]));
    let text = serde_json::to_string(&plan).unwrap();
    let read: phalanx::Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(read, plan);
    cluster.commit(&framework(), &read).unwrap();
    let text = serde_json::to_string(&cluster).unwrap();
    let again: Cluster = serde_json::from_str(&text).unwrap();
    assert_eq!(in_use(&again), 3);
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
}

#[test]
fn claims_that_cannot_be_judged_or_do_not_exist_keep_pods_away() {
    let cluster = cluster(&[2]);
    let missing = gang("a", [Pod::new().name("p").claim("missing")]);
    assert!(!place_gang(&cluster, &framework(), &missing).unwrap().is_placed());
    let unknown = ClaimSpec::new().request("r", DeviceDemand::of("tpu", 1));
    let unknown = gang("a", [Pod::new().name("p").own_claim("c", unknown)]);
    assert!(!place_gang(&cluster, &framework(), &unknown).unwrap().is_placed());
    let wrong = DeviceDemand::of("gpu", 1).selector("device.nothing == 1");
    let wrong =
        gang("a", [Pod::new().name("p").own_claim("c", ClaimSpec::new().request("r", wrong))]);
    assert!(!place_gang(&cluster, &framework(), &wrong).unwrap().is_placed());
    // Without an evaluator no expression holds; without the filter nothing is placed either.
    let plain = DeviceDemand::of("gpu", 1);
    let plain =
        gang("a", [Pod::new().name("p").own_claim("c", ClaimSpec::new().request("r", plain))]);
    let bare = DynamicResources::add_to(Framework::default().to_builder(), NoSelectors);
    assert!(place_gang(&cluster, &bare.build().unwrap(), &plain).unwrap().is_placed());
}

#[test]
fn a_gang_that_a_greedy_scheduler_misses_is_placed_whole() {
    // The first device would do for both, the second for one of them alone.
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    cluster.add_node(Node::new("n").capacity("cpu", 8)).unwrap();
    let device = |name: &str, model: &str| SliceDevice::new(name).attribute("model", model);
    let slice =
        ResourceSlice::on("n", DRIVER).device(device("a", "h100")).device(device("b", "t4"));
    cluster.set_resource_slice(slice);
    let h100 = r#"device.attributes["gpu.example.com"].model == "h100""#;
    let picky = DeviceDemand::of("gpu", 1).selector(h100);
    let picky = Pod::new().name("b").own_claim("c", ClaimSpec::new().request("r", picky));
    let gang = gang("g", [own("a", 1), picky]);
    let plan = placed(&cluster, &gang);
    cluster.commit(&framework(), &plan).unwrap();
    assert_eq!(in_use(&cluster), 2);
    let third = self::gang("h", [own("c", 1)]);
    let Outcome::Unplaced(Unplaced { kind, .. }) =
        place_gang(&cluster, &framework(), &third).unwrap()
    else {
        panic!("placed");
    };
    assert_eq!(kind, phalanx::place::UnplacedKind::Infeasible);
}

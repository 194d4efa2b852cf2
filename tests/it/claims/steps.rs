//! The search for groups with claims: its steps, what it may call proven, and what it counts.

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, Device, DeviceClass, DeviceDemand, DeviceRequest, LabelSelector, PodAffinityTerm,
    ResourceClaim, ResourceSlice, SliceDevice,
};
use phalanx::place::{Proof, UnplacedKind};
use phalanx::plugins::DynamicResources;
use phalanx::reference::is_sound;
use phalanx::{Cluster, Framework, Node, Outcome, Pod, PodGroup, Request, Strategy, place_gang};

const DRIVER: &str = "gpu.example.com";

fn framework() -> Framework {
    DynamicResources::add_to(Framework::kubernetes().to_builder(), Cel).build().unwrap()
}

/// Nodes in racks with so many devices each.
fn cluster(nodes: &[(&str, &str, usize)]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    cluster.set_device_class(
        DeviceClass::new("gpu").selector(format!(r#"device.driver == "{DRIVER}""#)),
    );
    for (name, rack, devices) in nodes {
        let node = Node::new(*name).capacity("cpu", 64).label("rack", *rack);
        cluster.add_node(node.label("kubernetes.io/hostname", *name)).unwrap();
        let slice = ResourceSlice::on(*name, DRIVER);
        let gpus = (0..*devices).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
        cluster.set_resource_slice(gpus.fold(slice, ResourceSlice::device));
    }
    cluster
}

fn pod(name: &str, devices: u64) -> Pod {
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", devices));
    Pod::new().name(name).request("cpu", 1).own_claim("gpus", spec)
}

fn kind(outcome: &Outcome) -> Option<UnplacedKind> {
    match outcome {
        Outcome::Unplaced(own) => Some(own.kind.clone()),
        _ => None,
    }
}

#[test]
fn few_steps_are_shared_by_all_domains_and_never_prove_anything() {
    // Both racks hold the gang by all counts, and only in the other order of the members.
    let cluster = cluster(&[("a0", "a", 2), ("a1", "a", 1), ("b0", "b", 2), ("b1", "b", 1)]);
    let gang = PodGroup::gang("g", 2).pod(pod("small", 1)).pod(pod("large", 2)).require("rack");
    let mut last = false;
    for budget in 0..40 {
        let request = Request::new(&gang).strategy(Strategy::Search).budget(budget);
        let outcome = place_gang(&cluster, &framework(), request.clone()).unwrap();
        match outcome.plan() {
            Some(plan) => is_sound(plan, request, &cluster, &framework()).unwrap(),
            None => assert_eq!(kind(&outcome), Some(UnplacedKind::Exhausted), "{budget}"),
        }
        assert!(outcome.is_placed() || !last, "{budget}");
        last = outcome.is_placed();
    }
    assert!(last);
}

#[test]
fn a_gang_whose_members_need_each_other_is_never_proven_not_to_fit() {
    let cluster = cluster(&[("a0", "a", 2), ("a1", "a", 2), ("b0", "b", 1)]);
    // The member with more devices goes first, and needs one that is not there yet.
    let term = PodAffinityTerm::new("kubernetes.io/hostname", LabelSelector::label("app", "base"));
    let gang = PodGroup::gang("g", 2)
        .pod(pod("near", 1).label("app", "near").affinity(term))
        .pod(pod("base", 1).label("app", "base"));
    let request = Request::new(&gang).strategy(Strategy::Search);
    let outcome = place_gang(&cluster, &framework(), request).unwrap();
    // Both fit on one node, the second member first.
    assert_ne!(kind(&outcome), Some(UnplacedKind::Infeasible), "{outcome}");
}

#[test]
fn claims_that_one_member_names_alone_are_as_good_as_its_own() {
    // Each member names a claim of its own, made before it: alike, whatever they are called.
    let nodes: Vec<String> = (0..16).map(|at| format!("n{at:02}")).collect();
    let nodes: Vec<_> = nodes.iter().map(|name| (name.as_str(), "r", 3)).collect();
    let mut cluster = cluster(&nodes);
    let mut gang = PodGroup::gang("g", 20);
    for at in 0..20 {
        let one = || DeviceDemand::of("gpu", 1);
        let spec = ClaimSpec::new().request("first", one()).request("second", one());
        cluster.set_claim(ResourceClaim::new(format!("c{at}"), spec));
        let member = Pod::new().name(format!("p{at}")).request("cpu", 1);
        gang = gang.pod(member.claim(format!("c{at}")));
    }
    // There are 48 devices for 40, but a node of three serves one claim of two. Members that stand in
    // for each other are counted as one kind, which proves it.
    let request = || Request::new(&gang).strategy(Strategy::Search).budget(2_000);
    let outcome = place_gang(&cluster, &framework(), request()).unwrap();
    let Outcome::Unplaced(unplaced) = &outcome else { panic!("{outcome}") };
    assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "{outcome}");
    let certificate = unplaced.certificate.as_ref().unwrap();
    certificate.verify(&cluster, &framework(), request()).unwrap();
}

#[test]
fn members_with_claims_may_fill_a_node_to_its_last_core() {
    let mut cluster = cluster(&[("a0", "a", 2), ("a1", "a", 1)]);
    for (name, cpu) in [("full0", "a0"), ("full1", "a1")] {
        let pod = Pod::new().name(name).request("cpu", 63).on(cpu);
        cluster.add_pod(pod).unwrap();
    }
    // Only in the other order of the members, so that they are counted and searched.
    let gang = PodGroup::gang("g", 2).pod(pod("small", 1)).pod(pod("large", 2));
    let request = || Request::new(&gang).strategy(Strategy::Search);
    let outcome = place_gang(&cluster, &framework(), request()).unwrap();
    let plan = outcome.plan().unwrap_or_else(|| panic!("{outcome}"));
    is_sound(plan, request(), &cluster, &framework()).unwrap();
}

#[test]
fn what_is_taken_of_a_shared_device_is_no_room_to_a_certificate() {
    let mut cluster = Cluster::new();
    cluster.set_device_class(
        DeviceClass::new("gpu").selector(format!(r#"device.driver == "{DRIVER}""#)),
    );
    cluster.add_node(Node::new("n0").capacity("cpu", 64)).unwrap();
    let mut device = SliceDevice::new("gpu-0").capacity("memory", 80);
    device.shareable = true;
    cluster.set_resource_slice(ResourceSlice::on("n0", DRIVER).device(device));
    let member = |name: &str| {
        let demand = DeviceDemand::of("gpu", 1).taking("memory", 40);
        let spec = ClaimSpec::new().request("part", demand);
        Pod::new().name(name).request("cpu", 1).own_claim("part", spec)
    };
    let one = PodGroup::gang("one", 1).pod(member("one-0"));
    let two = PodGroup::gang("two", 2).pod(member("two-0")).pod(member("two-1"));
    let request = || Request::new(&two).strategy(Strategy::Search);
    assert!(place_gang(&cluster, &framework(), request()).unwrap().is_placed());
    let outcome = place_gang(&cluster, &framework(), &one).unwrap();
    cluster.commit(&framework(), outcome.plan().unwrap()).unwrap();
    let outcome = place_gang(&cluster, &framework(), request()).unwrap();
    let Outcome::Unplaced(unplaced) = &outcome else { panic!("{outcome}") };
    assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "{outcome}");
    let certificate = unplaced.certificate.as_ref().unwrap();
    assert_eq!(certificate.verify(&cluster, &framework(), request()), Ok(Proof::Counted));
}

#[test]
fn a_member_with_devices_of_its_node_beside_claims_gets_both() {
    let mut cluster = cluster(&[("a0", "a", 2)]);
    let slice = |name: &str| {
        let slice = ResourceSlice::on(name, DRIVER);
        (0..2).map(|gpu| SliceDevice::new(format!("gpu-{gpu}"))).fold(slice, ResourceSlice::device)
    };
    let node = Node::new("z0").capacity("cpu", 64).label("rack", "z");
    let card = || Device::new("card", "A").capacity("milli", 100);
    cluster.add_node(node.device(card()).device(card())).unwrap();
    cluster.set_resource_slice(slice("z0"));
    let member = |at: usize| pod(&format!("p{at}"), 1).device(DeviceRequest::whole("card", 1));
    let gang = PodGroup::gang("g", 2).pod(member(0)).pod(member(1));
    for strategy in [Strategy::Kubernetes, Strategy::Search] {
        let request = Request::new(&gang).strategy(strategy);
        let framework = framework();
        let outcome = place_gang(&cluster, &framework, request.clone()).unwrap();
        let plan = outcome.plan().unwrap_or_else(|| panic!("{outcome}"));
        is_sound(plan, request, &cluster, &framework).unwrap();
        assert!(plan.assignments().all(|own| own.node() == "z0"));
        assert!(plan.assignments().all(|own| own.devices().iter().flatten().count() == 1));
        assert!(plan.assignments().all(|own| own.allocations().len() == 1));
    }
}

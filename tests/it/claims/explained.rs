//! Explanations of claims: the devices that are lacking, and the nearest change that would do.

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, DeviceClass, DeviceDemand, Effect, ResourceClaim, ResourceSlice, SliceDevice, Taint,
};
use phalanx::place::{ClaimLack, Explanation, Relaxation, Remedy};
use phalanx::plugins::DynamicResources;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, explain};

const DRIVER: &str = "gpu.example.com";

fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

/// Nodes of eight devices, six of which have one PCI root.
fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for at in 0..nodes {
        let name = format!("n{at}");
        cluster.add_node(Node::new(&name).capacity("cpu", 64)).unwrap();
        let devices = (0..8_i64).map(|gpu| {
            SliceDevice::new(format!("gpu-{gpu}")).attribute("pcieRoot", i64::from(gpu > 5))
        });
        cluster.set_resource_slice(
            devices.fold(ResourceSlice::on(name, DRIVER), ResourceSlice::device),
        );
    }
    cluster
}

fn own(spec: ClaimSpec) -> Pod {
    Pod::new().name("worker").request("cpu", 1).own_claim("gpus", spec)
}

fn explained(cluster: &Cluster, group: &PodGroup) -> Explanation {
    explain(cluster, &framework(), group, None).unwrap()
}

#[test]
fn the_constraint_that_no_node_meets_is_named_with_the_best_node_and_what_would_do() {
    let root = format!("{DRIVER}/pcieRoot");
    let spec = ClaimSpec::new().request("all", DeviceDemand::of("gpu", 8)).same(&root);
    let why = explained(&cluster(2), &PodGroup::gang("g", 1).pod(own(spec)));
    let [ClaimLack::Devices { claim, need: 8, have: 6, one, node, .. }] =
        &*why.rejections[0].claims
    else {
        panic!("{why}");
    };
    assert_eq!((&**claim, &**node, &**one), ("worker/gpus", "n0", &[root.clone()][..]));
    let text = why.to_string();
    let wanted = "claim worker/gpus needs 8 devices with one pcieRoot for request all; \
                  the best node, n0, has 6";
    assert!(text.contains(wanted), "{text}");
    let change =
        |change: Relaxation| Remedy::RelaxClaim { claim: "worker/gpus".into(), change, pods: 1 };
    assert!(why.remedies.contains(&change(Relaxation::Unconstrained { attribute: root })));
    let fewer = Relaxation::Fewer { request: "all".into(), to: 6, from: 8 };
    assert!(why.remedies.contains(&change(fewer)));
    assert_eq!(why.remedies.len(), 2, "{text}");
}

#[test]
fn claims_with_an_object_are_named_by_it() {
    let mut cluster = cluster(1);
    let spec = ClaimSpec::new().request("all", DeviceDemand::of("gpu", 9));
    cluster.set_claim(ResourceClaim::new("gpus", spec).in_namespace("trainer"));
    let pod = Pod::new().name("p").in_namespace("trainer").claim("gpus");
    let why = explained(&cluster, &PodGroup::gang("g", 1).in_namespace("trainer").pod(pod));
    let text = why.to_string();
    assert!(text.contains("claim trainer/gpus needs 9 devices for request all"), "{text}");
    let missing = Pod::new().name("p").claim("nothing");
    let why = explained(&cluster, &PodGroup::gang("g", 1).pod(missing));
    assert!(why.to_string().contains("claim default/nothing: does not exist"), "{why}");
}

#[test]
fn selectors_and_taints_that_stand_in_the_way_are_tried_without() {
    let mut cluster = cluster(1);
    let mut slice = cluster.claims().slices().next().unwrap().clone();
    for device in &mut slice.devices {
        device.taints.push(Taint::new("broken", "", Effect::NoSchedule));
    }
    cluster.set_resource_slice(slice);
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 2));
    let why = explained(&cluster, &PodGroup::gang("g", 1).pod(own(spec)));
    let tolerating = Relaxation::Tolerating { request: "gpus".into() };
    let changes: Vec<&Relaxation> = why
        .remedies
        .iter()
        .filter_map(|remedy| match remedy {
            Remedy::RelaxClaim { change, .. } => Some(change),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [&tolerating]);
    let roots = format!(r#"device.attributes["{DRIVER}"].pcieRoot == 7"#);
    let demand = DeviceDemand::of("gpu", 2).selector(roots);
    let spec = ClaimSpec::new().request("gpus", demand);
    let why = explained(&self::cluster(1), &PodGroup::gang("g", 1).pod(own(spec)));
    assert!(why.to_string().contains("no node has any"), "{why}");
    assert!(why.to_string().contains("drop the selectors of request gpus"), "{why}");
}

#[test]
fn pods_that_are_too_many_for_the_devices_are_counted() {
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 3));
    let group = PodGroup::gang("g", 6).pods(6, own(spec));
    let why = explained(&cluster(2), &group);
    let [ClaimLack::Pods { need: 6, have: 4, .. }] = &*why.rejections[0].claims else {
        panic!("{why}");
    };
    let fewer = Relaxation::Fewer { request: "gpus".into(), to: 2, from: 3 };
    let remedy = |remedy: &Remedy| matches!(remedy, Remedy::RelaxClaim { change, pods: 6, .. } if *change == fewer);
    assert!(why.remedies.iter().any(remedy), "{why}");
    assert!(why.remedies.contains(&Remedy::LowerMinimum { to: 4, from: 6 }), "{why}");
}

#[test]
fn requests_that_compete_are_told_apart_from_those_that_lack_devices() {
    let spec = ClaimSpec::new()
        .request("some", DeviceDemand::of("gpu", 5))
        .request("others", DeviceDemand::of("gpu", 5));
    let why = explained(&cluster(1), &PodGroup::gang("g", 1).pod(own(spec)));
    assert!(matches!(&*why.rejections[0].claims, [ClaimLack::Together { .. }]), "{why}");
}

#[test]
fn nodes_of_a_template_with_slices_are_counted() {
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 8));
    let group = PodGroup::gang("g", 4).pods(4, own(spec));
    let gpus = (0..8).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
    let slice = gpus.fold(ResourceSlice::on("x", DRIVER), ResourceSlice::device);
    let template = Node::new("new").capacity("cpu", 64).slice(slice);
    let cluster = cluster(1);
    let why = explain(&cluster, &framework(), &group, Some(&template)).unwrap();
    let nodes = |remedy: &Remedy| matches!(remedy, Remedy::AddNodes { count: 3, .. });
    assert!(why.remedies.iter().any(nodes), "{why}");
    assert_eq!(cluster.claims().slices().count(), 1);
}

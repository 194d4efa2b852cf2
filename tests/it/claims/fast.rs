//! The planner places gangs with claims as the plain loop does, and with little work.

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, DeviceClass, DeviceDemand, Effect, ResourceClaim, ResourceSlice, SliceDevice, Taint,
};
use phalanx::plugins::KubernetesProfile;
use phalanx::reference::{self, is_sound};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, Strategy};

use crate::support::dice::Dice;

const DRIVER: &str = "gpu.example.com";

fn below(dice: &mut Dice, sides: usize) -> usize {
    dice.roll(sides as u64) as usize
}

fn framework() -> Framework {
    KubernetesProfile::new().claims(Cel).framework()
}

/// Nodes of up to eight devices of two models.
fn cluster(nodes: usize, dice: &mut Dice) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.set_device_class(
        DeviceClass::new("gpu").selector(format!(r#"device.driver == "{DRIVER}""#)),
    );
    let avoided = below(dice, 3) == 0;
    for at in 0..nodes {
        let name = format!("n{at}");
        let mut node = Node::new(&name).capacity("cpu", 4 + below(dice, 12) as i64);
        node = node.label("rack", format!("r{}", below(dice, 2)));
        // Scores are normalised over feasible nodes where some nodes are avoided.
        if avoided && below(dice, 2) == 0 {
            node = node.taint(Taint::new("busy", "", Effect::PreferNoSchedule));
        }
        cluster.add_node(node.capacity("memory", "64Gi").capacity("pods", 9)).unwrap();
        publish(&mut cluster, &name, dice);
    }
    cluster
}

fn publish(cluster: &mut Cluster, node: &str, dice: &mut Dice) {
    let mut slice = ResourceSlice::on(node, DRIVER);
    for gpu in 0..below(dice, 9) as i64 {
        let device = SliceDevice::new(format!("gpu-{gpu}")).attribute("island", gpu / 4);
        slice = slice.device(device.attribute("model", below(dice, 2) as i64));
    }
    cluster.set_resource_slice(slice);
}

fn spec(dice: &mut Dice) -> ClaimSpec {
    if below(dice, 4) == 0 {
        return alternatives(dice);
    }
    let mut demand = DeviceDemand::of("gpu", 1 + below(dice, 3) as u64);
    if below(dice, 3) == 0 {
        let model = below(dice, 2);
        demand = demand.selector(format!(r#"device.attributes["{DRIVER}"].model == {model}"#));
    }
    let spec = ClaimSpec::new().request("gpus", demand);
    if below(dice, 3) == 0 { spec.same(format!("{DRIVER}/island")) } else { spec }
}

/// The first of several alternatives.
fn alternatives(dice: &mut Dice) -> ClaimSpec {
    let of = |model: usize| {
        let text = format!(r#"device.attributes["{DRIVER}"].model == {model}"#);
        DeviceDemand::of("gpu", 1).selector(text)
    };
    let more = DeviceDemand::of("gpu", 2 + below(dice, 2) as u64);
    let model = below(dice, 2);
    ClaimSpec::new()
        .first_of("gpus", [("most", more), ("own", of(model)), ("other", of(1 - model))])
}

/// A gang of one or two kinds of pods, some with claims that have a name of their own, some with one
/// that they share. Every third asks for a rack.
fn gang(number: usize, cluster: &mut Cluster, dice: &mut Dice) -> PodGroup {
    let (mut group, mut members) = (PodGroup::gang(format!("g{number}"), 1), 0);
    for kind in 0..1 + below(dice, 2) {
        let spec = spec(dice);
        let named = below(dice, 3) == 0;
        let shared = (below(dice, 4) == 0).then(|| format!("shared-{number}"));
        if let Some(shared) = &shared {
            cluster.set_claim(ResourceClaim::new(shared, self::spec(dice)));
        }
        let template = Pod::new().request("cpu", 1 + kind as i64);
        for _ in 0..1 + below(dice, 4) {
            let name = format!("g{number}-{members}");
            let mut pod = template.clone().name(&name);
            if named {
                cluster.set_claim(ResourceClaim::new(&name, spec.clone()));
                pod = pod.claim(&name);
            } else {
                pod = pod.own_claim("gpus", spec.clone());
            }
            if let Some(shared) = &shared {
                pod = pod.claim(shared);
            }
            group = group.pod(pod);
            members += 1;
        }
    }
    match below(dice, 6) {
        0 => group.require("rack"),
        1 => group.prefer("rack"),
        _ => group,
    }
}

#[test]
fn a_kept_planner_answers_as_the_plain_loop() {
    let framework = framework();
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut cluster = {
            let nodes = 1 + below(&mut dice, 6);
            cluster(nodes, &mut dice)
        };
        let mut planner = Planner::new();
        let mut bound: Vec<String> = Vec::new();
        for number in 0..12 {
            let group = gang(number, &mut cluster, &mut dice);
            let request = Request::new(&group).strategy(Strategy::Kubernetes);
            let expected =
                reference::place_by_definition(&cluster, &framework, request.clone()).unwrap();
            let outcome = planner.place(&cluster, &framework, request.clone()).unwrap();
            assert_eq!(outcome.plan(), expected.plan(), "{seed} {number}");
            assert_eq!(outcome.is_placed(), expected.is_placed(), "{seed} {number}");
            match outcome.plan() {
                Some(plan) => {
                    is_sound(plan, request, &cluster, &framework).unwrap();
                    cluster.commit(&framework, plan).unwrap();
                    bound.extend(plan.assignments().map(|own| own.pod().name.clone()));
                    placed += 1;
                }
                None => refused += 1,
            }
            match below(&mut dice, 6) {
                0 if !bound.is_empty() => {
                    let pod = bound.swap_remove(below(&mut dice, bound.len()));
                    cluster.remove_pod("default", &pod).unwrap();
                }
                1 => publish(&mut cluster, "n0", &mut dice),
                2 => {
                    let _ = cluster.cordon("n0");
                }
                3 => {
                    let _ = cluster.uncordon("n0");
                }
                _ => {}
            }
        }
    }
    assert!(placed > 100 && refused > 30, "{placed} {refused}");
}

#[test]
fn a_gang_with_claims_costs_no_more_evaluations_than_one_without() {
    let framework = framework();
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for at in 0..200 {
        let name = format!("n{at:03}");
        cluster.add_node(Node::new(&name).capacity("cpu", 64).capacity("memory", "64Gi")).unwrap();
        let gpus = (0..8).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
        cluster
            .set_resource_slice(gpus.fold(ResourceSlice::on(name, DRIVER), ResourceSlice::device));
    }
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 8));
    let plain = Pod::new().request("cpu", 1);
    let calls = |pod: &Pod| {
        let mut planner = Planner::new();
        let group = PodGroup::gang("g", 64).pods(64, pod.clone());
        let outcome = planner.place(&cluster, &framework, &group).unwrap();
        assert_eq!(outcome.plan().unwrap().len(), 64);
        reference::plugin_calls(&planner)
    };
    let (without, with) = (calls(&plain), calls(&plain.clone().own_claim("gpus", spec)));
    assert!(with <= 2 * without, "{with} evaluations, {without} without claims");
}

/// The cost of groups that the plain loop would ask all nodes for, member by member.
#[test]
fn racks_shared_claims_and_alternatives_are_placed_from_tables_too() {
    let framework = framework();
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for at in 0..200 {
        let name = format!("n{at:03}");
        let node = Node::new(&name).label("rack", format!("r{}", at / 20));
        cluster.add_node(node.capacity("cpu", 64).capacity("memory", "64Gi")).unwrap();
        let gpus = (0..8).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
        cluster
            .set_resource_slice(gpus.fold(ResourceSlice::on(name, DRIVER), ResourceSlice::device));
    }
    let some = |count| ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", count));
    let either = ClaimSpec::new().first_of(
        "gpus",
        [("all", DeviceDemand::of("gpu", 9)), ("few", DeviceDemand::of("gpu", 4))],
    );
    cluster.set_claim(ResourceClaim::new("shared", some(1)));
    let pod = Pod::new().request("cpu", 1);
    let gang = |pod: Pod, members: u32| PodGroup::gang("g", members).pods(members as usize, pod);
    for (name, group) in [
        ("rack", gang(pod.clone().own_claim("gpus", some(8)), 16).require("rack")),
        ("shared", gang(pod.clone().claim("shared").own_claim("gpus", some(1)), 7)),
        ("alternatives", gang(pod.clone().own_claim("gpus", either), 16)),
    ] {
        let mut planner = Planner::new();
        let outcome = planner.place(&cluster, &framework, &group).unwrap();
        let plan = outcome.plan().unwrap_or_else(|| panic!("{name}: {outcome}"));
        assert_eq!(plan.len(), group.pods.len(), "{name}");
        is_sound(plan, &group, &cluster, &framework).unwrap();
        let calls = reference::plugin_calls(&planner);
        // Each plugin sees each node a few times, whatever the number of members.
        let most = 4 * 200 * framework.filter_names().count() as u64;
        assert!(0 < calls && calls <= most, "{name}: {calls} evaluations");
    }
}

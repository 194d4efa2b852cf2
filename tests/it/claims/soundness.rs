//! Plans with claims are sound, and each promise of a claim, broken alone, is noticed.

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, CounterSet, CounterUse, DeviceClass, DeviceDemand, Effect, ResourceClaim,
    ResourceSlice, SliceDevice, Taint,
};
use phalanx::plugins::DynamicResources;
use phalanx::reference::{Broken, is_sound};
use phalanx::{Cluster, Framework, Node, Outcome, Plan, Pod, PodGroup, Quantity, place_gang};
use serde_json::{Value, json};

const DRIVER: &str = "gpu.example.com";

fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

/// Two nodes of six devices: islands of three, counters for five, one shared device, one tainted.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.set_device_class(
        DeviceClass::new("gpu").selector(format!(r#"device.driver == "{DRIVER}""#)),
    );
    let amount = |amount: i64| [(String::from("parts"), Quantity::from(amount))].into();
    for name in ["n0", "n1"] {
        cluster.add_node(Node::new(name).capacity("cpu", 64)).unwrap();
        let mut slice = ResourceSlice::on(name, DRIVER);
        slice.slice_count = 2;
        let mut counters = slice.clone();
        counters.name.push_str("-counters");
        counters.counters.push(CounterSet::new("set", amount(5)));
        cluster.set_resource_slice(counters);
        for at in 0..6_i64 {
            let mut device = SliceDevice::new(format!("gpu-{at}"))
                .attribute("island", at / 3)
                .attribute("model", if at == 4 { "t4" } else { "h100" })
                .capacity("memory", 80);
            device.consumes.push(CounterUse::new("set", amount(1)));
            device.shareable = at == 3;
            if at == 5 {
                device.taints.push(Taint::new("broken", "", Effect::NoSchedule));
            }
            slice = slice.device(device);
        }
        cluster.set_resource_slice(slice);
    }
    cluster
}

fn demand(count: u64) -> DeviceDemand {
    let h100 = format!(r#"device.attributes["{DRIVER}"].model == "h100""#);
    DeviceDemand::of("gpu", count).selector(h100)
}

fn pod(name: &str) -> Pod {
    let spec = ClaimSpec::new().request("gpus", demand(2)).same(format!("{DRIVER}/island"));
    Pod::new().name(name).request("cpu", 1).own_claim("gpus", spec)
}

fn gang() -> PodGroup {
    PodGroup::gang("g", 2).pod(pod("a")).pod(pod("b"))
}

fn placed(cluster: &Cluster, gang: &PodGroup) -> Plan {
    match place_gang(cluster, &framework(), gang).unwrap() {
        Outcome::Placed(plan) => plan,
        other => panic!("{other:?}"),
    }
}

/// A plan as data, changed, and a plan again.
fn altered(plan: &Plan, change: impl FnOnce(&mut Value)) -> Plan {
    let mut data = serde_json::to_value(plan).unwrap();
    change(&mut data);
    serde_json::from_value(data).unwrap()
}

/// The allocation of a claim in a plan as data.
fn allocation(data: &mut Value, pod: usize) -> &mut Value {
    let assignment = &mut data["assignments"][pod];
    let own = if assignment["allocations"].is_array() {
        &mut assignment["allocations"]
    } else {
        &mut assignment["pod"]["allocations"]
    };
    &mut own[0]["allocation"]
}

#[track_caller]
fn refused(plan: &Plan, cluster: &Cluster, text: &str) {
    let unsound = is_sound(plan, &gang(), cluster, &framework()).unwrap_err();
    assert!(unsound.to_string().contains(text), "{unsound}");
}

#[test]
fn every_alteration_of_devices_is_noticed() {
    let cluster = cluster();
    let plan = placed(&cluster, &gang());
    is_sound(&plan, &gang(), &cluster, &framework()).unwrap();
    let change = |at: usize, field: &str, value: Value| {
        altered(&plan, |data| allocation(data, 0)["devices"][at][field] = value)
    };
    let first: String = {
        let own = plan.assignments().next().unwrap();
        own.allocations()[0].allocation.devices[0].device.clone()
    };
    refused(&change(1, "device", json!(first)), &cluster, "twice");
    refused(&change(1, "device", json!("gpu-9")), &cluster, "not published");
    refused(&change(1, "device", json!("gpu-4")), &cluster, "does not match");
    refused(&change(1, "device", json!("gpu-5")), &cluster, "taint");
    refused(&change(1, "device", json!("gpu-3")), &cluster, "whole");
    refused(&change(1, "request", json!("others")), &cluster, "gets 1 of 2 devices");
    refused(&change(1, "admin", json!(true)), &cluster, "access");
    let other = if plan.assignments().next().unwrap().node() == "n0" { "n1" } else { "n0" };
    refused(&change(1, "pool", json!(other)), &cluster, "does not reach");
    let fewer = altered(&plan, |data| {
        allocation(data, 0)["devices"].as_array_mut().unwrap().pop();
    });
    refused(&fewer, &cluster, "gets 1 of 2 devices");
    let everywhere = altered(&plan, |data| allocation(data, 0)["nodes"] = Value::Null);
    refused(&everywhere, &cluster, "names no nodes");
    let both = altered(&plan, |data| {
        let node = data["assignments"][0]["node"].clone();
        let own = allocation(data, 0).clone();
        data["assignments"][1]["node"] = node;
        *allocation(data, 1) = own;
    });
    refused(&both, &cluster, "claimed twice");
}

#[test]
fn devices_in_use_counters_and_constraints_are_counted_again() {
    let mut cluster = cluster();
    let plan = placed(&cluster, &gang());
    let node = plan.assignments().next().unwrap().node().to_owned();
    // Another claim gets a device of the plan.
    let mut taken = cluster.clone();
    let mut claim = ResourceClaim::new("c", ClaimSpec::new().request("r", demand(1)));
    let own = plan.assignments().next().unwrap();
    let mut allocation = (*own.allocations()[0].allocation).clone();
    allocation.devices.truncate(1);
    claim.allocation = Some(std::sync::Arc::new(allocation.clone()));
    taken.set_claim(claim.clone());
    refused(&plan, &taken, "claimed twice");
    // The counters have room for five: three devices more are one too many beside four.
    let mut drawn = cluster.clone();
    allocation.devices[0].device = "gpu-4".into();
    let mut more = allocation.devices[0].clone();
    more.device = "gpu-5".into();
    allocation.devices.push(more.clone());
    more.device = "gpu-2".into();
    allocation.devices.push(more);
    claim.allocation = Some(std::sync::Arc::new(allocation));
    drawn.set_claim(claim);
    let all_on_one = plan.assignments().all(|own| own.node() == node);
    let unsound = is_sound(&plan, &gang(), &drawn, &framework());
    assert_eq!(all_on_one, unsound.is_err(), "{unsound:?}");
    // A device of the other island.
    let mut slices: Vec<ResourceSlice> = cluster.claims().slices().cloned().collect();
    for slice in &mut slices {
        if let Some(device) = slice.devices.first_mut() {
            device.attributes.insert("island".into(), 7.into());
        }
    }
    slices.into_iter().for_each(|slice| cluster.set_resource_slice(slice));
    refused(&plan, &cluster, "more than one gpu.example.com/island");
}

#[test]
fn a_shared_claim_is_given_once_and_has_no_more_consumers_than_it_may() {
    let mut cluster = cluster();
    let spec = ClaimSpec::new().request("gpus", demand(1));
    cluster.set_claim(ResourceClaim::new("shared", spec));
    let members = |count: usize| {
        let member = |at: usize| Pod::new().name(format!("p{at}")).claim("shared");
        (0..count).fold(PodGroup::gang("g", count as u32), |gang, at| gang.pod(member(at)))
    };
    let small = members(3);
    let plan = placed(&cluster, &small);
    is_sound(&plan, &small, &cluster, &framework()).unwrap();
    let none = altered(&plan, |data| {
        for own in data["assignments"].as_array_mut().unwrap() {
            own["allocations"] = json!([]);
            own["pod"]["allocations"] = json!([]);
        }
    });
    let unsound = is_sound(&none, &small, &cluster, &framework()).unwrap_err();
    let lacks = |broken: &Broken| matches!(broken, Broken::Claim { problem, .. } if problem == "gets no devices");
    assert_eq!(unsound.broken.iter().filter(|broken| lacks(broken)).count(), 3, "{unsound}");
    let mut wide = cluster.clone();
    wide.remove_node("n1").unwrap();
    let large = members(257);
    let outcome = place_gang(&wide, &framework(), &large).unwrap();
    assert!(!outcome.is_placed(), "257 consumers of one claim");
}

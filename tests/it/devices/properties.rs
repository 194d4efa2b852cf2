//! Properties of devices, held to brute force.

use phalanx::framework::{device_capacity, devices_fit};
use phalanx::reference;
use phalanx::state::DeviceNeed;
use phalanx::{Cluster, Planner, PodGroup, Request, place_gang};
use proptest::prelude::*;

use super::world::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn gangs_are_placed_whole_on_devices_that_are_there(
        nodes in nodes(),
        gangs in proptest::collection::vec((proptest::collection::vec(request(), 0..3), 1..5_usize), 1..8),
        choice in 0..5_usize,
    ) {
        let mut cluster = cluster_of(&nodes);
        let framework = framework(choice);
        let mut planner = Planner::new();
        for (index, (requests, count)) in gangs.into_iter().enumerate() {
            let pod = shape_of(requests);
            let group = PodGroup::gang(format!("g{index}"), count as u32).pods(count, pod);
            let before = serde_json::to_string(&cluster).unwrap();
            let request = || Request::new(&group).strategy(phalanx::Strategy::Kubernetes);
            let outcome = planner.place(&cluster, &framework, request()).unwrap();
            let reference = reference::place_by_definition(&cluster, &framework, request()).unwrap();
            prop_assert_eq!(outcome.plan(), reference.plan());
            prop_assert_eq!(&serde_json::to_string(&cluster).unwrap(), &before);
            if let Some(plan) = outcome.plan() {
                prop_assert_eq!(plan.len(), count);
                phalanx::reference::is_sound(plan, &group, &cluster, &framework).unwrap();
                let mut txn = cluster.txn();
                let mark = txn.checkpoint();
                txn.apply_plan(plan).unwrap();
                txn.rollback(mark).unwrap();
                prop_assert_eq!(&serde_json::to_string(&*txn).unwrap(), &before);
                check(&txn, &nodes);
                cluster.commit(&framework, plan).unwrap();
            } else if count == 1 {
                // A pod that some node can take is placed.
                let shape = group.pods[0].shape();
                let needs = DeviceNeed::of(&cluster, shape);
                for node in cluster.nodes() {
                    let cpu = cluster.resource("cpu").unwrap();
                    prop_assert!(node.free(cpu) < 100 || !devices_fit(node, &needs));
                }
            }
            check(&cluster, &nodes);
            let text = serde_json::to_string(&cluster).unwrap();
            let back: Cluster = serde_json::from_str(&text).unwrap();
            check(&back, &nodes);
            prop_assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
    }

    #[test]
    fn a_node_serves_a_pod_exactly_if_some_assignment_does(
        devices in proptest::collection::vec(device(), 0..6),
        earlier in proptest::collection::vec(request(), 0..4),
        requests in proptest::collection::vec(request(), 1..4),
    ) {
        let nodes = [devices.clone()];
        let mut cluster = cluster_of(&nodes);
        let framework = framework(0);
        for (index, request) in earlier.into_iter().enumerate() {
            let group = PodGroup::gang(format!("g{index}"), 1).pods(1, shape_of(vec![request]));
            if let Some(plan) = place_gang(&cluster, &framework, &group).unwrap().plan() {
                cluster.commit(&framework, plan).unwrap();
            }
        }
        let node = cluster.node("n0").unwrap();
        let mut ledger = Ledger::default();
        for pod in node.pods() {
            for (request, held) in pod.shape().devices.iter().zip(pod.device_indexes()) {
                ledger.take(&devices, request, held);
            }
        }
        let pod = shape_of(requests.clone());
        let needs = DeviceNeed::of(&cluster, pod.shape());
        let possible = !assignments(&devices, &ledger, &requests, &[]).is_empty();
        prop_assert_eq!(devices_fit(node, &needs), possible);
    }

    #[test]
    fn counts_are_those_of_brute_force(
        devices in proptest::collection::vec(device(), 0..5),
        earlier in proptest::option::of(request()),
        request in request(),
    ) {
        let nodes = [devices.clone()];
        let mut cluster = cluster_of(&nodes);
        let framework = framework(0);
        let mut ledger = Ledger::default();
        if let Some(earlier) = earlier {
            let group = PodGroup::gang("g", 1).pods(1, shape_of(vec![earlier.clone()]));
            if let Some(plan) = place_gang(&cluster, &framework, &group).unwrap().plan() {
                cluster.commit(&framework, plan).unwrap();
                let pod = cluster.pods().next().unwrap();
                ledger.take(&devices, &earlier, &pod.device_indexes()[0]);
            }
        }
        let pod = shape_of(vec![request.clone()]);
        let needs = DeviceNeed::of(&cluster, pod.shape());
        let limit = 5;
        let counted = device_capacity(cluster.node("n0").unwrap(), &needs).min(limit);
        prop_assert_eq!(counted, most(&devices, &ledger, &[request], limit));
    }
}

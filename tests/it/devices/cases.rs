//! Devices that a pod gets, and refusals.

use phalanx::framework::{DeviceChoice, TightestFit};
use phalanx::model::{Device, DeviceRequest, IslandRule, PodShape};
use phalanx::plugins::{
    BestFit, DeviceFit, DevicePool, DotProduct, Fgd, GpuClustering, GpuPacking, OpportunityCost,
    ShadowPrices, TypicalPods,
};
use phalanx::reference;
use phalanx::{
    Cluster, CommitError, Framework, Node, Outcome, Plan, Planner, Pod, PodGroup, Request,
    place_gang,
};

use super::world::*;

#[test]
fn counts_of_domains_include_fractions() {
    // A GPU a node; three pods of 300 on an idle one, two on the one that is used.
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")] {
        cluster.add_node(Node::new(name).label("rack", rack).device(gpu())).unwrap();
    }
    let share = |milli| Pod::new().device(DeviceRequest::share("gpu", UNIT, milli));
    cluster.add_pod(share(400).name("old").on("a1").holding([vec![0]])).unwrap();
    let framework = framework(0);
    let gang = |pods: usize| PodGroup::gang("g", pods as u32).pods(pods, share(300));
    for strategy in [phalanx::Strategy::Kubernetes, phalanx::Strategy::Search] {
        for (pods, racks) in [(5, vec!["a", "b"]), (6, vec!["b"]), (7, vec![])] {
            let group = gang(pods).require("rack");
            let ask = Request::new(&group).strategy(strategy);
            let outcome = place_gang(&cluster, &framework, ask.clone()).unwrap();
            assert_eq!(outcome.is_placed(), !racks.is_empty(), "{pods}");
            for rack in ["a", "b"] {
                let ask = ask.clone().within("rack", rack);
                let outcome = place_gang(&cluster, &framework, ask.clone()).unwrap();
                assert_eq!(outcome.is_placed(), racks.contains(&rack), "{pods} in {rack}");
                if let Outcome::Unplaced(unplaced) = outcome
                    && strategy == phalanx::Strategy::Search
                {
                    let certificate = unplaced.certificate.expect("identical pods are counted");
                    certificate.verify(&cluster, &framework, ask).unwrap();
                    let text = certificate.to_string();
                    assert!(text.contains("pods like g-0 are needed"), "{text}");
                }
            }
            if let Some(plan) = outcome.plan() {
                let rack = plan.domains().next().unwrap().2;
                assert!(racks.contains(&rack));
            }
        }
        // All nodes together take 11. That 12 do not fit is told by counting room: no node is
        // filtered, none scored.
        let mut planner = Planner::new();
        let (few, many) = (gang(11), gang(12));
        let ask = Request::new(&many).strategy(phalanx::Strategy::Kubernetes);
        assert!(!planner.place(&cluster, &framework, ask).unwrap().is_placed());
        assert_eq!(reference::plugin_calls(&planner), 0);
        let ask = Request::new(&few).strategy(strategy);
        assert!(planner.place(&cluster, &framework, ask).unwrap().is_placed());
    }
}

#[test]
fn the_plugins_keep_the_laws() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    let device = |model: &str, island: &str| {
        Device::new("gpu", model).capacity(UNIT, 1_000).capacity(MEMORY, 40).island(island)
    };
    for (index, models) in [["A", "A"], ["A", "B"], ["B", "B"]].iter().enumerate() {
        let node = Node::new(format!("n{index}")).capacity("cpu", 8).label("rack", "r");
        let node = models.iter().fold(node, |node, model| {
            node.device(device(model, "x").numa(0)).device(device(model, "y").numa(1))
        });
        cluster.add_node(node).unwrap();
    }
    cluster.add_node(Node::new("bare").capacity("cpu", 8)).unwrap();
    let pods = [
        Pod::new().request("cpu", 1),
        shape_of(vec![DeviceRequest::share("gpu", UNIT, 300)]),
        shape_of(vec![DeviceRequest::shares("gpu", 2, UNIT, 600).and(MEMORY, 7)]),
        shape_of(vec![DeviceRequest::whole("gpu", 1).model("A")]),
        shape_of(vec![DeviceRequest::whole("gpu", 2).island(IslandRule::Required)]),
        shape_of(vec![DeviceRequest::whole("gpu", 1), DeviceRequest::share("gpu", MEMORY, 20)]),
        shape_of(vec![DeviceRequest::whole("nic", 1)]),
    ];
    cluster.add_pod(pods[1].clone().name("a").on("n0").holding([vec![1]])).unwrap();
    cluster.add_pod(pods[4].clone().name("b").on("n1").holding([vec![0, 2]])).unwrap();
    let shapes: Vec<PodShape> = pods.iter().map(|pod| (**pod.shape()).clone()).collect();
    let pool = || DevicePool::new("gpu", UNIT);
    let typical = TypicalPods::from_pods(pool(), &shapes);
    let mut prices = ShadowPrices::from_pods(pool(), &shapes);
    prices.solve(&cluster, 50);
    let framework = Framework::builder()
        .filter(DeviceFit)
        .without_room_filter()
        .score(1, Fgd::new(typical))
        .score(1, OpportunityCost::new(prices))
        .score(1, BestFit::new(pool()))
        .score(1, DotProduct::new(pool()))
        .score(1, GpuPacking::new(pool()))
        .score(1, GpuClustering::new(pool()))
        .build()
        .unwrap();
    phalanx::laws::check_framework(&framework, &cluster, &shapes).unwrap();
}

fn place(
    cluster: &mut Cluster,
    framework: &Framework,
    name: &str,
    pod: Pod,
) -> Option<Vec<Vec<u32>>> {
    let group = PodGroup::gang(name, 1).pod(pod.name(name));
    let outcome = place_gang(cluster, framework, &group).unwrap();
    let plan = outcome.plan()?;
    cluster.commit(framework, plan).unwrap();
    Some(cluster.pod("default", name).unwrap().device_indexes().to_vec())
}

#[test]
fn choices_differ_where_they_should() {
    let share = |milli| Pod::new().device(DeviceRequest::share("gpu", UNIT, milli));
    let held = |choice: usize| {
        let mut cluster = Cluster::new();
        cluster.add_node(Node::new("n").device(gpu()).device(gpu()).device(gpu())).unwrap();
        cluster.add_pod(share(300).name("old").on("n").holding([vec![1]])).unwrap();
        let framework = framework(choice);
        let share = place(&mut cluster, &framework, "a", share(200)).unwrap();
        let whole = Pod::new().device(DeviceRequest::whole("gpu", 1));
        (share, place(&mut cluster, &framework, "b", whole))
    };
    assert_eq!(held(0), (vec![vec![1]], Some(vec![vec![0]])));
    assert_eq!(held(1), (vec![vec![0]], Some(vec![vec![2]])));
    assert_eq!(held(2), (vec![vec![0]], Some(vec![vec![2]])));
    assert_eq!(TightestFit.name(), "TightestFit");
}

#[test]
fn groups_of_devices_are_kept_together_the_smallest_that_suffices() {
    let island = |name: &str, numa| gpu().island(name).numa(numa);
    let mut cluster = Cluster::new();
    let node = Node::new("n")
        .device(island("x", 0))
        .device(island("x", 0))
        .device(island("x", 1))
        .device(island("y", 1))
        .device(island("y", 1))
        .device(gpu());
    cluster.add_node(node).unwrap();
    let framework = framework(2);
    let whole = |count| DeviceRequest::whole("gpu", count);
    let pair = Pod::new().device(whole(2).island(IslandRule::Required));
    assert_eq!(place(&mut cluster, &framework, "a", pair.clone()), Some(vec![vec![3, 4]]));
    let near = Pod::new().device(whole(2).island(IslandRule::Required).numa(IslandRule::Preferred));
    assert_eq!(place(&mut cluster, &framework, "b", near), Some(vec![vec![0, 1]]));
    assert_eq!(place(&mut cluster, &framework, "c", pair), None);
    let wish = Pod::new().device(whole(2).island(IslandRule::Preferred));
    assert_eq!(place(&mut cluster, &framework, "d", wish), Some(vec![vec![2, 5]]));
}

#[test]
fn requests_that_compete_are_matched() {
    let mut cluster = Cluster::new();
    let device = |model: &str| Device::new("gpu", model).capacity(UNIT, 1_000);
    cluster.add_node(Node::new("n").device(device("A")).device(device("B"))).unwrap();
    // The first request alone would take the only device that the second can have.
    let pod = Pod::new()
        .device(DeviceRequest::whole("gpu", 1))
        .device(DeviceRequest::whole("gpu", 1).model("A"));
    assert_eq!(place(&mut cluster, &framework(2), "p", pod), Some(vec![vec![1], vec![0]]));
}

#[test]
fn what_runs_runs_and_indexes_wait_for_their_devices() {
    let mut cluster = Cluster::new();
    let share =
        |name: &str| Pod::new().name(name).device(DeviceRequest::share("gpu", UNIT, 700)).on("n");
    // The pods are heard of before the node, and together take more than a device has.
    cluster.add_pod(share("a").holding([vec![0]])).unwrap();
    cluster.add_pod(share("b").holding([vec![0]])).unwrap();
    cluster.add_pod(share("c").holding([vec![1]])).unwrap();
    cluster.add_pod(share("unknown")).unwrap();
    cluster.add_node(Node::new("n").device(gpu())).unwrap();
    let free = |cluster: &Cluster, device| {
        cluster.node("n").unwrap().device_room().unwrap().free(device, 0)
    };
    assert_eq!(free(&cluster, 0), -400);
    // A second device appears: what was said to be on it now counts.
    cluster.update_node(&Node::new("n").device(gpu()).device(gpu())).unwrap();
    assert_eq!((free(&cluster, 0), free(&cluster, 1)), (-400, 300));
    cluster.remove_pod("default", "b").unwrap();
    cluster.remove_pod("default", "c").unwrap();
    assert_eq!((free(&cluster, 0), free(&cluster, 1)), (300, 1_000));
    let text = serde_json::to_string(&cluster).unwrap();
    let back: Cluster = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    for bad in [vec![], vec![vec![]], vec![vec![0, 1]], vec![vec![0], vec![1]]] {
        let pod = share("bad").holding(bad.clone());
        assert_eq!(cluster.add_pod(pod).is_err(), !bad.is_empty(), "{bad:?}");
    }
    let twice = Pod::new()
        .name("twice")
        .device(DeviceRequest::shares("gpu", 2, UNIT, 1))
        .on("n")
        .holding([vec![0, 0]]);
    assert!(cluster.add_pod(twice).is_err());
}

#[test]
fn sums_beyond_64_bits_are_refused() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").device(gpu())).unwrap();
    let huge = |name: &str| {
        Pod::new()
            .name(name)
            .device(DeviceRequest::share("gpu", UNIT, i64::MAX))
            .on("n")
            .holding([vec![0]])
    };
    cluster.add_pod(huge("a")).unwrap();
    let before = serde_json::to_string(&cluster).unwrap();
    assert!(cluster.add_pod(huge("b")).is_err());
    assert_eq!(serde_json::to_string(&cluster).unwrap(), before);
    cluster.remove_pod("default", "a").unwrap();
    assert_eq!(cluster.node("n").unwrap().device_room().unwrap().free(0, 0), 1_000);
}

#[test]
fn a_plan_whose_devices_are_gone_is_refused_whole() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").device(gpu()).device(gpu())).unwrap();
    let framework = framework(2);
    let share = |milli| Pod::new().device(DeviceRequest::share("gpu", UNIT, milli));
    let gang = |name: &str| PodGroup::gang(name, 1).pods(1, share(600));
    let (first, second) = (gang("first"), gang("second"));
    let plans = [&first, &second].map(|group| place_gang(&cluster, &framework, group).unwrap());
    cluster.commit(&framework, plans[0].plan().unwrap()).unwrap();
    let before = serde_json::to_string(&cluster).unwrap();
    // Another device would do, but the plan says which one it is.
    let refused = cluster.commit(&framework, plans[1].plan().unwrap());
    assert!(matches!(refused, Err(CommitError::Devices { .. })), "{refused:?}");
    assert_eq!(serde_json::to_string(&cluster).unwrap(), before);
    assert!(place_gang(&cluster, &framework, &second).unwrap().is_placed());
}

#[test]
fn a_plan_from_elsewhere_has_the_devices_that_its_pods_request_and_no_others() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").device(gpu()).device(gpu())).unwrap();
    let mut bare = Cluster::new();
    bare.add_node(Node::new("n")).unwrap();
    let (framework, with_gpu) =
        (Framework::default(), Pod::new().device(DeviceRequest::whole("gpu", 1)));
    for (cluster, pod, altered) in [
        (&cluster, with_gpu, serde_json::json!([])),
        (&cluster, Pod::new(), serde_json::json!([[0]])),
        (&bare, Pod::new(), serde_json::json!([[7]])),
    ] {
        let group = PodGroup::gang("g", 1).pods(1, pod);
        let outcome = place_gang(cluster, &framework, &group).unwrap();
        let mut value = serde_json::to_value(outcome.plan().unwrap()).unwrap();
        let travelled: Plan = serde_json::from_value(value.clone()).unwrap();
        cluster.clone().commit(&framework, &travelled).unwrap();
        value["assignments"][0]["devices"] = altered.clone();
        let travelled: Plan = serde_json::from_value(value).unwrap();
        let refused = cluster.clone().commit(&framework, &travelled);
        assert!(matches!(refused, Err(CommitError::Devices { .. })), "{altered}: {refused:?}");
    }
}

#[test]
fn a_search_tries_orders_that_differ_in_devices_alone() {
    // The share goes to the small device first, and then no order but the other one will do.
    let device = |milli| Device::new("gpu", "B").capacity(UNIT, milli);
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").device(device(100)).device(device(200))).unwrap();
    let shares = Pod::new().device(DeviceRequest::share("gpu", UNIT, 60));
    let group = PodGroup::gang("g", 2)
        .group(PodGroup::gang("shares", 2).pods(2, shares))
        .group(PodGroup::gang("whole", 1).pods(1, whole(1)));
    let outcome = place_gang(&cluster, &framework(0), &group).unwrap();
    let plan = outcome.plan().expect("the whole device first, then both shares");
    cluster.commit(&framework(0), plan).unwrap();
}

#[test]
fn counted_devices_stand_beside() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("nvidia.com/gpu", 8)).unwrap();
    let framework = framework(0);
    assert!(cluster.node("n").unwrap().device_room().is_none());
    let counted = Pod::new().request("nvidia.com/gpu", 8);
    assert_eq!(place(&mut cluster, &framework, "a", counted.clone()), Some(vec![]));
    assert_eq!(place(&mut cluster, &framework, "b", counted), None);
    let detailed = Pod::new().device(DeviceRequest::whole("gpu", 1));
    assert_eq!(place(&mut cluster, &framework, "c", detailed), None);
}

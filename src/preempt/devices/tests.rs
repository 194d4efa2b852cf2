use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::framework::{Framework, device_capacity, devices_fit};
use crate::model::{Device, DeviceRequest, Node, Pod, PodGroup};
use crate::place::{Outcome, Planner};
use crate::state::PodId;

/// Numbers of a seed, each below its limit.
fn dice(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    }
}

fn request(roll: &mut impl FnMut(u64) -> u64) -> DeviceRequest {
    let rule = |roll: u64| if roll == 0 { IslandRule::Required } else { IslandRule::Any };
    let request = match roll(3) {
        0 => DeviceRequest::whole("gpu", 1 + roll(3) as u32),
        1 => DeviceRequest::share("gpu", "milli", 100 + 100 * roll(9) as i64),
        _ => DeviceRequest::shares("gpu", 1 + roll(2) as u32, "milli", 150 * roll(4) as i64)
            .and("memory", 10 + roll(30) as i64),
    };
    let request = if roll(4) == 0 { request.model("B") } else { request };
    request.island(rule(roll(3))).numa(rule(roll(8)))
}

/// A node with devices that pods use, its pods, and the needs of a pod that is to come.
fn world(seed: u64) -> (Cluster, Vec<PodId>, Vec<DeviceNeed>) {
    let mut roll = dice(seed);
    let mut node = Node::new("n").capacity("pods", 110);
    for number in 0..2 + roll(6) {
        let mut device = Device::new("gpu", if roll(3) == 0 { "B" } else { "A" });
        device = device.capacity("milli", 1_000).capacity("memory", 40 + 40 * roll(2) as i64);
        device = if roll(5) == 0 { device } else { device.island(format!("i{}", number / 4)) };
        node = node.device(device.numa(roll(2) as u32));
    }
    let mut cluster = Cluster::new();
    cluster.add_node(node).unwrap();
    let framework = Framework::default();
    for number in 0..3 + roll(7) {
        let pod = Pod::new().device(request(&mut roll));
        let group = PodGroup::gang(format!("g{number}"), 1).pods(1, pod);
        if let Outcome::Placed(plan) = Planner::new().place(&cluster, &framework, &group).unwrap() {
            cluster.commit(&framework, &plan).unwrap();
        }
    }
    let pods = cluster.pods().map(PodView::id).collect();
    let requests = (0..=roll(2)).map(|_| request(&mut roll));
    let pod = requests.fold(Pod::new(), Pod::device);
    let needs = DeviceNeed::of(&cluster, pod.shape());
    (cluster, pods, needs)
}

#[test]
fn no_set_of_pods_makes_more_room_than_is_counted() {
    let (mut sets, mut exact, mut refused) = (0, 0, 0);
    for seed in 0..600 {
        let (cluster, pods, needs) = world(seed);
        let mut counts = Vec::new();
        DeviceCount::add(&mut counts, &needs);
        let gains: Vec<Vec<i64>> = counts
            .iter()
            .map(|count| cluster.pods().map(|pod| count.gain(&cluster, pod)).collect())
            .collect();
        let free: Vec<i64> =
            counts.iter().map(|count| count.free(cluster.node("n").unwrap())).collect();
        for set in 0_u32..1 << pods.len() {
            let gone = |at: &usize| set & 1 << at != 0;
            let mut txn = cluster.txn();
            for at in (0..pods.len()).filter(gone) {
                txn.evict_pod(pods[at]).unwrap();
            }
            let node = txn.node("n").unwrap();
            // Needs may compete: then only whether one pod fits is exact.
            let serves = match &needs[..] {
                [_] => device_capacity(node, &needs),
                _ => u64::from(devices_fit(node, &needs)),
            };
            let counted = counts.iter().zip(&free).zip(&gains).map(|((count, free), gains)| {
                let gain: i64 = (0..pods.len()).filter(gone).map(|at| gains[at]).sum();
                ((free + gain) / count.ask(&needs)) as u64
            });
            let counted = counted.min().unwrap_or(u64::MAX);
            assert!(serves <= counted, "seed {seed}, set {set:b}: {serves}, not {counted}");
            sets += 1;
            exact += u32::from(serves == counted);
            refused += u32::from(counted == 0);
        }
    }
    assert!(exact * 2 > sets && refused * 5 > sets, "{exact}, {refused} of {sets}");
}

#[test]
fn halves_of_a_device_and_fragments_are_counted_as_what_they_are() {
    let mut cluster = Cluster::new();
    let gpu = || Device::new("gpu", "A").capacity("milli", 1_000);
    let node = (0..4).fold(Node::new("n").capacity("pods", 110), |node, at| {
        node.device(gpu().island(if at < 2 { "left" } else { "right" }))
    });
    cluster.add_node(node).unwrap();
    let mut bind = |name: &str, device: u32, milli: i64| {
        let mut pod = Pod::new().name(name).device(DeviceRequest::share("gpu", "milli", milli));
        pod.device_indexes = vec![vec![device]];
        cluster.add_pod(pod.on("n")).unwrap();
    };
    bind("a", 0, 400);
    bind("b", 0, 400);
    bind("c", 2, 700);
    let count = |request: DeviceRequest| {
        let needs = DeviceNeed::of(&cluster, Pod::new().device(request).shape());
        let mut counts = Vec::new();
        DeviceCount::add(&mut counts, &needs);
        let gain = |name: &str| counts[0].gain(&cluster, cluster.pod("default", name).unwrap());
        let free = counts[0].free(cluster.node("n").unwrap());
        ([free, gain("a"), gain("b"), gain("c")], counts[0].ask(&needs))
    };
    let one = PARTS;
    // Two of four are idle; `a` and `b` hold half of one each.
    let whole = count(DeviceRequest::whole("gpu", 2));
    assert_eq!(whole, ([2 * one, one / 2, one / 2, one], 2 * one));
    // On either island one lacks for the next pod.
    let island = count(DeviceRequest::whole("gpu", 2).island(IslandRule::Required));
    assert_eq!(island, ([0, one / 2, one / 2, one], one));
    // 200 and 300 thousandths are left over, which serve nothing; 300 and 200 lack.
    let shares = count(DeviceRequest::share("gpu", "milli", 500));
    assert_eq!(
        shares,
        ([4 * one, parts(400, 300), parts(400, 300), parts(700, 200).min(2 * one)], one)
    );
}

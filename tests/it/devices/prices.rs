//! Scores by shadow prices: where pods go, and how full a cluster gets.

use phalanx::framework::FrameworkBuilder;
use phalanx::model::{Device, DeviceRequest};
use phalanx::plugins::{
    DeviceFit, DevicePool, Fgd, Fit, OpportunityCost, ShadowPrices, TypicalPods,
};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, place_gang};

use super::world::UNIT;

fn pool() -> DevicePool {
    DevicePool::new("gpu", UNIT)
}

fn share(milli: i64) -> Pod {
    Pod::new().request("cpu", 1).device(DeviceRequest::share("gpu", UNIT, milli))
}

fn node(name: &str, gpus: usize, cpu: i64) -> Node {
    let node = Node::new(name).capacity("cpu", cpu).capacity("memory", 8_i64 << 30);
    (0..gpus).fold(node, |node, _| node.device(Device::new("gpu", "A").capacity(UNIT, 1_000)))
}

fn from(history: &[Pod]) -> ShadowPrices {
    ShadowPrices::from_pods(pool(), history.iter().map(|pod| &**pod.shape()))
}

/// All prices are zero, so that the best fill is the fullest.
fn without_prices(cluster: &Cluster, history: &[Pod]) -> ShadowPrices {
    let mut prices = from(history);
    prices.solve(cluster, 0);
    prices
}

fn by_cost(prices: &ShadowPrices) -> Framework {
    let cost = OpportunityCost::new(prices.clone());
    let builder = Framework::builder().filter(Fit).filter(DeviceFit);
    builder.score(1, cost.clone()).device_choice(cost).build().unwrap()
}

/// The node and the devices that a pod gets.
fn place(cluster: &Cluster, prices: &ShadowPrices, pod: Pod) -> (String, Vec<u32>) {
    let group = PodGroup::gang("g", 1).pod(pod.name("p"));
    let outcome = place_gang(cluster, &by_cost(prices), &group).unwrap();
    let to = outcome.plan().unwrap().assignments().next().unwrap();
    (to.node().into(), to.devices().iter().flatten().copied().collect())
}

#[test]
fn a_pod_goes_where_the_rest_can_still_be_filled() {
    // 700 and 300 fill a device, and 450 fills the rest of the first. Best fit takes that for 300.
    let history: Vec<Pod> = [700, 300, 450].map(share).into();
    let mut cluster = Cluster::new();
    cluster.add_node(node("n", 2, 16)).unwrap();
    cluster.add_pod(share(550).name("a").on("n").holding([vec![0]])).unwrap();
    let prices = without_prices(&cluster, &history);
    assert_eq!(place(&cluster, &prices, share(300)).1, [1]);
    assert_eq!(place(&cluster, &prices, share(450)).1, [0]);
    assert_eq!(place(&cluster, &prices, share(700)).1, [1]);
    // The same between nodes.
    let mut cluster = Cluster::new();
    cluster.add_node(node("a", 1, 16)).unwrap();
    cluster.add_node(node("b", 1, 16)).unwrap();
    cluster.add_pod(share(550).name("a").on("a").holding([vec![0]])).unwrap();
    let prices = without_prices(&cluster, &history);
    assert_eq!(place(&cluster, &prices, share(300)).0, "b");
    assert_eq!(place(&cluster, &prices, share(450)).0, "a");
}

#[test]
fn a_pod_without_devices_spares_the_cpu_that_devices_need() {
    let history: Vec<Pod> = [500, 500, 500].map(share).into();
    let mut cluster = Cluster::new();
    // Two pods need two CPUs of either node.
    cluster.add_node(node("tight", 1, 3)).unwrap();
    cluster.add_node(node("ample", 1, 9)).unwrap();
    let prices = without_prices(&cluster, &history);
    assert_eq!(place(&cluster, &prices, Pod::new().request("cpu", 2)).0, "ample");
    // Memory is as short for pods that have some.
    let big = |milli| share(milli).request("memory", 3_i64 << 30);
    let history: Vec<Pod> = [big(500), big(500)].into();
    let mut cluster = Cluster::new();
    cluster.add_node(node("tight", 1, 9)).unwrap();
    cluster.add_node(node("ample", 1, 9).capacity("memory", 16_i64 << 30)).unwrap();
    let prices = without_prices(&cluster, &history);
    let only = Pod::new().request("cpu", 1).request("memory", 4_i64 << 30);
    assert_eq!(place(&cluster, &prices, only).0, "ample");
}

/// Thousandths of devices that get pods, drawn from the sorts by a fixed rule, until as many have
/// arrived as there are. `renew` may give another framework before each.
fn filled(
    seed: u64,
    sorts: &[i64],
    mut renew: impl FnMut(&Cluster, usize) -> Option<FrameworkBuilder>,
) -> i64 {
    let mut cluster = Cluster::new();
    for number in 0..20 {
        cluster.add_node(node(&format!("n{number:02}"), 2, 64)).unwrap();
    }
    let (mut built, mut planner) = (None, Planner::new());
    let (mut arrived, mut used, mut draw) = (0, 0, seed);
    for number in 0.. {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let milli = sorts[(draw >> 33) as usize % sorts.len()];
        arrived += milli;
        if arrived > 40_000 {
            break;
        }
        if let Some(builder) = renew(&cluster, number) {
            built = Some(builder.build().unwrap());
        }
        let framework = built.as_ref().unwrap();
        let group = PodGroup::gang(format!("g{number}"), 1);
        let group = group.pod(share(milli).name(format!("p{number}")));
        let outcome = planner.place(&cluster, framework, &group).unwrap();
        if let Some(plan) = outcome.plan() {
            cluster.commit(framework, plan).unwrap();
            used += milli;
        }
    }
    used
}

#[test]
fn clusters_get_fuller_than_by_fgd() {
    let sorts = [690, 310, 580, 420, 470, 530];
    let history: Vec<Pod> = sorts.map(share).into();
    let base = || Framework::builder().filter(Fit).filter(DeviceFit);
    let (mut fgd, mut ours) = (0, 0);
    for seed in 1..=8 {
        fgd += filled(seed, &sorts, |_, number| {
            let shapes = history.iter().map(|pod| &**pod.shape());
            let fgd = Fgd::new(TypicalPods::from_pods(pool(), shapes));
            (number == 0).then(|| base().score(1, fgd.clone()).device_choice(fgd))
        });
        let mut prices = from(&history);
        ours += filled(seed, &sorts, |cluster, number| {
            if number % 10 > 0 {
                return None;
            }
            prices.solve(cluster, if number == 0 { 400 } else { 50 });
            let cost = OpportunityCost::new(prices.clone());
            Some(base().score(1, cost.clone()).device_choice(cost))
        });
    }
    // One point of eight clusters of 40 devices.
    assert!(ours > fgd + 3_200, "{ours} of 320,000, by FGD {fgd}");
}

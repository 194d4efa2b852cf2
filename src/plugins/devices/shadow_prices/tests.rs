//! Tests: the worth of a room against every fill of it, and prices by order of nodes.

use proptest::prelude::*;

use super::*;
use crate::model::{Device, DeviceRequest, Node, Pod};

/// Room for the brute force: steps left of each device, with idle ones first.
#[derive(Debug, Clone)]
struct Free {
    idle: usize,
    parts: Vec<usize>,
    cpu: f64,
    memory: f64,
}

/// The worth of the best fill, of all that there are, by trying them: devices in order, and on each
/// the sorts in order.
fn best_of_all(
    sorts: &[Sort],
    prices: &[f64],
    free: &Free,
    devices: &mut [usize],
    at: (usize, usize),
) -> f64 {
    let (device, first) = at;
    if device == devices.len() {
        return 0.0;
    }
    let mut best = best_of_all(sorts, prices, free, devices, (device + 1, 0));
    for (number, sort) in sorts.iter().enumerate().skip(first) {
        let left =
            Free { cpu: free.cpu - sort.cpu, memory: free.memory - sort.memory, ..free.clone() };
        if left.cpu < 0.0 || left.memory < 0.0 {
            continue;
        }
        let gain = sort.worth - prices[number];
        let rest = match sort.ask {
            Ask::Share(steps) if devices[device] >= steps => {
                devices[device] -= steps;
                let rest = best_of_all(sorts, prices, &left, devices, (device, number));
                devices[device] += steps;
                rest
            }
            Ask::Whole(count) if device + count <= free.idle && devices[device] == CELLS => {
                best_of_all(sorts, prices, &left, devices, (device + count, 0))
            }
            _ => continue,
        };
        best = best.max(gain + rest);
    }
    best
}

fn sort() -> impl Strategy<Value = Sort> {
    let ask = prop_oneof![3 => (24..=90_usize).prop_map(Ask::Share), 1 => (1..=3_usize).prop_map(Ask::Whole)];
    (ask, 0..4_u32, 0..3_u32).prop_map(|(ask, cpu, memory)| {
        let worth = match ask {
            Ask::Whole(count) => 1_000.0 * count as f64,
            Ask::Share(steps) => 10.0 * steps as f64,
        };
        let (cpu, memory, models) = (f64::from(cpu), f64::from(memory), Vec::new());
        Sort { cpu, memory, models, chance: 0.1, worth, ask }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_fill_of_a_room_is_worth_more(
        sorts in proptest::collection::vec(sort(), 1..4),
        prices in proptest::collection::vec(0..300_u32, 3),
        idle in 0..3_usize,
        parts in proptest::collection::vec(1..CELLS, 0..2),
        (cpu, memory, ample) in (0..8_u32, 0..6_u32, any::<bool>()),
    ) {
        let mut prices: Vec<f64> = prices.iter().copied().map(f64::from).collect();
        prices.truncate(sorts.len());
        let mut sorts = sorts;
        if ample {
            for sort in &mut sorts {
                (sort.cpu, sort.memory) = (0.0, 0.0);
            }
        }
        let units = Units { cpu: 1.0, memory: 1.0, models: vec!["A".into()] };
        let fill = Fill::new(&sorts, &units, &prices);
        let room = Room {
            cpu: i64::from(cpu),
            memory: i64::from(memory),
            idle: (idle > 0).then_some((0, idle)).into_iter().collect(),
            parts: parts.iter().copied().collect(),
        };
        let free = Free { idle, parts, cpu: room.cpu as f64, memory: room.memory as f64 };
        let mut devices: Vec<usize> =
            core::iter::repeat_n(CELLS, idle).chain(free.parts.iter().copied()).collect();
        let found = best_of_all(&sorts, &prices, &free, &mut devices, (0, 0));
        let (worth, _) = fill.best(&room);
        prop_assert!(worth >= found - 1e-6, "{worth} < {found}");
        if ample {
            prop_assert!((worth - found).abs() < 1e-6, "{worth} is not {found}");
        }
    }
}

fn cluster(nodes: impl Iterator<Item = usize>) -> Cluster {
    let mut cluster = Cluster::new();
    for number in nodes {
        let device = Device::new("gpu", ["A", "B"][number % 2]).capacity("milli", 1_000);
        let node = Node::new(alloc::format!("n{number}")).capacity("cpu", 4 + number as i64);
        let node = node.capacity("memory", 1 << 30).device(device.clone()).device(device);
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn history() -> Vec<Pod> {
    let share = |milli| DeviceRequest::share("gpu", "milli", milli);
    let pod = |cpu: i64| Pod::new().request("cpu", cpu).request("memory", 1_i64 << 28);
    vec![
        pod(3),
        pod(1).device(share(700)),
        pod(1).device(share(700)),
        pod(1).device(share(300)),
        pod(2).device(share(300).model("B")),
        pod(2).device(DeviceRequest::whole("gpu", 2)),
    ]
}

fn prices() -> ShadowPrices {
    let history = history();
    let shapes: Vec<&PodShape> = history.iter().map(|pod| &**pod.shape()).collect();
    ShadowPrices::from_pods(DevicePool::new("gpu", "milli"), shapes)
}

#[test]
fn prices_do_not_depend_on_the_order_of_nodes() {
    let (mut one, mut other) = (prices(), prices());
    one.solve(&cluster(0..9), 40);
    other.solve(&cluster((0..9).rev()), 40);
    assert_eq!(one.mean, other.mean);
    assert!(one.mean.iter().any(|price| *price > 0.0));
    assert_eq!(one.fill.device, other.fill.device);
}

#[test]
fn prices_stay_between_nothing_and_the_worth() {
    let mut prices = prices();
    for rounds in [0, 1, 30, 5] {
        prices.solve(&cluster(0..9), rounds);
        for (price, sort) in prices.mean.iter().zip(&prices.sorts) {
            assert!((0.0..=sort.worth).contains(price), "{price} of {}", sort.worth);
        }
    }
}

#[test]
fn empty_clusters_and_histories_have_no_prices() {
    let mut prices = ShadowPrices::from_pods(DevicePool::new("gpu", "milli"), []);
    prices.solve(&Cluster::new(), 3);
    assert_eq!((prices.sorts(), prices.mean.as_slice()), (0, &[][..]));
    prices.solve(&cluster(0..2), 3);
    assert!(prices.mean.is_empty());
}

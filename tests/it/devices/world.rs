//! Random devices and requests, and a ledger that counts anew what pods hold.

use std::collections::BTreeMap;

use phalanx::framework::DeviceChoice;
use phalanx::model::{Device, DeviceAsk, DeviceRequest, IslandRule, PodShape};
use phalanx::plugins::{
    DeviceFit, DevicePool, Fgd, Fit, GpuPacking, LowestIndex, SpreadDevices, TypicalPods,
};
use phalanx::{Cluster, Framework, Node, Pod};
use proptest::prelude::*;

pub(super) const UNIT: &str = "milli";

pub(super) const MEMORY: &str = "memory";

pub(super) fn device() -> impl Strategy<Value = Device> {
    let kind = prop_oneof![4 => Just("gpu"), 1 => Just("nic")];
    let model = prop_oneof![Just("A"), Just("B")];
    let place = (proptest::option::of(0..3_u32), proptest::option::of(0..2_u32));
    (kind, model, 1..4_i64, 0..3_i64, place).prop_map(|(kind, model, milli, memory, place)| {
        let mut device =
            Device::new(kind, model).capacity(UNIT, milli * 100).capacity(MEMORY, memory * 10);
        device.island = place.0.map(|island| format!("i{island}"));
        device.numa = place.1;
        device
    })
}

pub(super) fn rule() -> impl Strategy<Value = IslandRule> {
    prop_oneof![
        4 => Just(IslandRule::Any),
        1 => Just(IslandRule::Preferred),
        1 => Just(IslandRule::Required)
    ]
}

pub(super) fn request() -> impl Strategy<Value = DeviceRequest> {
    let kind = prop_oneof![4 => Just("gpu"), 1 => Just("nic")];
    let models = proptest::sample::subsequence(vec!["A", "B"], 0..=2);
    let ask = (any::<bool>(), 1..4_u32, 0..4_i64, 0..3_i64);
    (kind, models, ask, rule(), rule()).prop_map(|(kind, models, ask, island, numa)| {
        let (whole, count, milli, memory) = ask;
        let request = if whole {
            DeviceRequest::whole(kind, count)
        } else {
            DeviceRequest::shares(kind, count, UNIT, milli * 60).and(MEMORY, memory * 7)
        };
        models.into_iter().fold(request, DeviceRequest::model).island(island).numa(numa)
    })
}

pub(super) fn shape_of(requests: Vec<DeviceRequest>) -> Pod {
    requests.into_iter().fold(Pod::new().request("cpu", "100m"), Pod::device)
}

pub(super) fn nodes() -> impl Strategy<Value = Vec<Vec<Device>>> {
    proptest::collection::vec(proptest::collection::vec(device(), 0..6), 1..4)
}

pub(super) fn cluster_of(nodes: &[Vec<Device>]) -> Cluster {
    let mut cluster = Cluster::new();
    for (index, devices) in nodes.iter().enumerate() {
        let node = Node::new(format!("n{index}")).capacity("cpu", 2);
        let node = devices.iter().cloned().fold(node, Node::device);
        cluster.add_node(node).unwrap();
    }
    cluster
}

pub(super) fn framework(choice: usize) -> Framework {
    let pool = || DevicePool::new("gpu", UNIT);
    let builder = Framework::builder().filter(Fit).filter(DeviceFit);
    let builder = match choice % 5 {
        0 => builder.score(1, GpuPacking::new(pool())),
        1 => builder.device_choice(SpreadDevices),
        2 => builder.device_choice(LowestIndex),
        3 => builder.device_choice(Liar),
        _ => {
            let pods = [
                Pod::new().device(DeviceRequest::share("gpu", UNIT, 120)),
                Pod::new().device(DeviceRequest::whole("gpu", 2).model("A")),
                Pod::new().request("cpu", 1).device(DeviceRequest::whole("gpu", 1)),
            ];
            let typical =
                TypicalPods::from_pods(pool(), pods.iter().map(|pod| -> &PodShape { pod.shape() }));
            let fgd = Fgd::new(typical).scale(100);
            builder.score(1, fgd.clone()).device_choice(fgd)
        }
    };
    builder.build().unwrap()
}

/// Breaks every rule of its trait.
pub(super) struct Liar;

impl DeviceChoice for Liar {
    fn name(&self) -> &str {
        "Liar"
    }

    fn choose(
        &self,
        _: &phalanx::framework::Context<'_>,
        _: &phalanx::framework::DeviceOffer<'_>,
    ) -> Vec<u32> {
        vec![99, 0, 0]
    }
}

/// Use of devices, counted anew from the pods that hold them.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    pub(super) used: BTreeMap<(usize, String), i64>,
    pub(super) wholes: BTreeMap<usize, usize>,
    pub(super) holders: BTreeMap<usize, usize>,
}

impl Ledger {
    pub(super) fn take(&mut self, devices: &[Device], request: &DeviceRequest, held: &[u32]) {
        for &device in held {
            let device = device as usize;
            *self.holders.entry(device).or_default() += 1;
            match &request.ask {
                DeviceAsk::Whole { .. } => *self.wholes.entry(device).or_default() += 1,
                DeviceAsk::Shares { each, .. } => {
                    for (unit, amount) in each.iter() {
                        *self.used.entry((device, unit.into())).or_default() += amount;
                    }
                }
                other => panic!("{other:?} is not known here"),
            }
            assert!(device < devices.len());
        }
    }

    pub(super) fn is_sound(&self, devices: &[Device]) -> bool {
        self.used.iter().all(|((device, unit), used)| *used <= devices[*device].capacity.of(unit))
            && self.wholes.iter().all(|(device, wholes)| *wholes == 1 && self.holders[device] == 1)
    }
}

/// Whether held devices are what a request asks for, whatever else is on the node.
pub(super) fn honours(devices: &[Device], request: &DeviceRequest, held: &[u32]) -> bool {
    let of = |device: &u32| &devices[*device as usize];
    let one = |rule: IslandRule, part: &dyn Fn(&Device) -> Option<String>| {
        rule != IslandRule::Required
            || held.len() < 2
            || (part(of(&held[0])).is_some()
                && held.iter().all(|device| part(of(device)) == part(of(&held[0]))))
    };
    held.len() == request.count() as usize
        && held.windows(2).all(|pair| pair[0] < pair[1])
        && held.iter().all(|device| {
            of(device).kind == request.kind
                && (request.models.is_empty() || request.models.contains(&of(device).model))
                && (request.islands.is_empty()
                    || of(device).island.as_ref().is_some_and(|own| request.islands.contains(own)))
        })
        && one(request.island, &|device| device.island.clone())
        && one(request.numa, &|device| device.numa.map(|numa| numa.to_string()))
}

/// Devices that the pods of a node hold.
pub(super) fn ledger_of(cluster: &Cluster, node: usize, devices: &[Device]) -> Ledger {
    let mut ledger = Ledger::default();
    for pod in cluster.node(&format!("n{node}")).unwrap().pods() {
        for (request, held) in pod.shape().devices.iter().zip(pod.device_indexes()) {
            ledger.take(devices, request, held);
        }
    }
    ledger
}

pub(super) fn check(cluster: &Cluster, nodes: &[Vec<Device>]) {
    for (index, devices) in nodes.iter().enumerate() {
        let node = cluster.node(&format!("n{index}")).unwrap();
        let mut ledger = Ledger::default();
        for pod in node.pods() {
            let requests = &pod.shape().devices;
            let held = pod.device_indexes();
            assert_eq!(requests.len(), held.len());
            let mut all: Vec<u32> = held.concat();
            all.sort_unstable();
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "a device twice in one pod");
            for (request, held) in requests.iter().zip(held) {
                assert!(honours(devices, request, held), "{request:?} got {held:?} of {devices:?}");
                ledger.take(devices, request, held);
            }
        }
        assert!(ledger.is_sound(devices), "a device is above its capacity");
        let Some(room) = node.device_room() else {
            assert!(devices.is_empty());
            continue;
        };
        for (device, of) in devices.iter().enumerate() {
            let whole = ledger.wholes.contains_key(&device);
            assert_eq!(room.is_idle(device), !ledger.holders.contains_key(&device));
            assert_eq!(room.is_whole(device), whole);
            for unit in [UNIT, MEMORY] {
                let place = room.unit(cluster.device_term(unit).unwrap()).unwrap();
                let used = ledger.used.get(&(device, unit.into())).copied().unwrap_or(0);
                let expected = if whole { 0 } else { of.capacity.of(unit) - used };
                assert_eq!(room.free(device, place), expected);
            }
        }
    }
}

/// Every way to give the requests devices, by exhaustion.
pub(super) fn assignments(
    devices: &[Device],
    ledger: &Ledger,
    requests: &[DeviceRequest],
    taken: &[u32],
) -> Vec<Ledger> {
    let Some((first, rest)) = requests.split_first() else { return vec![ledger.clone()] };
    let mut found = Vec::new();
    for set in 0..1_u32 << devices.len() {
        let held: Vec<u32> = (0..devices.len() as u32).filter(|at| set >> at & 1 == 1).collect();
        if held.iter().any(|device| taken.contains(device)) || !honours(devices, first, &held) {
            continue;
        }
        let mut ledger = ledger.clone();
        ledger.take(devices, first, &held);
        if ledger.is_sound(devices) {
            let taken = [taken, &held].concat();
            found.extend(assignments(devices, &ledger, rest, &taken));
        }
    }
    found
}

/// How many pods fit one after another, each given devices in the best way.
pub(super) fn most(
    devices: &[Device],
    ledger: &Ledger,
    requests: &[DeviceRequest],
    limit: u64,
) -> u64 {
    if limit == 0 {
        return 0;
    }
    let mut best = 0;
    for next in assignments(devices, ledger, requests, &[]) {
        best = best.max(1 + most(devices, &next, requests, limit - 1));
        if best == limit {
            break;
        }
    }
    best
}

pub(super) fn whole(count: u32) -> Pod {
    Pod::new().device(DeviceRequest::whole("gpu", count))
}

pub(super) fn gpu() -> Device {
    Device::new("gpu", "A100").capacity(UNIT, 1_000)
}

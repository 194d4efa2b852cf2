//! Properties of devices, held to brute force.

use std::collections::BTreeMap;

use phalanx::framework::{DeviceChoice, TightestFit, device_capacity, devices_fit};
use phalanx::model::{Device, DeviceAsk, DeviceRequest, IslandRule, Node, Pod, PodGroup, PodShape};
use phalanx::place::UnplacedKind;
use phalanx::plugins::{
    BestFit, DeviceFit, DevicePool, DotProduct, Fgd, Fit, GpuClustering, GpuPacking, LowestIndex,
    PodGroupPodsCount, SpreadDevices, TypicalPods,
};
use phalanx::state::{Assignment, DeviceNeed};
use phalanx::{
    Cluster, CommitError, Framework, Outcome, PlaceError, Plan, Planner, Request, place_gang,
};
use proptest::prelude::*;

const UNIT: &str = "milli";
const MEMORY: &str = "memory";

fn device() -> impl Strategy<Value = Device> {
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

fn rule() -> impl Strategy<Value = IslandRule> {
    prop_oneof![
        4 => Just(IslandRule::Any),
        1 => Just(IslandRule::Preferred),
        1 => Just(IslandRule::Required)
    ]
}

fn request() -> impl Strategy<Value = DeviceRequest> {
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

fn shape_of(requests: Vec<DeviceRequest>) -> Pod {
    requests.into_iter().fold(Pod::new().request("cpu", "100m"), Pod::device)
}

fn nodes() -> impl Strategy<Value = Vec<Vec<Device>>> {
    proptest::collection::vec(proptest::collection::vec(device(), 0..6), 1..4)
}

fn cluster_of(nodes: &[Vec<Device>]) -> Cluster {
    let mut cluster = Cluster::new();
    for (index, devices) in nodes.iter().enumerate() {
        let node = Node::new(format!("n{index}")).capacity("cpu", 2);
        let node = devices.iter().cloned().fold(node, Node::device);
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn framework(choice: usize) -> Framework {
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
struct Liar;

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

/// What is taken of devices, counted anew from what pods hold.
#[derive(Clone, Default)]
struct Ledger {
    used: BTreeMap<(usize, String), i64>,
    wholes: BTreeMap<usize, usize>,
    holders: BTreeMap<usize, usize>,
}

impl Ledger {
    fn take(&mut self, devices: &[Device], request: &DeviceRequest, held: &[u32]) {
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
            }
            assert!(device < devices.len());
        }
    }

    fn is_sound(&self, devices: &[Device]) -> bool {
        self.used.iter().all(|((device, unit), used)| *used <= devices[*device].capacity.of(unit))
            && self.wholes.iter().all(|(device, wholes)| *wholes == 1 && self.holders[device] == 1)
    }
}

/// Whether held devices are what a request asks for, whatever else is on the node.
fn honours(devices: &[Device], request: &DeviceRequest, held: &[u32]) -> bool {
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

/// What the pods of a node hold.
fn ledger_of(cluster: &Cluster, node: usize, devices: &[Device]) -> Ledger {
    let mut ledger = Ledger::default();
    for pod in cluster.node(&format!("n{node}")).unwrap().pods() {
        for (request, held) in pod.shape().devices.iter().zip(pod.device_indexes()) {
            ledger.take(devices, request, held);
        }
    }
    ledger
}

/// The node and the island of all devices of a plan's members, if they are of one.
fn one_island<'a>(
    nodes: &'a [Vec<Device>],
    mut members: impl Iterator<Item = Assignment<'a>>,
) -> Option<(String, &'a str)> {
    let mut homes = Vec::new();
    let mut on = Vec::new();
    members.by_ref().for_each(|member| {
        let devices = &nodes[member.node()[1..].parse::<usize>().unwrap()];
        on.push(member.node().to_string());
        let held = member.devices().iter().flatten();
        homes.extend(held.map(|&device| devices[device as usize].island.as_deref()));
    });
    on.dedup();
    homes.dedup();
    match (&*on, &*homes) {
        ([node], [Some(island)]) => Some((node.clone(), island)),
        _ => None,
    }
}

fn check(cluster: &Cluster, nodes: &[Vec<Device>]) {
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
fn assignments(
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
fn most(devices: &[Device], ledger: &Ledger, requests: &[DeviceRequest], limit: u64) -> u64 {
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
            // The reference is of the sequential strategy.
            let request = Request::new(&group).strategy(phalanx::Strategy::Kubernetes);
            let outcome = planner.place(&cluster, &framework, request).unwrap();
            let reference = Planner::place_reference(&cluster, &framework, &group).unwrap();
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_group_gets_an_island_exactly_if_one_can_hold_it(
        nodes in nodes(),
        gangs in proptest::collection::vec((request(), 1..4_usize, any::<bool>()), 1..5),
        choice in 0..5_usize,
        salt in 0..2_u64,
    ) {
        let mut cluster = cluster_of(&nodes);
        let framework = framework(choice);
        let mut planner = Planner::new();
        for (index, (request, count, required)) in gangs.into_iter().enumerate() {
            let bare = PodGroup::gang(format!("g{index}"), count as u32)
                .pods(count, shape_of(vec![request.clone()]));
            let preferred = bare.clone().prefer_island();
            let strict = bare.clone().require_island();
            let possible = nodes.iter().enumerate().any(|(node, devices)| {
                let ledger = ledger_of(&cluster, node, devices);
                (0..3).any(|island| {
                    let mut request = request.clone();
                    request.islands = vec![format!("i{island}")];
                    most(devices, &ledger, &[request], count as u64) == count as u64
                })
            });
            // Several shares a pod, or a pod with preferences of its own, can be given devices
            // that leave too few for the next.
            let easy = request.count() == 1 || matches!(request.ask, DeviceAsk::Whole { .. })
                && request.numa == IslandRule::Any;
            for strategy in [phalanx::Strategy::Kubernetes, phalanx::Strategy::Search] {
                let ask = Request::new(&strict).strategy(strategy).salt(salt);
                let outcome = planner.place(&cluster, &framework, ask.clone()).unwrap();
                let reference = Planner::place_reference(&cluster, &framework, ask.clone()).unwrap();
                prop_assert_eq!(outcome.plan(), reference.plan());
                prop_assert!(possible || !outcome.is_placed());
                prop_assert!(!possible || !easy || outcome.is_placed());
                if let Outcome::Unplaced(unplaced) = &outcome {
                    prop_assert!(!possible || unplaced.kind == UnplacedKind::Greedy);
                    if let Some(certificate) = &unplaced.certificate {
                        certificate.verify(&cluster, &framework, ask).unwrap();
                    }
                }
                let ask = Request::new(&preferred).strategy(strategy).salt(salt);
                let wish = planner.place(&cluster, &framework, ask.clone()).unwrap();
                if let Some(plan) = wish.plan() {
                    phalanx::reference::is_sound(plan, ask, &cluster, &framework).unwrap();
                }
                let assigned = |plan: &Plan| format!("{:?}", plan.assignments()
                    .map(|a| (a.pod().name.clone(), a.node().to_string(), a.devices().to_vec()))
                    .collect::<Vec<_>>());
                if let Some(plan) = outcome.plan() {
                    phalanx::reference::is_sound(plan, &strict, &cluster, &framework).unwrap();
                    let (node, island) = one_island(&nodes, plan.assignments()).unwrap();
                    let islands: Vec<_> = plan.islands().collect();
                    prop_assert_eq!(islands, [(&*strict.full_name(), &*node, island)]);
                    prop_assert_eq!(assigned(wish.plan().unwrap()), assigned(plan));
                } else {
                    let ask = Request::new(&bare).strategy(phalanx::Strategy::Kubernetes).salt(salt);
                    let bare = planner.place(&cluster, &framework, ask).unwrap();
                    prop_assert_eq!(wish.plan().map(assigned), bare.plan().map(assigned));
                }
            }
            let group = if required { &strict } else { &preferred };
            if let Some(plan) = planner.place(&cluster, &framework, group).unwrap().plan() {
                cluster.commit(&framework, plan).unwrap();
            }
            check(&cluster, &nodes);
        }
    }

    #[test]
    fn groups_inside_have_islands_of_their_own(
        nodes in nodes(),
        inside in proptest::collection::vec(
            (request(), 1..3_usize, 0..3_usize), 1..4),
        outer in any::<bool>(),
    ) {
        let mut cluster = cluster_of(&nodes);
        let framework = framework(0);
        let mut group = PodGroup::gang("outer", inside.len() as u32);
        for (index, (request, count, rule)) in inside.iter().enumerate() {
            let leaf = PodGroup::gang(format!("g{index}"), *count as u32)
                .pods(*count, shape_of(vec![request.clone()]));
            group = group.group(match rule {
                0 => leaf,
                1 => leaf.prefer_island(),
                _ => leaf.require_island(),
            });
        }
        if outer {
            group = group.require_island();
        }
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        let ask = Request::new(&group);
        if let Outcome::Unplaced(unplaced) = &outcome
            && let Some(certificate) = &unplaced.certificate
        {
            certificate.verify(&cluster, &framework, ask).unwrap();
        }
        if let Some(plan) = outcome.plan() {
            let all: Vec<_> = plan.assignments().collect();
            if outer {
                prop_assert!(one_island(&nodes, all.iter().copied()).is_some());
            }
            for leaf in group.groups.iter().filter(|leaf| leaf.topology.island == IslandRule::Required) {
                let own = all.iter().copied().filter(|member| leaf.pods.iter().any(|pod| pod.name == member.pod().name));
                prop_assert!(one_island(&nodes, own).is_some());
            }
            cluster.commit(&framework, plan).unwrap();
            check(&cluster, &nodes);
            for (node, devices) in nodes.iter().enumerate() {
                prop_assert!(ledger_of(&cluster, node, devices).is_sound(devices));
            }
        }
    }
}

/// Nodes of two islands, of so many GPUs each.
fn linked(nodes: usize, left: usize, right: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for index in 0..nodes {
        let mut node = Node::new(format!("n{index}")).label("rack", format!("r{}", index / 2));
        for at in 0..left + right {
            node = node.device(gpu().island(if at < left { "left" } else { "right" }));
        }
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn whole(count: u32) -> Pod {
    Pod::new().device(DeviceRequest::whole("gpu", count))
}

fn islands_of(outcome: &Outcome) -> Vec<(&str, &str, &str)> {
    outcome.plan().map_or_else(Vec::new, |plan| plan.islands().collect())
}

#[test]
fn a_group_is_kept_in_an_island_the_one_with_the_fewest_idle_devices() {
    let mut cluster = linked(2, 4, 2);
    let framework = framework(2);
    let pairs =
        |name: &str, pods| PodGroup::gang(name, pods as u32).pods(pods, whole(2)).require_island();
    for (name, pods, expected) in [
        ("a", 2, Some(("n0", "left"))),
        ("b", 1, Some(("n0", "right"))),
        ("c", 3, None),
        ("d", 1, Some(("n1", "right"))),
        ("e", 2, Some(("n1", "left"))),
        ("f", 1, None),
    ] {
        let group = pairs(name, pods);
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        let full = group.full_name();
        let expected: Vec<_> = expected.iter().map(|&(node, name)| (&*full, node, name)).collect();
        assert_eq!(islands_of(&outcome), expected, "{name}");
        if let Some(plan) = outcome.plan() {
            cluster.commit(&framework, plan).unwrap();
        }
    }
}

#[test]
fn fractions_and_mixed_members_share_an_island() {
    let framework = framework(0);
    let share = |milli| Pod::new().device(DeviceRequest::share("gpu", UNIT, milli));
    // Two GPUs an island: a whole one and three thirds of the other, and nothing more.
    let mixed = |thirds: usize| {
        PodGroup::gang("mixed", thirds as u32 + 1)
            .pods(1, whole(1))
            .pods(thirds, share(333))
            .require_island()
    };
    let cluster = linked(1, 2, 2);
    let three = place_gang(&cluster, &framework, mixed(3)).unwrap();
    assert_eq!(islands_of(&three), [("default/mixed", "n0", "left")]);
    let four = place_gang(&cluster, &framework, mixed(4)).unwrap();
    let Outcome::Unplaced(unplaced) = four else { panic!("{four}") };
    // Without islands it would fit, so nothing is proven.
    assert_eq!(unplaced.kind, UnplacedKind::Greedy);
    let many = place_gang(&cluster, &framework, mixed(20)).unwrap();
    let Outcome::Unplaced(unplaced) = many else { panic!("{many}") };
    assert_eq!(unplaced.kind, UnplacedKind::Infeasible);
    // A wish is given up, and a member without devices comes along.
    let wish = mixed(4).prefer_island();
    let outcome = place_gang(&cluster, &framework, &wish).unwrap();
    assert_eq!((outcome.plan().unwrap().len(), islands_of(&outcome)), (5, vec![]));
    let helped = mixed(2).pods(1, Pod::new());
    let outcome = place_gang(&linked(3, 1, 2), &framework, &helped).unwrap();
    assert_eq!(islands_of(&outcome), [("default/mixed", "n0", "right")]);
    // Nothing is asked of groups without devices.
    let plain = PodGroup::gang("plain", 2).pods(2, Pod::new()).require_island();
    assert!(place_gang(&Cluster::clone(&linked(1, 0, 0)), &framework, &plain).unwrap().is_placed());
}

#[test]
fn a_tree_reaches_down_to_islands() {
    let cluster = linked(4, 4, 0);
    let framework = framework(2);
    let pairs = |name: &str| PodGroup::gang(name, 2).pods(2, whole(2)).require_island();
    let tree = |leaves: usize| {
        let outer = PodGroup::gang("outer", leaves as u32).require("rack");
        (0..leaves).fold(outer, |outer, index| outer.group(pairs(&format!("g{index}"))))
    };
    for strategy in [phalanx::Strategy::Kubernetes, phalanx::Strategy::Search] {
        let two = tree(2);
        let outcome =
            place_gang(&cluster, &framework, Request::new(&two).strategy(strategy)).unwrap();
        let expected = [("default/g0", "n0", "left"), ("default/g1", "n1", "left")];
        assert_eq!(islands_of(&outcome), expected);
        let domains: Vec<_> = outcome.plan().unwrap().domains().collect();
        assert_eq!(domains, [("default/outer", "rack", "r0")]);
        let three = tree(3);
        let outcome =
            place_gang(&cluster, &framework, Request::new(&three).strategy(strategy)).unwrap();
        assert!(!outcome.is_placed());
    }
    // Where domains are scored, every island is tried, and the best domain's is taken.
    let scored = Framework::builder()
        .filter(Fit)
        .filter(DeviceFit)
        .domain_score(1, PodGroupPodsCount)
        .build()
        .unwrap();
    let outcome = place_gang(&cluster, &scored, pairs("g")).unwrap();
    assert_eq!(islands_of(&outcome), [("default/g", "n0", "left")]);
    // A level of the group itself is one of its node's.
    let mut bare = cluster.clone();
    bare.update_node(&Node::new("n0").device(gpu().island("left")).device(gpu().island("left")))
        .unwrap();
    let racked = PodGroup::gang("g", 1).pods(1, whole(2)).require_island().require("rack");
    let outcome = place_gang(&bare, &framework, &racked).unwrap();
    assert_eq!(islands_of(&outcome), [("default/g", "n1", "left")]);
}

#[test]
fn members_that_run_say_which_island() {
    let mut cluster = linked(2, 2, 2);
    let framework = framework(2);
    let old = whole(1).name("old").in_group("g").on("n1").holding([vec![3]]);
    cluster.add_pod(old).unwrap();
    let group = PodGroup::gang("g", 2).pods(1, whole(1)).require_island();
    let outcome = place_gang(&cluster, &framework, &group).unwrap();
    assert_eq!(islands_of(&outcome), [("default/g", "n1", "right")]);
    cluster.add_pod(whole(1).name("older").in_group("g").on("n1").holding([vec![0]])).unwrap();
    let refused = place_gang(&cluster, &framework, &group);
    assert!(matches!(refused, Err(PlaceError::Scattered { .. })), "{refused:?}");
    let wish = group.prefer_island();
    let outcome = place_gang(&cluster, &framework, &wish).unwrap();
    assert_eq!((outcome.is_placed(), islands_of(&outcome)), (true, vec![]));
}

#[test]
fn a_plan_whose_island_is_gone_is_refused_whole() {
    let mut cluster = linked(1, 2, 0);
    let framework = framework(2);
    let group = PodGroup::gang("g", 2).pods(2, whole(1)).require_island();
    let outcome = place_gang(&cluster, &framework, &group).unwrap();
    let plan = outcome.plan().unwrap();
    let text = serde_json::to_string(plan).unwrap();
    let back: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!((&back, back.islands().count()), (plan, 1));
    let text = serde_json::to_string(&group).unwrap();
    assert_eq!(serde_json::from_str::<PodGroup>(&text).unwrap(), group);
    let node = Node::new("n0").device(gpu().island("left")).device(gpu().island("right"));
    cluster.update_node(&node).unwrap();
    let before = serde_json::to_string(&cluster).unwrap();
    let refused = cluster.commit(&framework, plan);
    assert!(matches!(refused, Err(CommitError::Domain { .. })), "{refused:?}");
    assert_eq!(serde_json::to_string(&cluster).unwrap(), before);
    let node = Node::new("n0").device(gpu().island("left")).device(gpu().island("left"));
    cluster.update_node(&node).unwrap();
    cluster.commit(&framework, &back).unwrap();
}

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
        assert_eq!(planner.plugin_calls(), 0);
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
    let framework = Framework::builder()
        .filter(DeviceFit)
        .score(1, Fgd::new(typical))
        .score(1, BestFit::new(pool()))
        .score(1, DotProduct::new(pool()))
        .score(1, GpuPacking::new(pool()))
        .score(1, GpuClustering::new(pool()))
        .build()
        .unwrap();
    phalanx::laws::check_framework(&framework, &cluster, &shapes).unwrap();
}

fn gpu() -> Device {
    Device::new("gpu", "A100").capacity(UNIT, 1_000)
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

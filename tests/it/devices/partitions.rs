//! Sets of devices that go together, and devices beside others, by brute force.

use phalanx::framework::{chosen_devices, devices_fit};
use phalanx::model::{Beside, Device, DeviceRequest, DeviceSet, IslandRule};
use phalanx::plugins::{DeviceFit, Fit, WholeSets};
use phalanx::state::DeviceNeed;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang, reference};
use proptest::prelude::*;

fn framework() -> Framework {
    Framework::builder().filter(Fit).filter(DeviceFit).score(1, WholeSets).build().unwrap()
}

/// A node with devices of which some are in use.
fn cluster(node: Node, used: &[usize]) -> Cluster {
    let mut cluster = Cluster::new();
    let kinds: Vec<String> = node.devices.iter().map(|device| device.kind.clone()).collect();
    cluster.add_node(node).unwrap();
    for &device in used {
        let pod = Pod::new().name(format!("p{device}")).on("n");
        let pod = pod.device(DeviceRequest::whole(kinds[device].clone(), 1));
        cluster.add_pod(pod.holding([vec![device as u32]])).unwrap();
    }
    cluster
}

/// All subsets of devices.
fn subsets(of: usize) -> impl Iterator<Item = Vec<u32>> {
    (0..1_u32 << of).map(move |set| (0..of as u32).filter(|at| set >> at & 1 == 1).collect())
}

/// Devices in use and sets of the others.
fn sets(devices: usize) -> impl Strategy<Value = Vec<DeviceSet>> {
    let members = proptest::sample::subsequence((0..devices as u32).collect::<Vec<_>>(), 1..4);
    let profile = prop_oneof![2 => Just(""), 1 => Just("a"), 1 => Just("b")];
    let set = (members, profile, 0..3_i64).prop_map(|(members, profile, score)| {
        DeviceSet::new(members).profile(profile).score(score)
    });
    proptest::collection::vec(set, 0..7)
}

/// Whether a set of devices serves a request by the table of its node.
fn allowed(sets: &[DeviceSet], rule: IslandRule, request: &DeviceRequest, held: &[u32]) -> bool {
    let profile = request.profile.clone().unwrap_or_default();
    let own =
        |set: &&DeviceSet| set.profile == profile && set.devices.len() == request.count() as usize;
    let binds = request.profile.is_some() || rule == IslandRule::Required;
    let most = sets.iter().filter(own).map(|set| set.score).max();
    let mut serving = sets.iter().filter(own);
    !binds
        || serving.any(|set| set.devices == held && (!request.best_set || Some(set.score) == most))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn whole_devices_are_a_set_of_the_table(
        sets in sets(5),
        used in proptest::sample::subsequence((0..5_usize).collect::<Vec<_>>(), 0..4),
        rule in proptest::sample::select(vec![IslandRule::Any, IslandRule::Preferred, IslandRule::Required]),
        count in 1..4_u32,
        profile in proptest::option::of(proptest::sample::select(vec!["a", "b"])),
        best in any::<bool>(),
        two in any::<bool>(),
    ) {
        let node = (0..5).fold(Node::new("n"), |node, _| node.device(Device::new("gpu", "A")));
        let node = sets.iter().cloned().fold(node, Node::device_set).partitioned(rule);
        let cluster = cluster(node, &used);
        let mut request = DeviceRequest::whole("gpu", count);
        if let Some(profile) = profile {
            request = request.of_profile(profile);
        }
        if best {
            request = request.best_set();
        }
        let mut pod = Pod::new().device(request.clone());
        if two {
            pod = pod.device(DeviceRequest::whole("gpu", 1));
        }
        let free = |held: &[u32]| held.iter().all(|device| !used.contains(&(*device as usize)));
        let serves = |request: &DeviceRequest, held: &[u32]| {
            held.len() == request.count() as usize && free(held) && allowed(&sets, rule, request, held)
        };
        let requests = &pod.shape().devices;
        let possible = subsets(5).filter(|held| serves(&requests[0], held)).any(|held| {
            requests.len() == 1 || subsets(5).any(|other| {
                serves(&requests[1], &other) && other.iter().all(|device| !held.contains(device))
            })
        });
        let needs = DeviceNeed::of(&cluster, pod.shape());
        prop_assert_eq!(devices_fit(cluster.node("n").unwrap(), &needs), possible);
        let group = PodGroup::gang("g", 1).pods(1, pod.clone());
        let framework = framework();
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        prop_assert_eq!(outcome.plan().is_some(), possible);
        let Some(plan) = outcome.plan() else { return Ok(()) };
        reference::is_sound(plan, &group, &cluster, &framework).unwrap();
        let held = plan.assignments().next().unwrap().devices().to_vec();
        for (request, held) in requests.iter().zip(&held) {
            prop_assert!(serves(request, held), "{held:?}");
        }
        // Where sets are preferred and one is free, it is a set; of the best score that is free.
        let table = |held: &Vec<u32>| {
            let own = sets.iter().filter(|set| set.profile.is_empty() && set.devices == *held);
            own.map(|set| set.score).max()
        };
        if !two && profile.is_none() && rule != IslandRule::Any && !best {
            let scores = subsets(5).filter(|held| serves(&requests[0], held)).filter_map(|held| table(&held));
            prop_assert_eq!(table(&held[0]), scores.max());
        }
    }

    #[test]
    fn devices_lie_beside_those_of_another_request(
        devices in proptest::collection::vec((any::<bool>(), proptest::option::of(0..3_u32)), 1..7),
        used in proptest::sample::subsequence((0..6_usize).collect::<Vec<_>>(), 0..3),
        gpus in 1..4_u32,
        nics in 1..3_u32,
        same in any::<bool>(),
        pairs in any::<bool>(),
    ) {
        let mut node = Node::new("n");
        for (is_gpu, switch) in &devices {
            let mut device = Device::new(if *is_gpu { "gpu" } else { "nic" }, "A");
            device.island = switch.map(|switch| format!("pci{switch}"));
            node = node.device(device);
        }
        let of = |kind: bool| {
            let own = devices.iter().enumerate().filter(move |(_, device)| device.0 == kind);
            own.map(|(at, _)| at as u32).collect::<Vec<u32>>()
        };
        let table: Vec<Vec<u32>> = of(true).chunks(2).map(<[u32]>::to_vec).collect();
        if pairs {
            let sets = table.iter().cloned().map(DeviceSet::new);
            node = sets.fold(node, Node::device_set).partitioned(IslandRule::Required);
        }
        let used: Vec<usize> = used.into_iter().filter(|at| *at < devices.len()).collect();
        let cluster = cluster(node, &used);
        let beside = Beside::request(0);
        let beside = if same { beside.same() } else { beside };
        let pod = Pod::new()
            .device(DeviceRequest::whole("gpu", gpus))
            .device(DeviceRequest::shares("nic", nics, "cores", 0).beside(beside));
        let switches = |held: &[u32]| {
            let mut switches: Vec<Option<u32>> =
                held.iter().map(|at| devices[*at as usize].1).collect();
            switches.sort_unstable();
            switches.dedup();
            switches.iter().all(Option::is_some).then_some(switches)
        };
        let serves = |kind: bool, count: u32, held: &[u32]| {
            held.len() == count as usize
                && held.iter().all(|at| devices[*at as usize].0 == kind && !used.contains(&(*at as usize)))
        };
        let lies = |gpus: &[u32], nics: &[u32]| {
            let (Some(gpus), Some(nics)) = (switches(gpus), switches(nics)) else { return false };
            if same { gpus == nics } else { nics.iter().all(|nic| gpus.contains(nic)) }
        };
        let in_table = |held: &Vec<u32>| !pairs || table.contains(held);
        let possible = subsets(devices.len()).filter(|held| serves(true, gpus, held) && in_table(held)).any(|held| {
            subsets(devices.len()).any(|other| serves(false, nics, &other) && lies(&held, &other))
        });
        let needs = DeviceNeed::of(&cluster, pod.shape());
        let node = cluster.node("n").unwrap();
        prop_assert_eq!(devices_fit(node, &needs), possible);
        let cx = phalanx::framework::Context::new(&cluster, pod.shape());
        let chosen = chosen_devices(&cx, node, &needs);
        prop_assert_eq!(chosen.is_some(), possible);
        if let Some(chosen) = chosen {
            prop_assert!(serves(true, gpus, &chosen[0]) && serves(false, nics, &chosen[1]));
            prop_assert!(lies(&chosen[0], &chosen[1]) && in_table(&chosen[0]));
        }
    }
}

/// Eight GPUs, whose table has pairs, fours and all of them.
fn eight(name: &str) -> Node {
    let node = Node::new(name).capacity("cpu", 8);
    let mut node = (0..8).fold(node, |node, _| node.device(Device::new("gpu", "H100")));
    for size in [1, 2, 4, 8] {
        for first in (0..8).step_by(size as usize) {
            node = node.device_set(DeviceSet::new(first..first + size).score(1));
        }
    }
    node.partitioned(IslandRule::Required)
}

fn places(cluster: &mut Cluster, name: &str, counts: &[u32]) -> Vec<(String, Vec<u32>)> {
    let framework = framework();
    let mut found = Vec::new();
    for (at, count) in counts.iter().enumerate() {
        let pod = Pod::new().device(DeviceRequest::whole("gpu", *count));
        let group = PodGroup::gang(format!("{name}{at}"), 1).pods(1, pod);
        let outcome = place_gang(cluster, &framework, &group).unwrap();
        let plan = outcome.plan().expect("it fits");
        let own = plan.assignments().next().unwrap();
        found.push((own.node().to_owned(), own.devices()[0].clone()));
        cluster.commit(&framework, plan).unwrap();
    }
    found
}

#[test]
fn what_stays_whole_decides_among_sets_and_among_nodes() {
    let mut cluster = Cluster::new();
    cluster.add_node(eight("a")).unwrap();
    // One, then a pair beside it, so that a four stays whole; then the one that is left.
    let found = places(&mut cluster, "g", &[1, 2, 1, 4]);
    let sets: Vec<Vec<u32>> = found.into_iter().map(|(_, devices)| devices).collect();
    assert_eq!(sets, [vec![0], vec![2, 3], vec![1], vec![4, 5, 6, 7]]);
    // The node whose table is broken already, so that eight stay whole on the other.
    let mut cluster = Cluster::new();
    cluster.add_node(eight("a")).unwrap();
    cluster.add_node(eight("b")).unwrap();
    let used = Pod::new().name("used").on("b").device(DeviceRequest::whole("gpu", 1));
    cluster.add_pod(used.holding([vec![0]])).unwrap();
    let found = places(&mut cluster, "h", &[2, 4, 8]);
    let nodes: Vec<&str> = found.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(nodes, ["b", "b", "a"]);
}

#[test]
fn profiles_fit_beside_each_other_as_their_slices_do() {
    // Seven slices: a profile of four at the front, of three at the back, pairs and ones anywhere even.
    let mut node = Node::new("n").capacity("cpu", 8);
    node = (0..7).fold(node, |node, _| node.device(Device::new("mig", "A100")));
    node = node.device_set(DeviceSet::new(0..4).profile("4g.20gb"));
    node = node.device_set(DeviceSet::new(4..7).profile("3g.20gb"));
    node = node.device_set(DeviceSet::new(0..3).profile("3g.20gb"));
    for first in [0, 2, 4] {
        node = node.device_set(DeviceSet::new(first..first + 2).profile("2g.10gb"));
    }
    for slice in 0..7 {
        node = node.device_set(DeviceSet::new([slice]).profile("1g.5gb"));
    }
    let place = |asked: &[(&str, u32)]| {
        let mut cluster = Cluster::new();
        cluster.add_node(node.clone()).unwrap();
        let framework = framework();
        asked.iter().enumerate().all(|(at, (profile, slices))| {
            let pod = Pod::new().device(DeviceRequest::whole("mig", *slices).of_profile(*profile));
            let group = PodGroup::gang(format!("g{at}"), 1).pods(1, pod);
            let outcome = place_gang(&cluster, &framework, &group).unwrap();
            let Some(plan) = outcome.plan() else { return false };
            reference::is_sound(plan, &group, &cluster, &framework).unwrap();
            cluster.commit(&framework, plan).is_ok()
        })
    };
    let (four, three, two, one) = (("4g.20gb", 4), ("3g.20gb", 3), ("2g.10gb", 2), ("1g.5gb", 1));
    assert!(place(&[four, three]) && place(&[three, three]) && place(&[three, four]));
    assert!(place(&[two, two, two, one]) && place(&[one, four, two]) && place(&[one; 7]));
    assert!(!place(&[four, four]) && !place(&[four, three, one]) && !place(&[two, two, two, two]));
    // Slices alone would do: three pairs leave one, and the second three of them none in a row.
    assert!(!place(&[two, three, three]) && !place(&[("7g.40gb", 7)]));
}

#[test]
fn sets_that_make_no_sense_are_refused() {
    let refused = |devices: Vec<u32>| {
        let node = (0..3).fold(Node::new("n"), |node, _| node.device(Device::new("gpu", "x")));
        Cluster::new().add_node(node.device_set(DeviceSet::new(devices))).err()
    };
    assert_eq!(refused(vec![0, 2]), None);
    for wrong in [vec![], vec![0, 0], vec![1, 3]] {
        let error = refused(wrong.clone()).unwrap_or_else(|| panic!("{wrong:?} is taken"));
        assert!(error.to_string().contains("partitions.sets[0]"), "{wrong:?}: {error}");
    }
}

#[test]
fn devices_lie_beside_an_earlier_request_that_lies_beside_none() {
    let place = |beside: &[Option<u32>]| {
        let mut cluster = Cluster::new();
        let node = ["a", "b", "c"]
            .iter()
            .fold(Node::new("n"), |node, kind| node.device(Device::new(*kind, "x")));
        cluster.add_node(node).unwrap();
        let kinds = ["a", "b", "c"].iter().zip(beside);
        let pod = kinds.fold(Pod::new(), |pod, (kind, beside)| {
            let request = DeviceRequest::whole(*kind, 1);
            pod.device(match beside {
                Some(other) => request.beside(Beside::request(*other)),
                None => request,
            })
        });
        place_gang(&cluster, &framework(), &PodGroup::gang("g", 1).pods(1, pod)).map(|_| ())
    };
    assert!(place(&[None, None, None]).is_ok());
    assert!(place(&[None, Some(0), Some(0)]).is_ok());
    for (wrong, at) in [
        ([Some(0), None, None], 0),
        ([None, Some(1), None], 1),
        ([None, Some(2), None], 1),
        ([None, Some(0), Some(1)], 2),
    ] {
        let error = place(&wrong).expect_err("it is refused").to_string();
        assert!(error.contains(&format!("devices[{at}].beside")), "{wrong:?}: {error}");
    }
}

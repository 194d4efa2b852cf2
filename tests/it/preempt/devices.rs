//! The least set for gangs that ask for devices, against all sets of units.

use phalanx::model::{Device, DeviceRequest, IslandRule};
use phalanx::preempt::{Cost, PreemptingPlanner, Preemption, PreemptionRequest, RunningWork};
use phalanx::{Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup, Request, Strategy, Time};

use crate::support::budget;
use crate::support::dice::Dice;

const NOW: u64 = 1_000;

struct World {
    cluster: Cluster,
    running: RunningWork,
    /// The names of the pods of each unit.
    units: Vec<Vec<String>>,
    gang: PodGroup,
}

fn request(dice: &mut Dice) -> DeviceRequest {
    let request = match dice.roll(3) {
        0 => DeviceRequest::whole("gpu", 1 + dice.roll(3) as u32),
        1 => DeviceRequest::whole("gpu", 2).island(IslandRule::Required),
        _ => DeviceRequest::share("gpu", "milli", 200 + 100 * dice.roll(6) as i64),
    };
    if dice.one_in(5) { request.model("B") } else { request }
}

fn random(seed: u64) -> World {
    let mut dice = Dice(seed);
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for number in 0..2 + dice.roll(3) {
        let mut node = Node::new(format!("n{number}")).capacity("pods", 110);
        for gpu in 0..2 + dice.roll(3) {
            let device = Device::new("gpu", if dice.one_in(3) { "B" } else { "A" });
            node = node.device(device.capacity("milli", 1_000).island(format!("i{}", gpu / 2)));
        }
        cluster.add_node(node.label("rack", format!("r{}", number % 2))).unwrap();
    }
    let framework = Framework::default();
    let (mut running, mut units) = (RunningWork::new(), Vec::new());
    for number in 0..4 + dice.roll(4) {
        let (name, members) = (format!("g{number}"), 1 + dice.roll(2) as usize);
        let pod = Pod::new().device(request(&mut dice)).since(Time::from_secs(dice.roll(NOW)));
        let group = PodGroup::gang(&name, members as u32).pods(members, pod);
        let group = group.priority(dice.roll(3) as i32).evicted_whole();
        let Outcome::Placed(plan) = Planner::new().place(&cluster, &framework, &group).unwrap()
        else {
            continue;
        };
        cluster.commit(&framework, &plan).unwrap();
        running.set_group(&group).unwrap();
        units.push(plan.assignments().map(|pod| pod.pod().name.clone()).collect());
    }
    let members = 1 + dice.roll(3) as usize;
    let gang =
        PodGroup::gang("new", members as u32).pods(members, Pod::new().device(request(&mut dice)));
    let gang = gang.priority(1 + dice.roll(3) as i32);
    let gang = if dice.one_in(2) { gang.require("rack") } else { gang };
    World { cluster, running, units, gang }
}

#[test]
fn sets_for_devices_are_the_least_of_all() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let mut counts = std::collections::BTreeMap::new();
    for seed in 0..budget::part(400) {
        let World { cluster, running, units, gang } = random(seed);
        let request = || Request::new(&gang).now(Time::from_secs(NOW)).strategy(Strategy::Search);
        let ask = PreemptionRequest::new(request()).budget(1_000_000);
        let mut least: Option<Cost> = None;
        for set in 0_u32..1 << units.len() {
            let gone = units.iter().enumerate().filter(|(at, _)| set & 1 << at != 0);
            let gone: Vec<(&str, &str)> =
                gone.flat_map(|(_, pods)| pods).map(|pod| ("default", pod.as_str())).collect();
            let cost = ask.cost_of(&cluster, &running, gone.iter().copied()).unwrap();
            let allowed = cost.highest_priority.is_none_or(|highest| highest < gang.priority);
            if !allowed || least.is_some_and(|least| least <= cost) {
                continue;
            }
            let mut txn = cluster.txn();
            for (namespace, name) in gone {
                txn.evict(namespace, name).unwrap();
            }
            if Planner::new().place(&txn, &framework, request()).unwrap().is_placed() {
                least = Some(cost);
            }
        }
        let answer = planner.place(&cluster, &framework, &running, ask).unwrap();
        *counts.entry(answer.word()).or_insert(0) += 1;
        match answer {
            Preemption::Placed(_) => assert_eq!(least, Some(Cost::NOTHING), "seed {seed}"),
            Preemption::Preempt(preempt) => {
                assert_eq!(Some(preempt.cost), least, "seed {seed}");
                assert!(preempt.is_least(), "seed {seed}");
            }
            Preemption::NoVictimsHelp(_) => assert_eq!(least, None, "seed {seed}"),
            other => panic!("seed {seed}: {other}"),
        }
    }
    println!("{counts:?}");
    assert!(
        counts["preempt"] > budget::part(80) && counts["no-victims-help"] > budget::part(40),
        "{counts:?}"
    );
}

/// Racks whose amounts all suffice, and whose devices do so in one alone.
#[test]
fn racks_that_devices_rule_out_are_not_tried() {
    const RACKS: usize = 20;
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    let mut running = RunningWork::new();
    for rack in 0..RACKS {
        // What runs in the last rack has run for longest.
        let start = Time::from_secs((RACKS - rack) as u64);
        for number in 0..2 {
            let name = format!("n{rack}-{number}");
            let mut node = Node::new(&name).capacity("pods", 110).label("rack", format!("r{rack}"));
            for _ in 0..4 {
                let model = if rack == RACKS - 1 { "B" } else { "A" };
                node = node.device(Device::new("gpu", model).capacity("milli", 1_000));
            }
            cluster.add_node(node).unwrap();
            for device in 0..4 {
                let mut pod = Pod::new().name(format!("{name}-{device}")).since(start);
                pod = pod.in_group(format!("g{rack}")).device(DeviceRequest::whole("gpu", 1));
                pod.device_indexes = vec![vec![device]];
                cluster.add_pod(pod.on(&name)).unwrap();
            }
        }
        running.set_group(&PodGroup::gang(format!("g{rack}"), 8).evicted_whole()).unwrap();
    }
    let pod = Pod::new().device(DeviceRequest::whole("gpu", 4).model("B"));
    let gang = PodGroup::gang("new", 2).pods(2, pod).require("rack").priority(1);
    let mut planner = PreemptingPlanner::new();
    let request = Request::new(&gang).now(Time::from_secs(NOW));
    let answer = planner.place(&cluster, &Framework::default(), &running, request).unwrap();
    let preempt = answer.preempt().unwrap();
    assert_eq!(preempt.victims[0].name, "default/g19");
    assert!(preempt.is_least());
    assert_eq!(planner.trials(), 1, "the other racks have no such device");
}

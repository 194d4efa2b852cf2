//! Pods with resource claims: how long it takes to find nodes and devices for them.

use std::sync::Arc;
use std::time::Instant;

use phalanx::claims::SelectorEvaluator;
use phalanx::model::{
    AllocatedDevice, Allocation, ClaimAllocation, ClaimSpec, CounterSet, CounterUse, DeviceClass,
    DeviceDemand, ResourceSlice, SliceDevice,
};
use phalanx::place::{Gang, Lack};
use phalanx::plugins::KubernetesProfile;
use phalanx::{
    Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup, Quantity, Request, Strategy,
};

const DRIVER: &str = "gpu.example.com";
const DEVICES: u64 = 8;
const TIMES: usize = 15;

#[cfg(feature = "cel")]
fn evaluator() -> impl SelectorEvaluator + 'static {
    phalanx::claims::Cel
}

/// Without the feature `cel` nobody reads the selector of the class: all names of drivers hold.
#[cfg(not(feature = "cel"))]
fn evaluator() -> impl SelectorEvaluator + 'static {
    struct Any;

    impl SelectorEvaluator for Any {
        fn compile(&self, _: &str) -> Result<Box<dyn phalanx::claims::SelectorProgram>, String> {
            Ok(Box::new(Any))
        }
    }

    impl phalanx::claims::SelectorProgram for Any {
        fn matches(&self, _: phalanx::claims::DeviceFacts<'_>) -> Result<bool, String> {
            Ok(true)
        }
    }

    Any
}

/// A case: devices of one claim, whether of one island, devices of each node that are taken.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    devices: u64,
    island: bool,
    taken: u64,
}

const CASES: [Case; 4] = [
    Case { name: "one", devices: 1, island: false, taken: 0 },
    Case { name: "eight", devices: 8, island: false, taken: 0 },
    Case { name: "last", devices: 1, island: false, taken: 7 },
    Case { name: "island", devices: 4, island: true, taken: 2 },
];

/// A pod with a claim of its own.
fn pod(case: Case) -> Pod {
    let mut spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", case.devices));
    if case.island {
        spec = spec.same(format!("{DRIVER}/island"));
    }
    Pod::new().request("cpu", 1).request("memory", "2Gi").own_claim("gpus", spec)
}

/// The first devices of a node, as a claim holds them.
fn held(node: &str, count: u64) -> ClaimAllocation {
    let mut allocation = Allocation::default();
    allocation.devices.extend((0..count).map(|at| {
        let mut device = AllocatedDevice::default();
        device.request = "gpus".into();
        device.driver = DRIVER.into();
        device.pool = node.into();
        device.device = format!("gpu-{at}");
        device
    }));
    ClaimAllocation { claim: "gpus".into(), allocation: Arc::new(allocation) }
}

/// Nodes with eight devices each, in one slice, of which some are taken.
fn cluster(nodes: usize, case: Case) -> Cluster {
    let mut cluster = Cluster::new();
    let selector = format!(r#"device.driver == "{DRIVER}""#);
    cluster.set_device_class(DeviceClass::new("gpu").selector(selector));
    for number in 0..nodes {
        let name = format!("n{number:06}");
        let node = Node::new(name.as_str()).capacity("cpu", 64).capacity("memory", "512Gi");
        // Names are unique and quantities sound.
        let _ = cluster.add_node(node.capacity("pods", 110));
        let devices = (0..DEVICES as i64).map(|at| {
            SliceDevice::new(format!("gpu-{at}"))
                .attribute("model", "H100")
                .attribute("index", at)
                .attribute("island", at / 4)
                .capacity("memory", 80_i64 << 30)
        });
        let slice = ResourceSlice::on(name.as_str(), DRIVER);
        cluster.set_resource_slice(devices.fold(slice, ResourceSlice::device));
        if case.taken > 0 {
            let mut runs = pod(Case { devices: case.taken, ..case }).name(format!("r{number}"));
            runs.allocations.push(held(&name, case.taken));
            let _ = cluster.add_pod(runs.on(name));
        }
    }
    cluster
}

/// The times of a case, in microseconds: the least of several.
#[derive(Debug, Default)]
struct Times {
    cold: f64,
    warm: f64,
    placed: usize,
}

/// Decides on gangs of so many pods, each of a name of its own: by fresh planners, and by one that
/// has decided before.
fn times(cluster: &Cluster, framework: &Framework, case: Case, members: usize) -> Times {
    let mut times = Times { cold: f64::INFINITY, warm: f64::INFINITY, placed: 0 };
    let mut warm = Planner::new();
    for number in 0..TIMES {
        let group = PodGroup::gang(format!("g{number}"), members as u32).pods(members, pod(case));
        // The groups are sound.
        let Ok(gang) = Gang::new(group) else { return times };
        let mut once = |planner: &mut Planner| {
            let start = Instant::now();
            let outcome = planner.place(cluster, framework, Request::from(&gang));
            let time = start.elapsed().as_secs_f64() * 1e6;
            times.placed =
                outcome.ok().and_then(|own| own.plan().map(phalanx::Plan::len)).unwrap_or(0);
            time
        };
        let cold = once(&mut Planner::new());
        let again = once(&mut warm);
        times.cold = times.cold.min(cold);
        if number > 0 {
            times.warm = times.warm.min(again);
        }
    }
    times
}

/// Nodes of two GPUs that can be cut into parts: one of 4, two of 3 or seven of 1 seventh, as far as
/// seven sevenths go.
fn cluster_of_parts(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for sevenths in [4, 3] {
        let text = format!(r#"device.attributes["{DRIVER}"].sevenths == {sevenths}"#);
        cluster.set_device_class(DeviceClass::new(format!("part-{sevenths}")).selector(text));
    }
    let amount = |amount: i64| [(String::from("sevenths"), Quantity::from(amount))].into();
    for number in 0..nodes {
        let name = format!("n{number:06}");
        let node = Node::new(name.as_str()).capacity("cpu", 64).capacity("memory", "512Gi");
        let _ = cluster.add_node(node.capacity("pods", 110));
        let mut slice = ResourceSlice::on(name.as_str(), DRIVER);
        slice.slice_count = 2;
        let mut sets = slice.clone();
        sets.name.push_str("-counters");
        for gpu in 0..2 {
            let set = format!("gpu-{gpu}");
            sets.counters.push(CounterSet::new(&*set, amount(7)));
            for (sevenths, count) in [(4, 1), (3, 2), (1, 7)] {
                for part in 0..count {
                    let mut device = SliceDevice::new(format!("gpu-{gpu}-{sevenths}g-{part}"));
                    device = device.attribute("sevenths", sevenths);
                    let counters = amount(sevenths);
                    device.consumes.push(CounterUse::new(&*set, counters));
                    slice = slice.device(device);
                }
            }
        }
        cluster.set_resource_slice(sets);
        cluster.set_resource_slice(slice);
    }
    cluster
}

/// A gang that takes a part of 4 and one of 3 sevenths of each GPU, and one part of 3 more than fits.
fn gang_of_parts(nodes: usize) -> PodGroup {
    let pod = |sevenths: u64| {
        let demand = DeviceDemand::of(format!("part-{sevenths}"), 1);
        let spec = ClaimSpec::new().request("part", demand);
        Pod::new().request("cpu", 1).request("memory", "2Gi").own_claim("part", spec)
    };
    let gpus = 2 * nodes;
    PodGroup::gang("parts", 2 * gpus as u32 + 1).pods(gpus + 1, pod(3)).pods(gpus, pod(4))
}

/// A gang that does not fit: the time of the plain strategy, which proves nothing, and that of the
/// search, which does; the proof in a word.
fn refused(
    cluster: &Cluster,
    framework: &Framework,
    group: PodGroup,
) -> Option<(f64, f64, String)> {
    let gang = Gang::new(group).ok()?;
    let (mut plain, mut searched, mut proof) = (f64::INFINITY, f64::INFINITY, String::new());
    for _ in 0..3 {
        for (strategy, least) in
            [(Strategy::Kubernetes, &mut plain), (Strategy::Search, &mut searched)]
        {
            let request = Request::from(&gang).strategy(strategy);
            let start = Instant::now();
            let outcome = Planner::new().place(cluster, framework, request).ok()?;
            *least = least.min(start.elapsed().as_secs_f64() * 1e6);
            let Outcome::Unplaced(unplaced) = outcome else { return None };
            proof = unplaced.certificate.as_ref().map_or_else(
                || format!("none, {:?}", unplaced.kind),
                |own| match own.refusal.candidates.first().map(|own| &own.lack) {
                    Some(Lack::Devices { .. }) => "devices".into(),
                    Some(Lack::Claims { .. }) => "claims".into(),
                    Some(Lack::Searched) => "searched".into(),
                    other => format!("{other:?}"),
                },
            );
        }
    }
    Some((plain, searched, proof))
}

/// The figures of gangs that do not fit, on so many nodes.
fn refusals(nodes: usize, framework: &Framework, fields: &mut Vec<(String, String)>) {
    let island = Case { name: "island", devices: 4, island: true, taken: 2 };
    let islands = PodGroup::gang("islands", nodes as u32 + 1).pods(nodes + 1, pod(island));
    for (name, cluster, group) in [
        ("islands", cluster(nodes, island), islands),
        ("parts", cluster_of_parts(nodes), gang_of_parts(nodes)),
    ] {
        let Some((plain, searched, proof)) = refused(&cluster, framework, group) else { continue };
        fields.push((format!("{name}_{nodes}_refused_plain_us"), format!("{plain:.0}")));
        fields.push((format!("{name}_{nodes}_refused_search_us"), format!("{searched:.0}")));
        fields.push((format!("{name}_{nodes}_refused_proof"), format!("\"{proof}\"")));
    }
}

/// The figures of all cases: one pod and a gang, cold and warm, in microseconds and in straight
/// passes over as many nodes.
pub(crate) fn measure(nodes: usize, gang: usize, straight_pass_us: f64) -> Vec<(String, String)> {
    let framework = KubernetesProfile::new().claims(evaluator()).framework();
    let mut fields = vec![(String::from("nodes"), nodes.to_string())];
    for case in CASES {
        let cluster = cluster(nodes, case);
        for (what, members) in [("pod", 1), ("gang", gang)] {
            let found = times(&cluster, &framework, case, members);
            let name = format!("{}_{what}", case.name);
            fields.push((format!("{name}_placed"), found.placed.to_string()));
            for (how, time) in [("cold", found.cold), ("warm", found.warm)] {
                fields.push((format!("{name}_{how}_us"), format!("{time:.3}")));
                let passes = time / straight_pass_us;
                fields.push((format!("{name}_{how}_passes"), format!("{passes:.2}")));
            }
        }
    }
    for nodes in [8, 24, nodes.min(100)] {
        refusals(nodes, &framework, &mut fields);
    }
    fields.push((String::from("straight_pass_us"), format!("{straight_pass_us:.3}")));
    fields.push((String::from("simd"), crate::report::simd()));
    fields
}

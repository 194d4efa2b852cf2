//! Parts that the streams of random events share: numbers, frameworks, nodes, groups.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::framework::{
    Context, Declaration, PermitVerdict, Reach, Verdict, filter_fn, permit_fn,
};
use phalanx::model::{Device, DeviceRequest, PodShape};
use phalanx::plugins::{DeviceFit, Fit, LeastAllocated, MostAllocated};
use phalanx::state::NodeView;
use phalanx::{Cluster, Filter, Framework, Node, ObjectName, Outcome, Pod, PodGroup};

use crate::support::budget;
use crate::support::dice::Dice;

/// Random choices of a stream; the same seed gives the same stream everywhere.
#[derive(Clone)]
pub(crate) struct Random(Dice);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Dice(seed))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.roll(n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        (!items.is_empty()).then(|| items[self.below(items.len())].clone())
    }
}

/// Lets pods only where company of the same colour runs somewhere in the cluster, or nobody does:
/// reads everything, and is not monotone.
struct Company;

impl Filter for Company {
    fn name(&self) -> &str {
        "Company"
    }

    fn filter(&self, cx: &Context<'_>, _: NodeView<'_>) -> Verdict {
        let Some(colour) = cx.pod().labels.get("colour") else { return Verdict::Pass };
        let mut others = cx.cluster().pods().filter(|pod| pod.node().is_some()).peekable();
        Verdict::pass_if(
            others.peek().is_none()
                || others.any(|p| p.shape().labels.get("colour") == Some(colour)),
        )
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::cluster()
    }
}

pub(crate) fn gpu(amount: i64) -> Pod {
    Pod::new().request("gpu", amount)
}

pub(crate) fn framework(kind: usize) -> Framework {
    let base = Framework::builder().filter(Fit);
    match kind {
        0 | 1 => base.score(1, MostAllocated::of([("gpu", 1)])).build(),
        2 => base
            .filter(filter_fn("not-odd", Reach::Static, |cx, node| {
                !cx.pod().labels.contains_key("even") || !node.has_label("odd", "true")
            }))
            .score(1, LeastAllocated::of([("gpu", 1), ("cpu", 1)]))
            .build(),
        3 => base.filter(Company).score(1, MostAllocated::of([("gpu", 1)])).build(),
        4 => base
            .permit(permit_fn("all-here", |cx| {
                let wanted: usize =
                    cx.group.attributes.get("wants").map_or(0, |n| n.parse().unwrap());
                if cx.group.all_pods().iter().filter(|p| p.scheduling_gates.is_empty()).count()
                    >= wanted
                {
                    PermitVerdict::Admit
                } else {
                    PermitVerdict::Hold { until: cx.now.after(Duration::from_secs(40)) }
                }
            }))
            .build(),
        5 => base.filter(DeviceFit).score(1, MostAllocated::of([("gpu", 1)])).build(),
        _ => base
            // Without a promise about requests: room cannot be counted.
            .filter(filter_fn("few", Reach::Node, |_, node| node.pod_count() < 3))
            .build(),
    }
    .unwrap()
}

/// How many frameworks there are.
pub(crate) const FRAMEWORKS: usize = 7;

/// The framework whose pods ask for devices.
pub(crate) const DEVICES: usize = 5;

/// A group of any kind there is. `next` is the number of the next one.
pub(crate) fn group(random: &mut Random, next: &mut usize, devices: bool) -> PodGroup {
    let name = format!("g{next}");
    *next += 1;
    let pod = |random: &mut Random| {
        let mut pod = gpu(1 + random.below(2) as i64);
        if random.one_in(4) {
            pod = pod.request("cpu", 1);
        }
        if random.one_in(5) {
            pod = pod.label("colour", ["red", "blue"][random.below(2)]);
        }
        if random.one_in(5) {
            pod = pod.label("even", "true");
        }
        if devices && !random.one_in(3) {
            let request = match random.below(3) {
                0 => DeviceRequest::whole("card", 1 + random.below(2) as u32),
                1 => DeviceRequest::share("card", "milli", 400),
                _ => DeviceRequest::share("card", "milli", 700),
            };
            let models = ["A", "B"];
            let request =
                if random.one_in(3) { request.model(models[random.below(2)]) } else { request };
            pod = pod.device(request);
        }
        pod
    };
    let size = 1 + random.below(4);
    let minimum = 1 + random.below(size) as u32;
    let mut group = match random.below(6) {
        0 => {
            let mut root = PodGroup::gang(&name, 1 + random.below(2) as u32);
            for role in ["a", "b"] {
                let size = 1 + random.below(2);
                let mut leaf =
                    PodGroup::gang(format!("{name}-{role}"), size as u32).pods(size, pod(random));
                if random.one_in(4) {
                    leaf = leaf.require("rack");
                }
                root = root.group(leaf);
            }
            if random.one_in(2) {
                root.min_pods = Some(1 + random.below(4) as u32);
            }
            root
        }
        1 => PodGroup::basic(&name).pods(size, pod(random)),
        2 => PodGroup::gang(&name, minimum).pods(1, pod(random)).pods(size, pod(random)),
        _ => PodGroup::gang(&name, minimum).pods(size, pod(random)),
    };
    if random.one_in(4) {
        group = group.require("rack");
    } else if random.one_in(6) {
        group = group.prefer("rack");
    }
    if random.one_in(8) && *next > 2 {
        let partner = format!("g{}", *next - 2 + 2 * random.below(2));
        group.gang_group.push(ObjectName::new("default", &partner));
    }
    group.keep_running = random.one_in(3);
    if random.one_in(3) {
        group.schedule_timeout = Some(Duration::from_secs(15));
    }
    if random.one_in(3) {
        group.attributes.insert("wants".into(), (size + 1).to_string());
    }
    group.priority(random.below(3) as i32)
}

/// Makes a group go whole, stay, or be protected for a while.
pub(crate) fn make_disruptable(random: &mut Random, group: &mut PodGroup) {
    group.priority = random.below(6) as i32;
    if random.one_in(2) {
        *group = group.clone().evicted_whole();
    }
    group.non_preemptible = random.one_in(8);
    if random.one_in(6) {
        group.min_run_time = Some(Duration::from_secs(20));
    }
    if random.one_in(10) {
        for leaf in leaves(group) {
            leaf.pods = leaf.pods.drain(..).map(Pod::never_preempting).collect();
        }
    }
}

/// Whether a trial places anybody: a plan may be empty where the minimum runs already.
pub(crate) fn placeable<E>(trial: &Result<Option<Outcome>, E>) -> bool {
    match trial {
        Ok(Some(Outcome::Placed(plan) | Outcome::Held { plan, .. })) => !plan.is_empty(),
        _ => false,
    }
}

/// Whether enough of a group runs, counted anew.
pub(crate) fn counts(group: &PodGroup, runs: &impl Fn(&Pod) -> bool) -> bool {
    let have = if group.groups.is_empty() {
        group.pods.iter().filter(|pod| runs(pod)).count()
    } else {
        group.groups.iter().filter(|inner| counts(inner, runs)).count()
    };
    let pods = group.all_pods().into_iter().filter(|pod| runs(pod)).count();
    let enough = group.groups.is_empty() || pods >= group.min_pods.unwrap_or(0) as usize;
    have >= group.policy.minimum() as usize && enough
}

pub(crate) fn node(name: &str, gpus: i64) -> Node {
    let index: usize = name[1..].parse().unwrap();
    let card = |model| Device::new("card", model).capacity("milli", 1_000);
    Node::new(name)
        .device(card("A"))
        .device(card(if index.is_multiple_of(2) { "A" } else { "B" }))
        .capacity("gpu", gpus)
        .capacity("cpu", 2)
        .label("rack", format!("r{}", index / 2))
        .label("odd", (!(index + gpus as usize).is_multiple_of(2)).to_string())
}

/// A few nodes in racks, and how many GPUs each has.
pub(crate) fn cluster(random: &mut Random) -> (Cluster, BTreeMap<String, i64>) {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    let mut nodes = BTreeMap::new();
    for index in 0..2 + random.below(4) {
        let name = format!("n{index}");
        let gpus = 1 + random.below(4) as i64;
        cluster.add_node(node(&name, gpus)).unwrap();
        nodes.insert(name, gpus);
    }
    (cluster, nodes)
}

/// The leaves of a tree.
pub(crate) fn leaves(group: &mut PodGroup) -> Vec<&mut PodGroup> {
    if group.groups.is_empty() {
        return vec![group];
    }
    group.groups.iter_mut().flat_map(leaves).collect()
}

/// The events of one stream.
const LENGTH: usize = 250;

/// Runs streams of so many events in all, side by side, and gives what each returned. `variable`
/// sets the first seed; the seeds of all streams that fail are printed.
pub(crate) fn streams<T: Send>(
    events: usize,
    variable: &str,
    stream: fn(u64, usize) -> T,
) -> Vec<T> {
    let first = budget::number(variable).unwrap_or(1).wrapping_mul(1 << 32);
    let count = events.div_ceil(LENGTH) as u64;
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get() as u64).min(8);
    let run = |index: u64| {
        let seed = first.wrapping_add(index);
        std::panic::catch_unwind(|| stream(seed, LENGTH)).map_err(|_| seed)
    };
    let results: Vec<Result<T, u64>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let own = (0..count).filter(move |index| index % threads == thread);
                scope.spawn(move || own.map(run).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let failed: Vec<u64> = results.iter().filter_map(|one| one.as_ref().err()).copied().collect();
    assert!(failed.is_empty(), "the streams of seeds {failed:?} failed");
    results.into_iter().filter_map(Result::ok).collect()
}

//! One run of the experiment: every pod is tried once, in order, and nothing ever leaves.

use std::error::Error;
use std::time::{Duration, Instant};

use phalanx::framework::FrameworkBuilder;
use phalanx::plugins::{
    BestFit, DeviceFit, DevicePool, DotProduct, Fgd, Fit, GpuClustering, GpuPacking,
    OpportunityCost, ShadowPrices, TypicalPods,
};
use phalanx::state::Row;
use phalanx::{Cluster, Framework, Planner, Pod, PodGroup, Strategy};

use crate::moves::Moves;
use crate::trace::{KIND, Trace, UNIT};

/// The published policies, and the crate's own rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    DotProduct,
    Clustering,
    Packing,
    BestFit,
    Fgd,
    Prices,
    /// The same with [`Moves`].
    Moves,
}

impl Policy {
    /// All but those that take long.
    pub(crate) const QUICK: [Policy; 6] = [
        Policy::DotProduct,
        Policy::Clustering,
        Policy::Packing,
        Policy::BestFit,
        Policy::Fgd,
        Policy::Prices,
    ];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::DotProduct => "dotprod",
            Policy::Clustering => "clustering",
            Policy::Packing => "packing",
            Policy::BestFit => "bestfit",
            Policy::Fgd => "fgd",
            Policy::Prices => "prices",
            Policy::Moves => "moves",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Policy> {
        let mut all = Policy::QUICK.into_iter().chain([Policy::Moves]);
        all.find(|policy| policy.name() == name)
    }

    /// The one score that is active, and the choice of devices that goes with it.
    fn framework(self, typical: &TypicalPods, prices: &ShadowPrices) -> FrameworkBuilder {
        let pool = DevicePool::new(KIND, UNIT);
        // A pod alone has no other order to be tried in, so there is nothing to search for.
        let strategy = Strategy::Kubernetes;
        let builder = Framework::builder().strategy(strategy).filter(Fit).filter(DeviceFit);
        match self {
            Policy::DotProduct => builder.score(1, DotProduct::new(pool)),
            Policy::Clustering => builder.score(1, GpuClustering::new(pool)),
            Policy::Packing => builder.score(1, GpuPacking::new(pool)),
            Policy::BestFit => builder.score(1, BestFit::new(pool)),
            Policy::Fgd => {
                let fgd = Fgd::new(typical.clone());
                builder.score(1, fgd.clone()).device_choice(fgd)
            }
            Policy::Prices | Policy::Moves => {
                let cost = OpportunityCost::new(prices.clone());
                builder.score(1, cost.clone()).device_choice(cost)
            }
        }
    }
}

/// The outcome of a run.
pub(crate) struct Run {
    pub(crate) pods: usize,
    pub(crate) failed: usize,
    /// Pods that went elsewhere.
    pub(crate) moved: usize,
    pub(crate) arrived_milli: i64,
    pub(crate) used_milli: i64,
    pub(crate) total_milli: i64,
    pub(crate) time: Duration,
    pub(crate) curve: Vec<Point>,
}

/// The means over all arrivals that bring the arrived load to one percent of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) arrived: i64,
    /// Percent of the capacity.
    pub(crate) allocated: f64,
    /// Percent of the capacity.
    pub(crate) fragmentation: f64,
}

/// Runs the arrivals of a seed. The curve is only drawn if asked for.
pub(crate) fn run(
    trace: &Trace,
    policy: Policy,
    seed: u64,
    curve: bool,
) -> Result<Run, Box<dyn Error>> {
    let (node_order, arrivals) = trace.order(seed).ok_or("no such seed")?;
    let started = Instant::now();
    let mut cluster = Cluster::new();
    for (rank, &row) in node_order.iter().enumerate() {
        cluster.add_node(trace.nodes[row].clone().tie_rank(rank as i64))?;
    }
    let typical = trace.typical();
    let mut prices = trace.prices();
    let mut framework = policy.framework(&typical, &prices).build()?;
    let mut planner = Planner::new();

    let mut run = Run {
        pods: arrivals.len(),
        failed: 0,
        moved: 0,
        arrived_milli: 0,
        used_milli: 0,
        total_milli: trace.total_milli(),
        time: Duration::ZERO,
        curve: Vec::new(),
    };
    let mut moves = Moves::default();
    let mut meter = curve.then(|| Meter::new(&cluster, &typical));
    for (number, &row) in arrivals.iter().enumerate() {
        if matches!(policy, Policy::Prices | Policy::Moves) && number % SOLVED_EVERY == 0 {
            prices.solve(&cluster, if number == 0 { 400 } else { 50 });
            framework = policy.framework(&typical, &prices).build()?;
        }
        let pod = &trace.pods[row];
        let member = Pod::of_shape(pod.shape.clone()).name(format!("pod-{number}"));
        let group = PodGroup::gang(format!("arrival-{number}"), 1).pod(member);
        let outcome = planner.place(&cluster, &framework, &group)?;
        run.arrived_milli += pod.milli;
        if let Some(plan) = outcome.plan() {
            phalanx::reference::is_sound(plan, &group, &cluster, &framework)?;
            cluster.commit(&framework, plan)?;
            run.used_milli += pod.milli;
            if let Some(meter) = &mut meter {
                plan.assignments().for_each(|to| meter.update(&cluster, &typical, to.node()));
            }
        } else if policy == Policy::Moves
            && moves.place(
                &mut cluster,
                (&framework, &mut planner),
                (pod, &group),
                number - run.failed,
            )?
        {
            run.used_milli += pod.milli;
            if let Some(meter) = &mut meter {
                *meter = meter.anew(&cluster, &typical);
            }
        } else {
            run.failed += 1;
        }
        run.moved = moves.made;
        if let Some(meter) = &mut meter {
            meter.record(&run);
        }
    }
    run.time = started.elapsed();
    if let Some(meter) = meter {
        run.curve = meter.points();
    }
    Ok(run)
}

/// How many pods arrive between two solutions of the prices.
const SOLVED_EVERY: usize = 500;

/// Follows the fragmentation of all nodes.
struct Meter {
    /// By row.
    nodes: Vec<f64>,
    sums: std::collections::BTreeMap<i64, (u64, f64, f64)>,
}

impl Meter {
    fn new(cluster: &Cluster, typical: &TypicalPods) -> Meter {
        let of_row =
            |row| cluster.view(row).map_or(0.0, |node| typical.fragmentation(cluster, node));
        Meter {
            nodes: Row::all(cluster.rows()).map(of_row).collect(),
            sums: std::collections::BTreeMap::new(),
        }
    }

    /// The same sums over nodes as they are now.
    fn anew(&mut self, cluster: &Cluster, typical: &TypicalPods) -> Meter {
        Meter { sums: std::mem::take(&mut self.sums), ..Meter::new(cluster, typical) }
    }

    fn update(&mut self, cluster: &Cluster, typical: &TypicalPods, node: &str) {
        if let Some(node) = cluster.node(node) {
            self.nodes[node.row()] = typical.fragmentation(cluster, node);
        }
    }

    fn record(&mut self, run: &Run) {
        let percent = |part: f64| {
            if run.total_milli == 0 { 0.0 } else { 100.0 * part / run.total_milli as f64 }
        };
        let point =
            self.sums.entry(round_half_even(run.arrived_milli, run.total_milli)).or_default();
        point.0 += 1;
        point.1 += percent(run.used_milli as f64);
        point.2 += percent(self.nodes.iter().sum());
    }

    fn points(self) -> Vec<Point> {
        let point = |(arrived, (count, allocated, fragmentation)): (i64, (u64, f64, f64))| Point {
            arrived,
            allocated: allocated / count as f64,
            fragmentation: fragmentation / count as f64,
        };
        self.sums.into_iter().map(point).collect()
    }
}

/// `100 · part ÷ whole`, to the nearest integer, halves to the even one.
fn round_half_even(part: i64, whole: i64) -> i64 {
    if whole == 0 {
        return 0;
    }
    let (part, whole) = (i128::from(part) * 100, i128::from(whole));
    let (low, rest) = (part / whole, part % whole);
    let up = match (2 * rest).cmp(&whole) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => low % 2,
        std::cmp::Ordering::Greater => 1,
    };
    (low + up) as i64
}

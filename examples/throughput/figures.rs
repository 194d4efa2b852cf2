//! The figures of a busy day.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::{Cluster, Framework, Plan, Planner, Pod, PodGroup, reference};

use crate::report;
use crate::workload::{KNOWN, Kind, Work, gang_of, place};

/// A decision and the time it took.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) time: Duration,
    pub(crate) kind: Kind,
    pub(crate) pods: usize,
}

/// Decisions whose shapes were met before, and how many of them judged little more than what had
/// changed; without domain plugins and with.
#[derive(Debug, Default)]
pub(crate) struct Warm([[usize; 2]; 2]);

impl Warm {
    pub(crate) fn count(&mut self, kind: Kind, warm: bool) {
        let counts = &mut self.0[usize::from(kind.has_domain_plugins())];
        counts[0] += 1;
        counts[1] += usize::from(warm);
    }

    fn share(&self, which: std::ops::Range<usize>) -> f64 {
        let sum = |at: usize| self.0[which.clone()].iter().map(|counts| counts[at]).sum::<usize>();
        sum(1) as f64 / sum(0).max(1) as f64
    }
}

/// The figures of a day.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    nodes: usize,
    virtual_seconds: u64,
    pub(crate) decisions: usize,
    pub(crate) placed: usize,
    pub(crate) refused: usize,
    pub(crate) conflicts: usize,
    pub(crate) events: usize,
    /// The time of everything that a scheduler does: gangs made, decisions, commits, clones, events.
    pub(crate) seconds: Duration,
    pub(crate) timed: Vec<Timed>,
    pub(crate) warm: Warm,
    /// How often plugins judge a row of a shape, by the number of the shape, and whether there are
    /// taints, and pods with affinity terms.
    calls_a_row: BTreeMap<(usize, bool, bool), u64>,
    pub(crate) fresh: Duration,
    pub(crate) sampled: Duration,
    /// Whether fresh planners answered the same.
    pub(crate) equal: bool,
    /// The least and the most of the GPUs that were taken, as shares.
    pub(crate) taken: [f64; 2],
    pub(crate) bytes_early: f64,
    pub(crate) bytes_late: f64,
    pub(crate) bytes_of_planners: f64,
    straight_pass_us: f64,
    /// A hash of all plans that were bound.
    plans: u64,
}

impl Figures {
    /// The figures before a day on so many nodes, of so many seconds and at most about so many
    /// decisions.
    pub(crate) fn new(
        (nodes, virtual_seconds): (usize, u64),
        straight_pass_us: f64,
        decisions: usize,
    ) -> Figures {
        Figures {
            nodes,
            virtual_seconds,
            straight_pass_us,
            taken: [1.0, 0.0],
            equal: true,
            plans: 0xCBF2_9CE4_8422_2325,
            // Room for all, so that what the day holds in memory is not the list of its times.
            timed: Vec::with_capacity(decisions),
            ..Figures::default()
        }
    }

    /// Evaluations that a fresh planner makes of a row for a shape. Which plugins apply depends on
    /// whether there are taints and pods with affinity terms.
    pub(crate) fn calls_a_row(
        &mut self,
        work: &Work,
        cluster: &Cluster,
        framework: &Framework,
    ) -> u64 {
        let measure = || {
            let mut planner = Planner::new();
            let one = PodGroup::gang("one", 1).in_namespace(&work.group.namespace);
            let one = one.pods(1, Pod::of_shape(work.group.pods[0].shape().clone()));
            drop(place(&mut planner, cluster, framework, &gang_of(&one), 0));
            (reference::plugin_calls(&planner) / cluster.rows().max(1) as u64).max(1)
        };
        if work.shape >= KNOWN {
            return measure();
        }
        let key = (work.shape, cluster.tainted_nodes() > 0, cluster.has_affinity_pods());
        *self.calls_a_row.entry(key).or_insert_with(measure)
    }

    /// Takes a plan into the hash.
    pub(crate) fn note(&mut self, plan: &Plan) {
        for assignment in plan.assignments() {
            for byte in assignment.pod().name.bytes().chain(assignment.node().bytes()) {
                self.plans = (self.plans ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
    }

    /// Microseconds that half, 99 % and 99.9 % of some decisions took at most.
    fn times(&self, of: impl Fn(&Timed) -> bool) -> [f64; 3] {
        let some = self.timed.iter().filter(|timed| of(timed)).map(|timed| timed.time);
        let mut times: Vec<Duration> = some.collect();
        times.sort_unstable();
        [0.5, 0.99, 0.999].map(|share| report::micros_at(&times, share))
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let micros = |time: f64| format!("{time:.3}");
        let domain = |timed: &Timed| timed.kind.has_domain_plugins();
        let all = self.times(|_| true).map(micros);
        let local = self.times(|timed| !domain(timed)).map(micros);
        let domains = self.times(domain).map(micros);
        let small = |kinds: &[Kind]| {
            let of = |timed: &Timed| timed.pods <= 64 && kinds.contains(&timed.kind);
            micros(self.times(of)[1])
        };
        let per_s = self.decisions as f64 / self.seconds.as_secs_f64();
        let ratio = self.fresh.as_secs_f64() / self.sampled.as_secs_f64();
        vec![
            ("nodes", self.nodes.to_string()),
            ("virtual_seconds", self.virtual_seconds.to_string()),
            ("decisions", self.decisions.to_string()),
            ("placed", self.placed.to_string()),
            ("refused", self.refused.to_string()),
            ("conflicts", self.conflicts.to_string()),
            ("events", self.events.to_string()),
            ("gpus_taken_least", format!("{:.4}", self.taken[0])),
            ("gpus_taken_most", format!("{:.4}", self.taken[1])),
            ("seconds", format!("{:.6}", self.seconds.as_secs_f64())),
            ("decisions_per_s", format!("{per_s:.0}")),
            ("p50_us", all[0].clone()),
            ("p99_us", all[1].clone()),
            ("p999_us", all[2].clone()),
            ("p50_us_local", local[0].clone()),
            ("p99_us_local", local[1].clone()),
            ("p999_us_local", local[2].clone()),
            ("p50_us_domain", domains[0].clone()),
            ("p99_us_domain", domains[1].clone()),
            ("p999_us_domain", domains[2].clone()),
            ("p99_us_local_to_64", small(&[Kind::Plain, Kind::Rack])),
            ("p99_us_rack_to_64", small(&[Kind::Rack])),
            ("p99_us_spread_to_64", small(&[Kind::Spread])),
            ("p99_us_repel_to_64", small(&[Kind::Repel])),
            ("p99_us_domain_to_64", small(&[Kind::Spread, Kind::Repel])),
            ("warm_share", format!("{:.4}", self.warm.share(0..2))),
            ("warm_share_local", format!("{:.4}", self.warm.share(0..1))),
            ("warm_share_domain", format!("{:.4}", self.warm.share(1..2))),
            ("fresh_ratio", format!("{ratio:.3}")),
            ("bytes_at_10_min", format!("{:.0}", self.bytes_early)),
            ("bytes_at_60_min", format!("{:.0}", self.bytes_late)),
            ("bytes_of_planners", format!("{:.0}", self.bytes_of_planners)),
            ("straight_pass_us", micros(self.straight_pass_us)),
            ("simd", report::simd()),
            ("plans", format!("\"{:016x}\"", self.plans)),
            ("equal", self.equal.to_string()),
        ]
    }

    /// Whether fresh planners answered as those that were kept.
    pub(crate) fn is_equal(&self) -> bool {
        self.equal
    }

    pub(crate) fn json(&self) -> String {
        report::json(&self.fields())
    }

    pub(crate) fn text(&self) -> String {
        report::text(&self.fields())
    }
}

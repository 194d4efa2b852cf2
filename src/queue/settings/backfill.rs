//! Rules of backfill.

use core::time::Duration;

/// Backfill: groups that are not first in line may start, if no promised start comes later.
///
/// It rests on [`PodGroup::run_time_estimate`](crate::model::PodGroup::run_time_estimate): an upper
/// bound on the run time, as a time limit is. A group without an estimate counts as running for
/// ever. It may pass others only where nothing has been promised, and a start that would have to
/// wait for its end is promised to no group. A group that runs for longer than estimated is given
/// as long again, and promises that rested on its end are replaced by later ones
/// ([`Metrics::promises_broken`](crate::queue::Metrics::promises_broken)).
///
/// ```
/// use core::time::Duration;
/// use phalanx::queue::{Backfill, Settings};
/// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).capacity("nvidia.com/gpu", 8))?;
/// }
/// let settings = Settings::new().backfill(Backfill::easy());
/// let mut scheduler = Scheduler::new(cluster, Framework::default(), settings);
/// let gang = |name, nodes: u32, minutes: u64| {
///     PodGroup::gang(name, nodes)
///         .pods(nodes as usize, Pod::new().request("nvidia.com/gpu", 8))
///         .run_time_estimate(Duration::from_secs(60 * minutes))
/// };
/// let now = Time::ZERO;
/// scheduler.handle_group(gang("running", 1, 30), now)?;
/// let _ = scheduler.poll_decision(now);
/// // Two nodes are free in half an hour; a job of 20 minutes may go before, one of 40 may not.
/// for (name, nodes, minutes) in [("wide", 2, 60), ("long", 1, 40), ("short", 1, 20)] {
///     scheduler.handle_group(gang(name, nodes, minutes), now)?;
/// }
/// let Some(Decision::Bind { groups, .. }) = scheduler.poll_decision(now) else { panic!() };
/// assert_eq!(groups[0], "default/short");
/// assert_eq!(scheduler.poll_decision(now), None);
/// let promises = scheduler.promises();
/// assert_eq!((promises[0].group.as_str(), promises[0].at), ("default/wide", Time::from_secs(1_800)));
/// assert_eq!(promises[0].plan.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Backfill {
    /// The groups that may pass others.
    pub rule: BackfillRule,
    /// The longest time from a decision until its pods run; added to every estimate, so that
    /// promises hold. Default zero.
    pub binding_time: Duration,
}

/// The groups that may pass others. The rules are those of the parallel workloads literature, as in pyss
/// (Hebrew University of Jerusalem); on equal processors starts are the textbook's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum BackfillRule {
    /// The first of the line is promised the earliest start; the others, in queue order, start if
    /// they fit now and leave the promise as it is. (Lifka, *The ANL/IBM SP scheduling system*,
    /// 1995.)
    #[default]
    Easy,
    /// As [`BackfillRule::Easy`], the others in the order of their estimates, shortest first.
    EasyShortestFirst,
    /// Every group is promised a start when it joins the line: the earliest that leaves all earlier
    /// promises as they are. When capacity is freed, each in queue order is moved to its earliest
    /// start by then; never to a later one. (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.)
    Conservative,
}

impl Backfill {
    /// [`BackfillRule::Easy`].
    pub fn easy() -> Backfill {
        Backfill::default()
    }

    /// [`BackfillRule::EasyShortestFirst`].
    pub fn easy_shortest_first() -> Backfill {
        Backfill { rule: BackfillRule::EasyShortestFirst, ..Backfill::default() }
    }

    /// [`BackfillRule::Conservative`].
    pub fn conservative() -> Backfill {
        Backfill { rule: BackfillRule::Conservative, ..Backfill::default() }
    }

    /// Sets the longest time from a decision until its pods run.
    #[must_use]
    pub fn binding_time(mut self, span: Duration) -> Backfill {
        self.binding_time = span;
        self
    }
}

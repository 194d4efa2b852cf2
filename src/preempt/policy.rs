//! Policies: units that a preemptor may take, and their worth.

use alloc::string::String;
use core::fmt;

use crate::base::Time;
use crate::model::PodGroup;
use crate::state::PodView;

/// The group that room is to be made for.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Preemptor<'a> {
    /// The group. Its priority is the preemptor's, and its queue too.
    pub group: &'a PodGroup,
    /// The time of the request.
    pub now: Time,
    /// Whether units may be members of it that run.
    pub(crate) runs: bool,
}

/// A unit of eviction, as a policy sees it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The priority: of the group where that goes whole, else of the pod.
    pub priority: i32,
    /// The group that the pods belong to, if it is known; without its pods.
    pub group: Option<&'a PodGroup>,
    /// How many pods it has.
    pub pods: usize,
    pub(crate) find: &'a dyn Fn() -> Option<PodView<'a>>,
}

impl fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("priority", &self.priority)
            .field("group", &self.group)
            .field("pods", &self.pods)
            .finish_non_exhaustive()
    }
}

impl<'a> Candidate<'a> {
    /// One of the pods; `None` only for a unit without pods, which no policy is asked about. It is
    /// found when it is asked for.
    pub fn pod(&self) -> Option<PodView<'a>> {
        (self.find)()
    }

    /// The queue, empty where there is none.
    pub fn queue(&self) -> &str {
        self.group.map_or("", |group| &group.queue)
    }
}

/// The rules of preemption: which units a preemptor may take.
///
/// Some rules hold under every policy. A group with a member of
/// [`PreemptionPolicy::Never`](crate::model::PreemptionPolicy::Never) preempts nothing. A group
/// that is [non-preemptible](PodGroup::non_preemptible) or still protected by its [minimum run
/// time](PodGroup::min_run_time) is not taken. Neither are running members of the preemptor itself.
///
/// Answers must depend on the arguments alone.
///
/// ```
/// use phalanx::preempt::{Candidate, LowerPriority, Policy, Preemptor, SameQueue};
///
/// // Strictly lower priority, in the preemptor's queue, and no pod labelled `keep`.
/// #[derive(Debug)]
/// struct Ours;
/// impl Policy for Ours {
///     fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
///         (LowerPriority, SameQueue).allows(preemptor, unit)
///             && unit.pod().is_none_or(|pod| !pod.shape().labels.contains_key("keep"))
///     }
/// }
/// ```
pub trait Policy: fmt::Debug + Send + Sync {
    /// Whether the preemptor may take the unit.
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool;

    /// A priority from which on nothing is allowed, if there is one: units that have it or a higher
    /// one are not asked for.
    fn ceiling(&self, preemptor: &Preemptor<'_>) -> Option<i32> {
        let _ = preemptor;
        None
    }

    /// The work that is lost with the unit. `run` is the sum of the times that its pods have run,
    /// in milliseconds, which is the cost unless the policy has its own.
    fn work_lost(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>, run: u64) -> u64 {
        let _ = (preemptor, unit);
        run
    }
}

/// Units of strictly lower priority: the rule of kube-scheduler, and the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LowerPriority;

impl Policy for LowerPriority {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        unit.priority < preemptor.group.priority
    }

    fn ceiling(&self, preemptor: &Preemptor<'_>) -> Option<i32> {
        Some(preemptor.group.priority)
    }
}

/// Units of the preemptor's own queue. Priorities are not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SameQueue;

impl Policy for SameQueue {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        unit.queue() == preemptor.group.queue
    }
}

/// Units of all queues but the preemptor's own. Priorities are not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherQueues;

impl Policy for OtherQueues {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        unit.queue() != preemptor.group.queue
    }
}

/// Units that both policies allow. The work lost goes through the first, then the second.
impl<A: Policy, B: Policy> Policy for (A, B) {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        self.0.allows(preemptor, unit) && self.1.allows(preemptor, unit)
    }

    fn ceiling(&self, preemptor: &Preemptor<'_>) -> Option<i32> {
        let (a, b) = (self.0.ceiling(preemptor), self.1.ceiling(preemptor));
        a.into_iter().chain(b).min()
    }

    fn work_lost(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>, run: u64) -> u64 {
        self.1.work_lost(preemptor, unit, self.0.work_lost(preemptor, unit, run))
    }
}

/// A policy for units that save their state at intervals: each pod loses only its work since the last
/// checkpoint. All else is as the inner policy has it.
///
/// A label of the pod states the seconds between two checkpoints, counted from its start. The pods of a unit are
/// taken to have run equally long. A unit without the label, or with one that is no positive whole
/// number, loses all that the inner policy says.
///
/// ```
/// use phalanx::preempt::{Checkpoints, LowerPriority, PreemptingPlanner, PreemptionRequest};
/// use phalanx::preempt::RunningWork;
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Time};
///
/// let mut cluster = Cluster::new();
/// // `saves` has run for longer, and has lost less: its last checkpoint was 100 s ago.
/// for (name, start) in [("saves", 0), ("never-saves", 500)] {
///     cluster.add_node(Node::new(format!("node-{name}")).capacity("gpu", 8))?;
///     let pod = Pod::new().name(name).request("gpu", 8).since(Time::from_secs(start));
///     let pod = if name == "saves" { pod.label("checkpoint-seconds", "300") } else { pod };
///     cluster.add_pod(pod.on(format!("node-{name}")))?;
/// }
/// let gang = PodGroup::of("new", 1, Pod::new().request("gpu", 8)).priority(1);
/// let policy = Checkpoints::new(LowerPriority, "checkpoint-seconds");
/// let request = Request::new(&gang).now(Time::from_secs(1_000));
/// let request = PreemptionRequest::new(request).policy(&policy);
/// let (framework, running) = (Framework::default(), RunningWork::new());
/// let answer = PreemptingPlanner::new().place(&cluster, &framework, &running, request)?;
/// let preempt = answer.preempt().expect("one of them goes");
/// assert_eq!(preempt.victims[0].name, "default/saves");
/// assert_eq!(preempt.cost.work_lost, 100_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Checkpoints<P> {
    inner: P,
    label: String,
}

impl<P: Policy> Checkpoints<P> {
    /// The policy, with the label that states the seconds between two checkpoints.
    pub fn new(inner: P, label: impl Into<String>) -> Checkpoints<P> {
        Checkpoints { inner, label: label.into() }
    }
}

impl<P: Policy> Policy for Checkpoints<P> {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        self.inner.allows(preemptor, unit)
    }

    fn ceiling(&self, preemptor: &Preemptor<'_>) -> Option<i32> {
        self.inner.ceiling(preemptor)
    }

    fn work_lost(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>, run: u64) -> u64 {
        let all = self.inner.work_lost(preemptor, unit, run);
        let stated = unit.pod().and_then(|pod| {
            let seconds = pod.shape().labels.get(&self.label)?.parse::<u64>().ok()?;
            seconds.checked_mul(1_000).filter(|millis| *millis > 0)
        });
        let pods = unit.pods as u64;
        let Some(interval) = stated.filter(|_| pods > 0) else { return all };
        all.min((run / pods % interval).saturating_mul(pods))
    }
}

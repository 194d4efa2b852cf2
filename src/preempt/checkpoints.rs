//! Work lost since the last checkpoint.

use alloc::string::String;

use super::policy::{Candidate, Policy, Preemptor};

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
/// let gang = PodGroup::gang("new", 1).pods(1, Pod::new().request("gpu", 8)).priority(1);
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

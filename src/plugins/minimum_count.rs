//! A permit that admits a group with enough members only.

use alloc::format;
use core::time::Duration;

use crate::framework::{Permit, PermitContext, PermitVerdict};

/// How long kube-scheduler waits for the rest of a gang.
const KUBERNETES_TIMEOUT: Duration = Duration::from_secs(300);

/// Admits a plan if the group would then run at least so many pods, those that run already
/// included; otherwise the plan is held, or denied.
///
/// Placement itself never returns fewer than a group's own minimum. This asks for more, or for
/// the same of groups whose policy states none.
///
/// ```
/// use core::time::Duration;
/// use phalanx::Framework;
/// use phalanx::plugins::{Fit, MinimumCount};
///
/// let patient = MinimumCount::of(8).held_for(Duration::from_secs(60));
/// let framework = Framework::builder().filter(Fit).permit(patient).build()?;
/// # Ok::<(), phalanx::framework::FrameworkError>(())
/// ```
///
/// Source: kube-scheduler, `gangscheduling/gangscheduling.go`, `Permit`.
#[derive(Debug, Clone, Copy)]
pub struct MinimumCount {
    minimum: usize,
    hold: Option<Duration>,
}

impl MinimumCount {
    /// Denies plans with fewer than `minimum` pods.
    pub fn of(minimum: usize) -> MinimumCount {
        MinimumCount { minimum, hold: None }
    }

    /// Holds plans with fewer than `minimum` pods, as long as the group says
    /// ([`schedule_timeout`](crate::model::PodGroup::schedule_timeout)), or for five minutes as
    /// kube-scheduler does.
    #[must_use]
    pub fn held(self) -> MinimumCount {
        self.held_for(KUBERNETES_TIMEOUT)
    }

    /// Holds such plans for so long instead of denying them, unless the group itself says how
    /// long.
    #[must_use]
    pub fn held_for(mut self, timeout: Duration) -> MinimumCount {
        self.hold = Some(timeout);
        self
    }
}

impl Permit for MinimumCount {
    fn name(&self) -> &'static str {
        "MinimumCount"
    }

    fn permit(&self, cx: &PermitContext<'_>) -> PermitVerdict {
        let mut running = 0;
        cx.group.visit(&mut |part| {
            running += cx.cluster.pods_of(part).filter(|pod| pod.node().is_some()).count();
        });
        let have = running + cx.plan.len();
        if have >= self.minimum {
            return PermitVerdict::Admit;
        }
        match self.hold {
            Some(timeout) => {
                let timeout = cx.group.schedule_timeout.unwrap_or(timeout);
                PermitVerdict::Hold { until: cx.now.after(timeout) }
            }
            None => PermitVerdict::Deny {
                reason: format!("{have} of at least {} pods would run", self.minimum),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::{Framework, permit_fn};
    use crate::model::{Node, Pod, PodGroup};
    use crate::{Cluster, Outcome, Planner, Request, Time};

    #[test]
    fn members_that_run_count_and_too_few_wait_or_are_denied() {
        let mut cluster = Cluster::new();
        cluster.add_node(Node::new("n").capacity("cpu", 8)).unwrap();
        cluster.add_pod(Pod::new().name("g-old").in_group("g").on("n")).unwrap();
        let group = PodGroup::gang("g", 1).pods(2, Pod::new());
        let place = |permit: MinimumCount, group: &PodGroup| {
            let framework =
                Framework::builder().permit(permit).without_room_filter().build().unwrap();
            let request = Request::new(group).now(Time::from_secs(10));
            Planner::new().place(&cluster, &framework, request).unwrap()
        };
        assert!(place(MinimumCount::of(3), &group).is_placed());
        let Outcome::Denied { by, reason } = place(MinimumCount::of(4), &group) else { panic!() };
        assert_eq!((&*by, &*reason), ("MinimumCount", "3 of at least 4 pods would run"));
        let until = |outcome| match outcome {
            Outcome::Held { until, .. } => until,
            other => panic!("{other}"),
        };
        assert_eq!(until(place(MinimumCount::of(4).held(), &group)), Time::from_secs(310));
        let hasty = group.schedule_timeout(Duration::from_secs(5));
        assert_eq!(until(place(MinimumCount::of(4).held(), &hasty)), Time::from_secs(15));
    }

    #[test]
    fn an_embedder_may_judge_by_a_closure() {
        let mut cluster = Cluster::new();
        cluster.add_node(Node::new("n")).unwrap();
        let evening = permit_fn("evening", |cx| {
            if cx.now < Time::from_secs(60) {
                return PermitVerdict::Hold { until: Time::from_secs(60) };
            }
            PermitVerdict::Admit
        });
        let framework = Framework::builder().permit(evening).without_room_filter().build().unwrap();
        let group = PodGroup::gang("g", 1).pods(1, Pod::new());
        let at = |now| {
            let request = Request::new(&group).now(Time::from_secs(now));
            Planner::new().place(&cluster, &framework, request).unwrap().is_placed()
        };
        assert!(!at(59) && at(60));
    }
}

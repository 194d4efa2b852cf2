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
mod tests;

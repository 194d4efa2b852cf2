//! Queues and flavors as inputs.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use super::Scheduler;
use crate::base::{ObjectName, Time};
use crate::queue::tenancy::{self, Tenancy};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::Shortage;
use crate::quota::{Flavor, Queue, QueueKind, QueueReport, QuotaError, Tenants};

impl Scheduler {
    /// Puts tenants in charge: whose turn it is, and who may have how much. A group's
    /// [`queue`](crate::model::PodGroup::queue) is the leaf of its claim; a group of a leaf that is
    /// not known waits for it. Members that run already are charged.
    ///
    /// A gang is admitted to quota whole before it is placed, on nodes of the flavors that it is
    /// given, and charged for each pod until that pod is gone. Without tenants nothing is charged.
    ///
    /// Devices are charged under their kind, in thousandths of a device: a whole one is 1,000, a share
    /// what it takes of `compute`; other units of shares under `kind/unit`.
    ///
    /// ```
    /// use phalanx::queue::Settings;
    /// use phalanx::quota::{Flavor, Queue, Quota, Tenants};
    /// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n1").capacity("gpu", 8))?;
    /// let mut tenants = Tenants::default();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::leaf("vision").quota("all", "gpu", Quota::nominal(4)))?;
    /// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default())
    ///     .with_tenants(tenants);
    /// let gang = |name| {
    ///     let mut gang = PodGroup::of(name, 2, Pod::new().request("gpu", 2));
    ///     gang.queue = "vision".into();
    ///     gang
    /// };
    /// scheduler.handle_group(gang("one"), Time::ZERO)?;
    /// scheduler.handle_group(gang("two"), Time::ZERO)?;
    /// assert!(matches!(scheduler.poll_decision(Time::ZERO), Some(Decision::Bind { .. })));
    /// assert_eq!(scheduler.poll_decision(Time::ZERO), None);
    /// let status = scheduler.queue_status("vision").expect("known");
    /// assert_eq!(status.report.resources[0].sums.used, 4);
    /// assert_eq!(status.first.as_deref(), Some("default/two"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_tenants(mut self, tenants: Tenants) -> Scheduler {
        self.tenancy = Some(Tenancy::new(tenants));
        self.line.track_heads();
        let members: Vec<(GroupId, u64)> = self.groups.all_members().collect();
        for (id, seq) in members {
            self.charge_bound(id, seq);
        }
        self
    }

    /// The tenants, if there are any.
    pub fn tenants(&self) -> Option<&Tenants> {
        self.tenancy.as_ref().map(Tenancy::tenants)
    }

    /// A queue that appeared or changed. Groups that wait for quota are tried again.
    ///
    /// # Errors
    /// There are no tenants, or the queue makes no sense.
    pub fn handle_queue(&mut self, queue: Queue, now: Time) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| tenants.set_queue(queue).map(drop))
    }

    /// The removal of a queue; see [`Tenants::remove_queue`].
    ///
    /// # Errors
    /// There are no tenants, or no such queue.
    pub fn handle_queue_removed(
        &mut self,
        kind: QueueKind,
        name: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| {
            let queue = tenants.tree().queue(kind, name);
            let queue = queue.ok_or_else(|| QuotaError::UnknownQueue(name.to_owned()))?;
            tenants.remove_queue(queue).map(drop)
        })
    }

    /// A flavor that appeared or changed.
    ///
    /// # Errors
    /// There are no tenants.
    pub fn handle_flavor(&mut self, flavor: Flavor, now: Time) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| {
            tenants.set_flavor(flavor);
            Ok(())
        })
    }

    /// The removal of a flavor; see [`Tenants::remove_flavor`].
    ///
    /// # Errors
    /// There are no tenants.
    pub fn handle_flavor_removed(&mut self, name: &str, now: Time) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| {
            tenants.remove_flavor(name);
            Ok(())
        })
    }

    /// The status of a queue: its quota, from whom it could take, and why its first group waits.
    /// `None` if the queue is not known. O(queues · depth).
    pub fn queue_status(&self, queue: &str) -> Option<QueueStatus> {
        let report = self.tenancy.as_ref()?.report(queue)?;
        let first = self.line.waiting(queue).next();
        let first = first.and_then(|key| self.groups.get(&key.group));
        Some(QueueStatus {
            report,
            first: first.map(|queued| queued.name().clone()),
            shortage: first.and_then(|queued| queued.shortage().cloned()),
        })
    }

    fn change_tenants(
        &mut self,
        now: Time,
        change: impl FnOnce(&mut Tenants) -> Result<(), QuotaError>,
    ) -> Result<(), QueueError> {
        self.world.advance(now);
        let Some(tenancy) = &mut self.tenancy else { return Err(QueueError::NoTenants) };
        tenancy::advance(tenancy, self.world.now());
        let waiting = tenancy.change(change)?;
        if let Some((tenancy, owners)) = self.tenancy_and_owners() {
            tenancy.charge_known(owners);
        }
        for id in waiting {
            self.wake_for_quota(id);
        }
        self.line.touch_heads();
        // Quota that is reserved may not be had any more.
        self.holds.set_due(None);
        Ok(())
    }
}

/// The status of a queue: its quota, and why its first group waits.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct QueueStatus {
    /// Its quota, what it uses and borrows, and from whom it could take.
    pub report: QueueReport,
    /// Full name of the first group that waits.
    pub first: Option<ObjectName>,
    /// Why that group waits, if it has been tried.
    pub shortage: Option<Shortage>,
}

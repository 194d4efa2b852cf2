//! Reports of pods that have left their nodes.

use alloc::string::String;

use crate::base::ObjectName;
use crate::queue::terms::ids::Ticket;

/// A report that a pod, or a unit of pods, uses no capacity any more; see
/// [`Scheduler::handle_gone`](crate::queue::Scheduler::handle_gone).
///
/// | report | the pod | its capacity | the member |
/// |---|---|---|---|
/// | `Unbound` | exists | is free | is pending again |
/// | `Deleted` | does not exist | is free | leaves its group |
/// | `Finished` | has run to its end | is free | counts towards the minimum until it is deleted |
/// | `Evicted` | exists, with the others of its unit | is free | is pending again |
///
/// ```
/// use phalanx::queue::{Gone, Settings};
/// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("cpu", 8))?;
/// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
/// let pods = PodGroup::of("a", 1, Pod::new().request("cpu", 8));
/// scheduler.handle_group(pods, Time::ZERO)?;
/// let Some(Decision::Bind { ticket, .. }) = scheduler.poll_decision(Time::ZERO) else { panic!() };
/// scheduler.handle_bound(ticket, Time::from_secs(1))?;
/// scheduler.handle_gone(Gone::deleted("default", "a-0"), Time::from_secs(2))?;
/// assert!(scheduler.cluster().pod("default", "a-0").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Gone {
    /// A pod has left its node and may be placed again. It ends an unbinding, among others.
    Unbound {
        /// Full name of the pod.
        pod: ObjectName,
    },
    /// A pod was deleted, pending or running. Unknown pods are ignored.
    Deleted {
        /// Full name of the pod.
        pod: ObjectName,
    },
    /// A member has run to its end. Its capacity is free, and it counts towards the minimum until it is
    /// deleted.
    Finished {
        /// Full name of the pod.
        pod: ObjectName,
    },
    /// A victim of [`Decision::Evict`](crate::queue::Decision::Evict), or a unit of
    /// [`Decision::Move`](crate::queue::Decision::Move), has left its nodes, and its pods are pending
    /// again. If the pods do not exist any more, report each as deleted instead.
    ///
    /// A group that was evicted as a whole is queued from the beginning. Members of a unit that moves,
    /// or their replacements, are bound at the places of the decision.
    Evicted {
        /// The ticket of the decision.
        ticket: Ticket,
        /// Name of the unit, or full name of one of its pods. If a group and a pod of one decision
        /// have the same name, it is the group's.
        unit: String,
    },
}

impl Gone {
    /// [`Gone::Unbound`], by namespace and name.
    pub fn unbound(namespace: &str, name: &str) -> Gone {
        Gone::Unbound { pod: ObjectName::new(namespace, name) }
    }

    /// [`Gone::Deleted`], by namespace and name.
    pub fn deleted(namespace: &str, name: &str) -> Gone {
        Gone::Deleted { pod: ObjectName::new(namespace, name) }
    }

    /// [`Gone::Finished`], by namespace and name.
    pub fn finished(namespace: &str, name: &str) -> Gone {
        Gone::Finished { pod: ObjectName::new(namespace, name) }
    }

    /// [`Gone::Evicted`], by the ticket of the decision and the name of the unit or pod.
    pub fn evicted(ticket: Ticket, unit: impl Into<String>) -> Gone {
        Gone::Evicted { ticket, unit: unit.into() }
    }
}

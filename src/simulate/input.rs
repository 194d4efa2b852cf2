//! Inputs of a scheduler as data.

use alloc::string::String;
use alloc::vec::Vec;

use crate::base::Time;
use crate::framework::{PermitVerdict, Strategy};
use crate::model::{Pod, PodGroup};
use crate::queue::{Gone, QueueError, Scheduler, Ticket};
use crate::state::{Event, Plan};

/// A call of one of the `handle_*` methods of a [`Scheduler`], as data. Each variant is the method
/// of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are the parameters of the method that the variant names")]
pub enum Input {
    /// [`Scheduler::handle_time`].
    Time,
    /// [`Scheduler::handle_group`].
    Group(PodGroup),
    /// [`Scheduler::handle_group_removed`].
    GroupRemoved(String),
    /// [`Scheduler::handle_pod`].
    Pod(Pod),
    /// [`Scheduler::handle_gone`] with [`Gone::Deleted`], pod after pod, by namespace and name.
    PodsDeleted(Vec<(String, String)>),
    /// [`Scheduler::handle_gone`].
    Gone(Gone),
    /// [`Scheduler::handle_event`].
    Event(Event),
    /// [`Scheduler::handle_bound`].
    Bound(Ticket),
    /// [`Scheduler::handle_prepared`]; without an error, the plan is prepared.
    Prepared { ticket: Ticket, error: Option<String> },
    /// [`Scheduler::handle_binding`]; without an error, the pod is bound.
    Binding { ticket: Ticket, namespace: String, name: String, error: Option<String> },
    /// [`Scheduler::handle_unanswered`].
    Unanswered { ticket: Ticket, namespace: String, name: String, reason: String },
    /// [`Scheduler::handle_conflict`].
    Conflict { ticket: Ticket, reason: String },
    /// [`Scheduler::handle_permit`].
    Permit { group: String, verdict: PermitInput },
    /// [`Scheduler::handle_permit_changed`].
    PermitChanged(String),
    /// [`Scheduler::handle_pause`].
    Pause(String),
    /// [`Scheduler::handle_resume`].
    Resume(String),
    /// [`Scheduler::handle_strategy`].
    Strategy { group: String, strategy: Option<Strategy> },
    /// [`Scheduler::handle_reorder`].
    Reorder,
    /// [`Scheduler::handle_nomination`].
    Nomination(Plan),
    /// [`Scheduler::handle_eviction_failed`].
    EvictionFailed { ticket: Ticket, unit: String, retry_at: Option<Time> },
}

/// [`PermitVerdict`] as data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[allow(missing_docs, reason = "as those of the verdict")]
#[non_exhaustive]
pub enum PermitInput {
    Admit,
    Hold { until: Time },
    Deny { reason: String },
}

impl From<PermitInput> for PermitVerdict {
    fn from(verdict: PermitInput) -> PermitVerdict {
        match verdict {
            PermitInput::Admit => PermitVerdict::Admit,
            PermitInput::Hold { until } => PermitVerdict::Hold { until },
            PermitInput::Deny { reason } => PermitVerdict::Deny { reason },
        }
    }
}

impl Input {
    /// Makes the call.
    ///
    /// # Errors
    /// The errors of the method.
    pub fn apply(self, scheduler: &mut Scheduler, now: Time) -> Result<(), QueueError> {
        match self {
            Input::Time => scheduler.handle_time(now),
            Input::Group(group) => scheduler.handle_group(group, now)?,
            Input::GroupRemoved(group) => scheduler.handle_group_removed(&group, now)?,
            Input::Pod(pod) => scheduler.handle_pod(pod, now)?,
            Input::PodsDeleted(pods) => {
                for (namespace, name) in pods {
                    scheduler.handle_gone(Gone::deleted(&namespace, &name), now)?;
                }
            }
            Input::Gone(gone) => scheduler.handle_gone(gone, now)?,
            Input::Event(event) => {
                scheduler.handle_event(event, now)?;
            }
            Input::Bound(ticket) => scheduler.handle_bound(ticket, now)?,
            Input::Prepared { ticket, error } => {
                scheduler.handle_prepared(ticket, error.map_or(Ok(()), Err), now)?;
            }
            Input::Binding { ticket, namespace, name, error } => {
                let result = error.map_or(Ok(()), Err);
                scheduler.handle_binding(ticket, &namespace, &name, result, now)?;
            }
            Input::Unanswered { ticket, namespace, name, reason } => {
                scheduler.handle_unanswered(ticket, &namespace, &name, reason, now)?;
            }
            Input::Conflict { ticket, reason } => {
                scheduler.handle_conflict(ticket, &reason, now)?;
            }
            Input::Permit { group, verdict } => {
                scheduler.handle_permit(&group, verdict.into(), now)?;
            }
            Input::PermitChanged(group) => scheduler.handle_permit_changed(&group, now)?,
            Input::Pause(group) => scheduler.handle_pause(&group, now)?,
            Input::Resume(group) => scheduler.handle_resume(&group, now)?,
            Input::Strategy { group, strategy } => {
                scheduler.handle_strategy(&group, strategy, now)?;
            }
            Input::Reorder => scheduler.handle_reorder(now),
            Input::Nomination(plan) => scheduler.handle_nomination(plan, now)?,
            Input::EvictionFailed { ticket, unit, retry_at } => {
                scheduler.handle_eviction_failed(ticket, &unit, retry_at, now)?;
            }
        }
        Ok(())
    }
}

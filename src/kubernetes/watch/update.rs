//! Updates: inputs of a scheduler that follow from an event of a watch.

use alloc::string::String;

use crate::base::{ObjectName, Time};
use crate::model::PodGroup;
use crate::preempt::DisruptionBudget;
use crate::queue::{Gone, QueueError, Scheduler};
use crate::state::Event;

/// One input of a [`Scheduler`] that follows from an event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// A node, namespace or pod that changed or is gone. Its version is 0: the
    /// [`Store`](super::Store) has put events in order.
    Event(Event),
    /// A group that is known from now on, with its members so far, or that changed.
    Group(PodGroup),
    /// A group that is gone, or has no members left.
    GroupRemoved {
        /// The full name of the group.
        group: ObjectName,
    },
    /// A member that has succeeded, and counts towards the minimum of its group.
    PodFinished {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
    },
    /// A disruption budget that is new or changed.
    Budget(DisruptionBudget),
    /// A disruption budget that is gone.
    BudgetRemoved {
        /// The budget's namespace.
        namespace: String,
        /// The budget's name.
        name: String,
    },
    /// A waiting pod that must be left alone, because a field of it, of its group or of what it
    /// claims is not in force.
    LeftAlone {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The reason, for people.
        reason: String,
    },
}

impl Update {
    /// Passes the update to a scheduler. [`Update::LeftAlone`] is for the embedder and changes
    /// nothing.
    ///
    /// # Errors
    /// The scheduler refuses the input, and is as before.
    pub fn pass_to(self, scheduler: &mut Scheduler, now: Time) -> Result<(), QueueError> {
        match self {
            Update::Event(event) => scheduler.handle_event(event, now).map(|_| ()),
            Update::Group(group) => scheduler.handle_group(group, now),
            Update::GroupRemoved { group } => scheduler.handle_group_removed(&group, now),
            Update::PodFinished { namespace, name } => {
                scheduler.handle_gone(Gone::finished(&namespace, &name), now)
            }
            Update::Budget(budget) => {
                scheduler.handle_budget(budget, now);
                Ok(())
            }
            Update::BudgetRemoved { namespace, name } => {
                scheduler.handle_budget_removed(&namespace, &name, now);
                Ok(())
            }
            Update::LeftAlone { .. } => Ok(()),
        }
    }
}

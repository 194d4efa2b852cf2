//! How nodes and tasks stand in a session.

use std::string::String;

use super::input::{NodeInput, TaskInput};
use super::status::TaskStatus;
use phalanx::quota::volcano::Resources;

/// A node and what is used of it.
#[derive(Debug, Clone)]
pub(super) struct NodeState {
    pub(super) input: NodeInput,
    pub(super) idle: Resources,
    pub(super) releasing: Resources,
    pub(super) pipelined: Resources,
}

impl NodeState {
    /// Idle resources once leaving tasks are gone and the tasks that wait for them have come.
    pub(super) fn future_idle(&self) -> Resources {
        self.idle.plus(&self.releasing).minus(&self.pipelined)
    }
}

#[derive(Debug, Clone)]
pub(super) struct TaskState {
    pub(super) input: TaskInput,
    pub(super) name: String,
    pub(super) job: Option<usize>,
    pub(super) status: TaskStatus,
    pub(super) node: Option<usize>,
}

impl TaskState {
    pub(super) fn is_best_effort(&self) -> bool {
        self.input.requests.is_empty()
    }
}

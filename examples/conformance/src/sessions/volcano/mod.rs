//! A session of Volcano's scheduler: its actions, one after the other, on everything that is there.
//!
//! A scheduler of this crate decides on one gang at a time, and needs none of this. It is here to be
//! compared with what Volcano does. Plugins that are known are those of [`Plugin`]; each has a say in
//! what its tier gives it a [`Vote`] for. Where a peer leaves a tie to a draw or to the order of a
//! map, names decide here.
//!
//! Volcano surprises a reader in these points:
//!
//! - A tier whose voters agree on no victim passes the question to the next, so that a gang's floor in
//!   a later tier says nothing where an earlier one has agreed.
//! - `capacity` in a tree admits nothing anywhere while a job stands in a queue of queues.
//! - A job that is not ready but could be when others have left keeps its room for the rest of the
//!   session.
//!
//! Source: `pkg/scheduler` of Volcano at ed72c7c (August 2026), Apache-2.0.

mod evict;
mod input;
mod nodes;
mod order;
mod place;
mod standing;
mod state;
mod status;
mod victims;

use std::collections::BTreeMap;

pub use input::{
    Action, Configuration, JobInput, NodeInput, NodeOrderWeights, Phase, Plugin, QueueInput,
    SessionInput, SessionOutcome, TaskInput, TierPlugin, Vote,
};
pub use status::{Readiness, TaskStatus};

use phalanx::StateError;
use state::State;

/// Runs a session. Jobs of queues that are not there take no part.
///
/// # Errors
/// A node or a pod makes no sense.
pub fn session(input: SessionInput) -> Result<SessionOutcome, StateError> {
    let mut state = State::new(input)?;
    state.run();
    let mut outcome = SessionOutcome { tied: state.tied, ..SessionOutcome::default() };
    for job in &state.jobs {
        let name = &job.input.name;
        outcome.phases.insert(name.clone(), job.phase);
        outcome.allocated.insert(name.clone(), job.allocated.clone());
        let mut statuses = BTreeMap::new();
        for task in job.tasks.iter().map(|task| &state.tasks[*task]) {
            *statuses.entry(task.status).or_insert(0) += 1;
            if let Some(node) = task.node.filter(|_| task.status == TaskStatus::Pipelined) {
                let node = state.nodes[node].input.node.name.clone();
                outcome.pipelined.entry(name.clone()).or_default().push(node);
            }
        }
        outcome.statuses.insert(name.clone(), statuses);
    }
    (outcome.bound, outcome.evicted) = (state.bound, state.evicted);
    Ok(outcome)
}

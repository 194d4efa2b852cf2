//! Workloads of other kinds, as people submit them, as groups and pods.
//!
//! One file a kind. Each reads an object to a [`Submitted`]: its groups, and the templates of the
//! pods in them.

mod begun;
mod cron_job;
mod daemon_set;
mod job;
mod job_set;
mod kubeflow;
mod leader_worker_set;
mod ray;
mod read;
mod replicated;
mod spark;
mod stateful_set;
mod submitted;
mod train_job;
mod training_runtime;
mod volcano_job;
mod workload;
mod workload_with_job;

pub(super) use daemon_set::on_nodes;
pub(super) use read::read;
pub(super) use submitted::Submitted;
pub(super) use train_job::resolve;
pub(super) use training_runtime::{RuntimeName, runtime_name};
pub(super) use volcano_job::job_of;
pub use workload::{StartAfter, StartCondition, SubmittedWorkload, WorkloadRole};
pub(super) use workload_with_job::{Decision, Existing, PodGroupRecord, WorkloadRecord};
pub use workload_with_job::{JobStep, OrdinaryReason, workload_with_job};

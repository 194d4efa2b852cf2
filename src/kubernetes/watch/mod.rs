//! Watches in: events of an API server, object by object, as inputs of a
//! [`Scheduler`](crate::Scheduler).
//!
//! No client is in it. The embedder sends the requests and reads the lines; [`WatchEvent`] reads a
//! line, and a [`Store`] keeps what the events so far add up to and answers each with [`Update`]s.
//!
//! ```
//! use phalanx::kubernetes::watch::{Kind, Store, WatchEvent};
//! use phalanx::queue::Settings;
//! use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
//!
//! let mut store = Store::new("phalanx");
//! let mut scheduler = Scheduler::new(Cluster::new(), Framework::default(), Settings::default());
//! let lines = [
//!     r#"{"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Pod",
//!         "metadata": {"namespace": "default", "name": "a", "uid": "u1", "resourceVersion": "7"},
//!         "spec": {"schedulerName": "phalanx", "containers": [{"name": "c"}]}}}"#,
//!     r#"{"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Node",
//!         "metadata": {"name": "n1", "resourceVersion": "5"},
//!         "status": {"allocatable": {"cpu": "8", "pods": "110"}}}}"#,
//! ];
//! let now = Time::from_secs(1);
//! for line in lines {
//!     let event: WatchEvent = serde_json::from_str(line)?;
//!     for update in store.apply(event)? {
//!         update.pass_to(&mut scheduler, now)?;
//!     }
//! }
//! let Some(Decision::Bind { plan, .. }) = scheduler.poll_decision(now) else { panic!() };
//! let assignment = plan.assignments().next().unwrap();
//! assert_eq!((assignment.pod().uid.as_str(), assignment.node()), ("u1", "n1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod claims;
mod composites;
mod entries;
mod event;
mod groups;
mod layout;
mod per_kind;
mod pods;
mod quotas;
mod read;
mod served;
mod store;
#[cfg(test)]
mod tests;
mod trees;
mod update;
mod workload_state;
mod workloads;

pub use event::{Kind, Object, WatchEvent};
pub use served::{ResourceList, SchedulingResource, Served, Version};
pub use store::{ObjectRef, Store};
pub use update::Update;
pub use workload_state::WorkloadPods;

//! Simulation: from a trace of jobs to waiting times, utilisation and fairness.
//!
//! [`Simulation`] runs virtual time over a [`Scheduler`](crate::Scheduler) of the caller's making.
//! It simulates what would run: the same framework, settings, tenants and cluster. It has no clock,
//! no thread and no I/O. Random numbers come from a [`Random`] that the caller seeds, and the same
//! input gives the same results on any machine.
//!
//! ```
//! use core::time::Duration;
//! use phalanx::queue::{Backfill, Settings};
//! use phalanx::simulate::{Job, Simulation};
//! use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};
//!
//! let mut cluster = Cluster::new();
//! for name in ["n1", "n2"] {
//!     cluster.add_node(Node::new(name).capacity("nvidia.com/gpu", 8))?;
//! }
//! let settings = Settings::new().backfill(Backfill::easy());
//! let scheduler = Scheduler::new(cluster, Framework::default(), settings);
//! let job = |name, submit, nodes: u32, minutes: u64| {
//!     let run = Duration::from_secs(60 * minutes);
//!     let gang = PodGroup::gang(name, nodes).run_time_estimate(run);
//!     let gang = gang.pods(nodes as usize, Pod::new().request("nvidia.com/gpu", 8));
//!     Job::new(gang, Time::from_secs(submit), run)
//! };
//! let jobs = [job("a", 0, 1, 30), job("wide", 1, 2, 60), job("long", 2, 1, 40), job("short", 3, 1, 20)];
//! let results = Simulation::new(scheduler, "nvidia.com/gpu").run(jobs, |_, _| ())?;
//! let starts: Vec<u64> = results.jobs.iter().map(|job| job.start.unwrap().as_secs()).collect();
//! assert_eq!(starts, [0, 1_800, 1_800 + 3_600, 3]);
//! assert_eq!(results.summary().makespan, Time::from_secs(1_800 + 3_600 + 2_400));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | jobs, and how wrong their estimates are | [`Job`], [`Estimates`] |
//! | how fast a job runs where it is, checkpoints | [`RunTimes`], [`RateTable`], [`Checkpointing`] |
//! | users who submit no more while they wait | [`Users`] |
//! | nodes that fail and come back, bindings that take time or are refused | [`World`], [`Faults`] |
//! | what happens, as it happens | [`Happening`] |
//! | waiting, utilisation, fairness | [`Results`], [`Summary`] |
//! | policies that order what waits, with preemption at every event | [`OrderPolicy`], [`Preemptive`] |
//! | every input and decision as data, and again | [`Input`], [`Recorder`], [`Replay`] |

mod input;
mod job;
mod preemptive;
mod random;
mod record;
mod replay;
mod results;
mod run;
mod world;

pub use input::{Input, PermitInput};
pub use job::{Checkpointing, Estimates, Job, Neighbour, Rate, RateTable, RunTimes, Running, Site};
pub use preemptive::{
    OrderPolicy, Preemptive, PreemptiveError, PreemptiveJob, PreemptiveResults, Srsf, Srtf,
    Unfinished,
};
pub use random::Random;
pub use record::{Record, Recorder};
pub use replay::{Choice, Difference, Judged, Replay};
pub use results::{JobRecord, Results, Sample, Summary};
pub use run::{Happening, Simulation, SimulationError, Users};
pub use world::{Binding, Faults, NodeChange, Perfect, World};

//! Manifests: what the dialects say, and what is refused.

mod account;
mod broken;
mod claims;
mod defaults;
mod devices;
mod dialects;
mod elastic_quotas;
mod generated;
mod kai;
mod more_kinds;
mod pairs;
mod peer_queues;
mod queues;
mod reading;
mod refusals;
mod refused_groups;
mod refused_pods;
mod refused_workloads;
mod scheduling;
mod starts;
mod topologies;
mod workload_with_job;
mod workloads;
mod workloads_watched;
mod zones;

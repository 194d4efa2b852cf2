//! The places of running jobs, by job and by node.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::simulate::job::Site;

/// Places of running jobs.
#[derive(Debug, Default)]
pub(super) struct Sites {
    by_job: BTreeMap<usize, Vec<Site>>,
    by_node: BTreeMap<String, BTreeSet<usize>>,
}

impl Sites {
    /// The places of a job.
    pub(super) fn of(&self, job: usize) -> &[Site] {
        self.by_job.get(&job).map_or(&[], Vec::as_slice)
    }

    /// Sets the places of a job; none if it does not run.
    pub(super) fn set(&mut self, job: usize, sites: Vec<Site>) {
        for site in self.by_job.remove(&job).into_iter().flatten() {
            if let Some(jobs) = self.by_node.get_mut(&site.node) {
                jobs.remove(&job);
                if jobs.is_empty() {
                    self.by_node.remove(&site.node);
                }
            }
        }
        for site in &sites {
            self.by_node.entry(site.node.clone()).or_default().insert(job);
        }
        if !sites.is_empty() {
            self.by_job.insert(job, sites);
        }
    }

    /// The jobs on a node.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = usize> + use<'_> {
        self.by_node.get(node).into_iter().flatten().copied()
    }

    /// Other jobs on the nodes of a job, and the number of devices that both use.
    pub(super) fn beside(&self, job: usize) -> BTreeMap<usize, usize> {
        let mut beside = BTreeMap::new();
        for site in self.of(job) {
            for other in self.on(&site.node).filter(|other| *other != job) {
                let devices = self.of(other).iter().filter(|own| own.node == site.node);
                let used: BTreeSet<u32> = devices.flat_map(|own| &own.devices).copied().collect();
                let both = site.devices.iter().filter(|device| used.contains(device)).count();
                *beside.entry(other).or_default() += both;
            }
        }
        beside
    }
}

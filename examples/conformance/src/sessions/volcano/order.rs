//! Whose turn it is, and what else plugins say by vote.

use std::cmp::Ordering;

use super::input::{Plugin, Vote};
use super::state::State;
use phalanx::quota::volcano::dominant_share;

impl State {
    /// The vote of the plugins of all tiers on two things, in order: the first that tells them
    /// apart.
    fn compare(&self, vote: Vote, by: impl Fn(Plugin) -> Ordering) -> Ordering {
        let plugins = self.configuration.tiers.iter().flatten();
        let voters = plugins.filter(|own| own.votes.contains(&vote));
        voters.map(|own| by(own.plugin)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Whether all plugins that have a say agree.
    fn all(&self, vote: Vote, agrees: impl Fn(Plugin) -> bool) -> bool {
        let plugins = self.configuration.tiers.iter().flatten();
        plugins.filter(|own| own.votes.contains(&vote)).all(|own| agrees(own.plugin))
    }

    pub(super) fn compare_queues(&self, one: &str, other: &str) -> Ordering {
        let quotas = |plugin| match plugin {
            Plugin::Proportion => self.proportion.as_ref(),
            Plugin::Capacity => self.capacity.as_ref(),
            _ => None,
        };
        let by = |plugin| match (plugin, quotas(plugin), &self.hierarchy) {
            (_, Some(quotas), _) => quotas.compare(one, other),
            (Plugin::Drf, _, Some(hierarchy)) => {
                let path =
                    |name: &str| self.queues.get(name).map_or("", |queue| queue.hierarchy.as_str());
                hierarchy.compare(path(one), path(other))
            }
            _ => Ordering::Equal,
        };
        self.compare(Vote::QueueOrder, by).then_with(|| one.cmp(other))
    }

    pub(super) fn compare_jobs(&self, one: usize, other: usize) -> Ordering {
        let (a, b) = (&self.jobs[one], &self.jobs[other]);
        let by = |plugin| match plugin {
            Plugin::Gang => self.readiness(one).is_ready().cmp(&self.readiness(other).is_ready()),
            Plugin::Priority => b.input.priority.cmp(&a.input.priority),
            Plugin::Drf => self.job_share(one).total_cmp(&self.job_share(other)),
            _ => Ordering::Equal,
        };
        self.compare(Vote::JobOrder, by).then_with(|| a.input.name.cmp(&b.input.name))
    }

    pub(super) fn job_share(&self, job: usize) -> f64 {
        dominant_share(&self.jobs[job].allocated, &self.total)
    }

    pub(super) fn compare_tasks(&self, one: usize, other: usize) -> Ordering {
        let (a, b) = (&self.tasks[one], &self.tasks[other]);
        let by = |plugin| match plugin {
            Plugin::Priority => b.input.priority.cmp(&a.input.priority),
            _ => Ordering::Equal,
        };
        // Tasks of a job are numbered by the end of their names.
        let number = |name: &str| name.rsplit('-').next().and_then(|end| end.parse::<i64>().ok());
        let numbers = || match (number(&a.name), number(&b.name)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => Ordering::Equal,
        };
        self.compare(Vote::TaskOrder, by).then_with(numbers).then_with(|| a.name.cmp(&b.name))
    }

    /// Whether a queue is passed over.
    pub(super) fn overused(&self, queue: &str) -> bool {
        let under = |plugin| match plugin {
            Plugin::Proportion => !self.proportion.as_ref().is_some_and(|own| own.overused(queue)),
            _ => true,
        };
        !self.all(Vote::Overused, under)
    }

    pub(super) fn allocatable(&self, queue: &str, task: usize) -> bool {
        let requests = &self.tasks[task].input.requests;
        let may = |plugin| match plugin {
            Plugin::Proportion => self.proportion.as_ref(),
            Plugin::Capacity => self.capacity.as_ref(),
            _ => None,
        };
        self.all(Vote::Allocatable, |plugin| {
            may(plugin).is_none_or(|own| own.allocatable(queue, requests))
        })
    }

    /// Whether a queue may take from others for a task.
    pub(super) fn may_reclaim(&self, queue: &str, task: usize) -> bool {
        let requests = &self.tasks[task].input.requests;
        self.all(Vote::Preemptive, |plugin| match plugin {
            Plugin::Proportion => {
                self.proportion.as_ref().is_none_or(|own| own.may_reclaim(queue, requests))
            }
            Plugin::Capacity => {
                self.capacity.as_ref().is_none_or(|own| own.may_reclaim(queue, requests))
            }
            _ => true,
        })
    }

    /// Whether a job may be admitted: the first tier with a say decides.
    pub(super) fn enqueueable(&self, job: usize) -> bool {
        let input = &self.jobs[job].input;
        for tier in &self.configuration.tiers {
            let mut said = false;
            for own in tier.iter().filter(|own| own.votes.contains(&Vote::JobEnqueued)) {
                let quotas = match own.plugin {
                    Plugin::Proportion => self.proportion.as_ref(),
                    Plugin::Capacity => self.capacity.as_ref(),
                    _ => None,
                };
                let Some(quotas) = quotas else { continue };
                if !quotas.enqueueable(&input.queue, input.min_resources.as_ref()) {
                    return false;
                }
                said = true;
            }
            if said {
                return true;
            }
        }
        true
    }

    pub(super) fn enqueued(&mut self, job: usize) {
        let input = self.jobs[job].input.clone();
        for plugin in [Plugin::Proportion, Plugin::Capacity] {
            if !self.votes(plugin, Vote::JobEnqueued) {
                continue;
            }
            let quotas = match plugin {
                Plugin::Proportion => self.proportion.as_mut(),
                _ => self.capacity.as_mut(),
            };
            if let Some(quotas) = quotas {
                quotas.enqueued(&input.queue, input.min_resources.as_ref());
            }
        }
    }

    pub(super) fn is_ready(&self, job: usize) -> bool {
        self.all(Vote::JobReady, |plugin| {
            plugin != Plugin::Gang || (self.readiness(job).is_ready() && self.has_ready_roles(job))
        })
    }

    pub(super) fn is_pipelined(&self, job: usize) -> bool {
        self.all(Vote::JobPipelined, |plugin| {
            plugin != Plugin::Gang
                || (self.readiness(job).is_pipelined() && self.has_pipelined_roles(job))
        })
    }

    /// Whether a job needs more: the first tier with a say decides, and all in it have to agree.
    pub(super) fn is_starving(&self, job: usize) -> bool {
        let readiness = self.readiness(job);
        for tier in &self.configuration.tiers {
            let mut said = false;
            for own in tier.iter().filter(|own| own.votes.contains(&Vote::JobStarving)) {
                let starves = match own.plugin {
                    Plugin::Gang => readiness.is_starving(),
                    Plugin::Priority => readiness.ready + readiness.waiting < readiness.all,
                    _ => continue,
                };
                if !starves {
                    return false;
                }
                said = true;
            }
            if said {
                return true;
            }
        }
        false
    }

    /// Whether a job could become whole at all.
    pub(super) fn is_valid(&self, job: usize) -> bool {
        !self.has(Plugin::Gang)
            || (self.has_valid_roles(job)
                && self.readiness(job).valid >= self.jobs[job].input.min_member)
    }
}

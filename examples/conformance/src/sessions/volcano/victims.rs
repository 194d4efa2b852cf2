//! Who gives up room: the voters of each tier, and the order of those they agree on.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::vec::Vec;

use super::input::{Plugin, Vote};
use super::state::State;
use phalanx::quota::volcano::{Missing, Resources, dominant_share, may_take};

impl State {
    /// The tasks among some that may be victims of a task: within a tier those that all voters agree
    /// on; the first tier in which there are any decides.
    pub(super) fn victims(&self, vote: Vote, taker: usize, among: &[usize]) -> Vec<usize> {
        for tier in &self.configuration.tiers {
            let mut agreed: Option<Vec<usize>> = None;
            for own in tier.iter().filter(|own| own.votes.contains(&vote)) {
                let Some(said) = self.say(own.plugin, vote, taker, among) else { continue };
                agreed = Some(match agreed {
                    None => said,
                    Some(agreed) => agreed.into_iter().filter(|own| said.contains(own)).collect(),
                });
                if agreed.as_ref().is_some_and(Vec::is_empty) {
                    break;
                }
            }
            if let Some(agreed) = agreed.filter(|agreed| !agreed.is_empty()) {
                return agreed;
            }
        }
        Vec::new()
    }

    /// The victims that one plugin agrees to; `None` if it has no say.
    fn say(&self, plugin: Plugin, vote: Vote, taker: usize, among: &[usize]) -> Option<Vec<usize>> {
        let reclaims = vote == Vote::Reclaimable;
        match plugin {
            Plugin::Conformance => {
                let may = |task: &usize| !self.tasks[*task].input.critical;
                Some(among.iter().copied().filter(may).collect())
            }
            Plugin::Gang => Some(self.beyond_gangs(among)),
            Plugin::Priority if !reclaims => Some(self.of_lower_priority(taker, among)),
            Plugin::Drf if !reclaims => Some(self.of_larger_share(taker, among)),
            Plugin::Drf => self.of_later_queues(taker, among),
            Plugin::Proportion if reclaims => {
                let quotas = self.proportion.as_ref()?;
                Some(self.by_quota(quotas, taker, among))
            }
            Plugin::Capacity if reclaims => {
                let mut ordered = among.to_vec();
                ordered.sort_by(|a, b| self.compare_victims(taker, *a, *b));
                let quotas = self.capacity.as_ref()?;
                Some(self.by_quota(quotas, taker, &ordered))
            }
            _ => None,
        }
    }

    /// Tasks of jobs that have more than their minimum, counted down as they are taken.
    fn beyond_gangs(&self, among: &[usize]) -> Vec<usize> {
        let mut left: BTreeMap<usize, i32> = BTreeMap::new();
        let mut agreed = Vec::new();
        for &task in among {
            let Some(job) = self.tasks[task].job else { continue };
            let left = left.entry(job).or_insert_with(|| self.readiness(job).ready);
            if *left > self.jobs[job].input.min_member {
                *left -= 1;
                agreed.push(task);
            }
        }
        agreed
    }

    fn of_lower_priority(&self, taker: usize, among: &[usize]) -> Vec<usize> {
        let lower = |task: &usize| {
            let (own, other) = (&self.tasks[taker], &self.tasks[*task]);
            match (own.job, other.job) {
                (Some(a), Some(b)) if a != b => {
                    self.jobs[b].input.priority < self.jobs[a].input.priority
                }
                _ => other.input.priority < own.input.priority,
            }
        };
        among.iter().copied().filter(lower).collect()
    }

    fn of_larger_share(&self, taker: usize, among: &[usize]) -> Vec<usize> {
        let Some(job) = self.tasks[taker].job else { return Vec::new() };
        let with = self.jobs[job].allocated.plus(&self.tasks[taker].input.requests);
        let own = dominant_share(&with, &self.total);
        let mut left: BTreeMap<usize, Resources> = BTreeMap::new();
        let mut agreed = Vec::new();
        for &task in among {
            let Some(job) = self.tasks[task].job else { continue };
            let left = left.entry(job).or_insert_with(|| self.jobs[job].allocated.clone());
            left.subtract(&self.tasks[task].input.requests);
            if may_take(own, dominant_share(left, &self.total)) {
                agreed.push(task);
            }
        }
        agreed
    }

    /// Tasks without which their queue would still come after that of the taker with its task.
    fn of_later_queues(&self, taker: usize, among: &[usize]) -> Option<Vec<usize>> {
        let mut shares = self.hierarchy.clone()?;
        let mut own = self.standing(self.tasks[taker].job?);
        own.allocated.add(&self.tasks[taker].input.requests);
        shares.set(&own);
        let mut agreed = Vec::new();
        for &task in among {
            let Some(job) = self.tasks[task].job else { continue };
            let before = self.standing(job);
            let mut without = before.clone();
            without.allocated.subtract(&self.tasks[task].input.requests);
            shares.set(&without);
            if shares.compare(&own.path, &without.path) == Ordering::Less {
                agreed.push(task);
            }
            shares.set(&before);
        }
        Some(agreed)
    }

    fn by_quota(
        &self,
        quotas: &phalanx::quota::volcano::Quotas,
        taker: usize,
        among: &[usize],
    ) -> Vec<usize> {
        let queue = |task: usize| {
            self.tasks[task].job.map_or("", |job| self.jobs[job].input.queue.as_str())
        };
        let candidates: Vec<(&str, &Resources)> =
            among.iter().map(|&task| (queue(task), &self.tasks[task].input.requests)).collect();
        let may = quotas.victims(queue(taker), &self.tasks[taker].input.requests, &candidates);
        among.iter().copied().zip(may).filter_map(|(task, may)| may.then_some(task)).collect()
    }

    /// The order of two victims: the last task of the last job goes first, of the queue that is
    /// nearest to the taker's in the tree, or else of the last queue.
    pub(super) fn compare_victims(&self, taker: usize, one: usize, other: usize) -> Ordering {
        let (Some(a), Some(b)) = (self.tasks[one].job, self.tasks[other].job) else {
            return self.tasks[one].job.cmp(&self.tasks[other].job);
        };
        if a == b {
            return self.compare_tasks(other, one);
        }
        let (queue, other) = (&self.jobs[a].input.queue, &self.jobs[b].input.queue);
        if queue == other {
            return self.compare_jobs(b, a);
        }
        let own = self.tasks[taker].job.map_or("", |job| self.jobs[job].input.queue.as_str());
        let near = self.capacity.as_ref().map(|own_| own_.compare_victims(queue, other, own));
        near.filter(|order| order.is_ne()).unwrap_or_else(|| self.compare_queues(other, queue))
    }

    /// Whether a task would fit on a node if some were gone.
    pub(super) fn would_fit(&self, task: usize, node: usize, victims: &[usize]) -> bool {
        let mut room = self.nodes[node].future_idle();
        for victim in victims {
            room.add(&self.tasks[*victim].input.requests);
        }
        self.tasks[task].input.requests.less_equal(&room, Missing::Zero)
    }
}

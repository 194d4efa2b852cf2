//! The actions that give room that is there: `enqueue`, `allocate`, `backfill`.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use super::input::{Action, Phase};
use super::state::{State, Statement};
use super::status::TaskStatus;

impl State {
    /// The one that goes first, taken out.
    pub(super) fn pop_queue(&self, queues: &mut BTreeSet<String>) -> Option<String> {
        let first = queues.iter().min_by(|a, b| self.compare_queues(a, b)).cloned()?;
        queues.take(&first)
    }

    pub(super) fn pop_job(&self, jobs: &mut Vec<usize>) -> Option<usize> {
        let place = (0..jobs.len()).min_by(|&a, &b| self.compare_jobs(jobs[a], jobs[b]))?;
        Some(jobs.swap_remove(place))
    }

    pub(super) fn pop_task(&self, tasks: &mut Vec<usize>) -> Option<usize> {
        let place = (0..tasks.len()).min_by(|&a, &b| self.compare_tasks(tasks[a], tasks[b]))?;
        Some(tasks.swap_remove(place))
    }

    /// The tasks of a job that wait.
    pub(super) fn pending(&self, job: usize, best_effort: bool) -> Vec<usize> {
        let waits = |task: &usize| {
            let task = &self.tasks[*task];
            task.status == TaskStatus::Pending && (best_effort || !task.is_best_effort())
        };
        self.jobs[job].tasks.iter().copied().filter(waits).collect()
    }

    pub(super) fn queue_of(&self, job: usize) -> String {
        self.jobs[job].input.queue.clone()
    }

    pub(super) fn run(&mut self) {
        for action in self.configuration.actions.clone() {
            match action {
                Action::Enqueue => self.run_enqueue(),
                Action::Allocate => self.run_allocate(),
                Action::Backfill => self.run_backfill(),
                Action::Preempt => self.run_preempt(),
                Action::Reclaim => self.run_reclaim(),
            }
        }
    }

    fn run_enqueue(&mut self) {
        let mut queues: BTreeSet<String> =
            self.jobs.iter().map(|job| job.input.queue.clone()).collect();
        let mut waiting: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, job) in self.jobs.iter().enumerate() {
            if job.phase == Phase::Pending {
                waiting.entry(job.input.queue.clone()).or_default().push(at);
            }
        }
        while let Some(queue) = self.pop_queue(&mut queues) {
            let jobs = waiting.get_mut(&queue);
            let Some(job) = jobs.and_then(|jobs| self.pop_job(jobs)) else { continue };
            if self.jobs[job].input.min_resources.is_none() || self.enqueueable(job) {
                self.enqueued(job);
                self.jobs[job].phase = Phase::Inqueue;
            }
            queues.insert(queue);
        }
    }

    /// Jobs that take part in an action; without `enqueue` all that wait are admitted.
    pub(super) fn taking_part(&mut self) -> Vec<usize> {
        if !self.configuration.actions.contains(&Action::Enqueue) {
            for job in &mut self.jobs {
                if job.phase == Phase::Pending {
                    job.phase = Phase::Inqueue;
                }
            }
        }
        let takes_part =
            |job: &usize| self.jobs[*job].phase != Phase::Pending && self.is_valid(*job);
        (0..self.jobs.len()).filter(takes_part).collect()
    }

    fn run_allocate(&mut self) {
        let mut jobs_by_queue: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut tasks_by_job: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for job in self.taking_part() {
            let tasks = self.pending(job, false);
            if !tasks.is_empty() {
                jobs_by_queue.entry(self.queue_of(job)).or_default().push(job);
                tasks_by_job.insert(job, tasks);
            }
        }
        let mut queues: BTreeSet<String> = jobs_by_queue.keys().cloned().collect();
        while let Some(queue) = self.pop_queue(&mut queues) {
            if self.overused(&queue) {
                continue;
            }
            let Some(jobs) = jobs_by_queue.get_mut(&queue) else { continue };
            let Some(job) = self.pop_job(jobs) else { continue };
            let Some(tasks) = tasks_by_job.get_mut(&job) else { continue };
            let statement = self.allocate_tasks(job, &queue, tasks);
            match statement {
                Some(statement) if self.is_ready(job) => {
                    self.commit(statement);
                    if !tasks.is_empty() {
                        jobs.push(job);
                    }
                }
                // What waits for others to leave keeps its room until the end of the session.
                _ => {}
            }
            queues.insert(queue);
        }
    }

    /// Gives tasks of a job room until it is ready; `None` if it cannot be, with nothing changed.
    fn allocate_tasks(
        &mut self,
        job: usize,
        queue: &str,
        tasks: &mut Vec<usize>,
    ) -> Option<Statement> {
        let mut statement = Statement::default();
        while let Some(task) = self.pop_task(tasks) {
            if !self.allocatable(queue, task) {
                continue;
            }
            let role = &self.tasks[task].input.role;
            let is_unfit = |other: &usize| self.tasks[*other].input.role == *role;
            if !role.is_empty() && self.jobs[job].unfit.iter().any(is_unfit) {
                self.jobs[job].unfit.insert(task);
                continue;
            }
            let can = self.judge.filter(&self.tasks, &self.nodes, task, &[]);
            let fits = |node: &usize| {
                can[*node].is_ok() && self.fits(task, &self.nodes[*node].future_idle())
            };
            let nodes: Vec<usize> = (0..self.nodes.len()).filter(fits).collect();
            if nodes.is_empty() {
                self.jobs[job].unfit.insert(task);
                if self.can_go_on(job) {
                    continue;
                }
                break;
            }
            let idle = |node: &usize| self.fits(task, &self.nodes[*node].idle);
            let (now, later): (Vec<usize>, Vec<usize>) = nodes.into_iter().partition(idle);
            let is_idle = !now.is_empty();
            let Some(node) = self.best(task, if is_idle { &now } else { &later }) else { continue };
            if is_idle {
                self.allocate(&mut statement, task, node);
            } else {
                self.pipeline(&mut statement, task, node);
            }
            if self.is_ready(job) {
                break;
            }
        }
        if self.is_ready(job) || self.is_pipelined(job) {
            return Some(statement);
        }
        self.discard(statement);
        None
    }

    /// The node with the best score; the first by name of several.
    pub(super) fn best(&mut self, task: usize, among: &[usize]) -> Option<usize> {
        if among.len() < 2 {
            return among.first().copied();
        }
        let scores = self.judge.score(&self.tasks, &self.nodes, task, among);
        let most = scores.iter().max()?;
        let mut best = among.iter().zip(&scores).filter(|(_, score)| *score == most);
        let first = best.next().map(|(node, _)| *node);
        self.tied |= best.next().is_some();
        first
    }

    fn run_backfill(&mut self) {
        let mut jobs_by_queue: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for job in self.taking_part() {
            jobs_by_queue.entry(self.queue_of(job)).or_default().push(job);
        }
        let mut queues: BTreeSet<String> = jobs_by_queue.keys().cloned().collect();
        let mut order: Vec<usize> = Vec::new();
        while let Some(queue) = self.pop_queue(&mut queues) {
            let Some(jobs) = jobs_by_queue.get_mut(&queue) else { continue };
            while let Some(job) = self.pop_job(jobs) {
                let mut tasks = self.pending(job, true);
                tasks.retain(|task| self.tasks[*task].is_best_effort());
                while let Some(task) = self.pop_task(&mut tasks) {
                    order.push(task);
                }
            }
        }
        for task in order {
            let can = self.judge.filter(&self.tasks, &self.nodes, task, &[]);
            let nodes: Vec<usize> =
                (0..self.nodes.len()).filter(|node| can[*node].is_ok()).collect();
            let Some(node) = self.best(task, &nodes) else { continue };
            // What is allocated is bound as soon as the job is ready.
            let mut statement = Statement::default();
            self.allocate(&mut statement, task, node);
            let Some(job) = self.tasks[task].job.filter(|job| self.is_ready(*job)) else {
                continue;
            };
            for task in self.jobs[job].tasks.clone() {
                if self.tasks[task].status == TaskStatus::Allocated {
                    self.bind(task);
                }
            }
        }
    }
}

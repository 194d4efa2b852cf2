//! The actions that take room from others: `preempt` and `reclaim`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use super::input::Vote;
use super::nodes::Unfit;
use super::state::{State, Statement};
use super::status::TaskStatus;

impl State {
    /// The jobs that need more, by queue, with the tasks that wait.
    fn starving(&mut self) -> (BTreeMap<String, Vec<usize>>, BTreeMap<usize, Vec<usize>>) {
        let (mut jobs, mut tasks): (BTreeMap<String, Vec<usize>>, _) = Default::default();
        for job in self.taking_part() {
            if self.is_starving(job) {
                jobs.entry(self.queue_of(job)).or_default().push(job);
                BTreeMap::insert(&mut tasks, job, self.pending(job, true));
            }
        }
        (jobs, tasks)
    }

    /// The nodes where a task can go, or could if others were gone.
    fn reachable(&self, task: usize) -> Vec<usize> {
        let can = self.judge.filter(&self.tasks, &self.nodes, task, &[]);
        (0..self.nodes.len()).filter(|node| can[*node] != Err(Unfit::Ever)).collect()
    }

    /// Tasks on a node that may be victims by what they are themselves.
    fn on_node(&self, node: usize, may: impl Fn(&State, usize) -> bool) -> Vec<usize> {
        let here = |task: &usize| self.tasks[*task].node == Some(node) && may(self, *task);
        (0..self.tasks.len()).filter(here).collect()
    }

    pub(super) fn run_preempt(&mut self) {
        let (mut jobs_by_queue, mut tasks_by_job) = self.starving();
        let under: BTreeMap<String, Vec<usize>> = jobs_by_queue.clone();
        let mut queues: BTreeSet<String> = jobs_by_queue.keys().cloned().collect();
        while let Some(queue) = self.pop_queue(&mut queues) {
            let Some(jobs) = jobs_by_queue.get_mut(&queue) else { continue };
            while let Some(job) = self.pop_job(jobs) {
                let mut statement = Statement::default();
                let Some(tasks) = tasks_by_job.get_mut(&job) else { continue };
                while self.is_starving(job) {
                    let Some(task) = self.pop_task(tasks) else { break };
                    let others = |state: &State, victim: usize| {
                        let of = state.tasks[victim].job;
                        of.is_some_and(|of| of != job && state.jobs[of].input.queue == queue)
                    };
                    self.preempt(&mut statement, &queue, task, others);
                }
                if self.is_pipelined(job) {
                    self.commit(statement);
                } else {
                    self.discard(statement);
                }
            }
            for &job in under.get(&queue).into_iter().flatten() {
                let mut tasks = self.pending(job, true);
                while let Some(task) = self.pop_task(&mut tasks) {
                    let mut statement = Statement::default();
                    let own = |state: &State, victim: usize| state.tasks[victim].job == Some(job);
                    if !self.preempt(&mut statement, &queue, task, own) {
                        self.discard(statement);
                        break;
                    }
                    self.commit(statement);
                }
            }
        }
    }

    fn preempt(
        &mut self,
        statement: &mut Statement,
        queue: &str,
        task: usize,
        whose: impl Fn(&State, usize) -> bool,
    ) -> bool {
        if self.tasks[task].input.never_preempts {
            return false;
        }
        let best_effort = self.tasks[task].is_best_effort();
        let may = |state: &State, victim: usize| {
            let other = &state.tasks[victim];
            other.status.is_preemptable()
                && (!best_effort || other.is_best_effort())
                && other.input.preemptable
                && whose(state, victim)
        };
        let nodes = self.reachable(task);
        if self.configuration.topology_aware_preemption {
            return self.preempt_by_trial(statement, queue, task, &nodes, may);
        }
        let scores = self.judge.score(&self.tasks, &self.nodes, task, &nodes);
        let mut ordered: Vec<(Reverse<i64>, usize)> =
            scores.into_iter().map(Reverse).zip(nodes).collect();
        ordered.sort_unstable();
        for (_, node) in ordered {
            let candidates = self.on_node(node, may);
            let mut victims = self.victims(Vote::Preemptable, task, &candidates);
            if !self.would_fit(task, node, &victims) {
                continue;
            }
            victims.sort_by(|a, b| self.compare_victims(task, *a, *b));
            let mut tried = Statement::default();
            let mut victims = victims.into_iter();
            let mut fits = self.fits_on(queue, task, node);
            while !fits {
                let Some(victim) = victims.next() else { break };
                self.evict(&mut tried, victim);
                fits = self.fits_on(queue, task, node);
            }
            if fits {
                self.pipeline(&mut tried, task, node);
                statement.merge(tried);
                return true;
            }
            self.discard(tried);
        }
        false
    }

    /// Whether a task is allowed by its queue, fits on a node, and can go there.
    fn fits_on(&self, queue: &str, task: usize, node: usize) -> bool {
        self.allocatable(queue, task)
            && self.fits(task, &self.nodes[node].future_idle())
            && self.judge.filter(&self.tasks, &self.nodes, task, &[])[node].is_ok()
    }

    /// Tries victims out, and keeps those without which the task fits as well.
    ///
    /// Only as many nodes are tried as one in ten, and at least one: the first by name that will do,
    /// where Volcano begins at random.
    fn preempt_by_trial(
        &mut self,
        statement: &mut Statement,
        queue: &str,
        task: usize,
        nodes: &[usize],
        may: impl Fn(&State, usize) -> bool,
    ) -> bool {
        let wanted = (nodes.len() / 10).clamp(1, 100);
        let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
        for &node in nodes {
            let candidates = self.on_node(node, &may);
            let mut victims = self.victims(Vote::Preemptable, task, &candidates);
            let helps = self.judge.may_help(&self.tasks, &self.nodes, task, node);
            if !helps || !self.would_fit(task, node, &victims) {
                continue;
            }
            victims.sort_by(|a, b| self.compare_victims(task, *a, *b));
            let mut gone = Vec::new();
            for victim in victims {
                gone.push(victim);
                if self.fits_without(queue, task, node, &gone) {
                    break;
                }
            }
            if gone.is_empty() || !self.fits_without(queue, task, node, &gone) {
                continue;
            }
            let mut needed = Vec::new();
            while !gone.is_empty() {
                let spared = gone.remove(0);
                let mut others: Vec<usize> = needed.clone();
                others.extend(&gone);
                if !self.fits_without(queue, task, node, &others) {
                    needed.push(spared);
                }
            }
            if !needed.is_empty() {
                found.push((node, needed));
                if found.len() >= wanted {
                    break;
                }
            }
        }
        let priority = |task: &usize| i64::from(self.tasks[*task].input.pod.priority);
        let cost = |victims: &[usize]| {
            let highest = victims.first().map_or(i64::MIN, priority);
            let sum: i64 = victims.iter().map(|task| priority(task) + (1 << 31)).sum();
            (highest, sum, victims.len())
        };
        let best = found.into_iter().min_by_key(|(node, victims)| (cost(victims), *node));
        let Some((node, victims)) = best else { return false };
        for victim in victims {
            self.evict(statement, victim);
        }
        self.pipeline(statement, task, node);
        true
    }

    /// [`State::fits_on`] if some tasks were gone.
    fn fits_without(&mut self, queue: &str, task: usize, node: usize, gone: &[usize]) -> bool {
        let mut tried = Statement::default();
        for victim in gone {
            self.evict(&mut tried, *victim);
        }
        let fits = self.fits_on(queue, task, node);
        self.discard(tried);
        fits
    }

    pub(super) fn run_reclaim(&mut self) {
        let mut queues: BTreeSet<String> =
            self.taking_part().into_iter().map(|job| self.queue_of(job)).collect();
        let (mut jobs_by_queue, mut tasks_by_job) = self.starving();
        while let Some(queue) = self.pop_queue(&mut queues) {
            if self.overused(&queue) {
                continue;
            }
            let Some(jobs) = jobs_by_queue.get_mut(&queue) else { continue };
            while let Some(job) = self.pop_job(jobs) {
                let mut statement = Statement::default();
                let Some(tasks) = tasks_by_job.get_mut(&job) else { continue };
                while self.is_starving(job) {
                    let Some(task) = self.pop_task(tasks) else { break };
                    if !self.tasks[task].input.never_preempts && self.may_reclaim(&queue, task) {
                        self.reclaim(&mut statement, &queue, task);
                    }
                }
                if self.is_pipelined(job) {
                    self.commit(statement);
                } else {
                    self.discard(statement);
                }
            }
        }
    }

    /// Takes from other queues on the first node, by name, where that makes room for a task.
    fn reclaim(&mut self, statement: &mut Statement, queue: &str, task: usize) {
        let may = |state: &State, victim: usize| {
            let other = &state.tasks[victim];
            let of = other.job.map_or("", |job| state.jobs[job].input.queue.as_str());
            let gives = state.queues.get(of).is_some_and(|own| own.reclaimable);
            other.status == TaskStatus::Running && other.input.preemptable && of != queue && gives
        };
        for node in self.reachable(task) {
            let candidates = self.on_node(node, may);
            if candidates.is_empty() {
                continue;
            }
            let mut victims = self.victims(Vote::Reclaimable, task, &candidates);
            if !self.would_fit(task, node, &victims) {
                continue;
            }
            victims.sort_by(|a, b| self.compare_victims(task, *a, *b));
            let mut tried = Statement::default();
            let mut victims = victims.into_iter();
            while !self.fits(task, &self.nodes[node].future_idle()) {
                let Some(victim) = victims.next() else { break };
                self.evict(&mut tried, victim);
            }
            if self.fits(task, &self.nodes[node].future_idle()) {
                self.pipeline(&mut tried, task, node);
                statement.merge(tried);
                return;
            }
            self.discard(tried);
        }
    }
}

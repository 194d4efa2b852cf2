//! The state of a session, with changes that can be taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use super::input::{JobInput, Phase, Plugin, QueueInput, SessionInput, Vote};
use super::nodes::NodeJudge;
use super::standing::{NodeState, TaskState};
use super::status::{Readiness, TaskStatus};
use phalanx::StateError;
use phalanx::quota::volcano::{
    Attributes, HierarchicalShares, Missing, Quotas, Resources, VolcanoJobStanding, inqueue,
};

#[derive(Debug, Clone)]
pub(super) struct JobState {
    pub(super) input: JobInput,
    pub(super) tasks: Vec<usize>,
    pub(super) phase: Phase,
    /// Resources that its tasks have, or will have.
    pub(super) allocated: Resources,
    /// Tasks that fit on no node.
    pub(super) unfit: BTreeSet<usize>,
}

/// One change.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Allocate(usize),
    Pipeline(usize),
    Evict(usize, TaskStatus),
}

/// Changes that are kept or taken back together.
#[derive(Debug, Default)]
pub(super) struct Statement {
    operations: Vec<Operation>,
}

impl Statement {
    /// Takes over the changes of another.
    pub(super) fn merge(&mut self, other: Statement) {
        self.operations.extend(other.operations);
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) configuration: super::input::Configuration,
    pub(super) nodes: Vec<NodeState>,
    pub(super) queues: BTreeMap<String, QueueInput>,
    pub(super) jobs: Vec<JobState>,
    pub(super) tasks: Vec<TaskState>,
    pub(super) total: Resources,
    pub(super) proportion: Option<Quotas>,
    pub(super) capacity: Option<Quotas>,
    pub(super) hierarchy: Option<HierarchicalShares>,
    pub(super) judge: NodeJudge,
    pub(super) evicted: Vec<String>,
    pub(super) bound: BTreeMap<String, String>,
    pub(super) tied: bool,
}

impl State {
    pub(super) fn new(input: SessionInput) -> Result<State, StateError> {
        let mut total = Resources::default();
        let mut nodes: Vec<NodeState> = Vec::new();
        for node in input.nodes {
            total.add(&node.allocatable);
            let idle = node.allocatable.clone();
            let (releasing, pipelined) = (Resources::default(), Resources::default());
            nodes.push(NodeState { input: node, idle, releasing, pipelined });
        }
        nodes.sort_by(|a, b| a.input.node.name.cmp(&b.input.node.name));
        let queues: BTreeMap<String, QueueInput> =
            input.queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
        let mut jobs: Vec<JobState> = Vec::new();
        for job in input.jobs.into_iter().filter(|job| queues.contains_key(&job.queue)) {
            jobs.push(JobState {
                phase: job.phase,
                input: job,
                tasks: Vec::new(),
                allocated: Resources::default(),
                unfit: BTreeSet::new(),
            });
        }
        jobs.sort_by(|a, b| a.input.name.cmp(&b.input.name));
        let mut tasks: Vec<TaskState> = Vec::new();
        for task in input.tasks {
            let name = String::from(task.pod.full_name());
            let job = jobs.iter().position(|job| job.input.name == task.job);
            let at = |name: &String| nodes.iter().position(|node| node.input.node.name == *name);
            let node = task.node.as_ref().and_then(at);
            tasks.push(TaskState { status: task.status, input: task, name, job, node });
        }
        tasks.sort_by(|a, b| a.name.cmp(&b.name));
        for (at, task) in tasks.iter().enumerate() {
            if let Some(job) = task.job {
                jobs[job].tasks.push(at);
                if task.status.is_allocated() {
                    jobs[job].allocated.add(&task.input.requests);
                }
            }
            let held = task.status.is_allocated() || task.status == TaskStatus::Releasing;
            if let Some(node) = task.node.filter(|_| held) {
                nodes[node].idle.subtract(&task.input.requests);
            }
        }
        let judge = NodeJudge::new(&input.configuration, &nodes)?;
        let mut state = State {
            configuration: input.configuration,
            nodes,
            queues,
            jobs,
            tasks,
            total,
            proportion: None,
            capacity: None,
            hierarchy: None,
            judge,
            evicted: Vec::new(),
            bound: BTreeMap::new(),
            tied: false,
        };
        state.judge.check(&state.tasks, &state.nodes)?;
        state.open_plugins();
        Ok(state)
    }

    pub(super) fn has(&self, plugin: Plugin) -> bool {
        let mut plugins = self.configuration.tiers.iter().flatten();
        plugins.any(|own| own.plugin == plugin)
    }

    pub(super) fn votes(&self, plugin: Plugin, vote: Vote) -> bool {
        let mut plugins = self.configuration.tiers.iter().flatten();
        plugins.any(|own| own.plugin == plugin && own.votes.contains(&vote))
    }

    fn open_plugins(&mut self) {
        let mut guarantees = Resources::default();
        for queue in self.queues.values() {
            guarantees.add(queue.guarantee.as_ref().unwrap_or(&Resources::default()));
        }
        if self.has(Plugin::Proportion) {
            let queues = self.attributes(false);
            self.proportion = Some(Quotas::proportion(&self.total, &guarantees, queues));
        }
        if self.has(Plugin::Capacity) {
            self.capacity = Some(if self.votes(Plugin::Capacity, Vote::Hierarchy) {
                let level = self.configuration.ancestor_reclaim_level;
                let queues = self.attributes(true);
                let mut quotas = Quotas::capacity_tree(&self.total, queues, level);
                if self.jobs.iter().any(|job| !quotas.is_leaf(&job.input.queue)) {
                    quotas.spoil();
                }
                quotas
            } else {
                Quotas::capacity(&self.total, &guarantees, self.attributes(false))
            });
        }
        if self.votes(Plugin::Drf, Vote::Hierarchy) {
            self.hierarchy = Some(HierarchicalShares::new(self.total.clone()));
            for at in 0..self.jobs.len() {
                self.update_hierarchy(at);
            }
        }
    }

    /// The queues with jobs, or all, with what is counted in them.
    fn attributes(&self, all: bool) -> Vec<Attributes> {
        let jobs_of = |name: &str| -> Vec<&JobState> {
            self.jobs.iter().filter(|job| job.input.queue == name).collect()
        };
        let mut attributes = Vec::new();
        for (name, queue) in &self.queues {
            let jobs = jobs_of(name);
            if jobs.is_empty() && !all {
                continue;
            }
            let mut own = Attributes {
                parent: queue.parent.clone(),
                weight: queue.weight,
                priority: queue.priority,
                open: queue.open,
                guarantee: queue.guarantee.clone().unwrap_or_default(),
                deserved: queue.deserved.clone().unwrap_or_default(),
                capability: queue.capability.clone(),
                ..Attributes::new(name.as_str())
            };
            for job in jobs {
                own.allocated.add(&job.allocated);
                own.request.add(&self.requested(job));
                let minimum = job.input.min_resources.clone().unwrap_or_default();
                let begun = || {
                    let allocated = |task: &&usize| self.tasks[**task].status.is_allocated();
                    job.tasks.iter().filter(allocated).count() as i64
                };
                let admitted = match job.phase {
                    Phase::Inqueue => true,
                    Phase::Running => begun() >= i64::from(job.input.min_member),
                    _ => false,
                };
                if admitted && job.input.min_resources.is_some() {
                    own.inqueue.add(&inqueue(&minimum, &job.allocated));
                }
                own.elastic.add(&job.allocated.beyond(&minimum));
            }
            attributes.push(own);
        }
        attributes
    }

    /// Resources that a job's tasks have and ask for.
    fn requested(&self, job: &JobState) -> Resources {
        let mut sum = Resources::default();
        for task in job.tasks.iter().map(|task| &self.tasks[*task]) {
            if task.status.is_allocated() || task.status == TaskStatus::Pending {
                sum.add(&task.input.requests);
            }
        }
        sum
    }

    /// Where a job stands in the tree of `drf`.
    pub(super) fn standing(&self, at: usize) -> VolcanoJobStanding {
        let job = &self.jobs[at];
        let queue = self.queues.get(&job.input.queue);
        let mut request = Resources::default();
        for task in &job.tasks {
            request.add(&self.tasks[*task].input.requests);
        }
        VolcanoJobStanding {
            name: job.input.name.clone(),
            allocated: job.allocated.clone(),
            request,
            path: queue.map(|queue| queue.hierarchy.clone()).unwrap_or_default(),
            weights: queue.map(|queue| queue.hierarchy_weights.clone()).unwrap_or_default(),
        }
    }

    fn update_hierarchy(&mut self, job: usize) {
        let standing = self.standing(job);
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.set(&standing);
        }
    }

    /// Tells all plugins that a task's queue and job have so much more, or less.
    fn tell(&mut self, task: usize, more: bool) {
        let TaskState { input, job, .. } = &self.tasks[task];
        let Some(job) = *job else { return };
        let (requests, queue) = (input.requests.clone(), self.jobs[job].input.queue.clone());
        for quotas in [&mut self.proportion, &mut self.capacity].into_iter().flatten() {
            if more { quotas.add(&queue, &requests) } else { quotas.take(&queue, &requests) }
        }
        let allocated = &mut self.jobs[job].allocated;
        if more {
            allocated.add(&requests);
        } else {
            allocated.subtract(&requests);
        }
        self.update_hierarchy(job);
    }

    pub(super) fn allocate(&mut self, statement: &mut Statement, task: usize, node: usize) {
        let requests = self.tasks[task].input.requests.clone();
        self.nodes[node].idle.subtract(&requests);
        (self.tasks[task].status, self.tasks[task].node) = (TaskStatus::Allocated, Some(node));
        self.tell(task, true);
        statement.operations.push(Operation::Allocate(task));
    }

    pub(super) fn pipeline(&mut self, statement: &mut Statement, task: usize, node: usize) {
        let requests = self.tasks[task].input.requests.clone();
        self.nodes[node].pipelined.add(&requests);
        (self.tasks[task].status, self.tasks[task].node) = (TaskStatus::Pipelined, Some(node));
        self.tell(task, true);
        statement.operations.push(Operation::Pipeline(task));
    }

    pub(super) fn evict(&mut self, statement: &mut Statement, task: usize) {
        let requests = self.tasks[task].input.requests.clone();
        if let Some(node) = self.tasks[task].node {
            self.nodes[node].releasing.add(&requests);
        }
        statement.operations.push(Operation::Evict(task, self.tasks[task].status));
        self.tasks[task].status = TaskStatus::Releasing;
        self.tell(task, false);
    }

    /// Takes all changes back, the last first.
    pub(super) fn discard(&mut self, statement: Statement) {
        for operation in statement.operations.into_iter().rev() {
            let (Operation::Allocate(task) | Operation::Pipeline(task) | Operation::Evict(task, _)) =
                operation;
            let requests = self.tasks[task].input.requests.clone();
            let node = self.tasks[task].node;
            match (operation, node.map(|node| &mut self.nodes[node])) {
                (Operation::Allocate(_), Some(node)) => node.idle.add(&requests),
                (Operation::Pipeline(_), Some(node)) => node.pipelined.subtract(&requests),
                (Operation::Evict(..), Some(node)) => node.releasing.subtract(&requests),
                (_, None) => {}
            }
            if let Operation::Evict(_, status) = operation {
                self.tasks[task].status = status;
                self.tell(task, true);
            } else {
                (self.tasks[task].status, self.tasks[task].node) = (TaskStatus::Pending, None);
                self.tell(task, false);
            }
        }
    }

    /// Keeps all changes: what is allocated is bound, what is evicted goes.
    pub(super) fn commit(&mut self, statement: Statement) {
        for operation in statement.operations {
            match operation {
                Operation::Allocate(task) => self.bind(task),
                Operation::Pipeline(_) => {}
                Operation::Evict(task, _) => self.evicted.push(self.tasks[task].name.clone()),
            }
        }
    }

    pub(super) fn bind(&mut self, task: usize) {
        let own = &mut self.tasks[task];
        if let Some(node) = own.node {
            own.status = TaskStatus::Binding;
            self.bound.insert(own.name.clone(), self.nodes[node].input.node.name.clone());
        }
    }

    /// Whether a task fits into amounts.
    pub(super) fn fits(&self, task: usize, room: &Resources) -> bool {
        self.tasks[task].input.requests.less_equal(room, Missing::Zero)
    }

    pub(super) fn readiness(&self, job: usize) -> Readiness {
        let mut readiness = Readiness::new(self.jobs[job].input.min_member);
        for task in self.jobs[job].tasks.iter().map(|task| &self.tasks[*task]) {
            readiness.add(task.status, task.is_best_effort());
        }
        readiness
    }

    /// How many tasks of each role count by status, with those that wait and ask for nothing if they
    /// are to count.
    fn roles(&self, job: usize, counts: impl Fn(&TaskState) -> bool) -> BTreeMap<&str, i32> {
        let mut roles: BTreeMap<&str, i32> = BTreeMap::new();
        for task in self.jobs[job].tasks.iter().map(|task| &self.tasks[*task]) {
            if counts(task) {
                *roles.entry(&task.input.role).or_default() += 1;
            }
        }
        roles
    }

    /// Whether each role has its minimum. Roles do not count where the job needs fewer tasks than
    /// their minima amount to.
    fn has_roles(&self, job: usize, counts: impl Fn(&TaskState) -> bool) -> bool {
        let input = &self.jobs[job].input;
        if input.min_member < input.min_task_member.values().sum() {
            return true;
        }
        let roles = self.roles(job, counts);
        let has = |role: &str| roles.get(role).copied().unwrap_or(0);
        input.min_task_member.iter().all(|(role, minimum)| has(role) >= *minimum)
    }

    pub(super) fn has_ready_roles(&self, job: usize) -> bool {
        self.has_roles(job, counts_as_ready)
    }

    pub(super) fn has_pipelined_roles(&self, job: usize) -> bool {
        let counts =
            |task: &TaskState| counts_as_ready(task) || task.status == TaskStatus::Pipelined;
        self.has_roles(job, counts)
    }

    pub(super) fn has_valid_roles(&self, job: usize) -> bool {
        self.has_roles(job, |task| task.status.is_valid())
    }

    /// Whether others of a job can still make it whole, after some of its tasks fit on no node.
    pub(super) fn can_go_on(&self, job: usize) -> bool {
        let JobState { input, tasks, unfit, .. } = &self.jobs[job];
        if input.min_member as usize == tasks.len() {
            return false;
        }
        let failed: BTreeSet<&str> =
            unfit.iter().map(|task| self.tasks[*task].input.role.as_str()).collect();
        if input.min_member < input.min_task_member.values().sum() {
            let open = |task: &TaskState| {
                task.status == TaskStatus::Pending && !failed.contains(task.input.role.as_str())
            };
            let left: i32 = self.roles(job, open).values().sum();
            return self.readiness(job).ready + left >= input.min_member;
        }
        let ready = self.roles(job, counts_as_ready);
        failed.into_iter().all(|role| {
            let minimum = input.min_task_member.get(role).copied().unwrap_or(0);
            minimum == 0 || ready.get(role).copied().unwrap_or(0) >= minimum
        })
    }
}

fn counts_as_ready(task: &TaskState) -> bool {
    task.status.is_allocated()
        || task.status == TaskStatus::Succeeded
        || (task.status == TaskStatus::Pending && task.is_best_effort())
}

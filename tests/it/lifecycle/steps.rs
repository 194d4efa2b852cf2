//! The steps of a scheduler on nodes of GPUs: submit, decide, bind, delete.

use phalanx::queue::{Gone, GroupChange, GroupState, Settings, Ticket};
use phalanx::{
    Cluster, Decision, Framework, Node, ObjectName, Plan, Pod, PodGroup, Scheduler, Time,
};

pub(super) const GPU: &str = "nvidia.com/gpu";

pub(super) fn gpus(nodes: usize, each: i64) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for index in 0..nodes {
        let node = Node::new(format!("n{index:04}")).capacity(GPU, each);
        cluster.add_node(node.label("rack", format!("r{}", index / 4))).unwrap();
    }
    cluster
}

pub(super) fn gpu() -> Pod {
    Pod::new().request(GPU, 1)
}

pub(super) fn gang(name: &str, size: usize) -> PodGroup {
    PodGroup::gang(name, size as u32).pods(size, gpu())
}

pub(super) fn at(secs: u64) -> Time {
    Time::from_secs(secs)
}

pub(super) fn scheduler(cluster: Cluster, change: impl Fn(&mut Settings)) -> Scheduler {
    let mut settings = Settings::default();
    change(&mut settings);
    Scheduler::new(cluster, Framework::default(), settings)
}

/// The next decision, which is to bind.
pub(super) fn plan(scheduler: &mut Scheduler, now: Time) -> (Ticket, Plan) {
    match scheduler.poll_decision(now) {
        Some(Decision::Bind { ticket, plan, .. }) => (ticket, plan),
        other => panic!("{other:?}"),
    }
}

pub(super) fn bind(scheduler: &mut Scheduler, ticket: Ticket, plan: &Plan, now: Time) {
    for assignment in plan.assignments() {
        scheduler.handle_binding(ticket, "default", &assignment.pod().name, Ok(()), now).unwrap();
    }
}

pub(super) fn bind_all(scheduler: &mut Scheduler, now: Time) -> Vec<ObjectName> {
    let mut bound = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, plan, groups } = decision else { panic!("{decision:?}") };
        bind(scheduler, ticket, &plan, now);
        bound.extend(groups);
    }
    bound
}

pub(super) fn delete(scheduler: &mut Scheduler, name: &str, now: Time) {
    scheduler.handle_gone(Gone::deleted("default", name), now).unwrap();
}

pub(super) fn changes(scheduler: &mut Scheduler) -> Vec<GroupChange> {
    std::iter::from_fn(|| scheduler.poll_event()).map(|event| event.change).collect()
}

pub(super) fn is_asleep(scheduler: &Scheduler, group: &str) -> bool {
    matches!(scheduler.state(group), Some(GroupState::Unschedulable { .. }))
}

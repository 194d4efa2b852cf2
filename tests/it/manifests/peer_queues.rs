//! Manifests of Volcano's and YuniKorn's queues.

use phalanx::kubernetes::queues::QueueManifests;
use phalanx::model::{Amounts, Owner};
use phalanx::quota::yunikorn::YuniKornPreemptionPolicy;
use phalanx::quota::{
    AssignmentMode as Fit, Claim, PodSet, Queue, QueueKind, QueueingStrategy, Quota, Tenants,
    UserLimit, Weight,
};

use super::queues::{example, try_read};

fn notes(manifests: &QueueManifests) -> Vec<String> {
    manifests.notes.iter().map(|note| note.text.clone()).collect()
}

fn of<'a>(manifests: &'a QueueManifests, name: &str) -> &'a Queue {
    manifests.queues.iter().find(|queue| queue.name == name).expect("there")
}

fn claim(queue: &str, cpu: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("cpu", cpu);
    Claim::new(format!("{queue}-{cpu}"), queue).pods(PodSet::new("main", 1, requests))
}

#[test]
fn old_annotations_make_a_tree_of_weights() {
    let manifests = example("volcano-hierarchy.yaml");
    assert_eq!(notes(&manifests), Vec::<String>::new());
    let (eng, dev) = (of(&manifests, "root/eng"), of(&manifests, "root-eng-dev"));
    assert_eq!((eng.kind, eng.weight), (QueueKind::Inner, Weight::new(2)));
    assert_eq!((dev.parent.as_deref(), dev.weight), (Some("root/eng"), Weight::new(2)));
    assert_eq!(manifests.queues.len(), 6, "four leaves, and each inner queue once");
    let mut tenants = Tenants::volcano_drf();
    manifests.give_to(&mut tenants).expect("sound");
    let leaf = tenants.tree().queue(QueueKind::Leaf, "root-sci-prod").expect("there");
    assert_eq!(tenants.tree().path(leaf).count(), 3, "the root is above");
}

#[test]
fn a_capability_bounds_a_queue() {
    let manifests = example("volcano-capability.yaml");
    assert_eq!(notes(&manifests), ["spec.reclaimable is not understood"]);
    let mut tenants = Tenants::volcano_capacity();
    let root = Queue::inner("root").quota("default", "cpu", Quota::nominal(8_000));
    tenants.set_queue(root).expect("sound");
    manifests.give_to(&mut tenants).expect("sound");
    assert_eq!(tenants.decide(&claim("test", 2_000)).expect("sound").assignment.mode, Fit::Fit);
    assert_eq!(tenants.decide(&claim("test", 2_001)).expect("sound").assignment.mode, Fit::NoFit);
}

#[test]
fn a_strategy_says_whether_a_blocked_head_blocks() {
    let manifests = example("volcano-dequeue.yaml");
    let strategies: Vec<QueueingStrategy> =
        manifests.queues.iter().map(|queue| queue.strategy).collect();
    let (strict, best) = (QueueingStrategy::StrictFifo, QueueingStrategy::BestEffortFifo);
    assert_eq!(strategies, [strict, best, best]);
}

#[test]
fn volcano_refuses_less_deserved_than_guaranteed() {
    let queue = |spec: &str| {
        let head = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n";
        try_read(&format!("{head}spec: {spec}")).map(|_| ())
    };
    let wrong = "{guarantee: {resource: {cpu: 3}}, deserved: {cpu: 2}}";
    let rule = "queue q: spec.guarantee: cpu: is more than is deserved";
    assert_eq!(queue(wrong), Err(rule.into()));
    assert!(queue("{deserved: {cpu: 3}, capability: {cpu: 2}}").is_err());
    assert_eq!(queue("{deserved: {cpu: 3}, capability: {cpu: 4}, parent: labs}"), Ok(()));
    assert!(queue("{weight: 65536}").is_err());
}

#[test]
fn properties_arrive_with_their_queues() {
    let manifests = example("yunikorn-preemption.yaml");
    let delay = "partitions[0].queues[0].queues[0].queues[0].properties[preemption.delay] is not \
        understood";
    assert_eq!(notes(&manifests), [delay]);
    let rules = &manifests.yunikorn.rules;
    assert_eq!(rules["root.sandbox.tenants"].preemption, YuniKornPreemptionPolicy::Fence);
    assert_eq!(rules["root.sandbox.tenants.tenant-low"].priority.offset, -1000);
    let priorities = example("yunikorn-priority.yaml");
    assert!(priorities.yunikorn.rules["root.tenants"].priority.fence);
    assert_eq!(notes(&priorities), Vec::<String>::new());
}

#[test]
fn maxima_bound_queues_along_the_path() {
    let manifests = example("yunikorn-resources.yaml");
    let mut tenants = Tenants::yunikorn_with(manifests.yunikorn.clone());
    manifests.give_to(&mut tenants).expect("sound");
    let root = Queue::inner("root").quota("default", "cpu", Quota::nominal(10_000));
    tenants.set_queue(root).expect("sound");
    let mode = |tenants: &mut Tenants, queue, cpu| {
        tenants.decide(&claim(queue, cpu)).expect("sound").assignment.mode
    };
    assert_eq!(mode(&mut tenants, "root.tenants.group-a", 4_000), Fit::Fit);
    assert_eq!(mode(&mut tenants, "root.tenants.group-a", 4_001), Fit::NoFit);
    assert_eq!(mode(&mut tenants, "root.system", 6_000), Fit::Fit);
    let twice =
        "partitions: [{name: default, queues: [{name: root, queues: [{name: a}, {name: A}]}]}]";
    assert!(try_read(twice).is_err(), "names differ by more than case");
    let more =
        "partitions: [{queues: [{name: a, resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}}]}]";
    assert!(try_read(more).is_err());
}

#[test]
fn limits_of_users_and_groups_arrive_with_their_queues() {
    let text = "
partitions:
  - name: default
    limits:
      - {limit: everybody, users: ['*'], maxapplications: 5}
    queues:
      - name: root
        queues:
          - name: vision
            limits:
              - {users: [ada, ''], groups: [research], maxresources: {vcore: 2, memory: 1Gi}}
              - {groups: ['*'], maxapplications: 1, maxresources: {vcore: 500m}}
          - {name: speech}
";
    let manifests = try_read(text).expect("sound");
    assert_eq!(notes(&manifests), Vec::<String>::new());
    let root = of(&manifests, "root");
    assert_eq!(root.limits, [UserLimit::users(["*"]).claims(5)]);
    let mut named = UserLimit::users(["ada"]).amount("cpu", 2_000).amount("memory", 1 << 30);
    named.groups = vec!["research".into()];
    let others = UserLimit::groups(["*"]).amount("cpu", 500).claims(1);
    assert_eq!(of(&manifests, "root.vision").limits, [named, others]);
    let mut tenants = Tenants::yunikorn_with(manifests.yunikorn.clone());
    manifests.give_to(&mut tenants).expect("sound");
    let capacity = root.clone().quota("default", "cpu", Quota::nominal(10_000));
    tenants.set_queue(capacity).expect("sound");
    let mut mode = |queue, user: &str, group: &str, cpu| {
        let claim = claim(queue, cpu).owner(Owner::new(user).group(group));
        tenants.decide(&claim).expect("sound").assignment.mode
    };
    assert_eq!(mode("root.vision", "ada", "qa", 500), Fit::Fit);
    assert_eq!(mode("root.vision", "ada", "qa", 501), Fit::NoFit, "as one of no named group");
    assert_eq!(mode("root.vision", "ada", "research", 2_000), Fit::Fit);
    assert_eq!(mode("root.vision", "ada", "research", 2_001), Fit::NoFit);
    assert_eq!(mode("root.vision", "bob", "research", 2_001), Fit::NoFit, "by the group");
    assert_eq!(mode("root.speech", "bob", "research", 2_001), Fit::Fit, "no limit is below root");
    let strict = |limits: &str| {
        let text = format!("partitions: [{{queues: [{{name: a, limits: [{limits}]}}]}}]");
        try_read(&text).map(drop)
    };
    assert!(strict("{maxapplications: 1}").is_err(), "of nobody");
    assert!(strict("{users: [ada]}").is_err(), "of nothing");
    assert!(
        strict("{users: ['*'], maxapplications: 1}, {users: [ada], maxapplications: 1}").is_err()
    );
    assert!(strict("{groups: ['*'], maxapplications: 1}").is_err(), "a queue's own maximum");
    assert!(strict("{users: [ada], maxresources: {vcore: 0}}").is_err());
    assert_eq!(strict("{users: [ada], maxresources: {vcore: 1}}"), Ok(()));
}

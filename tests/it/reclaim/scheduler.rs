//! The joint search in the scheduler, dialect by dialect.

use std::time::Duration;

use phalanx::queue::{PreemptionSettings, Settings};
use phalanx::quota::kai::CLUSTER;
use phalanx::quota::{
    Flavor, KueueSettings, Queue, QueuePreemption, QueuePreemptionPolicy, Quota, Tenants,
};
use phalanx::{Cluster, Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};

/// When the gang comes.
const ASKED: Time = Time::from_secs(100);
const TEAMS: [&str; 2] = ["vision", "speech"];

/// Two queues with four GPUs each, in the words of a dialect.
fn queues(mut tenants: Tenants, quota: &Quota, whole: bool) -> Tenants {
    tenants.set_flavor(Flavor::new("all"));
    if whole {
        let root = Queue::inner("root").quota("all", "gpu", Quota::nominal(8));
        tenants.set_queue(root).unwrap();
    }
    let reclaim = QueuePreemption::default().reclaim_within_cohort(QueuePreemptionPolicy::Any);
    for team in TEAMS {
        let queue = Queue::leaf(team).parent("root").preemption(reclaim);
        tenants.set_queue(queue.quota("all", "gpu", quota.clone())).unwrap();
    }
    tenants
}

fn decide(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut victims = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, .. } => scheduler.handle_bound(ticket, now).unwrap(),
            Decision::Evict { victims: own, .. } => {
                victims.extend(own.iter().map(|victim| victim.name.to_string()));
            }
            other => panic!("{other:?}"),
        }
    }
    victims.sort();
    victims
}

/// The victims of a gang of `speech` that wants one of two racks.
fn victims(tenants: Tenants, joint: Option<bool>) -> Vec<String> {
    let mut preemption = PreemptionSettings::new();
    preemption.joint = joint;
    decide(&mut asked(tenants, preemption), ASKED)
}

/// A scheduler that a gang of `speech` has come to: `vision` has filled both racks, the oldest job and
/// the third on the first rack.
fn asked(tenants: Tenants, preemption: PreemptionSettings) -> Scheduler {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (number, rack) in ["a", "b", "a", "b"].iter().enumerate() {
        let node = Node::new(format!("n{number}")).capacity("gpu", 2).label("rack", *rack);
        cluster.add_node(node.label("host", format!("n{number}"))).unwrap();
    }
    let settings = Settings::new().preemption(preemption);
    let mut scheduler =
        Scheduler::new(cluster, Framework::default(), settings).with_tenants(tenants);
    for number in 0..4 {
        let now = Time::from_secs(1 + number);
        let pod = Pod::new().request("gpu", 2).node_selector("host", format!("n{number}"));
        let job = PodGroup::gang(format!("job{number}"), 1).pods(1, pod).queue("vision");
        scheduler.handle_group(job, now).unwrap();
        assert_eq!(decide(&mut scheduler, now), [""; 0]);
        assert!(scheduler.cluster().pod("default", &format!("job{number}-0")).is_some());
    }
    let gang = PodGroup::gang("train", 2).pods(2, Pod::new().request("gpu", 2)).require("rack");
    scheduler.handle_group(gang.queue("speech"), ASKED).unwrap();
    scheduler
}

/// A gang is patient: victims are named after the delay, unless nodes come before.
#[test]
fn nodes_may_come_before_victims_are_named() {
    let own = || queues(Tenants::default(), &Quota::nominal(4), false);
    let preemption = PreemptionSettings::new().delay(Duration::from_secs(30));
    let mut scheduler = asked(own(), preemption);
    assert_eq!(decide(&mut scheduler, ASKED), [""; 0]);
    assert_eq!(decide(&mut scheduler, Time::from_secs(129)), [""; 0]);
    let wake = scheduler.next_wake().expect("the delay ends");
    assert!(wake <= Time::from_secs(130), "{wake:?}");
    assert_eq!(decide(&mut scheduler, Time::from_secs(130)), ["default/job1", "default/job3"]);
    // With a new rack within that time nobody goes. The tree has quota for it.
    let mut tenants = own();
    tenants.set_queue(Queue::inner("root").quota("all", "gpu", Quota::nominal(4))).unwrap();
    let mut scheduler = asked(tenants, preemption);
    assert_eq!(decide(&mut scheduler, ASKED), [""; 0]);
    for number in 4..6 {
        let node = Node::new(format!("n{number}")).capacity("gpu", 2).label("rack", "c");
        scheduler
            .handle_event(Event::NodeChanged { node, version: 0 }, Time::from_secs(110))
            .unwrap();
    }
    for second in [110, 120, 140] {
        assert_eq!(decide(&mut scheduler, Time::from_secs(second)), [""; 0]);
    }
    assert!(scheduler.cluster().pod("default", "train-0").is_some());
}

#[test]
fn the_joint_search_is_the_default_of_this_crate_alone() {
    let promised = Quota::nominal(4);
    let own = || queues(Tenants::default(), &promised, false);
    assert_eq!(victims(own(), None), ["default/job1", "default/job3"]);
    assert_eq!(victims(own(), Some(false)), [""; 0]);
    let kueues: [fn() -> Tenants; 2] =
        [Tenants::kueue, || Tenants::kueue_with(KueueSettings::default().fair())];
    for kueue in kueues {
        assert_eq!(victims(queues(kueue(), &promised, false), None), [""; 0]);
        let joint = victims(queues(kueue(), &promised, false), Some(true));
        assert_eq!(joint, ["default/job1", "default/job3"]);
    }
}

#[test]
fn volcano_and_kai_search_jointly_where_they_are_told_to() {
    let racks = [["default/job0", "default/job2"], ["default/job1", "default/job3"]];
    let kai = || {
        let mut kai = Tenants::kai();
        kai.set_flavor(Flavor::new("all"));
        for team in TEAMS {
            let queue = Queue::leaf(team).quota("all", "gpu", Quota::nominal(4));
            kai.set_queue(queue).unwrap();
        }
        let whole = Queue::inner(CLUSTER).quota("all", "gpu", Quota::nominal(8));
        kai.set_queue(whole).unwrap();
        kai
    };
    let capacity = || {
        let quota = Quota::nominal(0).deserved(4);
        queues(Tenants::volcano_capacity(), &quota, true)
    };
    let proportion = || queues(Tenants::volcano_proportion(), &Quota::nominal(0), true);
    let drf = || queues(Tenants::volcano_drf(), &Quota::nominal(0), true);
    for tenants in [kai(), capacity(), proportion(), drf()] {
        let alone = victims(tenants.clone(), None);
        assert!(alone.is_empty() || racks.iter().any(|rack| alone == *rack), "{alone:?}");
        assert_eq!(victims(tenants, Some(true)), racks[1]);
    }
}

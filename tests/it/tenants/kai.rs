//! KAI's dialect: on its own, and in the scheduler.

use std::time::Duration;

use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::kai::{CLUSTER, KaiSettings, QueueMinRuntime};
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, PodSet, Queue, QueueKind, Quota, SavedTenants, Tenants,
    VictimReason, Weight,
};

use super::scheduler::{at, cluster, finish, gang, run, scheduler};

fn gpus(name: &str, queue: &str, priority: i64, amount: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", amount);
    Claim::new(name, queue).priority(priority).pods(PodSet::new("main", 1, requests))
}

fn admit(tenants: &mut Tenants, claim: &Claim, seconds: u64) {
    let decision = tenants.decide(claim).expect("sound");
    assert_eq!(decision.assignment.mode, AssignmentMode::Fit, "{}", claim.name);
    tenants.admit(claim, &decision.assignment, Time::from_secs(seconds)).expect("sound");
}

fn decided(tenants: &mut Tenants, claim: &Claim) -> (AssignmentMode, Vec<(String, VictimReason)>) {
    let decision = tenants.decide(claim).expect("sound");
    let name = |victim: &phalanx::quota::QuotaVictim| {
        let holder = tenants.holder(victim.holder).expect("holds");
        (holder.name.clone(), victim.reason)
    };
    (decision.assignment.mode, decision.victims.iter().map(name).collect())
}

fn two_teams(settings: KaiSettings, deserved: i64) -> Tenants {
    let mut tenants = Tenants::kai_with(settings);
    tenants.set_flavor(Flavor::new("all"));
    for team in ["vision", "speech"] {
        let queue = Queue::leaf(team).quota("all", "gpu", Quota::nominal(deserved));
        tenants.set_queue(queue).expect("sound");
    }
    tenants
}

#[test]
fn work_that_is_not_preemptible_stays_within_what_is_deserved() {
    let mut tenants = two_teams(KaiSettings::default(), 4);
    admit(&mut tenants, &gpus("train", "vision", 50, 6), 0);
    // 100 and above is not preemptible; what preemptible work holds does not count.
    let two = gpus("serve", "vision", 100, 2);
    admit(&mut tenants, &two, 0);
    assert_eq!(
        decided(&mut tenants, &gpus("more", "vision", 100, 3)),
        (AssignmentMode::Preempt, vec![])
    );
    let mut said = gpus("said", "vision", 50, 3);
    said.preemptible = Some(false);
    assert_eq!(decided(&mut tenants, &said), (AssignmentMode::Preempt, vec![]));
}

#[test]
fn a_limit_is_never_passed_and_what_is_beyond_it_never_fits() {
    let mut tenants = two_teams(KaiSettings::default(), 4);
    let limited = Queue::leaf("vision").quota("all", "gpu", Quota::nominal(2).limit(3));
    tenants.set_queue(limited).expect("sound");
    admit(&mut tenants, &gpus("a", "vision", 50, 2), 0);
    assert_eq!(
        decided(&mut tenants, &gpus("b", "vision", 50, 2)),
        (AssignmentMode::Preempt, vec![])
    );
    assert_eq!(decided(&mut tenants, &gpus("c", "vision", 50, 4)).0, AssignmentMode::NoFit);
    // Within the limit there is room once a lower priority gives way.
    let own = vec![("a".to_string(), VictimReason::InClusterQueue)];
    assert_eq!(decided(&mut tenants, &gpus("d", "vision", 60, 2)), (AssignmentMode::Preempt, own));
}

#[test]
fn fair_shares_follow_weights_and_priorities_and_the_whole() {
    let mut tenants = Tenants::kai_with(KaiSettings::default().capacity("gpu", 9));
    tenants.set_flavor(Flavor::new("all"));
    let mut of = None;
    for (team, weight, priority) in [("a", 2, 0), ("b", 1, 0), ("c", 5, -1)] {
        let mut quota = Quota::nominal(1);
        quota.over_quota_weight = Some(Weight::new(weight));
        let queue = Queue::leaf(team).quota("all", "gpu", quota).priority(priority);
        let id = tenants.set_queue(queue).expect("sound");
        let number = tenants.intern("all", "gpu");
        tenants.wait(id, number, 9).expect("sound");
        of = Some(number);
    }
    let tree = tenants.tree();
    let share = |team: &str| {
        let queue = tree.queue(QueueKind::Leaf, team).expect("known");
        tenants.deserved(queue, of.expect("interned"))
    };
    // 1 + 4, 1 + 2, 1: the surplus is gone before the lower priority.
    assert_eq!(["a", "b", "c"].map(share), [5, 3, 1]);
}

#[test]
fn the_youngest_of_the_best_served_queue_gives_back_and_no_more_than_needed() {
    let mut tenants = two_teams(KaiSettings::default(), 4);
    for (at, name) in ["old", "mid", "new"].into_iter().enumerate() {
        admit(&mut tenants, &gpus(name, "vision", 50, 2), at as u64);
    }
    admit(&mut tenants, &gpus("own", "speech", 50, 1), 0);
    let victims = vec![("new".to_string(), VictimReason::InCohortReclamation)];
    assert_eq!(
        decided(&mut tenants, &gpus("want", "speech", 50, 3)),
        (AssignmentMode::Preempt, victims)
    );
    // Beyond what is fair nothing is taken back.
    assert_eq!(
        decided(&mut tenants, &gpus("much", "speech", 50, 5)),
        (AssignmentMode::Preempt, vec![])
    );
}

#[test]
fn work_runs_for_its_minimum_before_it_is_taken_back() {
    let runtime = QueueMinRuntime { reclaim: Some(Duration::from_secs(60)), preempt: None };
    let mut tenants = two_teams(KaiSettings::default().min_runtime("vision", runtime), 4);
    admit(&mut tenants, &gpus("all", "vision", 50, 8), 100);
    let want = gpus("want", "speech", 50, 4);
    tenants.advance(Time::from_secs(159));
    assert_eq!(decided(&mut tenants, &want), (AssignmentMode::Preempt, vec![]));
    tenants.advance(Time::from_secs(160));
    assert_eq!(decided(&mut tenants, &want).1.len(), 1);
    // Preemption has a minimum of its own.
    tenants.advance(Time::from_secs(100));
    assert_eq!(decided(&mut tenants, &gpus("high", "vision", 90, 1)).1.len(), 1);
}

#[test]
fn capacity_is_what_top_queues_deserve_until_it_is_stated() {
    let mut tenants = two_teams(KaiSettings::default(), 4);
    assert_eq!(decided(&mut tenants, &gpus("ten", "vision", 50, 10)).0, AssignmentMode::NoFit);
    let whole = |gpus| Queue::inner(CLUSTER).quota("all", "gpu", Quota::nominal(gpus));
    tenants.set_queue(whole(12)).expect("sound");
    assert_eq!(decided(&mut tenants, &gpus("ten", "vision", 50, 10)).0, AssignmentMode::Fit);
    assert!(tenants.set_queue(whole(-1)).is_err());
    let text = serde_json::to_string(&tenants.save()).expect("plain");
    let saved: SavedTenants = serde_json::from_str(&text).expect("plain");
    let mut again = saved.restore();
    assert_eq!(serde_json::to_string(&again.save()).expect("plain"), text);
    assert_eq!(decided(&mut again, &gpus("ten", "vision", 50, 10)).0, AssignmentMode::Fit);
}

#[test]
fn the_scheduler_takes_turns_by_dominant_share_and_wakes_across_departments() {
    let mut tenants = Tenants::kai();
    tenants.set_flavor(Flavor::new("all"));
    for department in ["east", "west"] {
        let queue = Queue::inner(department).quota("all", "gpu", Quota::nominal(4));
        tenants.set_queue(queue).expect("sound");
        let team = Queue::leaf(format!("{department}-team")).parent(department);
        let team = team.quota("all", "gpu", Quota::nominal(4));
        tenants.set_queue(team).expect("sound");
    }
    let mut scheduler = scheduler(cluster(1, 8), tenants);
    for name in ["e1", "e2", "e3"] {
        scheduler.handle_group(gang(name, "east-team", 3, 1), at(0)).expect("sound");
    }
    for name in ["w1", "w2"] {
        scheduler.handle_group(gang(name, "west-team", 2, 1), at(1)).expect("sound");
    }
    // By dominant share with the gang, as far as there is room: 2, then 3, then 4 of 4.
    let names = run(&mut scheduler, at(2));
    assert_eq!(names, ["default/w1", "default/e1", "default/w2"]);
    // Room in one department wakes the other.
    finish(&mut scheduler, "w1", 2, at(3));
    assert_eq!(run(&mut scheduler, at(3)), ["default/e2"]);
}

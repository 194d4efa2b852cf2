//! Koordinator's dialect: what is lent, what waits, what has to give back.

use phalanx::model::Amounts;
use phalanx::queue::{PriorityThenTime, SavedScheduler};
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, HolderId, KoordinatorSettings, PREEMPTIBLE_LABEL, PodSet, Queue,
    Quota, QuotaError, ROOT_QUOTA, Tenants,
};
use phalanx::{Framework, Pod, PodGroup, Scheduler, Time};

use crate::tenants;
use crate::tenants::scheduler::{at, cluster, finish, run};

/// A tree that divides 16 GPUs.
fn tree(settings: KoordinatorSettings, queues: &[(&str, i64, i64)]) -> Tenants {
    let mut tenants = Tenants::koordinator_with(settings);
    tenants.set_flavor(Flavor::new("all"));
    let root = Queue::inner(ROOT_QUOTA).quota("all", "gpu", Quota::nominal(16));
    tenants.set_queue(root).expect("sound");
    for &(name, min, max) in queues {
        let quota = Quota::nominal(min).limit(max);
        tenants.set_queue(Queue::leaf(name).quota("all", "gpu", quota)).expect("sound");
    }
    tenants
}

fn labs() -> Tenants {
    tree(KoordinatorSettings::default(), &[("vision", 4, 16), ("speech", 8, 16)])
}

fn scheduler(tenants: Tenants) -> Scheduler {
    tenants::scheduler::scheduler(cluster(2, 8), tenants)
}

fn gang(name: &str, queue: &str, pods: usize) -> PodGroup {
    gang_of(name, queue, pods, Pod::new().request("gpu", 1))
}

fn gang_of(name: &str, queue: &str, pods: usize, pod: Pod) -> PodGroup {
    PodGroup::gang(name, pods as u32).pods(pods, pod).queue(queue)
}

#[test]
fn idle_minima_are_lent_until_their_owner_asks() {
    let mut scheduler = scheduler(labs());
    scheduler.handle_group(gang("large", "vision", 12), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), ["default/large"]);
    // Within its minimum, but there is no room: nothing is taken back.
    scheduler.handle_group(gang("own", "speech", 8), at(1)).expect("sound");
    assert_eq!(run(&mut scheduler, at(1)), [] as [&str; 0]);
    // What is left above what `speech` asks for is 4, and 4 are its own.
    scheduler.handle_group(gang("more", "vision", 4), at(2)).expect("sound");
    assert_eq!(run(&mut scheduler, at(2)), [] as [&str; 0]);
    assert!(scheduler.metrics().short_of_quota > 0);
    finish(&mut scheduler, "large", 12, at(3));
    let mut started = run(&mut scheduler, at(3));
    started.sort();
    assert_eq!(started, ["default/more", "default/own"]);
}

#[test]
fn a_request_that_is_given_up_wakes_what_waits_for_it() {
    let mut scheduler = scheduler(labs());
    scheduler.handle_group(gang("large", "vision", 12), at(0)).expect("sound");
    run(&mut scheduler, at(0));
    scheduler.handle_group(gang("own", "speech", 8), at(1)).expect("sound");
    run(&mut scheduler, at(1));
    scheduler.handle_group(gang("more", "vision", 4), at(2)).expect("sound");
    assert_eq!(run(&mut scheduler, at(2)), [] as [&str; 0]);
    scheduler.handle_group_removed("default/own", at(3)).expect("known");
    assert_eq!(run(&mut scheduler, at(3)), ["default/more"]);
}

#[test]
fn quota_that_moves_wakes_what_waits_for_it() {
    let mut scheduler = scheduler(labs());
    scheduler.handle_group(gang("first", "speech", 8), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), ["default/first"]);
    scheduler.handle_group(gang("wide", "vision", 9), at(1)).expect("sound");
    assert_eq!(run(&mut scheduler, at(1)), [] as [&str; 0]);
    // The most of `vision` is 8 while `speech` uses its minimum.
    let attempts = scheduler.metrics().attempts;
    assert_eq!(run(&mut scheduler, at(60)), [] as [&str; 0]);
    assert_eq!(scheduler.metrics().attempts, attempts, "nothing moved");
    finish(&mut scheduler, "first", 8, at(61));
    assert_eq!(run(&mut scheduler, at(61)), ["default/wide"]);
}

#[test]
fn what_may_not_be_preempted_stays_within_the_minimum() {
    let mut scheduler = scheduler(labs());
    let pod = Pod::new().request("gpu", 1).label(PREEMPTIBLE_LABEL, "false");
    scheduler.handle_group(gang_of("firm", "vision", 5, pod.clone()), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), [] as [&str; 0]);
    scheduler.handle_group(gang_of("small", "vision", 4, pod), at(1)).expect("sound");
    assert_eq!(run(&mut scheduler, at(1)), ["default/small"]);
    scheduler.handle_group(gang("loose", "vision", 5), at(2)).expect("sound");
    assert_eq!(run(&mut scheduler, at(2)), ["default/loose"]);
}

#[test]
fn a_saved_scheduler_goes_on_alike() {
    let mut first = scheduler(labs());
    first.handle_group(gang("large", "vision", 12), at(0)).expect("sound");
    run(&mut first, at(0));
    first.handle_group(gang("own", "speech", 8), at(1)).expect("sound");
    assert_eq!(run(&mut first, at(1)), [] as [&str; 0]);
    first.handle_group(gang("more", "vision", 4), at(1)).expect("sound");
    run(&mut first, at(1));
    let text = serde_json::to_string(&first.save()).expect("serialises");
    let saved: SavedScheduler = serde_json::from_str(&text).expect("parses");
    let mut again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    assert_eq!(serde_json::to_string(&again.save()).expect("serialises"), text);
    for scheduler in [&mut first, &mut again] {
        finish(scheduler, "large", 12, at(2));
        let mut started = run(scheduler, at(2));
        started.sort();
        assert_eq!(started, ["default/more", "default/own"]);
    }
}

fn claim(name: &str, queue: &str, gpus: i64, priority: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", gpus);
    let mut claim = Claim::new(name, queue).pods(PodSet::new("main", 1, requests));
    claim.priority = priority;
    claim
}

fn admit(tenants: &mut Tenants, claim: &Claim) -> HolderId {
    let assignment = tenants.decide(claim).expect("sound").assignment;
    assert_eq!(assignment.mode, AssignmentMode::Fit);
    tenants.admit(claim, &assignment, Time::ZERO).expect("sound")
}

#[test]
fn lower_priorities_of_the_same_quota_give_back() {
    let queues = [("vision", 4, 8), ("speech", 8, 16)];
    let mut tenants = tree(KoordinatorSettings::default(), &queues);
    let low = admit(&mut tenants, &claim("low", "vision", 4, 0));
    let mut firm = claim("firm", "vision", 4, 0);
    firm.preemptible = Some(false);
    admit(&mut tenants, &firm);
    admit(&mut tenants, &claim("other", "speech", 8, -5));
    let victims = |tenants: &mut Tenants, gpus, priority| -> Vec<HolderId> {
        let decision = tenants.decide(&claim("c", "vision", gpus, priority)).expect("sound");
        assert_eq!(decision.assignment.mode, AssignmentMode::Preempt);
        decision.victims.iter().map(|victim| victim.holder).collect()
    };
    assert_eq!(victims(&mut tenants, 4, 10), [low]);
    assert_eq!(victims(&mut tenants, 4, 0), []);
    assert_eq!(victims(&mut tenants, 5, 10), [], "what may not be preempted stays");
    tenants.release(low).expect("held");
    let decision = tenants.decide(&claim("c", "vision", 4, 0)).expect("sound");
    assert_eq!(decision.assignment.mode, AssignmentMode::Fit);
}

#[test]
fn quotas_above_are_asked_where_that_is_set() {
    for (check, mode) in [(false, AssignmentMode::Fit), (true, AssignmentMode::NoFit)] {
        let mut tenants =
            tree(KoordinatorSettings::default().runtime(false).check_parents(check), &[]);
        let parent = Queue::inner("labs").quota("all", "gpu", Quota::nominal(4).limit(6));
        tenants.set_queue(parent).expect("sound");
        let quota = Quota::nominal(4).limit(12);
        tenants
            .set_queue(Queue::leaf("vision").parent("labs").quota("all", "gpu", quota))
            .expect("sound");
        let decision = tenants.decide(&claim("c", "vision", 8, 0)).expect("sound");
        assert_eq!(decision.assignment.mode, mode, "{check}");
    }
}

#[test]
fn quotas_of_either_kind_share_their_names() {
    let mut tenants = labs();
    let twice = tenants.set_queue(Queue::inner("vision"));
    assert!(matches!(twice, Err(QuotaError::Twice { .. })), "{twice:?}");
}

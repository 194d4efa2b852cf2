//! The dialects of Volcano and YuniKorn: decisions, and in the scheduler.

use phalanx::model::Amounts;
use phalanx::queue::Settings;
use phalanx::quota::yunikorn::{QueueRules, YuniKornPreemptionPolicy, YuniKornSettings};
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, PodSet, Queue, Quota, QuotaDecision, Tenants, Weight,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};

const GPU: &str = "nvidia.com/gpu";

fn claim(name: &str, queue: &str, gpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set(GPU, gpus);
    Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
}

fn with_root(mut tenants: Tenants, whole: i64) -> Tenants {
    tenants.set_flavor(Flavor::new("all"));
    let root = Queue::inner("root").quota("all", GPU, Quota::nominal(whole));
    tenants.set_queue(root).expect("sound");
    tenants
}

fn add(tenants: &mut Tenants, queue: Queue, quota: Quota) {
    tenants.set_queue(queue.quota("all", GPU, quota)).expect("sound");
}

fn give(tenants: &mut Tenants, claim: &Claim) -> QuotaDecision {
    let decision = tenants.decide(claim).expect("sound");
    if decision.assignment.mode == AssignmentMode::Fit {
        tenants.admit(claim, &decision.assignment, Time::ZERO).expect("sound");
    }
    decision
}

#[test]
fn proportion_holds_queues_to_what_they_deserve_by_weight() {
    let mut tenants = with_root(Tenants::volcano_proportion(), 12);
    add(&mut tenants, Queue::leaf("a").weight(Weight::new(2)), Quota::nominal(0));
    add(&mut tenants, Queue::leaf("b"), Quota::nominal(0));
    for at in 0..3 {
        assert_eq!(
            give(&mut tenants, &claim(&format!("a{at}"), "a", 4)).assignment.mode,
            AssignmentMode::Fit
        );
    }
    // Four are deserved, and one of three gangs of four is beyond the eight of the other.
    let decision = tenants.decide(&claim("b0", "b", 4)).expect("sound");
    assert_eq!(decision.victims.len(), 1);
    let five = tenants.decide(&claim("b0", "b", 5)).expect("sound");
    assert!(five.victims.is_empty() && five.assignment.mode == AssignmentMode::Preempt);
    let never = tenants.decide(&claim("b0", "b", 13)).expect("sound");
    assert_eq!(never.assignment.mode, AssignmentMode::NoFit);
}

#[test]
fn capacity_lends_what_is_deserved_and_takes_it_back() {
    let mut tenants = with_root(Tenants::volcano_capacity(), 8);
    add(&mut tenants, Queue::leaf("a").parent("dept"), Quota::nominal(0).deserved(4));
    add(&mut tenants, Queue::leaf("b").parent("dept"), Quota::nominal(0).deserved(4).limit(6));
    give(&mut tenants, &claim("a0", "a", 4));
    assert_eq!(
        give(&mut tenants, &claim("a1", "a", 4)).assignment.mode,
        AssignmentMode::Fit,
        "it borrows"
    );
    let decision = tenants.decide(&claim("b0", "b", 4)).expect("sound");
    assert_eq!(decision.victims.len(), 1);
    assert!(tenants.decide(&claim("b0", "b", 5)).expect("sound").victims.is_empty());
    let never = tenants.decide(&claim("b0", "b", 7)).expect("sound");
    assert_eq!(never.assignment.mode, AssignmentMode::NoFit, "beyond the capability");
}

#[test]
fn guarantees_of_volcano_are_withheld_from_others() {
    let mut tenants = with_root(Tenants::volcano_capacity(), 8);
    add(&mut tenants, Queue::leaf("a"), Quota::nominal(3).deserved(3));
    add(&mut tenants, Queue::leaf("b"), Quota::nominal(0).deserved(5));
    give(&mut tenants, &claim("a0", "a", 1));
    assert_eq!(
        tenants.decide(&claim("b0", "b", 5)).expect("sound").assignment.mode,
        AssignmentMode::Fit
    );
    let six = tenants.decide(&claim("b0", "b", 6)).expect("sound");
    assert!(six.assignment.mode != AssignmentMode::Fit, "two more are kept for the other");
}

#[test]
fn drf_takes_from_larger_shares() {
    let mut tenants = with_root(Tenants::volcano_drf(), 8);
    add(&mut tenants, Queue::leaf("a"), Quota::nominal(0));
    add(&mut tenants, Queue::leaf("b"), Quota::nominal(0));
    for at in 0..4 {
        give(&mut tenants, &claim(&format!("a{at}"), "a", 2));
    }
    let decision = tenants.decide(&claim("b0", "b", 4)).expect("sound");
    assert_eq!(decision.victims.len(), 2, "four are left, as many as it will have");
    assert!(tenants.decide(&claim("b0", "b", 6)).expect("sound").victims.is_empty());
}

#[test]
fn yunikorn_takes_for_what_is_guaranteed_within_its_fence() {
    let with = |rules: &[(&str, YuniKornPreemptionPolicy)]| {
        let mut settings = YuniKornSettings::default();
        for (name, preemption) in rules {
            let own = QueueRules { preemption: *preemption, ..QueueRules::default() };
            settings.rules.insert((*name).into(), own);
        }
        let mut tenants = with_root(Tenants::yunikorn_with(settings), 8);
        add(&mut tenants, Queue::inner("root.dept"), Quota::nominal(0));
        let own = Queue::leaf("root.dept.own").parent("root.dept");
        add(&mut tenants, own, Quota::nominal(4));
        add(&mut tenants, Queue::leaf("root.other"), Quota::nominal(4));
        for at in 0..4 {
            give(&mut tenants, &claim(&format!("o{at}"), "root.other", 2));
        }
        tenants
    };
    let ask = |tenants: &mut Tenants, gpus| {
        tenants.decide(&claim("own", "root.dept.own", gpus)).expect("sound").victims.len()
    };
    let mut open = with(&[]);
    assert_eq!((ask(&mut open, 4), ask(&mut open, 5)), (2, 0));
    let mut fenced = with(&[("root.dept", YuniKornPreemptionPolicy::Fence)]);
    assert_eq!(ask(&mut fenced, 4), 0);
    let mut closed = with(&[("root.other", YuniKornPreemptionPolicy::Disabled)]);
    assert_eq!(ask(&mut closed, 4), 0);
}

#[test]
fn the_dialect_survives_being_saved() {
    for tenants in [Tenants::volcano_proportion(), Tenants::volcano_drf(), Tenants::yunikorn()] {
        let mut tenants = with_root(tenants, 8);
        add(&mut tenants, Queue::leaf("a"), Quota::nominal(2));
        let text = serde_json::to_string(&tenants.save()).expect("data");
        let saved: phalanx::quota::SavedTenants = serde_json::from_str(&text).expect("data");
        let mut again = saved.restore();
        assert_eq!(serde_json::to_string(&again.save()).expect("data"), text);
        let asked = claim("c", "a", 5);
        let both = [tenants.decide(&asked), again.decide(&asked)];
        assert_eq!(both[0], both[1]);
    }
}

/// Gangs of two queues on eight GPUs: what each has once all have been tried.
fn placed(mut tenants: Tenants, first: Quota, second: Quota) -> [usize; 2] {
    add(&mut tenants, Queue::leaf("a"), first);
    add(&mut tenants, Queue::leaf("b"), second);
    let mut cluster = Cluster::builder().build().expect("sound");
    cluster.add_node(Node::new("n").capacity(GPU, 8)).expect("sound");
    let mut scheduler =
        Scheduler::new(cluster, Framework::default(), Settings::default()).with_tenants(tenants);
    let mut placed = [0; 2];
    for at in 0..8 {
        for (number, queue) in ["a", "b"].into_iter().enumerate() {
            let pods = Pod::new().request(GPU, 1);
            let mut gang = PodGroup::gang(format!("{queue}{at}"), 2).pods(2, pods);
            gang.queue = queue.into();
            scheduler.handle_group(gang, Time::from_secs(at * 2 + number as u64)).expect("sound");
        }
    }
    let now = Time::from_secs(100);
    while let Some(decision) = scheduler.poll_decision(now) {
        let phalanx::Decision::Bind { ticket, groups, .. } = decision else { continue };
        scheduler.handle_bound(ticket, now).expect("it was decided just now");
        for group in groups {
            placed[usize::from(group.contains("/b"))] += 1;
        }
    }
    placed
}

#[test]
fn every_dialect_runs_in_the_scheduler() {
    let none = || Quota::nominal(0);
    assert_eq!(placed(with_root(Tenants::volcano_proportion(), 8), none(), none()), [2, 2]);
    assert_eq!(placed(with_root(Tenants::volcano_drf(), 8), none(), none()), [2, 2]);
    let own = |amount| Quota::nominal(0).deserved(amount);
    assert_eq!(placed(with_root(Tenants::volcano_capacity(), 8), own(6), own(2)), [3, 1]);
    let own = |amount| Quota::nominal(amount);
    assert_eq!(placed(with_root(Tenants::yunikorn(), 8), own(6), own(2)), [3, 1]);
    let most = |amount| Quota::nominal(0).limit(amount);
    assert_eq!(placed(with_root(Tenants::yunikorn(), 8), most(2), most(6)), [1, 3]);
}

#[test]
fn victims_that_later_ones_make_needless_are_given_back() {
    let mut tenants = with_root(Tenants::volcano_capacity(), 12);
    add(&mut tenants, Queue::leaf("a"), Quota::nominal(0).deserved(4));
    add(&mut tenants, Queue::leaf("b"), Quota::nominal(0).deserved(8));
    for (name, gpus) in [("large", 5), ("small", 1), ("tiny", 1), ("last", 5)] {
        let own = claim(name, "a", gpus).priority(i64::from(name == "last"));
        assert_eq!(give(&mut tenants, &own).assignment.mode, AssignmentMode::Fit);
    }
    let victims = |tenants: &mut Tenants, gpus: i64| {
        let decision = tenants.decide(&claim("b0", "b", gpus)).expect("sound");
        let holder =
            |own: &phalanx::quota::QuotaVictim| tenants.holder(own.holder).map(|h| h.name.clone());
        let mut names: Vec<String> = decision.victims.iter().filter_map(holder).collect();
        names.sort();
        names
    };
    assert_eq!(victims(&mut tenants, 1).len(), 1);
    assert_eq!(victims(&mut tenants, 5), ["large"]);
    assert_eq!(victims(&mut tenants, 6).len(), 2);
    assert_eq!(victims(&mut tenants, 7), ["large", "small", "tiny"]);
}

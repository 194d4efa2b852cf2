//! Cost of decisions as queues grow in number, in sums that are changed and taken back.

use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, KueueSettings, PodSet, Queue, QueuePreemption,
    QueuePreemptionPolicy, Quota, Tenants,
};

fn claim(name: String, queue: usize, gpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", gpus);
    Claim::new(name, format!("q{queue}")).pods(PodSet::new("main", 1, requests))
}

/// Queues that use 5 of 10 and 15 of 10 by turns, in one cohort, or ten by ten in a tree.
fn world(mut tenants: Tenants, queues: usize, tree: bool) -> Tenants {
    tenants.set_flavor(Flavor::new("all"));
    if tree {
        for at in 0..queues / 10 {
            let inner = Queue::inner(format!("c{at}")).parent(format!("b{}", at / 10));
            tenants.set_queue(inner).expect("sound");
            let inner = Queue::inner(format!("b{}", at / 10)).parent("root");
            tenants.set_queue(inner).expect("sound");
        }
    }
    let gpu = tenants.intern("all", "gpu");
    for at in 0..queues {
        let parent = if tree { format!("c{}", at / 10) } else { "root".into() };
        let reclaims = QueuePreemption::default().reclaim_within_cohort(QueuePreemptionPolicy::Any);
        let queue = Queue::leaf(format!("q{at}")).parent(parent).preemption(reclaims);
        tenants.set_queue(queue.quota("all", "gpu", Quota::nominal(10))).expect("sound");
        for number in 0..if at % 2 == 0 { 1 } else { 3 } {
            let since = Time::from_secs((at * 31 + number * 17) as u64 % 10_000);
            let held = claim(format!("w{at}-{number}"), at, 5);
            tenants.restore(&held, &[(gpu, 5)].into_iter().collect(), since).expect("in range");
        }
    }
    // The index is made at the first search.
    tenants.decide(&claim("first".into(), 0, 1)).expect("sound");
    tenants
}

/// Steps of a decision that reclaims, and of a claim that comes and goes.
fn steps(tenants: &mut Tenants, queues: usize) -> (u64, u64) {
    let (mut decision, mut change) = (0, 0);
    let gpu = tenants.intern("all", "gpu");
    for at in (0..queues).step_by(queues / 50 / 2 * 2) {
        let before = tenants.steps();
        let found = tenants.decide(&claim("in".into(), at, 5)).expect("sound");
        assert_eq!((found.assignment.mode, found.victims.len()), (AssignmentMode::Preempt, 1));
        decision = decision.max(tenants.steps() - before);
        let before = tenants.steps();
        let held = claim("more".into(), at, 1);
        let usage = [(gpu, 1)].into_iter().collect();
        let holder = tenants.restore(&held, &usage, Time::ZERO).expect("in range");
        tenants.release(holder).expect("held");
        change = change.max(tenants.steps() - before);
    }
    (decision, change)
}

#[test]
fn decisions_and_changes_cost_no_more_with_ten_times_the_queues() {
    let dialects: [fn() -> Tenants; 3] =
        [Tenants::kueue, || Tenants::kueue_with(KueueSettings::default().fair()), Tenants::default];
    for dialect in dialects {
        for tree in [false, true] {
            let few = steps(&mut world(dialect(), 1_000, tree), 1_000);
            let many = steps(&mut world(dialect(), 10_000, tree), 10_000);
            // Up and down again, a queue on the path each.
            let depth = if tree { 4 } else { 2 };
            assert_eq!((few.1, many.1), (2 * depth, 2 * depth));
            assert!(few.0 > 0, "steps are counted");
            // log 10,000 / log 1,000 is 4 / 3.
            assert!(many.0 * 3 <= few.0 * 4, "{many:?} of 10,000 queues, {few:?} of 1,000");
        }
    }
}

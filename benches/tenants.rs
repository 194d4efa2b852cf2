//! Cost of decisions about quota with 1,000 and with 10,000 queues.
//!
//! Run it with `cargo bench --features full --bench tenants`. Half of the queues use 5 of 10, half 15 of 10, ten claims
//! a queue on average; "flat" is one cohort, "tree" a root, cohorts of 100 queues and in each cohorts of
//! 10, each of which is balanced in itself; "classical" and "fair" are Kueue's rules, "default" those of
//! `Tenants::default`. It prints a pass over the queues, the time to build the books, of a change of use,
//! of a head that fits, of a head that reclaims from one, of 1,000 heads in order that all fit, and of
//! 100 heads that each reclaim from one; and each as a multiple of the pass. Of decisions it is the
//! median, of rounds of 100 and 1,000 heads the smallest time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, Head, KueueSettings, PodSet, Queue, QueueId, QueueKind,
    QueuePreemption, QueuePreemptionPolicy, Quota, Tenants,
};

const CPU: i64 = 1_000;

/// The rules of tenants.
#[derive(Debug, Clone, Copy)]
enum Rules {
    Classical,
    Fair,
    Default,
}

fn claim(name: String, queue: usize, cpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("cpu", cpus * CPU);
    Claim::new(name, format!("q{queue}")).pods(PodSet::new("main", 1, requests))
}

/// The queues; those of even number use `low` of 10, the others `high`.
fn world(queues: usize, tree: bool, rules: Rules, low: usize, high: usize) -> Tenants {
    let mut tenants = match rules {
        Rules::Classical => Tenants::kueue(),
        Rules::Fair => Tenants::kueue_with(KueueSettings::default().fair()),
        Rules::Default => Tenants::default(),
    };
    tenants.set_flavor(Flavor::new("default"));
    for at in 0..queues / 10 {
        if tree {
            let inner = Queue::inner(format!("c{at}")).parent(format!("b{}", at / 10));
            tenants.set_queue(inner).expect("sound");
            let inner = Queue::inner(format!("b{}", at / 10)).parent("root");
            tenants.set_queue(inner).expect("sound");
        }
    }
    for at in 0..queues {
        let parent = if tree { format!("c{}", at / 10) } else { "root".into() };
        let queue = Queue::leaf(format!("q{at}"))
            .parent(parent)
            .quota("default", "cpu", Quota::nominal(10 * CPU))
            .preemption(
                QueuePreemption::default().reclaim_within_cohort(QueuePreemptionPolicy::Any),
            );
        tenants.set_queue(queue).expect("sound");
    }
    let cpu = tenants.intern("default", "cpu");
    for at in 0..queues {
        for number in 0..if at % 2 == 0 { low } else { high } {
            let claim = claim(format!("w{at}-{number}"), at, 1);
            let since = Time::from_secs((at * 31 + number * 17) as u64 % 10_000);
            let usage = [(cpu, CPU)].into_iter().collect();
            tenants.restore(&claim, &usage, since).expect("in range");
        }
    }
    tenants
}

fn leaf(tenants: &Tenants, at: usize) -> QueueId {
    tenants.tree().queue(QueueKind::Leaf, &format!("q{at}")).expect("there")
}

/// The median time of so many runs; what a run returns is dropped outside.
fn median<S, R>(runs: usize, prepare: impl FnMut(usize) -> S, run: impl FnMut(S) -> R) -> Duration {
    times(runs, prepare, run)[runs / 2]
}

/// The smallest time of so many runs: one of milliseconds is interrupted more often than not where
/// others use the machine.
fn smallest<S, R>(
    runs: usize,
    prepare: impl FnMut(usize) -> S,
    run: impl FnMut(S) -> R,
) -> Duration {
    times(runs, prepare, run)[0]
}

/// The times of so many runs, in order.
fn times<S, R>(
    runs: usize,
    mut prepare: impl FnMut(usize) -> S,
    mut run: impl FnMut(S) -> R,
) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..runs)
        .map(|number| {
            let state = prepare(number);
            let start = Instant::now();
            let result = black_box(run(state));
            let time = start.elapsed();
            drop(result);
            time
        })
        .collect();
    times.sort_unstable();
    times
}

fn head(claim: &Claim, tenants: &mut Tenants) -> (QueueId, Head) {
    let decision = tenants.decide(claim).expect("sound");
    let queue = tenants.tree().queue(QueueKind::Leaf, &claim.queue).expect("there");
    let mut head = Head::new(claim.name.clone(), decision.assignment.usage);
    head.level = decision.assignment.level;
    head.preempts = !decision.victims.is_empty();
    (queue, head)
}

fn measure(queues: usize, tree: bool, rules: Rules) {
    let mut tenants = world(queues, tree, rules, 5, 15);
    let cpu = tenants.intern("default", "cpu");
    let ids: Vec<QueueId> = (0..queues).map(|at| leaf(&tenants, at)).collect();
    let pass = median(
        101,
        |_| (),
        |()| {
            let sums = ids.iter().map(|id| tenants.tree().sums(*id, cpu).used);
            black_box(sums.sum::<i64>());
        },
    );
    let kind = format!(
        "{queues} queues, {}, {}",
        if tree { "tree" } else { "flat" },
        match rules {
            Rules::Classical => "classical",
            Rules::Fair => "fair",
            Rules::Default => "default",
        }
    );
    let print = |what: &str, time: Duration| {
        let ratio = time.as_secs_f64() / pass.as_secs_f64();
        println!("{kind:38} {what:34} {:>12.2} us {ratio:>10.2} passes", time.as_secs_f64() * 1e6);
    };
    print("pass over the queues", pass);
    // The index is made at the first search.
    let reclaim = claim("in".into(), 0, 1);
    let start = Instant::now();
    assert_eq!(tenants.decide(&reclaim).expect("sound").victims.len(), 1);
    print("first search, with the index", start.elapsed());
    let usage = [(cpu, CPU)].into_iter().collect();
    let time = median(
        1_001,
        |number| claim(format!("x{number}"), number % queues, 1),
        |claim| {
            let holder = tenants.restore(&claim, &usage, Time::ZERO).expect("in range");
            tenants.release(holder).expect("held");
        },
    );
    print("admit and release", time);
    let time = median(
        1_001,
        |number| claim("in".into(), number * 2 % queues, 1),
        |claim| {
            let decision = tenants.decide(&claim).expect("sound");
            assert_eq!(black_box(decision).victims.len(), 1);
        },
    );
    print("a head that reclaims from one", time);
    let five = |number: usize| claim("in".into(), number * 2 % queues, 5);
    let time = median(1_001, five, |claim| {
        let decision = tenants.decide(&claim).expect("sound");
        assert_eq!(black_box(decision).victims.len(), 5);
    });
    print("a head that reclaims from five", time);

    let mut room = world(queues, tree, rules, 5, 9);
    let time = median(
        1_001,
        |number| claim("in".into(), number * 2 % queues, 1),
        |claim| {
            let decision = room.decide(&claim).expect("sound");
            assert_eq!(black_box(decision).assignment.mode, AssignmentMode::Fit);
        },
    );
    print("a head that fits", time);
    let claims: Vec<Claim> = (0..1_000).map(|at| claim(format!("h{at}"), at, 1)).collect();
    let time = smallest(
        31,
        |_| room.clone(),
        |mut room| {
            let mut order = room.heads();
            for claim in &claims {
                let (queue, head) = head(claim, &mut room);
                order.set(&mut room, queue, head);
            }
            while let Some((queue, head)) = order.pop(&mut room) {
                assert!(room.fits(queue, &head.usage, &[]));
                room.keep(queue, &head.usage, 1).expect("in range");
                order.changed(&mut room, queue);
            }
            room
        },
    );
    print("1,000 heads that fit, in order", time);
    let claims: Vec<Claim> = (0..100).map(|at| claim(format!("h{at}"), at * 10, 1)).collect();
    let time = smallest(
        31,
        |_| tenants.clone(),
        |mut tenants| {
            let mut order = tenants.heads();
            let mut victims = Vec::new();
            for claim in &claims {
                let (queue, head) = head(claim, &mut tenants);
                order.set(&mut tenants, queue, head);
            }
            while let Some((queue, head)) = order.pop(&mut tenants) {
                let at = claims.iter().position(|claim| claim.name == head.name).expect("ours");
                // Victims of the heads before are gone.
                let decision = tenants.decide(&claims[at]).expect("sound");
                assert_eq!(decision.victims.len(), 1);
                for victim in decision.victims {
                    victims.push(tenants.release(victim.holder).expect("held"));
                }
                let assignment = &decision.assignment;
                tenants.admit(&claims[at], assignment, Time::ZERO).expect("in range");
                order.changed(&mut tenants, queue);
            }
            (tenants, victims)
        },
    );
    print("100 heads that reclaim from one", time);
}

fn main() {
    println!("simd: {}", phalanx::framework::math::simd_level());
    // `cargo test --benches` runs one small scene.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let sizes: &[usize] = if quick { &[1_000] } else { &[1_000, 10_000] };
    for &queues in sizes {
        for tree in [false, true] {
            for rules in [Rules::Classical, Rules::Fair, Rules::Default] {
                measure(queues, tree, rules);
            }
        }
    }
}

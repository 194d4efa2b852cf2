//! Past usage that decays: against the integral by its definition, in the order of turns, and in KAI's
//! division.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::model::Amounts;
use phalanx::queue::{PriorityThenTime, SavedScheduler};
use phalanx::quota::kai::KaiSettings;
use phalanx::quota::{
    Claim, Flavor, HolderId, PodSet, Queue, QueueId, QueueKind, Quota, TenantSettings, Tenants,
};
use phalanx::{Framework, Scheduler, Time};

use super::scheduler::{at, cluster, finish, gang, run, scheduler};
use crate::support::budget;
use crate::support::dice::Dice;

const HOUR: u64 = 3_600;

fn decaying(hours: u64) -> Tenants {
    Tenants::with(TenantSettings::default().half_life(Duration::from_secs(hours * HOUR)))
}

fn claim(name: &str, queue: &str, gpus: i64) -> Claim {
    let requests = Amounts::new().with("gpu", gpus);
    Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
}

/// Amounts that a queue has used, from when to when.
type History = Vec<(Time, Time, i64)>;

/// The integral of the definition: each interval by itself, from the beginning.
fn integral(history: &History, now: Time, half_life: f64) -> f64 {
    let weight = |time: Time| (-(now.since(time).as_secs_f64()) / half_life).exp2();
    history.iter().map(|(from, to, used)| *used as f64 * (weight(*to) - weight(*from))).sum()
}

fn queue(tenants: &Tenants, name: &str) -> QueueId {
    let tree = tenants.tree();
    tree.queue(QueueKind::Leaf, name).or(tree.queue(QueueKind::Inner, name)).expect("known")
}

fn stream(seed: u64) {
    let dice = &mut Dice(seed);
    let half_life = 1 + dice.roll(50);
    let mut tenants = decaying(half_life);
    tenants.set_flavor(Flavor::new("all"));
    let mut parents: BTreeMap<String, &str> = BTreeMap::new();
    let state = |tenants: &mut Tenants, name: &str, parent: &str| {
        let quota = Quota::nominal(40);
        let leaf = Queue::leaf(name).parent(parent).quota("all", "gpu", quota);
        tenants.set_queue(leaf).expect("sound");
    };
    for parent in ["left", "right"] {
        tenants.set_queue(Queue::inner(parent).parent("top")).expect("sound");
    }
    for at in 0..4 {
        let (name, parent) = (format!("q{at}"), dice.of(&["left", "right"]));
        state(&mut tenants, &name, parent);
        parents.insert(name, parent);
    }
    let gpu = tenants.tree().flavor_resource("all", "gpu").expect("known");
    let mut held: Vec<(HolderId, String, i64)> = Vec::new();
    let mut past: BTreeMap<String, History> = BTreeMap::new();
    let mut now = Time::ZERO;
    for step in 0..80 {
        let next = now.after(Duration::from_millis(dice.roll(8 * HOUR * 1_000)));
        for (_, name, used) in &held {
            for queue in [name.as_str(), parents[name], "top"] {
                past.entry(queue.into()).or_default().push((now, next, *used));
            }
        }
        now = next;
        tenants.advance(now);
        match dice.roll(5) {
            0 | 1 if !held.is_empty() => {
                let (holder, ..) = held.remove(dice.roll(held.len() as u64) as usize);
                tenants.release(holder).expect("held");
            }
            2 => {
                let name = format!("q{}", dice.roll(4));
                let parent = dice.of(&["left", "right"]);
                state(&mut tenants, &name, parent);
                parents.insert(name, parent);
            }
            3 => {
                // Nothing but time passes: that changes no later answer.
            }
            _ => {
                let (name, gpus) = (format!("q{}", dice.roll(4)), 1 + dice.roll(9) as i64);
                let claim = claim(&format!("c{step}"), &name, gpus);
                let decision = tenants.decide(&claim).expect("sound");
                if let Ok(holder) = tenants.admit(&claim, &decision.assignment, now) {
                    held.push((holder, name, gpus));
                }
            }
        }
        for name in ["q0", "q1", "q2", "q3", "left", "right", "top"] {
            let expected =
                past.get(name).map_or(0.0, |own| integral(own, now, (half_life * HOUR) as f64));
            let found = tenants.past_usage(queue(&tenants, name), gpu);
            let is_near = (found - expected).abs() <= 1e-9 * (1.0 + expected.abs());
            assert!(is_near, "seed {seed}, step {step}, {name}: {found}, not {expected}");
        }
    }
}

#[test]
fn the_average_is_the_integral_of_all_that_was_used() {
    for seed in 0..budget::of(60, 3_000) {
        stream(seed);
    }
}

/// Two queues without guarantees in a pool of 8 GPUs.
fn pool(tenants: Tenants) -> Tenants {
    let mut tenants = tenants;
    tenants.set_flavor(Flavor::new("all"));
    let root = Queue::inner("labs").quota("all", "gpu", Quota::nominal(8));
    tenants.set_queue(root).expect("sound");
    for name in ["a", "b"] {
        let queue = Queue::leaf(name).parent("labs").quota("all", "gpu", Quota::nominal(0));
        tenants.set_queue(queue).expect("sound");
    }
    tenants
}

/// `a` has used all for some hours. Then both queues ask for all, `a` first.
fn first_after(tenants: Tenants, idle_hours: u64, saved: bool) -> Vec<String> {
    let mut scheduler = scheduler(cluster(1, 8), pool(tenants));
    scheduler.handle_group(gang("a1", "a", 1, 8), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), ["default/a1"]);
    finish(&mut scheduler, "a1", 1, at(48 * HOUR));
    assert_eq!(run(&mut scheduler, at(48 * HOUR)), Vec::<String>::new());
    if saved {
        let text = serde_json::to_string(&scheduler.save()).expect("data");
        let state: SavedScheduler = serde_json::from_str(&text).expect("data");
        let again = Scheduler::restore(state, Framework::default(), PriorityThenTime);
        assert_eq!(serde_json::to_string(&again.save()).expect("data"), text);
        scheduler = again;
    }
    let now = (48 + idle_hours) * HOUR;
    for (seconds, name) in [(0, "a2"), (1, "b2")] {
        let group = gang(name, &name[..1], 1, 8);
        scheduler.handle_group(group, at(now + seconds)).expect("sound");
    }
    run(&mut scheduler, at(now + 1))
}

#[test]
fn the_queue_that_has_used_less_goes_first_until_that_is_forgotten() {
    assert_eq!(first_after(Tenants::default(), 1, false), ["default/a2"], "it waits longer");
    assert_eq!(first_after(decaying(24), 1, false), ["default/b2"], "it has used less");
    assert_eq!(first_after(decaying(24), 1, true), ["default/b2"], "the same after a restart");
    // 40 half-lives later less than one GPU is left of it.
    assert_eq!(first_after(decaying(1), 40, false), ["default/a2"]);
}

#[test]
fn kais_division_counts_what_queues_have_used() {
    let divided = |factor: Option<u64>| {
        let mut settings = KaiSettings::default().capacity("gpu", 12);
        if let Some(factor) = factor {
            settings = settings.half_life(Duration::from_secs(24 * HOUR), factor);
        }
        let mut tenants = Tenants::kai_with(settings);
        tenants.set_flavor(Flavor::new("all"));
        for name in ["a", "b"] {
            let quota = Quota::default().deserved(0);
            tenants.set_queue(Queue::leaf(name).quota("all", "gpu", quota)).expect("sound");
        }
        let gpu = tenants.tree().flavor_resource("all", "gpu").expect("known");
        let old = claim("old", "a", 6);
        let decision = tenants.decide(&old).expect("sound");
        let holder = tenants.admit(&old, &decision.assignment, Time::ZERO).expect("sound");
        tenants.advance(at(24 * HOUR));
        tenants.release(holder).expect("held");
        for name in ["a", "b"] {
            let leaf = tenants.tree().queue(QueueKind::Leaf, name).expect("known");
            tenants.wait(leaf, gpu, 12).expect("sound");
        }
        ["a", "b"].map(|name| {
            let leaf = tenants.tree().queue(QueueKind::Leaf, name).expect("known");
            tenants.deserved(leaf, gpu)
        })
    };
    assert_eq!(divided(None), [6, 6]);
    // `a` has used 6 of 12 for one half-life: an average of 3, a quarter of the whole. With k = 1 its
    // weight is 1/2 + (1/2 − 1/4) = 3/4, that of `b` is 1: of 12, 5.1 and 6.9. The rest goes to `b`.
    assert_eq!(divided(Some(1_000_000_000)), [5, 7]);
    assert_eq!(divided(Some(0)), [6, 6], "it counts for nothing");
}

//! The work of the queue on fixed streams: attempts, counts of capacity, groups looked at. A wake-up too
//! many, or a bound that holds nobody back, changes no start: it shows here alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::framework::{Context, Declaration, FilterPlugin, FilterPreparation};
use phalanx::model::PodShape;
use phalanx::plugins::Fit;
use phalanx::queue::{Backfill, Gone, PreemptionSettings, Settings};
use phalanx::{Decision, Event, Framework, Pod, PodGroup, Scheduler};

use super::steps::*;
use crate::support::dice::Dice;

/// Jobs of several shapes arrive and end on twenty nodes, always more of them than there is room
/// for. Attempts, counts of capacity, those in vain, groups and nodes looked at.
fn work(settings: Settings) -> [u64; 5] {
    work_with(Framework::default(), settings)
}

fn work_with(framework: Framework, settings: Settings) -> [u64; 5] {
    let mut dice = Dice(11);
    let mut scheduler = Scheduler::new(gpus(20, 8), framework, settings);
    let mut ends: BTreeMap<u64, Vec<(String, usize)>> = BTreeMap::new();
    let mut jobs: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for second in 0..120 {
        for (name, size) in ends.remove(&second).unwrap_or_default() {
            for member in 0..size {
                let gone = Gone::finished("default", &format!("{name}-{member}"));
                scheduler.handle_gone(gone, at(second)).unwrap();
            }
        }
        for number in 0..2 {
            let (name, size) = (format!("j{second}-{number}"), 1 + dice.roll(6) as usize);
            let pod = Pod::new().request(GPU, [1, 2, 4, 8][dice.roll(4) as usize]);
            let span = 5 + dice.roll(30);
            let group = PodGroup::gang(&name, size as u32).pods(size, pod);
            let group = group.run_time_estimate(Duration::from_secs(span));
            let group = if dice.one_in(3) { group.require("rack") } else { group };
            scheduler.handle_group(group.priority(dice.roll(3) as i32), at(second)).unwrap();
            jobs.insert(format!("default/{name}"), (size, span));
        }
        for name in bind_all(&mut scheduler, at(second)) {
            let (size, span) = jobs[name.as_str()];
            ends.entry(second + span).or_default().push((name.name().to_owned(), size));
        }
    }
    scheduler.check().unwrap();
    let (stats, metrics) = (scheduler.wake_stats(), scheduler.metrics());
    assert!(metrics.started > 60, "{}", metrics.started);
    let looked_at = [stats.groups_checked, stats.reserved_nodes];
    [metrics.attempts, stats.capacity_checks, stats.still_short, looked_at[0], looked_at[1]]
}

fn takes_at_most(settings: Settings, most: [u64; 5]) {
    let work = work(settings);
    assert!(work.iter().zip(most).all(|(own, most)| *own <= most), "{work:?}");
}

#[test]
fn groups_that_wait_for_room_cost_few_attempts_and_counts() {
    takes_at_most(Settings::new(), [324, 3_668, 0, 1_352, 0]);
}

#[test]
fn groups_behind_a_promise_cost_few_attempts_and_counts() {
    takes_at_most(Settings::new().backfill(Backfill::easy()), [710, 0, 0, 716, 0]);
}

#[test]
fn groups_that_each_have_a_promise_cost_few_attempts_and_counts() {
    takes_at_most(Settings::new().backfill(Backfill::conservative()), [100, 0, 0, 632, 0]);
}

/// [`Fit`], with the number of times that it was prepared: for a count of room on nodes that have changed,
/// for a pod that is judged at a commit, and for the table of a shape.
struct Counted(AtomicU64);

impl FilterPlugin for Counted {
    fn name(&self) -> &str {
        "Counted"
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        Fit.declare(pod)
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        self.0.fetch_add(1, Ordering::Relaxed);
        Arc::new(Fit).prepare(cx)
    }
}

/// The times that a filter is prepared in a stream.
fn preparations(rule: Backfill) -> u64 {
    let counted = Arc::new(Counted(AtomicU64::new(0)));
    let framework = Framework::builder().filter(Arc::clone(&counted)).build().unwrap();
    work_with(framework, Settings::new().backfill(rule));
    counted.0.load(Ordering::Relaxed)
}

#[test]
fn counts_and_plans_that_nothing_has_changed_are_not_made_again() {
    let made = [Backfill::easy(), Backfill::conservative()].map(preparations);
    assert!(made[0] <= 4_431 && made[1] <= 331, "{made:?}");
}

#[test]
fn a_claim_is_looked_at_again_only_where_its_nodes_change() {
    const CLAIMS: u64 = 40;
    let counted = Arc::new(Counted(AtomicU64::new(0)));
    let framework = Framework::builder().filter(Arc::clone(&counted)).build().unwrap();
    let settings = Settings::new().preemption(PreemptionSettings::new());
    let mut scheduler = Scheduler::new(gpus(CLAIMS as usize, 1), framework, settings);
    for n in 0..CLAIMS {
        let pod = gpu().name(format!("p{n}")).on(format!("n{n:04}"));
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
        scheduler.handle_group(gang(&format!("g{n}"), 1).priority(10), at(1)).unwrap();
    }
    let mut victims = Vec::new();
    while let Some(decision) = scheduler.poll_decision(at(1)) {
        let Decision::Evict { victims: own, .. } = decision else { panic!("{decision:?}") };
        victims.extend(own.into_iter().flat_map(|own| own.pods));
    }
    assert_eq!(victims.len() as u64, CLAIMS);
    let before = counted.0.load(Ordering::Relaxed);
    for pod in victims {
        delete(&mut scheduler, &pod.name, at(2));
        assert_eq!(bind_all(&mut scheduler, at(2)).len(), 1);
    }
    let made = counted.0.load(Ordering::Relaxed) - before;
    assert!(made <= 7 * CLAIMS, "{made} preparations for {CLAIMS} claims");
}

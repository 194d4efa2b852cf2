//! Phase 2a: the level and the domains that hold a request.
//!
//! Source: Kueue's `tas_flavor_snapshot.go` and the algorithm matrix of KEP-2724.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::counts::{Counts, Measure, Survey};
use super::request::Plan;
use super::tree::Tree;
use crate::place::failure::{Failure, KueueRoom, LayerRoom, Unit};

/// Sorts domains of one level for pods without a leader: by score, room, pods, path.
pub(super) fn sort(domains: &mut [usize], counts: &[Counts], plan: &Plan, least_free: bool) {
    domains.sort_by(|&a, &b| {
        let (one, other) = (&counts[a], &counts[b]);
        by_score(one, other, plan)
            .then(by_room(one.slices, other.slices, least_free))
            .then(one.pods.cmp(&other.pods))
            .then(a.cmp(&b))
    });
}

/// Sorts domains of one level for pods with a leader: those with room for it first.
pub(super) fn sort_with_leader(
    domains: &mut [usize],
    counts: &[Counts],
    plan: &Plan,
    least_free: bool,
) {
    domains.sort_by(|&a, &b| {
        let (one, other) = (&counts[a], &counts[b]);
        other
            .leaders
            .cmp(&one.leaders)
            .then(by_score(one, other, plan))
            .then(by_room(one.slices_with_leader, other.slices_with_leader, least_free))
            .then(one.pods_with_leader.cmp(&other.pods_with_leader))
            .then(a.cmp(&b))
    });
}

fn by_score(one: &Counts, other: &Counts, plan: &Plan) -> Ordering {
    if plan.by_score { other.score.cmp(&one.score) } else { Ordering::Equal }
}

fn by_room(one: i64, other: i64, least_free: bool) -> Ordering {
    if least_free { one.cmp(&other) } else { other.cmp(&one) }
}

/// Among sorted domains, the first of those with the smallest room that is enough; if there is
/// none, the first domain. Only domains with the best score are looked at.
pub(super) fn best_fit(
    sorted: &[usize],
    counts: &[Counts],
    plan: &Plan,
    needed: i64,
    leaders: i64,
    measure: Measure,
) -> Option<usize> {
    let first = *sorted.first()?;
    let tier = sorted
        .iter()
        .copied()
        .take_while(|&id| !plan.by_score || counts[id].score == counts[first].score);
    let room = |id: usize| counts[id].room(measure, leaders > 0);
    tier.filter(|&id| counts[id].leaders >= leaders && room(id) >= needed)
        .min_by_key(|&id| room(id))
        .or(Some(first))
}

/// Moves a domain for the leader to the front: the first where the leader costs no more than
/// the domains together can spare.
pub(super) fn put_leader_first(
    domains: &mut [usize],
    counts: &[Counts],
    needed: i64,
    leaders: i64,
    measure: Measure,
) {
    if leaders == 0 {
        return;
    }
    let all: i64 = domains.iter().map(|&id| counts[id].room(measure, false)).sum();
    let affordable = |&id: &usize| {
        let here = &counts[id];
        let cost = here.room(measure, false) - here.room(measure, true);
        here.leaders >= leaders && all - cost >= needed
    };
    if let Some(at) = domains.iter().position(affordable) {
        domains[..=at].rotate_right(1);
    }
}

/// The level to descend from, and domains of that level that together hold the request.
pub(super) fn choose(
    tree: &Tree,
    counts: &[Counts],
    plan: &Plan,
    survey: &Survey,
) -> Result<(usize, Vec<usize>), Failure> {
    let slices = plan.slices();
    let holds =
        |id: usize| counts[id].slices_with_leader >= slices && counts[id].leaders >= plan.leaders;
    let fit = |sorted: &[usize], needed, leaders| {
        best_fit(sorted, counts, plan, needed, leaders, Measure::Slices)
    };
    let mut level = plan.level;
    loop {
        let no_fit = |fits: i64| {
            let room = if plan.layers.is_empty() {
                let unit = if plan.slice_size == 1 { Unit::Pod } else { Unit::Slice };
                KueueRoom::Whole { fits: fits.max(0) as u64, of: slices as u64, unit }
            } else {
                layer_room(tree, counts, plan, level)
            };
            Err(Failure::NoFit(survey.no_fit(room)))
        };
        let mut sorted = tree.by_level[level].clone();
        sort_with_leader(&mut sorted, counts, plan, plan.least_free);
        let Some(&first) = sorted.first() else {
            return Err(Failure::NoDomains { level: tree.levels[level].clone() });
        };
        if plan.least_free {
            if let Some(&id) = sorted.iter().find(|&&id| holds(id)) {
                return Ok((level, vec![id]));
            }
            if plan.required {
                return no_fit(sorted.last().map_or(0, |&id| counts[id].pods));
            }
        } else if holds(first) {
            let one = fit(&sorted, slices, plan.leaders).unwrap_or(first);
            return Ok((level, vec![one]));
        }
        if plan.required {
            // Sorted by score, a domain with room may come after one without.
            let other = sorted.iter().skip(1).position(|&id| holds(id)).map(|at| at + 1);
            if let Some(at) = other.filter(|_| plan.by_score) {
                let one = fit(&sorted[at..], slices, plan.leaders).unwrap_or(sorted[at]);
                return Ok((level, vec![one]));
            }
            return no_fit(counts[first].slices);
        }
        if level > 0 && !plan.unconstrained {
            level -= 1;
            continue;
        }
        return match spread(&mut sorted, counts, plan) {
            Ok(domains) => Ok((level, domains)),
            Err(fits) => no_fit(fits),
        };
    }
}

/// Several domains that together hold the request, greedily: the leader's first, then by room.
/// Otherwise the number of units that fit.
fn spread(sorted: &mut [usize], counts: &[Counts], plan: &Plan) -> Result<Vec<usize>, i64> {
    let needed = plan.slices();
    let (mut slices, mut leaders) = (needed, plan.leaders);
    let mut chosen = Vec::new();
    put_leader_first(sorted, counts, slices, leaders, Measure::Slices);
    let mut at = 0;
    while leaders > 0 && at < sorted.len() && counts[sorted[at]].leaders > 0 {
        let mut id = sorted[at];
        if !plan.least_free && counts[id].slices_with_leader >= slices {
            let rest = &sorted[at..];
            id = best_fit(rest, counts, plan, slices, leaders, Measure::Slices).unwrap_or(id);
        }
        chosen.push(id);
        leaders -= counts[id].leaders;
        slices -= counts[id].slices_with_leader;
        at += 1;
    }
    if leaders > 0 {
        return Err(plan.leaders - leaders);
    }
    let rest = &mut sorted[at..];
    sort(rest, counts, plan, plan.least_free);
    for at in 0..rest.len() {
        if slices <= 0 {
            break;
        }
        let mut id = rest[at];
        if !plan.least_free && counts[id].slices >= slices {
            let rest = &rest[at..];
            id = best_fit(rest, counts, plan, slices, 0, Measure::Slices).unwrap_or(id);
        }
        chosen.push(id);
        slices -= counts[id].slices;
    }
    if slices > 0 { Err(needed - slices) } else { Ok(chosen) }
}

/// The room for every slice layer in the domain of a level that holds most slices.
fn layer_room(tree: &Tree, counts: &[Counts], plan: &Plan, level: usize) -> KueueRoom {
    let domains = tree.by_level[level].iter().copied();
    let best = domains.max_by(|&a, &b| counts[a].slices.cmp(&counts[b].slices).then(b.cmp(&a)));
    let below = best.map_or(0..0, |best| best..tree.domains[best].end);
    let room = |&(level, size): &(usize, i64)| {
        let domains = below.clone().filter(|&id| tree.domains[id].level == level);
        let fits: i64 = domains.map(|id| counts[id].pods / size).sum();
        let level = tree.levels[level].clone();
        LayerRoom { level, fits: fits as u64, of: (plan.count / size) as u64 }
    };
    KueueRoom::Layers(plan.layers.iter().map(room).collect())
}

//! Phase 2b: from the chosen domains down to the leaves.
//!
//! Source: Kueue's `tas_flavor_snapshot.go`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::counts::{Counts, Measure};
use super::request::Plan;
use super::select::{best_fit, put_leader_first, sort};
use super::tree::Tree;

/// Pods by leaf, as domain numbers.
#[derive(Debug, Default)]
pub(super) struct Placement {
    pub(super) workers: BTreeMap<usize, i64>,
    pub(super) leader: BTreeMap<usize, i64>,
}

/// Pods or slices to divide over domains.
#[derive(Clone, Copy)]
struct Share {
    count: i64,
    leaders: i64,
    /// Pods that stay together; 1 hands out single pods.
    size: i64,
    measure: Measure,
}

/// Places a request below domains of `level` that hold it.
///
/// Above the slice level the children of all domains are one pool, unless the shares are fixed
/// already (`balanced`); below, every domain divides its share among its own children.
pub(super) fn descend(
    tree: &Tree,
    counts: &mut [Counts],
    plan: &Plan,
    level: usize,
    domains: Vec<usize>,
    balanced: bool,
) -> Placement {
    let finest = tree.levels.len() - 1;
    let Plan { count, leaders, slice_size: size, .. } = *plan;
    let whole = Share { count, leaders, size, measure: Measure::Slices };
    let mut level = level;
    let mut domains = hand_out(domains, counts, plan, whole);
    while level < finest.min(plan.slice_level) && !balanced {
        let children = domains.iter().flat_map(|&id| tree.domains[id].children.iter().copied());
        let mut children: Vec<usize> = children.collect();
        sort(&mut children, counts, plan, plan.least_free);
        domains = hand_out(children, counts, plan, whole);
        level += 1;
    }
    while level < finest {
        let size = if level < plan.slice_level {
            plan.slice_size
        } else {
            plan.inner.get(level + 1).copied().flatten().unwrap_or(1)
        };
        let measure = if size > 1 { Measure::Slices } else { Measure::Pods };
        let mut lower = Vec::new();
        for id in domains {
            let mut children = tree.domains[id].children.clone();
            sort(&mut children, counts, plan, plan.least_free);
            if size > 1 {
                for &child in &children {
                    let child = &mut counts[child];
                    child.slices = child.pods / size;
                    child.slices_with_leader = child.pods_with_leader / size;
                }
            }
            let Counts { pods: count, leaders, .. } = counts[id];
            lower.extend(hand_out(children, counts, plan, Share { count, leaders, size, measure }));
        }
        domains = lower;
        level += 1;
    }
    let mut placement = Placement::default();
    for id in domains {
        for (pods, of) in
            [(counts[id].pods, &mut placement.workers), (counts[id].leaders, &mut placement.leader)]
        {
            if pods > 0 {
                *of.entry(id).or_default() += pods;
            }
        }
    }
    placement
}

/// Hands a share out over sorted domains: as much as fits to each in turn, the rest to the
/// domain it fits best. Returns the domains that got something, with their counts set to it;
/// none if the domains do not hold the share.
fn hand_out(
    mut domains: Vec<usize>,
    counts: &mut [Counts],
    plan: &Plan,
    share: Share,
) -> Vec<usize> {
    let Share { size, measure, .. } = share;
    let (mut left, mut leaders) = (share.count / size, share.leaders);
    put_leader_first(&mut domains, counts, left, leaders, measure);
    let mut used = Vec::new();
    for at in 0..domains.len() {
        let with_leader = leaders > 0;
        let enough = |id: usize, counts: &[Counts]| {
            counts[id].room(measure, with_leader) >= left && counts[id].leaders >= leaders
        };
        let mut id = domains[at];
        if !plan.least_free && enough(id, counts) {
            id = best_fit(&domains[at..], counts, plan, left, leaders, measure).unwrap_or(id);
        }
        let last = enough(id, counts);
        let given = if last { left } else { counts[id].room(measure, with_leader).min(left) };
        let own = &mut counts[id];
        own.leaders = own.leaders.min(leaders);
        own.pods = given * size;
        if measure == Measure::Slices {
            own.slices = given;
        }
        if with_leader && !last {
            match measure {
                Measure::Pods => own.pods_with_leader = given,
                Measure::Slices => own.slices_with_leader = given,
            }
        }
        left -= given;
        leaders -= own.leaders;
        used.push(id);
        if last {
            return used;
        }
    }
    Vec::new()
}

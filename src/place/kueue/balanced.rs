//! Balanced placement: an even spread over as few domains as a greedy choice needs.
//!
//! Source: Kueue's `tas_balanced_placement.go`. Slice layers inside the outermost one are not
//! looked at here, as in Kueue.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::counts::{Counts, roll_up};
use super::request::Plan;
use super::select::{sort, sort_with_leader};
use super::tree::Tree;

/// Domains with fixed shares to descend from.
pub(super) struct Balanced {
    pub(super) level: usize,
    pub(super) domains: Vec<usize>,
    pub(super) counts: Vec<Counts>,
}

/// The result of a greedy choice of domains.
#[derive(Clone, Copy)]
struct Greedy {
    domains: i64,
    last_with_leader: Option<usize>,
    last: Option<usize>,
}

/// An even spread of the request below one domain above the requested level, if there is one.
pub(super) fn balance(tree: &Tree, counts: &[Counts], plan: &Plan) -> Option<Balanced> {
    let mut trial = counts.to_vec();
    let (siblings, threshold) = best_siblings(tree, counts, &mut trial, plan)?;
    let (level, candidates) = if plan.level < plan.slice_level {
        let mut ordered = siblings;
        let disorder: BTreeMap<usize, f64> =
            ordered.iter().map(|&id| (id, entropy(&tree.domains[id].children, &trial))).collect();
        ordered.sort_by(|&a, &b| {
            let (one, other) = (&trial[a], &trial[b]);
            let disorder = |id| disorder.get(&id).copied().unwrap_or(0.0);
            (other.leaders.cmp(&one.leaders))
                .then(other.slices_with_leader.cmp(&one.slices_with_leader))
                .then(disorder(b).partial_cmp(&disorder(a)).unwrap_or(Ordering::Equal))
                .then(a.cmp(&b))
        });
        let chosen = tightest_set(&ordered, &trial, plan)?;
        (plan.level + 1, children_of(tree, &chosen))
    } else {
        (plan.level, siblings)
    };
    let mut ordered = candidates;
    ordered.sort_unstable();
    let mut domains = tightest_set(&ordered, &trial, plan)?;
    set_shares(&mut domains, &mut trial, plan, threshold)?;
    Some(Balanced { level, domains, counts: trial })
}

/// The siblings at the requested level that allow the largest share for everyone, and that
/// share in slices; `trial` is left with the counts of domains that hold the share.
fn best_siblings(
    tree: &Tree,
    counts: &[Counts],
    trial: &mut [Counts],
    plan: &Plan,
) -> Option<(Vec<usize>, i64)> {
    let families: Vec<Vec<usize>> = match plan.level.checked_sub(1) {
        None => vec![tree.by_level[0].clone()],
        Some(above) => {
            tree.by_level[above].iter().map(|&id| tree.domains[id].children.clone()).collect()
        }
    };
    let mut best: Option<(Vec<usize>, i64, i64)> = None;
    for siblings in families {
        let bar = best.as_ref().map_or(1, |best| best.1);
        let lower = if plan.level < plan.slice_level {
            children_of(tree, &siblings)
        } else {
            siblings.clone()
        };
        let Some(greedy) = greedy(&lower, trial, plan) else { continue };
        let mut share = plan.slices().checked_div(greedy.domains).unwrap_or(0);
        if let Some(id) = greedy.last_with_leader {
            share = share.min(counts[id].slices_with_leader);
        }
        let mut with_reserve = share;
        if let Some(id) = greedy.last {
            share = share.min(counts[id].slices);
            with_reserve = share;
            if plan.leaders > 0 {
                with_reserve = share.min(counts[id].slices_with_leader);
            }
        }
        if share < bar {
            continue;
        }
        prune(tree, &siblings, trial, plan, share);
        let mut domains = self::greedy(&siblings, trial, plan);
        if domains.is_none() && with_reserve < share && with_reserve >= bar {
            // Once more with a smaller share, which leaves room for the leader.
            share = with_reserve;
            for &id in &siblings {
                let subtree = id..tree.domains[id].end;
                trial[subtree.clone()].copy_from_slice(&counts[subtree]);
            }
            prune(tree, &siblings, trial, plan, share);
            domains = self::greedy(&siblings, trial, plan);
        }
        let Some(domains) = domains.map(|greedy| greedy.domains) else { continue };
        let better = |&(_, bar, fewest): &(Vec<usize>, i64, i64)| {
            share > bar || share == bar && domains < fewest
        };
        if best.as_ref().is_none_or(better) {
            best = Some((siblings, share, domains));
        }
    }
    best.map(|(siblings, share, _)| (siblings, share))
}

fn children_of(tree: &Tree, domains: &[usize]) -> Vec<usize> {
    domains.iter().flat_map(|&id| tree.domains[id].children.iter().copied()).collect()
}

/// Takes domains by best fit, the leader's first; `None` if all together are too small.
fn greedy(domains: &[usize], counts: &[Counts], plan: &Plan) -> Option<Greedy> {
    let (mut slices, mut leaders) = (plan.slices(), plan.leaders);
    let mut result = Greedy { domains: 0, last_with_leader: None, last: None };
    let mut rest = domains.to_vec();
    if leaders > 0 {
        sort_with_leader(&mut rest, counts, plan, false);
        let mut used = 0;
        for &id in rest.iter().take_while(|&&id| counts[id].leaders > 0) {
            if leaders <= 0 {
                break;
            }
            used += 1;
            result.last_with_leader = Some(id);
            leaders -= counts[id].leaders;
            slices -= counts[id].slices_with_leader;
        }
        if leaders > 0 {
            return None;
        }
        result.domains += used;
        rest.drain(..used as usize);
    }
    sort(&mut rest, counts, plan, false);
    for &id in rest.iter().take_while(|&&id| counts[id].slices > 0) {
        if slices <= 0 {
            break;
        }
        result.domains += 1;
        result.last = Some(id);
        slices -= counts[id].slices;
    }
    (slices <= 0).then_some(result)
}

/// Empties the domains, and their children, that hold less than a share.
fn prune(tree: &Tree, siblings: &[usize], counts: &mut [Counts], plan: &Plan, share: i64) {
    let check = |counts: &mut [Counts], id: usize| {
        let too_small = counts[id].slices < share;
        let leader = plan.leaders > 0 && counts[id].leaders > 0;
        if too_small || leader && counts[id].slices_with_leader < share {
            for below in &mut counts[id..tree.domains[id].end] {
                if too_small {
                    *below = Counts { score: below.score, ..Counts::default() };
                } else {
                    below.leaders = 0;
                    below.pods_with_leader = 0;
                    below.slices_with_leader = 0;
                }
            }
        }
    };
    for &id in siblings {
        for &child in &tree.domains[id].children {
            check(counts, child);
        }
        roll_up(tree, counts, id..tree.domains[id].end, plan, &[]);
        check(counts, id);
    }
}

/// Sets of domains looked at before [`tightest_set`] gives up and best fit takes over; Kueue has no
/// such limit.
const MOST_CHAINS: usize = 1 << 21;

/// Among the sets with as few domains as the greedy choice needs, one with the least room to spare;
/// of those, the first in the order of `domains`.
fn tightest_set(domains: &[usize], counts: &[Counts], plan: &Plan) -> Option<Vec<usize>> {
    let size = usize::try_from(greedy(domains, counts, plan)?.domains).ok()?;
    // Chains of chosen domains: the domain and the chain before it.
    let mut chains: Vec<(usize, Option<usize>)> = Vec::new();
    // By number of domains: leaders and pods left to place, and the first chain that gets there.
    let mut sets: Vec<BTreeMap<(i64, i64), Option<usize>>> = vec![BTreeMap::new(); size + 1];
    sets[0].insert((plan.leaders, plan.slices() * plan.slice_size), None);
    for &id in domains {
        if chains.len() > MOST_CHAINS {
            return None;
        }
        let here = &counts[id];
        for taken in (1..=size).rev() {
            let (before, after) = sets.split_at_mut(taken);
            let (Some(before), Some(after)) = (before.last(), after.first_mut()) else { continue };
            for (&(leaders, pods), &chain) in before {
                if leaders <= 0 && pods <= 0 {
                    continue;
                }
                let with_leader = (leaders > 0 && here.leaders > 0)
                    .then(|| (leaders - here.leaders, pods - here.pods_with_leader));
                let without = (here.slices > 0).then(|| (leaders, pods - here.pods));
                for left in with_leader.into_iter().chain(without) {
                    after.entry(left).or_insert_with(|| {
                        chains.push((id, chain));
                        Some(chains.len() - 1)
                    });
                }
            }
        }
    }
    let (_, &chain) = sets[size].range((0, i64::MIN)..=(0, 0)).next_back()?;
    let mut chosen = Vec::new();
    let mut next = chain;
    while let Some(at) = next {
        let (id, before) = chains[at];
        chosen.push(id);
        next = before;
    }
    chosen.reverse();
    Some(chosen)
}

/// Gives every domain the share, and what is left to the first domains in order.
fn set_shares(domains: &mut [usize], counts: &mut [Counts], plan: &Plan, share: i64) -> Option<()> {
    let mut extra = plan.slices().checked_sub(share.checked_mul(domains.len() as i64)?)?;
    if extra < 0 {
        return None;
    }
    sort_with_leader(domains, counts, plan, false);
    let mut leaders = plan.leaders;
    for &id in domains.iter() {
        let own = &mut counts[id];
        let more = if leaders > 0 {
            leaders -= 1;
            own.leaders = 1;
            (own.slices_with_leader - share).min(extra)
        } else {
            own.leaders = 0;
            if extra > 0 { (own.slices - share).min(extra) } else { 0 }
        };
        own.slices = share + more;
        own.slices_with_leader = own.slices;
        own.pods = own.slices * plan.slice_size;
        own.pods_with_leader = own.pods - own.leaders;
        extra -= more;
    }
    (extra <= 0 && leaders <= 0).then_some(())
}

/// The entropy of the pods over some domains, in bits.
fn entropy(domains: &[usize], counts: &[Counts]) -> f64 {
    let pods = || domains.iter().map(|&id| counts[id].pods).filter(|&pods| pods > 0);
    let all = pods().sum::<i64>() as f64;
    let mut sum = 0.0;
    for pods in pods() {
        let part = pods as f64 / all;
        // Exact for powers of two, so that even splits compare equal.
        let (fraction, exponent) = libm::frexp(part);
        let log2 = if fraction == 0.5 {
            f64::from(exponent - 1)
        } else {
            libm::log(fraction) * core::f64::consts::LOG2_E + f64::from(exponent)
        };
        sum += -part * log2;
    }
    sum
}

//! Brute force, without the library: every set of blocks in order, every way to place the pods.

use std::collections::BTreeSet;

use super::world::{Kind, Machine, Want, World};

/// The first set of blocks that suffices, by price, nodes, and more of the first variants.
pub(crate) fn first(world: &World) -> Option<Vec<u32>> {
    let variants = world.variants();
    let mut sets = Vec::new();
    all(world, &variants, &mut vec![0; variants.len()], 0, &mut sets);
    let key = |set: &Vec<u32>| {
        let sum = |of: &dyn Fn(usize) -> u64| -> u64 {
            set.iter().zip(&variants).map(|(n, (offer, _))| u64::from(*n) * of(*offer)).sum()
        };
        let nodes = sum(&|offer| u64::from(world.offers[offer].nodes));
        let preferred: Vec<u32> = set.iter().map(|n| u32::MAX - n).collect();
        (sum(&|offer| world.offers[offer].price), nodes, preferred)
    };
    sets.sort_by_cached_key(key);
    sets.into_iter().find(|set| suffices(world, &variants, set))
}

/// Adds every set within the limits.
fn all(
    world: &World,
    variants: &[(usize, Machine)],
    set: &mut Vec<u32>,
    at: usize,
    sets: &mut Vec<Vec<u32>>,
) {
    if at == variants.len() {
        sets.push(set.clone());
        return;
    }
    loop {
        let nodes: u32 =
            set.iter().zip(variants).map(|(n, (o, _))| n * world.offers[*o].nodes).sum();
        let offer = variants[at].0;
        let blocks: u32 =
            set.iter().zip(variants).filter(|(_, (o, _))| *o == offer).map(|(n, _)| n).sum();
        let fits = nodes <= world.max_nodes
            && world.offers[offer].limit.is_none_or(|limit| blocks <= limit);
        if !fits {
            set[at] = 0;
            return;
        }
        all(world, variants, set, at + 1, sets);
        set[at] += 1;
    }
}

/// Whether all groups can start with a set.
fn suffices(world: &World, variants: &[(usize, Machine)], set: &[u32]) -> bool {
    let mut machines = world.machines.clone();
    for (at, (count, (offer, machine))) in set.iter().zip(variants).enumerate() {
        for block in 0..*count {
            for _ in 0..world.offers[*offer].nodes {
                let mut own = machine.clone();
                if world.offers[*offer].own_rack {
                    own.rack = Some(format!("own-{at}-{block}"));
                }
                machines.push(own);
            }
        }
    }
    let total = |of: &dyn Fn(&Machine) -> i64| machines.iter().map(of).sum::<i64>();
    let asked = |of: &dyn Fn(&Kind) -> i64| -> i64 {
        let least = |want: &Want| {
            let mut amounts: Vec<i64> = want.pods.iter().map(of).collect();
            amounts.sort_unstable();
            amounts.into_iter().take(want.need).sum::<i64>()
        };
        world.wants.iter().map(least).sum()
    };
    if asked(&|kind| kind.gpu) > total(&|m| m.gpu) || asked(&|kind| kind.cpu) > total(&|m| m.cpu) {
        return false;
    }
    let mut seen = BTreeSet::new();
    groups(&mut machines, &world.wants, 0, &mut seen)
}

type State = (usize, Vec<(i64, i64, i64)>);

fn state(machines: &[Machine], at: usize) -> State {
    (at, machines.iter().map(|m| (m.cpu, m.gpu, m.pods)).collect())
}

/// Whether the groups from one on can start.
fn groups(
    machines: &mut Vec<Machine>,
    wants: &[Want],
    at: usize,
    seen: &mut BTreeSet<State>,
) -> bool {
    let Some(want) = wants.get(at) else { return true };
    if !seen.insert(state(machines, at)) {
        return false;
    }
    let domains: BTreeSet<Option<String>> = match want.require {
        None => BTreeSet::from([None]),
        Some(level) => machines.iter().filter_map(|m| m.domain(level)).map(Some).collect(),
    };
    domains.iter().any(|domain| {
        let place = Place { want, domain: domain.as_deref() };
        pods(machines, &place, (0, 0), &mut Vec::new(), &mut |machines| {
            groups(machines, wants, at + 1, seen)
        })
    })
}

struct Place<'a> {
    want: &'a Want,
    domain: Option<&'a str>,
}

/// Whether the pods of a group from one on can be placed, `placed` before them, and all that follows.
fn pods(
    machines: &mut Vec<Machine>,
    place: &Place<'_>,
    (at, placed): (usize, usize),
    chosen: &mut Vec<Option<usize>>,
    rest: &mut dyn FnMut(&mut Vec<Machine>) -> bool,
) -> bool {
    let want = place.want;
    if placed + (want.pods.len() - at) < want.need {
        return false;
    }
    if placed >= want.need {
        // Minima are all that must start.
        return rest(machines);
    }
    let kind = want.pods[at];
    // Pods that are alike and next to each other go to machines in order.
    let from = match at.checked_sub(1) {
        Some(before) if want.slice.is_none() && want.pods[before] == kind => {
            chosen[before].unwrap_or(0)
        }
        _ => 0,
    };
    for machine in from..machines.len() {
        let own = &machines[machine];
        let fits = own.takes(&kind)
            && want.require.is_none_or(|level| own.domain(level).as_deref() == place.domain)
            && want.slice.is_none_or(|size| {
                let first = at / size * size;
                let rack = own.domain("rack");
                rack.is_some()
                    && (first..at).all(|other| {
                        chosen[other].is_some_and(|other| machines[other].domain("rack") == rack)
                    })
            });
        if !fits {
            continue;
        }
        let take = |machines: &mut Vec<Machine>, sign: i64| {
            machines[machine].cpu -= sign * kind.cpu;
            machines[machine].gpu -= sign * kind.gpu;
            machines[machine].pods -= sign;
        };
        take(machines, 1);
        chosen.push(Some(machine));
        let found = pods(machines, place, (at + 1, placed + 1), chosen, rest);
        chosen.pop();
        take(machines, -1);
        if found {
            return true;
        }
    }
    if want.need == want.pods.len() {
        return false;
    }
    chosen.push(None);
    let found = pods(machines, place, (at + 1, placed), chosen, rest);
    chosen.pop();
    found
}

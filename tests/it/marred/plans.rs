//! Plans that were altered: refused when they are read or committed, or nothing breaks by them.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::model::DeviceAsk;
use phalanx::{Cluster, Outcome, Plan, Planner};
use serde_json::Value;

use super::{Fate, mar};
use crate::lifecycle::world::{DEVICES, FRAMEWORKS, Random, cluster, framework, group};
use crate::support::budget;
use crate::support::dice::Dice;

fn bytes(cluster: &Cluster) -> String {
    serde_json::to_string(cluster).expect("a cluster serialises")
}

/// Plans of some groups, each altered and committed, and then the right one.
pub(crate) fn one(seed: u64) -> Vec<Fate> {
    let mut random = Random::new(seed);
    let mut dice = Dice(seed);
    let kind = random.below(FRAMEWORKS);
    let framework = framework(kind);
    let (mut cluster, _) = cluster(&mut random);
    let mut next = 0;
    let mut fates = Vec::new();
    for _ in 0..4 {
        let group = group(&mut random, &mut next, kind == DEVICES);
        let outcome = Planner::new().place(&cluster, &framework, &group);
        let Ok(Outcome::Placed(plan) | Outcome::Held { plan, .. }) = outcome else { continue };
        let mut document = serde_json::to_value(&plan).unwrap();
        mar(&mut dice, &mut document);
        let mut after = cluster.clone();
        let marred = read(document);
        if marred.is_none_or(|marred| after.commit(&framework, &marred).is_err()) {
            assert_eq!(bytes(&after), bytes(&cluster), "seed {seed}");
            fates.push(Fate::Refused);
        } else {
            // The last of the frameworks judges no room.
            holds(&after, kind < FRAMEWORKS - 1, seed);
            fates.push(Fate::Harmless);
        }
        cluster.commit(&framework, &plan).unwrap();
    }
    fates
}

/// A plan out of a document, if it is one.
fn read(document: Value) -> Option<Plan> {
    let plan: Plan = serde_json::from_value(document).ok()?;
    // Readers of a plan see no panic either, and it is written as it was read.
    let _ = (plan.group().to_string(), plan.domains().count(), format!("{plan:?}"));
    let text = serde_json::to_string(&plan).unwrap();
    let again: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    Some(plan)
}

/// Nothing is given out twice, and the cluster is its own text.
fn holds(cluster: &Cluster, judges_room: bool, seed: u64) {
    for node in cluster.nodes() {
        let mut used: BTreeMap<&str, i64> = BTreeMap::new();
        let mut devices: BTreeSet<u32> = BTreeSet::new();
        let mut shares: BTreeMap<u32, i64> = BTreeMap::new();
        for pod in node.pods() {
            for (resource, amount) in pod.shape().requests.iter() {
                *used.entry(resource).or_default() += amount;
            }
            for (request, indexes) in pod.shape().devices.iter().zip(pod.device_indexes()) {
                for index in indexes {
                    match &request.ask {
                        DeviceAsk::Whole { .. } => {
                            assert!(devices.insert(*index), "seed {seed}: {index} is held twice");
                        }
                        DeviceAsk::Shares { each, .. } => {
                            *shares.entry(*index).or_default() += each.of("milli");
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        for (resource, used) in used {
            let all = cluster.resource(resource).map_or(0, |id| node.allocatable(id));
            assert!(!judges_room || used <= all, "seed {seed}: {used} of {all} {resource}");
        }
        for (index, amount) in shares {
            assert!(amount <= 1_000 && !devices.contains(&index), "seed {seed}: {index} {amount}");
        }
    }
    let text = bytes(cluster);
    let again: Cluster = serde_json::from_str(&text).expect("its text is read again");
    assert_eq!(bytes(&again), text, "seed {seed}");
}

#[test]
fn altered_plans_are_refused_or_break_nothing() {
    let first = budget::number("PHALANX_MARRED_SEED").unwrap_or(0);
    let seeds = budget::of(200, 50_000);
    let fates: Vec<Fate> = (first..first + seeds).flat_map(one).collect();
    let refused = fates.iter().filter(|fate| **fate == Fate::Refused).count();
    // Both happen.
    assert!(
        refused * 5 > fates.len() && refused * 10 < fates.len() * 9,
        "{refused} of {}",
        fates.len()
    );
}

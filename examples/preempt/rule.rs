//! Victims by kube-scheduler's rule, beside those of the default.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;

use phalanx::preempt::kubernetes::{GroupRefusal, PreemptionSnapshot, preempt_group};
use phalanx::preempt::{Cost, PreemptionRequest};
use phalanx::{Framework, PodGroup, Time};

use crate::scene::{NOW, RACK, Scene};

/// The text of both: kube-scheduler refuses a gang that requires a rack, so its rule is run in each
/// rack as if there were no other.
pub(crate) fn beside(
    scene: &Scene,
    gang: &PodGroup,
    request: &PreemptionRequest<'_>,
    own: Cost,
) -> Result<String, Box<dyn Error>> {
    let framework = Framework::kubernetes();
    let now = Time::from_secs(NOW);
    let snapshot = PreemptionSnapshot::new(&scene.cluster, &framework, &scene.running, now);
    let mut out = String::from("\n");
    if preempt_group(&snapshot, gang)?.refusal() == Some(GroupRefusal::TopologyConstraint) {
        out += "kube-scheduler evicts nothing: it refuses a group with a topology constraint\n";
    }
    let mut free = gang.clone();
    free.topology.require = None;
    let racks: BTreeSet<&str> = scene.cluster.nodes().filter_map(|node| node.label(RACK)).collect();
    let mut best: Option<(Cost, &str)> = None;
    for rack in racks {
        let answer = preempt_group(&snapshot.within(RACK, rack)?, &free)?;
        if answer.refusal().is_some() {
            continue;
        }
        let pods = answer.victims().iter().map(|victim| &victim.pod);
        let pods = pods.map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
        let cost = request.cost_of(&scene.cluster, &scene.running, pods)?;
        if best.is_none_or(|best| (cost, rack) < best) {
            best = Some((cost, rack));
        }
    }
    match best {
        Some((cost, rack)) => {
            let _ = writeln!(out, "its rule in the rack where that costs least, {rack}: {cost}");
        }
        None => out += "its rule finds no victims in any rack\n",
    }
    Ok(out + &format!("the default: {own}\n"))
}

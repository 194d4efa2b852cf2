//! Places groups one after the other, each on the cluster as those before it left it.

use std::time::{Duration, Instant};

use phalanx::state::Assignment;
use phalanx::{Cluster, Framework, Outcome, PlaceError, Planner, PodGroup};

use super::explain::explain;

/// The decision for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    /// `namespace/name`.
    pub(crate) group: String,
    /// The outcome in a word.
    pub(crate) outcome: &'static str,
    /// Pods, as `namespace/name`, and their nodes, in the order in which they were placed.
    pub(crate) assignments: Vec<(String, String)>,
    /// Devices and volumes of each of them.
    pub(crate) gains: Vec<Gains>,
    /// The outcome in a sentence or more.
    pub(crate) explanation: String,
    /// How long the decision took, without the explanation and the commit.
    pub(crate) took: Duration,
}

/// Devices and volumes that a pod gets for its claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Gains {
    /// Claim, and device as `driver/pool/name`.
    pub(crate) devices: Vec<(String, String)>,
    /// Claim of a volume, and the volume; `None` if one is to be made.
    pub(crate) volumes: Vec<(String, Option<String>)>,
}

impl Gains {
    fn of(own: Assignment<'_>) -> Gains {
        let mut gains = Gains::default();
        for held in own.allocations() {
            gains.devices.extend(held.allocation.devices.iter().map(|device| {
                let name = format!("{}/{}/{}", device.driver, device.pool, device.device);
                (held.claim.clone(), name)
            }));
        }
        if let Some(own) = own.volumes() {
            let bound = own.bind.iter();
            let bound = bound.map(|(claim, volume)| (claim.to_string(), Some(volume.clone())));
            gains.volumes.extend(bound);
            gains.volumes.extend(own.provision.iter().map(|claim| (claim.to_string(), None)));
        }
        gains
    }
}

/// Places all groups in order. Those that are placed are committed.
///
/// # Errors
/// A request makes no sense, or a plan cannot be taken up.
pub(crate) fn all(
    cluster: &mut Cluster,
    framework: &Framework,
    groups: &[PodGroup],
) -> Result<Vec<Decision>, Box<dyn std::error::Error>> {
    let mut planner = Planner::new();
    let mut decisions = Vec::with_capacity(groups.len());
    for group in groups {
        let start = Instant::now();
        let result = planner.place(cluster, framework, group);
        let took = start.elapsed();
        let mut decision = Decision {
            group: group.full_name().into(),
            outcome: "infeasible",
            assignments: Vec::new(),
            gains: Vec::new(),
            explanation: String::new(),
            took,
        };
        match result {
            Ok(outcome) => {
                decision.outcome = outcome.word();
                decision.explanation = explain(cluster, framework, group, &outcome);
                if let Outcome::Placed(plan) = &outcome {
                    #[cfg(feature = "laws")]
                    phalanx::reference::is_sound(plan, group, cluster, framework)?;
                    cluster.commit(framework, plan)?;
                    let full_name =
                        |pod: &phalanx::Pod| format!("{}/{}", pod.namespace(), pod.name);
                    decision.assignments = plan
                        .assignments()
                        .map(|at| (full_name(at.pod()), at.node().to_string()))
                        .collect();
                    decision.gains = plan.assignments().map(Gains::of).collect();
                }
            }
            // What runs contradicts what the group requires: nothing can be added to it.
            Err(error @ PlaceError::Scattered { .. }) => {
                decision.explanation = error.to_string();
            }
            Err(error) => return Err(error.into()),
        }
        decisions.push(decision);
    }
    Ok(decisions)
}

fn assignment(pod: &str, node: &str, Gains { devices, volumes }: &Gains) -> serde_json::Value {
    let mut own = serde_json::json!({ "pod": pod, "node": node });
    if !devices.is_empty() {
        let devices = devices.iter();
        let of = |(claim, device)| serde_json::json!({ "claim": claim, "device": device });
        own["devices"] = devices.map(|(claim, device)| of((claim, device))).collect();
    }
    if !volumes.is_empty() {
        let volumes = volumes.iter();
        let of = |(claim, volume)| serde_json::json!({ "claim": claim, "volume": volume });
        own["volumes"] = volumes.map(|(claim, volume)| of((claim, volume))).collect();
    }
    own
}

/// The decisions as JSON.
pub(crate) fn json(decisions: &[Decision]) -> String {
    let groups: Vec<_> = decisions
        .iter()
        .map(|decision| {
            let assignments: Vec<_> = decision
                .assignments
                .iter()
                .zip(&decision.gains)
                .map(|((pod, node), gains)| assignment(pod, node, gains))
                .collect();
            serde_json::json!({
                "group": decision.group,
                "outcome": decision.outcome,
                "assignments": assignments,
                "explanation": decision.explanation,
            })
        })
        .collect();
    let seconds: f64 = decisions.iter().map(|decision| decision.took.as_secs_f64()).sum();
    format!("{}\n", serde_json::json!({ "groups": groups, "seconds": seconds }))
}

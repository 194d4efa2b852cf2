//! Gangs that are known to fit.

use std::time::{Duration, Instant};

use phalanx::{Framework, Outcome, Plan, Planner};

use super::Disagreement;
use super::pods::passes;
use super::scenario::Scenario;

/// The outcome of one gang.
pub(super) struct Trial {
    pub(super) word: &'static str,
    /// Time to decide, without reading or checking.
    pub(super) duration: Duration,
    pub(super) disagreement: Option<Disagreement>,
}

/// Places a gang with the default framework and a planner of its own, and checks the plan.
pub(super) fn place(scenario: &Scenario, fits: bool) -> Result<Trial, String> {
    let group = scenario.group()?;
    let framework = Framework::default();
    let mut planner = Planner::new();
    let start = Instant::now();
    let outcome = planner.place(&scenario.cluster, &framework, &group);
    let duration = start.elapsed();
    let outcome = outcome.map_err(|error| error.to_string())?;
    let expected = if fits { "placed" } else { "not placed" };
    let differ = |actual: String| Some(Disagreement::new("placement", "", "", expected, actual));
    let disagreement = match &outcome {
        Outcome::Placed(plan) if fits => check(scenario, &framework, plan).err().and_then(differ),
        Outcome::Placed(_) => differ("placed".into()),
        other if fits => differ(other.to_string()),
        _ => None,
    };
    Ok(Trial { word: outcome.word(), duration, disagreement })
}

/// Whether a plan holds: enough members, each where every filter lets it, all in one domain.
fn check(scenario: &Scenario, framework: &Framework, plan: &Plan) -> Result<(), String> {
    let group = scenario.group()?;
    let mut txn = scenario.cluster.txn();
    let mut domain = None;
    for assignment in plan.assignments() {
        passes(framework, &txn, assignment.pod(), assignment.node())?;
        let node = txn.node(assignment.node()).ok_or("a node that does not exist")?;
        if let Some(key) = &group.topology.require {
            let value = node.label(key).ok_or_else(|| format!("{} lacks {key}", node.name()))?;
            let first = domain.get_or_insert_with(|| value.to_string());
            if *first != value {
                return Err(format!("{first} and {value}: members in two domains"));
            }
        }
        let id = node.id();
        txn.place(assignment.pod(), id).map_err(|error| error.to_string())?;
    }
    if plan.len() < group.policy.minimum() as usize {
        return Err(format!("{} of {} members", plan.len(), group.policy.minimum()));
    }
    Ok(())
}

//! A gang in each of its candidate domains.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::reference::{DomainTrial, trials};
use serde_json::Value;

use super::Disagreement;
use super::expect::{integers, list, names, text, texts};
use super::scenario::Scenario;

/// The first disagreement; `None` if all domains agree.
pub(super) fn compare(
    scenario: &Scenario,
    expected: &Value,
) -> Result<Option<Disagreement>, String> {
    let group = scenario.group()?;
    let trials = trials(&scenario.cluster, &scenario.framework, &group)
        .map_err(|error| error.to_string())?;
    let mut actual: BTreeMap<&str, &DomainTrial> =
        trials.iter().map(|trial| (trial.name.as_str(), trial)).collect();
    for domain in list(expected, "domains")? {
        let name = text(domain, "name")?;
        let differ = |plugin: &str, node: &str, expected: String, actual: String| {
            Ok(Some(Disagreement::new(format!("domain {name:?}"), plugin, node, expected, actual)))
        };
        let Some(trial) = actual.remove(name) else {
            return differ("", "", "a candidate".into(), "none".into());
        };
        let placed: BTreeMap<&str, &str> = trial
            .placed
            .iter()
            .map(|(member, node)| (group.pods[*member].name.as_str(), node.as_str()))
            .collect();
        let expected_placed = texts(domain, "placed")?;
        let pods: BTreeSet<&str> = placed.keys().chain(expected_placed.keys()).copied().collect();
        for pod in pods {
            let show = |map: &BTreeMap<&str, &str>| (*map.get(pod).unwrap_or(&"nowhere")).into();
            if placed.get(pod) != expected_placed.get(pod) {
                return differ("placed", pod, show(&expected_placed), show(&placed));
            }
        }
        let feasible = domain.get("feasible").and_then(Value::as_bool).unwrap_or(false);
        if feasible != trial.feasible {
            return differ("feasible", "", feasible.to_string(), trial.feasible.to_string());
        }
        if !feasible {
            continue;
        }
        let plugins = scenario.framework.domain_score_names().map(|(_, name)| name);
        let scores: BTreeMap<&str, i64> = plugins.zip(trial.scores.iter().copied()).collect();
        let expected_scores = integers(domain, "scores")?;
        for (plugin, score) in &scores {
            let expected = expected_scores.get(plugin).copied().unwrap_or(0);
            if expected != *score {
                return differ(plugin, "", expected.to_string(), score.to_string());
            }
        }
        let total = domain.get("total").and_then(Value::as_i64);
        if total != Some(scores.values().sum()) {
            return differ("total", "", format!("{total:?}"), format!("{scores:?}"));
        }
    }
    if let Some(name) = actual.keys().next() {
        let step = format!("domain {name:?}");
        return Ok(Some(Disagreement::new(step, "", "", "no candidate", "a candidate")));
    }
    let total = |trial: &DomainTrial| trial.scores.iter().sum::<i64>();
    let most = trials.iter().filter(|trial| trial.feasible).map(total).max();
    let best: BTreeSet<&str> = trials
        .iter()
        .filter(|trial| trial.feasible && Some(total(trial)) == most)
        .map(|trial| trial.name.as_str())
        .collect();
    let expected = names(expected, "best")?;
    if best != expected {
        let (expected, actual) = (format!("{expected:?}"), format!("{best:?}"));
        return Ok(Some(Disagreement::new("best", "", "", expected, actual)));
    }
    Ok(None)
}

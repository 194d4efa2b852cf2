//! Pods with volumes, one after another and as gangs: what each plugin says, and which volumes
//! claims get.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::framework::{Evaluation, Rejection, Verdict};
use phalanx::model::VolumeBindings;
use phalanx::state::{NodeView, Row, VolumeNeeds};
use phalanx::{Cluster, Framework, Outcome, Plan, Planner, Pod, PodGroup, Request, Strategy, Time};
use serde_json::Value;

use super::Disagreement;
use super::expect::{integers, list, names, tables, text, texts};
use super::pods::passes;
use super::scenario::{self, Scenario};

/// Claims with the volumes that they get, and claims for which volumes are made.
type Bindings = (BTreeMap<String, String>, BTreeSet<String>);

type Compared<T> = Result<Result<T, Disagreement>, String>;

const STEP: [&str; 11] = [
    "pod",
    "prefilterRejectedBy",
    "rejected",
    "unresolvable",
    "errors",
    "scores",
    "total",
    "best",
    "chosen",
    "volumeOffers",
    "bindings",
];

fn known_fields(of: &Value, known: &[&str]) -> Result<(), String> {
    let fields = of.as_object().ok_or("expect: holds no objects")?;
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(format!("{field}: is not known")),
        None => Ok(()),
    }
}

/// The first disagreement of a case; `None` if it agrees.
pub(super) fn run(scenario: Value, expected: &Value) -> Result<Option<Disagreement>, String> {
    let scenario = scenario::read(scenario)?;
    match expected.get("steps") {
        Some(_) => compare(&scenario, expected),
        None => compare_gang(&scenario, expected),
    }
}

/// The first disagreement; `None` if all steps agree.
fn compare(scenario: &Scenario, expected: &Value) -> Result<Option<Disagreement>, String> {
    known_fields(expected, &["steps"])?;
    let mut cluster = scenario.cluster.clone();
    let steps = list(expected, "steps")?;
    if steps.len() != scenario.pending.len() {
        let (expected, actual) = (steps.len(), scenario.pending.len());
        return Ok(Some(Disagreement::new("all", "", "", expected, actual)));
    }
    for (pod, step) in scenario.pending.iter().zip(steps) {
        known_fields(step, &STEP)?;
        let name = text(step, "pod")?;
        if name != pod.name {
            return Ok(Some(Disagreement::new(name, "", "", name, &pod.name)));
        }
        let compared = compare_step(&scenario.framework, &cluster, pod, step)?;
        let chosen = match compared {
            Ok(chosen) => chosen,
            Err(disagreement) => return Ok(Some(disagreement)),
        };
        let bound = bind(&mut cluster, &scenario.framework, pod, step, chosen)?;
        if let Err(disagreement) = bound {
            return Ok(Some(disagreement));
        }
    }
    Ok(None)
}

/// Plans and commits a pod that goes to a node, or to none.
fn bind(
    cluster: &mut Cluster,
    framework: &Framework,
    pod: &Pod,
    step: &Value,
    chosen: Option<Row>,
) -> Compared<()> {
    let differ = |what: &str, expected: String, actual: String| {
        Ok(Err(Disagreement::new(&pod.name, what, "", expected, actual)))
    };
    let group = PodGroup::gang(pod.name.clone(), 1).in_namespace(pod.namespace()).pod(pod.clone());
    let outcome = phalanx::place_gang(cluster, framework, &group);
    let outcome = outcome.map_err(|error| error.to_string())?;
    let expected = chosen.and_then(|row| cluster.view(row)).map(NodeView::name).unwrap_or_default();
    let Some(plan) = outcome.plan() else {
        return match chosen {
            None => Ok(Ok(())),
            Some(_) => differ("plan", expected.into(), outcome.to_string()),
        };
    };
    let assignment = plan.assignments().next().ok_or("a plan without pods")?;
    if assignment.node() != expected {
        return differ("plan", expected.into(), assignment.node().into());
    }
    let (wanted, got) = (expected_bindings(step, "bindings")?, actual(assignment.volumes()));
    if wanted != got {
        return differ("bindings", format!("{wanted:?}"), format!("{got:?}"));
    }
    cluster.commit(framework, plan).map_err(|error| error.to_string())?;
    Ok(Ok(()))
}

fn expected_bindings(of: &Value, name: &str) -> Result<Bindings, String> {
    match of.get(name) {
        Some(bindings) => read_bindings(bindings),
        None => Ok(Bindings::default()),
    }
}

fn read_bindings(of: &Value) -> Result<Bindings, String> {
    known_fields(of, &["bind", "provision"])?;
    let owned = |(claim, volume): (&str, &str)| (claim.to_string(), volume.to_string());
    let bind = texts(of, "bind")?.into_iter().map(owned).collect();
    let provision = names(of, "provision")?.into_iter().map(String::from).collect();
    Ok((bind, provision))
}

fn actual(bindings: Option<&VolumeBindings>) -> Bindings {
    let Some(bindings) = bindings else { return Bindings::default() };
    let bind = bindings.bind.iter().map(|(claim, volume)| (claim.name().into(), volume.clone()));
    let provision = bindings.provision.iter().map(|claim| claim.name().into());
    (bind.collect(), provision.collect())
}

/// One pod: the row it goes to, or where the answers differ.
fn compare_step(
    framework: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    step: &Value,
) -> Compared<Option<Row>> {
    let differ = |plugin: &str, node: &str, expected: String, actual: String| {
        Ok(Err(Disagreement::new(&pod.name, plugin, node, expected, actual)))
    };
    let plugin = |number: usize| framework.filter_names().nth(number).expect("a filter");
    let mut evaluation = Evaluation::new(framework, cluster, pod.shape(), None, Time::ZERO);
    let refused = evaluation.refused().map_or("", |(number, _)| plugin(number));
    let expected_refused = step.get("prefilterRejectedBy").and_then(Value::as_str).unwrap_or("");
    if refused != expected_refused {
        return differ("prefilterRejectedBy", "", expected_refused.into(), refused.into());
    }
    let needs = VolumeNeeds::of(cluster, pod.shape());
    let faulty = refused == "VolumeBinding"
        && needs.as_ref().err().is_some_and(phalanx::state::VolumeRefusal::is_fault);
    let fault = if faulty { BTreeMap::from([("", refused)]) } else { BTreeMap::new() };
    let errors = texts(step, "errors")?;
    if errors != fault {
        return differ("errors", "", format!("{errors:?}"), format!("{fault:?}"));
    }
    if !refused.is_empty() {
        known_fields(step, &["pod", "prefilterRejectedBy", "errors"])?;
        return Ok(Ok(None));
    }

    let (mut rejected, mut unresolvable) = (BTreeMap::new(), BTreeSet::new());
    let mut feasible: Vec<NodeView<'_>> = Vec::new();
    for node in cluster.nodes() {
        let (by, verdict) = match evaluation.filter(node) {
            Ok(()) => {
                feasible.push(node);
                continue;
            }
            Err(Rejection::Refused(number, verdict) | Rejection::Filter(number, verdict)) => {
                (plugin(number), verdict)
            }
            Err(_) => ("PreFilterResult", Verdict::Unresolvable),
        };
        rejected.insert(node.name(), by);
        if verdict == Verdict::Unresolvable {
            unresolvable.insert(node.name());
        }
    }
    let expected = texts(step, "rejected")?;
    if expected != rejected {
        return differ("rejected", "", format!("{expected:?}"), format!("{rejected:?}"));
    }
    let expected = names(step, "unresolvable")?;
    if expected != unresolvable {
        return differ("unresolvable", "", format!("{expected:?}"), format!("{unresolvable:?}"));
    }
    if feasible.is_empty() {
        known_fields(step, &["pod", "rejected", "unresolvable"])?;
        return Ok(Ok(None));
    }

    let needs = needs.map_err(|refusal| refusal.to_string())?;
    let mut offers: BTreeMap<&str, Bindings> = BTreeMap::new();
    for node in &feasible {
        let choice = needs.choose(*node).map_err(|refusal| refusal.to_string())?;
        let bindings = choice.bindings();
        if !bindings.is_empty() {
            offers.insert(node.name(), actual(Some(&bindings)));
        }
    }
    let mut expected = BTreeMap::new();
    if let Some(of) = step.get("volumeOffers") {
        for (node, offer) in of.as_object().ok_or("volumeOffers: is no object")? {
            expected.insert(node.as_str(), read_bindings(offer)?);
        }
    }
    if expected != offers {
        return differ("volumeOffers", "", format!("{expected:?}"), format!("{offers:?}"));
    }

    let rows: Vec<Row> = feasible.iter().map(|node| node.row()).collect();
    let mut scores: BTreeMap<&str, BTreeMap<&str, i64>> = BTreeMap::new();
    let mut totals: BTreeMap<&str, i64> = feasible.iter().map(|node| (node.name(), 0)).collect();
    for column in evaluation.score(&rows) {
        let column_scores = feasible.iter().map(|node| node.name()).zip(column.scores);
        let column_scores: BTreeMap<&str, i64> = column_scores.collect();
        for (node, score) in &column_scores {
            *totals.entry(node).or_default() += score;
        }
        // Plugins with 0 everywhere are left out.
        if column_scores.values().any(|score| *score != 0) {
            scores.insert(
                framework.score_names().nth(column.plugin).expect("a score").1,
                column_scores,
            );
        }
    }
    let expected = tables(step, "scores")?;
    if expected != scores {
        return differ("scores", "", format!("{expected:?}"), format!("{scores:?}"));
    }
    let expected = integers(step, "total")?;
    if expected != totals {
        return differ("total", "", format!("{expected:?}"), format!("{totals:?}"));
    }
    let most = totals.values().max().copied();
    let is_best = |name: &str| totals.get(name).copied() == most;
    let best: BTreeSet<&str> =
        feasible.iter().map(|node| node.name()).filter(|name| is_best(name)).collect();
    let expected = names(step, "best")?;
    if expected != best {
        return differ("best", "", format!("{expected:?}"), format!("{best:?}"));
    }
    let chosen = feasible.iter().find(|node| is_best(node.name())).ok_or("no best node")?;
    let expected = text(step, "chosen")?;
    if expected != chosen.name() {
        return differ("chosen", "", expected.into(), chosen.name().into());
    }
    Ok(Ok(Some(chosen.row())))
}

/// A gang: what kube-scheduler makes of it, or, of a planted one, that it is placed whole.
fn compare_gang(scenario: &Scenario, expected: &Value) -> Result<Option<Disagreement>, String> {
    let group = scenario.group()?;
    if expected.get("kubeScheduler").is_some() {
        return compare_planted(scenario, &group, expected);
    }
    known_fields(expected, &["feasible", "placed", "unplaced", "bindings", "prefilterRejectedBy"])?;
    let differ = |step: &str, expected: String, actual: String| {
        Ok(Some(Disagreement::new(step, "", "", expected, actual)))
    };
    // Members are placed one by one, whether or not enough are.
    let mut each = group.clone();
    each.policy = PodGroup::basic("each").policy;
    let request = Request::new(&each).strategy(Strategy::Kubernetes);
    let outcome = Planner::new().place(&scenario.cluster, &scenario.framework, request);
    let outcome = outcome.map_err(|error| error.to_string())?;
    let (mut placed, mut bindings) = (BTreeMap::new(), BTreeMap::new());
    let mut txn = scenario.cluster.txn();
    let empty = Plan::default();
    let plan = outcome.plan().unwrap_or(&empty);
    for assignment in plan.assignments() {
        placed.insert(&*assignment.pod().name, assignment.node());
        if assignment.volumes().is_some() {
            bindings.insert(&*assignment.pod().name, actual(assignment.volumes()));
        }
    }
    let wanted = texts(expected, "placed")?;
    if wanted != placed {
        return differ("placed", format!("{wanted:?}"), format!("{placed:?}"));
    }
    let mut wanted = BTreeMap::new();
    if let Some(of) = expected.get("bindings") {
        for (pod, of) in of.as_object().ok_or("bindings: is no object")? {
            wanted.insert(pod.as_str(), read_bindings(of)?);
        }
    }
    if wanted != bindings {
        return differ("bindings", format!("{wanted:?}"), format!("{bindings:?}"));
    }
    let feasible = expected.get("feasible").and_then(Value::as_bool);
    let whole = placed.len() >= group.policy.minimum() as usize;
    if feasible != Some(whole) {
        return differ("feasible", format!("{feasible:?}"), whole.to_string());
    }
    // Pods that are not placed, in their turn.
    let (mut unplaced, mut refused) = (BTreeMap::new(), BTreeMap::new());
    let framework = &scenario.framework;
    let plugin = |number: usize| framework.filter_names().nth(number).expect("a filter");
    for pod in &scenario.pending {
        if let Some(node) = placed.get(&*pod.name) {
            let id = txn.node(node).ok_or("no such node")?.id();
            txn.place(pod, id).map_err(|error| error.to_string())?;
            continue;
        }
        let evaluation = Evaluation::new(framework, &txn, pod.shape(), None, Time::ZERO);
        if let Some((number, _)) = evaluation.refused() {
            refused.insert(&*pod.name, plugin(number));
            continue;
        }
        let by = |node: NodeView<'_>| match evaluation.filter(node) {
            Err(Rejection::Filter(number, _)) => plugin(number).to_string(),
            other => format!("{other:?}"),
        };
        let nodes: BTreeMap<String, String> =
            txn.nodes().map(|node| (node.name().to_string(), by(node))).collect();
        unplaced.insert(&*pod.name, nodes);
    }
    let wanted_refused = texts(expected, "prefilterRejectedBy")?;
    if wanted_refused != refused {
        let (expected, actual) = (format!("{wanted_refused:?}"), format!("{refused:?}"));
        return differ("prefilterRejectedBy", expected, actual);
    }
    let mut wanted: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    if let Some(of) = expected.get("unplaced") {
        for (pod, _) in of.as_object().ok_or("unplaced: is no object")? {
            let nodes = texts(of, pod)?;
            let owned = nodes.into_iter().map(|(node, by)| (node.to_string(), by.to_string()));
            wanted.insert(pod.as_str(), owned.collect());
        }
    }
    if wanted != unplaced {
        return differ("unplaced", format!("{wanted:?}"), format!("{unplaced:?}"));
    }
    Ok(None)
}

/// A gang that is known to fit: the plan is held against the rules, and committed.
fn compare_planted(
    scenario: &Scenario,
    group: &PodGroup,
    expected: &Value,
) -> Result<Option<Disagreement>, String> {
    known_fields(expected, &["feasible", "kubeScheduler"])?;
    let differ = |expected: &str, actual: String| {
        Ok(Some(Disagreement::new("placement", "", "", expected, actual)))
    };
    let framework = Framework::default();
    let outcome = phalanx::place_gang(&scenario.cluster, &framework, group);
    let outcome = outcome.map_err(|error| error.to_string())?;
    let fits = expected.get("feasible").and_then(Value::as_bool).unwrap_or(false);
    let plan = match &outcome {
        Outcome::Placed(plan) if fits => plan,
        other if fits => return differ("placed", other.to_string()),
        Outcome::Placed(_) => return differ("not placed", "placed".into()),
        _ => return Ok(None),
    };
    if let Err(problem) = check(scenario, &framework, plan) {
        return differ("a sound plan", problem);
    }
    let mut cluster = scenario.cluster.clone();
    match cluster.commit(&framework, plan) {
        Ok(()) if plan.len() == group.pods.len() => Ok(None),
        Ok(()) => differ("all members", plan.len().to_string()),
        Err(error) => differ("a commit", error.to_string()),
    }
}

/// Whether each volume of a plan is given once, is large enough, and is reached by its pod's node.
fn check(scenario: &Scenario, framework: &Framework, plan: &Plan) -> Result<(), String> {
    let storage = scenario.cluster.storage();
    let mut held: BTreeMap<&str, &str> = BTreeMap::new();
    for assignment in plan.assignments() {
        passes(framework, &scenario.cluster.txn(), assignment.pod(), assignment.node())?;
        let node = scenario.cluster.node(assignment.node()).ok_or("no such node")?;
        let bindings = assignment.volumes().ok_or("a member without volumes")?;
        if bindings.bind.len() != assignment.pod().shape().volumes.len() {
            return Err(format!("{}: claims without volumes", assignment.pod().name));
        }
        for (claim, name) in &bindings.bind {
            let wanted = storage.claim(claim.namespace(), claim.name()).ok_or("no such claim")?;
            let volume = storage.volume(name).ok_or("no such volume")?;
            let (have, want) = (volume.capacity, wanted.request.unwrap_or(0));
            if have < want {
                return Err(format!("{claim}: {name} has {have} of {want} bytes"));
            }
            let terms = volume.node_affinity.iter().flat_map(|affinity| &affinity.terms);
            let mut rules = terms.flat_map(|term| &term.match_expressions);
            if !rules.all(|rule| rule.matches(node.label(&rule.key))) {
                return Err(format!("{claim}: {name} is not reached by {}", node.name()));
            }
            if let Some(other) = held.insert(name, claim) {
                return Err(format!("{name} is given to {other} and {claim}"));
            }
        }
    }
    Ok(())
}

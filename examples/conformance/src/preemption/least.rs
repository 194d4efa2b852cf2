//! Our default beside kube-scheduler's rule: whose victims cost less, in the default's order.

use std::fmt;

use phalanx::preempt::{Cost, PreemptingPlanner, Preemption, PreemptionRequest, RunningWork};
use phalanx::{Cluster, Framework, PodGroup, Request};
use serde_json::Value;

use super::scenario::{Scenario, now, read};
use super::{Disagreement, list_of_texts};

/// Cost of victims, summed over the groups of a kind that kube-scheduler's rule helps.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in super::super) struct Comparison {
    pub(in super::super) groups: usize,
    /// The groups for which our victims cost less.
    pub(in super::super) cheaper: usize,
    /// Groups for which ours cost more.
    pub(in super::super) dearer: usize,
    /// Groups for which the highest priority taken is lower.
    pub(in super::super) lower_priority: usize,
    /// Groups for which our set is proved to be least.
    pub(in super::super) least: usize,
    /// The groups that we help beside, since kube-scheduler helps them not at all.
    pub(in super::super) beside: usize,
    /// Groups whose victims there are running members of the group itself, which we never take.
    pub(in super::super) own_members: usize,
    pub(in super::super) theirs: Sum,
    pub(in super::super) ours: Sum,
}

/// A sum of costs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Sum {
    pub(in super::super) budgets_broken: u64,
    pub(in super::super) work_lost: u64,
    pub(in super::super) units: u64,
    pub(in super::super) pods: u64,
}

/// The answer of the other rule for a group.
enum Theirs {
    /// The victims of each answer that helps: the group fits without them.
    Victims(Vec<Vec<String>>),
    /// No victim is needed.
    Placed,
    /// No set was found, or the group does not fit without it after all.
    NoHelp,
}

/// Adds a group to the comparison of its kind: unconstrained, or constrained. A disagreement is a
/// group that the other rule helps and we do not, or for which our victims cost more, or whose plan
/// does not hold without them.
pub(in super::super) fn compare(
    scenario: Value,
    expected: &Value,
    kinds: &mut [Comparison; 2],
) -> Result<Option<Disagreement>, String> {
    let scenario = read(scenario)?;
    let gang = scenario.gang()?;
    let theirs = theirs(expected)?;
    let kind = &mut kinds[usize::from(gang.topology.require.is_some())];
    let fault = |error: &dyn fmt::Display| error.to_string();
    let mut running = scenario.work.clone();
    let cluster = scenario.with_nominations(&mut running)?;
    let framework = Framework::default();
    let request = PreemptionRequest::new(Request::new(&gang).now(now()));
    let mut planner = PreemptingPlanner::new();
    let answer = planner.place(&cluster, &framework, &running, request.clone());
    let answer = answer.map_err(|error| fault(&error))?;
    let differ = |expected: &dyn fmt::Display, actual: &dyn fmt::Display| {
        Ok(Some(Disagreement::new("", "victims by default", "", expected, actual)))
    };
    if let Err(error) = holds(&cluster, &framework, &answer) {
        return differ(&"a plan that holds", &error);
    }
    let own = match &answer {
        Preemption::Placed(_) => Cost::NOTHING,
        Preemption::Preempt(preempt) => {
            let pods = preempt.victims.iter().flat_map(|victim| &victim.pods);
            let pods = pods.map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
            let cost = request.cost_of(&cluster, &running, pods).map_err(|error| fault(&error))?;
            if cost != preempt.cost {
                return differ(&cost, &preempt.cost);
            }
            cost
        }
        other => {
            return match theirs {
                Theirs::NoHelp => Ok(None),
                Theirs::Victims(_) | Theirs::Placed => differ(&"room for the group", other),
            };
        }
    };
    let sets = match theirs {
        Theirs::Placed if own == Cost::NOTHING => return Ok(None),
        Theirs::Placed => return differ(&Cost::NOTHING, &own),
        Theirs::NoHelp => {
            kind.beside += usize::from(own != Cost::NOTHING);
            return Ok(None);
        }
        Theirs::Victims(sets) => sets,
    };
    let mut least: Option<Cost> = None;
    for set in &sets {
        let pods = set.iter().map(|name| scenario.running_pod(name));
        let pods = pods.collect::<Result<Vec<_>, _>>()?;
        let is_own = |&(namespace, name): &(&str, &str)| {
            let own = cluster.pods_of(&gang).any(|pod| pod.name() == name);
            own && namespace == gang.namespace
        };
        if pods.iter().any(is_own) {
            continue;
        }
        let cost = request.cost_of(&cluster, &running, pods).map_err(|error| fault(&error))?;
        least = Some(least.map_or(cost, |least| least.min(cost)));
    }
    let Some(least) = least else {
        kind.own_members += 1;
        return Ok(None);
    };
    kind.groups += 1;
    kind.cheaper += usize::from(own < least);
    kind.dearer += usize::from(own > least);
    kind.lower_priority += usize::from(own.highest_priority < least.highest_priority);
    kind.least += usize::from(answer.preempt().is_none_or(phalanx::preempt::Preempt::is_least));
    kind.theirs.add(&least);
    kind.ours.add(&own);
    if own > least {
        return differ(&format!("no more than {least}"), &own);
    }
    Ok(None)
}

/// Whether the plan can be committed once the victims, and what terminates, are gone.
fn holds(cluster: &Cluster, framework: &Framework, answer: &Preemption) -> Result<(), String> {
    let Some(plan) = answer.plan() else { return Ok(()) };
    let mut after = cluster.clone();
    let going: Vec<(String, String)> = match answer.preempt() {
        None => Vec::new(),
        Some(preempt) => {
            let victims = preempt.victims.iter().flat_map(|victim| &victim.pods);
            let victims = victims.map(|pod| (pod.namespace.clone(), pod.name.clone()));
            let deleting = cluster.pods().filter(|pod| pod.deleting());
            let deleting = deleting.map(|pod| (pod.namespace().into(), pod.name().into()));
            victims.chain(deleting).collect()
        }
    };
    for (namespace, name) in going {
        after.remove_pod(&namespace, &name).map_err(|error| error.to_string())?;
    }
    after.commit(framework, plan).map_err(|error| error.to_string())
}

/// The recorded answer.
fn theirs(expected: &Value) -> Result<Theirs, String> {
    if expected.get("feasible").and_then(Value::as_bool) == Some(true) {
        return Ok(Theirs::Placed);
    }
    let helps = |answer: &&Value| {
        let is = |field: &str| answer.get(field).and_then(Value::as_bool);
        // Members of the group itself that went were counted as running: then it does not fit.
        is("helps") == Some(true) && is("afterwardsFeasible") != Some(false)
    };
    let domains = expected.get("perDomain").and_then(Value::as_object);
    let all = domains.into_iter().flat_map(serde_json::Map::values);
    let all = all.chain(expected.get("workloadAware"));
    let sets = all.filter(helps).map(|answer| list_of_texts(answer, "victims"));
    let sets: Vec<_> = sets.collect::<Result<_, _>>()?;
    Ok(if sets.is_empty() { Theirs::NoHelp } else { Theirs::Victims(sets) })
}

impl Sum {
    fn add(&mut self, cost: &Cost) {
        self.budgets_broken += cost.budgets_broken;
        self.work_lost += cost.work_lost;
        self.units += cost.units;
        self.pods += cost.pods;
    }
}

/// The table of both rules, a line each; nothing where no group was compared.
pub(in super::super) fn table(kinds: &[Comparison; 2], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names = ["groups without a constraint", "groups in one domain"];
    for (name, kind) in names.iter().zip(kinds).filter(|(_, kind)| kind.groups > 0) {
        writeln!(f, "\nvictims of {} {name}", kind.groups)?;
        writeln!(
            f,
            "{:16}{:>8}{:>8}{:>10}{:>16}",
            "", "units", "pods", "budgets", "pod-hours lost"
        )?;
        for (rule, sum) in [("kube-scheduler", &kind.theirs), ("default", &kind.ours)] {
            let hours = sum.work_lost / 3_600_000;
            let Sum { units, pods, budgets_broken, .. } = sum;
            writeln!(f, "{rule:16}{units:>8}{pods:>8}{budgets_broken:>10}{hours:>16}")?;
        }
        let Comparison { cheaper, dearer, lower_priority, least, beside, own_members, .. } = kind;
        writeln!(
            f,
            "the default: cheaper in {cheaper} (of lower priority in {lower_priority}), dearer in \
             {dearer}, proved least in {least}; it helps {beside} groups more",
        )?;
        if *own_members > 0 {
            writeln!(f, "{own_members} not compared: members of the group itself were taken")?;
        }
    }
    Ok(())
}

impl Scenario {
    /// The cluster as a request of the default sees it: pods of other groups that are nominated to
    /// a node, and are not less important than the group, hold their room there.
    fn with_nominations(&self, running: &mut RunningWork) -> Result<Cluster, String> {
        let gang = self.gang()?;
        let least = gang.pods.iter().map(|pod| pod.priority).min();
        let mut cluster = self.cluster().clone();
        for (pod, node) in self.nominations() {
            let is_member = gang.pods.iter().any(|member| member.name == pod.name);
            if is_member || Some(pod.priority) < least {
                continue;
            }
            let mut holders = PodGroup::basic("nominated").in_namespace(pod.namespace());
            holders.non_preemptible = true;
            running.set_group(&holders).map_err(|error| error.to_string())?;
            let pod = pod.clone().in_group("nominated");
            cluster.add_pod(pod.on(node)).map_err(|error| error.to_string())?;
        }
        Ok(cluster)
    }
}

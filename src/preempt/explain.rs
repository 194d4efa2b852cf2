//! Explanations: the reason for each victim, and the rules that keep cheaper ones.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::answer::{Preemption, Victim};
use super::cost::Cost;
use super::planner::PreemptingPlanner;
use super::policy::Preemptor;
use super::request::{Lifted, PreemptionRequest};
use super::running::RunningWork;
use super::unit::Units;
use super::verdict::KeptBy;
use crate::base::ObjectName;
use crate::framework::Framework;
use crate::place::PlaceError;
use crate::state::{Assignment, Cluster, Plan};

/// The victims of a request, what each is taken for, and what keeps others that would cost less.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct PreemptionExplanation {
    /// The full name of the group.
    pub group: ObjectName,
    /// The answer that is explained.
    pub answer: Preemption,
    /// The victims, in the order of the answer.
    pub taken: Vec<Taken>,
    /// The sets that would be taken instead if a rule did not hold; at most one a rule.
    pub instead: Vec<Instead>,
}

/// A victim, and what it is taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Taken {
    /// The victim.
    pub victim: Victim,
    /// The reason it is taken.
    pub reason: TakenFor,
}

/// The reason a victim is taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", rename_all_fields = "camelCase"))]
#[non_exhaustive]
pub enum TakenFor {
    /// The room of its pods is used.
    Room {
        /// The nodes with pods of it to which members of the group go, by name.
        nodes: Vec<String>,
        /// How many members go to those nodes.
        members: usize,
    },
    /// Its group would fall below its minimum by the other victims, and goes whole.
    Minimum,
    /// Its pods, on nodes where no member goes, keep members away: by affinity or spread.
    Interplay,
}

/// A set that would be taken if a rule did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Instead {
    /// Its units that the rule keeps, by priority descending, then by name.
    pub kept: Vec<Kept>,
    /// The rest of the set.
    pub others: Vec<Victim>,
    /// The cost of the set, budgets left out if they are the rule.
    pub cost: Cost,
}

/// A unit that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Kept {
    /// The unit.
    pub unit: Victim,
    /// The reason it stays.
    pub by: KeptBy,
}

impl PreemptingPlanner {
    /// Explains the answer to a request: what each victim is taken for, and which rule (a budget,
    /// a protection, the policy and its priorities) keeps units that would cost less.
    ///
    /// Answers the request up to four times: as it is, and without each of the rules. What would
    /// cost less without a rule is exactly what that rule keeps.
    ///
    /// # Errors
    /// As [`PreemptingPlanner::place`].
    ///
    /// ```
    /// use core::time::Duration;
    /// use phalanx::preempt::{KeptBy, PreemptingPlanner, RunningWork};
    /// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// let mut running = RunningWork::new();
    /// for (name, start) in [("young", 90), ("old", 10)] {
    ///     cluster.add_node(Node::new(name).capacity("gpu", 8))?;
    ///     let pod = Pod::new().name("pod-of-".to_owned() + name).request("gpu", 8).in_group(name);
    ///     cluster.add_pod(pod.since(Time::from_secs(start)).on(name))?;
    ///     let mut group = PodGroup::gang(name, 1).evicted_whole();
    ///     group.min_run_time = Some(Duration::from_secs(60));
    ///     running.set_group(&group)?;
    /// }
    ///
    /// let gang = PodGroup::of("new", 1, Pod::new().request("gpu", 4)).priority(1);
    /// let request = Request::new(&gang).now(Time::from_secs(100));
    /// let mut planner = PreemptingPlanner::new();
    /// let why = planner.explain(&cluster, &Framework::default(), &running, request)?;
    /// // The pod that has run for less has not run for as long as it is promised.
    /// assert_eq!(why.taken[0].victim.name, "default/old");
    /// assert_eq!(why.instead[0].kept[0].unit.name, "default/young");
    /// assert_eq!(why.instead[0].kept[0].by, KeptBy::MinRunTime { until: Time::from_secs(150) });
    /// println!("{why}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain<'a>(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        running: &RunningWork,
        request: impl Into<PreemptionRequest<'a>>,
    ) -> Result<PreemptionExplanation, PlaceError> {
        let ask = request.into();
        let group = ask.request.group().full_name();
        let answer = self.place(cluster, framework, running, ask.clone())?;
        let mut explanation =
            PreemptionExplanation { group, answer, taken: Vec::new(), instead: Vec::new() };
        if matches!(explanation.answer, Preemption::Placed(_) | Preemption::Permit(_)) {
            return Ok(explanation);
        }
        let units = Units::new(cluster, running);
        let own = explanation.answer.preempt().map(|preempt| preempt.cost);
        if let Some(preempt) = explanation.answer.preempt() {
            explanation.taken = taken(cluster, &units, &preempt.victims, &preempt.plan);
        }
        for rule in [Lifted::Budgets, Lifted::Protection, Lifted::Policy] {
            if rule == Lifted::Budgets && running.budgets().len() == 0 {
                continue;
            }
            let lifted = PreemptionRequest { lifted: rule, ..ask.clone() };
            let Preemption::Preempt(other) = self.place(cluster, framework, running, lifted)?
            else {
                continue;
            };
            let own = own.map(|own| match rule {
                Lifted::Budgets => Cost { budgets_broken: 0, ..own },
                _ => own,
            });
            if own.is_some_and(|own| own <= other.cost) {
                continue;
            }
            let instead = instead(cluster, &units, running, (&ask, rule), *other);
            explanation.instead.extend(instead.filter(|instead| !instead.kept.is_empty()));
        }
        Ok(explanation)
    }
}

/// The atom of a victim.
fn atom_of(cluster: &Cluster, units: &Units, victim: &Victim) -> Option<u32> {
    let first = victim.pods.first()?;
    let atom = units.atom_of(cluster.pod(&first.namespace, &first.name)?)?;
    u32::try_from(atom).ok()
}

/// The reason each victim is taken.
fn taken(cluster: &Cluster, units: &Units, victims: &[Victim], plan: &Plan) -> Vec<Taken> {
    let atoms: Vec<u32> = victims.iter().filter_map(|v| atom_of(cluster, units, v)).collect();
    let mut marks = vec![false; units.atoms.len()];
    let mut used: Vec<&str> = plan.assignments().map(Assignment::node).collect();
    used.sort_unstable();
    let mut reason = |victim: &Victim| {
        let mut nodes: Vec<String> = victim.pods.iter().map(|pod| pod.node.clone()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| used.binary_search(&node.as_str()).is_ok());
        if !nodes.is_empty() {
            let is_there = |node: &&&str| nodes.iter().any(|own| own == **node);
            let members = used.iter().filter(is_there).count();
            return TakenFor::Room { nodes, members };
        }
        let own = atom_of(cluster, units, victim);
        let rest: Vec<u32> = atoms.iter().copied().filter(|&atom| Some(atom) != own).collect();
        let closed = units.closure(&rest, &mut marks);
        let falls = own.is_some_and(|own| closed.binary_search(&own).is_ok());
        if falls { TakenFor::Minimum } else { TakenFor::Interplay }
    };
    let taken = |victim: &Victim| Taken { victim: victim.clone(), reason: reason(victim) };
    victims.iter().map(taken).collect()
}

/// The set that is found without a rule, and what of it the rule keeps.
fn instead(
    cluster: &Cluster,
    units: &Units,
    running: &RunningWork,
    (ask, rule): (&PreemptionRequest<'_>, Lifted),
    other: super::answer::Preempt,
) -> Option<Instead> {
    let preemptor = Preemptor { group: ask.request.group(), now: ask.request.now, runs: true };
    let atoms = other.victims.iter().map(|victim| atom_of(cluster, units, victim));
    let atoms: Vec<u32> = atoms.collect::<Option<_>>()?;
    // What the set takes of each budget, to be held against what that allows.
    let charged = units.charged(&atoms);
    let mut instead = Instead { kept: Vec::new(), others: Vec::new(), cost: other.cost };
    for (unit, atom) in other.victims.into_iter().zip(atoms) {
        let by = match rule {
            Lifted::Budgets => units.kept_by_budget(running, atom as usize, &charged),
            _ => units.kept_by(cluster, ask, &preemptor, atom as usize),
        };
        match by {
            Some(by) => instead.kept.push(Kept { unit, by }),
            None => instead.others.push(unit),
        }
    }
    Some(instead)
}

impl fmt::Display for PreemptionExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.answer)?;
        for Taken { victim, reason } in &self.taken {
            write!(f, "\n  {victim}: {reason}")?;
        }
        match &self.answer {
            Preemption::Preempt(preempt) if preempt.is_least() => {
                f.write_str("\nno set that may be taken costs less")?;
            }
            Preemption::Preempt(preempt) => {
                write!(f, "\nany set costs at least: {}", preempt.lower_bound)?;
            }
            _ => {}
        }
        for Instead { kept, others, cost } in &self.instead {
            write!(f, "\nbut for what keeps them these would go: {cost}")?;
            for Kept { unit, by } in kept {
                write!(f, "\n  {unit}: {by}")?;
            }
            match others.len() {
                0 => {}
                1 => f.write_str("\n  and one that may be taken")?,
                count => write!(f, "\n  and {count} that may be taken")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for TakenFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakenFor::Room { nodes, members } => {
                write!(f, "makes room for {} on ", count(*members, "member"))?;
                for (at, node) in nodes.iter().take(NAMED).enumerate() {
                    write!(f, "{}{node}", if at == 0 { "" } else { ", " })?;
                }
                match nodes.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {}", count(more, "other node")),
                }
            }
            TakenFor::Minimum => f.write_str("its group would be below its minimum"),
            TakenFor::Interplay => f.write_str("its pods keep members away from other nodes"),
        }
    }
}

/// How many nodes of a victim are named in a text.
const NAMED: usize = 4;

/// A number of things in words.
fn count(number: usize, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    alloc::format!("{number} {thing}{end}")
}

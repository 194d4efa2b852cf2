//! A recording run again, up to the first decision that differs.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::record::{Record, Recorder};
use crate::base::{ObjectName, Time};
use crate::framework::{Evaluation, Framework, Rejection};
use crate::queue::{Decision, Scheduler};
use crate::state::{Assignment, Cluster, NodeView, Plan, Row};

/// A recording run again on a scheduler: of another version, with another framework or other
/// settings.
///
/// ```
/// use phalanx::plugins::{Fit, LeastAllocated, MostAllocated};
/// use phalanx::queue::Settings;
/// use phalanx::simulate::{Input, Record, Recorder, Replay};
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).capacity("cpu", 4))?;
/// }
/// cluster.add_pod(Pod::new().name("old").request("cpu", 1).on("n1"))?;
/// let scheduler = |framework| Scheduler::new(cluster.clone(), framework, Settings::default());
/// let spread = Framework::builder().filter(Fit).score(1, LeastAllocated::of([("cpu", 1)])).build()?;
/// let pack = Framework::builder().filter(Fit).score(1, MostAllocated::of([("cpu", 1)])).build()?;
///
/// let mut lines = Vec::new();
/// let mut recorder = Recorder::new(scheduler(spread.clone()), |line: &Record| lines.push(line.clone()));
/// let gang = PodGroup::of("g", 1, Pod::new().request("cpu", 1));
/// recorder.handle(Input::Group(gang), Time::ZERO)?;
/// while recorder.poll_decision(Time::ZERO).is_some() {}
/// drop(recorder);
///
/// let mut same = Replay::new(scheduler(spread));
/// assert!(lines.iter().all(|line| same.step(line).is_ok()));
/// let mut other = Replay::new(scheduler(pack));
/// let difference = lines.iter().find_map(|line| other.step(line).err()).expect("it packs");
/// assert_eq!(difference.line, 2);
/// let choice = difference.choice.expect("both place it");
/// assert_eq!((choice.recorded.node.as_str(), choice.replayed.node.as_str()), ("n2", "n1"));
/// assert!(choice.replayed.total > choice.recorded.total);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    recorder: Recorder<'static>,
    line: u64,
}

/// The first decision, or refusal of an input, that differs from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The number of the line, from 1.
    pub line: u64,
    /// The time of the decision.
    pub at: Time,
    /// The recorded decision; `None` if there was none.
    pub recorded: Option<Decision>,
    /// The decision of the replay.
    pub replayed: Option<Decision>,
    /// The refusals, recorded and replayed, if it is an input that differs.
    pub refusals: Option<(Option<String>, Option<String>)>,
    /// Where both place the same pod on different nodes: what the replay makes of the two.
    pub choice: Option<Choice>,
    /// Why the group that was placed when it was recorded is not placed now; see
    /// [`explain`](crate::explain()).
    pub explanation: Option<Box<crate::place::Explanation>>,
}

/// The first pod that two plans place on different nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Full name of the pod.
    pub pod: ObjectName,
    /// The recorded node, as the replay judges it.
    pub recorded: Judged,
    /// The node that the replay chose.
    pub replayed: Judged,
}

/// A node as a framework judges it for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judged {
    /// Its name.
    pub node: String,
    /// The filter that rejects it, if one does.
    pub rejected_by: Option<String>,
    /// The sum of its scores.
    pub total: i64,
    /// Addition of each plugin to it, weighted.
    pub scores: Vec<(String, i64)>,
}

impl Replay {
    /// A replay on a scheduler in the state in which the recording began: a restored one
    /// ([`Scheduler::restore`](crate::Scheduler)), say, with the framework to be tried.
    pub fn new(scheduler: Scheduler) -> Replay {
        Replay { recorder: Recorder::silent(scheduler), line: 0 }
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        self.recorder.scheduler()
    }

    /// Runs one line of the recording.
    ///
    /// # Errors
    /// The decision differs, or an input is refused that was not, or the other way round. What
    /// comes after means nothing: the states have parted.
    pub fn step(&mut self, record: &Record) -> Result<(), Box<Difference>> {
        self.line += 1;
        match record {
            Record::Input { at, input, refused } => {
                let result = self.recorder.handle(input.clone(), *at);
                let now = result.err().map(|error| error.to_string());
                if now == *refused {
                    return Ok(());
                }
                let mut difference = self.difference(*at);
                difference.refusals = Some((refused.clone(), now));
                Err(difference)
            }
            Record::Poll { at, decision } => {
                // To judge the nodes of two plans by.
                let is_bind = matches!(decision, Some(Decision::Bind { .. }));
                let before = is_bind.then(|| self.scheduler().cluster().clone());
                let replayed = self.recorder.poll_decision(*at);
                if replayed == *decision {
                    return Ok(());
                }
                let mut difference = self.difference(*at);
                let framework = self.scheduler().framework();
                if let Some(Decision::Bind { plan: recorded, groups, .. }) = decision {
                    match &replayed {
                        Some(Decision::Bind { plan, groups: own, .. }) if own == groups => {
                            difference.choice = before
                                .and_then(|before| choice(&before, framework, recorded, plan, *at));
                        }
                        _ => {
                            let group = groups.first().map_or("", |group| group);
                            let why = self.scheduler().explain(group, *at);
                            difference.explanation = why.ok().flatten().map(Box::new);
                        }
                    }
                }
                difference.recorded.clone_from(decision);
                difference.replayed = replayed;
                Err(difference)
            }
        }
    }

    fn difference(&self, at: Time) -> Box<Difference> {
        Box::new(Difference {
            line: self.line,
            at,
            recorded: None,
            replayed: None,
            refusals: None,
            choice: None,
            explanation: None,
        })
    }
}

/// The first pod that two plans place on different nodes, and both nodes as they are judged once
/// the pods before it have their places.
fn choice(
    before: &Cluster,
    framework: &Framework,
    recorded: &Plan,
    replayed: &Plan,
    now: Time,
) -> Option<Choice> {
    let mut txn = before.txn();
    for (old, new) in recorded.assignments().zip(replayed.assignments()) {
        if old.node() != new.node() || old.pod().full_name() != new.pod().full_name() {
            let judged = |assignment| judge(&txn, framework, new, assignment, now);
            let (recorded, replayed) = (judged(old), judged(new));
            return Some(Choice { pod: new.pod().full_name(), recorded, replayed });
        }
        let node = txn.node(old.node())?.id();
        txn.place(old.pod(), node).ok()?;
    }
    None
}

fn judge(
    cluster: &Cluster,
    framework: &Framework,
    of: Assignment<'_>,
    on: Assignment<'_>,
    now: Time,
) -> Judged {
    let mut evaluation = Evaluation::new(framework, cluster, of.pod().shape(), None, now);
    let feasible: Vec<Row> = cluster
        .nodes()
        .filter(|node| evaluation.filter(*node).is_ok())
        .map(NodeView::row)
        .collect();
    let mut judged =
        Judged { node: on.node().to_owned(), rejected_by: None, total: 0, scores: Vec::new() };
    let row = cluster.node(on.node()).map(NodeView::row);
    let Some(place) = feasible.iter().position(|feasible| Some(*feasible) == row) else {
        let node = cluster.node(on.node());
        judged.rejected_by = Some(match node.map(|node| evaluation.filter(node)) {
            Some(Err(Rejection::Filter(plugin, _) | Rejection::Refused(plugin, _))) => framework
                .filters()
                .get(plugin)
                .map_or_else(String::new, |filter| filter.name().to_owned()),
            _ => String::from("it is not there"),
        });
        return judged;
    };
    for column in evaluation.score(&feasible) {
        let score = column.scores.get(place).copied().unwrap_or(0);
        let name = framework.scores().get(column.plugin).map_or("", |(_, plugin)| plugin.name());
        judged.total += score;
        judged.scores.push((name.to_owned(), score));
    }
    judged
}

/// The report of a replay for people: where it differs, both decisions, and why.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}, at {} s", self.line, self.at)?;
        if let Some((recorded, replayed)) = &self.refusals {
            let text = |refusal: &Option<String>| {
                refusal.clone().unwrap_or_else(|| String::from("no refusal"))
            };
            return writeln!(f, "  recorded: {}\n  replayed: {}", text(recorded), text(replayed));
        }
        for (title, decision) in [("recorded", &self.recorded), ("replayed", &self.replayed)] {
            write!(f, "  {title}: ")?;
            match decision {
                None => writeln!(f, "no decision")?,
                Some(Decision::Bind { groups, plan, .. }) => {
                    write!(f, "bind {}:", groups.first().map_or("", |group| group))?;
                    for (node, pods) in plan.pods_per_node() {
                        write!(f, " {node} × {pods}")?;
                    }
                    writeln!(f)?;
                }
                Some(other) => writeln!(f, "{other:?}")?,
            }
        }
        if let Some(choice) = &self.choice {
            writeln!(f, "  pod {} parts them:", choice.pod)?;
            for judged in [&choice.recorded, &choice.replayed] {
                write!(f, "    {}: ", judged.node)?;
                match &judged.rejected_by {
                    Some(filter) => write!(f, "rejected by {filter}")?,
                    None => write!(f, "{}", judged.total)?,
                }
                for (plugin, score) in &judged.scores {
                    write!(f, ", {plugin} {score}")?;
                }
                writeln!(f)?;
            }
        }
        if let Some(why) = &self.explanation {
            writeln!(f, "  {why}")?;
        }
        Ok(())
    }
}

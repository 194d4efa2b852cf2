//! Questions of people and of Prometheus to the thread that decides. Short answers are made there; long
//! ones on a copy of the scheduler, on a thread of their own, so that no decision waits for them.

use std::fmt::Write;
use std::time::Duration;

use phalanx::autoscale::NodeTemplate;
use phalanx::kubernetes::queues::LocalQueues;
use phalanx::kubernetes::{Manifests, Mode, Reader, Value as Document};
use phalanx::queue::{GroupState, PreemptionSettings, SavedScheduler};
use phalanx::simulate::{Input as Recorded, Record, Recorder};
use phalanx::{Decision, Plan, PodGroup, Scheduler, Time};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::explain::sentence;
use crate::metrics::words;
use crate::profile::Parts;
use crate::scale;

/// The most decisions that the answer to a what-if looks at.
const STEPS: usize = 10_000;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The text of Prometheus.
    Metrics,
    /// The page at `/`.
    Overview,
    /// The nodes of a domain: the values of its levels from the coarsest down; none for all nodes.
    Nodes(Vec<String>),
    /// Why a group waits, by its full name.
    Why(String),
    /// Whether the groups of a manifest would start, YAML or JSON.
    WhatIf(String),
    /// The state, and the decisions that follow from it now.
    Snapshot,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Data, to be shown as JSON or as a page.
    Data(Value),
    /// Text.
    Text(String),
    /// The question makes no sense: the status of HTTP, and why.
    Fault(u16, String),
}

/// A question with the way back.
#[derive(Debug)]
pub struct Asked {
    pub question: Question,
    pub answer: oneshot::Sender<Reply>,
}

/// A copy of a scheduler, to try things on.
pub struct Copy {
    pub saved: SavedScheduler,
    pub parts: Parts,
    pub now: Time,
    pub queues: Option<LocalQueues>,
    /// Nodes that could be added.
    pub templates: Vec<NodeTemplate>,
}

impl Copy {
    /// Answers a question that a copy is for.
    pub fn answer(self, question: &Question) -> Reply {
        let reply = match question {
            Question::Why(group) => self.why(group),
            Question::WhatIf(manifest) => self.what_if(manifest),
            Question::Snapshot => self.snapshot().map(Reply::Text),
            _ => Err((500, "this question needs no copy".to_owned())),
        };
        reply.unwrap_or_else(|(status, reason)| Reply::Fault(status, reason))
    }

    /// The scheduler of the copy.
    pub fn scheduler(&self) -> Scheduler {
        self.parts.restore(self.saved.clone())
    }

    fn why(self, group: &str) -> Result<Reply, (u16, String)> {
        let scheduler = self.scheduler();
        let group = resolve(&scheduler, group)?;
        Ok(Reply::Data(why(&scheduler, &group, self.now)))
    }

    /// The state and, as records, a time input and all decisions until there is none: JSON lines that
    /// [`Replay`](phalanx::simulate::Replay) reads.
    fn snapshot(self) -> Result<String, (u16, String)> {
        let failed = |error: serde_json::Error| (500, error.to_string());
        let mut text = serde_json::to_string(&self.saved).map_err(failed)?;
        text.push('\n');
        let mut records = Vec::new();
        let mut recorder = Recorder::new(self.scheduler(), |record: &Record| {
            records.push(serde_json::to_string(record));
        });
        let _ = recorder.handle(Recorded::Time, self.now);
        for _ in 0..STEPS {
            if recorder.poll_decision(self.now).is_none() {
                break;
            }
        }
        drop(recorder);
        for record in records {
            text.push_str(&record.map_err(failed)?);
            text.push('\n');
        }
        Ok(text)
    }

    fn what_if(self, manifest: &str) -> Result<Reply, (u16, String)> {
        let read = read(manifest).map_err(|reason| (400, reason))?;
        if read.groups.is_empty() {
            return Err((400, "the manifest has no pods that wait".to_owned()));
        }
        let mut groups = read.groups.clone();
        for group in &mut groups {
            self.enqueue(group, &read);
        }
        let notes: Vec<String> = read.notes.iter().map(ToString::to_string).collect();
        let mut answer = self.tried(self.scheduler(), &groups)?;
        // Without preemption nobody would go: say who would, if it were on.
        let waits = answer["groups"].as_array().is_some_and(|all| {
            all.iter().any(|group| group["starts"] == false && group["victims"] == json!([]))
        });
        if waits && self.parts.settings.preemption.is_none() {
            let mut settings = self.parts.settings.clone();
            settings.preemption = Some(PreemptionSettings::default());
            let scheduler = self.parts.restore(self.saved.clone().with_settings(settings));
            answer["withPreemption"] = self.tried(scheduler, &groups)?["groups"].take();
        }
        if waits && !self.templates.is_empty() {
            let (scheduler, framework) = (self.scheduler(), &self.parts.framework);
            let nodes = scale::nodes_for(&scheduler, framework, &self.templates, &groups);
            answer["nodesToAdd"] = nodes.unwrap_or_else(|reason| json!({"error": reason}));
        }
        answer["notes"] = notes.into();
        Ok(Reply::Data(answer))
    }

    /// Puts a group of a manifest in the queue that it would be in.
    fn enqueue(&self, group: &mut PodGroup, read: &Manifests) {
        let Some(queues) = &self.queues else { return };
        if !group.queue.is_empty() {
            return;
        }
        let pods = group.all_pods();
        let label = pods.first().and_then(|pod| pod.shape().labels.get(QUEUE_LABEL));
        let none = Default::default();
        let labels = read.namespaces.get(&group.namespace).unwrap_or(&none);
        let local = label.map_or("default", String::as_str);
        if let Some(queue) = queues.cluster_queue(&group.namespace, labels, local) {
            group.queue = queue.to_owned();
        }
    }

    /// Gives groups to a copy of the scheduler, and reads what it decides.
    fn tried(&self, mut scheduler: Scheduler, groups: &[PodGroup]) -> Result<Value, (u16, String)> {
        let names: Vec<String> = groups.iter().map(|group| group.full_name().to_string()).collect();
        for (group, name) in groups.iter().zip(&names) {
            if scheduler.state(name).is_some() {
                return Err((409, format!("group {name} is there already: ask why it waits")));
            }
            let taken = scheduler.handle_group(group.clone(), self.now);
            taken.map_err(|error| (400, format!("group {name}: {error}")))?;
        }
        let mut before = Vec::new();
        let mut fates = vec![Fate::default(); groups.len()];
        for _ in 0..STEPS {
            let Some(decision) = scheduler.poll_decision(self.now) else { break };
            let at = |group: &str| names.iter().position(|name| name == group);
            match decision {
                Decision::Bind { groups, plan, .. } | Decision::Prepare { groups, plan, .. } => {
                    for group in &groups {
                        match at(group) {
                            Some(at) => fates[at].place(&plan, true),
                            None => before.push(group.to_string()),
                        }
                    }
                }
                Decision::Evict { victims, plan, .. } => {
                    if let Some(at) = at(&plan.group()) {
                        fates[at].place(&plan, false);
                        let victims = victims.iter().map(|victim| {
                            json!({
                                "name": victim.name.as_str(), "whole": victim.whole,
                                "priority": victim.priority, "pods": victim.pods.len(),
                            })
                        });
                        fates[at].victims.extend(victims);
                    }
                }
                Decision::Move { moves, plan, .. } => {
                    if let Some(at) = at(&plan.group()) {
                        fates[at].place(&plan, false);
                        let moves = moves.iter().map(|step| {
                            json!({
                                "pod": step.pod.name.as_str(), "from": step.pod.node.as_str(),
                                "to": step.to,
                            })
                        });
                        fates[at].moves.extend(moves);
                    }
                }
                _ => {}
            }
        }
        let rows = names.iter().zip(fates).map(|(name, fate)| {
            let mut row = json!({
                "group": name, "starts": fate.starts, "nodes": fate.nodes,
                "domains": fate.domains, "victims": fate.victims, "moves": fate.moves,
            });
            if !fate.starts {
                row["why"] = why(&scheduler, name, self.now);
            }
            row
        });
        let rows: Vec<Value> = rows.collect();
        Ok(json!({"groups": rows, "startBefore": before}))
    }
}

/// The label by which pods name a local queue of Kueue's.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// The end of a group in a trial.
#[derive(Clone, Default)]
struct Fate {
    starts: bool,
    /// Pods by node.
    nodes: serde_json::Map<String, Value>,
    domains: Vec<String>,
    victims: Vec<Value>,
    moves: Vec<Value>,
}

impl Fate {
    fn place(&mut self, plan: &Plan, starts: bool) {
        self.starts |= starts;
        for (node, pods) in plan.pods_per_node() {
            self.nodes.insert(node.to_owned(), pods.into());
        }
        self.domains = plan.domains().map(|(_, key, value)| format!("{key}={value}")).collect();
    }
}

/// The groups of manifests, as people write them.
pub fn read(text: &str) -> Result<Manifests, String> {
    let documents: Vec<Document> =
        serde_saphyr::from_multiple(text).map_err(|error| format!("the manifest: {error}"))?;
    let mut reader = Reader::new(Mode::AsWritten);
    for document in documents {
        reader.take("manifest", document).map_err(|error| error.to_string())?;
    }
    reader.finish().map_err(|error| error.to_string())
}

/// The full name of a group that people name in full, or by its last part if that is of one group.
fn resolve(scheduler: &Scheduler, name: &str) -> Result<String, (u16, String)> {
    if scheduler.state(name).is_some() {
        return Ok(name.to_owned());
    }
    let mut same = scheduler.groups().filter(|group| {
        let own = group.split_once('/').map_or(*group, |(_, own)| own);
        own == name || own.strip_prefix("pod:") == Some(name)
    });
    match (same.next(), same.next()) {
        (Some(group), None) => Ok(group.to_owned()),
        (Some(one), Some(two)) => Err((409, format!("{name} is {one} or {two}: name it in full"))),
        _ => Err((404, format!("no group is named {name}"))),
    }
}

/// Why a group waits: its state, what is short, what would help, and when it was promised a start.
fn why(scheduler: &Scheduler, group: &str, now: Time) -> Value {
    let Some(status) = scheduler.status(group) else { return Value::Null };
    let (state, reason) = words(&status.state);
    let mut answer = json!({
        "group": group, "state": state, "reason": reason, "attempts": status.attempts,
        "pending": status.pending, "bound": status.bound,
    });
    let waited = status.waits.queued + status.waits.backing_off + status.waits.unschedulable;
    answer["waitedSeconds"] = waited.as_secs().into();
    if let Some(shortage) = &status.shortage {
        answer["short"] = sentence(shortage).into();
    }
    if let GroupState::Failed { reason } = &status.state {
        answer["short"] = reason.as_str().into();
    }
    if let GroupState::Gated(gate) = &status.state {
        answer["short"] = gated(gate).into();
    }
    if let Some(promise) = scheduler.promises().iter().find(|own| own.group.as_str() == group) {
        answer["promisedInSeconds"] = promise.at.since(now).as_secs().into();
    }
    if let Ok(Some(explanation)) = scheduler.explain(group, now) {
        let remedies: Vec<String> = explanation.remedies.iter().map(ToString::to_string).collect();
        answer["remedies"] = remedies.into();
        answer["explanation"] = explanation.to_string().into();
    }
    answer
}

fn gated(gate: &phalanx::queue::Gate) -> String {
    use phalanx::queue::Gate;
    match gate {
        Gate::Members { have, need, .. } => format!("{have} of {need} members are there"),
        Gate::Partner { group } => format!("its partner {group} is not whole"),
        _ => "it is being evicted".to_owned(),
    }
}

/// The answer to *why* or *what-if* as text for a terminal.
pub fn text(answer: &Value) -> String {
    let mut out = String::new();
    let word = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let Some(groups) = answer["groups"].as_array() else {
        why_text(&mut out, answer, "");
        return out;
    };
    for (title, rows) in [
        ("", groups.as_slice()),
        ("with preemption: ", answer["withPreemption"].as_array().map_or(&[][..], Vec::as_slice)),
    ] {
        for row in rows {
            let name = word(row, "group");
            let starts = row["starts"] == true;
            let victims = row["victims"].as_array().map_or(&[][..], Vec::as_slice);
            let end = match (starts, victims.is_empty()) {
                (true, _) => "would start now",
                (false, false) => "would start once others have gone",
                (false, true) => "would wait",
            };
            let _ = writeln!(out, "{title}{name} {end}");
            for (node, pods) in row["nodes"].as_object().into_iter().flatten() {
                let _ = writeln!(out, "  {pods} on {node}");
            }
            for victim in victims {
                let _ = writeln!(
                    out,
                    "  {} would go ({} pods, priority {})",
                    word(victim, "name"),
                    victim["pods"],
                    victim["priority"]
                );
            }
            for step in row["moves"].as_array().into_iter().flatten() {
                let (pod, from, to) = (word(step, "pod"), word(step, "from"), word(step, "to"));
                let _ = writeln!(out, "  {pod} would move from {from} to {to}");
            }
            if row["why"].is_object() && victims.is_empty() {
                why_text(&mut out, &row["why"], "  ");
            }
        }
    }
    for (name, count) in answer["nodesToAdd"]["nodes"].as_object().into_iter().flatten() {
        let _ = writeln!(out, "{count} more nodes like {name} would start all");
    }
    for group in answer["startBefore"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "{} starts before", group.as_str().unwrap_or_default());
    }
    for note in answer["notes"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "note: {}", note.as_str().unwrap_or_default());
    }
    out
}

fn why_text(out: &mut String, answer: &Value, indent: &str) {
    let group = answer["group"].as_str().unwrap_or_default();
    let state = answer["state"].as_str().unwrap_or_default();
    let _ = writeln!(out, "{indent}{group}: {state}");
    if let Some(short) = answer["short"].as_str() {
        let _ = writeln!(out, "{indent}  {short}");
    }
    if let Some(seconds) = answer["promisedInSeconds"].as_u64() {
        let span = Duration::from_secs(seconds);
        let _ = writeln!(out, "{indent}  promised to start in {span:?}");
    }
    let explanation = answer["explanation"].as_str().unwrap_or_default();
    for line in explanation.lines().skip(1) {
        let _ = writeln!(out, "{indent}  {line}");
    }
}

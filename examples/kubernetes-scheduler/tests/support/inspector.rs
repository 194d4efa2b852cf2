//! Rules that hold in a cluster whatever happens to it, judged from objects of the API alone. Nothing here knows
//! who made them, who binds them, or what is done to the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde_json::Value;

use super::objects::milli;

/// Namespace and name.
type Key = (String, String);

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The pods of a node ask for more than it has, in thousandths.
    OverCapacity { node: String, resource: String, used: u64, has: u64 },
    /// Some pods of a gang are bound, and for too long fewer than its minimum.
    BelowMinimum { gang: String, bound: usize, min: usize },
    /// A gang that must share a value of a label is on nodes of several.
    Apart { gang: String, label: String, values: Vec<String> },
    /// A pod that was bound to one node is bound to another.
    BoundTwice { pod: String, from: String, to: String },
    /// At the end a pod is not bound.
    Unbound { pod: String },
    /// At the end a gang is below its minimum.
    NeverWhole { gang: String, bound: usize, min: usize },
}

impl Finding {
    /// Name of the rule.
    pub fn rule(&self) -> &'static str {
        match self {
            Finding::OverCapacity { .. } => "capacity",
            Finding::BelowMinimum { .. } => "minimum",
            Finding::Apart { .. } => "apart",
            Finding::BoundTwice { .. } => "twice",
            Finding::Unbound { .. } => "unbound",
            Finding::NeverWhole { .. } => "never whole",
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule())?;
        match self {
            Finding::OverCapacity { node, resource, used, has } => {
                write!(f, "{node} has {has} thousandths of {resource}, and its pods {used}")
            }
            Finding::BelowMinimum { gang, bound, min } => {
                write!(f, "{gang} is at {bound} of at least {min} pods beyond the deadline")
            }
            Finding::Apart { gang, label, values } => {
                write!(f, "{gang} is on nodes with {label} {}", values.join(", "))
            }
            Finding::BoundTwice { pod, from, to } => write!(f, "{pod} goes from {from} to {to}"),
            Finding::Unbound { pod } => write!(f, "{pod} waits at the end"),
            Finding::NeverWhole { gang, bound, min } => {
                write!(f, "{gang} is at {bound} of at least {min} pods at the end")
            }
        }
    }
}

/// Numbers of what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub observations: usize,
    pub gangs: usize,
    pub gangs_whole: usize,
    pub pods: usize,
    pub bindings: usize,
    /// The longest time for which a gang was below its minimum.
    pub longest_below: Duration,
    /// From the first sight of a gang to its minimum, for each that reached it.
    pub waits: Vec<Duration>,
}

#[derive(Debug)]
struct Pod {
    key: Key,
    gang: Option<Key>,
    node: Option<String>,
    requests: BTreeMap<String, u64>,
    terminating: bool,
}

#[derive(Debug)]
struct Gang {
    uid: String,
    min: usize,
    label: Option<String>,
    since: Duration,
    whole: bool,
    below: Option<Duration>,
    reported: bool,
}

#[derive(Debug, Default)]
struct Node {
    /// Whether it is there; what a node had is known for as long as pods are on it.
    there: bool,
    has: BTreeMap<String, u64>,
    labels: BTreeMap<String, String>,
}

/// The rules, and the objects that they are judged by. Time is that for which the objects were known.
#[derive(Debug)]
pub struct Inspector {
    /// The longest time for which a gang may be below its minimum.
    deadline: Duration,
    now: Duration,
    pods: BTreeMap<String, Pod>,
    gangs: BTreeMap<Key, Gang>,
    members: BTreeMap<Key, BTreeSet<String>>,
    nodes: BTreeMap<String, Node>,
    used: BTreeMap<String, BTreeMap<String, u64>>,
    /// Nodes and gangs with a finding that holds still: it is told once.
    known: BTreeSet<(&'static str, String)>,
    findings: Vec<Finding>,
    seen: Seen,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn key(object: &Value) -> Key {
    (text(object, "namespace").to_owned(), text(object, "name").to_owned())
}

fn shown((namespace, name): &Key) -> String {
    format!("{namespace}/{name}")
}

impl Pod {
    fn read(object: &Value) -> Self {
        let mut requests = BTreeMap::from([("pods".to_owned(), 1000)]);
        for container in object["spec"]["containers"].as_array().into_iter().flatten() {
            for (name, amount) in
                container["resources"]["requests"].as_object().into_iter().flatten()
            {
                *requests.entry(name.clone()).or_default() += milli(amount);
            }
        }
        let group = object["spec"]["schedulingGroup"]["podGroupName"].as_str();
        Self {
            key: key(object),
            gang: group.map(|group| (text(object, "namespace").to_owned(), group.to_owned())),
            node: object["spec"]["nodeName"].as_str().map(ToOwned::to_owned),
            requests,
            terminating: !object["metadata"]["deletionTimestamp"].is_null(),
        }
    }
}

impl Inspector {
    /// Rules with the longest time for which a gang may be below its minimum.
    pub fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            now: Duration::ZERO,
            pods: BTreeMap::new(),
            gangs: BTreeMap::new(),
            members: BTreeMap::new(),
            nodes: BTreeMap::new(),
            used: BTreeMap::new(),
            known: BTreeSet::new(),
            findings: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Findings since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// Numbers of what was seen so far.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Time goes on, by one for which the objects were known.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        let gangs: Vec<Key> = self
            .gangs
            .iter()
            .filter(|(_, gang)| gang.below.is_some())
            .map(|(key, _)| key.clone())
            .collect();
        gangs.iter().for_each(|gang| self.judge_gang(gang));
    }

    /// A pod that is new or has changed.
    pub fn put_pod(&mut self, object: &Value) {
        self.seen.observations += 1;
        let touched = self.note_pod(object);
        self.judge(touched);
    }

    /// A pod that is gone.
    pub fn drop_pod(&mut self, object: &Value) {
        self.seen.observations += 1;
        let touched = self.forget_pod(text(object, "uid"));
        self.judge(touched);
    }

    /// All pods that there are.
    pub fn all_pods(&mut self, objects: &[Value]) {
        self.seen.observations += 1;
        let listed: BTreeSet<&str> = objects.iter().map(|object| text(object, "uid")).collect();
        let gone: Vec<String> =
            self.pods.keys().filter(|uid| !listed.contains(uid.as_str())).cloned().collect();
        // Judged as one: a list is a single moment.
        let mut touched: Vec<Touched> = gone.iter().map(|uid| self.forget_pod(uid)).collect();
        touched.extend(objects.iter().map(|object| self.note_pod(object)));
        touched.into_iter().for_each(|touched| self.judge(touched));
    }

    /// A gang that is new or has changed.
    pub fn put_gang(&mut self, object: &Value) {
        let (key, uid) = (key(object), text(object, "uid").to_owned());
        let spec = &object["spec"];
        let min = spec["schedulingPolicy"]["gang"]["minCount"].as_u64().unwrap_or(1);
        if self.gangs.get(&key).is_none_or(|known| known.uid != uid) {
            self.seen.gangs += 1;
            let label = spec["schedulingConstraints"]["topology"][0]["key"].as_str();
            let gang = Gang {
                uid,
                min: usize::try_from(min).unwrap_or(usize::MAX),
                label: label.map(ToOwned::to_owned),
                since: self.now,
                whole: false,
                below: None,
                reported: false,
            };
            self.gangs.insert(key.clone(), gang);
        }
        self.judge_gang(&key);
    }

    /// A gang that is gone.
    pub fn drop_gang(&mut self, object: &Value) {
        self.gangs.remove(&key(object));
    }

    /// All gangs that there are.
    pub fn all_gangs(&mut self, objects: &[Value]) {
        let listed: BTreeSet<Key> = objects.iter().map(key).collect();
        self.gangs.retain(|key, _| listed.contains(key));
        objects.iter().for_each(|object| self.put_gang(object));
    }

    /// A node that is new or has changed.
    pub fn put_node(&mut self, object: &Value) {
        let name = text(object, "name").to_owned();
        let strings = |object: &Value| -> Vec<(String, Value)> {
            object
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let labels = strings(&object["metadata"]["labels"]).into_iter();
        let has = strings(&object["status"]["allocatable"]).into_iter();
        let node = Node {
            there: true,
            has: has.map(|(name, amount)| (name, milli(&amount))).collect(),
            labels: labels
                .map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned()))
                .collect(),
        };
        self.nodes.insert(name.clone(), node);
        self.judge_node(&name);
        self.judge_gangs_on(&name);
    }

    /// A node that is gone.
    pub fn drop_node(&mut self, object: &Value) {
        let name = text(object, "name");
        if let Some(node) = self.nodes.get_mut(name) {
            node.there = false;
        }
        self.judge_gangs_on(name);
    }

    /// All nodes that there are.
    pub fn all_nodes(&mut self, objects: &[Value]) {
        let listed: BTreeSet<&str> = objects.iter().map(|object| text(object, "name")).collect();
        for (name, node) in &mut self.nodes {
            node.there &= listed.contains(name.as_str());
        }
        objects.iter().for_each(|object| self.put_node(object));
    }

    /// The end: whatever is there must run.
    pub fn end(&mut self) {
        let waiting = self.pods.values().filter(|pod| pod.node.is_none() && !pod.terminating);
        self.findings.extend(waiting.map(|pod| Finding::Unbound { pod: shown(&pod.key) }));
        for (key, gang) in &self.gangs {
            let bound = self.bound_of(key).count();
            if bound < gang.min {
                let (gang, min) = (shown(key), gang.min);
                self.findings.push(Finding::NeverWhole { gang, bound, min });
            }
        }
    }

    fn note_pod(&mut self, object: &Value) -> Touched {
        let (uid, pod) = (text(object, "uid").to_owned(), Pod::read(object));
        let before = self.pods.get(&uid).and_then(|before| before.node.clone());
        if !self.pods.contains_key(&uid) {
            self.seen.pods += 1;
        }
        match (before, &pod.node) {
            (None, Some(node)) => {
                self.seen.bindings += 1;
                let used = self.used.entry(node.clone()).or_default();
                for (name, amount) in &pod.requests {
                    *used.entry(name.clone()).or_default() += amount;
                }
            }
            (Some(from), Some(to)) if from != *to => {
                let (pod, to) = (shown(&pod.key), to.clone());
                self.findings.push(Finding::BoundTwice { pod, from, to });
            }
            _ => {}
        }
        let touched = Touched { node: pod.node.clone(), gang: pod.gang.clone() };
        if let Some(gang) = &pod.gang {
            self.members.entry(gang.clone()).or_default().insert(uid.clone());
        }
        self.pods.insert(uid, pod);
        touched
    }

    fn forget_pod(&mut self, uid: &str) -> Touched {
        let Some(pod) = self.pods.remove(uid) else { return Touched::default() };
        if let Some(used) = pod.node.as_ref().and_then(|node| self.used.get_mut(node)) {
            for (name, amount) in &pod.requests {
                let used = used.entry(name.clone()).or_default();
                *used = used.saturating_sub(*amount);
            }
        }
        if let Some(gang) = &pod.gang
            && let Some(members) = self.members.get_mut(gang)
        {
            members.remove(uid);
            if members.is_empty() {
                self.members.remove(gang);
            }
        }
        Touched { node: pod.node, gang: pod.gang }
    }

    fn judge(&mut self, touched: Touched) {
        if let Some(node) = touched.node {
            self.judge_node(&node);
        }
        if let Some(gang) = touched.gang {
            self.judge_gang(&gang);
        }
    }

    fn judge_node(&mut self, name: &str) {
        let (Some(node), Some(used)) = (self.nodes.get(name), self.used.get(name)) else { return };
        let over = used
            .iter()
            .find(|(resource, used)| **used > node.has.get(*resource).copied().unwrap_or(0));
        let mark = ("capacity", name.to_owned());
        match over {
            None => drop(self.known.remove(&mark)),
            Some((resource, used)) if self.known.insert(mark) => {
                let has = node.has.get(resource).copied().unwrap_or(0);
                let (node, resource) = (name.to_owned(), resource.clone());
                self.findings.push(Finding::OverCapacity { node, resource, used: *used, has });
            }
            Some(_) => {}
        }
    }

    /// Nodes of a gang's pods that run, or will: on nodes that are there, with no end asked for.
    fn bound_of(&self, gang: &Key) -> impl Iterator<Item = &Node> {
        let pods =
            self.members.get(gang).into_iter().flatten().filter_map(|uid| self.pods.get(uid));
        let nodes = pods
            .filter(|pod| !pod.terminating)
            .filter_map(|pod| self.nodes.get(pod.node.as_ref()?));
        nodes.filter(|node| node.there)
    }

    fn judge_gangs_on(&mut self, node: &str) {
        let on = self.pods.values().filter(|pod| pod.node.as_deref() == Some(node));
        let gangs: BTreeSet<Key> = on.filter_map(|pod| pod.gang.clone()).collect();
        gangs.iter().for_each(|gang| self.judge_gang(gang));
    }

    fn judge_gang(&mut self, key: &Key) {
        let Some(known) = self.gangs.get(key) else { return };
        let bound = self.bound_of(key).count();
        let values: BTreeSet<String> = match &known.label {
            None => BTreeSet::new(),
            Some(label) => {
                self.bound_of(key).filter_map(|node| node.labels.get(label).cloned()).collect()
            }
        };
        let mark = ("apart", shown(key));
        if values.len() < 2 {
            self.known.remove(&mark);
        } else if self.known.insert(mark) {
            let label = known.label.clone().unwrap_or_default();
            let values = values.into_iter().collect();
            self.findings.push(Finding::Apart { gang: shown(key), label, values });
        }
        let Some(gang) = self.gangs.get_mut(key) else { return };
        if bound == 0 || bound >= gang.min {
            gang.below = None;
            gang.reported = false;
            if bound > 0 && !std::mem::replace(&mut gang.whole, true) {
                self.seen.gangs_whole += 1;
                self.seen.waits.push(self.now - gang.since);
            }
            return;
        }
        let below = self.now - *gang.below.get_or_insert(self.now);
        self.seen.longest_below = self.seen.longest_below.max(below);
        if below > self.deadline && !std::mem::replace(&mut gang.reported, true) {
            let (gang, min) = (shown(key), gang.min);
            self.findings.push(Finding::BelowMinimum { gang, bound, min });
        }
    }
}

/// The node and the gang of a pod that changed.
#[derive(Default)]
struct Touched {
    node: Option<String>,
    gang: Option<Key>,
}

//! The API server of the random lives: objects, and a log of lines for each kind.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::kubernetes::watch::Kind;
use serde_json::{Value, json};

use super::relist::list_end;

/// The kinds that live.
pub(crate) const KINDS: [Kind; 3] = [Kind::Pod, Kind::PodGroup, Kind::CompositePodGroup];

/// CPU of a node, in cores.
pub(crate) const CPU: u32 = 8;

#[derive(Debug, Clone)]
pub(crate) struct PodLife {
    pub(crate) uid: u64,
    pub(crate) group: Option<String>,
    pub(crate) cpu: u32,
    pub(crate) node: Option<String>,
    pub(crate) succeeded: bool,
    version: u64,
    touched: u64,
}

impl PodLife {
    pub(crate) fn runs(&self) -> bool {
        self.node.is_some() && !self.succeeded
    }

    pub(crate) fn waits(&self) -> bool {
        self.node.is_none() && !self.succeeded
    }
}

#[derive(Debug, Clone)]
pub(crate) struct GroupLife {
    uid: u64,
    pub(crate) min: u32,
    pub(crate) parent: Option<String>,
    version: u64,
}

/// A line that a watch may send, by its version.
pub(crate) type Line = (u64, Value);

#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) version: u64,
    pub(crate) pods: BTreeMap<String, PodLife>,
    pub(crate) groups: BTreeMap<String, GroupLife>,
    pub(crate) composites: BTreeMap<String, GroupLife>,
    log: BTreeMap<Kind, Vec<Line>>,
}

impl Truth {
    /// An empty server at a version.
    pub(crate) fn after(version: u64) -> Truth {
        Truth { version, ..Truth::default() }
    }

    pub(crate) fn log(&self, kind: Kind) -> &[Line] {
        self.log.get(&kind).map_or(&[], Vec::as_slice)
    }

    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn write(&mut self, kind: Kind, word: &str, object: Value) {
        let line = json!({"type": word, "object": object});
        self.log.entry(kind).or_default().push((self.version, line));
    }

    pub(crate) fn add_pod(&mut self, name: &str, group: Option<String>, cpu: u32) {
        let version = self.next();
        let (node, succeeded, touched) = (None, false, 0);
        let pod = PodLife { uid: version, group, cpu, node, succeeded, version, touched };
        self.write(Kind::Pod, "ADDED", pod_object(name, &pod));
        self.pods.insert(name.to_owned(), pod);
    }

    pub(crate) fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut PodLife)) {
        let version = self.next();
        let Some(pod) = self.pods.get_mut(name) else { return };
        change(pod);
        pod.version = version;
        pod.touched += 1;
        let object = pod_object(name, pod);
        self.write(Kind::Pod, "MODIFIED", object);
    }

    pub(crate) fn delete_pod(&mut self, name: &str) {
        let version = self.next();
        let Some(mut pod) = self.pods.remove(name) else { return };
        pod.version = version;
        self.write(Kind::Pod, "DELETED", pod_object(name, &pod));
    }

    fn lives(&mut self, kind: Kind) -> &mut BTreeMap<String, GroupLife> {
        if kind == Kind::PodGroup { &mut self.groups } else { &mut self.composites }
    }

    /// Makes a group, or changes its minimum; a parent is for life.
    pub(crate) fn put_group(&mut self, kind: Kind, name: &str, min: u32, parent: Option<String>) {
        let version = self.next();
        let lives = self.lives(kind);
        let word = if lives.contains_key(name) { "MODIFIED" } else { "ADDED" };
        let fresh = GroupLife { uid: version, min, parent, version };
        let life = lives.entry(name.to_owned()).or_insert(fresh);
        (life.min, life.version) = (min, version);
        let object = group_object(kind, name, life);
        self.write(kind, word, object);
    }

    pub(crate) fn delete_group(&mut self, kind: Kind, name: &str) {
        let version = self.next();
        let Some(mut life) = self.lives(kind).remove(name) else { return };
        life.version = version;
        self.write(kind, "DELETED", group_object(kind, name, &life));
    }

    /// Lines of all objects of a kind, and the bookmark that ends them.
    pub(crate) fn list(&mut self, kind: Kind) -> (Vec<Value>, Value) {
        let added = |object: Value| json!({"type": "ADDED", "object": object});
        let lines = if kind == Kind::Pod {
            self.pods.iter().map(|(name, pod)| added(pod_object(name, pod))).collect()
        } else {
            let lives = self.lives(kind).iter();
            lives.map(|(name, life)| added(group_object(kind, name, life))).collect()
        };
        let mut end = list_end(kind);
        end["metadata"]["resourceVersion"] = self.version.to_string().into();
        (lines, json!({"type": "BOOKMARK", "object": end}))
    }

    /// The pods that run, with their nodes.
    pub(crate) fn running(&self) -> BTreeSet<(String, String)> {
        let runs = self.pods.iter().filter(|(_, pod)| pod.runs());
        runs.map(|(name, pod)| (name.clone(), pod.node.clone().unwrap_or_default())).collect()
    }

    /// The root of a group's tree: itself, or a composite group; `None` while one above is missing.
    fn root(&self, group: &str) -> Option<String> {
        let Some(mut parent) = self.groups.get(group)?.parent.clone() else {
            return Some(group.to_owned());
        };
        loop {
            match self.composites.get(&parent)?.parent.clone() {
                Some(above) => parent = above,
                None => return Some(format!("composite:{parent}")),
            }
        }
    }

    /// The groups that the scheduler is to know.
    pub(crate) fn expected_groups(&self) -> BTreeSet<String> {
        let pods = self.pods.iter();
        let groups = pods.filter_map(|(name, pod)| match &pod.group {
            Some(group) => self.root(group),
            None => pod.waits().then(|| format!("pod:{name}")),
        });
        groups.map(|name| format!("default/{name}")).collect()
    }

    /// The pods that wait in a group of the scheduler.
    pub(crate) fn waiting_in(&self, group: &str) -> BTreeSet<String> {
        let is_in = |name: &str, pod: &PodLife| match &pod.group {
            Some(own) => self.root(own).is_some_and(|root| format!("default/{root}") == group),
            None => format!("default/pod:{name}") == group,
        };
        let waits = self.pods.iter().filter(|(name, pod)| pod.waits() && is_in(name, pod));
        waits.map(|(name, _)| name.clone()).collect()
    }
}

fn pod_object(name: &str, pod: &PodLife) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": pod.uid.to_string(),
            "resourceVersion": pod.version.to_string(), "labels": {"touched": pod.touched.to_string()}},
        "spec": {"schedulerName": "phalanx", "nodeName": pod.node,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": pod.cpu}}}]}});
    if let Some(group) = &pod.group {
        object["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    }
    if pod.succeeded {
        object["status"] = json!({"phase": "Succeeded"});
    }
    object
}

fn group_object(kind: Kind, name: &str, life: &GroupLife) -> Value {
    let (api, word, minimum) = if kind == Kind::PodGroup {
        ("scheduling.k8s.io/v1beta1", "PodGroup", "minCount")
    } else {
        ("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "minGroupCount")
    };
    json!({"apiVersion": api, "kind": word,
        "metadata": {"namespace": "default", "name": name, "uid": life.uid.to_string(),
            "resourceVersion": life.version.to_string()},
        "spec": {"schedulingPolicy": {"gang": {minimum: life.min}},
            "parentCompositePodGroupName": life.parent}})
}

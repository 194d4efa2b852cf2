//! Reads objects one by one and keeps what scheduling reads of them.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::Deserializer;
use serde::de::DeserializeSeed;

use super::field::{Fault, Field};
use super::groups::{self, GroupObject};
use super::manifests::{Manifests, Note};
use super::owners::Owners;
use super::pod::{Fate, PodRecord};
use super::priority::Classes;
use super::stream::Document;
use super::value::Value;
use super::volcano::{self, Job};
use super::{Error, Mode, assemble, metadata, node, pod};
use crate::base::hash::FixedMap;
use crate::model::{Labels, ModelError, Node, PodShape, Problem};

/// Reads manifests, from as many sources as there are, and makes [`Manifests`] of them.
///
/// Documents are read as a stream: a list of a hundred thousand pods is never in memory as text
/// or as a tree of values, only as what scheduling reads of it.
///
/// After an error the reader takes nothing more, and [`Reader::finish`] answers with that error.
///
/// ```
/// use phalanx::kubernetes::{Mode, Reader};
///
/// let text = r#"{"apiVersion": "v1", "kind": "List", "items": [
///     {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
///      "status": {"capacity": {"cpu": "8", "pods": "110"}}},
///     {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
///      "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}]}}]}"#;
/// let mut reader = Reader::new(Mode::AsWritten);
/// reader.read("dump.json", &mut serde_json::Deserializer::from_str(text))?;
/// let manifests = reader.finish()?;
/// assert_eq!(manifests.nodes[0].allocatable.of("cpu"), 8_000);
/// assert_eq!(manifests.groups[0].full_name(), "default/a");
/// assert_eq!(manifests.groups[0].pods[0].shape().requests.of("cpu"), 500);
/// # Ok::<(), phalanx::kubernetes::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    pub(super) mode: Mode,
    pub(super) sources: Vec<String>,
    pub(super) nodes: Vec<Node>,
    node_index: FixedMap<String, usize>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) pods: Vec<PodRecord>,
    pub(super) pod_index: FixedMap<String, usize>,
    shapes: FixedMap<Arc<PodShape>, ()>,
    pub(super) groups: Vec<GroupObject>,
    pub(super) jobs: Vec<Job>,
    /// Volcano jobs that have pods of their own in the input.
    pub(super) started_jobs: BTreeSet<(String, String)>,
    pub(super) classes: Classes,
    pub(super) owners: Owners,
    pub(super) notes: Vec<Note>,
    pub(super) ignored: BTreeMap<String, u64>,
    /// Objects that a second one with the same kind and name must not follow.
    seen: BTreeSet<(&'static str, String, String)>,
    order: u64,
    failure: Option<Error>,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new(mode: Mode) -> Reader {
        Reader {
            mode,
            sources: Vec::new(),
            nodes: Vec::new(),
            node_index: FixedMap::default(),
            namespaces: BTreeMap::new(),
            pods: Vec::new(),
            pod_index: FixedMap::default(),
            shapes: FixedMap::default(),
            groups: Vec::new(),
            jobs: Vec::new(),
            started_jobs: BTreeSet::new(),
            classes: Classes::default(),
            owners: Owners::default(),
            notes: Vec::new(),
            ignored: BTreeMap::new(),
            seen: BTreeSet::new(),
            order: 0,
            failure: None,
        }
    }

    /// Reads one document: an object, a list of objects, or nothing.
    ///
    /// `source` is how errors name where the document is from, such as a file's name. The
    /// deserializer must be of a self-describing format. What stands behind the document is the
    /// caller's to read.
    ///
    /// # Errors
    /// The document is malformed, or an object in it cannot be taken.
    pub fn read<'de, D: Deserializer<'de>>(
        &mut self,
        source: &str,
        deserializer: D,
    ) -> Result<(), Error> {
        self.begin(source)?;
        let mut rejected = None;
        let document = Document { reader: self, rejected: &mut rejected };
        match document.deserialize(deserializer) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail(match rejected {
                Some(error) => Error::Object { source_name: source.to_owned(), error },
                None => {
                    Error::Syntax { source_name: source.to_owned(), message: error.to_string() }
                }
            })),
        }
    }

    /// Takes a document that is a [`Value`] already, as [`Reader::read`] would.
    ///
    /// For formats whose deserializer does not hand over one document at a time.
    ///
    /// # Errors
    /// An object cannot be taken.
    pub fn take(&mut self, source: &str, document: Value) -> Result<(), Error> {
        self.begin(source)?;
        self.accept(document, None)
            .map_err(|error| self.fail(Error::Object { source_name: source.to_owned(), error }))
    }

    /// Puts together what was read.
    ///
    /// # Errors
    /// An earlier error, or objects that do not go together: a group that does not exist, members
    /// that disagree, parents in a circle.
    pub fn finish(mut self) -> Result<Manifests, Error> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => assemble::assemble(self),
        }
    }

    fn begin(&mut self, source: &str) -> Result<(), Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.sources.last().is_none_or(|last| last != source) {
            self.sources.push(source.to_owned());
        }
        Ok(())
    }

    fn fail(&mut self, error: Error) -> Error {
        self.failure = Some(error.clone());
        error
    }

    /// The number of the source that is being read.
    fn source(&self) -> u32 {
        u32::try_from(self.sources.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Takes an object, or the objects of a list. `like` is the kind and version of objects that
    /// state none, because their list does.
    pub(super) fn accept(&mut self, value: Value, like: Option<&(String, String)>) -> Fault<()> {
        match value {
            Value::Null => Ok(()),
            Value::List(values) => values.into_iter().try_for_each(|v| self.accept(v, like)),
            Value::Map(_) => {
                let text = |name: &str| value.entry(name).and_then(Value::text).unwrap_or("");
                let stated = (text("apiVersion").to_owned(), text("kind").to_owned());
                let (version, kind) = match like {
                    Some(like) if stated.1.is_empty() => like.clone(),
                    _ => stated,
                };
                match kind.strip_suffix("List") {
                    Some(of) if value.entry("items").is_some() => {
                        let like = (!of.is_empty()).then(|| (version, of.to_owned()));
                        self.accept_items(value, like.as_ref())
                    }
                    _ => self.object(&value, &version, &kind),
                }
            }
            other => {
                let text = format!("{} is no object", other.what());
                Err(ModelError::new("document", "kind", Problem::Invalid(text)))
            }
        }
    }

    fn accept_items(&mut self, list: Value, like: Option<&(String, String)>) -> Fault<()> {
        let Value::Map(entries) = list else { return Ok(()) };
        for (_, items) in entries.into_iter().filter(|(name, _)| name == "items") {
            match items {
                Value::List(_) | Value::Null => self.accept(items, like)?,
                other => {
                    let text = format!("is {}, not a list", other.what());
                    return Err(ModelError::new("list", "items", Problem::Invalid(text)));
                }
            }
        }
        Ok(())
    }

    /// Takes one object.
    fn object(&mut self, value: &Value, version: &str, kind: &str) -> Fault<()> {
        if kind.is_empty() {
            let object = metadata::object("object", false, value, self.mode);
            return Err(ModelError::new(object.name, "kind", Problem::Required));
        }
        self.order += 1;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let Some(sort) = Sort::of(group, kind) else {
            let name = if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") };
            *self.ignored.entry(name).or_default() += 1;
            return Ok(());
        };
        let object = metadata::object(kind, sort.namespaced(), value, self.mode);
        let root = Field::root(&object, value);
        if root.strict() {
            root.check_repeats()?;
        }
        match sort {
            Sort::Node => self.node(&root),
            Sort::Pod => self.pod(&root),
            Sort::Namespace => self.namespace(&root),
            Sort::Service => self.owners.service(&root),
            Sort::Controller => self.owners.controller(kind, &root),
            Sort::PriorityClass => self.classes.add(&root),
            Sort::Workload => {
                let groups = groups::workload(&root)?;
                self.once("workload", &root)?;
                for group in groups {
                    self.group(group);
                }
                Ok(())
            }
            Sort::PodGroup => self.add_group("podgroup", &root, groups::pod_group(&root, false)?),
            Sort::CompositePodGroup => {
                self.add_group("compositepodgroup", &root, groups::pod_group(&root, true)?)
            }
            Sort::Coscheduling => {
                self.add_group("coscheduling podgroup", &root, groups::coscheduling(&root)?)
            }
            Sort::Volcano => self.add_group("volcano podgroup", &root, groups::volcano(&root)?),
            Sort::Job => {
                let mut job = volcano::job(&root)?;
                self.once("volcano job", &root)?;
                (job.group.source, job.group.order) = (self.source(), self.order);
                for task in &mut job.tasks {
                    task.template.pod = self.interned(task.template.pod.clone());
                }
                self.jobs.push(job);
                Ok(())
            }
        }
    }

    fn add_group(&mut self, kind: &'static str, root: &Field<'_>, group: GroupObject) -> Fault<()> {
        self.once(kind, root)?;
        self.group(group);
        Ok(())
    }

    fn group(&mut self, mut group: GroupObject) {
        (group.source, group.order) = (self.source(), self.order);
        self.groups.push(group);
    }

    /// Refuses a second object of one kind and name, where persons wrote them.
    fn once(&mut self, kind: &'static str, root: &Field<'_>) -> Fault<()> {
        let (namespace, name) = (metadata::namespace(root)?, metadata::name(root)?);
        if self.seen.insert((kind, namespace, name.clone())) || !root.strict() {
            return Ok(());
        }
        Err(root.fail_at("metadata.name", Problem::Duplicate(name)))
    }

    fn node(&mut self, root: &Field<'_>) -> Fault<()> {
        let node = node::node(root)?;
        match self.node_index.get(&node.name) {
            Some(_) if root.strict() => {
                return Err(root.fail_at("metadata.name", Problem::Duplicate(node.name)));
            }
            // What is stored later replaces what was stored earlier.
            Some(&at) => self.nodes[at] = node,
            None => {
                self.node_index.insert(node.name.clone(), self.nodes.len());
                self.nodes.push(node);
            }
        }
        Ok(())
    }

    fn namespace(&mut self, root: &Field<'_>) -> Fault<()> {
        let name = metadata::name(root)?;
        let labels = node::labels(root)?;
        if self.namespaces.insert(name.clone(), labels).is_some() && root.strict() {
            return Err(root.fail_at("metadata.name", Problem::Duplicate(name)));
        }
        Ok(())
    }

    fn pod(&mut self, root: &Field<'_>) -> Fault<()> {
        if let Some(job) = volcano::job_of(root)? {
            self.started_jobs.insert((metadata::namespace(root)?, job));
        }
        let mut record = match pod::pod(root)? {
            Fate::Kept(record) => *record,
            Fate::Finished => return Ok(()),
            Fate::Abandoned => {
                self.notes.push(Note::new(root, "is being deleted before it ran: left out"));
                return Ok(());
            }
        };
        for what in &record.unmodelled {
            self.notes.push(Note::new(root, &format!("{what} not modelled")));
        }
        if !record.pod.scheduling_gates.is_empty() && record.pod.node.is_none() {
            let gates = record.pod.scheduling_gates.join(", ");
            self.notes.push(Note::new(root, &format!("waits for scheduling gates: {gates}")));
        }
        (record.source, record.order) = (self.source(), self.order);
        record.pod = self.interned(record.pod);
        let full = format!("{}/{}", record.pod.namespace(), record.pod.name);
        match self.pod_index.get(&full) {
            Some(_) if root.strict() => {
                return Err(root.fail_at("metadata.name", Problem::Duplicate(record.pod.name)));
            }
            Some(&at) => self.pods[at] = record,
            None => {
                self.pod_index.insert(full, self.pods.len());
                self.pods.push(record);
            }
        }
        Ok(())
    }

    /// The pod, sharing its shape with the pods before it that have the same.
    fn interned(&mut self, pod: crate::model::Pod) -> crate::model::Pod {
        if let Some((shape, ())) = self.shapes.get_key_value(&**pod.shape()) {
            return pod.with_shape(shape.clone());
        }
        self.shapes.insert(pod.shape().clone(), ());
        pod
    }
}

/// The kinds that are read.
#[derive(Clone, Copy)]
enum Sort {
    Node,
    Pod,
    Namespace,
    Service,
    Controller,
    PriorityClass,
    Workload,
    PodGroup,
    CompositePodGroup,
    Coscheduling,
    Volcano,
    Job,
}

impl Sort {
    fn of(group: &str, kind: &str) -> Option<Sort> {
        Some(match (group, kind) {
            ("", "Node") => Sort::Node,
            ("", "Pod") => Sort::Pod,
            ("", "Namespace") => Sort::Namespace,
            ("", "Service") => Sort::Service,
            ("", "ReplicationController") | ("apps", "ReplicaSet" | "StatefulSet") => {
                Sort::Controller
            }
            ("scheduling.k8s.io", "PriorityClass") => Sort::PriorityClass,
            ("scheduling.k8s.io", "Workload") => Sort::Workload,
            ("scheduling.k8s.io", "PodGroup") => Sort::PodGroup,
            ("scheduling.k8s.io", "CompositePodGroup") => Sort::CompositePodGroup,
            ("scheduling.sigs.k8s.io" | "scheduling.x-k8s.io", "PodGroup") => Sort::Coscheduling,
            ("scheduling.volcano.sh", "PodGroup") => Sort::Volcano,
            ("batch.volcano.sh", "Job") => Sort::Job,
            _ => return None,
        })
    }

    fn namespaced(self) -> bool {
        !matches!(self, Sort::Node | Sort::Namespace | Sort::PriorityClass)
    }
}

//! Objects taken one by one; only the parts that scheduling reads are kept.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::account;
use super::claims::{ClaimObjects, ClaimSort};
use super::devices::Cards;
use super::field::Note;
use super::field::{Fault, Field};
use super::groups::{self, GroupObject};
use super::kinds::{self, PodGroupRecord, RuntimeName, Submitted, WorkloadRecord};
use super::membership::WorkloadKind;
use super::mode::Mode;
use super::owners::Owners;
use super::pod::{Fate, PodRecord};
use super::priority::Classes;
use super::storage::{
    StorageRecords, is_classless, is_default_class, is_namespaced, storage_kind, storage_object,
};
use super::stream::Kind;
use super::topologies::Topologies;
use super::value::{Value, text};
use super::withheld::Withheld;
use super::{metadata, node, pod};
use crate::base::hash::FixedMap;
use crate::model::{Labels, ModelError, Node, PodShape, Problem};
use crate::state::StorageKind;

/// The objects read so far.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) mode: Mode,
    pub(super) sources: Vec<String>,
    pub(super) nodes: Vec<Node>,
    node_index: FixedMap<String, usize>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) storage: StorageRecords,
    /// Classes of devices, slices, claims and their templates.
    pub(super) claims: ClaimObjects,
    pub(super) pods: Vec<PodRecord>,
    pub(super) pod_index: FixedMap<String, usize>,
    shapes: FixedMap<Arc<PodShape>, ()>,
    pub(super) groups: Vec<GroupObject>,
    /// Workloads of all kinds, in the order of the input.
    pub(super) submitted: Vec<Submitted>,
    submitted_index: BTreeMap<(WorkloadKind, String, String), usize>,
    /// How many pods in the input, finished ones included, were made for a workload, by its kind,
    /// namespace and name.
    pub(super) made: BTreeMap<(WorkloadKind, String, String), usize>,
    /// Training runtimes, as they are written.
    pub(super) runtimes: BTreeMap<RuntimeName, Value>,
    /// Facts of workloads and pod groups that the rule for jobs asks for.
    pub(super) workloads: Vec<WorkloadRecord>,
    pub(super) pod_groups: Vec<PodGroupRecord>,
    pub(super) classes: Classes,
    /// Kueue's own classes.
    pub(super) workload_classes: Classes,
    pub(super) owners: Owners,
    pub(super) notes: Vec<Note>,
    pub(super) ignored: BTreeMap<String, u64>,
    pub(super) withheld: Withheld,
    pub(super) topologies: Topologies,
    pub(super) cards: Cards,
    /// The number of names made so far from each `generateName`.
    generated: BTreeMap<String, u32>,
    /// Objects that a second one with the same kind and name must not follow.
    seen: BTreeSet<(&'static str, String, String)>,
    order: u64,
}

impl Objects {
    /// Nothing read yet.
    pub(super) fn new(mode: Mode) -> Objects {
        Objects {
            mode,
            sources: Vec::new(),
            nodes: Vec::new(),
            node_index: FixedMap::default(),
            namespaces: BTreeMap::new(),
            storage: StorageRecords::default(),
            claims: ClaimObjects::default(),
            pods: Vec::new(),
            pod_index: FixedMap::default(),
            shapes: FixedMap::default(),
            groups: Vec::new(),
            submitted: Vec::new(),
            submitted_index: BTreeMap::new(),
            made: BTreeMap::new(),
            runtimes: BTreeMap::new(),
            workloads: Vec::new(),
            pod_groups: Vec::new(),
            classes: Classes::default(),
            workload_classes: Classes::default(),
            owners: Owners::default(),
            notes: Vec::new(),
            ignored: BTreeMap::new(),
            withheld: Withheld::default(),
            topologies: Topologies::default(),
            cards: Cards::default(),
            generated: BTreeMap::new(),
            seen: BTreeSet::new(),
            order: 0,
        }
    }

    /// Begins a source: objects taken from now on are from it.
    pub(super) fn begin(&mut self, source: &str) {
        if self.sources.last().is_none_or(|last| last != source) {
            self.sources.push(source.to_owned());
        }
    }

    /// The number of the source that is being read.
    fn source(&self) -> u32 {
        u32::try_from(self.sources.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Takes an object, or the objects of a list. `like` is the kind and version of objects that
    /// state none, because their list does.
    pub(super) fn accept(&mut self, value: Value, like: Option<&Kind>) -> Fault<()> {
        match value {
            Value::Null => Ok(()),
            Value::List(values) => values.into_iter().try_for_each(|v| self.accept(v, like)),
            Value::Map(_) => {
                let own = |name: &str| value.entry(name).and_then(Value::text).unwrap_or("");
                let stated = (own("apiVersion").to_owned(), own("kind").to_owned());
                let own_kind_missing = stated.1.is_empty() && like.is_some();
                let (version, kind) = match like {
                    Some(like) if stated.1.is_empty() => like.clone(),
                    _ => stated,
                };
                match kind.strip_suffix("List") {
                    Some(of) if value.entry("items").is_some() => {
                        let like = (!of.is_empty()).then(|| (version, of.to_owned()));
                        self.accept_items(value, like.as_ref())
                    }
                    _ => {
                        let mut value = value;
                        if own_kind_missing {
                            state_kind(&mut value, &version, &kind);
                        }
                        if self.mode == Mode::AsWritten {
                            metadata::generate_name(&mut value, &mut self.generated);
                        }
                        self.object(&value, &version, &kind)
                    }
                }
            }
            other => {
                let text = format!("{} is no object", other.what());
                Err(ModelError::new("document", "kind", Problem::Invalid(text)))
            }
        }
    }

    fn accept_items(&mut self, list: Value, like: Option<&Kind>) -> Fault<()> {
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
        self.withhold(group, kind, value)?;
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
            Sort::PriorityClass => self.classes.add(&root),
            Sort::WorkloadPriorityClass => self.workload_classes.add(&root),
            Sort::Workload => {
                let groups = groups::workload(&root)?;
                self.once("workload", &root)?;
                self.workloads.push(WorkloadRecord::read(&root)?);
                for group in groups {
                    self.group(group);
                }
                Ok(())
            }
            Sort::PodGroup => {
                let group = groups::pod_group(&root, false)?;
                let record = PodGroupRecord::read(&root)?;
                self.add_group("podgroup", &root, group)?;
                self.pod_groups.push(record);
                Ok(())
            }
            Sort::CompositePodGroup => {
                self.add_group("compositepodgroup", &root, groups::pod_group(&root, true)?)
            }
            Sort::Coscheduling => {
                self.add_group("coscheduling podgroup", &root, groups::coscheduling(&root)?)
            }
            Sort::Volcano => self.add_group("volcano podgroup", &root, groups::volcano(&root)?),
            Sort::Kai => {
                let groups = groups::kai(&root)?;
                self.once("kai podgroup", &root)?;
                for group in groups {
                    self.group(group);
                }
                Ok(())
            }
            Sort::Runtime { of_cluster } => {
                let name = kinds::runtime_name(&root, of_cluster)?;
                if self.runtimes.insert(name.clone(), value.clone()).is_some() && root.strict() {
                    return Err(root.fail_at("metadata.name", Problem::Duplicate(name.1)));
                }
                Ok(())
            }
            Sort::Storage(kind) => self.storage(kind, &root),
            Sort::Claims(sort) => {
                if self.claims.take(sort, &root)? && root.strict() {
                    let name = metadata::name(&root)?;
                    return Err(root.fail_at("metadata.name", Problem::Duplicate(name)));
                }
                Ok(())
            }
            Sort::Submitted(of) => {
                if matches!(of, WorkloadKind::StatefulSet | WorkloadKind::Deployment)
                    || of.is_of_single_pods() && of != WorkloadKind::DaemonSet
                {
                    self.owners.controller(kind, &root)?;
                }
                self.submit(of, &root)
            }
        }
    }

    /// Notes whom an object leaves alone because of what it says of nodes.
    fn withhold(&mut self, group: &str, kind: &str, value: &Value) -> Fault<()> {
        let object = metadata::object(kind, false, value, self.mode);
        self.topologies.take(group, kind, &Field::root(&object, value))?;
        self.cards.take(group, kind, &Field::root(&object, value))?;
        self.withheld.take(group, kind, &Field::root(&object, value))
    }

    /// Takes a workload; the last one of a name counts, where more than one is stored.
    fn submit(&mut self, kind: WorkloadKind, root: &Field<'_>) -> Fault<()> {
        let mut submitted = kinds::read(kind, root)?;
        (submitted.source, submitted.order) = (self.source(), self.order);
        for set in &mut submitted.sets {
            set.template.pod = self.interned(core::mem::take(&mut set.template.pod));
        }
        let identity = (kind, metadata::namespace(root)?, metadata::name(root)?);
        match self.submitted_index.get(&identity) {
            Some(_) if root.strict() => {
                return Err(root.fail_at("metadata.name", Problem::Duplicate(identity.2)));
            }
            Some(&at) => {
                submitted.order = self.submitted[at].order;
                self.submitted[at] = submitted;
            }
            None => {
                self.submitted_index.insert(identity, self.submitted.len());
                self.submitted.push(submitted);
            }
        }
        Ok(())
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
        let mut node = node::node(root)?;
        let refused = account::refused_of(root.value, root.object.mode);
        if !refused.is_empty() {
            node.unschedulable = true;
            self.notes.extend(refused.iter().map(|field| Note::new(root, field)));
        }
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

    fn storage(&mut self, kind: StorageKind, root: &Field<'_>) -> Fault<()> {
        let object = storage_object(kind, root)?;
        let key = object.key();
        let refused = account::refused_of(root.value, root.object.mode);
        if !refused.is_empty() {
            let reason = format!("{}: {}", root.object.name, refused.join("; "));
            self.notes.extend(refused.iter().map(|field| Note::new(root, field)));
            self.storage.refused.insert(key.clone(), reason);
        }
        match kind {
            StorageKind::Claim if root.strict() && is_classless(root)? => {
                self.storage.classless.insert(key.clone());
            }
            StorageKind::Class if is_default_class(root)? => {
                self.storage.default_class = Some(key.name.clone());
            }
            _ => {}
        }
        if self.storage.objects.insert(key.clone(), object).is_some() && root.strict() {
            return Err(root.fail_at("metadata.name", Problem::Duplicate(key.name)));
        }
        Ok(())
    }

    fn pod(&mut self, root: &Field<'_>) -> Fault<()> {
        let fate = pod::pod(root)?;
        let namespace = metadata::namespace(root)?;
        if let Some(job) = kinds::job_of(root)? {
            *self.made.entry((WorkloadKind::VolcanoJob, namespace.clone(), job)).or_default() += 1;
        }
        let gone;
        let made_by = match &fate {
            Fate::Kept(record) => &record.made_by,
            Fate::Finished | Fate::Abandoned => {
                gone = pod::made_by_of(root)?;
                &gone
            }
        };
        for made in made_by {
            let identity = (made.kind, namespace.clone(), made.name.clone());
            *self.made.entry(identity).or_default() += 1;
        }
        if let Fate::Kept(record) = &fate
            && let Some((kind, name)) = record.controller.as_deref()
            && let Some(kind) = WorkloadKind::of_controller(kind)
            && kind.is_of_single_pods()
        {
            *self.made.entry((kind, namespace.clone(), name.clone())).or_default() += 1;
        }
        let mut record = match fate {
            Fate::Kept(record) => *record,
            Fate::Finished => return Ok(()),
            Fate::Abandoned => {
                self.notes.push(Note::new(root, "is being deleted before it ran: left out"));
                return Ok(());
            }
        };
        if !record.pod.scheduling_gates.is_empty() && record.pod.node.is_none() {
            let gates = record.pod.scheduling_gates.join(", ");
            self.notes.push(Note::new(root, &format!("waits for scheduling gates: {gates}")));
        }
        record.refused = account::refused_of(root.value, root.object.mode);
        if record.pod.node.is_none() {
            self.notes.extend(record.refused.iter().map(|field| Note::new(root, field)));
            record.pod.scheduling_gates.extend(record.refused.iter().cloned());
        }
        if let Some(application) = record.application.take() {
            self.group(groups::application(*application, record.pod.namespace()));
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

/// Writes version and kind into an object whose list states them.
fn state_kind(object: &mut Value, version: &str, kind: &str) {
    if let Value::Map(entries) = object {
        entries.push(("apiVersion".to_owned(), text(version)));
        entries.push(("kind".to_owned(), text(kind)));
    }
}

/// The kinds that are read.
#[derive(Clone, Copy)]
enum Sort {
    Node,
    Pod,
    Namespace,
    Service,
    PriorityClass,
    Workload,
    PodGroup,
    CompositePodGroup,
    Coscheduling,
    Volcano,
    Kai,
    WorkloadPriorityClass,
    Runtime { of_cluster: bool },
    Submitted(WorkloadKind),
    Storage(StorageKind),
    Claims(ClaimSort),
}

impl Sort {
    fn of(group: &str, kind: &str) -> Option<Sort> {
        Some(match (group, kind) {
            ("", "Node") => Sort::Node,
            ("", "Pod") => Sort::Pod,
            ("", "Namespace") => Sort::Namespace,
            ("", "Service") => Sort::Service,
            ("scheduling.k8s.io", "PriorityClass") => Sort::PriorityClass,
            ("scheduling.k8s.io", "Workload") => Sort::Workload,
            ("scheduling.k8s.io", "PodGroup") => Sort::PodGroup,
            ("scheduling.k8s.io", "CompositePodGroup") => Sort::CompositePodGroup,
            ("scheduling.sigs.k8s.io" | "scheduling.x-k8s.io", "PodGroup") => Sort::Coscheduling,
            ("scheduling.volcano.sh", "PodGroup") => Sort::Volcano,
            ("scheduling.run.ai", "PodGroup") => Sort::Kai,
            ("kueue.x-k8s.io", "WorkloadPriorityClass") => Sort::WorkloadPriorityClass,
            ("trainer.kubeflow.org", "ClusterTrainingRuntime") => {
                Sort::Runtime { of_cluster: true }
            }
            ("trainer.kubeflow.org", "TrainingRuntime") => Sort::Runtime { of_cluster: false },
            _ => {
                let storage = storage_kind(group, kind).map(Sort::Storage);
                let claims = || ClaimSort::of(group, kind).map(Sort::Claims);
                return storage
                    .or_else(claims)
                    .or_else(|| WorkloadKind::of(group, kind).map(Sort::Submitted));
            }
        })
    }

    fn namespaced(self) -> bool {
        if let Sort::Storage(kind) = self {
            return is_namespaced(kind);
        }
        if let Sort::Claims(sort) = self {
            return sort.is_namespaced();
        }
        !matches!(
            self,
            Sort::Node
                | Sort::Namespace
                | Sort::PriorityClass
                | Sort::WorkloadPriorityClass
                | Sort::Runtime { of_cluster: true }
        )
    }
}

//! The store: the sum of the events of all watches.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entries::{GroupKey, Instance, PodEntry, family};
use super::event::{Kind, Object, WatchEvent};
use super::per_kind::PerKind;
use super::quotas::Quota;
use super::read::{budget, condition, not_ready, refused};
use super::served::Version;
use super::trees::Trees;
use super::update::Update;
use super::workload_state::Workloads;
use crate::base::hash::FixedMap;
use crate::framework::PROFILE;
use crate::kubernetes::claims::{TaintRule, claim_object};
use crate::kubernetes::devices::{Basis, Cards};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::groups::{self, GroupObject};
use crate::kubernetes::kinds::{self, RuntimeName, Submitted};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::owners::Owners;
use crate::kubernetes::pod::DEFAULT_SCHEDULER;
use crate::kubernetes::priority::Classes;
use crate::kubernetes::queues::LocalQueues;
use crate::kubernetes::storage::storage_object;
use crate::kubernetes::topologies::Topologies;
use crate::kubernetes::{Mode, metadata, node};
use crate::model::{Labels, ModelError, Node, Pod, PodShape, Problem};
use crate::preempt::DisruptionBudget;
use crate::state::{ClaimKey, ClaimObject, Event, StorageKey, StorageObject};

/// The objects of a cluster, as its watches report them.
///
/// Events may come twice, late, and in any order between kinds: a pod before its group, before its
/// node, before its namespace. An event that is not newer than what is known of its object
/// (`metadata.resourceVersion`, as a number) changes nothing; nor does one by which nothing changes
/// that scheduling reads.
///
/// The events of one kind may change places between two bookmarks, but may not cross one: a bookmark
/// says that all up to its version has been sent. An object that appears after a bookmark with a
/// version before it is refused, because it may be one that was deleted meanwhile. After
/// [`Store::begin_list`] no event of an earlier watch of that kind may come, nor its bookmark.
/// Two watches must not share a kind.
///
/// The initial events of a watch (`sendInitialEvents`) stand between [`Store::begin_list`] and the
/// bookmark that ends them. Objects that do not occur in them are gone, and are reported so at that
/// bookmark. So a watch goes on after the API server has forgotten its version (410).
///
/// Pods that name the store's scheduler are placed. Bound pods of all schedulers use capacity. A
/// group is reported once it has a pod of the store's scheduler, and its object or a pod that
/// describes it is known. A pod without a group is a group of one, `<namespace>/pod:<name>`. The
/// names of groups of dialects are prefixed: `<namespace>/coscheduling:<name>`,
/// `<namespace>/volcano:<name>`.
///
/// A node whose condition `Ready` is not true has the taint `node.kubernetes.io/not-ready` or
/// `unreachable`, whether or not a controller has put it there.
///
/// Memory: a few hundred bytes an object, and the shapes of pods once each.
#[derive(Debug, Default)]
pub struct Store {
    /// The name of the scheduler; `None` is the default one.
    pub(super) scheduler: Option<String>,
    /// Names of schedulers that are profiles of this one.
    profiles: BTreeSet<String>,
    known: PerKind<BTreeMap<String, Known>>,
    lists: PerKind<u32>,
    /// Whether initial events of a kind are being sent.
    pub(super) listing: PerKind<bool>,
    /// The version of the last bookmark of each kind: all before it has been sent.
    floors: PerKind<u64>,
    /// Nodes as the scheduler knows them.
    pub(super) nodes: BTreeMap<String, Node>,
    /// Nodes as they say themselves, where that is otherwise.
    pub(super) raw_nodes: BTreeMap<String, Node>,
    pub(super) topologies: Topologies,
    /// Whether tiers or layers have changed since nodes and groups were told of.
    pub(super) topology_changed: bool,
    pub(super) cards: Cards,
    /// Nodes whose cards have changed since they were told of.
    pub(super) changed_cards: BTreeSet<String>,
    pub(super) card_basis: Basis,
    /// Pods with predicted amounts of zones that their nodes have not reported yet, by node.
    pub(super) unreported: BTreeMap<String, BTreeSet<String>>,
    /// Pods whose amounts were reported since pods were told of.
    pub(super) changed_zones: BTreeSet<String>,
    /// Whether pods with fractions of KAI's are shown.
    pub(super) follows_fractions: bool,
    /// Pods that hold unknown cards, and their nodes.
    pub(super) blind: BTreeMap<String, String>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) classes: Classes,
    /// Services and controllers, by which pods are spread.
    pub(super) owners: Owners,
    /// Namespaces in which some of them have changed since pods were told of.
    pub(super) changed_owners: BTreeSet<String>,
    pub(super) pods: BTreeMap<String, PodEntry>,
    pub(super) objects: BTreeMap<GroupKey, GroupObject>,
    /// Objects of Koordinator, which describe the same groups as those of coscheduling.
    pub(super) koordinator: BTreeMap<GroupKey, GroupObject>,
    pub(super) instances: BTreeMap<GroupKey, Instance>,
    pub(super) trees: Trees,
    /// Pods that describe the task groups of an application, by the application.
    pub(super) applications: BTreeMap<GroupKey, BTreeSet<String>>,
    /// Kinds of groups that the server does not serve.
    pub(super) unserved: BTreeSet<Kind>,
    /// The condition of pod groups by which they are scheduled, where they have it.
    scheduled: BTreeMap<String, bool>,
    budgets: BTreeMap<String, DisruptionBudget>,
    /// Quotas of namespaces, which say why members of groups are missing.
    pub(super) quotas: BTreeMap<String, Quota>,
    pub(super) storage: BTreeMap<StorageKey, StorageObject>,
    /// Storage objects of which a field is not in force, with the reason; and others so.
    pub(super) storage_faults: BTreeMap<StorageKey, String>,
    pub(super) claims: BTreeMap<ClaimKey, ClaimObject>,
    pub(super) claim_faults: BTreeMap<ClaimKey, String>,
    pub(super) taint_rules: BTreeMap<String, TaintRule>,
    /// Whether pods with claims are shown.
    pub(super) follows_claims: bool,
    pub(super) queues: Option<LocalQueues>,
    /// Whether groups take the run time of their pods as an estimate.
    pub(super) reads_run_times: bool,
    pub(super) workloads: Workloads,
    shapes: FixedMap<Arc<PodShape>, ()>,
    shapes_kept: usize,
}

/// The version of an object. A deleted one is known until the next bookmark, so that a late event
/// does not bring it back.
#[derive(Debug)]
struct Known {
    version: u64,
    uid: String,
    list: u32,
    deleted: bool,
}

const NO_SUBGROUPS: &str =
    "/spec/subGroupPolicy is not in force: no watch tells subgroups apart by labels";

/// An object, converted.
enum Converted {
    Node(Node),
    Pod(Option<Box<PodEntry>>),
    Namespace(Labels),
    Class,
    /// A pod group, and whether it says that it is scheduled.
    PodGroup(Box<GroupObject>, Option<bool>),
    Groups(Vec<GroupObject>),
    Budget(DisruptionBudget),
    Runtime(RuntimeName),
    Workload(WorkloadKind, Option<Box<Submitted>>),
    /// An object, and the reason for which it is not in force, if there is one.
    Storage(Box<StorageObject>, Option<String>),
    Claims(Box<ClaimObject>, Option<String>),
    TaintRule(TaintRule),
    /// Statements about nodes, which are in the store already.
    Layout,
    /// A service, a controller or a quota, which is in the store already.
    Owner,
}

/// A reference to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
}

impl ObjectRef {
    /// A reference.
    pub fn new(namespace: String, name: String, uid: String) -> ObjectRef {
        ObjectRef { namespace, name, uid }
    }
}

impl Store {
    /// An empty store of a scheduler, by the name that pods give (`spec.schedulerName`).
    pub fn new(scheduler: impl Into<String>) -> Store {
        let scheduler = Some(scheduler.into()).filter(|name| name != DEFAULT_SCHEDULER);
        Store { scheduler, ..Store::default() }
    }

    /// Places pods that name one of these schedulers, too. Each is a
    /// [profile](crate::framework::FrameworkBuilder::profile): the attribute
    /// [`PROFILE`](crate::framework::PROFILE) of such a pod is the name. The members of a
    /// Kubernetes `PodGroup` must name the same; those of other gangs may differ.
    #[must_use]
    pub fn with_profiles(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Store {
        self.profiles = names.into_iter().map(Into::into).collect();
        self
    }

    /// The profile of pods that name a scheduler.
    fn profile(&self, scheduler: Option<&str>) -> Option<&String> {
        self.profiles.get(scheduler.unwrap_or(DEFAULT_SCHEDULER))
    }

    /// Whether pods that name a scheduler are placed.
    pub(super) fn places(&self, scheduler: Option<&str>) -> bool {
        scheduler == self.scheduler.as_deref() || self.profile(scheduler).is_some()
    }

    /// A pod, with its profile.
    pub(super) fn profiled(&self, scheduler: Option<&str>, pod: Pod) -> Pod {
        match self.profile(scheduler) {
            Some(name) => pod.attribute(PROFILE, name),
            None => pod,
        }
    }

    /// Puts groups in the queues of tenants.
    ///
    /// A group names a `LocalQueue` by the label `kueue.x-k8s.io/queue-name`, on its object or else
    /// on its pods, and is of the `ClusterQueue` of that. Without the label, it is of the queue
    /// that its object names (Volcano), or of the `LocalQueue` named `default`. A group without a
    /// queue is left alone ([`Update::LeftAlone`]).
    #[must_use]
    pub fn with_queues(mut self, queues: LocalQueues) -> Store {
        self.queues = Some(queues);
        self
    }

    /// Estimates the run time of groups by their pods, for [backfill](crate::queue::Backfill): by the
    /// annotation `phalanx.dev/run-time-seconds` of a group's first member, or else by its
    /// `spec.activeDeadlineSeconds`. Composite groups have no estimate.
    #[must_use]
    pub fn with_run_times(mut self) -> Store {
        self.reads_run_times = true;
        self
    }

    /// Shows pods that claim devices. The framework must have
    /// [`DynamicResources`](crate::plugins::DynamicResources), and the embedder must write what plans
    /// give to claims before it binds. Without it such pods are left alone.
    #[must_use]
    pub fn with_claims(mut self) -> Store {
        self.follows_claims = true;
        self
    }

    /// Takes an event; returns what it means to the scheduler, in the order in which to pass it on.
    ///
    /// O(log objects), and in proportion to its members where a group appears or goes.
    ///
    /// # Errors
    /// The object cannot be taken, for a reason that no valid object has, or it appears with a
    /// version before that of the last bookmark of its kind. What is known of it stays as it was.
    pub fn apply(&mut self, event: WatchEvent) -> Result<Vec<Update>, ModelError> {
        let mut updates = Vec::new();
        match event {
            WatchEvent::Changed(object) => self.changed(&object, &mut updates)?,
            WatchEvent::Deleted(object) => self.deleted(&object, &mut updates),
            WatchEvent::Bookmark { kind: Some(kind), initial_events_end, version } => {
                if initial_events_end {
                    self.end_list(kind, &mut updates);
                }
                self.pass_bookmark(kind, version.parse().unwrap_or(0));
            }
            WatchEvent::Bookmark { kind: None, .. } | WatchEvent::Error { .. } => {}
        }
        Ok(updates)
    }

    /// The start of a watch with initial events.
    pub fn begin_list(&mut self, kind: Kind) {
        self.lists[kind.index()] += 1;
        self.listing[kind.index()] = true;
    }

    /// Forgets deletions that no late event can undo any more.
    fn pass_bookmark(&mut self, kind: Kind, version: u64) {
        let at = kind.index();
        if self.listing[at] {
            return;
        }
        self.floors[at] = self.floors[at].max(version);
        self.known[at].retain(|_, known| !known.deleted || version != 0 && known.version > version);
    }

    /// The `PodGroup` of `scheduling.k8s.io` behind a group of the scheduler, by its full name;
    /// `None` for other groups.
    pub fn pod_group(&self, group: &str) -> Option<ObjectRef> {
        let known = self.known[Kind::PodGroup.index()].get(group).filter(|known| !known.deleted)?;
        let (namespace, name) = group.split_once('/')?;
        let uid = known.uid.clone();
        Some(ObjectRef { namespace: namespace.to_owned(), name: name.to_owned(), uid })
    }

    /// Whether a pod group says that it is scheduled, by the full name of its group in the scheduler;
    /// `None` if it does not say. The condition is that of the version in which the group was
    /// served: [`Version::scheduled_condition`].
    pub fn pod_group_scheduled(&self, group: &str) -> Option<bool> {
        self.scheduled.get(group).copied()
    }

    fn changed(&mut self, object: &Object, updates: &mut Vec<Update>) -> Fault<()> {
        let Some(kind) = object.kind() else { return Ok(()) };
        let (key, version) = (object.key(kind), object.version());
        let list = self.lists[kind.index()];
        let uid = object.metadata("uid");
        let mut anew = false;
        if let Some(known) = self.known[kind.index()].get_mut(&key) {
            known.list = list;
            if version != 0 && version <= known.version {
                return Ok(());
            }
            anew = !known.deleted && known.uid != uid;
        } else if !self.listing[kind.index()]
            && version != 0
            && version <= self.floors[kind.index()]
        {
            return Err(self.late(kind, object));
        }
        let mut converted = self.converted(kind, object)?;
        if anew {
            // Its deletion was missed.
            self.remove(kind, &key, updates);
            converted = self.converted(kind, object)?;
        }
        match converted {
            Converted::Node(node) => {
                self.tell_node(node, updates);
                self.layout_changed(updates);
            }
            Converted::Layout => self.layout_changed(updates),
            Converted::Owner => {}
            Converted::Namespace(labels) => {
                if self.namespaces.get(&key) != Some(&labels) {
                    self.namespaces.insert(key.clone(), labels.clone());
                    let name = key.clone();
                    let changed = Event::NamespaceChanged { name, labels, version: 0 };
                    updates.push(Update::Event(changed));
                    self.namespace_changed(&key, updates);
                }
            }
            Converted::Pod(Some(mut entry)) => {
                self.predict_zones(&key, &mut entry);
                if entry.asking.is_some() {
                    if entry.has_fraction() {
                        let sharing = self.cards.begin_sharing();
                        self.changed_cards.extend(sharing);
                    }
                    self.ask_for_cards(&key, &mut entry);
                }
                self.put_pod(&key, *entry, updates);
                self.layout_changed(updates);
            }
            Converted::Pod(None) => self.remove(kind, &key, updates),
            Converted::Storage(object, refused) => self.put_storage(*object, refused, updates),
            Converted::Claims(object, refused) => self.put_claims(*object, refused, updates),
            Converted::TaintRule(rule) => self.put_taint_rule(&key, Some(rule), updates),
            Converted::Class => self.class_changed(updates),
            Converted::Budget(budget) => {
                if self.budgets.get(&key) != Some(&budget) {
                    self.budgets.insert(key.clone(), budget.clone());
                    updates.push(Update::Budget(budget));
                }
            }
            Converted::Runtime(name) => {
                self.put_runtime(&name, Some(object.0.clone()), updates)?;
            }
            Converted::Workload(kind, job) => {
                self.put_workload(kind, &key, object, job.map(|job| *job), updates);
            }
            Converted::PodGroup(group, scheduled) => {
                match scheduled {
                    Some(scheduled) => self.scheduled.insert(key.clone(), scheduled),
                    None => self.scheduled.remove(&key),
                };
                let named = GroupKey {
                    namespace: group.namespace.clone(),
                    family: group.family,
                    name: group.name.clone(),
                };
                self.put_object(*group, updates);
                self.own_claims_of_members(&named, updates);
            }
            Converted::Groups(groups) if kind == Kind::Koordinator => {
                for group in groups {
                    self.put_koordinator(group, updates);
                }
            }
            Converted::Groups(groups) => {
                if kind == Kind::Kai {
                    self.drop_others(&groups, updates);
                }
                for group in groups {
                    self.put_object(group, updates);
                }
            }
        }
        if kind.owner().is_some() {
            self.owner_changed(&key, updates);
        }
        let known = Known { version, uid: uid.to_owned(), list, deleted: false };
        self.known[kind.index()].insert(key, known);
        Ok(())
    }

    /// The error of an object that appears with a version before that of the last bookmark.
    fn late(&self, kind: Kind, object: &Object) -> ModelError {
        let named = metadata::object(kind.word(), kind.namespaced(), &object.0, Mode::AsStored);
        let (version, floor) = (object.resource_version(), self.floors[kind.index()]);
        let text = format!("{version} comes after the bookmark of {floor}");
        ModelError::new(named.name, "metadata.resourceVersion", Problem::Invalid(text))
    }

    fn deleted(&mut self, object: &Object, updates: &mut Vec<Update>) {
        let Some(kind) = object.kind() else { return };
        let (key, version) = (object.key(kind), object.version());
        let list = self.lists[kind.index()];
        match self.known[kind.index()].get(&key) {
            Some(known) if version != 0 && version < known.version => return,
            None if version != 0 && version <= self.floors[kind.index()] => return,
            _ => {}
        }
        self.remove(kind, &key, updates);
        let uid = object.metadata("uid").to_owned();
        self.known[kind.index()].insert(key, Known { version, uid, list, deleted: true });
    }

    /// The end of the initial events of a watch: what they did not list is gone.
    fn end_list(&mut self, kind: Kind, updates: &mut Vec<Update>) {
        self.listing[kind.index()] = false;
        let list = self.lists[kind.index()];
        let unlisted = |known: &Known| known.list != list && !known.deleted;
        let gone = self.known[kind.index()].iter().filter(|(_, known)| unlisted(known));
        let gone: Vec<String> = gone.map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.remove(kind, &key, updates);
            self.known[kind.index()].remove(&key);
        }
        self.layout_changed(updates);
        self.tell_spread(updates);
    }

    fn remove(&mut self, kind: Kind, key: &str, updates: &mut Vec<Update>) {
        let name = key.to_owned();
        if let Some(owner) = kind.owner() {
            self.remove_owner(owner, key, updates);
        }
        match kind {
            Kind::Node if self.nodes.remove(key).is_some() => self.forget_node(name, updates),
            Kind::Namespace if self.namespaces.remove(key).is_some() => {
                updates.push(Update::Event(Event::NamespaceRemoved { name, version: 0 }));
            }
            Kind::Pod => self.remove_pod(key, updates),
            Kind::PodGroup
            | Kind::CompositePodGroup
            | Kind::Workload
            | Kind::Coscheduling
            | Kind::Koordinator
            | Kind::Volcano
            | Kind::Kai => {
                if kind == Kind::PodGroup {
                    self.scheduled.remove(key);
                }
                self.remove_objects(kind, family(kind), key, updates);
            }
            Kind::PodDisruptionBudget => {
                let Some(DisruptionBudget { namespace, name, .. }) = self.budgets.remove(key)
                else {
                    return;
                };
                updates.push(Update::BudgetRemoved { namespace, name });
            }
            Kind::Submitted(kind) => self.remove_workload(kind, key, updates),
            Kind::Storage(kind) => {
                self.remove_storage(&StorageKey::new(kind, name), updates);
            }
            Kind::Claims(kind) => self.remove_claims(&ClaimKey::new(kind, name), updates),
            Kind::DeviceTaintRule => self.put_taint_rule(key, None, updates),
            Kind::HyperNode | Kind::ClusterNetworkTopology | Kind::KaiTopology => {
                self.topologies.forget(kind.layout_names().1, key);
                self.topology_changed = true;
                self.layout_changed(updates);
            }
            Kind::Device => {
                self.cards.forget(key, true);
                self.changed_cards.insert(name);
                self.layout_changed(updates);
            }
            Kind::NodeResourceTopology => {
                if self.cards.forget_zones(key) {
                    self.changed_cards.insert(name);
                }
                self.layout_changed(updates);
            }
            Kind::TrainingRuntime | Kind::ClusterTrainingRuntime => {
                let (namespace, name) = key.split_once('/').unwrap_or(("", key));
                let name = (namespace.to_owned(), name.to_owned());
                // Training jobs without their runtime have no groups, which is no error.
                let _ = self.put_runtime(&name, None, updates);
            }
            Kind::ResourceQuota => drop(self.quotas.remove(key)),
            // Groups keep the priority that a class gave them.
            Kind::PriorityClass
            | Kind::Node
            | Kind::Namespace
            | Kind::Service
            | Kind::ReplicationController
            | Kind::ReplicaSet => {}
        }
    }

    fn converted(&mut self, kind: Kind, object: &Object) -> Fault<Converted> {
        let value = &object.0;
        let named = metadata::object(kind.word(), kind.namespaced(), value, Mode::AsStored);
        let root = Field::root(&named, value);
        if let Some(owner) = kind.owner() {
            self.owners.take(owner, &root)?;
        }
        Ok(match kind {
            Kind::Service | Kind::ReplicationController | Kind::ReplicaSet => Converted::Owner,
            Kind::Node => {
                let mut node = node::node(&root)?;
                not_ready(&root, &mut node)?;
                node.unschedulable |= refused(&root).is_some();
                self.read_cards(kind, &node.name, &root)?;
                Converted::Node(node)
            }
            Kind::Pod => {
                let mut entry = PodEntry::read(&root, self.workloads.claim_pods())?;
                if let Some(entry) = &mut entry {
                    let pod = core::mem::take(&mut entry.pod);
                    let pod = self.profiled(entry.scheduler.as_deref(), pod);
                    entry.pod = self.interned(pod);
                    if let Some(asking) = &mut entry.asking {
                        asking.shape = entry.pod.shape().clone();
                    }
                    entry.ours = self.places(entry.scheduler.as_deref());
                    self.own_claims_of_group(entry);
                }
                Converted::Pod(entry.map(Box::new))
            }
            Kind::Namespace => Converted::Namespace(node::labels(&root)?),
            Kind::Storage(kind) => {
                Converted::Storage(Box::new(storage_object(kind, &root)?), refused(&root))
            }
            Kind::Claims(kind) => {
                Converted::Claims(Box::new(claim_object(kind, &root)?), refused(&root))
            }
            Kind::HyperNode | Kind::ClusterNetworkTopology | Kind::KaiTopology => {
                let (group, word) = kind.layout_names();
                self.topologies.take(group, word, &root)?;
                self.topology_changed = true;
                Converted::Layout
            }
            Kind::Device => {
                self.read_cards(kind, &metadata::name(&root)?, &root)?;
                Converted::Layout
            }
            Kind::NodeResourceTopology => {
                self.read_zones(&metadata::name(&root)?, &root)?;
                Converted::Layout
            }
            Kind::DeviceTaintRule => {
                Converted::TaintRule(TaintRule::read(&root, refused(&root).is_none())?)
            }
            Kind::ResourceQuota => {
                self.quotas.insert(object.key(kind), Quota::read(&root)?);
                Converted::Owner
            }
            Kind::PriorityClass => {
                self.classes.add(&root)?;
                Converted::Class
            }
            Kind::PodGroup => {
                let group = groups::pod_group(&root, false)?;
                let version = Version::named(object.api_version()).unwrap_or(Version::V1);
                let status = match version.scheduled_condition() {
                    Some(name) => condition(&root, name)?,
                    None => None,
                };
                Converted::PodGroup(Box::new(group), status.map(|status| status == "True"))
            }
            Kind::CompositePodGroup => {
                Converted::Groups(alloc::vec![groups::pod_group(&root, true)?])
            }
            Kind::Workload => Converted::Groups(groups::workload(&root)?),
            Kind::Coscheduling | Kind::Koordinator => {
                Converted::Groups(alloc::vec![groups::coscheduling(&root)?])
            }
            Kind::Volcano => {
                let mut group = groups::volcano(&root)?;
                if group.subgroups.is_some() {
                    group.refused.push(NO_SUBGROUPS.to_owned());
                }
                Converted::Groups(alloc::vec![group])
            }
            Kind::Kai => Converted::Groups(groups::kai(&root)?),
            Kind::PodDisruptionBudget => Converted::Budget(budget(&root)?),
            Kind::TrainingRuntime => Converted::Runtime(kinds::runtime_name(&root, false)?),
            Kind::ClusterTrainingRuntime => Converted::Runtime(kinds::runtime_name(&root, true)?),
            Kind::Submitted(kind) => {
                Converted::Workload(kind, self.workloads.read(kind, value)?.map(Box::new))
            }
        })
    }

    /// The pod, sharing its shape with the pods before it that have the same.
    pub(super) fn interned(&mut self, pod: crate::model::Pod) -> crate::model::Pod {
        if let Some((shape, ())) = self.shapes.get_key_value(&**pod.shape()) {
            return pod.with_shape(Arc::clone(shape));
        }
        if self.shapes.len() >= 2 * self.shapes_kept.max(64) {
            self.shapes.retain(|shape, ()| Arc::strong_count(shape) > 1);
            self.shapes_kept = self.shapes.len();
        }
        self.shapes.insert(Arc::clone(pod.shape()), ());
        pod
    }
}

//! Manifests of queues: Kueue's `ClusterQueue`, `Cohort`, `ResourceFlavor`, `LocalQueue` and
//! `Workload`, and priority classes; Koordinator's `ElasticQuota`; Volcano's `Queue`; YuniKorn's
//! `queues.yaml`; KAI-Scheduler's `Queue` and `PodGroup`.
//!
//! Kueue's versions `v1beta1` and `v1beta2` are read. A field that is not understood becomes a
//! [`Note`] with its place; a kind that is not is counted.
//!
//! This file and `workload` import each other: a workload is read here and converted there.

mod cluster_queue;
mod elastic_quota;
mod kai;
mod reservation;
mod unread;
mod volcano;
mod workload;
mod yunikorn;

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::field::Note;
use super::field::{Fault, Field};
use super::mode::Mode;
use super::priority::Classes;
use super::value::Value;
use super::{affinity, metadata, node};
use crate::Time;
use crate::model::QUOTA_LABEL;
use crate::model::{Amounts, LabelSelector, Labels, ModelError, PodGroup, Problem};
use crate::quota::kai::{KaiSettings, QueueMinRuntime};
use crate::quota::yunikorn::YuniKornSettings;
use crate::quota::{
    Claim, DEFAULT_QUOTA, ElasticQuota, Flavor, KoordinatorSettings, Queue, QueueKind, Quota,
    QuotaError, ROOT_QUOTA, Tenants, UNLIMITED, Usage,
};

use kai::{KAI, KaiGroup};
pub use kai::{KaiQueue, KaiQuota};
pub use reservation::reservation;
use unread::unread;

const KUEUE: &str = "kueue.x-k8s.io";
/// The group of `ElasticQuota`, which Koordinator has of scheduler-plugins.
const SCHEDULING: &str = "scheduling.sigs.k8s.io";
const VOLCANO: &str = "scheduling.volcano.sh";

/// Everything that was read of queues.
///
/// ```
/// use phalanx::kubernetes::{Mode, Value, queues::QueueManifests};
/// use phalanx::quota::{KueueSettings, QueueKind};
///
/// let queue: Value = serde_json::from_value(serde_json::json!({
///     "apiVersion": "kueue.x-k8s.io/v1beta2",
///     "kind": "ClusterQueue",
///     "metadata": {"name": "vision"},
///     "spec": {
///         "cohortName": "labs",
///         "namespaceSelector": {},
///         "resourceGroups": [{
///             "coveredResources": ["cpu"],
///             "flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 32}]}],
///         }],
///     },
/// }))?;
/// let mut manifests = QueueManifests::new(Mode::AsWritten);
/// manifests.take(&queue)?;
/// let tenants = manifests.tenants(KueueSettings::default())?;
/// let vision = tenants.tree().queue(QueueKind::Leaf, "vision").unwrap();
/// let cpu = tenants.tree().flavor_resource("spot", "cpu").unwrap();
/// assert_eq!(tenants.tree().sums(vision, cpu).nominal, 32_000);
/// assert!(!tenants.is_active(vision), "the flavor has no manifest");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QueueManifests {
    mode: Mode,
    /// Queues, leaves and inner ones, in the order of the input.
    pub queues: Vec<Queue>,
    /// Flavors, in the order of the input.
    pub flavors: Vec<Flavor>,
    /// From which namespaces a `ClusterQueue` takes workloads, by name; `None`: from none.
    pub namespace_selectors: BTreeMap<String, Option<LabelSelector>>,
    /// Labels of namespaces that have a manifest.
    pub namespaces: BTreeMap<String, Labels>,
    /// The `ClusterQueue` of a `LocalQueue`, by namespace and name; of those that are not stopped.
    pub local_queues: BTreeMap<(String, String), String>,
    /// Koordinator's quotas with the namespaces of their objects, in the order of the input.
    pub elastic_quotas: Vec<(String, ElasticQuota)>,
    /// The quota that a namespace is mapped to by an annotation of the quota.
    pub elastic_namespaces: BTreeMap<String, String>,
    /// Workloads, in the order of the input.
    pub workloads: Vec<QueuedWorkload>,
    /// The properties of YuniKorn's queues, by path.
    pub yunikorn: YuniKornSettings,
    /// Queues of KAI, in the order of the input.
    pub kai_queues: Vec<KaiQueue>,
    kai_groups: Vec<KaiGroup>,
    /// Fields that were not understood.
    pub notes: Vec<Note>,
    /// How many objects of each kind were passed over, by group and kind.
    pub ignored: BTreeMap<String, u64>,
    classes: Classes,
    workload_classes: BTreeMap<String, i32>,
}

/// A workload and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedWorkload {
    /// The claim; its queue is the `ClusterQueue` that holds quota for it, and empty if none does.
    pub claim: Claim,
    /// The namespace.
    pub namespace: String,
    /// The local queue.
    pub local_queue: String,
    /// Whether it is active and has not finished.
    pub active: bool,
    /// Quota that it holds: flavor, resource, amount.
    pub held: Vec<(String, String, i64)>,
    /// Since when.
    pub reserved: Option<Time>,
    /// Whether it is being evicted.
    pub evicted: bool,
    priority: Option<i32>,
    class: Option<workload::ClassRef>,
    boost: Option<String>,
}

impl QueueManifests {
    /// Nothing read yet.
    pub fn new(mode: Mode) -> QueueManifests {
        QueueManifests {
            mode,
            queues: Vec::new(),
            flavors: Vec::new(),
            namespace_selectors: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            local_queues: BTreeMap::new(),
            elastic_quotas: Vec::new(),
            elastic_namespaces: BTreeMap::new(),
            workloads: Vec::new(),
            yunikorn: YuniKornSettings::default(),
            kai_queues: Vec::new(),
            kai_groups: Vec::new(),
            notes: Vec::new(),
            ignored: BTreeMap::new(),
            classes: Classes::default(),
            workload_classes: BTreeMap::new(),
        }
    }

    /// Takes an object, or the objects of a list.
    ///
    /// # Errors
    /// An object cannot be taken; it names the object and the field. Those before it have been.
    pub fn take(&mut self, document: &Value) -> Result<(), ModelError> {
        match document {
            Value::Null => return Ok(()),
            Value::List(values) => return values.iter().try_for_each(|value| self.take(value)),
            _ => {}
        }
        let text = |name: &str| document.entry(name).and_then(Value::text).unwrap_or("");
        let (version, kind) = (text("apiVersion"), text("kind"));
        if kind.ends_with("List")
            && let Some(Value::List(items)) = document.entry("items")
        {
            return items.iter().try_for_each(|value| self.take(value));
        }
        if kind.is_empty() && document.entry("partitions").is_some() {
            let object = metadata::object("queues.yaml", false, document, self.mode);
            let root = Field::root(&object, document);
            let queues = yunikorn::partitions(&root, &mut self.yunikorn, &mut self.notes)?;
            self.of_one_flavor(queues);
            return Ok(());
        }
        if kind.is_empty() {
            return Err(ModelError::new("document", "kind", Problem::Required));
        }
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let namespaced = matches!(kind, "LocalQueue" | "Workload" | "ElasticQuota" | "PodGroup");
        let object = metadata::object(kind, namespaced, document, self.mode);
        let root = Field::root(&object, document);
        if root.strict() {
            root.check_repeats()?;
        }
        match (group, kind) {
            (KUEUE, "ClusterQueue") => {
                let (queue, selector) = cluster_queue::leaf(&root, &mut self.notes)?;
                self.namespace_selectors.insert(queue.name.clone(), selector);
                self.queues.push(queue);
            }
            (KUEUE, "Cohort") => {
                self.queues.push(cluster_queue::inner(&root, &mut self.notes)?);
            }
            (KUEUE, "ResourceFlavor") => self.flavor(&root)?,
            (VOLCANO, "Queue") => {
                let queues = volcano::queue(&root, &mut self.notes)?;
                self.of_one_flavor(queues);
            }
            (KUEUE, "LocalQueue") => self.local_queue(&root)?,
            (KUEUE, "Workload") => {
                self.workloads.push(workload::workload(&root, &mut self.notes)?);
            }
            (KUEUE, "WorkloadPriorityClass") => {
                let value = root.need("value")?.int32()?;
                self.workload_classes.insert(metadata::name(&root)?, value);
            }
            (SCHEDULING, "ElasticQuota") => {
                let (quota, namespaces) = elastic_quota::read(&root, &mut self.notes)?;
                for namespace in namespaces {
                    self.elastic_namespaces.insert(namespace, quota.name.clone());
                }
                self.elastic_quotas.push((metadata::namespace(&root)?, quota));
            }
            (KAI, "Queue") => self.kai_queues.push(kai::queue(&root, &mut self.notes)?),
            (KAI, "PodGroup") => self.kai_groups.push(kai::group(&root, &mut self.notes)?),
            ("scheduling.k8s.io", "PriorityClass") => self.classes.add(&root)?,
            ("", "Namespace") => {
                self.namespaces.insert(metadata::name(&root)?, node::labels(&root)?);
            }
            _ => {
                let name =
                    if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") };
                *self.ignored.entry(name).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Adds queues of a scheduler that knows no flavors; those that stand already stay.
    fn of_one_flavor(&mut self, queues: Vec<Queue>) {
        if !self.flavors.iter().any(|flavor| flavor.name == volcano::FLAVOR) {
            self.flavors.push(Flavor::new(volcano::FLAVOR));
        }
        for queue in queues {
            let known = |own: &Queue| own.kind == queue.kind && own.name == queue.name;
            if queue.kind == QueueKind::Leaf || !self.queues.iter().any(known) {
                self.queues.push(queue);
            }
        }
    }

    /// Gives flavors and queues to tenants of any dialect. A queue that another names as its parent
    /// is an inner one. The caller states the capacity of the cluster, at the queue `root`, with the
    /// limits of users that the manifests state there.
    ///
    /// ```
    /// use phalanx::kubernetes::{Mode, Value, queues::QueueManifests};
    /// use phalanx::quota::{QueueKind, Tenants};
    ///
    /// let queues: Value = serde_json::from_value(serde_json::json!({"partitions": [{
    ///     "name": "default",
    ///     "queues": [{"name": "root", "queues": [{
    ///         "name": "vision",
    ///         "resources": {"guaranteed": {"vcore": 32}, "max": {"vcore": 64}},
    ///         "properties": {"priority.offset": "10"},
    ///     }]}],
    /// }]}))?;
    /// let mut manifests = QueueManifests::new(Mode::AsWritten);
    /// manifests.take(&queues)?;
    /// let mut tenants = Tenants::yunikorn_with(manifests.yunikorn.clone());
    /// manifests.give_to(&mut tenants)?;
    /// let vision = tenants.tree().queue(QueueKind::Leaf, "root.vision").unwrap();
    /// let cpu = tenants.tree().flavor_resource("default", "cpu").unwrap();
    /// assert_eq!(tenants.tree().sums(vision, cpu).nominal, 32_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A queue makes no sense.
    pub fn give_to(&self, tenants: &mut Tenants) -> Result<(), QueueManifestError> {
        for flavor in &self.flavors {
            tenants.set_flavor(flavor.clone());
        }
        let parents: BTreeSet<&str> =
            self.queues.iter().filter_map(|queue| queue.parent.as_deref()).collect();
        for queue in &self.queues {
            let mut queue = queue.clone();
            if queue.name == "root" || parents.contains(queue.name.as_str()) {
                queue.kind = QueueKind::Inner;
            }
            tenants.set_queue(queue)?;
        }
        Ok(())
    }

    fn flavor(&mut self, root: &Field<'_>) -> Fault<()> {
        let mut flavor = Flavor::new(metadata::name(root)?);
        if let Some(spec) = root.get("spec")? {
            unread(&spec, &["nodeLabels", "nodeTaints", "tolerations"], &mut self.notes);
            flavor.node_labels = spec.labels("nodeLabels")?;
            spec.each("nodeTaints", |taint| {
                flavor.node_taints.push(node::taint(&taint)?);
                Ok(())
            })?;
            flavor.tolerations = affinity::tolerations(&spec)?;
        }
        self.flavors.push(flavor);
        Ok(())
    }

    fn local_queue(&mut self, root: &Field<'_>) -> Fault<()> {
        let key = (metadata::namespace(root)?, metadata::name(root)?);
        let spec = root.need("spec")?;
        unread(&spec, &["clusterQueue", "stopPolicy"], &mut self.notes);
        let stopped = cluster_queue::is_stopped(&spec)?;
        let queue = spec.need("clusterQueue")?.text()?.to_owned();
        if !stopped {
            self.local_queues.insert(key, queue);
        }
        Ok(())
    }

    /// The priority of a workload, with what boosts it.
    ///
    /// # Errors
    /// Its class has no manifest.
    fn priority(&self, workload: &QueuedWorkload) -> Result<i64, ModelError> {
        let boost = workload.boost.as_deref();
        if let Some(priority) = workload.priority {
            return Ok(crate::quota::effective_priority(priority, boost));
        }
        let class = workload.class.as_ref();
        let value = match class {
            Some(class) if class.of_kueue => self.workload_classes.get(&class.name).copied(),
            Some(class) => self.classes.value(&class.name),
            None => self.classes.resolve(None, None, false).ok(),
        };
        let name = class.map_or("", |class| &class.name);
        let unknown = || {
            let object = format!("workload {}", workload.claim.name);
            let problem = Problem::Unknown(name.to_owned());
            ModelError::new(object, "spec.priorityClassRef.name", problem)
        };
        Ok(crate::quota::effective_priority(value.ok_or_else(unknown)?, boost))
    }

    /// The rule that finds the queue of a group in a namespace.
    pub fn admission(&self) -> LocalQueues {
        LocalQueues {
            queues: self.local_queues.clone(),
            selectors: self.namespace_selectors.clone(),
        }
    }

    /// The claims that wait for quota, with queue and priority; those of queues that have no
    /// manifest, are stopped, or do not take their namespace are left out.
    ///
    /// # Errors
    /// A priority class has no manifest.
    pub fn pending(&self) -> Result<Vec<Claim>, ModelError> {
        let mut claims = Vec::new();
        let none = Labels::new();
        let admission = self.admission();
        for workload in &self.workloads {
            let labels = self.namespaces.get(&workload.namespace).unwrap_or(&none);
            let (namespace, local) = (&workload.namespace, &workload.local_queue);
            let Some(queue) = admission.cluster_queue(namespace, labels, local) else { continue };
            if !workload.active || !workload.claim.queue.is_empty() {
                continue;
            }
            let mut claim = workload.claim.clone();
            queue.clone_into(&mut claim.queue);
            claim.priority = self.priority(workload)?;
            claims.push(claim);
        }
        Ok(claims)
    }

    /// The elastic quota that a pod counts in: the one it names, the one its namespace is mapped to,
    /// one in its namespace, or else [`DEFAULT_QUOTA`].
    pub fn elastic_quota_of<'a>(&'a self, namespace: &str, labels: &'a Labels) -> &'a str {
        let named = labels.get(QUOTA_LABEL).filter(|name| !name.is_empty());
        let mapped = named.or_else(|| self.elastic_namespaces.get(namespace));
        let own = || {
            let mut all = self.elastic_quotas.iter();
            all.find(|(own, _)| own == namespace).map(|(_, quota)| &quota.name)
        };
        mapped.or_else(own).map_or(DEFAULT_QUOTA, String::as_str)
    }

    /// Tenants by Koordinator's rules: the elastic quotas, in a flavor named `all`, of what all nodes
    /// have. What the tree of quotas refuses is not asked here, see
    /// [`QuotaTopology`](crate::quota::QuotaTopology).
    ///
    /// # Errors
    /// A quota makes no sense.
    pub fn koordinator(
        &self,
        settings: KoordinatorSettings,
        total: &Amounts,
    ) -> Result<Tenants, QueueManifestError> {
        const FLAVOR: &str = "all";
        let mut tenants = Tenants::koordinator_with(settings);
        tenants.set_flavor(Flavor::new(FLAVOR));
        let mut root = Queue::inner(ROOT_QUOTA);
        for (resource, amount) in total.iter() {
            root = root.quota(FLAVOR, resource, Quota::nominal(amount));
        }
        tenants.set_queue(root)?;
        for (_, quota) in self.elastic_quotas.iter().filter(|(_, quota)| quota.name != ROOT_QUOTA) {
            tenants.set_queue(quota.queue(FLAVOR))?;
        }
        Ok(tenants)
    }

    /// KAI's pod groups, in the order of the input, without their pods: with queue, priority, minimum,
    /// groups inside, and what they say of topology and preemption. Without such a word a group of
    /// priority 100 or more is not preemptible.
    ///
    /// # Errors
    /// A priority class has no manifest.
    pub fn kai_pod_groups(&self) -> Result<Vec<PodGroup>, ModelError> {
        let group = |own: &KaiGroup| {
            let mut group = own.group.clone();
            let value = match &own.class {
                Some(class) => self.classes.value(class),
                None => self.classes.resolve(None, None, false).ok(),
            };
            let unknown = || {
                let object = format!("pod group {}", group.name);
                let problem = Problem::Unknown(own.class.clone().unwrap_or_default());
                ModelError::new(object, "spec.priorityClassName", problem)
            };
            group.priority = value.ok_or_else(unknown)?;
            group.non_preemptible = !own.preemptible.unwrap_or(group.priority < 100);
            Ok(group)
        };
        self.kai_groups.iter().map(group).collect()
    }

    /// The tenants of KAI's queues, in a flavor named `default` that takes any node. A queue that is
    /// the parent of none takes work.
    ///
    /// GPUs count under `nvidia.com/gpu`, in the [`unit`](KaiSettings::unit) of that resource: 1, or
    /// 1000 for thousandths.
    ///
    /// # Errors
    /// A queue makes no sense; or one has a part of a GPU, and GPUs count as wholes.
    pub fn kai_tenants(&self, mut settings: KaiSettings) -> Result<Tenants, QueueManifestError> {
        let parents: BTreeSet<&str> =
            self.kai_queues.iter().filter_map(|queue| queue.parent.as_deref()).collect();
        for queue in &self.kai_queues {
            if queue.min_runtime != QueueMinRuntime::default() {
                settings = settings.min_runtime(queue.name.clone(), queue.min_runtime);
            }
        }
        let unit = |resource: &str| settings.units.get(resource).copied().unwrap_or(1);
        let mut queues = Vec::new();
        for own in &self.kai_queues {
            let mut queue = if parents.contains(own.name.as_str()) {
                Queue::inner(own.name.clone())
            } else {
                Queue::leaf(own.name.clone())
            };
            queue.parent.clone_from(&own.parent);
            queue.priority = own.priority;
            for (resource, quota) in &own.resources {
                let parts = if resource.ends_with("/gpu") { 1000 } else { 1 };
                let amount = |amount: i64| match amount {
                    UNLIMITED => Ok(UNLIMITED),
                    amount if parts == 1 => Ok(amount),
                    amount if amount.saturating_mul(unit(resource)) % parts == 0 => {
                        Ok(amount.saturating_mul(unit(resource)) / parts)
                    }
                    _ => {
                        let object = format!("queue {}", own.name);
                        let text = "is a part of a device, and devices count as wholes".to_owned();
                        let problem = Problem::Invalid(text);
                        Err(ModelError::new(object, "spec.resources.gpu", problem))
                    }
                };
                let mut of = Quota::nominal(0);
                of.deserved = Some(amount(quota.quota)?);
                of.limit = Some(amount(quota.limit)?);
                of.over_quota_weight = Some(quota.over_quota_weight);
                queue = queue.quota("default", resource.clone(), of);
            }
            queues.push(queue);
        }
        let mut tenants = Tenants::kai_with(settings);
        tenants.set_flavor(Flavor::new("default"));
        for queue in queues {
            tenants.set_queue(queue)?;
        }
        Ok(tenants)
    }

    /// The tenants: queues, flavors, and the workloads that hold quota.
    ///
    /// # Errors
    /// A queue makes no sense, or a workload holds what cannot be counted; or a priority class has no
    /// manifest.
    pub fn tenants(
        &self,
        settings: crate::quota::KueueSettings,
    ) -> Result<Tenants, QueueManifestError> {
        let mut tenants = Tenants::kueue_with(settings);
        self.add_to(&mut tenants)?;
        Ok(tenants)
    }

    /// Adds queues, flavors, and the workloads that hold quota to tenants of either dialect.
    ///
    /// # Errors
    /// As [`QueueManifests::tenants`]; what was added before the error stays.
    pub fn add_to(&self, tenants: &mut Tenants) -> Result<(), QueueManifestError> {
        for flavor in &self.flavors {
            tenants.set_flavor(flavor.clone());
        }
        for queue in &self.queues {
            tenants.set_queue(queue.clone())?;
        }
        for workload in self.workloads.iter().filter(|workload| workload.active) {
            if workload.claim.queue.is_empty() {
                continue;
            }
            let mut claim = workload.claim.clone();
            claim.priority = self.priority(workload)?;
            let held = workload.held.iter();
            let usage: Usage = held
                .map(|(flavor, resource, amount)| (tenants.intern(flavor, resource), *amount))
                .collect();
            let since = workload.reserved.unwrap_or(Time::MAX);
            let holder = tenants.restore(&claim, &usage, since)?;
            tenants.set_leaving(holder, workload.evicted)?;
        }
        Ok(())
    }
}

/// Finds the `ClusterQueue` of a group: by its `LocalQueue`, if that `ClusterQueue` takes its
/// namespace.
#[derive(Debug, Clone, Default)]
pub struct LocalQueues {
    queues: BTreeMap<(String, String), String>,
    selectors: BTreeMap<String, Option<LabelSelector>>,
}

impl LocalQueues {
    /// The `ClusterQueue` of a `LocalQueue` in a namespace with labels; `None` if there is no such
    /// `LocalQueue`, it is stopped, or its `ClusterQueue` does not take the namespace.
    pub fn cluster_queue(&self, namespace: &str, labels: &Labels, local: &str) -> Option<&str> {
        let queue = self.queues.get(&(namespace.to_owned(), local.to_owned()))?;
        let selector = self.selectors.get(queue)?.as_ref()?;
        selector.matches(labels).then_some(queue.as_str())
    }
}

/// Manifests that make no tenants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueManifestError {
    /// An object refers to what is not there.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A queue or what it holds makes no sense.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

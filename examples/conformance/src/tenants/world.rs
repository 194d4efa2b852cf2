//! The objects of a case: queues, flavors, claims.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::Time;
use phalanx::model::{
    Amounts, LabelSelector, Labels, NodeSelector, NodeSelectorTerm, Requirement, Taint, Toleration,
};
use phalanx::quota::{
    AssignmentMode, Claim, FairStrategy, Flavor, FlavorQuotas, Fungibility, HeadRules,
    KueueSettings, LossReason, PodSet, Queue, QueueId, QueueKind, QueuePreemption,
    QueuePreemptionPolicy, QueueingStrategy, Quota, ResourceGroup, Searches, Tenants, Usage,
    VictimReason, Weight, effective_priority,
};
use serde_json::Value;

use super::fields::{AmountTable, Fields, amount, amounts, now};

/// Gates and settings of a case.
pub(super) struct Rules {
    pub(super) settings: KueueSettings,
    pub(super) boosts: bool,
    pub(super) recompute: bool,
    /// Whether pods that have ended no longer count.
    pub(super) reclaimable: bool,
}

/// Reads the gates, the strategies and the kind of sharing of a case. `Err(rule)` inside names a rule
/// that is left out.
pub(super) fn rules(
    gates: &Value,
    input: &mut Fields<'_>,
) -> Result<Result<Rules, &'static str>, String> {
    let settings = KueueSettings::default();
    let mut rules = Rules { settings, boosts: false, recompute: true, reclaimable: true };
    let mut heads = HeadRules::default();
    let object = gates.as_object().ok_or("gates: is no object")?;
    for (name, value) in object {
        let on = value.as_bool().ok_or_else(|| format!("gates.{name}: is no boolean"))?;
        match (name.as_str(), on) {
            ("AdmissionFairSharing", true) => return Ok(Err("admission-fair-sharing")),
            ("PriorityBoost", on) => rules.boosts = on,
            ("PrioritySortingWithinCohort", on) => heads.by_priority = on,
            ("PrioritizePreemptorWorkloads", on) => heads.preemptors_first = on,
            ("FairSharingPrioritizeNonBorrowing", on) => heads.non_borrowing_first = on,
            ("PartialAdmission", on) => rules.settings.partial_admission = on,
            ("RecomputeAssignmentUponPreemptionTargetsOverlap", on) => rules.recompute = on,
            ("ReclaimablePods", on) => rules.reclaimable = on,
            ("FlavorFungibility", false) => return Ok(Err("fungibility-off")),
            ("FairSharingPreemptWithinNominal", false) => {
                return Ok(Err("preempt-within-nominal-off"));
            }
            (
                "AdmissionFairSharing"
                | "ConcurrentAdmission"
                | "TopologyAwareScheduling"
                | "TASRecomputeAssignmentWithinSchedulingCycle"
                | "FlavorFungibility"
                | "FairSharingPreemptWithinNominal"
                | "FlavorFungibilityPreserveScanProgress"
                | "SchedulingEquivalenceHashing",
                _,
            ) => {}
            _ => return Err(format!("gates.{name}: is not known")),
        }
    }
    let fair = input.flag("fairSharing")?;
    let mut strategies = Vec::new();
    for name in input.texts("preemptionStrategies")? {
        strategies.push(match name {
            "LessThanOrEqualToFinalShare" => FairStrategy::LessThanOrEqualToFinalShare,
            "LessThanInitialShare" => FairStrategy::LessThanInitialShare,
            _ => return Err(format!("preemptionStrategies: {name:?} is not known")),
        });
    }
    if fair {
        rules.settings = rules.settings.fair_with(strategies);
    }
    heads.by_eviction = match input.text_or_empty("requeuingTimestamp")? {
        "" | "Eviction" => true,
        "Creation" => false,
        other => return Err(format!("requeuingTimestamp: {other:?} is not known")),
    };
    rules.settings = rules.settings.heads(heads);
    Ok(Ok(rules))
}

/// A tree of queues and what is beside it.
pub(super) struct World {
    pub(super) tenants: Tenants,
    pub(super) rules: Rules,
    /// By name: whether claims of its namespace are taken.
    selectors: BTreeMap<String, Option<LabelSelector>>,
    namespaces: BTreeMap<String, Labels>,
    /// Namespace and name of a local queue, and the queue behind it.
    local_queues: BTreeMap<(String, String), String>,
    /// Queues that are no part of what is compared.
    left_out: BTreeSet<String>,
}

impl World {
    /// Kueue's searches by the rules of the case.
    pub(super) fn searches(&mut self) -> Searches<'_> {
        Searches::new(&mut self.tenants, &self.rules.settings)
    }

    /// Reads cohorts, queues, flavors, local queues and namespaces of a case's input.
    pub(super) fn new(rules: Rules, input: &mut Fields<'_>) -> Result<World, String> {
        let mut world = World {
            tenants: Tenants::kueue_with(rules.settings.clone()),
            rules,
            selectors: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            local_queues: BTreeMap::new(),
            left_out: BTreeSet::new(),
        };
        for value in input.list("flavors")? {
            let flavor = flavor(value)?;
            world.tenants.set_flavor(flavor);
        }
        let cohorts = input.list("cohorts")?;
        for value in cohorts {
            let queue = cohort(value)?;
            world.tenants.set_queue(queue).map_err(|error| error.to_string())?;
        }
        for value in input.list("clusterQueues")? {
            let (queue, selector) = cluster_queue(value)?;
            world.selectors.insert(queue.name.clone(), selector);
            world.tenants.set_queue(queue).map_err(|error| error.to_string())?;
        }
        for value in input.list("localQueues")? {
            let mut fields = Fields::new("localQueue", value)?;
            let namespace = fields.text_or_empty("namespace")?;
            let key = (namespace.to_string(), fields.text("name")?.to_string());
            let queue = fields.text_or_empty("clusterQueue")?.to_string();
            fields.pass(&["fairWeight"]);
            fields.end()?;
            world.local_queues.insert(key, queue);
        }
        for (name, value) in input.entries("namespaces")? {
            world.namespaces.insert(name.to_string(), labels("namespaces", value)?);
        }
        Ok(world)
    }

    /// As [`World::new`], with queues charged for the usage of the input.
    pub(super) fn charged(rules: Rules, input: &mut Fields<'_>) -> Result<World, String> {
        let mut world = World::new(rules, input)?;
        world.charge(&input.entries("usage")?)?;
        Ok(world)
    }

    /// As [`World::new`], with a list of workloads, of which those with quota hold it.
    pub(super) fn with_holders<'v>(
        rules: Rules,
        input: &mut Fields<'v>,
        list: &'v str,
    ) -> Result<(World, Vec<Workload>), String> {
        let mut world = World::new(rules, input)?;
        let workloads = world.workloads(input.list(list)?)?;
        world.admit(&workloads)?;
        Ok((world, workloads))
    }

    /// The claim of a workload of the input, in the queue of the input.
    pub(super) fn claim<'v>(&self, input: &mut Fields<'v>, name: &'v str) -> Result<Claim, String> {
        let mut claim = self.workload(input.take(name)?)?.claim;
        claim.queue = input.text("clusterQueue")?.into();
        Ok(claim)
    }

    pub(super) fn leaf(&self, name: &str) -> Result<QueueId, String> {
        let queue = self.tenants.tree().queue(QueueKind::Leaf, name);
        queue.ok_or_else(|| format!("clusterQueue {name:?}: is not there"))
    }

    /// Whether a queue is part of what is compared.
    pub(super) fn is_whole(&self, name: &str) -> bool {
        !self.left_out.contains(name)
    }

    /// Leaves queues that are not active out of what is compared.
    pub(super) fn leave_out_inactive(&mut self) {
        let tree = self.tenants.tree();
        let inactive = tree.queues(QueueKind::Leaf).filter(|id| !self.tenants.is_active(*id));
        let names = inactive.filter_map(|id| tree.spec(id).map(|spec| spec.name.clone()));
        self.left_out = names.collect();
    }

    /// Charges queues with usage that has no holder.
    pub(super) fn charge(&mut self, usage: &[(&str, &Value)]) -> Result<(), String> {
        for (name, list) in usage {
            let list = list.as_array().ok_or("usage: is no list")?;
            let usage = self.usage(&amounts("usage", list)?);
            let queue = self.leaf(name)?;
            self.tenants.keep(queue, &usage, 1).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// An amount list that is expected: nothing but what some queue has books of, zeros included.
    pub(super) fn expected(&self, title: &str, list: &[Value]) -> Result<AmountTable, String> {
        for value in list {
            let mut fields = Fields::new(title, value)?;
            let (flavor, resource) = (fields.text("flavor")?, fields.text("resource")?);
            if self.tenants.tree().flavor_resource(flavor, resource).is_none() {
                return Err(format!("{title}: {resource:?} of {flavor:?} is not known"));
            }
        }
        amounts(title, list)
    }

    pub(super) fn usage(&mut self, table: &AmountTable) -> Usage {
        let tenants = &mut self.tenants;
        let pair = |((flavor, resource), amount): (&(String, String), &i64)| {
            (tenants.intern(flavor, resource), *amount)
        };
        table.iter().map(pair).collect()
    }

    /// Takes workloads that hold quota among the holders; others are left out.
    pub(super) fn admit(&mut self, workloads: &[Workload]) -> Result<(), String> {
        for workload in workloads.iter().filter(|workload| workload.queue_held.is_some()) {
            let mut claim = workload.claim.clone();
            claim.queue = workload.queue_held.clone().unwrap_or_default();
            let usage = self.usage(&workload.held);
            let since = workload.reserved.unwrap_or_else(now);
            let holder = self.tenants.restore(&claim, &usage, since);
            let holder = holder.map_err(|error| error.to_string())?;
            if workload.leaving {
                self.tenants.set_leaving(holder, true).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Whether a queue takes claims of a namespace.
    pub(super) fn takes(&self, queue: &str, namespace: &str) -> bool {
        let none = Labels::new();
        let labels = self.namespaces.get(namespace).unwrap_or(&none);
        match self.selectors.get(queue) {
            Some(Some(selector)) => selector.matches(labels),
            Some(None) => false,
            None => true,
        }
    }

    /// The queue behind a workload's local queue; empty if there is none.
    pub(super) fn queue_of(&self, namespace: &str, name: &str) -> String {
        let key = (namespace.to_string(), name.to_string());
        self.local_queues.get(&key).cloned().unwrap_or_default()
    }

    pub(super) fn workload(&self, value: &Value) -> Result<Workload, String> {
        workload(value, &self.rules)
    }

    pub(super) fn workloads(&self, list: &[Value]) -> Result<Vec<Workload>, String> {
        list.iter().map(|value| self.workload(value)).collect()
    }
}

/// Name and count of a podset, and flavor and usage by resource.
pub(super) type Assigned = (String, i64, BTreeMap<String, String>, BTreeMap<String, i64>);

/// A workload as a case has it.
#[derive(Clone)]
pub(super) struct Workload {
    pub(super) claim: Claim,
    pub(super) namespace: String,
    pub(super) local_queue: String,
    /// Where it holds quota.
    pub(super) queue_held: Option<String>,
    held: AmountTable,
    /// Assignment of each podset.
    pub(super) assigned: Vec<Assigned>,
    reserved: Option<Time>,
    pub(super) admitted: bool,
    leaving: bool,
}

pub(super) fn workload(value: &Value, rules: &Rules) -> Result<Workload, String> {
    workload_with(value, rules, &[])
}

/// A workload with fields of its own beside.
pub(super) fn workload_with(
    value: &Value,
    rules: &Rules,
    beside: &[&'static str],
) -> Result<Workload, String> {
    let mut fields = Fields::new("workload", value)?;
    let namespace = fields.text_or_empty("namespace")?.to_string();
    let name = format!("{namespace}/{}", fields.text("name")?);
    let mut claim = Claim::new(name, "");
    claim.uid = fields.text_or_empty("uid")?.into();
    let local_queue = fields.text_or_empty("queue")?.to_string();
    let priority = fields.integer("priority")?.unwrap_or(0);
    let priority = i32::try_from(priority).map_err(|error| format!("priority: {error}"))?;
    let boost = fields.maybe("priorityBoost").and_then(Value::as_str);
    claim.priority = effective_priority(priority, boost.filter(|_| rules.boosts));
    let created = fields.time("createdAt")?.unwrap_or(Time::ZERO);
    let mut losses = Vec::new();
    if let Some(value) = fields.maybe("evicted") {
        let (at, reason) = condition("evicted", value)?;
        match reason {
            "PodsReadyTimeout" => losses.push((at, LossReason::PodsReadyTimeout)),
            "AdmissionCheck" => losses.push((at, LossReason::AdmissionCheck)),
            _ => {}
        }
    }
    let leaving = fields.maybe("evicted").is_some();
    if let Some(value) = fields.maybe("preempted") {
        let (at, reason) = condition("preempted", value)?;
        losses.push((at, LossReason::Preempted(victim_reason(reason)?)));
    }
    claim.created = rules.settings.heads.since(created, &losses);
    let sets = fields.list("podSets")?;
    let effective = fields.list("effective")?;
    let mut held = AmountTable::new();
    let mut assigned = Vec::new();
    // A workload that is known by name alone counts nothing.
    let sets = if effective.is_empty() { &[] } else { sets };
    if sets.len() != effective.len() {
        return Err("workload: podSets and effective differ in number".into());
    }
    let ended = ended(fields.list("reclaimablePods")?)?;
    for (name, ended) in ended.iter().filter(|_| rules.reclaimable) {
        let of = |list: &[Value]| {
            let named = |set: &&Value| set.get("name").and_then(Value::as_str) == Some(name);
            list.iter().find(named).and_then(|set| set.get("count")?.as_i64())
        };
        if of(sets).map(|count| count - ended) != of(effective) {
            return Err(format!("reclaimablePods: {name:?} counts otherwise in effective"));
        }
    }
    for (set, effective) in sets.iter().zip(effective) {
        let (pods, own) = pod_set(set, effective)?;
        for (resource, flavor) in &own.2 {
            let amount = own.3.get(resource).copied().unwrap_or(0);
            if amount != 0 {
                *held.entry((flavor.clone(), resource.clone())).or_default() += amount;
            }
        }
        claim.pod_sets.push(pods);
        assigned.push(own);
    }
    let queue_held = fields.maybe("clusterQueue").and_then(Value::as_str).map(Into::into);
    let reserved = fields.time("quotaReservedAt")?;
    let admitted = fields.time("admittedAt")?.is_some();
    fields.pass(beside);
    fields.end()?;
    Ok(Workload {
        claim,
        namespace,
        local_queue,
        queue_held,
        held,
        assigned,
        reserved,
        admitted,
        leaving,
    })
}

/// Pods that have ended, by podset; `effective` no longer counts them.
fn ended(list: &[Value]) -> Result<BTreeMap<String, i64>, String> {
    let mut ended = BTreeMap::new();
    for value in list {
        let mut fields = Fields::new("reclaimablePods", value)?;
        let count = fields.integer("count")?.ok_or("reclaimablePods.count: is required")?;
        ended.insert(fields.text("name")?.to_string(), count);
        fields.end()?;
    }
    Ok(ended)
}

fn condition<'a>(title: &'a str, value: &'a Value) -> Result<(Time, &'a str), String> {
    let mut fields = Fields::new(title, value)?;
    let at = fields.time("at")?.ok_or_else(|| format!("{title}.at: is required"))?;
    let reason = fields.text_or_empty("reason")?;
    fields.end()?;
    Ok((at, reason))
}

pub(super) fn victim_reason(name: &str) -> Result<VictimReason, String> {
    let all = [
        VictimReason::InClusterQueue,
        VictimReason::InCohortReclamation,
        VictimReason::InCohortReclaimWhileBorrowing,
        VictimReason::InCohortFairSharing,
    ];
    let found = all.into_iter().find(|reason| reason.as_str() == name);
    found.ok_or_else(|| format!("reason: {name:?} is not known"))
}

fn pod_set(set: &Value, effective: &Value) -> Result<(PodSet, Assigned), String> {
    let mut fields = Fields::new("podSet", set)?;
    fields.pass(&["requestsPerPod", "count"]);
    let min_count = fields.integer("minCount")?;
    let mut pods = Fields::new("effective", effective)?;
    let count = pods.integer("count")?.ok_or("effective.count: is required")?;
    let mut requests = Amounts::new();
    let totals = pods.integers("requests")?;
    for (name, amount) in &totals {
        requests.set(name, *amount);
    }
    let mut flavors = BTreeMap::new();
    for (resource, flavor) in pods.entries("flavors")? {
        let flavor = flavor.as_str().ok_or("effective.flavors: is no text")?;
        flavors.insert(resource.to_string(), flavor.to_string());
    }
    if fields.text("name")? != pods.text("name")? {
        return Err("effective.name: differs".into());
    }
    pods.end()?;
    let count = u32::try_from(count).map_err(|error| format!("count: {error}"))?;
    let mut result = PodSet::new(fields.text("name")?, count, requests);
    result.min_count = min_count.map(u32::try_from).transpose().map_err(|e| e.to_string())?;
    if let Some(value) = fields.maybe("nodeSelector") {
        result.node_selector = labels("nodeSelector", value)?;
    }
    if let Some(value) = fields.maybe("affinity") {
        result.affinity = affinity(value)?;
    }
    for value in fields.list("tolerations")? {
        result.tolerations.push(toleration(value)?);
    }
    let assigned = (result.name.clone(), i64::from(count), flavors, totals);
    fields.end()?;
    Ok((result, assigned))
}

/// The required node affinity; preferences say nothing about flavors.
fn affinity(value: &Value) -> Result<Option<NodeSelector>, String> {
    let mut fields = Fields::new("affinity", value)?;
    let node = fields.maybe("nodeAffinity");
    fields.end()?;
    let Some(node) = node else { return Ok(None) };
    let mut fields = Fields::new("nodeAffinity", node)?;
    let required = fields.maybe("requiredDuringSchedulingIgnoredDuringExecution");
    fields.pass(&["preferredDuringSchedulingIgnoredDuringExecution"]);
    fields.end()?;
    let Some(required) = required else { return Ok(None) };
    let mut fields = Fields::new("required", required)?;
    let mut terms = Vec::new();
    for term in fields.list("nodeSelectorTerms")? {
        let mut term = Fields::new("term", term)?;
        let expressions = term.list("matchExpressions")?;
        terms.push(NodeSelectorTerm::labels(requirements(expressions)?));
        term.end()?;
    }
    fields.end()?;
    Ok(Some(NodeSelector::any_of(terms)))
}

fn requirements(list: &[Value]) -> Result<Vec<Requirement>, String> {
    let read = |value: &Value| {
        let mut fields = Fields::new("matchExpression", value)?;
        let (key, operator) = (fields.text("key")?, fields.text("operator")?.to_string());
        let requirement = Requirement::new(key, operator.into(), fields.texts("values")?);
        fields.end()?;
        Ok(requirement)
    };
    list.iter().map(read).collect()
}

fn labels(title: &str, value: &Value) -> Result<Labels, String> {
    let object = value.as_object().ok_or_else(|| format!("{title}: is no object"))?;
    let pair = |(key, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| format!("{title}.{key}: is no text"))?;
        Ok((key.clone(), value.to_string()))
    };
    object.iter().map(pair).collect()
}

fn toleration(value: &Value) -> Result<Toleration, String> {
    serde_json::from_value(value.clone()).map_err(|error| format!("toleration: {error}"))
}

fn flavor(value: &Value) -> Result<Flavor, String> {
    let mut fields = Fields::new("flavor", value)?;
    let mut flavor = Flavor::new(fields.text("name")?);
    if let Some(value) = fields.maybe("nodeLabels") {
        flavor.node_labels = labels("nodeLabels", value)?;
    }
    for value in fields.list("nodeTaints")? {
        let taint: Result<Taint, _> = serde_json::from_value(value.clone());
        flavor.node_taints.push(taint.map_err(|error| format!("taint: {error}"))?);
    }
    for value in fields.list("tolerations")? {
        flavor.tolerations.push(toleration(value)?);
    }
    fields.end()?;
    Ok(flavor)
}

fn weight(fields: &mut Fields<'_>) -> Result<Weight, String> {
    let Some(value) = fields.maybe("fairWeight") else { return Ok(Weight::ONE) };
    let weight = value.as_f64().ok_or("fairWeight: is no number")?;
    Ok(Weight::from_nanos((weight * 1e9).round() as u64))
}

fn cohort(value: &Value) -> Result<Queue, String> {
    let mut fields = Fields::new("cohort", value)?;
    let mut queue = Queue::inner(fields.text("name")?).weight(weight(&mut fields)?);
    queue.parent = fields.maybe("parent").and_then(Value::as_str).map(Into::into);
    queue.groups = groups(fields.list("resourceGroups")?)?;
    fields.end()?;
    Ok(queue)
}

/// A queue and the namespaces it takes claims from; `None`: from none.
pub(super) fn cluster_queue(value: &Value) -> Result<(Queue, Option<LabelSelector>), String> {
    let mut fields = Fields::new("clusterQueue", value)?;
    let mut queue = Queue::leaf(fields.text("name")?).weight(weight(&mut fields)?);
    queue.parent = fields.maybe("cohort").and_then(Value::as_str).map(Into::into);
    queue.groups = groups(fields.list("resourceGroups")?)?;
    queue.strategy = match fields.text_or_empty("queueingStrategy")? {
        "" | "BestEffortFIFO" => QueueingStrategy::BestEffortFifo,
        "StrictFIFO" => QueueingStrategy::StrictFifo,
        other => return Err(format!("queueingStrategy: {other:?} is not known")),
    };
    queue.stopped = match fields.text_or_empty("stopPolicy")? {
        "" | "None" => false,
        "Hold" | "HoldAndDrain" => true,
        other => return Err(format!("stopPolicy: {other:?} is not known")),
    };
    if let Some(value) = fields.maybe("preemption") {
        queue.preemption = preemption(value)?;
    }
    if let Some(value) = fields.maybe("flavorFungibility") {
        queue.fungibility = fungibility(value)?;
    }
    let selector = match fields.maybe("namespaceSelector") {
        None => Some(LabelSelector::default()),
        Some(Value::String(text)) if text == "none" => None,
        Some(value) => Some(selector(value)?),
    };
    fields.pass(&["admissionScope"]);
    fields.end()?;
    Ok((queue, selector))
}

fn selector(value: &Value) -> Result<LabelSelector, String> {
    let mut fields = Fields::new("namespaceSelector", value)?;
    let match_labels = fields.maybe("matchLabels");
    let match_labels =
        match_labels.map_or(Ok(Labels::new()), |value| labels("matchLabels", value))?;
    let match_expressions = requirements(fields.list("matchExpressions")?)?;
    fields.end()?;
    let mut selector = LabelSelector::default();
    (selector.match_labels, selector.match_expressions) = (match_labels, match_expressions);
    Ok(selector)
}

pub(super) fn policy(name: &str) -> Result<QueuePreemptionPolicy, String> {
    Ok(match name {
        "" | "Never" => QueuePreemptionPolicy::Never,
        "LowerPriority" => QueuePreemptionPolicy::LowerPriority,
        "LowerOrNewerEqualPriority" => QueuePreemptionPolicy::LowerOrNewerEqualPriority,
        "Any" => QueuePreemptionPolicy::Any,
        other => return Err(format!("policy: {other:?} is not known")),
    })
}

fn preemption(value: &Value) -> Result<QueuePreemption, String> {
    let mut fields = Fields::new("preemption", value)?;
    let mut preemption = QueuePreemption::default()
        .within_cluster_queue(policy(fields.text_or_empty("withinClusterQueue")?)?)
        .reclaim_within_cohort(policy(fields.text_or_empty("reclaimWithinCohort")?)?);
    if let Some(value) = fields.maybe("borrowWithinCohort") {
        let mut borrow = Fields::new("borrowWithinCohort", value)?;
        let own = &mut preemption.borrow_within_cohort;
        own.lower_priority = match borrow.text_or_empty("policy")? {
            "" | "Never" => false,
            "LowerPriority" => true,
            other => return Err(format!("borrowWithinCohort.policy: {other:?} is not known")),
        };
        own.max_priority_threshold = borrow.integer("maxPriorityThreshold")?;
        borrow.end()?;
    }
    fields.end()?;
    Ok(preemption)
}

pub(super) fn fungibility(value: &Value) -> Result<Fungibility, String> {
    let mut fields = Fields::new("flavorFungibility", value)?;
    let mut next = |name: &'static str, default: bool| match fields.text_or_empty(name)? {
        "" => Ok(default),
        "TryNextFlavor" => Ok(true),
        "MayStopSearch" | "Borrow" | "Preempt" => Ok(false),
        other => Err(format!("{name}: {other:?} is not known")),
    };
    let mut result = Fungibility::default();
    result.try_next_when_borrowing = next("whenCanBorrow", false)?;
    result.stop_when_preempting = !next("whenCanPreempt", true)?;
    result.preemption_over_borrowing = match fields.text_or_empty("preference")? {
        "" | "BorrowingOverPreemption" => false,
        "PreemptionOverBorrowing" => true,
        other => return Err(format!("preference: {other:?} is not known")),
    };
    fields.end()?;
    Ok(result)
}

fn groups(list: &[Value]) -> Result<Vec<ResourceGroup>, String> {
    let read = |value: &Value| {
        let mut fields = Fields::new("resourceGroup", value)?;
        let covered = fields.texts("coveredResources")?;
        let mut flavors = Vec::new();
        for value in fields.list("flavors")? {
            let mut flavor = Fields::new("flavor", value)?;
            let mut resources: Vec<(String, Quota)> = Vec::new();
            for value in flavor.list("resources")? {
                let mut resource = Fields::new("resource", value)?;
                let title = "quota";
                let mut quota = Quota::nominal(amount(title, resource.take("nominalQuota")?)?);
                let limit =
                    |value: Option<&Value>| value.map(|value| amount(title, value)).transpose();
                quota.borrowing_limit = limit(resource.maybe("borrowingLimit"))?;
                quota.lending_limit = limit(resource.maybe("lendingLimit"))?;
                resources.push((resource.text("name")?.into(), quota));
                resource.end()?;
            }
            flavors.push(FlavorQuotas::new(flavor.text("name")?, resources));
            flavor.end()?;
        }
        fields.end()?;
        let mut group = ResourceGroup::default();
        group.covered_resources = covered.into_iter().map(Into::into).collect();
        group.flavors = flavors;
        Ok(group)
    };
    list.iter().map(read).collect()
}

/// How well a claim fits.
pub(super) fn mode(name: &str) -> Result<AssignmentMode, String> {
    Ok(match name {
        "Fit" => AssignmentMode::Fit,
        "Preempt" => AssignmentMode::Preempt,
        "NoFit" => AssignmentMode::NoFit,
        other => return Err(format!("mode: {other:?} is not known")),
    })
}

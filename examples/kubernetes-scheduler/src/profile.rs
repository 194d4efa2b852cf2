//! The parts of the crate as the configuration has them: plugins, levels, rules of the queue.

use std::time::Duration;

use phalanx::claims::Cel;
use phalanx::framework::FrameworkBuilder;
use phalanx::kubernetes::queues::{LocalQueues, QueueManifests};
use phalanx::kubernetes::watch::{Store, WorkloadPods};
use phalanx::kubernetes::{Mode, Value};
use phalanx::model::Amounts;
use phalanx::plugins::{
    BalancedAllocation, DynamicResources, LeastAllocated, MostAllocated, RequestedToCapacityRatio,
    ScarceResourceAvoidance, Utilization,
};
use phalanx::preempt::{LowerPriority, SameQueue};
use phalanx::queue::{
    Backoff, Discipline, OnBindFailure, PreemptionSettings, PriorityThenTime, ReservationPolicy,
    SavedScheduler,
};
use phalanx::quota::kai::KaiSettings;
use phalanx::quota::{Flavor, KoordinatorSettings, KueueSettings, Queue, QueueKind, Tenants};
use phalanx::{Cluster, Framework, Scheduler, queue};
use phalanx_kubernetes_client::log;

use crate::config::{
    Dialect, File, OnFailure, OwnScore, Profile, ScoreName, Span, Victims, Workloads,
};
use crate::kube_config;

/// The code and the settings of a scheduler: all that a saved state does not bring along.
#[derive(Clone)]
pub struct Parts {
    pub framework: Framework,
    pub settings: queue::Settings,
    /// The schedulers whose pods are placed beside those of this program.
    pub profiles: Vec<String>,
    victims: Option<Victims>,
    levels: Vec<String>,
}

impl Parts {
    /// The parts that a file says.
    ///
    /// # Errors
    /// One sentence that names the field.
    pub fn new(file: &File, salt: u64) -> Result<Parts, String> {
        let (framework, profiles) = match &file.kube_scheduler_configuration {
            Some(path) => kube_config::framework(path)?,
            None => (framework(file)?, Vec::new()),
        };
        Ok(Parts {
            framework,
            profiles,
            settings: settings(file, salt),
            victims: file.preemption.as_ref().map(|preemption| preemption.policy),
            levels: file.levels.clone(),
        })
    }

    /// An empty scheduler.
    ///
    /// # Errors
    /// The levels make no topology.
    pub fn scheduler(&self, tenants: Option<Tenants>) -> Result<Scheduler, String> {
        let builder = Cluster::builder().levels(self.levels.iter().cloned());
        let cluster = builder.build().map_err(|error| format!("levels: {error}"))?;
        let scheduler = Scheduler::new(cluster, self.framework.clone(), self.settings.clone());
        let scheduler = match tenants {
            Some(tenants) => scheduler.with_tenants(tenants),
            None => scheduler,
        };
        Ok(self.dress(scheduler))
    }

    /// A scheduler that goes on from a saved state, with the settings of that.
    pub fn restore(&self, saved: SavedScheduler) -> Scheduler {
        self.dress(Scheduler::restore(saved, self.framework.clone(), PriorityThenTime))
    }

    fn dress(&self, scheduler: Scheduler) -> Scheduler {
        match self.victims {
            Some(Victims::LowerPriorityInQueue) => {
                scheduler.with_policy((LowerPriority, SameQueue))
            }
            _ => scheduler,
        }
    }
}

/// Reads everything that a file names, and keeps nothing.
///
/// # Errors
/// One sentence that names the field or the file.
pub fn check(file: &File) -> Result<(), String> {
    Parts::new(file, 0)?.scheduler(None)?;
    if let Some(path) = &file.serving.token {
        crate::serve::token(path)?;
    }
    crate::scale::Provisioning::new(file)?;
    tenants(file, &[], &Amounts::default()).map(drop)
}

/// An empty store as a file says.
pub fn store(file: &File, name: &str, parts: &Parts, queues: Option<LocalQueues>) -> Store {
    let store = Store::new(name).with_claims().with_fractions();
    let store = store.with_profiles(parts.profiles.iter().cloned());
    let mut store = store.with_levels(file.levels.iter().cloned());
    if file.queues.backfill.is_some() {
        store = store.with_run_times();
    }
    if file.workloads == Workloads::Gangs {
        store = store.with_workloads(WorkloadPods::Watched);
    }
    match queues {
        Some(queues) => store.with_queues(queues),
        None => store,
    }
}

/// The framework: a profile, without the filters and with the weights that the file names.
fn framework(file: &File) -> Result<Framework, String> {
    let profile = match file.profile {
        Profile::Pack => Framework::default(),
        Profile::Spread => Framework::spread(),
        Profile::Kubernetes => Framework::kubernetes(),
    };
    for name in &file.plugins.disabled {
        let is_known = profile.filter_names().any(|filter| filter == name.value);
        if !is_known && name.value != "DynamicResources" {
            let known: Vec<&str> = profile.filter_names().collect();
            return Err(unknown(name.defined.line(), "filter", &name.value, &known));
        }
    }
    let names = || profile.score_names().chain(profile.domain_score_names()).map(|(_, name)| name);
    for (name, weight) in &file.plugins.weights {
        if !names().any(|known| known == name) {
            let known: Vec<&str> = names().collect();
            return Err(unknown(weight.defined.line(), "score", name, &known));
        }
    }
    let mut builder = profile.to_builder();
    for name in &file.plugins.disabled {
        builder = builder.without_filter(&name.value);
    }
    for (name, weight) in &file.plugins.weights {
        builder = builder.weigh(name, weight.value);
    }
    for (index, score) in file.plugins.scores.iter().enumerate() {
        // It takes the place of the profile's score of that name.
        let name = format!("{:?}", score.name);
        if names().any(|known| known == name) {
            builder = builder.weigh(&name, 0);
        }
        builder = own_score(builder, score)
            .map_err(|error| format!("plugins.scores[{index}]: {error}"))?;
    }
    if !file.plugins.disabled.iter().any(|name| name.value == "DynamicResources") {
        builder = DynamicResources::add_to(builder, Cel);
    }
    builder.build().map_err(|error| format!("plugins: {error}"))
}

/// Adds a score with its arguments.
fn own_score(builder: FrameworkBuilder, own: &OwnScore) -> Result<FrameworkBuilder, String> {
    if own.resources.is_empty() {
        return Err("resources: at least one".to_owned());
    }
    let is_curve = own.name == ScoreName::RequestedToCapacityRatio;
    if own.shape.is_empty() == is_curve {
        return Err("shape: for RequestedToCapacityRatio, and for no other".to_owned());
    }
    let weighed = || own.resources.iter().map(|(name, weight)| (name.as_str(), *weight));
    let names = || own.resources.keys().map(String::as_str);
    let score = match own.name {
        ScoreName::MostAllocated => MostAllocated::of(weighed()),
        ScoreName::LeastAllocated => LeastAllocated::of(weighed()),
        ScoreName::RequestedToCapacityRatio => {
            let curve = Utilization::new(own.shape.iter().copied());
            RequestedToCapacityRatio::of(curve.map_err(|error| error.to_string())?, weighed())
        }
        ScoreName::NodeResourcesBalancedAllocation => {
            return Ok(builder.score(own.weight, BalancedAllocation::of(names())));
        }
        ScoreName::ScarceResourceAvoidance => {
            return Ok(builder.score(own.weight, ScarceResourceAvoidance::of(names())));
        }
    };
    Ok(builder.score(own.weight, score))
}

fn unknown(line: impl std::fmt::Display, what: &str, name: &str, known: &[&str]) -> String {
    format!("line {line}: plugins: no {what} of the profile is named {name}: {}", known.join(", "))
}

/// The tenants of a dialect, with all that says who is in which queue.
pub struct Queues {
    pub tenants: Tenants,
    pub local: Option<LocalQueues>,
    pub flavors: Vec<Flavor>,
}

impl Queues {
    /// The queues, parents first.
    pub fn specs(&self) -> Vec<Queue> {
        let tree = self.tenants.tree();
        let inner = tree.queues(QueueKind::Inner).chain(tree.queues(QueueKind::Leaf));
        inner.filter_map(|id| tree.spec(id).cloned()).collect()
    }
}

/// The tenants by a file, and by objects of the API server; `None` if it has no queues.
///
/// # Errors
/// One sentence that names the file or the queue.
pub fn tenants(file: &File, live: &[Value], total: &Amounts) -> Result<Option<Queues>, String> {
    let queues = &file.queues;
    let mut objects = queues.objects.clone();
    if let Some(path) = &queues.file {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let read = text.and_then(|text| {
            serde_saphyr::from_multiple::<Value>(&text).map_err(|error| error.to_string())
        });
        objects.extend(read.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    if objects.is_empty() && !queues.watch {
        return Ok(None);
    }
    let mut manifests = QueueManifests::new(Mode::AsWritten);
    for object in objects.iter().chain(live) {
        manifests.take(object).map_err(|error| format!("queues: {error}"))?;
    }
    // Objects of a server come one by one; those of a file are complete.
    for ((namespace, name), queue) in manifests.local_queues.iter().filter(|_| !queues.watch) {
        if !manifests.queues.iter().any(|own| own.name == *queue) {
            let reason = format!("there is no ClusterQueue {queue}");
            return Err(format!("queues: LocalQueue {namespace}/{name}: {reason}"));
        }
    }
    for note in &manifests.notes {
        log!(warn, "a field of a queue is not read", reason = note);
    }
    for (kind, count) in &manifests.ignored {
        log!(warn, "a kind is not read among queues", kind = kind, count = count);
    }
    let fault = |error: &dyn std::fmt::Display| format!("queues: {error}");
    // Flavors of the dialects that have none of their own.
    let all = |name: &str| vec![Flavor::new(name)];
    let (tenants, flavors) = match queues.dialect {
        Dialect::Kueue | Dialect::Default => {
            let mut kueue = KueueSettings::default();
            if queues.fair_sharing {
                kueue = kueue.fair();
            }
            let mut tenants = match queues.dialect {
                Dialect::Kueue => Tenants::kueue_with(kueue),
                _ => Tenants::default(),
            };
            manifests.add_to(&mut tenants).map_err(|error| fault(&error))?;
            (tenants, manifests.flavors.clone())
        }
        Dialect::Kai => {
            let tenants = manifests.kai_tenants(KaiSettings::default());
            (tenants.map_err(|error| fault(&error))?, all("default"))
        }
        Dialect::Koordinator => {
            let tenants = manifests.koordinator(KoordinatorSettings::default(), total);
            (tenants.map_err(|error| fault(&error))?, all("all"))
        }
        dialect => {
            let mut tenants = match dialect {
                Dialect::VolcanoProportion => Tenants::volcano_proportion(),
                Dialect::VolcanoCapacity => Tenants::volcano_capacity(),
                Dialect::VolcanoDrf => Tenants::volcano_drf(),
                _ => Tenants::yunikorn_with(manifests.yunikorn.clone()),
            };
            manifests.give_to(&mut tenants).map_err(|error| fault(&error))?;
            (tenants, manifests.flavors.clone())
        }
    };
    // Only Kueue's groups, and those of the crate's own dialect, name a LocalQueue.
    let is_local = matches!(queues.dialect, Dialect::Kueue | Dialect::Default);
    let local = is_local.then(|| manifests.admission());
    Ok(Some(Queues { tenants, local, flavors }))
}

/// The rules of the queue.
fn settings(file: &File, salt: u64) -> queue::Settings {
    let or = |span: Option<Span>, default: Duration| span.map_or(default, |span| span.0);
    let mut settings = queue::Settings::default();
    let times = &file.timeouts;
    settings.stale_after = or(times.below_minimum, settings.stale_after);
    settings.bind_timeout = or(times.binding, settings.bind_timeout);
    settings.prepare_within = Some(file.bindings.prepare_for);
    settings.max_in_unschedulable = or(times.unschedulable, settings.max_in_unschedulable);
    settings.backoff = Backoff::new(
        or(times.first_backoff, settings.backoff.first),
        or(times.longest_backoff, settings.backoff.most),
    );
    settings.queues.clone_from(&file.queues.rules);
    settings.demote_after = file.queues.demote_after;
    let reservation = |after: Span| {
        let mut policy = ReservationPolicy::new().after(after.0);
        policy.timeout = or(file.queues.reserve_for, policy.timeout);
        policy.at_most = file.queues.reservations.unwrap_or(policy.at_most);
        policy
    };
    let reservation = file.queues.reserve_after.map(reservation);
    settings.discipline = Discipline::in_order(file.queues.head_of_line, reservation);
    if let Some(own) = &file.queues.backfill {
        let mut backfill = queue::Backfill::easy();
        backfill.rule = own.rule;
        backfill.binding_time = or(own.binding_time, backfill.binding_time);
        settings.discipline = Discipline::Backfill(backfill);
    }
    settings.preemption = file.preemption.as_ref().map(|preemption| {
        let mut own = PreemptionSettings::default();
        own.budget = preemption.budget.unwrap_or(own.budget);
        own.timeout = or(preemption.timeout, own.timeout);
        own.start_timeout = or(preemption.start, own.start_timeout);
        own.grace_period = or(preemption.grace, own.grace_period);
        own.joint = preemption.joint;
        own.consolidation = preemption.moves;
        own.delay = or(preemption.delay, own.delay);
        own
    });
    settings.strategy = file.strategy;
    settings.salt = salt;
    // A binding cannot be taken back, so a gang that stays half bound is evicted whole.
    settings.evict_half_bound = true;
    settings.on_bind_failure = match file.bindings.on_failure {
        OnFailure::Retry => OnBindFailure::Retry,
        OnFailure::KeepMinimum => OnBindFailure::KeepMinimum,
        OnFailure::Evict => OnBindFailure::UndoAll,
    };
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: &str = "
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: vision}
  spec:
    namespaceSelector: {}
    resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: any, resources: [{name: cpu, nominalQuota: 64}]}]
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: LocalQueue
  metadata: {name: default, namespace: lab}
  spec: {clusterQueue: vision}
";

    fn read(text: &str) -> File {
        File::read(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_file_that_shows_every_field_has_the_defaults() {
        let shown = read(include_str!("../config.yaml"));
        let (own, default) = (settings(&shown, 7), settings(&File::default(), 7));
        assert_eq!(own, default);
        assert_eq!(own.preemption, None);
        assert!(tenants(&shown, &[], &Amounts::default()).expect("it is valid").is_none());
    }

    #[test]
    fn preemption_is_on_where_its_section_is_there() {
        let defaults = settings(&read("preemption: {}"), 0).preemption;
        assert_eq!(defaults, Some(PreemptionSettings::default()));
        let some = "preemption: {policy: lowerPriorityInQueue, budget: 9, grace: 90s, joint: true}";
        let own = settings(&read(some), 0).preemption.expect("it is on");
        assert_eq!((own.budget, own.grace_period), (9, Duration::from_secs(90)));
        assert_eq!(own.joint, Some(true));
        let error = File::read("profile: pack\npreemption:\n  victims: all\n").unwrap_err();
        assert!(error.contains('3') && error.contains("victims"), "{error}");
    }

    #[test]
    fn tenants_are_read_here_and_from_a_file_and_in_either_dialect() {
        let here = format!("queues:\n  objects:{}", QUEUES.replace('\n', "\n  "));
        let path = std::env::temp_dir().join(format!("queues-{}.yaml", std::process::id()));
        let documents = QUEUES.replace("\n- ", "\n---\n- ");
        std::fs::write(&path, documents).expect("a temporary file can be written");
        let there = format!("queues: {{file: {}, dialect: default}}", path.display());
        let none = Amounts::default();
        for text in [here, there] {
            let read = tenants(&read(&text), &[], &none);
            let queues = read.unwrap_or_else(|error| panic!("{text}: {error}"));
            let queues = queues.expect("there are tenants");
            let local = queues.local.expect("the dialect has local queues");
            assert_eq!(local.cluster_queue("lab", &Default::default(), "default"), Some("vision"));
            let vision = queues.tenants.tree().queue(QueueKind::Leaf, "vision");
            assert!(queues.tenants.is_active(vision.expect("the queue is there")));
        }
        std::fs::remove_file(&path).expect("it was written");
        let text = format!("queues:\n  objects:{}", QUEUES.replace('\n', "\n  "));
        let stray = read(&text.replace("clusterQueue: vision", "clusterQueue: speech"));
        let error = tenants(&stray, &[], &none).err().expect("there is no such queue");
        assert!(error.contains("lab/default") && error.contains("speech"), "{error}");
        let missing = read("queues: {file: /nowhere/queues.yaml}");
        let error = tenants(&missing, &[], &none).err().expect("there is no such file");
        assert!(error.contains("/nowhere/queues.yaml"), "{error}");
    }

    /// A queue in the words of each dialect, and its name in the tree.
    const DIALECTS: [(&str, &str, &str); 6] = [
        (
            "kai",
            "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: vision}, spec: {resources: \
             {gpu: {quota: 8, limit: -1, overQuotaWeight: 1}}}}",
            "vision",
        ),
        (
            "koordinator",
            "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: vision, \
             namespace: lab}, spec: {min: {cpu: 8}, max: {cpu: 16}}}",
            "vision",
        ),
        (
            "volcanoProportion",
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: vision}, spec: \
             {weight: 1}}",
            "vision",
        ),
        (
            "volcanoCapacity",
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: vision}, spec: \
             {deserved: {cpu: 8}}}",
            "vision",
        ),
        (
            "volcanoDrf",
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: vision}, spec: \
             {weight: 1}}",
            "vision",
        ),
        (
            "yunikorn",
            "{partitions: [{name: default, queues: [{name: root, queues: [{name: vision, resources: \
             {guaranteed: {vcore: 8}}}]}]}]}",
            "root.vision",
        ),
    ];

    #[test]
    fn every_dialect_has_its_queues() {
        for (dialect, object, name) in DIALECTS {
            let text = format!("queues: {{dialect: {dialect}, objects: [{object}]}}");
            let file = read(&text);
            let queues = tenants(&file, &[], &Amounts::default());
            let queues = queues.unwrap_or_else(|error| panic!("{dialect}: {error}"));
            let queues = queues.expect("there are tenants");
            let tree = queues.tenants.tree();
            assert!(tree.queue(QueueKind::Leaf, name).is_some(), "{dialect}");
            assert!(queues.local.is_none());
            let parts = Parts::new(&file, 0).expect("the plugins are the default ones");
            let scheduler = parts.scheduler(Some(queues.tenants)).expect("there are no levels");
            assert!(scheduler.queue_status(name).is_some(), "{dialect}");
        }
    }

    #[test]
    fn backfill_reservations_and_moves_are_turned_on_by_their_fields() {
        let own = settings(&read("queues: {backfill: {rule: conservative, bindingTime: 5s}}"), 0);
        let expected = queue::Backfill::conservative().binding_time(Duration::from_secs(5));
        assert_eq!(own.discipline, Discipline::Backfill(expected));
        let own =
            settings(&read("queues: {reserveAfter: 30s, reserveFor: 1h, reservations: 3}"), 0);
        let policy = own.discipline.reservation().expect("it is on");
        assert_eq!((policy.after, policy.at_most), (Duration::from_secs(30), 3));
        let own = settings(&read("preemption: {moves: 4, delay: 10s}"), 0);
        let preemption = own.preemption.expect("it is on");
        assert_eq!((preemption.consolidation, preemption.delay), (4, Duration::from_secs(10)));
        for wrong in [
            "queues: {backfill: {}, reserveAfter: 30s}",
            "queues: {fairSharing: true, dialect: kai}",
            "leaderElection: {renew: 15s, lease: 15s}",
            "leaderElection: {retry: 0s}",
            "leaderElection: {lease: 300ms, renew: 200ms, retry: 100ms}",
            "timeouts: {binding: 99999999999999999999h}",
            "timeouts: {binding: 9999999999999999h}",
            "serving: {certificate: a}",
        ] {
            assert!(File::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn scores_have_arguments() {
        let text = "
plugins:
  scores:
  - {name: MostAllocated, weight: 3, resources: {nvidia.com/gpu: 5}}
  - {name: ScarceResourceAvoidance, resources: {nvidia.com/gpu: 1}}
";
        let plain = framework(&File::default()).expect("it is sound");
        let own = framework(&read(text)).expect("it is sound");
        assert_eq!(own.score_names().count(), plain.score_names().count() + 1);
        let weight = own.score_names().find(|(_, name)| *name == "MostAllocated");
        assert_eq!(weight.map(|(weight, _)| weight), Some(3), "the profile's own is replaced");
        for (wrong, reason) in [
            ("[{name: MostAllocated, resources: {}}]", "scores[0]: resources"),
            ("[{name: RequestedToCapacityRatio, resources: {cpu: 1}}]", "scores[0]: shape"),
            ("[{name: MostAllocated, resources: {cpu: 1}, shape: [[0, 1]]}]", "scores[0]: shape"),
        ] {
            let error = framework(&read(&format!("plugins: {{scores: {wrong}}}"))).err();
            let error = error.unwrap_or_else(|| panic!("{wrong} was taken"));
            assert!(error.contains(reason), "{error}");
        }
    }
}

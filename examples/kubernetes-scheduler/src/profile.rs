//! The parts of the crate as the configuration has them: plugins, levels, rules of the queue.

use std::time::Duration;

use phalanx::claims::Cel;
use phalanx::kubernetes::queues::{LocalQueues, QueueManifests};
use phalanx::kubernetes::{Mode, Value};
use phalanx::plugins::DynamicResources;
use phalanx::preempt::{LowerPriority, SameQueue};
use phalanx::queue::{Backoff, Discipline, OnBindFailure, PreemptionSettings, ReservationPolicy};
use phalanx::quota::Tenants;
use phalanx::{Cluster, Framework, Scheduler, queue};

use crate::config::{Dialect, File, OnFailure, Profile, Span, Victims};
use crate::log;

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
    if !file.plugins.disabled.iter().any(|name| name.value == "DynamicResources") {
        builder = DynamicResources::add_to(builder, Cel);
    }
    builder.build().map_err(|error| format!("plugins: {error}"))
}

fn unknown(line: impl std::fmt::Display, what: &str, name: &str, known: &[&str]) -> String {
    format!("line {line}: plugins: no {what} of the profile is named {name}: {}", known.join(", "))
}

/// An empty cluster with the levels of its topology.
fn cluster(file: &File) -> Result<Cluster, String> {
    let builder = Cluster::builder().levels(file.levels.iter().cloned());
    builder.build().map_err(|error| format!("levels: {error}"))
}

/// The tenants, and the queue of each local queue; none if the file names none.
pub fn tenants(file: &File) -> Result<Option<(Tenants, LocalQueues)>, String> {
    let queues = &file.queues;
    let mut objects = queues.objects.clone();
    if let Some(path) = &queues.file {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let read = text.and_then(|text| {
            serde_saphyr::from_multiple::<Value>(&text).map_err(|error| error.to_string())
        });
        objects.extend(read.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    if objects.is_empty() {
        return Ok(None);
    }
    let mut manifests = QueueManifests::new(Mode::AsWritten);
    for object in &objects {
        manifests.take(object).map_err(|error| format!("queues: {error}"))?;
    }
    for note in &manifests.notes {
        log!(warn, "a field of a queue is not read", reason = note);
    }
    for (kind, count) in &manifests.ignored {
        log!(warn, "a kind is not read among queues", kind = kind, count = count);
    }
    let mut tenants = match queues.dialect {
        Dialect::Kueue => Tenants::kueue(),
        Dialect::Default => Tenants::default(),
    };
    manifests.add_to(&mut tenants).map_err(|error| format!("queues: {error}"))?;
    Ok(Some((tenants, manifests.admission())))
}

/// The scheduler, empty, with everything that the file says.
pub fn scheduler(file: &File, salt: u64, tenants: Option<Tenants>) -> Result<Scheduler, String> {
    let scheduler = Scheduler::new(cluster(file)?, framework(file)?, settings(file, salt));
    let scheduler = match tenants {
        Some(tenants) => scheduler.with_tenants(tenants),
        None => scheduler,
    };
    Ok(match file.preemption.as_ref().map(|preemption| preemption.policy) {
        Some(Victims::LowerPriorityInQueue) => scheduler.with_policy((LowerPriority, SameQueue)),
        _ => scheduler,
    })
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
    let reservation = |after: Span| ReservationPolicy::new().after(after.0);
    let reservation = file.queues.reserve_after.map(reservation);
    settings.discipline = Discipline::in_order(file.queues.head_of_line, reservation);
    settings.preemption = file.preemption.as_ref().map(|preemption| {
        let mut own = PreemptionSettings::default();
        own.budget = preemption.budget.unwrap_or(own.budget);
        own.timeout = or(preemption.timeout, own.timeout);
        own.start_timeout = or(preemption.start, own.start_timeout);
        own.grace_period = or(preemption.grace, own.grace_period);
        own.joint = preemption.joint;
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
        assert!(tenants(&shown).expect("it is valid").is_none());
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
        for text in [here, there] {
            let read = tenants(&read(&text)).unwrap_or_else(|error| panic!("{text}: {error}"));
            let (tenants, queues) = read.expect("there are tenants");
            let none = Default::default();
            assert_eq!(queues.cluster_queue("lab", &none, "default"), Some("vision"));
            let vision = tenants.tree().queue(phalanx::quota::QueueKind::Leaf, "vision");
            assert!(tenants.is_active(vision.expect("the queue is there")));
        }
        std::fs::remove_file(&path).expect("it was written");
        let error = tenants(&read("queues: {file: /nowhere/queues.yaml}")).unwrap_err();
        assert!(error.contains("/nowhere/queues.yaml"), "{error}");
    }
}

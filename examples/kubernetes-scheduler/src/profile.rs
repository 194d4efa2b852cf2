//! The parts of the crate as the configuration has them: plugins, levels, rules of the queue.

use std::time::Duration;

use phalanx::queue::{Backoff, OnBindFailure, ReservationPolicy};
use phalanx::{Cluster, Framework, queue};

use crate::config::{File, OnFailure, Profile, Span};

/// The framework: a profile, without the filters and with the weights that the file names.
pub fn framework(file: &File) -> Result<Framework, String> {
    let profile = match file.profile {
        Profile::Pack => Framework::default(),
        Profile::Spread => Framework::spread(),
        Profile::Kubernetes => Framework::kubernetes(),
    };
    for name in &file.plugins.disabled {
        if !profile.filters().iter().any(|filter| filter.name() == name.value) {
            let known: Vec<&str> = profile.filters().iter().map(|filter| filter.name()).collect();
            return Err(unknown(name.defined.line(), "filter", &name.value, &known));
        }
    }
    let names = || {
        let domains = profile.domain_scores().iter().map(|(_, score)| score.name());
        profile.scores().iter().map(|(_, score)| score.name()).chain(domains)
    };
    for (name, weight) in &file.plugins.weights {
        if !names().any(|known| known == name) {
            let known: Vec<&str> = names().collect();
            return Err(unknown(weight.defined.line(), "score", name, &known));
        }
    }
    let mut builder = Framework::builder().strategy(profile.strategy());
    for filter in profile.filters() {
        if !file.plugins.disabled.iter().any(|name| name.value == filter.name()) {
            builder = builder.filter(filter.clone());
        }
    }
    let weight = |name: &str, own: i64| {
        let own = u32::try_from(own).unwrap_or(1);
        file.plugins.weights.get(name).map_or(own, |weight| weight.value)
    };
    for (own, score) in profile.scores() {
        let weight = weight(score.name(), *own);
        if weight > 0 {
            builder = builder.score(weight, score.clone());
        }
    }
    for (own, score) in profile.domain_scores() {
        let weight = weight(score.name(), *own);
        if weight > 0 {
            builder = builder.domain_score(weight, score.clone());
        }
    }
    builder.build().map_err(|error| format!("plugins: {error}"))
}

fn unknown(line: impl std::fmt::Display, what: &str, name: &str, known: &[&str]) -> String {
    format!("line {line}: plugins: no {what} of the profile is named {name}: {}", known.join(", "))
}

/// An empty cluster with the levels of its topology.
pub fn cluster(file: &File) -> Result<Cluster, String> {
    let builder = Cluster::builder().levels(file.levels.iter().cloned());
    builder.build().map_err(|error| format!("levels: {error}"))
}

/// The rules of the queue.
pub fn settings(file: &File, salt: u64) -> queue::Settings {
    let or = |span: Option<Span>, default: Duration| span.map_or(default, |span| span.0);
    let mut settings = queue::Settings::default();
    let times = &file.timeouts;
    settings.stale_after = or(times.below_minimum, settings.stale_after);
    settings.bind_timeout = or(times.binding, settings.bind_timeout);
    settings.max_in_unschedulable = or(times.unschedulable, settings.max_in_unschedulable);
    settings.backoff = Backoff::new(
        or(times.first_backoff, settings.backoff.first),
        or(times.longest_backoff, settings.backoff.most),
    );
    settings.head_of_line = file.queues.head_of_line;
    settings.queues.clone_from(&file.queues.rules);
    settings.demote_after = file.queues.demote_after;
    let reservation = |after: Span| ReservationPolicy::new().after(after.0);
    settings.reservation = file.queues.reserve_after.map(reservation);
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

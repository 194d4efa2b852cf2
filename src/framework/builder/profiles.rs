//! Profiles: plugins of several frameworks in one, each for the pods of its profile.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::framework::context::{Context, DomainContext};
use crate::framework::declaration::Declaration;
use crate::framework::plugin::{FilterPlugin, FilterPreparation, ScorePlugin, ScorePreparation};
use crate::framework::traits::{DomainScore, Normalization};
use crate::model::{Pod, PodShape};

/// The attribute of a pod that names its profile.
pub const PROFILE: &str = "phalanx.dev/profile";

/// The pods that a plugin is for.
#[derive(Debug, Clone)]
pub(super) enum Scope {
    /// Pods of one profile.
    Of(Arc<str>),
    /// Pods of none of these.
    Beside(Arc<[Arc<str>]>),
}

/// A plugin for the pods of a scope. Others are placed as if it were not there.
struct Scoped<P: ?Sized> {
    name: String,
    scope: Scope,
    plugin: Arc<P>,
}

impl Scope {
    fn holds(&self, pod: &PodShape) -> bool {
        let own = pod.attributes.get(PROFILE);
        match self {
            Scope::Of(name) => own.is_some_and(|own| **name == **own),
            Scope::Beside(names) => own.is_none_or(|own| names.iter().all(|name| **name != **own)),
        }
    }

    fn name(&self, plugin: &str) -> String {
        match self {
            Scope::Of(profile) => format!("{profile}/{plugin}"),
            Scope::Beside(_) => String::from(plugin),
        }
    }

    pub(super) fn filter(&self, plugin: &Arc<dyn FilterPlugin>) -> Arc<dyn FilterPlugin> {
        let (name, plugin) = (self.name(plugin.name()), Arc::clone(plugin));
        Arc::new(Scoped { name, scope: self.clone(), plugin })
    }

    pub(super) fn score(&self, plugin: &Arc<dyn ScorePlugin>) -> Arc<dyn ScorePlugin> {
        let (name, plugin) = (self.name(plugin.name()), Arc::clone(plugin));
        Arc::new(Scoped { name, scope: self.clone(), plugin })
    }

    pub(super) fn domain_score(&self, plugin: &Arc<dyn DomainScore>) -> Arc<dyn DomainScore> {
        let (name, plugin) = (self.name(plugin.name()), Arc::clone(plugin));
        Arc::new(Scoped { name, scope: self.clone(), plugin })
    }
}

/// Pods that ask for nothing: one of no profile, and one of each.
pub(super) fn bare_pods(profiles: &[Arc<str>]) -> Vec<PodShape> {
    let of = |name: &Arc<str>| {
        let mut shape = PodShape::default();
        shape.attributes.insert(PROFILE.into(), String::from(&**name));
        shape
    };
    core::iter::once(PodShape::default()).chain(profiles.iter().map(of)).collect()
}

impl FilterPlugin for Scoped<dyn FilterPlugin> {
    fn name(&self) -> &str {
        &self.name
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        if self.scope.holds(pod) { self.plugin.declare(pod) } else { Declaration::constant() }
    }

    fn skips_plain_pods(&self) -> bool {
        self.plugin.skips_plain_pods()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if self.scope.holds(cx.pod()) {
            Arc::clone(&self.plugin).prepare(cx)
        } else {
            FilterPreparation::Skip
        }
    }
}

impl ScorePlugin for Scoped<dyn ScorePlugin> {
    fn name(&self) -> &str {
        &self.name
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        if self.scope.holds(pod) { self.plugin.declare(pod) } else { Declaration::constant() }
    }

    fn skips_plain_pods(&self) -> bool {
        self.plugin.skips_plain_pods()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        if self.scope.holds(cx.pod()) {
            Arc::clone(&self.plugin).prepare(cx)
        } else {
            ScorePreparation::Skip
        }
    }

    fn normalization(&self) -> Normalization {
        self.plugin.normalization()
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        self.plugin.rescale(raw, low, high)
    }
}

impl DomainScore for Scoped<dyn DomainScore> {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        let mut first: Option<&Pod> = None;
        cx.group.visit(&mut |group| first = first.or(group.pods.first()));
        if first.is_some_and(|pod| self.scope.holds(pod.shape())) {
            self.plugin.score(cx)
        } else {
            0
        }
    }

    fn reads_places(&self) -> bool {
        self.plugin.reads_places()
    }

    fn reads_beyond(&self) -> bool {
        self.plugin.reads_beyond()
    }

    fn normalization(&self) -> Normalization {
        self.plugin.normalization()
    }
}

//! The framework: a set of plugins that belong together, and its builder.

pub(crate) mod profiles;

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use self::profiles::{Scope, bare_pods};
use super::MAX_SCORE;
use super::context::Context;
use super::device_choice::{DeviceChoice, TightestFit};
use super::plugin::{FilterPlugin, FilterPreparation, ScorePlugin, ScorePreparation};
use super::strategy::Strategy;
use super::traits::{DomainScore, Permit};
use crate::base::clip::clip;
use crate::claims::{NoSelectors, SelectorEvaluator};
use crate::model::PodShape;

/// The largest sum of weights: totals then fit 31 bits.
const MAX_WEIGHTS: u64 = (1 << 30) / MAX_SCORE as u64;

/// Filters in order, weighted scores, permits, and the strategy they are used with by default.
///
/// Immutable, shared by cloning, used from any number of threads.
///
/// ```
/// use phalanx::framework::{FrameworkError, Reach, score_fn};
/// use phalanx::plugins::Fit;
/// use phalanx::Framework;
///
/// let warm = score_fn("warm", Reach::Static, |_, node| i64::from(node.has_label("warm", "true")));
/// let framework = Framework::builder().filter(Fit).score(1, warm).build()?;
///
/// // Without a filter that judges room, pods would go to nodes that are full.
/// assert_eq!(Framework::builder().build().unwrap_err(), FrameworkError::NoRoomFilter);
/// assert!(Framework::builder().without_room_filter().build().is_ok());
/// # Ok::<(), phalanx::framework::FrameworkError>(())
/// ```
#[derive(Clone)]
pub struct Framework {
    parts: Arc<Parts>,
}

#[derive(Clone, Default)]
struct Parts {
    filters: Vec<Arc<dyn FilterPlugin>>,
    /// The places of filters that judge room, if only of a pod that asks for nothing else.
    judging_room: Vec<usize>,
    /// The places of filters and of scores, for all pods and for plain ones.
    filter_places: Places,
    score_places: Places,
    /// None of the filters needs to judge room.
    without_room_filter: bool,
    scores: Vec<(i64, Arc<dyn ScorePlugin>)>,
    permits: Vec<Arc<dyn Permit>>,
    domain_scores: Vec<(i64, Arc<dyn DomainScore>)>,
    strategy: Strategy,
    device_choice: Option<Arc<dyn DeviceChoice>>,
    selectors: Option<Arc<dyn SelectorEvaluator>>,
    /// The names of profiles, whose plugins are among the others.
    profiles: Vec<Arc<str>>,
}

impl Parts {
    /// Adds the filters and scores of others, for the pods of a scope.
    fn scope(&mut self, scope: &Scope, other: &Parts) {
        self.filters.extend(other.filters.iter().map(|own| scope.filter(own)));
        let scores = other.scores.iter().map(|(weight, own)| (*weight, scope.score(own)));
        self.scores.extend(scores);
        let scores = other.domain_scores.iter();
        self.domain_scores.extend(scores.map(|(weight, own)| (*weight, scope.domain_score(own))));
    }

    /// The places of filters that judge room of a pod that asks for nothing, of any profile.
    fn judging_room(&self) -> Vec<usize> {
        let bare = bare_pods(&self.profiles);
        let judges = |place: &usize| bare.iter().any(|pod| self.filters[*place].declare(pod).room);
        (0..self.filters.len()).filter(judges).collect()
    }
}

/// The places of plugins of one stage.
#[derive(Clone, Default)]
struct Places {
    all: Vec<usize>,
    /// Without those that skip plain pods.
    plain: Vec<usize>,
}

impl Places {
    /// The places of plugins, each of which skips plain pods or not.
    fn of(skipping: impl Iterator<Item = bool>) -> Places {
        let all: Vec<(usize, bool)> = skipping.enumerate().collect();
        let plain = all.iter().filter(|(_, skips)| !skips);
        Places {
            plain: plain.map(|(place, _)| *place).collect(),
            all: all.iter().map(|(place, _)| *place).collect(),
        }
    }

    fn of_pod(&self, pod: &PodShape) -> &[usize] {
        if pod.is_plain() { &self.plain } else { &self.all }
    }
}

/// Makes a [`Framework`].
#[derive(Default)]
#[must_use]
pub struct FrameworkBuilder {
    parts: Parts,
    /// Profiles that are not merged yet.
    profiles: Vec<(Arc<str>, Framework)>,
}

/// A set of plugins that does not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameworkError {
    /// Two plugins of one stage have the same name.
    #[error("two {stage} plugins are named {:?}", clip(.name))]
    Duplicate {
        /// The stage.
        stage: &'static str,
        /// The name.
        name: String,
    },
    /// A plugin has no name.
    #[error("a {0} plugin has no name")]
    Nameless(&'static str),
    /// A weight is zero.
    #[error("score {:?} has weight 0; leave it out instead", clip(.0))]
    ZeroWeight(String),
    /// The weights add up to more than totals can hold.
    #[error("the weights of the {0} plugins add up to more than {max}", max = MAX_WEIGHTS)]
    Weights(&'static str),
    /// No filter judges room, so that nodes would be filled beyond what they have.
    #[error(
        "no filter judges whether nodes have room: add `plugins::Fit`, or ask to do `without_room_filter`"
    )]
    NoRoomFilter,
}

impl FrameworkBuilder {
    /// Adds a filter, or an `Arc` of one; filters run in the order added, and the first to fail is
    /// the one reported.
    pub fn filter(mut self, filter: impl FilterPlugin + 'static) -> FrameworkBuilder {
        self.parts.filters.push(Arc::new(filter));
        self
    }

    /// Adds a score, or an `Arc` of one, with a weight.
    pub fn score(mut self, weight: u32, score: impl ScorePlugin + 'static) -> FrameworkBuilder {
        self.parts.scores.push((i64::from(weight), Arc::new(score)));
        self
    }

    /// Adds a permit, or an `Arc` of one.
    pub fn permit(mut self, permit: impl Permit + 'static) -> FrameworkBuilder {
        self.parts.permits.push(Arc::new(permit));
        self
    }

    /// Adds a domain-level score, or an `Arc` of one, with a weight.
    pub fn domain_score(
        mut self,
        weight: u32,
        score: impl DomainScore + 'static,
    ) -> FrameworkBuilder {
        self.parts.domain_scores.push((i64::from(weight), Arc::new(score)));
        self
    }

    /// Takes out the filter of a name; nothing if there is none.
    ///
    /// ```
    /// use phalanx::Framework;
    ///
    /// let framework = Framework::kubernetes().to_builder().without_filter("NodePorts").build()?;
    /// assert!(!framework.filter_names().any(|name| name == "NodePorts"));
    /// # Ok::<(), phalanx::framework::FrameworkError>(())
    /// ```
    pub fn without_filter(mut self, name: &str) -> FrameworkBuilder {
        self.parts.filters.retain(|filter| filter.name() != name);
        self
    }

    /// Sets the weight of the scores of a name, of nodes and of domains; 0 takes them out. Nothing if
    /// there is none.
    ///
    /// ```
    /// use phalanx::Framework;
    ///
    /// let framework = Framework::kubernetes().to_builder().weigh("ImageLocality", 7).build()?;
    /// assert!(framework.score_names().any(|score| score == (7, "ImageLocality")));
    /// # Ok::<(), phalanx::framework::FrameworkError>(())
    /// ```
    pub fn weigh(mut self, name: &str, weight: u32) -> FrameworkBuilder {
        let weight = i64::from(weight);
        self.parts.scores.retain(|(_, score)| weight > 0 || score.name() != name);
        self.parts.domain_scores.retain(|(_, score)| weight > 0 || score.name() != name);
        let scores = self.parts.scores.iter_mut().filter(|(_, score)| score.name() == name);
        scores.for_each(|(own, _)| *own = weight);
        let scores = self.parts.domain_scores.iter_mut().filter(|(_, score)| score.name() == name);
        scores.for_each(|(own, _)| *own = weight);
        self
    }

    /// Does without a filter that judges room, such as [`Fit`](crate::plugins::Fit): any number of
    /// pods then goes to a node, whatever they request.
    pub fn without_room_filter(mut self) -> FrameworkBuilder {
        self.parts.without_room_filter = true;
        self
    }

    /// Sets the strategy of requests that name none.
    pub fn strategy(mut self, strategy: Strategy) -> FrameworkBuilder {
        self.parts.strategy = strategy;
        self
    }

    /// Sets which devices pods get on their nodes, by a choice or an `Arc` of one; [`TightestFit`]
    /// unless set. Beside it the framework needs a filter, `plugins::DeviceFit`, that keeps pods
    /// off nodes whose devices do not serve them. A pod whose best node turns out not to serve it
    /// is not placed.
    #[cfg(feature = "devices")]
    pub fn device_choice(mut self, choice: impl DeviceChoice + 'static) -> FrameworkBuilder {
        self.parts.device_choice = Some(Arc::new(choice));
        self
    }

    /// Sets who evaluates the selectors of claims, for the devices of pods that are placed; nobody
    /// unless set. Beside it the framework needs the filter
    /// [`DynamicResources`](crate::plugins::DynamicResources) with the same evaluator.
    #[cfg(feature = "devices")]
    pub fn selectors(mut self, evaluator: impl SelectorEvaluator + 'static) -> FrameworkBuilder {
        self.parts.selectors = Some(Arc::new(evaluator));
        self
    }

    /// Sets the filters and scores of pods of a profile: those whose attribute
    /// [`PROFILE`](super::PROFILE) is this name.
    /// Such pods are judged by the filters and scores of that framework alone, others by those of this
    /// builder. A score of domains follows the first pod of the group. Permits, the strategy, the choice
    /// of devices and the evaluator of selectors are those of this builder, for all pods. A plugin of a
    /// profile is named `profile/plugin`.
    ///
    /// ```
    /// use phalanx::framework::PROFILE;
    /// use phalanx::{Framework, Pod};
    ///
    /// let packs = Framework::default();
    /// let framework = Framework::kubernetes().to_builder().profile("training", &packs).build()?;
    /// assert!(framework.filter_names().any(|name| name == "training/NodeResourcesFit"));
    /// let pod = Pod::new().attribute(PROFILE, "training");
    /// # assert_eq!(pod.shape().attributes.get(PROFILE).map(|own| &**own), Some("training"));
    /// # Ok::<(), phalanx::framework::FrameworkError>(())
    /// ```
    pub fn profile(mut self, name: impl Into<String>, framework: &Framework) -> FrameworkBuilder {
        self.profiles.push((name.into().into(), framework.clone()));
        self
    }

    /// Restricts the builder's plugins to pods of no profile, and adds those of profiles.
    fn merge_profiles(&mut self) {
        let profiles = core::mem::take(&mut self.profiles);
        let names: Vec<Arc<str>> = profiles.iter().map(|(name, _)| Arc::clone(name)).collect();
        if names.is_empty() {
            return;
        }
        let own = Parts {
            filters: core::mem::take(&mut self.parts.filters),
            scores: core::mem::take(&mut self.parts.scores),
            domain_scores: core::mem::take(&mut self.parts.domain_scores),
            ..Parts::default()
        };
        self.parts.scope(&Scope::Beside(names.clone().into()), &own);
        for (name, framework) in profiles {
            self.parts.scope(&Scope::Of(name), &framework.parts);
        }
        self.parts.profiles.extend(names);
    }

    /// Makes the framework.
    ///
    /// # Errors
    /// A name is empty or used twice in a stage, or a weight is 0. The weights of a stage add up to
    /// more than totals can hold. No filter [judges room](super::Declaration::judging_room), and
    /// the framework is not [asked to do without](Self::without_room_filter).
    pub fn build(mut self) -> Result<Framework, FrameworkError> {
        let is_judged = self.parts.without_room_filter || !self.parts.judging_room().is_empty();
        self.merge_profiles();
        let parts = &self.parts;
        check_names("profile", parts.profiles.iter().map(|name| &**name))?;
        check_names("filter", parts.filters.iter().map(FilterPlugin::name))?;
        check_names("score", parts.scores.iter().map(|(_, plugin)| plugin.name()))?;
        check_names("permit", parts.permits.iter().map(Permit::name))?;
        check_names("domain score", parts.domain_scores.iter().map(|(_, plugin)| plugin.name()))?;
        check_weights(
            "score",
            parts.scores.iter().map(|(weight, plugin)| (*weight, plugin.name())),
        )?;
        let domain = parts.domain_scores.iter().map(|(weight, plugin)| (*weight, plugin.name()));
        check_weights("domain score", domain)?;
        if is_judged { Ok(self.build_sound()) } else { Err(FrameworkError::NoRoomFilter) }
    }

    /// Makes a framework of plugins that are known to go together.
    pub(crate) fn build_sound(self) -> Framework {
        let mut parts = self.parts;
        parts.judging_room = parts.judging_room();
        parts.filter_places = Places::of(parts.filters.iter().map(FilterPlugin::skips_plain_pods));
        parts.score_places = Places::of(parts.scores.iter().map(|(_, own)| own.skips_plain_pods()));
        Framework { parts: Arc::new(parts) }
    }
}

fn check_names<'a>(
    stage: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), FrameworkError> {
    let mut names: Vec<&str> = names.collect();
    if names.contains(&"") {
        return Err(FrameworkError::Nameless(stage));
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(FrameworkError::Duplicate { stage, name: pair[0].to_string() }),
        None => Ok(()),
    }
}

fn check_weights<'a>(
    stage: &'static str,
    weights: impl Iterator<Item = (i64, &'a str)>,
) -> Result<(), FrameworkError> {
    let mut sum = 0_u64;
    for (weight, name) in weights {
        if weight == 0 {
            return Err(FrameworkError::ZeroWeight(name.to_string()));
        }
        sum += weight as u64;
    }
    if sum > MAX_WEIGHTS { Err(FrameworkError::Weights(stage)) } else { Ok(()) }
}

impl Framework {
    /// A builder.
    pub fn builder() -> FrameworkBuilder {
        FrameworkBuilder::default()
    }

    /// A builder that starts from this framework's plugins and strategy, for a framework that has
    /// some more or another strategy.
    ///
    /// ```
    /// use phalanx::framework::{Reach, score_fn};
    /// use phalanx::Framework;
    ///
    /// let warm = score_fn("warm", Reach::Static, |_, node| 100 * i64::from(node.has_label("warm", "true")));
    /// let framework = Framework::kubernetes().to_builder().score(5, warm).build()?;
    /// assert_eq!(framework.score_names().len(), Framework::kubernetes().score_names().len() + 1);
    /// # Ok::<(), phalanx::framework::FrameworkError>(())
    /// ```
    pub fn to_builder(&self) -> FrameworkBuilder {
        FrameworkBuilder { parts: Parts::clone(&self.parts), profiles: Vec::new() }
    }

    /// The names of the filters, in order.
    #[allow(clippy::redundant_closure_for_method_calls, reason = "a method of a trait object")]
    pub fn filter_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.parts.filters.iter().map(|own| own.name())
    }

    /// Weights and names of the scores, in order.
    pub fn score_names(&self) -> impl ExactSizeIterator<Item = (i64, &str)> {
        self.parts.scores.iter().map(|(weight, score)| (*weight, score.name()))
    }

    /// The names of the permits, in order.
    #[allow(clippy::redundant_closure_for_method_calls, reason = "a method of a trait object")]
    pub fn permit_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.parts.permits.iter().map(|permit| permit.name())
    }

    /// Weights and names of the scores of domains, in order.
    pub fn domain_score_names(&self) -> impl ExactSizeIterator<Item = (i64, &str)> {
        self.parts.domain_scores.iter().map(|(weight, score)| (*weight, score.name()))
    }

    /// The filters, in order.
    pub(crate) fn filters(&self) -> &[Arc<dyn FilterPlugin>] {
        &self.parts.filters
    }

    /// The places of the filters that concern a pod, in order.
    pub(crate) fn filters_for(&self, pod: &PodShape) -> &[usize] {
        self.parts.filter_places.of_pod(pod)
    }

    /// The places of the scores that concern a pod, in order.
    pub(crate) fn scores_for(&self, pod: &PodShape) -> &[usize] {
        self.parts.score_places.of_pod(pod)
    }

    /// The scores with their weights, in order.
    pub(crate) fn scores(&self) -> &[(i64, Arc<dyn ScorePlugin>)] {
        &self.parts.scores
    }

    /// The permits, in order.
    pub(crate) fn permits(&self) -> &[Arc<dyn Permit>] {
        &self.parts.permits
    }

    /// The framework without its permits; itself if it has none.
    pub(crate) fn without_permits(&self) -> Framework {
        if self.parts.permits.is_empty() {
            return self.clone();
        }
        Framework { parts: Arc::new(Parts { permits: Vec::new(), ..Parts::clone(&self.parts) }) }
    }

    /// The framework without the filters of a name.
    pub(crate) fn without_filter(&self, name: &str) -> Framework {
        self.to_builder().without_filter(name).build_sound()
    }

    /// The domain-level scores with their weights, in order.
    pub(crate) fn domain_scores(&self) -> &[(i64, Arc<dyn DomainScore>)] {
        &self.parts.domain_scores
    }

    /// The strategy of requests that name none.
    pub fn strategy(&self) -> Strategy {
        self.parts.strategy
    }

    /// The choice of devices for pods on their nodes.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn device_choice(&self) -> &dyn DeviceChoice {
        self.parts.device_choice.as_deref().unwrap_or(&TightestFit)
    }

    /// Who evaluates the selectors of claims.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub fn selectors(&self) -> &dyn SelectorEvaluator {
        self.parts.selectors.as_deref().unwrap_or(&NoSelectors)
    }

    /// Whether some filter judges room for a shape.
    pub(crate) fn judges_room(&self, shape: &PodShape) -> bool {
        self.parts.filters.iter().any(|filter| filter.declare(shape).room)
    }

    /// The filters that judge room, with their indices.
    pub(crate) fn judging_room(&self) -> impl Iterator<Item = (usize, &dyn FilterPlugin)> {
        self.parts.judging_room.iter().map(|&index| (index, &*self.parts.filters[index]))
    }

    /// Prepares a filter, by its index, for the pod of a context.
    pub(crate) fn prepare_filter(&self, index: usize, cx: &Context<'_>) -> FilterPreparation {
        Arc::clone(&self.parts.filters[index]).prepare(cx)
    }

    /// Prepares a score, by its index, for the pod of a context.
    pub(crate) fn prepare_score(&self, index: usize, cx: &Context<'_>) -> ScorePreparation {
        Arc::clone(&self.parts.scores[index].1).prepare(cx)
    }

    /// Whether two frameworks are the same one.
    pub(crate) fn same(&self, other: &Framework) -> bool {
        Arc::ptr_eq(&self.parts, &other.parts)
    }
}

impl fmt::Debug for Framework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.parts;
        let names =
            |names: &mut dyn Iterator<Item = &str>| names.map(String::from).collect::<Vec<_>>();
        f.debug_struct("Framework")
            .field("filters", &names(&mut parts.filters.iter().map(FilterPlugin::name)))
            .field("scores", &names(&mut parts.scores.iter().map(|(_, plugin)| plugin.name())))
            .field("permits", &names(&mut parts.permits.iter().map(Permit::name)))
            .field(
                "domain_scores",
                &names(&mut parts.domain_scores.iter().map(|(_, plugin)| plugin.name())),
            )
            .field("device_choice", &self.device_choice().name())
            .field("strategy", &parts.strategy)
            .finish()
    }
}

impl fmt::Debug for FrameworkBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameworkBuilder").finish_non_exhaustive()
    }
}

//! Filters and scores that prepare: a plugin makes an object per pod shape, which judges nodes.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::MAX_SCORE;
use super::block::Block;
use super::context::{Context, Feasible};
use super::declaration::Declaration;
use super::grain::Grain;
use super::traits::{Filter, Normalization, Score, Verdict};
use crate::base::RowSet;
use crate::model::PodShape;
use crate::state::{LabelKey, LabelValue, NodeView};

/// A filter in two phases: it prepares for a pod shape, and what is prepared judges nodes.
///
/// Every [`Filter`] is one that prepares nothing, so that only a filter that works something out
/// beforehand implements this trait, in place of [`Filter`]. An `Arc` of a plugin is a plugin.
///
/// ```
/// use std::sync::Arc;
///
/// use phalanx::framework::{
///     Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
/// };
/// use phalanx::model::PodShape;
/// use phalanx::state::{LabelKey, NodeView};
///
/// /// Lets pods on nodes that have a label, which is looked up once for all of them.
/// struct Labelled(&'static str);
///
/// impl FilterPlugin for Labelled {
///     fn name(&self) -> &str {
///         "Labelled"
///     }
///
///     fn declare(&self, _: &PodShape) -> Declaration {
///         Declaration::constant()
///     }
///
///     fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
///         match cx.cluster().label_key(self.0) {
///             Some(key) => FilterPreparation::ready(HasKey(key)),
///             None => FilterPreparation::Reject(Verdict::Unresolvable),
///         }
///     }
/// }
///
/// struct HasKey(LabelKey);
///
/// impl PreparedFilter for HasKey {
///     fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
///         Verdict::pass_or_unresolvable(node.label_value(self.0).is_some())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no filter",
    note = "implement `Filter`, or `FilterPlugin` if it prepares; wrap closures with `filter_fn`"
)]
pub trait FilterPlugin: Send + Sync {
    /// The name; unique among the filters of a framework.
    fn name(&self) -> &str;

    /// Declares the inputs of the filter for a shape.
    fn declare(&self, pod: &PodShape) -> Declaration {
        let _ = pod;
        Declaration::cluster()
    }

    /// Whether it concerns only pods with volumes, claims, device requests or resources that zones
    /// align. Others are placed as if it were not there: it is neither declared nor prepared for them.
    fn skips_plain_pods(&self) -> bool {
        false
    }

    /// Works something out for the pod of a context before any node is judged. What is prepared
    /// may keep the plugin itself, which is shared for that purpose.
    ///
    /// Called once for each shape, and again when what the [declaration](Self::declare) names has
    /// changed.
    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation;
}

/// A score in two phases: it prepares for a pod shape, and what is prepared scores nodes.
///
/// Every [`Score`] is one that prepares nothing, so that only a score that works something out
/// beforehand implements this trait, in place of [`Score`]. An `Arc` of a plugin is a plugin. See
/// [`FilterPlugin`], which is alike, for an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no score",
    note = "implement `Score`, or `ScorePlugin` if it prepares; wrap closures with `score_fn`"
)]
pub trait ScorePlugin: Send + Sync {
    /// The name; unique among the scores of a framework.
    fn name(&self) -> &str;

    /// Declares the inputs of the score for a shape.
    fn declare(&self, pod: &PodShape) -> Declaration {
        let _ = pod;
        Declaration::cluster()
    }

    /// Whether it concerns only pods with volumes, claims, device requests or resources that zones
    /// align. Others are placed as if it were not there: it is neither declared nor prepared for them.
    fn skips_plain_pods(&self) -> bool {
        false
    }

    /// Works something out for the pod of a context before any node is scored; as
    /// [`FilterPlugin::prepare`].
    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation;

    /// How raw scores become scores of `0..=100`.
    fn normalization(&self) -> Normalization {
        Normalization::None
    }

    /// One score under [`Normalization::Extremes`], given the lowest and the highest raw score of
    /// the feasible nodes.
    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        let _ = (low, high);
        raw
    }
}

impl Normalization {
    /// One normalised score, given the extremes.
    #[inline]
    pub(crate) fn apply(self, score: &dyn ScorePlugin, raw: i64, low: i64, high: i64) -> i64 {
        let scaled = match self {
            Normalization::None => raw,
            Normalization::Max if high <= 0 => raw,
            Normalization::MaxReversed if high <= 0 => MAX_SCORE,
            Normalization::Max => proportion(raw, high),
            Normalization::MaxReversed => MAX_SCORE - proportion(raw, high),
            Normalization::Extremes if raw == Normalization::IGNORED => 0,
            Normalization::Extremes => score.rescale(raw, low, high),
        };
        scaled.clamp(0, MAX_SCORE)
    }
}

fn proportion(raw: i64, of: i64) -> i64 {
    // A quotient that is clamped afterwards anyway.
    (i128::from(MAX_SCORE) * i128::from(raw) / i128::from(of))
        .clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// The preparation of a filter for a pod shape.
#[non_exhaustive]
pub enum FilterPreparation {
    /// Every node passes. It holds while no node and no pod changes, whatever the declaration says.
    Skip,
    /// Nodes are judged one by one.
    Ready(Box<dyn PreparedFilter>),
    /// As `Ready`, and nodes outside the set are out.
    Narrow(Box<dyn PreparedFilter>, RowSet),
    /// No node will do.
    Reject(Verdict),
}

impl FilterPreparation {
    /// Nodes are judged one by one.
    pub fn ready(prepared: impl PreparedFilter + 'static) -> FilterPreparation {
        FilterPreparation::Ready(Box::new(prepared))
    }

    /// Nodes of a set are judged one by one, and all others are out.
    pub fn narrow(prepared: impl PreparedFilter + 'static, rows: RowSet) -> FilterPreparation {
        FilterPreparation::Narrow(Box::new(prepared), rows)
    }
}

/// The preparation of a score for a pod shape.
#[non_exhaustive]
pub enum ScorePreparation {
    /// The score has nothing to say about the pod, and is left out. It holds while no node and no
    /// pod changes, whatever the declaration says.
    Skip,
    /// Every node has this raw score.
    Constant(i64),
    /// Nodes are scored one by one.
    Ready(Box<dyn PreparedScore>),
}

impl ScorePreparation {
    /// Nodes are scored one by one.
    pub fn ready(prepared: impl PreparedScore + 'static) -> ScorePreparation {
        ScorePreparation::Ready(Box::new(prepared))
    }
}

/// A filter that is prepared for a pod shape.
///
/// Only [`filter`](PreparedFilter::filter) is needed. All else is a capability that makes the
/// filter faster, and changes no verdict.
pub trait PreparedFilter: Send + Sync {
    /// Whether the pod can go to the node.
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict;

    /// Judges a block of rows at once: makes `verdicts[i]` negative where row `i` of the block
    /// fails, and leaves the sign of the others alone. The same as calling
    /// [`PreparedFilter::filter`] for each, which is what it does unless overridden.
    ///
    /// Sums over whole columns, such as `verdicts[i] |= free[i] - wanted`, compile to vector
    /// instructions.
    fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        for (at, verdict) in verdicts.iter_mut().enumerate() {
            let passes =
                *verdict >= 0 && block.node(at).is_some_and(|node| self.filter(cx, node).passes());
            if !passes {
                *verdict = -1;
            }
        }
    }

    /// How many pods fit, if the filter sets a bound.
    fn capacity(&self) -> Option<&dyn Capacity> {
        None
    }

    /// The updater of the filter while pods come and go, if it has one.
    ///
    /// Planners ask for it only if the declaration is [grained](Declaration::grained). Without that,
    /// they prepare the filter anew whenever a pod comes or goes.
    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        None
    }
}

/// A score that is prepared for a pod shape.
///
/// Only [`score`](PreparedScore::score) is needed. All else makes the score faster, and changes no
/// answer, but for [`observe_feasible`](PreparedScore::observe_feasible).
pub trait PreparedScore: Send + Sync {
    /// How much the node is liked; higher is better.
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64;

    /// Scores a block of rows at once: `out[i]` becomes the raw score of row `i` of the block. The
    /// same as calling [`PreparedScore::score`] for each, which is what it does unless overridden.
    /// Rows that are not feasible may be given any score.
    fn score_block(&self, cx: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
        block.each(out, |node| self.score(cx, node));
    }

    /// Learns which nodes are feasible, before any is scored. Called only if the declaration
    /// [says](Declaration::reading_feasible) that the score reads them.
    fn observe_feasible(&mut self, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let _ = (cx, feasible);
    }

    /// The updater of the score while pods come and go, if it has one.
    ///
    /// Planners ask for it only if the declaration is [grained](Declaration::grained). Without that,
    /// they prepare the score anew whenever a pod comes or goes.
    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        None
    }
}

/// A capability of a prepared filter: bounds on how many pods of the shape fit.
pub trait Capacity {
    /// An upper bound on how many more pods of the shape the node takes, one after another. It
    /// must hold at every moment, also while the node fills up.
    fn of_node(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64;

    /// [`Capacity::of_node`] for a block of rows at once: lowers `capacities[i]` to the bound of
    /// row `i`.
    fn of_block(&self, cx: &Context<'_>, block: &Block<'_>, capacities: &mut [i64]) {
        for (at, capacity) in capacities.iter_mut().enumerate() {
            *capacity = (*capacity).min(block.node(at).map_or(0, |node| self.of_node(cx, node)));
        }
    }

    /// An upper bound on how many more pods of the shape all nodes together take. It serves to
    /// refuse a group that is larger than the cluster before nodes are looked at one by one. A
    /// bound below `enough` is as good as any other, so an implementation may stop there. Called
    /// for filters that [judge room](Declaration::judging_room).
    ///
    /// It must cost less than [`Capacity::of_block`] of all blocks, and need not be as low: what is
    /// free on all nodes together, divided by what a pod requests, say. The default, `i64::MAX`, is
    /// no bound.
    fn of_all(&self, cx: &Context<'_>, enough: i64) -> i64 {
        let _ = (cx, enough);
        i64::MAX
    }
}

/// A capability of a prepared filter or score: what is prepared is kept while pods come and go, and
/// nodes are judged once a class.
///
/// Used for plugins that [declare it](Declaration::grained); the promise is that of [`Grain`].
pub trait Incremental {
    /// The classes of nodes that are told apart now. Read again after each change.
    fn classes(&self, cx: &Context<'_>) -> Grain;

    /// Whether pods of a shape can change an answer or the classes. If not, it need not be shown
    /// them. What is said of a shape holds while this is kept. The default is that all can.
    fn concerned_by(&self, cx: &Context<'_>, pod: &PodShape) -> bool {
        let _ = (cx, pod);
        true
    }

    /// Calls `tell` with values of [classes'](Self::classes) labels such that every node that has
    /// none of them passes; those that have one are asked about. Returns `false` if it does not know
    /// them, which is the default. Filters only.
    fn rejects(&self, cx: &Context<'_>, tell: &mut dyn FnMut(LabelKey, LabelValue)) -> bool {
        let _ = (cx, tell);
        false
    }

    /// Brings what is prepared up to date: a pod was placed on a node. The node is shown with it.
    fn pod_added(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        let _ = (cx, pod, node);
    }

    /// Takes back a [`Incremental::pod_added`], or a pod that was there when the plugin prepared.
    /// The node is shown without the pod.
    fn pod_removed(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        let _ = (cx, pod, node);
    }
}

/// A plugin that prepares nothing, as what it has prepared.
struct Stateless<P>(Arc<P>);

impl<F: Filter + 'static> FilterPlugin for F {
    fn name(&self) -> &str {
        Filter::name(self)
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        Filter::declare(self, pod)
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
        FilterPreparation::ready(Stateless(self))
    }
}

impl<F: Filter> PreparedFilter for Stateless<F> {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        self.0.filter(cx, node)
    }
}

impl<S: Score + 'static> ScorePlugin for S {
    fn name(&self) -> &str {
        Score::name(self)
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        Score::declare(self, pod)
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> ScorePreparation {
        ScorePreparation::ready(Stateless(self))
    }

    fn normalization(&self) -> Normalization {
        Score::normalization(self)
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        Score::rescale(self, raw, low, high)
    }
}

impl<S: Score> PreparedScore for Stateless<S> {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        self.0.score(cx, node)
    }
}

impl<P: FilterPlugin + ?Sized> FilterPlugin for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn skips_plain_pods(&self) -> bool {
        (**self).skips_plain_pods()
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        (**self).declare(pod)
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        P::prepare(Arc::clone(&*self), cx)
    }
}

impl<P: ScorePlugin + ?Sized> ScorePlugin for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn skips_plain_pods(&self) -> bool {
        (**self).skips_plain_pods()
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        (**self).declare(pod)
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        P::prepare(Arc::clone(&*self), cx)
    }

    fn normalization(&self) -> Normalization {
        (**self).normalization()
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        (**self).rescale(raw, low, high)
    }
}

impl core::fmt::Debug for FilterPreparation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FilterPreparation::Skip => f.write_str("Skip"),
            FilterPreparation::Ready(_) => f.write_str("Ready(..)"),
            FilterPreparation::Narrow(_, rows) => f.debug_tuple("Narrow").field(rows).finish(),
            FilterPreparation::Reject(verdict) => f.debug_tuple("Reject").field(verdict).finish(),
        }
    }
}

impl core::fmt::Debug for ScorePreparation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ScorePreparation::Skip => f.write_str("Skip"),
            ScorePreparation::Constant(raw) => f.debug_tuple("Constant").field(raw).finish(),
            ScorePreparation::Ready(_) => f.write_str("Ready(..)"),
        }
    }
}

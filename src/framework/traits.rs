//! The plugin traits: filters, scores, permits and domain scores.

use alloc::string::String;

use super::MAX_SCORE;
use super::block::Block;
use super::context::{Context, DomainContext, Feasible, PermitContext, Prepared};
use super::declaration::Declaration;
use super::grain::Grain;
use crate::base::{RowSet, Time};
use crate::model::PodShape;
use crate::state::NodeView;

/// Says which nodes a pod can go to.
///
/// Only [`name`](Filter::name) and [`filter`](Filter::filter) are needed. A filter must be a pure
/// function of what it is shown; it may be called in any order, from several threads, and more
/// often or less than one expects.
///
/// ```
/// use phalanx::framework::{Context, Declaration, Verdict};
/// use phalanx::model::PodShape;
/// use phalanx::state::NodeView;
/// use phalanx::Filter;
///
/// /// Keeps pods off nodes marked for repair.
/// struct NoRepair;
///
/// impl Filter for NoRepair {
///     fn name(&self) -> &str {
///         "NoRepair"
///     }
///
///     fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
///         Verdict::pass_if(!node.has_label("repair", "true"))
///     }
///
///     fn declare(&self, _: &PodShape) -> Declaration {
///         Declaration::constant()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(note = "wrap closures with `filter_fn`")]
pub trait Filter: Send + Sync {
    /// The name; unique among the filters of a framework.
    fn name(&self) -> &str;

    /// Whether the pod can go to the node.
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict;

    /// What the filter reads for a shape.
    fn declare(&self, pod: &PodShape) -> Declaration {
        let _ = pod;
        Declaration::cluster()
    }

    /// Works something out before any node is looked at, or skips the filter for this pod.
    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let _ = cx;
        Preparation::ready(Prepared::NONE)
    }

    /// How finely the filter tells nodes apart, given what is prepared; called where the declaration
    /// is [`grained`](Declaration::grained). See [`Grain`].
    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        let _ = cx;
        None
    }

    /// Judges a block of rows at once: makes `verdicts[i]` negative where row `i` of the block
    /// fails, and leaves the sign of the others alone. The same as calling [`Filter::filter`] for
    /// each, which is what it does unless overridden.
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

    /// An upper bound on how many more pods of the shape the node takes, one after another. It
    /// must hold at every moment, also while the node fills up. Keep the default, `i64::MAX`, if the
    /// filter sets no bound.
    fn room(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let _ = (cx, node);
        i64::MAX
    }

    /// [`Filter::room`] for a block of rows at once: lowers `room[i]` to the bound of row `i`.
    fn room_block(&self, cx: &Context<'_>, block: &Block<'_>, room: &mut [i64]) {
        for (at, room) in room.iter_mut().enumerate() {
            *room = (*room).min(block.node(at).map_or(0, |node| self.room(cx, node)));
        }
    }

    /// An upper bound on how many more pods of the shape all nodes together take, for refusing what
    /// is larger than the cluster before nodes are looked at one by one. A bound below `enough` is
    /// as good as any other, so that is where to stop looking for a lower one. Called for filters
    /// that [judge room](Declaration::judging_room).
    ///
    /// It must cost less than [`Filter::room_block`] of all blocks, and need not be as low: what is
    /// free on all nodes together, divided by what a pod requests, say. The default is no bound.
    fn room_of_all(&self, cx: &Context<'_>, enough: i64) -> i64 {
        let _ = (cx, enough);
        i64::MAX
    }

    /// Brings what was prepared up to date: a pod was placed on a node. The node is shown with it.
    fn take(
        &self,
        prepared: &mut Prepared,
        cx: &Context<'_>,
        placed: &PodShape,
        node: NodeView<'_>,
    ) {
        let _ = (prepared, cx, placed, node);
    }

    /// Takes back a [`Filter::take`]. The node is shown without the pod.
    fn undo(
        &self,
        prepared: &mut Prepared,
        cx: &Context<'_>,
        placed: &PodShape,
        node: NodeView<'_>,
    ) {
        let _ = (prepared, cx, placed, node);
    }
}

/// What a [`Filter`] says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The pod can go there.
    Pass,
    /// It cannot; taking pods away might help.
    Unschedulable,
    /// It cannot, and taking pods away does not help.
    Unresolvable,
}

impl Verdict {
    /// `Pass` if it holds, else `Unschedulable`.
    pub fn pass_if(holds: bool) -> Verdict {
        if holds { Verdict::Pass } else { Verdict::Unschedulable }
    }

    /// `Pass` if it holds, else `Unresolvable`.
    pub fn pass_or_unresolvable(holds: bool) -> Verdict {
        if holds { Verdict::Pass } else { Verdict::Unresolvable }
    }

    /// Whether the pod can go there.
    #[inline]
    pub fn passes(self) -> bool {
        self == Verdict::Pass
    }
}

/// What came of preparing.
#[derive(Debug)]
pub enum Preparation {
    /// The plugin has nothing to say about this pod: every node passes, every score is absent. It
    /// holds while no node and no pod changes, whatever the declaration says.
    Skip,
    /// The plugin goes on with what it prepared.
    Ready(Prepared),
    /// Every node has this raw score. Scores only.
    Constant(i64),
    /// As `Ready`, and nodes outside the set are out. Filters only.
    Narrow(Prepared, RowSet),
    /// No node will do. Filters only.
    Reject(Verdict),
}

impl Preparation {
    /// Goes on with what was prepared.
    pub fn ready(prepared: Prepared) -> Preparation {
        Preparation::Ready(prepared)
    }

    /// Goes on with a value to find again.
    pub fn with(value: impl core::any::Any + Send + Sync) -> Preparation {
        Preparation::Ready(Prepared::new(value))
    }
}

/// Says which of the nodes that a pod can go to is liked best.
///
/// Only [`name`](Score::name) and [`score`](Score::score) are needed. Scores are integers; after
/// normalisation they are clamped to `0..=100`. What holds of [`Filter`] holds here: pure, called
/// in any order.
#[diagnostic::on_unimplemented(note = "wrap closures with `score_fn`")]
pub trait Score: Send + Sync {
    /// The name; unique among the scores of a framework.
    fn name(&self) -> &str;

    /// How much the node is liked; higher is better.
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64;

    /// What the score reads for a shape.
    fn declare(&self, pod: &PodShape) -> Declaration {
        let _ = pod;
        Declaration::cluster()
    }

    /// Works something out before any node is looked at, or skips the score for this pod.
    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let _ = cx;
        Preparation::ready(Prepared::NONE)
    }

    /// How finely the score tells nodes apart, given what is prepared; called where the declaration
    /// is [`grained`](Declaration::grained). See [`Grain`].
    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        let _ = cx;
        None
    }

    /// Learns which nodes are feasible, before any is scored. Called only if the declaration says
    /// that the score reads them.
    fn consider(&self, prepared: &mut Prepared, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let _ = (prepared, cx, feasible);
    }

    /// Scores a block of rows at once: `out[i]` becomes the raw score of row `i` of the block. The
    /// same as calling [`Score::score`] for each, which is what it does unless overridden. Rows
    /// that are not feasible may be given any score.
    fn score_block(&self, cx: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
        block.each(out, |node| self.score(cx, node));
    }

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

    /// All scores under [`Normalization::Own`].
    fn normalize(&self, cx: &Context<'_>, scores: &mut [i64]) {
        let _ = (cx, scores);
    }

    /// Brings what was prepared up to date: a pod was placed on a node. The node is shown with it.
    fn take(
        &self,
        prepared: &mut Prepared,
        cx: &Context<'_>,
        placed: &PodShape,
        node: NodeView<'_>,
    ) {
        let _ = (prepared, cx, placed, node);
    }

    /// Takes back a [`Score::take`]. The node is shown without the pod.
    fn undo(
        &self,
        prepared: &mut Prepared,
        cx: &Context<'_>,
        placed: &PodShape,
        node: NodeView<'_>,
    ) {
        let _ = (prepared, cx, placed, node);
    }
}

/// How raw scores become scores of `0..=100`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// They are such scores.
    None,
    /// In proportion to the highest raw score. If that is 0, scores stay as they are.
    Max,
    /// As `Max`, then subtracted from 100. If the highest is 0, all are 100.
    MaxReversed,
    /// By [`Score::rescale`], which is given the lowest and the highest. Raw scores of
    /// [`Normalization::IGNORED`] take no part in the extremes and score 0.
    Extremes,
    /// By [`Score::normalize`], which is shown all raw scores. Nothing can be kept of such a
    /// score between placements.
    Own,
}

impl Normalization {
    /// The raw score of a node that takes no part under [`Normalization::Extremes`].
    pub const IGNORED: i64 = i64::MIN;

    /// One normalised score, given the extremes. [`Normalization::Own`] is not covered.
    #[inline]
    pub(crate) fn apply(self, score: &dyn Score, raw: i64, low: i64, high: i64) -> i64 {
        let scaled = match self {
            Normalization::None | Normalization::Own => raw,
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

/// Says whether a plan that was found may go ahead.
#[diagnostic::on_unimplemented(note = "wrap closures with `permit_fn`")]
pub trait Permit: Send + Sync {
    /// The name; unique among the permits of a framework.
    fn name(&self) -> &str;

    /// The verdict on a plan.
    fn permit(&self, cx: &PermitContext<'_>) -> PermitVerdict;
}

/// What a [`Permit`] says of a plan. Of several, the first denial counts, else the latest hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermitVerdict {
    /// It may go ahead.
    Admit,
    /// It may not yet; ask again by then.
    Hold {
        /// When to give up waiting.
        until: Time,
    },
    /// It may not.
    Deny {
        /// Why.
        reason: String,
    },
}

/// Says which of the domains that a group fits in is liked best.
pub trait DomainScore: Send + Sync {
    /// The name; unique among the domain scores of a framework.
    fn name(&self) -> &str;

    /// How much the domain is liked; higher is better.
    fn score(&self, cx: &DomainContext<'_>) -> i64;

    /// Whether it matters to the score on which nodes of the domain the proposed pods are, and not
    /// just how many there are of each shape. A score that promises that it does not reads them by
    /// [`DomainContext::shapes`], and may be called before they are placed: where counting tells how
    /// many pods a domain takes, only the domain that is liked best is then tried in full.
    fn reads_places(&self) -> bool {
        true
    }

    /// How raw scores of the candidate domains become scores of `0..=100`: `None`, `Max` or
    /// `MaxReversed`.
    fn normalization(&self) -> Normalization {
        Normalization::None
    }
}

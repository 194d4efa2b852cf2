//! The plugin traits: filters, scores, permits and domain scores.

use alloc::string::String;
use alloc::sync::Arc;

use super::context::{Context, DomainContext, PermitContext};
use super::declaration::Declaration;
use crate::base::Time;
use crate::model::PodShape;
use crate::state::NodeView;

/// Says which nodes a pod can go to.
///
/// Only [`name`](Filter::name) and [`filter`](Filter::filter) are needed. A filter must be a pure
/// function of what it is shown; it may be called in any order, from several threads, and more
/// often or less than one expects. One that works something out before it judges nodes is a
/// [`FilterPlugin`](super::FilterPlugin).
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

    /// Declares the inputs of the filter for a shape.
    fn declare(&self, pod: &PodShape) -> Declaration {
        let _ = pod;
        Declaration::cluster()
    }
}

/// The verdict of a [`Filter`] on a node.
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

/// Says which of the nodes that a pod can go to is liked best.
///
/// Only [`name`](Score::name) and [`score`](Score::score) are needed. Scores are integers; after
/// normalisation they are clamped to `0..=100`. What holds of [`Filter`] holds here: pure, called
/// in any order; a score that works something out before it scores nodes is a
/// [`ScorePlugin`](super::ScorePlugin).
#[diagnostic::on_unimplemented(note = "wrap closures with `score_fn`")]
pub trait Score: Send + Sync {
    /// The name; unique among the scores of a framework.
    fn name(&self) -> &str;

    /// How much the node is liked; higher is better.
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64;

    /// Declares the inputs of the score for a shape.
    fn declare(&self, pod: &PodShape) -> Declaration {
        let _ = pod;
        Declaration::cluster()
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
}

/// How raw scores become scores of `0..=100`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
}

impl Normalization {
    /// The raw score of a node that takes no part under [`Normalization::Extremes`].
    pub const IGNORED: i64 = i64::MIN;
}

/// Says whether a plan that was found may go ahead.
#[diagnostic::on_unimplemented(note = "wrap closures with `permit_fn`")]
pub trait Permit: Send + Sync {
    /// The name; unique among the permits of a framework.
    fn name(&self) -> &str;

    /// The verdict on a plan.
    fn permit(&self, cx: &PermitContext<'_>) -> PermitVerdict;
}

/// The verdict of a [`Permit`] on a plan. The first denial counts, else the latest hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    /// [`DomainContext::shapes`], and may be called before they are placed. Where counting tells
    /// how many pods a domain takes, only the domain with the best score is then tried in full.
    fn reads_places(&self) -> bool {
        true
    }

    /// Whether the score reads more than the nodes of the domain, the proposed pods and how many
    /// members run: other nodes, or the group. A score that promises that it does not is asked again
    /// where one of these has changed, and otherwise kept.
    fn reads_beyond(&self) -> bool {
        true
    }

    /// How raw scores of the candidate domains become scores of `0..=100`: `None`, `Max` or
    /// `MaxReversed`.
    fn normalization(&self) -> Normalization {
        Normalization::None
    }
}

impl<P: Permit + ?Sized> Permit for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn permit(&self, cx: &PermitContext<'_>) -> PermitVerdict {
        (**self).permit(cx)
    }
}

impl<S: DomainScore + ?Sized> DomainScore for Arc<S> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        (**self).score(cx)
    }

    fn reads_places(&self) -> bool {
        (**self).reads_places()
    }

    fn reads_beyond(&self) -> bool {
        (**self).reads_beyond()
    }

    fn normalization(&self) -> Normalization {
        (**self).normalization()
    }
}

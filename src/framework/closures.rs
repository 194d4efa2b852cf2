//! Plugins from closures.

use super::context::{Context, PermitContext};
use super::declaration::Declaration;
use super::traits::{Filter, Permit, PermitVerdict, Score, Verdict};
use crate::model::PodShape;
use crate::state::NodeView;

struct Closure<F> {
    name: &'static str,
    declaration: Declaration,
    call: F,
}

/// A filter from a closure: true lets the pod on the node.
///
/// Its inputs are declared by a [`Declaration`], or a [`Reach`](super::Reach) alone. `Reach::Cluster` is
/// always right, and slowest.
///
/// ```
/// use phalanx::framework::{Declaration, Reach, filter_fn};
/// use phalanx::plugins::Fit;
/// use phalanx::{Framework, Time};
///
/// let big = filter_fn("big-enough", Reach::Static, |cx, node| {
///     cx.cluster().resource("cpu").is_some_and(|cpu| node.allocatable(cpu) >= 32_000)
/// });
/// let later = filter_fn("later", Declaration::constant().reading_time(), |cx, node| {
///     cx.now() >= Time::from_secs(60) || !node.has_label("warming-up", "true")
/// });
/// assert!(Framework::builder().filter(Fit).filter(big).filter(later).build().is_ok());
/// ```
pub fn filter_fn<F>(
    name: &'static str,
    declaration: impl Into<Declaration>,
    call: F,
) -> impl Filter + 'static
where
    F: Fn(&Context<'_>, NodeView<'_>) -> bool + Send + Sync + 'static,
{
    Closure { name, declaration: declaration.into(), call }
}

impl<F> Filter for Closure<F>
where
    F: Fn(&Context<'_>, NodeView<'_>) -> bool + Send + Sync,
{
    fn name(&self) -> &str {
        self.name
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_if((self.call)(cx, node))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        self.declaration.clone()
    }
}

/// A score from a closure: `0..=100`, higher is better. What it reads is declared as for
/// [`filter_fn`].
pub fn score_fn<F>(
    name: &'static str,
    declaration: impl Into<Declaration>,
    call: F,
) -> impl Score + 'static
where
    F: Fn(&Context<'_>, NodeView<'_>) -> i64 + Send + Sync + 'static,
{
    Closure { name, declaration: declaration.into(), call }
}

impl<F> Score for Closure<F>
where
    F: Fn(&Context<'_>, NodeView<'_>) -> i64 + Send + Sync,
{
    fn name(&self) -> &str {
        self.name
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        (self.call)(cx, node)
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        self.declaration.clone()
    }
}

/// A permit from a closure.
pub fn permit_fn<F>(name: &'static str, call: F) -> impl Permit + 'static
where
    F: Fn(&PermitContext<'_>) -> PermitVerdict + Send + Sync + 'static,
{
    struct PermitClosure<F>(&'static str, F);

    impl<F> Permit for PermitClosure<F>
    where
        F: Fn(&PermitContext<'_>) -> PermitVerdict + Send + Sync,
    {
        fn name(&self) -> &str {
            self.0
        }

        fn permit(&self, cx: &PermitContext<'_>) -> PermitVerdict {
            (self.1)(cx)
        }
    }

    PermitClosure(name, call)
}

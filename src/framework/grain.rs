//! Classes of nodes with the same verdict or score of a plugin.

use smallvec::SmallVec;

use super::context::Context;
use crate::state::LabelKey;

/// The labels by which the answers of a prepared plugin differ between nodes.
///
/// A filter or score that reads beyond a node makes this promise by
/// [`grained`](super::Declaration::grained) and [`Incremental::classes`](super::Incremental). It is
/// then called once a class of nodes in place of once a node, and again only for the classes that a
/// placement concerns:
///
/// - The answer for a node depends on the values of the labels named here (lacking one counts as a
///   value). With [`each`](Grain::each) it may also depend on the node itself and its own pods.
/// - It reads no other pods but through what is prepared, and that is kept right by `pod_added` and
///   `pod_removed`, from anything that [`Context::is_kept`] had it prepare. Of the node that those
///   are shown, they read nothing that pods change.
/// - A `pod_added` or `pod_removed` for a node changes answers only for nodes that share a value of
///   one of the labels with it, unless the [`epoch`](Grain::epoch) is another afterwards. With
///   `each`, they also change the answer for the node itself.
/// - Effects of [`observe_feasible`](super::PreparedScore::observe_feasible) depend on the feasible
///   nodes alone, and it may be shown one node for a class. Where it changes an answer, the epoch
///   is another afterwards.
/// - The answer does not depend on the group, the time or the order of calls.
///
/// [`laws`](crate::laws) find out a plugin that breaks it.
///
/// ```
/// use std::sync::Arc;
///
/// use phalanx::framework::{
///     Context, CountedPods, CounterSpec, Declaration, FilterPlugin, FilterPreparation, Grain,
///     Incremental, PreparedFilter, Verdict,
/// };
/// use phalanx::model::{LabelSelector, PodShape};
/// use phalanx::plugins::Fit;
/// use phalanx::state::NodeView;
/// use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, Strategy};
///
/// /// At most two pods of an app in a rack.
/// struct TwoInARack;
///
/// impl FilterPlugin for TwoInARack {
///     fn name(&self) -> &str {
///         "TwoInARack"
///     }
///
///     fn declare(&self, _: &PodShape) -> Declaration {
///         let selector = LabelSelector::label("app", "db");
///         let pods = CountedPods::Matching { namespace: None, selector };
///         let counter = CounterSpec::new("rack", pods);
///         Declaration::domain(["rack"]).counting(counter).grained()
///     }
///
///     fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
///         FilterPreparation::ready(TwoInARack)
///     }
/// }
///
/// impl PreparedFilter for TwoInARack {
///     fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
///         Verdict::pass_if(cx.count(0, node).is_some_and(|count| count < 2))
///     }
///
///     fn incremental(&mut self) -> Option<&mut dyn Incremental> {
///         Some(self)
///     }
/// }
///
/// impl Incremental for TwoInARack {
///     // The counts are the framework's, so there is nothing to bring up to date.
///     fn classes(&self, cx: &Context<'_>) -> Grain {
///         Grain::of(cx, ["rack"])
///     }
/// }
///
/// let mut cluster = Cluster::new();
/// for number in 0..600 {
///     let node = Node::new(format!("n{number}")).capacity("pods", 10);
///     cluster.add_node(node.label("rack", format!("r{}", number % 6)))?;
/// }
/// let framework = Framework::builder().filter(Fit).filter(TwoInARack).build()?;
/// let mut planner = Planner::new();
/// let gang = PodGroup::of("db", 12, Pod::new().label("app", "db"));
/// let request = Request::new(&gang).strategy(Strategy::Kubernetes);
/// assert!(planner.place(&cluster, &framework, request)?.is_placed());
/// // `Fit` judges each node once and then the one that has changed; the filter each rack likewise.
/// assert!(phalanx::reference::plugin_calls(&planner) <= (600 + 12) + (6 + 12));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grain {
    /// In order, each once.
    pub(crate) keys: SmallVec<[LabelKey; 4]>,
    pub(crate) each: bool,
    pub(crate) epoch: u64,
}

impl Grain {
    /// Nodes with the same values of these labels are alike.
    #[inline]
    pub fn new(keys: impl IntoIterator<Item = LabelKey>) -> Grain {
        let mut keys: SmallVec<[LabelKey; 4]> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        Grain { keys, each: false, epoch: 0 }
    }

    /// The same by the names of labels. A label that no node has makes no classes.
    pub fn of<'k>(cx: &Context<'_>, keys: impl IntoIterator<Item = &'k str>) -> Grain {
        Grain::new(keys.into_iter().filter_map(|key| cx.cluster().label_key(key)))
    }

    /// Each node has an answer of its own, which its own pods may change.
    #[must_use]
    pub fn each(mut self) -> Grain {
        self.each = true;
        self
    }

    /// A number that is another whenever a pod that came or went may have changed the answer for
    /// nodes that share no value with the pod's node.
    #[must_use]
    pub fn epoch(mut self, epoch: u64) -> Grain {
        self.epoch = epoch;
        self
    }
}

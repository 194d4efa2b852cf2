//! Refusals: nodes on which bindings of a shape were refused, left out for a time that grows.
//!
//! A pair of shape and node that was refused is left out of placements until a time. The next refusal
//! doubles the span. A binding that succeeds, or a change of the node, ends it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::base::Time;
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, Framework, PreparedFilter, Verdict,
};
use crate::model::{Pod, PodGroup, PodShape};
use crate::queue::terms::shortage::Shortage;
use crate::state::{NodeView, Plan};

/// Refusals in a row after which a node counts as one that refuses for good.
const LASTING: u32 = 3;

/// Refused pairs of shape and node.
#[derive(Debug, Default)]
pub(in crate::queue) struct Refusals {
    /// By node.
    nodes: BTreeMap<String, Vec<Refusal>>,
}

/// The refusals of one shape on one node.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Refusal {
    shape: PodShape,
    /// The end of the time for which the node is left out.
    until: Time,
    /// Number of times in a row.
    count: u32,
    reason: String,
}

/// A tree whose pods avoid the nodes that refuse them.
pub(in crate::queue) struct Avoiding {
    pub(in crate::queue) tree: PodGroup,
    /// The shortage if the tree would have a place without that.
    pub(in crate::queue) shortage: Shortage,
}

impl Refusals {
    /// A binding was refused. `since` is the time before which its group is not tried again; `span`
    /// gives how long the node is left out after so many refusals. O(shapes that the node refuses).
    pub(in crate::queue) fn refuse(
        &mut self,
        (shape, node): (&PodShape, &str),
        reason: &str,
        (now, since): (Time, Time),
        span: impl Fn(u32) -> Duration,
    ) {
        let known = self.nodes.entry(node.into()).or_default();
        let at = known.iter().position(|own| own.shape == *shape).unwrap_or_else(|| {
            let (until, reason) = (Time::ZERO, String::new());
            known.push(Refusal { shape: shape.clone(), until, count: 0, reason });
            known.len() - 1
        });
        let own = &mut known[at];
        own.reason = reason.into();
        if own.until <= now {
            // Pods of one plan that are refused together count once.
            own.count = own.count.saturating_add(1);
        }
        own.until = own.until.max(since.after(span(own.count)));
    }

    /// A binding has succeeded. Returns whether the node refused the shape until now.
    pub(in crate::queue) fn accept(&mut self, shape: &PodShape, node: &str) -> bool {
        let Some(known) = self.nodes.get_mut(node) else { return false };
        let before = known.len();
        known.retain(|own| own.shape != *shape);
        let has_ended = known.len() < before;
        if known.is_empty() {
            self.nodes.remove(node);
        }
        has_ended
    }

    /// A node has changed, or is gone.
    pub(in crate::queue) fn forget_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Whether a node refuses a shape now.
    pub(in crate::queue) fn refuses(&self, shape: &PodShape, node: &str, now: Time) -> bool {
        let mut known = self.nodes.get(node).into_iter().flatten();
        known.any(|own| own.until > now && own.shape == *shape)
    }

    /// The refusals of a shape that are in force, by node.
    fn of<'a>(
        &'a self,
        shape: &'a PodShape,
        now: Time,
    ) -> impl Iterator<Item = (&'a String, &'a Refusal)> {
        self.nodes.iter().filter_map(move |(node, known)| {
            let own = known.iter().find(|own| own.until > now && own.shape == *shape)?;
            Some((node, own))
        })
    }

    /// A tree whose pods avoid the nodes that refuse them; `None` if none do. `shape_of` gives the shape
    /// under which a pod was refused. O(pods + shapes · refusals).
    pub(in crate::queue) fn avoid<'a>(
        &'a self,
        tree: &PodGroup,
        now: Time,
        shape_of: impl Fn(&Pod) -> Option<&'a Arc<PodShape>>,
    ) -> Option<Avoiding> {
        let is_in_force = |own: &Refusal| own.until > now;
        if !self.nodes.values().flatten().any(is_in_force) {
            return None;
        }
        let mut met: BTreeMap<&str, &Refusal> = BTreeMap::new();
        let mut known: Vec<(Arc<PodShape>, Arc<PodShape>)> = Vec::new();
        let mut tree = tree.clone();
        visit(&mut tree, &mut |pod| {
            let same = known.iter().find(|(from, _)| Arc::ptr_eq(from, pod.shape()));
            let to = if let Some((_, to)) = same {
                Arc::clone(to)
            } else {
                let from = Arc::clone(pod.shape());
                let mut nodes = Vec::new();
                for (node, own) in shape_of(pod).into_iter().flat_map(|own| self.of(own, now)) {
                    nodes.push(node.clone());
                    // The first to end stands for its node, in whatever order pods are listed.
                    let first = met.entry(node).or_insert(own);
                    if (own.until, &own.reason) < (first.until, &first.reason) {
                        *first = own;
                    }
                }
                let to = if nodes.is_empty() {
                    Arc::clone(&from)
                } else {
                    Arc::new(PodShape { avoids: nodes, ..PodShape::clone(&from) })
                };
                known.push((from, Arc::clone(&to)));
                to
            };
            *pod = pod.clone().with_shape(to);
        });
        let (node, first) = met.first_key_value()?;
        let shortage = Shortage::Refused {
            nodes: met.len() as u64,
            node: (*node).into(),
            reason: first.reason.clone(),
            retry: met.values().map(|own| own.until).min()?,
        };
        Some(Avoiding { tree, shortage })
    }

    /// Whether a plan puts a pod on a node that refuses it.
    pub(in crate::queue) fn meets<'a>(
        &'a self,
        plan: &Plan,
        now: Time,
        shape_of: impl Fn(&Pod) -> Option<&'a Arc<PodShape>>,
    ) -> bool {
        plan.assignments().any(|to| {
            self.nodes.contains_key(to.node())
                && shape_of(to.pod()).is_some_and(|shape| self.refuses(shape, to.node(), now))
        })
    }

    /// Whether some node refuses for good, as far as can be told.
    pub(in crate::queue) fn last(&self, now: Time) -> bool {
        let lasts = |own: &Refusal| own.until > now && own.count >= LASTING;
        self.nodes.values().flatten().any(lasts)
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn save(&self) -> BTreeMap<String, Vec<Refusal>> {
        self.nodes.clone()
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore(nodes: BTreeMap<String, Vec<Refusal>>) -> Refusals {
        Refusals { nodes }
    }
}

fn visit(tree: &mut PodGroup, change: &mut dyn FnMut(&mut Pod)) {
    tree.pods.iter_mut().for_each(&mut *change);
    for inner in &mut tree.groups {
        visit(inner, change);
    }
}

/// The filter that keeps pods from nodes that their shape avoids.
#[derive(Debug, Clone, Copy)]
struct RefusedNodes;

/// The avoided nodes of a shape.
struct Avoided(BTreeSet<String>);

impl FilterPlugin for RefusedNodes {
    fn name(&self) -> &'static str {
        "RefusedNodes"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        match &cx.pod().avoids[..] {
            [] => FilterPreparation::Skip,
            nodes => FilterPreparation::ready(Avoided(nodes.iter().cloned().collect())),
        }
    }
}

impl PreparedFilter for Avoided {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_or_unresolvable(!self.0.contains(node.name()))
    }
}

/// A framework that knows which nodes shapes avoid.
pub(in crate::queue) fn knowing_refusals(framework: &Framework) -> Framework {
    let name = FilterPlugin::name(&RefusedNodes);
    if framework.filters().iter().any(|own| own.name() == name) {
        return framework.clone();
    }
    framework.to_builder().filter(RefusedNodes).build_sound()
}

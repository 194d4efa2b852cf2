//! Requests for nodes.

use alloc::vec::Vec;

use super::template::NodeTemplate;
use crate::place::Request;

/// The most nodes that one answer adds; a higher limit counts as this.
pub(super) const MOST_NODES: u32 = 1 << 16;

/// Groups that are to start, and the templates of the nodes that may be added for them.
///
/// ```
/// use phalanx::autoscale::{NodeTemplate, ScaleUpRequest};
/// use phalanx::{Node, Pod, PodGroup};
///
/// let gang = PodGroup::of("trainer", 4, Pod::new().request("nvidia.com/gpu", 8));
/// let node = Node::new("gpu").capacity("nvidia.com/gpu", 8);
/// let request = ScaleUpRequest::new([&gang]).template(NodeTemplate::new(node, 10)).max_nodes(16);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ScaleUpRequest<'a> {
    pub(super) groups: Vec<Request<'a>>,
    pub(super) templates: Vec<NodeTemplate>,
    pub(super) max_nodes: u32,
    pub(super) all_members: bool,
    pub(super) budget: u64,
}

impl<'a> ScaleUpRequest<'a> {
    /// Nodes added at most in all unless the request says otherwise.
    pub const DEFAULT_NODES: u32 = 1_000;
    /// Steps that a search for nodes may take unless the request says otherwise.
    pub const DEFAULT_BUDGET: u64 = 20_000;

    /// A request for groups, in the order in which they would be placed.
    pub fn new<R: Into<Request<'a>>>(groups: impl IntoIterator<Item = R>) -> ScaleUpRequest<'a> {
        ScaleUpRequest {
            groups: groups.into_iter().map(Into::into).collect(),
            templates: Vec::new(),
            max_nodes: ScaleUpRequest::DEFAULT_NODES,
            all_members: false,
            budget: ScaleUpRequest::DEFAULT_BUDGET,
        }
    }

    /// Adds a template. Of sets that cost the same and have as many nodes, the one with more blocks of
    /// the first template is preferred, then of the next.
    pub fn template(mut self, template: NodeTemplate) -> ScaleUpRequest<'a> {
        self.templates.push(template);
        self
    }

    /// Adds templates, in order.
    pub fn templates(
        mut self,
        templates: impl IntoIterator<Item = NodeTemplate>,
    ) -> ScaleUpRequest<'a> {
        self.templates.extend(templates);
        self
    }

    /// Sets the limit of added nodes; 65,536 is the highest.
    pub fn max_nodes(mut self, nodes: u32) -> ScaleUpRequest<'a> {
        self.max_nodes = nodes.min(MOST_NODES);
        self
    }

    /// Asks for room for all members of each group, not for its minimum alone.
    pub fn all_members(mut self) -> ScaleUpRequest<'a> {
        self.all_members = true;
        self
    }

    /// Sets how many steps the search for nodes may take. A linear bound is a step or a few, by its
    /// size; a group placed is four. [`Request::budget`] holds for each group that is placed.
    pub fn budget(mut self, steps: u64) -> ScaleUpRequest<'a> {
        self.budget = steps;
        self
    }
}

//! The front door: which nodes to add, and which can go.

mod scaling;

use alloc::vec::Vec;

pub(super) use self::scaling::CLOSED;
use self::scaling::{Scaling, Task};
use super::answer::ScaleUpOutcome;
use super::build::Limits;
use super::error::AutoscaleError;
use super::request::ScaleUpRequest;
use super::resume::Kept;
use super::stage::{Ask, takes_any_layout};
use super::template::variants;
use crate::framework::Framework;
use crate::place::planner::what_if::Session;
use crate::state::Cluster;

/// A planner of nodes: answers requests, with what it keeps between them.
///
/// It tries nodes in one transaction that it rolls back, so the planner's warm results of the
/// cluster survive. A list of many groups that has changed by a few since the last request starts
/// from the last answer. The groups that stayed keep their places, and the bound is counted anew.
/// So a set that is [`Found`](crate::autoscale::ScaleUpClaim::Found) may depend on the requests before, though its
/// claim holds in any case. A set that is [`First`](crate::autoscale::ScaleUpClaim::First) is always the same.
///
/// ```
/// use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpRequest};
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup};
///
/// let mut cluster = Cluster::builder().levels(["rack"]).build()?;
/// cluster.add_node(Node::new("n1").capacity("gpu", 8).label("rack", "r1"))?;
/// let worker = Pod::new().request("gpu", 8);
/// let gang = PodGroup::of("trainer", 4, worker.clone()).require("rack");
/// let single = PodGroup::of("notebook", 1, worker);
///
/// let node = Node::new("gpu").capacity("gpu", 8).label("rack", "r2");
/// let rack = Node::new("gpu-rack").capacity("gpu", 8);
/// let request = ScaleUpRequest::new([&gang, &single])
///     .template(NodeTemplate::new(node, 10).limit(2))
///     .template(NodeTemplate::new(rack, 35).block(4).own_domain("rack"));
/// let answer = Autoscaler::new().scale_up(&cluster, &Framework::default(), request)?;
///
/// // Single nodes cannot hold the gang in one rack: a rack of four is bought for it. The notebook
/// // fits as it is.
/// let start = answer.start().expect("there is such a set");
/// assert_eq!((start.blocks[0].template.as_str(), start.price), ("gpu-rack", 35));
/// assert!(start.is_cheapest());
/// for node in start.nodes() {
///     cluster.add_node(node.clone())?;
/// }
/// for plan in &start.plans {
///     cluster.commit(&Framework::default(), plan)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One autoscaler serves a cluster for its life: nodes, pods and levels may come and go between calls,
/// removals included. It keeps a transaction on the cluster that it saw last, follows the cluster's
/// journal from there, and begins anew if the cluster is another one.
#[derive(Debug, Default)]
pub struct Autoscaler {
    pub(super) session: Session,
    kept: Option<Kept>,
}

impl Autoscaler {
    /// One that knows nothing yet.
    pub fn new() -> Autoscaler {
        Autoscaler::default()
    }

    /// How often a plugin was evaluated on a node so far.
    pub fn plugin_calls(&self) -> u64 {
        self.session.plugin_calls()
    }

    /// Finds the cheapest set of nodes with which all groups of the request start whole.
    ///
    /// The answer names the nodes, and plans that hold once they are there; what any set costs at
    /// least; and what is claimed. Groups that fit as it is need nothing, and count all the same:
    /// their room is theirs. The cluster is not touched. Permits are not asked.
    ///
    /// # Errors
    /// A group or a template is unsound, a member is bound already, or the cluster cannot take a node.
    pub fn scale_up(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        request: ScaleUpRequest<'_>,
    ) -> Result<ScaleUpOutcome, AutoscaleError> {
        let variants = variants(cluster, &request.templates)?;
        let any_layout = takes_any_layout(framework, &request.groups);
        let mut asks = Vec::with_capacity(request.groups.len());
        for group in request.groups {
            asks.push(Ask::new(cluster, group, (request.all_members, any_layout))?);
        }
        let limits = Limits {
            nodes: request.max_nodes,
            templates: request.templates.iter().map(|template| template.limit).collect(),
            unit_nodes: request.max_nodes,
        };
        let budget = request.budget;
        let task =
            Task { asks, variants, templates: request.templates, limits, any_layout, budget };
        let framework = framework.without_permits();
        let Autoscaler { session, kept } = self;
        session.ask(cluster, |planner, txn| {
            Scaling::new(cluster, (planner, txn), &framework, &task)?.answer(kept)
        })
    }
}

//! The filter for host ports.

use alloc::sync::Arc;

use crate::framework::{
    Capacity, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::PodShape;
use crate::state::NodeView;

/// Keeps a pod off nodes where a port it wants is taken.
///
/// Two ports conflict if number and protocol are equal, and the addresses are or one of them is
/// `0.0.0.0`. Ports of one pod do not conflict with each other. kube-scheduler keeps a set of ports
/// a node: if two pods hold the same port, one frees it for both. Here the port is taken until both
/// are gone.
///
/// O(pods of the node) a node; skipped for pods that want no port.
///
/// Source: kube-scheduler, `nodeports/node_ports.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodePorts;

/// The filter for a pod that wants ports.
struct WantsPorts;

impl FilterPlugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        if pod.ports.is_empty() {
            return Declaration::constant();
        }
        Declaration::node().monotone()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if cx.pod().ports.is_empty() {
            return FilterPreparation::Skip;
        }
        FilterPreparation::ready(WantsPorts)
    }
}

impl PreparedFilter for WantsPorts {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let wanted = &cx.pod().ports;
        let mut taken = node.pods().flat_map(|pod| &pod.shape().ports);
        Verdict::pass_if(!taken.any(|taken| wanted.iter().any(|port| port.conflicts(taken))))
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for WantsPorts {
    /// A pod conflicts with the next of its shape.
    fn of_node(&self, _: &Context<'_>, _: NodeView<'_>) -> i64 {
        1
    }
}

#[cfg(test)]
mod tests;

//! The filter for NUMA zones: whether a node admits a pod.

use alloc::sync::Arc;

use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict, align_zones,
};
use crate::model::{PodShape, ZonePolicy};
use crate::state::{NodeView, ZoneRoom};

/// Lets a pod on nodes whose topology policy admits it: see [`align_zones`].
///
/// A pod that asks for no alignment is not looked at. A node without zones, or without a policy,
/// admits every pod but one that asks for a policy itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct ZoneFit;

/// The filter for one shape, which the context has.
struct Ready;

impl FilterPlugin for ZoneFit {
    fn name(&self) -> &str {
        "ZoneFit"
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, shape: &PodShape) -> Declaration {
        // With several containers, less room can turn the first away from the zone of the second.
        let alone = shape.zones.parts.len() <= 1;
        if alone { Declaration::usage().monotone() } else { Declaration::usage() }
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if cx.pod().zones.is_empty() {
            return FilterPreparation::Skip;
        }
        FilterPreparation::ready(Ready)
    }
}

impl PreparedFilter for Ready {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let ask = &cx.pod().zones;
        let policy = node.zone_room().map_or(ZonePolicy::None, ZoneRoom::policy);
        if policy < ask.least {
            return Verdict::Unresolvable;
        }
        Verdict::pass_if(align_zones(node, ask).is_some())
    }
}

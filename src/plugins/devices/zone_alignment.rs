//! The score for NUMA zones: how well a node would align a pod.

use alloc::sync::Arc;

use crate::framework::{
    Context, Declaration, PreparedScore, ScorePlugin, ScorePreparation, align_zones,
};
use crate::model::PodShape;
use crate::state::NodeView;

/// Likes nodes that align the resources of a pod in few zones, and among them those whose zones are
/// full, so that whole zones stay free.
///
/// With `w` of `n` zones in the widest hint, the score is 50 if all hints are preferred. Up to 30
/// are added by how few `w` is, and up to 20 by how full the zones that it takes from would be.
/// Nodes that do not align get 0, and so do all nodes for a pod that asks for nothing.
///
/// ```
/// use phalanx::Framework;
/// use phalanx::plugins::{Fit, ZoneAlignment, ZoneFit};
///
/// let framework = Framework::builder().filter(Fit).filter(ZoneFit).score(1, ZoneAlignment).build();
/// assert!(framework.is_ok());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ZoneAlignment;

/// The score for one shape, which the context has.
struct Ready;

impl ScorePlugin for ZoneAlignment {
    fn name(&self) -> &str {
        "ZoneAlignment"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        if cx.pod().zones.parts.is_empty() {
            return ScorePreparation::Constant(0);
        }
        ScorePreparation::ready(Ready)
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

impl PreparedScore for Ready {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let (Some(room), Some(plan)) = (node.zone_room(), align_zones(node, &cx.pod().zones))
        else {
            return 0;
        };
        if plan.width == 0 {
            return 0;
        }
        let (width, zones) = (plan.width as i64, room.len() as i64);
        let narrow = if zones > 1 { 30 * (zones - width) / (zones - 1) } else { 30 };
        let mut fullest = 0_i128;
        for share in &plan.shares {
            for (name, amount) in share.amounts.iter() {
                let (Some(zone), Some(at)) = (room.zone(share.zone), room.resource(name)) else {
                    continue;
                };
                let capacity = i128::from(room.capacity(zone, at)).max(1);
                let left = i128::from(room.free(zone, at)) - i128::from(amount);
                fullest = fullest.max((20 * (capacity - left) / capacity).clamp(0, 20));
            }
        }
        i64::from(plan.aligned) * 50 + narrow + fullest as i64
    }
}

//! GPU packing: a score that fills devices in use before idle ones.

use alloc::sync::Arc;

use super::pool::{DevicePool, Pool};
use crate::framework::{Context, Declaration, PreparedScore, ScorePlugin, ScorePreparation};
use crate::model::PodShape;
use crate::state::NodeView;

/// Likes devices in use best, then free devices of nodes in use, then nodes not in use.
///
/// A pod that wants devices goes to the fullest node first. On a node all of whose `n` devices are
/// free, the score is `max(33 − n, n)`. If `k` of the devices taken are free, it is `max(50 − k,
/// 33)`. Else it is `max(100 − s ÷ 10, 50)`, where `s` sums the remainder of each in hundredths.
/// Other pods get 0 everywhere.
///
/// Source: FGD artifact (ATC'23), plugin `GpuPackingScore`.
#[derive(Debug, Clone)]
pub struct GpuPacking {
    pool: DevicePool,
}

impl GpuPacking {
    /// Over the devices of a pool.
    pub fn new(pool: DevicePool) -> GpuPacking {
        GpuPacking { pool }
    }
}

impl ScorePlugin for GpuPacking {
    fn name(&self) -> &str {
        "GpuPacking"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let pool = self.pool.resolve(cx);
        if pool.need.is_none() {
            return ScorePreparation::Constant(0);
        }
        ScorePreparation::ready(Packing(pool))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

/// The pool, and what the pod needs of it.
struct Packing(Pool);

impl PreparedScore for Packing {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Packing(pool) = self;
        let slots = pool.slots(node);
        let count = slots.len() as i64;
        if slots.iter().all(|slot| slot.idle) {
            return count.max(33 - count);
        }
        let taken = pool.tightest(&slots);
        let free = taken.iter().filter(|&&at| slots[at].idle).count() as i64;
        if free > 0 {
            return (50 - free).max(33);
        }
        let hundredths = taken.iter().map(|&at| {
            let (free, capacity) = (i128::from(slots[at].free), i128::from(slots[at].capacity));
            if capacity == 0 { 0 } else { (free * 100 / capacity) as i64 }
        });
        let left = hundredths.fold(0, i64::saturating_add);
        (100 - left / 10).max(50)
    }
}

//! Best fit: a score for how little would be left of a node's devices.

use alloc::sync::Arc;

use super::pool::{DevicePool, Pool, left};
use crate::framework::{
    Context, Declaration, MAX_SCORE, Normalization, PreparedScore, ScorePlugin, ScorePreparation,
};
use crate::model::PodShape;
use crate::state::NodeView;

/// Likes nodes that would keep little CPU and little of the devices.
///
/// The raw score is `100 · (1 − (cpu left after ÷ cpu scale + devices left after ÷ device scale) ÷
/// 2)`, truncated; the scores of the feasible nodes are then stretched over 0 to 100, by integer
/// division (all 0 if they are equal).
///
/// Source: FGD artifact (ATC'23), plugin `BestFitScore`.
#[derive(Debug, Clone)]
pub struct BestFit {
    pool: DevicePool,
    cpu_scale: f64,
    device_scale: f64,
}

impl BestFit {
    /// Over the devices of a pool, with the published scales: the largest node, of 128 cores and
    /// 8,000 thousandths of a device.
    pub fn new(pool: DevicePool) -> BestFit {
        BestFit { pool, cpu_scale: 128_000.0, device_scale: 8_000.0 }
    }

    /// Sets what CPU (in thousandths) and devices (in their unit) are divided by.
    #[must_use]
    pub fn scales(mut self, cpu: u32, devices: u32) -> BestFit {
        self.cpu_scale = f64::from(cpu.max(1));
        self.device_scale = f64::from(devices.max(1));
        self
    }
}

impl ScorePlugin for BestFit {
    fn name(&self) -> &str {
        "BestFit"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let pool = self.pool.resolve(cx);
        ScorePreparation::ready(Scaled { pool, cpu: self.cpu_scale, devices: self.device_scale })
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }

    fn normalization(&self) -> Normalization {
        Normalization::Extremes
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        let span = i128::from(high) - i128::from(low);
        if span <= 0 {
            return 0;
        }
        ((i128::from(raw) - i128::from(low)) * i128::from(MAX_SCORE) / span) as i64
    }
}

/// The pool with what the pod needs of it, and what amounts are divided by.
struct Scaled {
    pool: Pool,
    cpu: f64,
    devices: f64,
}

impl PreparedScore for Scaled {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let &Scaled { ref pool, cpu: cpu_scale, devices: device_scale } = self;
        let slots = pool.slots(node);
        let cpu = pool.cpu_free(node).saturating_sub(pool.cpu_request) as f64;
        let devices = left(&slots).saturating_sub(pool.taken(&slots)) as f64;
        let rest = 0.5 * (cpu / cpu_scale) + 0.5 * (devices / device_scale);
        (100.0 * (1.0 - rest)) as i64
    }
}

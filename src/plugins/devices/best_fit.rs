//! Best fit: a score for how little would be left of a node's devices.

use super::pool::{DevicePool, Pool, left};
use crate::framework::{Context, Declaration, MAX_SCORE, Normalization, Preparation, Score};
use crate::model::PodShape;
use crate::state::NodeView;

/// Likes nodes of which little CPU and little of the devices would be left.
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

impl Score for BestFit {
    fn name(&self) -> &str {
        "BestFit"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        Preparation::with(self.pool.resolve(cx))
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Some(pool) = cx.prepared::<Pool>() else { return 0 };
        let slots = pool.slots(node);
        let cpu = pool.cpu_free(node).saturating_sub(pool.cpu_request) as f64;
        let devices = left(&slots).saturating_sub(pool.taken(&slots)) as f64;
        let rest = 0.5 * (cpu / self.cpu_scale) + 0.5 * (devices / self.device_scale);
        (100.0 * (1.0 - rest)) as i64
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

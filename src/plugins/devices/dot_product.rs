//! Dot product: a score for the free amounts of a node along a pod's request.

use alloc::sync::Arc;

use super::pool::{DevicePool, Pool, left};
use crate::framework::{Context, Declaration, PreparedScore, ScorePlugin, ScorePreparation};
use crate::model::PodShape;
use crate::state::NodeView;

/// Likes nodes where little is left of what the pod wants much of.
///
/// `100 · (1 − (cpu left · cpu wanted + devices left · devices wanted) ÷ 2)`, truncated, each
/// amount divided by its scale. What is left is taken without the pod.
///
/// Source: FGD artifact (ATC'23), plugin `DotProductScore` (dimensions merged, scaled by the
/// largest node).
#[derive(Debug, Clone)]
pub struct DotProduct {
    pool: DevicePool,
    cpu_scale: f64,
    device_scale: f64,
}

impl DotProduct {
    /// Over the devices of a pool, with the published scales: the largest node, of 128 cores and
    /// 8,000 thousandths of a device.
    pub fn new(pool: DevicePool) -> DotProduct {
        DotProduct { pool, cpu_scale: 128_000.0, device_scale: 8_000.0 }
    }

    /// Sets what CPU (in thousandths) and devices (in their unit) are divided by.
    #[must_use]
    pub fn scales(mut self, cpu: u32, devices: u32) -> DotProduct {
        self.cpu_scale = f64::from(cpu.max(1));
        self.device_scale = f64::from(devices.max(1));
        self
    }
}

impl ScorePlugin for DotProduct {
    fn name(&self) -> &str {
        "DotProduct"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let pool = self.pool.resolve(cx);
        ScorePreparation::ready(Scaled { pool, cpu: self.cpu_scale, devices: self.device_scale })
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
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
        let share = |amount: i64, scale: f64| amount as f64 / scale;
        let cpu = share(pool.cpu_free(node), cpu_scale) * share(pool.cpu_request, cpu_scale);
        let devices = share(left(&slots), device_scale) * share(pool.taken(&slots), device_scale);
        (100.0 * (1.0 - (cpu + devices) * 0.5)) as i64
    }
}

//! Dot product: a score for how much a node has left of what the pod requests.

use super::pool::{DevicePool, Pool, left};
use crate::framework::{Context, Declaration, Preparation, Score};
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

impl Score for DotProduct {
    fn name(&self) -> &str {
        "DotProduct"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        Preparation::with(self.pool.resolve(cx))
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Some(pool) = cx.prepared::<Pool>() else { return 0 };
        let slots = pool.slots(node);
        let share = |amount: i64, scale: f64| amount as f64 / scale;
        let cpu =
            share(pool.cpu_free(node), self.cpu_scale) * share(pool.cpu_request, self.cpu_scale);
        let devices =
            share(left(&slots), self.device_scale) * share(pool.taken(&slots), self.device_scale);
        (100.0 * (1.0 - (cpu + devices) * 0.5)) as i64
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

//! GPU clustering: a score that keeps pods of one kind of device request together.

use alloc::sync::Arc;

use super::pool::{DevicePool, Pool, left};
use crate::framework::{Context, Declaration, PreparedScore, ScorePlugin, ScorePreparation};
use crate::model::{DeviceAsk, PodShape};
use crate::state::NodeView;

/// Likes nodes that run pods with the same sort of device request, and no others.
///
/// The sorts are shares, and whole devices by their number. With `k` = 25 · (used ÷ scale): `k +
/// 75` where all pods that hold devices are of the pod's sort, `k + 50` where some are, `k + 25`
/// where no pod holds devices, else `k`. Pods that want no devices get 0 everywhere.
///
/// Source: FGD artifact (ATC'23), plugin `GpuClusteringScore`.
#[derive(Debug, Clone)]
pub struct GpuClustering {
    pool: DevicePool,
    scale: i64,
}

impl GpuClustering {
    /// Over the devices of a pool, with the published scale: 8,000 thousandths of a device.
    pub fn new(pool: DevicePool) -> GpuClustering {
        GpuClustering { pool, scale: 8_000 }
    }

    /// Sets what devices (in their unit) are divided by.
    #[must_use]
    pub fn scale(mut self, devices: u32) -> GpuClustering {
        self.scale = i64::from(devices.max(1));
        self
    }
}

/// A sort of device request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Shares,
    Whole(u32),
}

impl Sort {
    /// That of a pod, by its first request of a kind.
    fn of(pod: &PodShape, kind: &str) -> Option<Sort> {
        let request = pod.devices.iter().find(|request| request.kind == kind)?;
        Some(match request.ask {
            DeviceAsk::Shares { .. } => Sort::Shares,
            DeviceAsk::Whole { count } => Sort::Whole(count),
        })
    }
}

/// The score for a pod of a sort.
struct Clustering {
    plugin: Arc<GpuClustering>,
    pool: Pool,
    own: Sort,
}

impl ScorePlugin for GpuClustering {
    fn name(&self) -> &str {
        "GpuClustering"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::node()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let Some(own) = Sort::of(cx.pod(), &self.pool.kind) else {
            return ScorePreparation::Constant(0);
        };
        let pool = self.pool.resolve(cx);
        ScorePreparation::ready(Clustering { plugin: self, pool, own })
    }
}

impl PreparedScore for Clustering {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let GpuClustering { pool, scale } = &*self.plugin;
        let used = i128::from(*scale) - i128::from(left(&self.pool.slots(node)));
        let filled = (25 * used / i128::from(*scale)) as i64;
        let (mut same, mut others) = (false, false);
        for sort in node.pods().filter_map(|pod_there| Sort::of(pod_there.shape(), &pool.kind)) {
            same |= sort == self.own;
            others |= sort != self.own;
        }
        filled.saturating_add(match (same, others) {
            (true, false) => 75,
            (true, true) => 50,
            (false, false) => 25,
            (false, true) => 0,
        })
    }
}

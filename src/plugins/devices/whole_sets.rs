//! The score for partition tables: how much of a node's table stays whole.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::framework::{
    Context, Declaration, PreparedScore, ScorePlugin, ScorePreparation, chosen_devices,
};
use crate::model::PodShape;
use crate::state::{DeviceNeed, NodeView};

/// Likes nodes on which a pod breaks little of the partition table. The score is 100 less the
/// weight of the sets that it takes a device of and that were whole. The weight is in hundredths of
/// the weight of all sets ([`NodeDevices::whole_after`](crate::state::NodeDevices::whole_after)).
///
/// The devices are those that [`TightestFit`](crate::framework::TightestFit) would choose. A node
/// without a table gets 100; a pod without device requests gets 0 everywhere.
///
/// ```
/// use phalanx::Framework;
/// use phalanx::plugins::{DeviceFit, Fit, WholeSets};
///
/// let framework = Framework::builder().filter(Fit).filter(DeviceFit).score(1, WholeSets).build();
/// assert!(framework.is_ok());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct WholeSets;

/// Needs of the pod, in the numbers of the cluster.
struct Ready(Vec<DeviceNeed>);

impl ScorePlugin for WholeSets {
    fn name(&self) -> &str {
        "WholeSets"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        if cx.pod().devices.is_empty() {
            return ScorePreparation::Constant(0);
        }
        ScorePreparation::ready(Ready(DeviceNeed::of(cx.cluster(), cx.pod())))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

impl PreparedScore for Ready {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Some(devices) = node.device_room() else { return 100 };
        let all = devices.whole_at_most();
        if all <= 0 {
            return 100;
        }
        let taken = chosen_devices(cx, node, &self.0).unwrap_or_default().concat();
        let lost = devices.whole_after(&[]).saturating_sub(devices.whole_after(&taken));
        100 - (i128::from(lost) * 100 / i128::from(all)) as i64
    }
}

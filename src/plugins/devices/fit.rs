//! The filter for devices: a node passes if its devices serve the pod.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::framework::{
    Capacity, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
    device_capacity, devices_fit,
};
use crate::model::PodShape;
use crate::state::{DeviceNeed, NodeView};

/// Lets a pod on nodes whose devices serve all of its device requests at once.
///
/// It passes a node exactly if devices can be chosen there; which ones is the framework's
/// [`DeviceChoice`](crate::framework::DeviceChoice). A pod without device requests is not looked
/// at. Devices that are counted as a resource of the node (`nvidia.com/gpu: 8`) are none of its
/// business: [`Fit`](crate::plugins::Fit) judges those.
///
/// O(devices) a node for each request.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceFit;

/// Needs of the pod, in the numbers of the cluster.
struct Needs(Vec<DeviceNeed>);

impl FilterPlugin for DeviceFit {
    fn name(&self) -> &str {
        "DeviceFit"
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage().monotone()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if cx.pod().devices.is_empty() {
            return FilterPreparation::Skip;
        }
        FilterPreparation::ready(Needs(DeviceNeed::of(cx.cluster(), cx.pod())))
    }
}

impl PreparedFilter for Needs {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        match node.device_room() {
            None => Verdict::Unresolvable,
            Some(_) => Verdict::pass_if(devices_fit(node, &self.0)),
        }
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for Needs {
    fn of_node(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        i64::try_from(device_capacity(node, &self.0)).unwrap_or(i64::MAX)
    }
}

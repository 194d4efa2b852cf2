//! The filter for devices: whether those of a node serve a pod.

use alloc::vec::Vec;

use crate::framework::{
    Context, Declaration, Filter, Preparation, Verdict, device_capacity, devices_fit,
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

impl Filter for DeviceFit {
    fn name(&self) -> &str {
        "DeviceFit"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        if cx.pod().devices.is_empty() {
            return Preparation::Skip;
        }
        Preparation::with(DeviceNeed::of(cx.cluster(), cx.pod()))
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let Some(needs) = cx.prepared::<Vec<DeviceNeed>>() else { return Verdict::Unschedulable };
        match node.device_room() {
            None => Verdict::Unresolvable,
            Some(_) => Verdict::pass_if(devices_fit(node, needs)),
        }
    }

    fn room(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let needs = cx.prepared::<Vec<DeviceNeed>>();
        let room = needs.map_or(u64::MAX, |needs| device_capacity(node, needs));
        i64::try_from(room).unwrap_or(i64::MAX)
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage().monotone()
    }
}

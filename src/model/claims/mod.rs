//! Resource claims: devices that drivers publish, classes of them, and claims of pods.

mod allocation;
mod claim;
mod slice;

pub use allocation::{AllocatedDevice, Allocation, ClaimAllocation};
pub use claim::{
    AttributeRule, ClaimConstraint, ClaimRequest, ClaimSource, ClaimSpec, DeviceAmount,
    DeviceDemand, ExtendedRequest, PodClaim, RequestChoice, ResourceClaim, SubRequest,
};
pub use slice::{
    Attribute, CounterSet, CounterUse, DeviceCapacity, DeviceClass, NodeReach, PolicyRule,
    RequestPolicy, ResourceSlice, SliceDevice,
};

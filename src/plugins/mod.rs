//! Filters, scores and permits that most schedulers want. One judgement a file, written with
//! nothing an outsider could not use.

mod allocation;
mod devices;
mod fit;
mod profiles;

pub use allocation::{Allocation, LeastAllocated, MostAllocated};
pub use devices::{
    BestFit, DeviceFit, DevicePool, DotProduct, Fgd, GpuClustering, GpuPacking, LowestIndex,
    SpreadDevices, TypicalPod, TypicalPods,
};
pub use fit::Fit;

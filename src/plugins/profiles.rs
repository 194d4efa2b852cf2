//! Frameworks ready to use.

use super::{DeviceFit, Fit, MostAllocated};
use crate::framework::Framework;

impl Default for Framework {
    /// Packs tightly, GPUs before all else.
    fn default() -> Framework {
        let pack = MostAllocated::of([("nvidia.com/gpu", 20), ("cpu", 1), ("memory", 1)]);
        // The set is sound: one plugin a stage.
        Framework::builder()
            .filter(Fit)
            .filter(DeviceFit)
            .score(1, pack)
            .build()
            .unwrap_or_else(|_| unreachable!())
    }
}

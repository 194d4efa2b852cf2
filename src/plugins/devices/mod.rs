//! Devices: the filter, the choice of devices on a node, and the published scores.

mod best_fit;
mod choices;
mod clustering;
mod dot_product;
mod fgd;
mod fit;
mod opportunity_cost;
mod packing;
mod pool;
mod shadow_prices;
mod typical;
mod whole_sets;
mod zone_alignment;
mod zone_fit;

pub use best_fit::BestFit;
pub use choices::{LowestIndex, SpreadDevices};
pub use clustering::GpuClustering;
pub use dot_product::DotProduct;
pub use fgd::Fgd;
pub use fit::DeviceFit;
pub use opportunity_cost::OpportunityCost;
pub use packing::GpuPacking;
pub use pool::DevicePool;
pub use shadow_prices::ShadowPrices;
pub use typical::{TypicalPod, TypicalPods};
pub use whole_sets::WholeSets;
pub use zone_alignment::ZoneAlignment;
pub use zone_fit::ZoneFit;

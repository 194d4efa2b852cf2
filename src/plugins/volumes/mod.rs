//! The filters and the score for volumes.

mod binding;
mod limits;
mod restrictions;
mod zone;

pub use binding::{StorageCapacityScore, VolumeBinding};
pub use limits::NodeVolumeLimits;
pub use restrictions::VolumeRestrictions;
pub use zone::VolumeZone;

use crate::framework::Declaration;
use crate::model::PodShape;

/// Declaration of a filter for claims: it reads nothing of pods without claims.
fn of_claims(pod: &PodShape) -> Declaration {
    if pod.volumes.iter().any(|volume| volume.claim().is_some()) {
        Declaration::cluster()
    } else {
        Declaration::constant()
    }
}

//! Refusals by counting, while the cluster does not change.

use alloc::sync::Arc;

use smallvec::SmallVec;

use crate::framework::Framework;
use crate::model::PodShape;
use crate::state::Cluster;
use crate::state::journal::Moment;

/// Shapes remembered at most.
const SHAPES: usize = 4;

/// The number of pods that is too many, of the shapes refused last.
///
/// It holds for one state of the cluster, and is dropped with the first request that meets another.
/// A gang that is requested again meanwhile is refused in O(shapes).
#[derive(Debug, Default)]
pub(crate) struct NegativeCache {
    moment: Moment,
    framework: Option<Framework>,
    /// Oldest first.
    shapes: SmallVec<[(Arc<PodShape>, usize); SHAPES]>,
}

impl NegativeCache {
    fn holds(&self, cluster: &Cluster, framework: &Framework) -> bool {
        self.moment == cluster.moment()
            && self.framework.as_ref().is_some_and(|known| known.same(framework))
    }

    /// Whether it is known that fewer than `wanted` pods of a shape fit.
    pub(crate) fn refuses(
        &self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        wanted: usize,
    ) -> bool {
        let refuses = |(known, many): &(_, usize)| Arc::ptr_eq(known, shape) && *many <= wanted;
        self.holds(cluster, framework) && self.shapes.iter().any(refuses)
    }

    /// Notes that fewer than `wanted` pods of a shape fit.
    pub(crate) fn note(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        wanted: usize,
    ) {
        if !self.holds(cluster, framework) {
            self.moment = cluster.moment();
            self.framework = Some(framework.clone());
            self.shapes.clear();
        }
        self.shapes.retain(|(known, _)| !Arc::ptr_eq(known, shape));
        if self.shapes.len() == SHAPES {
            self.shapes.remove(0);
        }
        self.shapes.push((Arc::clone(shape), wanted));
    }
}

//! What was refused by counting, while nothing has changed since.

use alloc::sync::Arc;

use smallvec::SmallVec;

use crate::framework::Framework;
use crate::model::PodShape;
use crate::state::Cluster;
use crate::state::journal::Moment;

/// Shapes remembered at most.
const SHAPES: usize = 4;

/// Of the shapes asked for last, how many pods are too many.
///
/// It holds for one state of the cluster, and is forgotten with the first request that meets
/// another. A gang that is asked for again and again meanwhile is refused without a look at
/// anything else.
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

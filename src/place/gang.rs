//! A group made ready to be placed: checked, and its pods told apart by shape.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::hash::{FixedMap, hash_of};
use crate::model::{ModelError, PodGroup, PodShape, Workload};

/// A group that was checked and whose pods are known by shape.
///
/// Placing a [`PodGroup`] makes one in passing. Whoever asks for the same group again and again
/// makes it once.
///
/// ```
/// use phalanx::model::{Pod, PodGroup};
/// use phalanx::place::Gang;
///
/// let group = PodGroup::gang("trainer", 64).pods(64, Pod::new().request("cpu", 1));
/// let gang = Gang::new(&group)?;
/// assert_eq!((gang.members(), gang.shapes()), (64, 1));
/// # Ok::<(), phalanx::model::ModelError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gang<'a> {
    group: Cow<'a, PodGroup>,
    shapes: Vec<Arc<PodShape>>,
    /// The place in `shapes` of each pod, in the order of [`PodGroup::all_pods`].
    shape_of: Vec<u32>,
}

impl<'a> Gang<'a> {
    /// Checks a group and tells its pods apart. O(pods); pods that share a shape by pointer are
    /// not compared.
    ///
    /// # Errors
    /// As [`PodGroup::check`].
    pub fn new(group: &'a PodGroup) -> Result<Gang<'a>, ModelError> {
        Gang::of(Cow::Borrowed(group))
    }

    /// The same of a workload, as one gang of all its groups.
    ///
    /// # Errors
    /// As [`PodGroup::check`].
    pub fn of_workload(workload: &Workload) -> Result<Gang<'static>, ModelError> {
        Gang::of(Cow::Owned(workload.clone().into_group()))
    }

    pub(crate) fn of(group: Cow<'a, PodGroup>) -> Result<Gang<'a>, ModelError> {
        group.check()?;
        let mut shapes: Vec<Arc<PodShape>> = Vec::new();
        let mut shape_of = Vec::new();
        let mut known: FixedMap<u64, Vec<u32>> = FixedMap::default();
        let mut last: Option<(*const PodShape, u32)> = None;
        group.visit(&mut |part| {
            for pod in &part.pods {
                let shape = pod.shape();
                let place = match last {
                    Some((pointer, place)) if pointer == Arc::as_ptr(shape) => place,
                    _ => {
                        let same_hash = known.entry(hash_of(&**shape)).or_default();
                        let found = same_hash
                            .iter()
                            .find(|&&place| shapes[place as usize] == *shape)
                            .copied();
                        found.unwrap_or_else(|| {
                            let place = shapes.len() as u32;
                            shapes.push(Arc::clone(shape));
                            same_hash.push(place);
                            place
                        })
                    }
                };
                last = Some((Arc::as_ptr(shape), place));
                shape_of.push(place);
            }
        });
        Ok(Gang { group, shapes, shape_of })
    }

    /// The group.
    pub fn group(&self) -> &PodGroup {
        &self.group
    }

    /// How many pods there are.
    pub fn members(&self) -> usize {
        self.shape_of.len()
    }

    /// How many different shapes the pods have.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    pub(crate) fn shape(&self, place: u32) -> &Arc<PodShape> {
        &self.shapes[place as usize]
    }

    pub(crate) fn all_shapes(&self) -> &[Arc<PodShape>] {
        &self.shapes
    }

    pub(crate) fn shape_of(&self) -> &[u32] {
        &self.shape_of
    }
}

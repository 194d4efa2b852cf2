//! Gangs: groups that were checked, with their pods classified by shape.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::{ModelError, PodGroup, PodShape, Workload};
use crate::state::roster::Roster;

/// A checked group, with the shape of each of its pods.
///
/// [`Planner::place`](super::Planner::place) builds a `Gang` from a [`PodGroup`] by cloning it. To
/// place one group repeatedly, or to hand over a group that is owned, build it once. Cloning shares.
///
/// ```
/// use phalanx::place::Gang;
/// use phalanx::{Pod, PodGroup};
///
/// let group = PodGroup::of("trainer", 64, Pod::new().request("cpu", 1));
/// let gang = Gang::new(group)?;
/// assert_eq!((gang.members(), gang.shapes()), (64, 1));
/// # Ok::<(), phalanx::ModelError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gang {
    roster: Arc<Roster>,
    /// `None` if no pod has claims.
    bare: Option<Arc<Bare>>,
    has_volumes: bool,
}

/// Shapes without their claims.
#[derive(Debug)]
pub(crate) struct Bare {
    pub(crate) shapes: Vec<Arc<PodShape>>,
    /// The place among those of each shape of the gang.
    pub(crate) of: Vec<u32>,
}

impl Bare {
    fn new(all: &[Arc<PodShape>]) -> Option<Arc<Bare>> {
        if all.iter().all(|shape| shape.claims.is_empty()) {
            return None;
        }
        let (mut shapes, mut of) = (Vec::new(), Vec::with_capacity(all.len()));
        let mut places: BTreeMap<Arc<PodShape>, u32> = BTreeMap::new();
        for shape in all {
            let mut bare = Arc::clone(shape);
            if !bare.claims.is_empty() {
                Arc::make_mut(&mut bare).claims.clear();
            }
            let next = shapes.len() as u32;
            let place = *places.entry(Arc::clone(&bare)).or_insert(next);
            if place == next {
                shapes.push(bare);
            }
            of.push(place);
        }
        Some(Arc::new(Bare { shapes, of }))
    }
}

impl Gang {
    /// Checks a group and classifies its pods by shape. O(pods); pods that share a shape by pointer are
    /// not compared. Pods that name no group get the name of theirs.
    ///
    /// # Errors
    /// As [`PodGroup::check`].
    pub fn new(group: PodGroup) -> Result<Gang, ModelError> {
        group.check()?;
        let roster = Arc::new(Roster::new(group));
        let bare = Bare::new(roster.shapes());
        let has_volumes = roster.shapes().iter().any(|shape| !shape.volumes.is_empty());
        Ok(Gang { roster, bare, has_volumes })
    }

    /// The same of a workload, as one gang of all its groups.
    ///
    /// # Errors
    /// As [`PodGroup::check`].
    pub fn of_workload(workload: Workload) -> Result<Gang, ModelError> {
        Gang::new(workload.into_group())
    }

    /// The group.
    pub fn group(&self) -> &PodGroup {
        self.roster.group()
    }

    /// How many pods there are.
    pub fn members(&self) -> usize {
        self.roster.len()
    }

    /// How many different shapes the pods have.
    pub fn shapes(&self) -> usize {
        self.roster.shapes().len()
    }

    pub(crate) fn shape(&self, place: u32) -> &Arc<PodShape> {
        &self.roster.shapes()[place as usize]
    }

    pub(crate) fn all_shapes(&self) -> &[Arc<PodShape>] {
        self.roster.shapes()
    }

    pub(crate) fn shape_of(&self) -> &[u32] {
        self.roster.shape_of()
    }

    /// The shape of each pod of a leaf, whose first has this number; `None` for pods that are not to
    /// be placed yet.
    pub(crate) fn shapes_of(
        &self,
        leaf: &PodGroup,
        first: usize,
    ) -> impl Iterator<Item = Option<u32>> {
        let shapes = &self.shape_of()[first..first + leaf.pods.len()];
        let ungated = leaf.pods.iter().map(|pod| pod.scheduling_gates.is_empty());
        shapes.iter().zip(ungated).map(|(shape, ungated)| ungated.then_some(*shape))
    }

    /// The shapes without their claims; `None` if no pod has any.
    #[inline]
    pub(crate) fn bare(&self) -> Option<&Bare> {
        self.bare.as_deref()
    }

    /// Whether a pod names volumes.
    #[inline]
    pub(crate) fn has_volumes(&self) -> bool {
        self.has_volumes
    }

    pub(crate) fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }
}

//! Offers of a node to a claim: volumes that it reaches, and pools from which one can be made.

use alloc::sync::Arc;

use smallvec::SmallVec;

use super::refusal::VolumeRefusal;
use super::selector::{reaches, selects, term_matches};
use crate::model::{StorageCapacity, Volume, VolumeClaim};
use crate::state::storage::delayed::{Candidates, Delayed};
use crate::state::storage::planned::Planned;
use crate::state::view::NodeView;

/// The provisioner of classes that make no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A claim and a node.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a> {
    pub(super) need: &'a Delayed,
    pub(super) node: NodeView<'a>,
}

/// The pool that a volume is made from; `None` if nobody says what is left.
type Pooled = Result<Option<Arc<StorageCapacity>>, VolumeRefusal>;

/// Whether a volume is large enough for a claim, and what it asks for.
pub(super) fn is_alike(volume: &Volume, claim: &VolumeClaim) -> bool {
    volume.capacity >= claim.request.unwrap_or(0)
        && volume.mode == claim.mode
        && volume.attributes_class == claim.attributes_class
        && !volume.deleting
}

/// Whether a claim may take a volume that is set aside for none.
pub(super) fn suits(volume: &Volume, claim: &VolumeClaim) -> bool {
    volume.available
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}

/// The candidates that a node reaches, smallest first.
fn reached<'a>(
    all: &'a Candidates,
    node: NodeView<'a>,
) -> impl Iterator<Item = &'a Arc<Volume>> + use<'a> {
    let mut places: SmallVec<[u32; 16]> = SmallVec::from_slice(&all.loose);
    for (key, values) in &all.pinned {
        let pinned = node.label(key).and_then(|value| values.get(value));
        places.extend(pinned.into_iter().flatten().copied());
    }
    places.sort_unstable();
    let volumes = places.into_iter().map(|place| &all.volumes[place as usize]);
    volumes.filter(move |volume| reaches(volume.node_affinity.as_ref(), node))
}

impl<'a> Offer<'a> {
    pub(super) fn new(need: &'a Delayed, node: NodeView<'a>) -> Offer<'a> {
        Offer { need, node }
    }

    /// The volumes that the claim may get, best first; those of rivals are among them.
    pub(super) fn volumes(self) -> impl Iterator<Item = &'a Arc<Volume>> + use<'a> {
        let Offer { need, node } = self;
        let own = need.own.iter().filter(move |own| reaches(own.node_affinity.as_ref(), node));
        let others = need.own.is_none().then(|| reached(&need.candidates, node));
        own.chain(others.into_iter().flatten())
    }

    /// Whether the claim's class makes volumes for the node.
    pub(super) fn is_made(self) -> Result<(), VolumeRefusal> {
        let Offer { need, node } = self;
        let (claim, class) = (|| need.name.clone(), || need.class.name.clone());
        if need.class.provisioner.is_empty() || need.class.provisioner == NO_PROVISIONER {
            return Err(VolumeRefusal::NoneFits { claim: claim(), class: class() });
        }
        let allowed = &need.class.allowed_topologies;
        if !allowed.is_empty() && !allowed.iter().any(|term| term_matches(term, node)) {
            return Err(VolumeRefusal::NotAllowed { claim: claim(), class: class() });
        }
        Ok(())
    }

    /// The pools that have room for the claim, where some of each may be taken, in order of name;
    /// `None` if nobody says what is left.
    fn pools(
        self,
        taken: impl Fn(&StorageCapacity) -> i64,
    ) -> Option<impl Iterator<Item = &'a Arc<StorageCapacity>>> {
        let (bytes, node) = (self.need.bytes(), self.node);
        let has_room = move |pool: &&Arc<StorageCapacity>| {
            let left = |capacity: i64| capacity.saturating_sub(taken(pool)) >= bytes;
            pool.limit().is_some_and(|limit| limit >= bytes)
                // What is taken counts only where something is.
                && (taken(pool) == 0 || pool.capacity.is_none_or(left))
                && pool.nodes.as_ref().is_some_and(|nodes| selects(nodes, node))
        };
        Some(self.need.pools.as_ref()?.iter().filter(has_room))
    }

    /// The first pool that a volume can be made from.
    pub(super) fn pool(self, planned: &Planned) -> Pooled {
        let Some(mut pools) = self.pools(|pool| planned.taken_of(pool)) else { return Ok(None) };
        pools.next().cloned().map(Some).ok_or_else(|| self.no_capacity())
    }

    /// The pool with the least room of those that have enough.
    pub(super) fn tightest_pool(self, taken: impl Fn(&StorageCapacity) -> i64) -> Pooled {
        let Some(pools) = self.pools(&taken) else { return Ok(None) };
        let left = |pool: &&Arc<StorageCapacity>| {
            pool.capacity.map_or(i64::MAX, |capacity| capacity.saturating_sub(taken(pool)))
        };
        pools.min_by_key(left).cloned().map(Some).ok_or_else(|| self.no_capacity())
    }

    fn no_capacity(self) -> VolumeRefusal {
        let (claim, class) = (self.need.name.clone(), self.need.class.name.clone());
        VolumeRefusal::NoCapacity { claim, class, bytes: self.need.bytes() }
    }
}

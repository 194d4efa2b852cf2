//! Needs of a pod for volumes: its claims, sorted out once, and met on one node after another.
//!
//! Source: kube-scheduler, `volumebinding/volume_binding.go` and `binder.go`;
//! `component-helpers/storage/volume/pv_helpers.go`.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::matching::rearrange;
use super::offers::{Offer, is_alike, suits};
use super::refusal::VolumeRefusal;
use super::selector::reaches;
use crate::base::{ObjectName, Row};
use crate::model::{
    BindingMode, PodShape, PodVolume, StorageCapacity, StorageClass, Volume, VolumeBindings,
    VolumeClaim,
};
use crate::state::cluster::Cluster;
use crate::state::storage::delayed::{Candidates, Delayed};
use crate::state::storage::planned::{Source, Taking};
use crate::state::storage::tables::Storage;
use crate::state::view::NodeView;

/// The claims of a pod, sorted out: those that are bound, and those that the node of their first pod
/// decides.
///
/// ```
/// use phalanx::model::{NodeSelector, NodeSelectorTerm, Operator, Requirement};
/// use phalanx::model::{StorageClass, Volume, VolumeClaim};
/// use phalanx::state::VolumeNeeds;
/// use phalanx::{Cluster, Node, Pod};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).label("host", name))?;
/// }
/// cluster.set_storage(StorageClass::new("local", ""))?;
/// let n2 = NodeSelectorTerm::labels([Requirement::new("host", Operator::In, ["n2"])]);
/// let disk = Volume::new("disk", 100).class("local").reached_by(NodeSelector::any_of([n2]));
/// cluster.set_storage(disk)?;
/// cluster.set_storage(VolumeClaim::new("default", "data").class("local").request(80))?;
///
/// let pod = Pod::new().volume_claim("data");
/// let needs = VolumeNeeds::of(&cluster, pod.shape())?;
/// let refusal = needs.choose(cluster.node("n1").unwrap()).unwrap_err();
/// assert_eq!(
///     refusal.to_string(),
///     "claim default/data: no free volume of class local suits it"
/// );
/// let choice = needs.choose(cluster.node("n2").unwrap())?;
/// assert_eq!(choice.bindings().bind, [("default/data".parse()?, "disk".into())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct VolumeNeeds {
    bound: Vec<Bound>,
    /// In the order of the pod's volumes.
    delayed: Vec<Arc<Delayed>>,
}

#[derive(Debug, Clone)]
struct Bound {
    claim: ObjectName,
    name: String,
    volume: Option<Arc<Volume>>,
}

/// The volumes that a pod's claims get on a node.
#[derive(Debug, Clone, Default)]
pub struct VolumeChoice {
    /// By claim.
    pub(super) taken: Vec<Taking>,
}

/// A claim for which a volume is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provision<'a> {
    /// The claim.
    pub claim: &'a VolumeClaim,
    /// The pool it is made from; `None` if nobody says what is left.
    pub pool: Option<&'a StorageCapacity>,
}

/// A claim that is bound when its first pod is placed, with what suits it.
fn delayed(storage: &Storage, claim: &Arc<VolumeClaim>, class: &Arc<StorageClass>) -> Delayed {
    let selected = storage.selected_node(claim).map(String::from);
    let mut own = None;
    let mut volumes = Vec::new();
    if selected.is_none() {
        let alike = storage.volumes_of_class(&claim.class);
        for volume in alike.filter(|volume| is_alike(volume, claim)) {
            if storage.is_set_aside_for(volume, claim) {
                own.get_or_insert_with(|| Arc::clone(volume));
            } else if !storage.is_set_aside_for_another(volume, claim) && suits(volume, claim) {
                volumes.push(Arc::clone(volume));
            }
        }
    }
    let tracked = storage.driver(&class.provisioner).is_some_and(|driver| driver.tracks_capacity);
    let pools = storage.capacities.0.values().map(|(pool, _)| pool);
    let pools = || pools.filter(|pool| pool.class == claim.class).cloned().collect();
    Delayed {
        name: claim.full_name(),
        claim: Arc::clone(claim),
        class: Arc::clone(class),
        selected,
        own,
        candidates: Candidates::new(volumes),
        pools: (tracked && claim.request.is_some()).then(pools),
    }
}

impl VolumeNeeds {
    /// The needs of a pod. O(claims · log claims), and for each claim that is not bound O(volumes of
    /// its class).
    ///
    /// # Errors
    /// No node will do: why.
    pub fn of(cluster: &Cluster, pod: &PodShape) -> Result<VolumeNeeds, VolumeRefusal> {
        let storage = &cluster.storage;
        let mut claims: SmallVec<[&Arc<VolumeClaim>; 4]> = SmallVec::new();
        for volume in &pod.volumes {
            let Some(name) = volume.claim() else { continue };
            let claim = || ObjectName::new(&pod.namespace, name);
            let found = storage.shared_claim(&pod.namespace, name);
            let found = found.ok_or_else(|| VolumeRefusal::NoClaim { claim: claim() })?;
            if found.lost {
                return Err(VolumeRefusal::Lost { claim: claim() });
            }
            if found.deleting {
                return Err(VolumeRefusal::Deleting { claim: claim() });
            }
            if let PodVolume::Ephemeral { owner, .. } = volume
                && (owner.is_empty() || found.owner != *owner)
            {
                return Err(VolumeRefusal::NotOwned { claim: claim() });
            }
            if !claims.iter().any(|own| Arc::ptr_eq(own, found)) {
                claims.push(found);
            }
        }
        let mut needs = VolumeNeeds::default();
        let mut unbound = None;
        for claim in claims {
            if claim.is_bound() {
                let volume = storage.volumes.get(&claim.volume).cloned();
                let name = claim.volume.clone();
                needs.bound.push(Bound { claim: claim.full_name(), name, volume });
                continue;
            }
            let class =
                if claim.class.is_empty() { None } else { storage.classes.get(&claim.class) };
            let Some(class) = class else {
                unbound.get_or_insert_with(|| claim.full_name());
                continue;
            };
            match class.binding {
                None => {
                    let (claim, class) = (claim.full_name(), class.name.clone());
                    return Err(VolumeRefusal::NoBindingMode { claim, class });
                }
                Some(BindingMode::WaitForFirstConsumer) if claim.volume.is_empty() => {
                    needs.delayed.push(Arc::new(delayed(storage, claim, class)));
                }
                Some(_) => {
                    unbound.get_or_insert_with(|| claim.full_name());
                }
            }
        }
        match unbound {
            Some(claim) => Err(VolumeRefusal::Unbound { claim }),
            None => Ok(needs),
        }
    }

    /// Whether the pod has no claims.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.delayed.is_empty()
    }

    /// The volumes that the claims get on a node, with what pods of the same transaction hold.
    ///
    /// A claim gets the smallest volume that suits it, the smallest claim first; where there is
    /// none, one is made. Each claim is held against pools alone, as kube-scheduler does, but for what
    /// other pods of the transaction take of them. In the search for a gang, claims of the pod and
    /// of members that are placed hand over volumes where that helps.
    ///
    /// O(claims · volumes that the node reaches).
    ///
    /// # Errors
    /// The node will not do: why.
    pub fn choose(&self, node: NodeView<'_>) -> Result<VolumeChoice, VolumeRefusal> {
        let refusal = match self.choose_in_turn(node) {
            Ok(choice) => return Ok(choice),
            Err(refusal) => refusal,
        };
        let moved = self.rearranged(node, &refusal).ok_or(refusal)?;
        let own = moved.into_iter().filter(|taking| self.names(taking));
        Ok(VolumeChoice { taken: own.collect() })
    }

    /// Who gets what if the pod is placed on a node: its own claims, and those of pods placed before
    /// that hand something over. `None` if it cannot be placed there.
    pub(super) fn take(&self, node: NodeView<'_>) -> Option<Vec<Taking>> {
        match self.choose_in_turn(node) {
            Ok(choice) => Some(choice.taken),
            Err(refusal) => self.rearranged(node, &refusal),
        }
    }

    /// Volumes that a plan gives the claims on a node, if they can have them.
    pub(super) fn hold(
        &self,
        node: NodeView<'_>,
        bindings: &VolumeBindings,
    ) -> Result<Vec<Taking>, VolumeRefusal> {
        self.check_bound(node)?;
        let planned = &node.cluster().storage.planned;
        let mut takings = Vec::with_capacity(self.delayed.len());
        for need in &self.delayed {
            let claim = || need.name.clone();
            let given = bindings.bind.iter().find(|(name, _)| *name == need.name);
            let source = if let Some((_, volume)) = given {
                let is_free = || planned.holder(volume).is_none_or(|holder| *holder == need.name);
                let found = Offer::new(need, node)
                    .volumes()
                    .find(|other| other.name == *volume && is_free());
                let none = || VolumeRefusal::OutOfReach { claim: claim(), volume: volume.clone() };
                Source::Volume(Arc::clone(found.ok_or_else(none)?))
            } else if bindings.provision.contains(&need.name) {
                let other = need.selected.as_ref().filter(|selected| *selected != node.name());
                if let Some(other) = other.cloned() {
                    return Err(VolumeRefusal::SelectedElsewhere { claim: claim(), node: other });
                }
                match planned.source(&need.name) {
                    // A pod before it uses the claim too: it has its part of the pool.
                    Some((source @ Source::Made(_), row)) if row == node.row() => source.clone(),
                    _ => {
                        Offer::new(need, node).is_made()?;
                        Source::Made(Offer::new(need, node).pool(planned)?)
                    }
                }
            } else {
                return Err(VolumeRefusal::Unbound { claim: claim() });
            };
            takings.push(Taking { need: Arc::clone(need), source });
        }
        Ok(takings)
    }

    /// Whether a claim is one of the pod.
    pub(super) fn names(&self, taking: &Taking) -> bool {
        self.delayed.iter().any(|own| own.name == taking.need.name)
    }

    fn rearranged(&self, node: NodeView<'_>, refusal: &VolumeRefusal) -> Option<Vec<Taking>> {
        let planned = &node.cluster().storage.planned;
        if !planned.rearranges || !refusal.is_of_rivals() {
            return None;
        }
        self.check_bound(node).ok()?;
        rearrange(node.cluster(), planned, &self.delayed, node)
    }

    fn check_bound(&self, node: NodeView<'_>) -> Result<(), VolumeRefusal> {
        for Bound { claim, name, volume } in &self.bound {
            let (claim, name) = (|| claim.clone(), || name.clone());
            let Some(volume) = volume else {
                return Err(VolumeRefusal::NoVolume { claim: claim(), volume: name() });
            };
            let limits = node.cluster().storage.limits(node.name());
            if !reaches(volume.affinity_on(limits), node) {
                return Err(VolumeRefusal::OutOfReach { claim: claim(), volume: name() });
            }
        }
        Ok(())
    }

    fn choose_in_turn(&self, node: NodeView<'_>) -> Result<VolumeChoice, VolumeRefusal> {
        self.check_bound(node)?;
        if self.delayed.is_empty() {
            return Ok(VolumeChoice::default());
        }
        let planned = &node.cluster().storage.planned;
        let mut made: SmallVec<[&Arc<Delayed>; 4]> = SmallVec::new();
        let mut open: SmallVec<[&Arc<Delayed>; 4]> = SmallVec::new();
        let mut taken: Vec<Taking> = Vec::with_capacity(self.delayed.len());
        for need in &self.delayed {
            let elsewhere = |other: &str| {
                let node = other.into();
                Err(VolumeRefusal::SelectedElsewhere { claim: need.name.clone(), node })
            };
            match planned.source(&need.name) {
                Some((Source::Volume(volume), _))
                    if !reaches(volume.node_affinity.as_ref(), node) =>
                {
                    let (claim, volume) = (need.name.clone(), volume.name.clone());
                    return Err(VolumeRefusal::OutOfReach { claim, volume });
                }
                Some((Source::Made(_), row)) if row != node.row() => {
                    let other = node.cluster().view(row).map_or("", NodeView::name);
                    return elsewhere(other);
                }
                Some((source, _)) => {
                    taken.push(Taking { need: Arc::clone(need), source: source.clone() });
                    continue;
                }
                None => {}
            }
            match &need.selected {
                Some(selected) if selected != node.name() => return elsewhere(selected),
                Some(_) => made.push(need),
                None => open.push(need),
            }
        }
        open.sort_by_key(|need| need.bytes());
        for need in open {
            let is_free = |volume: &&Arc<Volume>| {
                planned.holder(&volume.name).is_none()
                    && !taken.iter().any(|taking| taking.has(&volume.name))
            };
            match Offer::new(need, node).volumes().find(is_free) {
                Some(volume) => {
                    let source = Source::Volume(Arc::clone(volume));
                    taken.push(Taking { need: Arc::clone(need), source });
                }
                None => made.push(need),
            }
        }
        for need in made {
            Offer::new(need, node).is_made()?;
            let pool = Offer::new(need, node).pool(planned)?;
            taken.push(Taking { need: Arc::clone(need), source: Source::Made(pool) });
        }
        Ok(VolumeChoice { taken })
    }

    /// The claims that are not bound.
    pub(crate) fn unbound(&self) -> impl Iterator<Item = &ObjectName> {
        self.delayed.iter().map(|need| &need.name)
    }

    /// Volumes that each unbound claim may get on a row, rivals' among them; `None` in place of
    /// volumes if one can be made. `None` for all if a claim cannot be met there, whoever hands
    /// over a volume.
    pub(crate) fn options<'a>(
        &'a self,
        cluster: &'a Cluster,
        row: Row,
    ) -> Option<Vec<Option<Vec<&'a str>>>> {
        let node = cluster.view(row)?;
        self.check_bound(node).ok()?;
        let options = self.delayed.iter().map(|need| match &need.selected {
            Some(selected) => (selected == node.name()).then_some(None),
            None if Offer::new(need, node).is_made().is_ok() => Some(None),
            None => {
                Some(Some(Offer::new(need, node).volumes().map(|volume| &*volume.name).collect()))
            }
        });
        options.collect()
    }
}

impl VolumeChoice {
    /// Who gets what, by name of claim.
    pub fn bindings(&self) -> VolumeBindings {
        let mut bindings = VolumeBindings::default();
        for Taking { need, source } in &self.taken {
            match source {
                Source::Volume(volume) => {
                    bindings.bind.push((need.name.clone(), volume.name.clone()));
                }
                Source::Made(_) => bindings.provision.push(need.name.clone()),
            }
        }
        bindings.bind.sort_unstable();
        bindings.provision.sort_unstable();
        bindings
    }

    /// The claims that get volumes that are there.
    pub fn bound(&self) -> impl Iterator<Item = (&VolumeClaim, &Volume)> {
        self.taken.iter().filter_map(|taking| match &taking.source {
            Source::Volume(volume) => Some((&*taking.need.claim, &**volume)),
            Source::Made(_) => None,
        })
    }

    /// The claims for which volumes are made.
    pub fn provisioned(&self) -> impl Iterator<Item = Provision<'_>> {
        self.taken.iter().filter_map(|taking| match &taking.source {
            Source::Volume(_) => None,
            Source::Made(pool) => {
                Some(Provision { claim: &taking.need.claim, pool: pool.as_deref() })
            }
        })
    }
}

//! Claims of a gang and volumes, matched anew when one more member is placed.
//!
//! Claims that no volume can be made for are matched first, by augmenting paths: if all of them can
//! get volumes at once, they do. All others get volumes that are left, the largest claim first, and
//! pools serve the rest. Whether that is possible depends on where the members are, not on the
//! order in which they were placed. Short pools are the exception: they are packed largest first,
//! the fullest pool that has room first, which may miss a packing.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::offers::Offer;
use crate::base::{ObjectName, Row};
use crate::model::{StorageCapacity, Volume};
use crate::state::cluster::Cluster;
use crate::state::storage::delayed::Delayed;
use crate::state::storage::planned::{Planned, Source, Taking};
use crate::state::view::NodeView;

/// A claim with the volumes that all of its pods reach.
struct Rival<'a> {
    need: &'a Arc<Delayed>,
    volumes: Vec<&'a Arc<Volume>>,
    /// The node that a volume can be made for.
    made_on: Option<NodeView<'a>>,
    /// The place of its volume among `volumes`.
    has: Option<usize>,
}

/// The claims of a transaction and those of a pod on a node, each with what it gets; those that keep
/// what they have are left out. `None` if not all can be met.
pub(super) fn rearrange(
    cluster: &Cluster,
    planned: &Planned,
    own: &[Arc<Delayed>],
    node: NodeView<'_>,
) -> Option<Vec<Taking>> {
    let mut rivals: Vec<Rival<'_>> = Vec::new();
    for claim in planned.claims() {
        let shares = own.iter().any(|own| own.name == claim.taking.need.name);
        let rows = claim.rows.iter().copied().chain(shares.then_some(node.row()));
        rivals.push(Rival::new(cluster, &claim.taking.need, rows)?);
    }
    for need in own.iter().filter(|own| planned.claim(&own.name).is_none()) {
        rivals.push(Rival::new(cluster, need, [node.row()].into_iter())?);
    }
    let mut matching = Matching { holders: BTreeMap::new(), rivals };
    matching.keep(planned);
    matching.run()?;
    let pools = matching.pools()?;
    let takings = matching.rivals.iter().zip(pools).map(|(rival, pool)| {
        let source = match rival.has {
            Some(place) => Source::Volume(Arc::clone(rival.volumes[place])),
            None => Source::Made(pool),
        };
        Taking { need: Arc::clone(rival.need), source }
    });
    let is_kept = |taking: &Taking| {
        let known = planned.claim(&taking.need.name).map(|claim| &claim.taking.source);
        let kept = match (known, &taking.source) {
            (Some(Source::Volume(had)), Source::Volume(has)) => had.name == has.name,
            (Some(Source::Made(had)), Source::Made(has)) => had == has,
            _ => false,
        };
        kept && !own.iter().any(|own| own.name == taking.need.name)
    };
    Some(takings.filter(|taking| !is_kept(taking)).collect())
}

impl<'a> Rival<'a> {
    /// `None` if it cannot be met.
    fn new(
        cluster: &'a Cluster,
        need: &'a Arc<Delayed>,
        rows: impl Iterator<Item = Row>,
    ) -> Option<Rival<'a>> {
        let nodes: Vec<NodeView<'a>> = rows.filter_map(|row| cluster.view(row)).collect();
        let first = *nodes.first()?;
        let alone = nodes.iter().all(|node| node.row() == first.row());
        let made_on = Some(first).filter(|node| match &need.selected {
            Some(selected) => alone && selected == node.name(),
            None => alone && Offer::new(need, *node).is_made().is_ok(),
        });
        let mut volumes: Vec<&Arc<Volume>> = Vec::new();
        if need.selected.is_none() {
            volumes.extend(Offer::new(need, first).volumes());
            for node in nodes.iter().filter(|node| node.row() != first.row()) {
                let there: Vec<&Arc<Volume>> = Offer::new(need, *node).volumes().collect();
                volumes.retain(|volume| there.iter().any(|other| other.name == volume.name));
            }
        }
        (made_on.is_some() || !volumes.is_empty()).then_some(Rival {
            need,
            volumes,
            made_on,
            has: None,
        })
    }
}

/// Volumes and the rivals that hold them.
struct Matching<'a> {
    rivals: Vec<Rival<'a>>,
    /// By name of volume.
    holders: BTreeMap<&'a str, usize>,
}

impl<'a> Matching<'a> {
    /// Begins with what claims hold already, where they can keep it.
    fn keep(&mut self, planned: &Planned) {
        for (at, rival) in self.rivals.iter_mut().enumerate() {
            let known = planned.claim(&rival.need.name).map(|claim| &claim.taking);
            let place = rival.volumes.iter().position(|v| known.is_some_and(|k| k.has(&v.name)));
            if let Some(place) = place {
                rival.has = Some(place);
                self.holders.insert(&rival.volumes[place].name, at);
            }
        }
    }

    fn run(&mut self) -> Option<()> {
        let must = |rival: &Rival<'_>| rival.made_on.is_none();
        for at in 0..self.rivals.len() {
            if must(&self.rivals[at]) && self.rivals[at].has.is_none() {
                let mut seen = vec![false; self.rivals.len()];
                if !self.augment(at, &mut seen, true) {
                    return None;
                }
            }
        }
        let mut rest: Vec<usize> = (0..self.rivals.len())
            .filter(|at| !must(&self.rivals[*at]) && self.rivals[*at].has.is_none())
            .collect();
        rest.sort_by_key(|at| core::cmp::Reverse(self.rivals[*at].need.bytes()));
        for at in rest {
            let mut seen = vec![false; self.rivals.len()];
            self.augment(at, &mut seen, false);
        }
        Some(())
    }

    /// Finds a volume for a claim; those that hold one look for another, once, or, with `evicting`,
    /// do without if one can be made for them.
    fn augment(&mut self, at: usize, seen: &mut [bool], evicting: bool) -> bool {
        seen[at] = true;
        for place in 0..self.rivals[at].volumes.len() {
            let name: &'a str = &self.rivals[at].volumes[place].name;
            let freed = match self.holders.get(name).copied() {
                None => true,
                Some(other) => {
                    !seen[other]
                        && (self.augment(other, seen, evicting)
                            || evicting && self.rivals[other].made_on.is_some() && {
                                self.rivals[other].has = None;
                                true
                            })
                }
            };
            if freed {
                self.holders.insert(name, at);
                self.rivals[at].has = Some(place);
                return true;
            }
        }
        false
    }

    /// The pools that volumes are made from, one entry a rival; `None` if they do not suffice.
    fn pools(&self) -> Option<Vec<Option<Arc<StorageCapacity>>>> {
        let mut pools = vec![None; self.rivals.len()];
        let mut taken: BTreeMap<ObjectName, i64> = BTreeMap::new();
        let made = |at: &usize| self.rivals[*at].has.is_none();
        let mut order: Vec<usize> = (0..self.rivals.len()).filter(made).collect();
        order.sort_by_key(|at| core::cmp::Reverse(self.rivals[*at].need.bytes()));
        for at in order {
            let rival = &self.rivals[at];
            let count = |pool: &StorageCapacity| taken.get(&pool.full_name()).copied().unwrap_or(0);
            let pool = Offer::new(rival.need, rival.made_on?).tightest_pool(count).ok()?;
            if let Some(pool) = &pool {
                let taken = taken.entry(pool.full_name()).or_default();
                *taken = taken.saturating_add(rival.need.bytes());
            }
            pools[at] = pool;
        }
        Some(pools)
    }
}

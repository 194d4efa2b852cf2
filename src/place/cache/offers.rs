//! Offers of nodes to claims: the devices that kinds of claims get on each row, one pod after another.
//!
//! An offer holds as long as the same is published and the pools of the node are used as they were,
//! which their stamps tell. Kinds are claims of one pod, by name and specification, so that pods whose
//! claims differ in their objects alone share offers.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::base::hash::FixedMap;
use crate::claims::{How, PreparedClaims};
use crate::framework::Framework;
use crate::model::{Allocation, ClaimAllocation, ClaimSpec};
use crate::state::{Cluster, Devices, NodeId, NodeView, PoolKey, Row, pool_key};

/// Kinds kept at most, and offers of all kinds together.
const KINDS: usize = 256;
const OFFERS: usize = 1 << 20;

/// The claims of one pod, by their names in it.
pub(crate) type Specs<'a> = [(&'a str, &'a Arc<ClaimSpec>)];

/// Offers by kind.
#[derive(Default)]
pub(crate) struct Offers {
    framework: Option<Framework>,
    /// The stamp of what is published.
    published: Option<u64>,
    /// Whether each device is reached by one node.
    is_local: bool,
    kinds: Vec<Kind>,
    kept: usize,
    /// Emptied, for reuse.
    guests: Guests,
}

impl core::fmt::Debug for Offers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Offers").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// Claims of one kind, and what rows offer to them.
struct Kind {
    specs: Vec<(String, Arc<ClaimSpec>)>,
    /// `None` if a class that they name does not exist.
    claims: Option<PreparedClaims>,
    rows: FixedMap<u32, Offer>,
}

/// The offers of one row.
struct Offer {
    node: NodeId,
    /// The pools of the node, and the last change of what is in use of each.
    pools: Box<[(PoolKey, u64)]>,
    /// The last change of any pool that this was found right after.
    seen: u64,
    /// The devices of one pod after another.
    pods: SmallVec<[Devices; 2]>,
    /// Whether no pod gets devices after those.
    is_all: bool,
}

/// Members placed on a row by the decision under way.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    rows: FixedMap<u32, SmallVec<[(u32, Devices); 1]>>,
}

impl Guests {
    /// Adds a member of a kind.
    pub(crate) fn add(&mut self, row: Row, kind: u32, devices: Devices) {
        self.rows.entry(row.as_u32()).or_default().push((kind, devices));
    }

    /// Takes back the last member on a row.
    pub(crate) fn remove_last(&mut self, row: Row) {
        if let Some(guests) = self.rows.get_mut(&row.as_u32()) {
            guests.pop();
        }
    }

    fn on(&self, row: Row) -> &[(u32, Devices)] {
        self.rows.get(&row.as_u32()).map_or(&[], SmallVec::as_slice)
    }
}

impl Offers {
    /// Room for the members of the next decision.
    pub(crate) fn take_guests(&mut self) -> Guests {
        core::mem::take(&mut self.guests)
    }

    /// Keeps the room for the decision after it. O(capacity).
    pub(crate) fn give_back(&mut self, mut guests: Guests) {
        guests.rows.clear();
        self.guests = guests;
    }

    /// Brings the offers up to date. False if devices are published that several nodes reach: what a
    /// row offers then depends on others.
    pub(crate) fn sync(&mut self, cluster: &Cluster, framework: &Framework) -> bool {
        let published = cluster.claims().published();
        let known = self.published == Some(published.stamp)
            && self.framework.as_ref().is_some_and(|known| known.same(framework));
        if !known {
            self.framework = Some(framework.clone());
            self.published = Some(published.stamp);
            self.is_local = published.is_local();
        }
        if !known || self.kinds.len() > KINDS || self.kept > OFFERS {
            self.kinds.clear();
            self.kept = 0;
        }
        self.is_local
    }

    /// The kind of some claims.
    pub(crate) fn kind(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        specs: &Specs<'_>,
    ) -> u32 {
        let same = |kind: &Kind| {
            let pairs = kind.specs.iter().zip(specs);
            kind.specs.len() == specs.len()
                && pairs.into_iter().all(|(own, spec)| own.0 == spec.0 && own.1 == *spec.1)
        };
        if let Some(place) = self.kinds.iter().position(same) {
            return place as u32;
        }
        let (book, evaluator) = (cluster.claims(), framework.selectors());
        let claims = PreparedClaims::of_specs(book, evaluator, specs.iter().copied());
        let specs = specs.iter().map(|(name, spec)| (String::from(*name), Arc::clone(spec)));
        let specs = specs.collect();
        self.kinds.push(Kind { specs, claims, rows: FixedMap::default() });
        self.kinds.len() as u32 - 1
    }

    /// The devices that a pod of a kind gets on a row beside the members placed there; `None` if it
    /// cannot have its devices.
    pub(crate) fn find(
        &mut self,
        cluster: &Cluster,
        (row, kind): (Row, u32),
        guests: &Guests,
    ) -> Option<Devices> {
        let Kind { claims, rows, .. } = &mut self.kinds[kind as usize];
        let claims = claims.as_ref()?;
        let node = cluster.view(row)?;
        let held = guests.on(row);
        if held.iter().any(|(other, _)| *other != kind) {
            return search(claims, cluster, node, held.iter().map(|(_, devices)| devices));
        }
        let offer = rows.entry(row.as_u32()).or_insert_with(|| Offer::new(cluster, node));
        if !offer.holds(cluster, node) {
            *offer = Offer::new(cluster, node);
        }
        while offer.pods.len() <= held.len() && !offer.is_all {
            match search(claims, cluster, node, offer.pods.iter()) {
                Some(devices) => offer.pods.push(devices),
                None => offer.is_all = true,
            }
            self.kept += 1;
        }
        offer.pods.get(held.len()).cloned()
    }
}

impl Offer {
    fn new(cluster: &Cluster, node: NodeView<'_>) -> Offer {
        let book = cluster.claims();
        let published = book.published();
        let own = published.by_node.get(node.name()).map_or(&[][..], |slices| slices);
        // Slices with counters are of the pools of devices, as those are of one node.
        let own = own.iter().map(|own| pool_key(&own.driver, &own.pool));
        let mut pools: Vec<PoolKey> = own.collect();
        pools.sort_unstable();
        pools.dedup();
        let stamped = pools.into_iter().map(|pool| {
            let stamp = book.pool_stamp(&pool);
            (pool, stamp)
        });
        Offer {
            node: node.id(),
            pools: stamped.collect(),
            seen: book.usage_stamp(),
            pods: SmallVec::new(),
            is_all: false,
        }
    }

    fn holds(&mut self, cluster: &Cluster, node: NodeView<'_>) -> bool {
        let book = cluster.claims();
        let now = book.usage_stamp();
        let holds = self.node == node.id()
            && (self.seen == now
                || self.pools.iter().all(|(pool, stamp)| book.pool_stamp(pool) == *stamp));
        self.seen = now;
        holds
    }
}

/// Searches for the devices of a pod on a node where members hold others.
fn search<'d>(
    claims: &PreparedClaims,
    cluster: &Cluster,
    node: NodeView<'_>,
    held: impl Iterator<Item = &'d Devices>,
) -> Option<Devices> {
    let mut held = held.peekable();
    let more = held.peek().is_some().then(|| {
        let allocations = held.flat_map(Devices::claims);
        let allocations =
            allocations.map(|own: &ClaimAllocation| -> &Allocation { &own.allocation });
        cluster.claims().with_more(allocations)
    });
    let mut found = None;
    let how = How { more: more.as_ref(), ..How::default() };
    let accepted = claims.each(cluster, node, how, &mut |offer| {
        found = Some(Devices::of_claims(offer));
        true
    });
    accepted.ok().and(found)
}

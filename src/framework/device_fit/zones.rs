//! Resources of containers aligned with the NUMA zones of a node, as kubelet's topology manager does.
//!
//! Each resource that some zone lists has *hints*: every set of zones that has the amount free now. A
//! hint is *preferred* if no smaller set could hold the amount on an empty node. Hints, one a
//! resource, are merged by intersection; the merged hint is preferred if all of them are, and are
//! equal. A preferred merger wins, then a narrow one, then one of low numbers.

use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::model::{Amounts, ZoneAsk, ZonePart, ZonePolicy, ZoneScope, ZoneShare};
use crate::state::{NodeView, ZoneRoom};

/// A set of zones, a bit for each by place.
type Mask = u32;

/// Amounts of zones that a pod would get on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZonePlan {
    /// Amounts by zone, in order of number; nothing where the node does not align.
    pub shares: Vec<ZoneShare>,
    /// Whether the hint of every container, or of the pod, is preferred.
    pub aligned: bool,
    /// How many zones the widest of those hints has; 0 where nothing is aligned.
    pub width: usize,
}

/// Amounts of zones that a pod gets on a node; `None` if the node does not admit it.
///
/// A node without zones, or without a policy, admits every pod that asks for no policy, and gives it
/// nothing. O(2^zones × resources) for each container, and with
/// [`ZonePolicy::BestEffort`] O(4^zones × resources).
///
/// ```
/// use phalanx::framework::align_zones;
/// use phalanx::model::{Zone, ZonePart, ZonePolicy, ZoneScope};
/// use phalanx::{Cluster, Node, Pod};
///
/// // Six CPUs need both zones of four, a GPU needs one: the sets differ.
/// let zone = |number| Zone::new(number).capacity("cpu", 4_000).capacity("gpu", 1);
/// let node = Node::new("n1").zone(zone(0)).zone(zone(1));
/// let mut cluster = Cluster::new();
/// cluster.add_node(node.aligning(ZonePolicy::Restricted, ZoneScope::Container))?;
/// let pod = |cpu| Pod::new().zone_part(ZonePart::new().amount("cpu", cpu).amount("gpu", 1));
/// let node = cluster.node("n1").unwrap();
/// assert!(align_zones(node, &pod(6_000).shape().zones).is_none());
/// assert_eq!(align_zones(node, &pod(3_000).shape().zones).unwrap().shares.len(), 1);
/// # Ok::<(), phalanx::StateError>(())
/// ```
pub fn align_zones(node: NodeView<'_>, ask: &ZoneAsk) -> Option<ZonePlan> {
    let nothing = ZonePlan { shares: Vec::new(), aligned: false, width: 0 };
    let policy = node.zone_room().map_or(ZonePolicy::None, ZoneRoom::policy);
    if policy < ask.least {
        return None;
    }
    let room = match node.zone_room() {
        Some(room) if policy != ZonePolicy::None && !ask.parts.is_empty() => room,
        _ => return Some(nothing),
    };
    let mut taken =
        Taken { room, free: room.all_free().to_vec(), held: vec![Amounts::new(); room.len()] };
    let mut plan = ZonePlan { aligned: true, ..nothing };
    let whole;
    let parts = match room.scope() {
        ZoneScope::Container => &ask.parts[..],
        ZoneScope::Pod => {
            whole = [ask.whole()];
            &whole[..]
        }
    };
    for part in parts {
        let wants = wants(&taken, part);
        let (mask, preferred) = merged(&taken, &wants, policy)?;
        if wants.is_empty() {
            continue;
        }
        plan.aligned &= preferred;
        plan.width = plan.width.max(mask.count_ones() as usize);
        if !part.passing {
            wants.iter().for_each(|want| taken.take(want, mask));
        }
    }
    plan.aligned &= plan.width > 0;
    let shares = taken.held.into_iter().enumerate().filter(|(_, held)| !held.is_empty());
    plan.shares = shares.map(|(zone, held)| ZoneShare::new(room.number(zone), held)).collect();
    Some(plan)
}

/// [`align_zones`] without the verdict on it.
pub(crate) fn zone_shares(node: NodeView<'_>, ask: &ZoneAsk) -> Option<Vec<ZoneShare>> {
    if ask.is_empty() {
        return Some(Vec::new());
    }
    align_zones(node, ask).map(|plan| plan.shares)
}

/// Free amounts of zones while a pod is laid out.
struct Taken<'a> {
    room: ZoneRoom<'a>,
    free: Vec<i64>,
    held: Vec<Amounts>,
}

/// An amount of a resource that has a place on the node.
struct Want<'p> {
    name: &'p str,
    resource: usize,
    amount: i64,
    /// How few zones could hold it on an empty node; `None` if all together could not.
    fewest: Option<u32>,
}

impl Taken<'_> {
    fn free(&self, zone: usize, resource: usize) -> i64 {
        self.free.get(zone * self.room.resources() + resource).copied().unwrap_or(0).max(0)
    }

    fn zones(mask: Mask) -> impl Iterator<Item = usize> {
        (0..Mask::BITS as usize).filter(move |zone| mask >> zone & 1 == 1)
    }

    /// Whether a set of zones has an amount free.
    fn serves(&self, want: &Want<'_>, mask: Mask) -> bool {
        let free = Self::zones(mask).map(|zone| self.free(zone, want.resource));
        free.fold(0, i64::saturating_add) >= want.amount
    }

    /// Takes an amount of some zones in order, and what they lack of the others.
    fn take(&mut self, want: &Want<'_>, mask: Mask) {
        let all = (1 << self.room.len()) - 1;
        let mut rest = want.amount;
        for zone in Self::zones(mask).chain(Self::zones(all & !mask)) {
            let amount = rest.min(self.free(zone, want.resource));
            if amount <= 0 {
                continue;
            }
            rest -= amount;
            self.free[zone * self.room.resources() + want.resource] -= amount;
            let held = &mut self.held[zone];
            held.set(want.name, held.of(want.name).saturating_add(amount));
        }
    }
}

/// The amounts of a container that have a place on the node.
fn wants<'p>(taken: &Taken<'_>, part: &'p ZonePart) -> SmallVec<[Want<'p>; 4]> {
    let asked = part.amounts.iter().filter(|(_, amount)| *amount > 0);
    let want = |(name, amount): (&'p str, i64)| {
        let resource = taken.room.resource(name)?;
        let mut sizes: Vec<i64> =
            (0..taken.room.len()).map(|zone| taken.room.capacity(zone, resource)).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let mut sum = 0_i64;
        let enough = sizes.iter().position(|size| {
            sum = sum.saturating_add(*size);
            sum >= amount
        });
        Some(Want { name, resource, amount, fewest: enough.map(|at| at as u32 + 1) })
    };
    asked.filter_map(want).collect()
}

/// The best merger of hints, and whether it is preferred; `None` if the policy does not admit it.
fn merged(taken: &Taken<'_>, wants: &[Want<'_>], policy: ZonePolicy) -> Option<(Mask, bool)> {
    let all: Mask = (1 << taken.room.len()) - 1;
    if wants.is_empty() {
        return Some((all, true));
    }
    let fewest = wants[0].fewest;
    let alike = fewest.filter(|_| wants.iter().all(|want| want.fewest == fewest));
    let alike = alike.filter(|&zones| zones == 1 || policy != ZonePolicy::SingleNumaNode);
    // All hints are one set, which is a narrowest for each of them.
    let preferred = alike.and_then(|zones| {
        let mut sets = (1..=all).filter(|mask| mask.count_ones() == zones);
        sets.find(|mask| wants.iter().all(|want| taken.serves(want, *mask)))
    });
    match (preferred, policy) {
        (Some(mask), _) => Some((mask, true)),
        (None, ZonePolicy::BestEffort) => Some((widest(taken, wants, all), false)),
        (None, _) => None,
    }
}

/// The best merger that is not preferred. It is as wide as the widest of the narrowest hints of
/// resources, or less, as little as may be; else as narrow as may be.
fn widest(taken: &Taken<'_>, wants: &[Want<'_>], all: Mask) -> Mask {
    let mut mergers = vec![false; all as usize + 1];
    mergers[all as usize] = true;
    let mut target = 0;
    for want in wants {
        let hints: Vec<Mask> = (1..=all).filter(|mask| taken.serves(want, *mask)).collect();
        let Some(narrowest) = hints.iter().map(|hint| hint.count_ones()).min() else { continue };
        target = target.max(narrowest);
        let mut next = vec![false; all as usize + 1];
        for merger in (0..=all).filter(|merger| mergers[*merger as usize]) {
            for hint in &hints {
                next[(merger & hint) as usize] = true;
            }
        }
        mergers = next;
    }
    let found = (1..=all).filter(|mask| mergers[*mask as usize]);
    let key = |mask: &Mask| {
        let zones = mask.count_ones();
        (zones > target, if zones > target { zones } else { target - zones }, *mask)
    };
    found.min_by_key(key).unwrap_or(all)
}

//! Lanes: pods of a gang that are placed alike, and the claims that its pods share.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::claims::{CONSUMERS, can_use, only_node, rank};
use crate::framework::Framework;
use crate::model::{Allocation, ClaimSource, ClaimSpec, RequestChoice};
use crate::place::cache::offers::{Guests, Offers};
use crate::place::gang::{Bare, Gang};
use crate::state::{Cluster, Devices, NodeView, Row};

/// The claims that a pod was the first to get devices for, by number.
pub(super) type Gift = SmallVec<[u32; 1]>;

/// A claim of the pods of a lane, by its name in them.
enum LaneClaim<'a> {
    /// Each pod has one for itself.
    Own(&'a str, &'a Arc<ClaimSpec>),
    /// One claim for all, by its number; the flag says whether its consumers are limited.
    Shared(&'a str, u32, bool),
}

impl LaneClaim<'_> {
    fn is_like(&self, other: &LaneClaim<'_>) -> bool {
        match (self, other) {
            (LaneClaim::Own(name, spec), LaneClaim::Own(other, their)) => {
                name == other && spec == their
            }
            (LaneClaim::Shared(name, number, limited), LaneClaim::Shared(other, their, theirs)) => {
                name == other && number == their && limited == theirs
            }
            _ => false,
        }
    }
}

/// Pods with one table that ask for the same devices.
#[allow(clippy::option_option, reason = "no single row, and none at all")]
pub(super) struct Lane<'a> {
    pub(super) table: usize,
    claims: Vec<LaneClaim<'a>>,
    /// Whether scores depend on the alternatives that a node offers.
    pub(super) is_ranked: bool,
    /// Whether a claim cannot be met anywhere, whatever is placed.
    is_void: bool,
    /// State of the shared claims that the rest was found for; `None` before.
    seen: Option<u64>,
    pub(super) version: u64,
    pub(super) is_refused: bool,
    /// The kind of the claims that have no devices yet; `None` if all have theirs.
    pub(super) kind: Option<u32>,
    /// The only row that reaches the devices of shared claims, `Some(None)` if none does; `None` if
    /// they confine to no single row.
    pub(super) home: Option<Option<Row>>,
    /// Shared claims whose devices several rows reach.
    beyond: SmallVec<[u32; 1]>,
}

impl Lane<'_> {
    /// The devices of a pod on a row; `None` if it cannot have them.
    #[allow(clippy::option_option, reason = "no devices needed, and none to be had")]
    pub(super) fn devices(
        &self,
        cluster: &Cluster,
        shared: &[Shared<'_>],
        row: Row,
        (offers, guests): (&mut Offers, &Guests),
    ) -> Option<Option<Devices>> {
        let reached = |number: &u32| {
            let allocation = shared[*number as usize].allocation.as_ref();
            let node = cluster.view(row);
            allocation.zip(node).is_none_or(|(allocation, node)| can_use(allocation, node))
        };
        if !self.beyond.iter().all(reached) {
            return None;
        }
        match self.kind {
            None => Some(None),
            Some(kind) => offers.find(cluster, (row, kind), guests).map(Some),
        }
    }

    /// The score of a row by the alternatives that these devices are of. Where nothing is left to
    /// allocate nothing counts.
    pub(super) fn rank(&self, shared: &[Shared<'_>], devices: Option<&Devices>) -> i64 {
        let Some(devices) = devices else { return 0 };
        let given = |name: &str| {
            let mut all = devices.claims().iter();
            all.find(|own| own.claim == name).map(|own| &own.allocation)
        };
        let ranks = self.claims.iter().map(|claim| match claim {
            LaneClaim::Own(name, spec) => given(name).map_or(0, |own| rank(spec, own)),
            LaneClaim::Shared(name, number, _) => {
                let Shared { spec, allocation, .. } = &shared[*number as usize];
                let known = allocation.as_ref().or_else(|| given(name));
                known.map_or(0, |own| rank(spec, own))
            }
        });
        ranks.sum()
    }

    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.claims.iter().filter_map(|claim| match claim {
            LaneClaim::Shared(_, number, _) => Some(*number),
            LaneClaim::Own(..) => None,
        })
    }
}

/// A claim that several pods may name.
pub(super) struct Shared<'a> {
    spec: &'a Arc<ClaimSpec>,
    allocation: Option<Arc<Allocation>>,
    /// Its consumers, those on nodes and those placed.
    users: u32,
}

/// The lanes of a gang.
pub(super) struct Lanes<'a> {
    pub(super) all: Vec<Lane<'a>>,
    /// The lane of each shape of the gang.
    pub(super) of_shape: SmallVec<[u32; 4]>,
    pub(super) shared: Vec<Shared<'a>>,
    /// The number of the last change of a shared claim.
    version: u64,
}

impl<'a> Lanes<'a> {
    /// The lanes of a gang. `None` if a pod has a claim for resources of nodes, one claim twice, or
    /// devices of its node.
    pub(super) fn of(cluster: &'a Cluster, gang: &'a Gang, bare: &'a Bare) -> Option<Lanes<'a>> {
        let mut pods = SmallVec::<[u32; 4]>::from_elem(0, gang.shapes());
        for &shape in gang.shape_of() {
            pods[shape as usize] += 1;
        }
        let mut users: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for (shape, pods) in gang.all_shapes().iter().zip(&pods) {
            for own in &shape.claims {
                if let ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } =
                    &own.source
                {
                    *users.entry((&shape.namespace, name)).or_default() += pods;
                }
            }
        }
        let mut lanes = Lanes {
            all: Vec::new(),
            of_shape: SmallVec::with_capacity(gang.shapes()),
            shared: Vec::new(),
            version: 0,
        };
        let mut numbers: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for (shape, table) in gang.all_shapes().iter().zip(&bare.of) {
            if !(shape.devices.is_empty() && shape.zones.is_empty()) {
                return None;
            }
            let mut lane = Lane {
                table: *table as usize,
                claims: Vec::new(),
                is_ranked: false,
                is_void: false,
                seen: None,
                version: 0,
                is_refused: false,
                kind: None,
                home: None,
                beyond: SmallVec::new(),
            };
            for own in &shape.claims {
                let (name, owners) = match &own.source {
                    ClaimSource::Own(spec) => {
                        lane.add(LaneClaim::Own(&own.name, spec), spec);
                        continue;
                    }
                    ClaimSource::Extended(_) => return None,
                    ClaimSource::Unmade => {
                        lane.is_void = true;
                        continue;
                    }
                    ClaimSource::Named(name) => (name, None),
                    ClaimSource::Made { claim, owners } => (claim, Some(owners)),
                };
                let record = cluster.claims().claim(&shape.namespace, name);
                let claim = record.and_then(|record| Some((record, record.claim()?)));
                let Some((record, claim)) = claim else {
                    lane.is_void = true;
                    continue;
                };
                let is_own = owners.is_none_or(|owners| owners.contains(&claim.owner));
                lane.is_void |= !is_own || claim.deleting;
                let (key, spec) = ((&*shape.namespace, &**name), &claim.spec);
                let is_alone = users.get(&key) == Some(&1);
                if is_alone && record.allocation().is_none() && record.holders() == 0 {
                    lane.add(LaneClaim::Own(&own.name, spec), spec);
                    continue;
                }
                let next = lanes.shared.len() as u32;
                let number = *numbers.entry(key).or_insert(next);
                if number == next {
                    let allocation = record.allocation().cloned();
                    lanes.shared.push(Shared { spec, allocation, users: record.holders() });
                }
                if lane.numbers().any(|other| other == number) {
                    return None;
                }
                lane.add(LaneClaim::Shared(&own.name, number, owners.is_none()), spec);
            }
            lanes.keep(lane);
        }
        Some(lanes)
    }

    /// Adds the lane of the next shape, unless there is one like it.
    fn keep(&mut self, lane: Lane<'a>) {
        let same = |other: &Lane<'_>| {
            let mut pairs = other.claims.iter().zip(&lane.claims);
            other.table == lane.table
                && other.is_void == lane.is_void
                && other.claims.len() == lane.claims.len()
                && pairs.all(|(other, own)| other.is_like(own))
        };
        let known = self.all.iter().position(same);
        self.of_shape.push(known.unwrap_or(self.all.len()) as u32);
        if known.is_none() {
            self.all.push(lane);
        }
    }

    /// Brings a lane up to date with the claims that its pods share with others.
    pub(super) fn update(
        &mut self,
        number: u32,
        cluster: &Cluster,
        framework: &Framework,
        offers: &mut Offers,
    ) {
        let lane = &mut self.all[number as usize];
        let now = if lane.numbers().next().is_some() { self.version } else { 0 };
        if lane.seen == Some(now) {
            return;
        }
        (lane.seen, lane.version) = (Some(now), now);
        lane.is_refused = lane.is_void;
        lane.home = None;
        lane.beyond.clear();
        let mut open = SmallVec::<[(&str, &Arc<ClaimSpec>); 4]>::new();
        for claim in &lane.claims {
            let (name, number, is_limited) = match claim {
                LaneClaim::Own(name, spec) => {
                    open.push((*name, *spec));
                    continue;
                }
                LaneClaim::Shared(name, number, is_limited) => (*name, *number, *is_limited),
            };
            let Shared { spec, allocation, users } = &self.shared[number as usize];
            lane.is_refused |= is_limited && *users >= CONSUMERS;
            let Some(allocation) = allocation else {
                open.push((name, *spec));
                continue;
            };
            let Some(nodes) = &allocation.nodes else { continue };
            match only_node(nodes) {
                Some(name) => {
                    let row = cluster.node(name).map(NodeView::row);
                    lane.home = Some(match lane.home {
                        Some(other) if other != row => None,
                        _ => row,
                    });
                }
                None => lane.beyond.push(number),
            }
        }
        lane.kind = (!open.is_empty()).then(|| offers.kind(cluster, framework, &open));
    }

    /// Counts a pod of a lane that was placed with these devices.
    pub(super) fn give(&mut self, lane: u32, devices: Option<&Devices>) -> Gift {
        let mut gifts = Gift::new();
        for claim in &self.all[lane as usize].claims {
            let LaneClaim::Shared(name, number, _) = claim else { continue };
            let shared = &mut self.shared[*number as usize];
            shared.users += 1;
            let mut held = devices.map_or(&[][..], Devices::claims).iter();
            let is_first = shared.allocation.is_none();
            if let (true, Some(own)) = (is_first, held.find(|own| own.claim == *name)) {
                shared.allocation = Some(Arc::clone(&own.allocation));
                gifts.push(*number);
            }
            if !gifts.is_empty() || shared.users == CONSUMERS {
                self.version += 1;
            }
        }
        gifts
    }

    /// Takes back a pod of a lane that was the first to get devices for some claims.
    pub(super) fn take_back(&mut self, lane: u32, gifts: &Gift) {
        for number in self.all[lane as usize].numbers() {
            let shared = &mut self.shared[number as usize];
            shared.users -= 1;
            if gifts.contains(&number) {
                shared.allocation = None;
                self.version += 1;
            } else if shared.users + 1 == CONSUMERS {
                self.version += 1;
            }
        }
    }
}

impl<'a> Lane<'a> {
    fn add(&mut self, claim: LaneClaim<'a>, spec: &ClaimSpec) {
        let ranked = |choice: &RequestChoice| matches!(choice, RequestChoice::FirstAvailable(_));
        self.is_ranked |= spec.requests.iter().any(|request| ranked(&request.choice));
        self.claims.push(claim);
    }
}

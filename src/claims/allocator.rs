//! The search for devices: depth first over claims, requests, alternatives and devices, with its
//! decisions on a list.

mod decided;
mod found;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

pub(crate) use self::decided::Paused;
use self::decided::{Decided, Go};
use self::found::{Given, allocation};
use super::alike::Alike;
use super::capacity::consumption;
use super::constraints::{Constraint, Rule};
use super::counters::Counters;
use super::pools::{Pool, pools, reach};
use super::selector::DeviceFacts;
use super::wanted::{ClaimFault, MAX_RESULTS, Place, Steps, Wanted, choices, demand_of};
use crate::base::Quantity;
use crate::model::{
    Allocation, AttributeRule, ClaimRequest, DeviceAmount, DeviceCapacity, DeviceDemand, NodeReach,
    ResourceSlice, SliceDevice,
};
use crate::state::{ClaimBook, DeviceUsage, MoreUsage, NodeView};

/// A device that the node reaches.
pub(super) struct Candidate<'a> {
    pub(super) pool: usize,
    pub(super) slice: &'a ResourceSlice,
    pub(super) device: &'a SliceDevice,
    usage: Option<&'a DeviceUsage>,
    /// How often this search has taken it.
    taken: u32,
    /// Devices of one number can stand for each other.
    class: u32,
}

/// Capacities of a device that a request takes.
#[derive(Clone, Default)]
enum Share {
    /// It was not asked yet.
    #[default]
    Unasked,
    /// The device lacks one, or a policy forbids the amount.
    Refused,
    Of(BTreeMap<String, Quantity>),
}

/// Facts about an alternative of a request.
#[derive(Default)]
pub(super) struct Asked {
    /// How many devices.
    pub(super) count: usize,
    /// The devices of a request for all.
    all: Option<Vec<u32>>,
    /// Whether each device matches, as far as it was asked.
    matches: Vec<Option<bool>>,
    /// Capacities that are taken of each device, as far as it was asked.
    takes: Vec<Share>,
}

/// A device that was taken.
#[derive(Clone, Copy)]
struct Taken {
    place: Place,
    device: u32,
}

/// The devices that a search has found, for whoever accepts them.
pub(super) type Accept<'f> = dyn FnMut(Vec<Allocation>) -> bool + 'f;

/// A search on one node.
pub(super) struct Search<'a> {
    node: NodeView<'a>,
    pub(super) wanted: Vec<&'a Wanted>,
    pub(super) pools: Vec<Pool<'a>>,
    pub(super) devices: Vec<Candidate<'a>>,
    pub(super) counters: Vec<Counters<'a>>,
    /// By claim, request and alternative.
    pub(super) asked: Vec<Vec<Vec<Asked>>>,
    pub(super) constraints: Vec<Vec<Constraint<'a>>>,
    taken: Vec<Vec<Taken>>,
    /// Capacities of shared devices that this search has taken.
    consumed: BTreeMap<u32, BTreeMap<&'a str, i128>>,
    steps: u64,
    /// By claim and request: the fewest devices of the request and those after it.
    least: Vec<Vec<usize>>,
    /// The devices in the order in which they are tried, if that is not their own.
    order: Vec<u32>,
    decided: Vec<Decided>,
    has_begun: bool,
}

pub(super) type Found = Result<bool, ClaimFault>;

impl<'a> Search<'a> {
    /// A search for the devices of claims on a node, where `more` devices are in use than the
    /// cluster knows of.
    pub(super) fn new(
        book: &'a ClaimBook,
        node: NodeView<'a>,
        wanted: Vec<&'a Wanted>,
        steps: Steps,
        more: Option<&'a MoreUsage>,
    ) -> Result<Search<'a>, ClaimFault> {
        let pools = pools(book, node);
        let usage_of = |pool: &Pool<'_>| {
            let more = more.and_then(|more| more.of_pool(pool.driver, pool.name));
            more.or_else(|| book.pool_usage(pool.driver, pool.name))
        };
        let mut devices = Vec::with_capacity(8);
        for (at, pool) in pools.iter().enumerate() {
            let usage = usage_of(pool);
            for slice in &pool.slices {
                devices.extend(slice.devices.iter().map(|device| Candidate {
                    pool: at,
                    slice,
                    device,
                    usage: usage.and_then(|usage| usage.get(&*device.name)),
                    taken: 0,
                    class: 0,
                }));
            }
        }
        let counters = pools.iter().map(|pool| Counters::of(pool, book, usage_of(pool))).collect();
        let taken = wanted.iter().map(|_| Vec::new()).collect();
        let mut search = Search {
            node,
            wanted,
            pools,
            devices,
            counters,
            asked: Vec::new(),
            constraints: Vec::new(),
            taken,
            consumed: BTreeMap::new(),
            steps: steps.0,
            least: Vec::new(),
            order: Vec::new(),
            decided: Vec::new(),
            has_begun: false,
        };
        search.prepare()?;
        Ok(search)
    }

    pub(super) fn request(&self, place: Place) -> &'a ClaimRequest {
        let wanted: &'a Wanted = self.wanted[place.claim];
        &wanted.spec.requests[place.request]
    }

    fn demand(&self, place: Place) -> &'a DeviceDemand {
        demand_of(self.request(place), place.choice).1
    }

    fn asked(&mut self, place: Place) -> &mut Asked {
        &mut self.asked[place.claim][place.request][place.choice]
    }

    /// Finds out how many devices each request needs, and refuses claims that are not understood.
    fn prepare(&mut self) -> Result<(), ClaimFault> {
        for claim in 0..self.wanted.len() {
            let wanted: &'a Wanted = self.wanted[claim];
            self.asked.push(Vec::new());
            let mut least = Vec::with_capacity(wanted.spec.requests.len());
            for (request, asks) in wanted.spec.requests.iter().enumerate() {
                self.asked[claim].push(Vec::new());
                let mut fewest = usize::MAX;
                for choice in 0..choices(asks) {
                    let place = Place { claim, request, choice };
                    let len = self.devices.len();
                    let asked = Asked {
                        matches: vec![None; len],
                        takes: vec![Share::Unasked; len],
                        ..Asked::default()
                    };
                    self.asked[claim][request].push(asked);
                    let count = match self.demand(place).amount {
                        DeviceAmount::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
                        DeviceAmount::All => self.list_all(place)?,
                        DeviceAmount::Unknown => {
                            return Err(self.fault(claim, "a request has no known mode"));
                        }
                    };
                    self.asked(place).count = count;
                    fewest = fewest.min(count);
                }
                least.push(fewest);
            }
            // The need of each request and of those after it.
            for at in (1..least.len()).rev() {
                least[at - 1] = least[at - 1].saturating_add(least[at]);
            }
            let all = least.first().copied().unwrap_or(0);
            self.least.push(least);
            if all > MAX_RESULTS {
                return Err(self.fault(claim, "it needs more than 32 devices"));
            }
            let mut constraints = Vec::new();
            for constraint in &wanted.spec.constraints {
                let rule = match &constraint.rule {
                    AttributeRule::Match(attribute) => {
                        Rule::Match { attribute, count: 0, value: None }
                    }
                    AttributeRule::Distinct(attribute) => {
                        Rule::Distinct { attribute, values: Vec::new() }
                    }
                    AttributeRule::Unknown => {
                        return Err(self.fault(claim, "a constraint is not understood"));
                    }
                };
                constraints.push(Constraint { requests: &constraint.requests, rule });
            }
            self.constraints.push(constraints);
        }
        Ok(())
    }

    fn fault(&self, claim: usize, what: &str) -> ClaimFault {
        ClaimFault { reason: format!("requests {}: {what}", self.wanted[claim].name()) }
    }

    /// Lists the devices of a request for all of them.
    fn list_all(&mut self, place: Place) -> Result<usize, ClaimFault> {
        if let Some(pool) = self.pools.iter().find(|pool| !pool.is_sound()) {
            let what =
                format!("all devices are asked for, and pool {} is unsound", pool.full_name());
            return Err(self.fault(place.claim, &what));
        }
        let mut all = Vec::new();
        for device in 0..self.devices.len() as u32 {
            if self.matches(place, device)? && self.has_capacity(place, device) {
                all.push(device);
            }
        }
        let count = all.len();
        self.asked(place).all = Some(all);
        Ok(count)
    }

    /// Whether a device is one that a request asks for.
    pub(super) fn matches(&mut self, place: Place, device: u32) -> Result<bool, ClaimFault> {
        if let Some(known) = self.asked(place).matches[device as usize] {
            return Ok(known);
        }
        let candidate = &self.devices[device as usize];
        let facts = DeviceFacts::new(&candidate.slice.driver, candidate.device);
        let wanted: &'a Wanted = self.wanted[place.claim];
        let mut holds = true;
        for selector in &wanted.selectors[place.request][place.choice] {
            let matched = selector.matches(facts);
            if !matched.map_err(|fault| ClaimFault { reason: format!("{fault}") })? {
                holds = false;
                break;
            }
        }
        if holds && candidate.slice.nodes == NodeReach::PerDevice {
            holds = reach(&candidate.device.nodes, self.node);
        }
        self.asked(place).matches[device as usize] = Some(holds);
        Ok(holds)
    }

    /// Whether what is left of a device's capacities suffices for a request.
    pub(super) fn has_capacity(&mut self, place: Place, device: u32) -> bool {
        let (index, demand) = (device as usize, self.demand(place));
        let candidate = &self.devices[index];
        let fixed = |own: &DeviceCapacity| own.policy.is_none();
        let whole = !candidate.device.shareable && candidate.device.capacity.values().all(fixed);
        if demand.capacity.is_empty() && (whole || candidate.device.capacity.is_empty()) {
            return true;
        }
        let (spec, usage) = (candidate.device, candidate.usage);
        let taken = self.consumed.get(&device);
        let own = &mut self.asked[place.claim][place.request][place.choice].takes[index];
        if let Share::Unasked = own {
            *own = consumption(spec, &demand.capacity).map_or(Share::Refused, Share::Of);
        }
        let Share::Of(takes) = own else { return false };
        takes.iter().all(|(name, amount)| {
            let before = usage.and_then(|usage| usage.consumed.get(&**name)).copied();
            let here = taken.and_then(|taken| taken.get(&**name)).copied();
            let sum = before.unwrap_or(0).saturating_add(here.unwrap_or(0));
            let value = spec.capacity.get(name).map_or(0, |capacity| capacity.value.nanos());
            sum.saturating_add(amount.nanos()) <= value
        })
    }

    /// Whether a device is in use, as far as a request minds.
    pub(super) fn in_use(&self, place: Place, device: u32) -> bool {
        if self.demand(place).admin {
            return self.taken[place.claim].iter().any(|taken| taken.device == device);
        }
        let candidate = &self.devices[device as usize];
        candidate.usage.is_some_and(DeviceUsage::is_whole)
            || candidate.taken > 0 && !candidate.device.shareable
    }

    /// Takes a device for a request if it is usable. A request that `must` have it fails over a
    /// constraint.
    fn take(&mut self, place: Place, device: u32, must: bool) -> Found {
        if self.in_use(place, device) || !self.has_capacity(place, device) {
            return Ok(false);
        }
        let index = device as usize;
        let (spec, pool) = (self.devices[index].device, self.devices[index].pool);
        if self.counts(device) && !self.counters[pool].suffice(spec) {
            return Ok(false);
        }
        if !self.is_tolerated(place, device) {
            return Ok(false);
        }
        let (request, driver) = (self.request(place), &*self.devices[index].slice.driver);
        let choice = demand_of(request, place.choice).0;
        let constraints = &mut self.constraints[place.claim];
        for at in 0..constraints.len() {
            if constraints[at].concerns(&request.name, choice)
                && !constraints[at].add(place.request, driver, spec)
            {
                for earlier in &mut constraints[..at] {
                    if earlier.concerns(&request.name, choice) {
                        earlier.remove(place.request);
                    }
                }
                if must {
                    let what = format!("a constraint keeps device {} out of all", spec.name);
                    return Err(self.fault(place.claim, &what));
                }
                return Ok(false);
            }
        }
        if self.counts(device) {
            self.counters[pool].take(spec, 1);
        }
        if spec.shareable {
            self.consume(place, device, 1);
        }
        self.devices[index].taken += 1;
        self.taken[place.claim].push(Taken { place, device });
        Ok(true)
    }

    /// Whether a request consents to the taints of a device.
    pub(super) fn is_tolerated(&self, place: Place, device: u32) -> bool {
        let demand = self.demand(place);
        self.devices[device as usize].device.taints.iter().all(|taint| {
            !taint.repels() || demand.tolerations.iter().any(|consent| consent.tolerates(taint))
        })
    }

    /// Whether taking a device uses up counters: of one that is shared, the first share does.
    pub(super) fn counts(&self, device: u32) -> bool {
        let Candidate { device, usage, taken, .. } = &self.devices[device as usize];
        let shared =
            device.shareable && (*taken > 0 || usage.is_some_and(|usage| usage.shares > 0));
        !device.consumes.is_empty() && !shared
    }

    fn consume(&mut self, place: Place, device: u32, sign: i128) {
        let asked = &self.asked[place.claim][place.request][place.choice];
        let Share::Of(takes) = &asked.takes[device as usize] else { return };
        let spec = self.devices[device as usize].device;
        let sums = self.consumed.entry(device).or_default();
        for (name, amount) in takes {
            if let Some((name, _)) = spec.capacity.get_key_value(name) {
                *sums.entry(name).or_default() += sign * amount.nanos();
            }
        }
    }

    /// Gives back the last device of a claim.
    fn give_back(&mut self, claim: usize) {
        let Some(Taken { place, device }) = self.taken[claim].pop() else { return };
        let index = device as usize;
        let (spec, pool) = (self.devices[index].device, self.devices[index].pool);
        self.devices[index].taken -= 1;
        if spec.shareable {
            self.consume(place, device, -1);
        }
        if self.counts(device) {
            self.counters[pool].take(spec, -1);
        }
        let request = self.request(place);
        let choice = demand_of(request, place.choice).0;
        for constraint in &mut self.constraints[claim] {
            if constraint.concerns(&request.name, choice) {
                constraint.remove(place.request);
            }
        }
    }

    /// Searches until a solution is accepted.
    pub(super) fn run(&mut self, accept: &mut Accept<'_>) -> Found {
        while self.next_solution()? {
            if accept(self.allocations()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the next solution; false if there are no more. Its devices are taken until then.
    ///
    /// Its decisions are on a list of its own, so that no claim is too deep for the stack.
    pub(super) fn next_solution(&mut self) -> Found {
        let mut go = if core::mem::replace(&mut self.has_begun, true) {
            Go::Back
        } else {
            Go::Request { claim: 0, request: 0 }
        };
        loop {
            go = match go {
                Go::Request { claim, .. } if claim == self.wanted.len() => return Ok(true),
                Go::Request { claim, request } => {
                    if self.wanted[claim].spec.requests.len() == request {
                        Go::Request { claim: claim + 1, request: 0 }
                    } else {
                        self.next_choice(Place { claim, request, choice: 0 })
                    }
                }
                Go::Device { place, have, from, failed } => {
                    self.next_device(place, (have, from), failed)?
                }
                Go::Back => match self.decided.pop() {
                    None => return Ok(false),
                    Some(Decided::Choice(place)) => {
                        self.next_choice(Place { choice: place.choice + 1, ..place })
                    }
                    Some(Decided::Device { place, have, at, class, mut failed, .. }) => {
                        self.give_back(place.claim);
                        if let Some(at) = at {
                            failed.extend(class);
                            Go::Device { place, have, from: at + 1, failed }
                        } else {
                            Go::Back
                        }
                    }
                },
            };
        }
    }

    /// Begins with an alternative of a request, if there is one of its number.
    fn next_choice(&mut self, place: Place) -> Go {
        if place.choice == choices(self.request(place)) {
            return Go::Back;
        }
        self.decided.push(Decided::Choice(place));
        Go::Device { place, have: 0, from: 0, failed: SmallVec::new() }
    }

    /// Finds the next device of a request that has so many, from one on. Devices like those that
    /// `failed` are left out.
    fn next_device(
        &mut self,
        place: Place,
        (have, from): (usize, u32),
        failed: SmallVec<[u32; 8]>,
    ) -> Result<Go, ClaimFault> {
        let Place { claim, request, .. } = place;
        let asked = self.asked(place);
        let (count, listed) = (asked.count, asked.all.is_some());
        if listed && count == 0 {
            return Ok(Go::Back);
        }
        if have >= count {
            return Ok(Go::Request { claim, request: request + 1 });
        }
        // More than a claim may have, with what the requests after this one need at least.
        let after = self.least[claim].get(request + 1).copied().unwrap_or(0);
        let all = self.taken[claim].len().saturating_add(count - have).saturating_add(after);
        if all > MAX_RESULTS {
            return Ok(Go::Back);
        }
        let next = |from| Go::Device { place, have: have + 1, from, failed: SmallVec::new() };
        if listed {
            let device = self.asked(place).all.as_ref().and_then(|all| all.get(have)).copied();
            let Some(device) = device else { return Ok(Go::Back) };
            self.step(claim)?;
            if !self.take(place, device, true)? {
                return Ok(Go::Back);
            }
            let decided = Decided::Device { place, have, device, at: None, class: None, failed };
            self.decided.push(decided);
            return Ok(next(0));
        }
        for at in from..self.devices.len() as u32 {
            let device = self.order.get(at as usize).copied().unwrap_or(at);
            let class = self.class_of(device);
            if !self.pools[self.devices[device as usize].pool].is_sound()
                || class.is_some_and(|class| failed.contains(&class))
                || self.in_use(place, device)
            {
                continue;
            }
            self.step(claim)?;
            if !self.matches(place, device)? || !self.take(place, device, false)? {
                continue;
            }
            self.decided.push(Decided::Device { place, have, device, at: Some(at), class, failed });
            return Ok(next(at + 1));
        }
        Ok(Go::Back)
    }

    /// The decisions that have led to the last solution, and the steps that are left.
    pub(super) fn pause(self) -> Paused {
        Paused { decided: self.decided, steps: self.steps, has_begun: self.has_begun }
    }

    /// Goes on where a search for the same on the same node was paused.
    pub(super) fn resume(&mut self, paused: Paused) -> Result<(), ClaimFault> {
        let Paused { decided, steps, has_begun } = paused;
        for own in &decided {
            if let Decided::Device { place, device, .. } = own {
                self.take(*place, *device, false)?;
            }
        }
        (self.decided, self.steps, self.has_begun) = (decided, steps, has_begun);
        Ok(())
    }

    /// Tries devices that others want less first, and of those that can stand for each other one.
    pub(super) fn sort(&mut self, alike: &Alike) {
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(self.devices.len());
        for (at, candidate) in self.devices.iter_mut().enumerate() {
            let (class, price) = alike.of(&candidate.slice.name, &candidate.device.name);
            candidate.class = class;
            order.push((price, at as u32));
        }
        order.sort_unstable();
        self.order = order.into_iter().map(|(_, at)| at).collect();
    }

    /// The class of a device of which nobody has a part.
    fn class_of(&self, device: u32) -> Option<u32> {
        let Candidate { class, usage, taken, .. } = &self.devices[device as usize];
        (*class > 0 && *taken == 0 && usage.is_none()).then_some(*class)
    }

    fn step(&mut self, claim: usize) -> Result<(), ClaimFault> {
        self.steps = self
            .steps
            .checked_sub(1)
            .ok_or_else(|| self.fault(claim, "the search for its devices takes too long"))?;
        Ok(())
    }

    /// The steps that are left.
    pub(super) fn steps(&self) -> Steps {
        Steps(self.steps)
    }

    /// The devices taken, claim by claim.
    pub(super) fn allocations(&self) -> Vec<Allocation> {
        self.taken.iter().map(|taken| self.allocation(taken)).collect()
    }

    fn allocation(&self, taken: &[Taken]) -> Allocation {
        let given = taken.iter().map(|&Taken { place, device }| {
            let Candidate { slice, device: spec, .. } = &self.devices[device as usize];
            let asked = &self.asked[place.claim][place.request][place.choice];
            let takes = match &asked.takes[device as usize] {
                Share::Of(takes) => Some(takes),
                _ => None,
            };
            Given { slice, device: spec, request: self.request(place), choice: place.choice, takes }
        });
        allocation(self.node.name(), &given.collect::<Vec<_>>())
    }
}

//! Holders of devices: claims of the cluster, and those of a plan.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::published::Pool;
use crate::model::{AllocatedDevice, Allocation, ClaimSource};
use crate::reference::broken::Broken;
use crate::state::Cluster;

/// Driver, pool and device.
type Name<'a> = (&'a str, &'a str, &'a str);

/// The holders of one device.
#[derive(Debug, Default)]
struct Held<'a> {
    whole: usize,
    /// The amounts that parts of it come to, in 10⁻⁹.
    parts: BTreeMap<&'a str, i128>,
    /// Whether the plan gives it to a claim.
    is_new: bool,
}

/// All devices that are held, counted again from claims and pods.
#[derive(Debug, Default)]
pub(super) struct Holders<'a>(BTreeMap<Name<'a>, Held<'a>>);

impl<'a> Holders<'a> {
    /// The holders of a cluster. O(claims + pods).
    pub(super) fn of(cluster: &'a Cluster) -> Holders<'a> {
        let mut all = Holders::default();
        let mut seen = BTreeSet::new();
        for (name, record) in cluster.claims().claims() {
            if let Some(allocation) = record.allocation() {
                all.count(allocation, false);
            }
            seen.insert((name.namespace(), name.name()));
        }
        for pod in cluster.pods().filter(|pod| pod.node().is_some()) {
            for held in pod.allocations() {
                let own = pod.shape().claims.iter().find(|own| own.name == held.claim);
                let counts = match own.map(|own| &own.source) {
                    // A claim that is known was counted by its object.
                    Some(ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) => {
                        seen.insert((pod.namespace(), name))
                    }
                    Some(_) => true,
                    None => false,
                };
                if counts {
                    all.count(&held.allocation, false);
                }
            }
        }
        all
    }

    /// Adds devices that the plan gives to a claim.
    pub(super) fn add(&mut self, allocation: &'a Allocation) {
        self.count(allocation, true);
    }

    fn count(&mut self, allocation: &'a Allocation, is_new: bool) {
        for AllocatedDevice { driver, pool, device, admin, share, .. } in &allocation.devices {
            if *admin {
                continue;
            }
            let held = self.0.entry((driver, pool, device)).or_default();
            held.is_new |= is_new;
            match share {
                None => held.whole += 1,
                Some(parts) => {
                    for (name, amount) in parts {
                        *held.parts.entry(name).or_default() += amount.nanos();
                    }
                }
            }
        }
    }

    /// Devices that the plan gives though others hold them, or more of them than there is, and
    /// counters that it draws beyond what there is.
    pub(super) fn overtaken(&self, cluster: &Cluster) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut pools: BTreeMap<(&str, &str), Vec<(&str, &Held<'_>)>> = BTreeMap::new();
        for ((driver, pool, device), held) in &self.0 {
            pools.entry((driver, pool)).or_default().push((device, held));
        }
        for ((driver, name), devices) in pools {
            if devices.iter().all(|(_, held)| !held.is_new) {
                continue;
            }
            let pool = Pool::of(cluster, driver, name);
            let full = |device: &str| format!("{driver}/{name}/{device}");
            for (device, held) in devices.iter().filter(|(_, held)| held.is_new) {
                let Some((_, spec)) = pool.device(device) else { continue };
                let whole = held.whole > 1 || held.whole == 1 && !held.parts.is_empty();
                let beyond = held.parts.iter().any(|(part, taken)| {
                    spec.capacity.get(*part).is_none_or(|there| *taken > there.value.nanos())
                });
                if whole || beyond {
                    broken.push(Broken::ClaimedTwice { device: full(device) });
                }
            }
            broken.extend(overdrawn(&pool, &devices).into_iter().map(|(device, counter)| {
                Broken::CounterOverdrawn { device: full(device), counter }
            }));
        }
        broken
    }
}

/// New devices that use a counter of which more is drawn than there is.
fn overdrawn<'d>(pool: &Pool<'_>, devices: &[(&'d str, &Held<'_>)]) -> Vec<(&'d str, String)> {
    let mut drawn: BTreeMap<(&str, &str), i128> = BTreeMap::new();
    let uses = |device: &str| {
        let uses = pool.device(device).map_or(&[][..], |(_, spec)| &spec.consumes);
        uses.iter().flat_map(|own| own.counters.iter().map(move |one| (&*own.set, one)))
    };
    for (device, _) in devices {
        for (set, (counter, amount)) in uses(device) {
            *drawn.entry((set, counter)).or_default() += amount.nanos();
        }
    }
    let mut found = Vec::new();
    for (device, _) in devices.iter().filter(|(_, held)| held.is_new) {
        for (set, (counter, _)) in uses(device) {
            let taken = drawn.get(&(set, &**counter)).copied().unwrap_or(0);
            if pool.counter(set, counter).is_none_or(|there| taken > there) {
                found.push((*device, format!("{set}/{counter}")));
            }
        }
    }
    found
}

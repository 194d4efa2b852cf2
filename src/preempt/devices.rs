//! Devices in numbers: the number of times that a node's devices serve a need, and the devices that
//! each evicted pod adds.
//!
//! However many pods of a node go, its devices serve a need no more often than they do now and what
//! those pods add, summed. A pod adds
//!
//! - to a need of whole devices: of each device that it holds, its share of the holders;
//! - to one of whole devices of one island: that, divided by the devices that lack on the island for
//!   the next pod;
//! - to a need of shares: the amount freed on each device that it holds, divided by the amount that
//!   the device lacks for the next share. All of the device counts, if the pod holds it whole.

use alloc::vec::Vec;

use crate::model::IslandRule;
use crate::state::{Cluster, DeviceNeed, NodeDevices, NodeView, PodView};

/// Parts that one device, share or island is counted in.
const PARTS: i64 = 1 << 20;

/// More shares than any device is counted to have.
const MOST: i64 = 1 << 32;

/// Needs that differ and are counted; of further ones nothing is.
const MOST_COUNTED: usize = 8;

/// A need of devices that is counted.
#[derive(Debug)]
pub(super) struct DeviceCount {
    need: DeviceNeed,
    /// Whether all devices of a pod must be of one island, and of one NUMA node.
    together: Option<(bool, bool)>,
}

impl DeviceCount {
    /// Adds the needs of a shape that are not counted yet.
    pub(super) fn add(counts: &mut Vec<DeviceCount>, needs: &[DeviceNeed]) {
        for need in needs {
            let limited = need.is_whole() || need.each().iter().any(|(_, amount)| *amount > 0);
            if limited && counts.len() < MOST_COUNTED && !counts.iter().any(|own| own.is_of(need)) {
                counts.push(DeviceCount { need: need.clone(), together: together(need) });
            }
        }
    }

    /// Whether it counts for a need.
    fn is_of(&self, need: &DeviceNeed) -> bool {
        let same = self.together == together(need) && self.need.asks_alike(need);
        same && (self.together.is_none() || self.need.count() == need.count())
    }

    /// Request of a pod, in parts.
    pub(super) fn ask(&self, needs: &[DeviceNeed]) -> i64 {
        let own = needs.iter().filter(|need| self.is_of(need));
        let times = |need: &DeviceNeed| if self.together.is_some() { 1 } else { need.count() };
        own.map(|need| PARTS.saturating_mul(times(need) as i64)).fold(0, i64::saturating_add)
    }

    /// How often the devices of a node serve now, in parts.
    pub(super) fn free(&self, node: NodeView<'_>) -> i64 {
        let Some(devices) = node.device_room() else { return 0 };
        let own = (0..devices.len()).filter(|&device| devices.matches(&self.need, device));
        let Some((island, numa)) = self.together else {
            let times = own.map(|device| self.times(devices, device));
            return times.fold(0, i64::saturating_add).saturating_mul(PARTS);
        };
        let mut seen: Vec<(u32, u32)> = Vec::new();
        let mut times = 0;
        for group in own.filter_map(|device| devices.group(device, island, numa)) {
            if !seen.contains(&group) {
                seen.push(group);
                times += self.idle(devices, group) / self.count();
            }
        }
        PARTS.saturating_mul(times)
    }

    /// Amount that a pod adds if it goes, in parts.
    pub(super) fn gain(&self, cluster: &Cluster, pod: PodView<'_>) -> i64 {
        let devices = pod.node().and_then(NodeView::device_room);
        let (Some(devices), Some(entry)) = (devices, cluster.shape_entry(pod.shape_id())) else {
            return 0;
        };
        let mut gain = 0_i64;
        for (held, indexes) in entry.devices.iter().zip(pod.device_indexes()) {
            for device in indexes.iter().map(|&index| index as usize) {
                if devices.matches(&self.need, device) {
                    gain = gain.saturating_add(self.gain_of(devices, device, held));
                }
            }
        }
        gain
    }

    fn gain_of(&self, devices: NodeDevices<'_>, device: usize, held: &DeviceNeed) -> i64 {
        if self.need.is_whole() {
            let lacking = match self.together {
                None => 1,
                Some((island, numa)) => {
                    let Some(group) = devices.group(device, island, numa) else { return 0 };
                    self.count() - self.idle(devices, group) % self.count()
                }
            };
            let holders = i64::try_from(devices.holders(device)).unwrap_or(i64::MAX).max(1);
            return parts(1, holders.saturating_mul(lacking));
        }
        let most = self.shares(devices, |unit| devices.capacity(device, unit));
        let most = most.map_or(0, |(times, _)| times);
        if held.is_whole() {
            return PARTS.saturating_mul(most);
        }
        // The unit of which there is least now.
        let now = self.shares(devices, |unit| devices.free(device, unit));
        let Some((_, Some((place, amount)))) = now else { return 0 };
        let given = held
            .each()
            .iter()
            .filter(|(unit, _)| unit.is_some_and(|unit| devices.unit(unit) == Some(place)));
        let given: i64 = given.map(|(_, amount)| *amount).sum();
        let spare = devices.free(device, place).max(0) % amount;
        parts(given.max(0), amount - spare).min(PARTS.saturating_mul(most))
    }

    /// How often a device serves now.
    fn times(&self, devices: NodeDevices<'_>, device: usize) -> i64 {
        if !devices.admits(&self.need, device) {
            return 0;
        }
        let shares = self.shares(devices, |unit| devices.free(device, unit));
        if self.need.is_whole() { 1 } else { shares.map_or(0, |(times, _)| times) }
    }

    /// How many shares some amounts of a device are, by the place of the unit. Also the unit that
    /// limits them, with its needed amount. `None` if the device does not have all units.
    fn shares(
        &self,
        devices: NodeDevices<'_>,
        amount_of: impl Fn(usize) -> i64,
    ) -> Option<(i64, Option<(usize, i64)>)> {
        let mut least = (MOST, None);
        for &(unit, amount) in self.need.each().iter().filter(|(_, amount)| *amount > 0) {
            let place = devices.unit(unit?)?;
            let times = amount_of(place).max(0) / amount;
            if times < least.0 {
                least = (times, Some((place, amount)));
            }
        }
        Some(least)
    }

    /// The devices of a group that no pod uses.
    fn idle(&self, devices: NodeDevices<'_>, group: (u32, u32)) -> i64 {
        let Some((island, numa)) = self.together else { return 0 };
        let is_own = |device: &usize| {
            devices.admits(&self.need, *device)
                && devices.group(*device, island, numa) == Some(group)
        };
        (0..devices.len()).filter(is_own).count() as i64
    }

    fn count(&self) -> i64 {
        (self.need.count() as i64).max(1)
    }
}

/// The groups that whole devices of a pod must be of one of.
fn together(need: &DeviceNeed) -> Option<(bool, bool)> {
    let (island, numa) =
        (need.island() == IslandRule::Required, need.numa() == IslandRule::Required);
    (need.is_whole() && need.count() > 1 && (island || numa)).then_some((island, numa))
}

/// A fraction in parts, rounded up.
fn parts(over: i64, under: i64) -> i64 {
    let parts = (i128::from(over) * i128::from(PARTS) + i128::from(under) - 1) / i128::from(under);
    i64::try_from(parts).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::framework::{Framework, device_capacity, devices_fit};
    use crate::model::{Device, DeviceRequest, Node, Pod, PodGroup};
    use crate::place::{Outcome, Planner};
    use crate::state::PodId;

    /// Numbers of a seed, each below its limit.
    fn dice(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        }
    }

    fn request(roll: &mut impl FnMut(u64) -> u64) -> DeviceRequest {
        let rule = |roll: u64| if roll == 0 { IslandRule::Required } else { IslandRule::Any };
        let request = match roll(3) {
            0 => DeviceRequest::whole("gpu", 1 + roll(3) as u32),
            1 => DeviceRequest::share("gpu", "milli", 100 + 100 * roll(9) as i64),
            _ => DeviceRequest::shares("gpu", 1 + roll(2) as u32, "milli", 150 * roll(4) as i64)
                .and("memory", 10 + roll(30) as i64),
        };
        let request = if roll(4) == 0 { request.model("B") } else { request };
        request.island(rule(roll(3))).numa(rule(roll(8)))
    }

    /// A node with devices that pods use, its pods, and the needs of a pod that is to come.
    fn world(seed: u64) -> (Cluster, Vec<PodId>, Vec<DeviceNeed>) {
        let mut roll = dice(seed);
        let mut node = Node::new("n").capacity("pods", 110);
        for number in 0..2 + roll(6) {
            let mut device = Device::new("gpu", if roll(3) == 0 { "B" } else { "A" });
            device = device.capacity("milli", 1_000).capacity("memory", 40 + 40 * roll(2) as i64);
            device = if roll(5) == 0 { device } else { device.island(format!("i{}", number / 4)) };
            node = node.device(device.numa(roll(2) as u32));
        }
        let mut cluster = Cluster::new();
        cluster.add_node(node).unwrap();
        let framework = Framework::default();
        for number in 0..3 + roll(7) {
            let pod = Pod::new().device(request(&mut roll));
            let group = PodGroup::gang(format!("g{number}"), 1).pods(1, pod);
            if let Outcome::Placed(plan) =
                Planner::new().place(&cluster, &framework, &group).unwrap()
            {
                cluster.commit(&framework, &plan).unwrap();
            }
        }
        let pods = cluster.pods().map(PodView::id).collect();
        let requests = (0..=roll(2)).map(|_| request(&mut roll));
        let pod = requests.fold(Pod::new(), Pod::device);
        let needs = DeviceNeed::of(&cluster, pod.shape());
        (cluster, pods, needs)
    }

    #[test]
    fn no_set_of_pods_makes_more_room_than_is_counted() {
        let (mut sets, mut exact, mut refused) = (0, 0, 0);
        for seed in 0..600 {
            let (cluster, pods, needs) = world(seed);
            let mut counts = Vec::new();
            DeviceCount::add(&mut counts, &needs);
            let gains: Vec<Vec<i64>> = counts
                .iter()
                .map(|count| cluster.pods().map(|pod| count.gain(&cluster, pod)).collect())
                .collect();
            let free: Vec<i64> =
                counts.iter().map(|count| count.free(cluster.node("n").unwrap())).collect();
            for set in 0_u32..1 << pods.len() {
                let gone = |at: &usize| set & 1 << at != 0;
                let mut txn = cluster.txn();
                for at in (0..pods.len()).filter(gone) {
                    txn.evict_pod(pods[at]).unwrap();
                }
                let node = txn.node("n").unwrap();
                // Of needs that may compete, whether one pod fits is all that is exact.
                let serves = match &needs[..] {
                    [_] => device_capacity(node, &needs),
                    _ => u64::from(devices_fit(node, &needs)),
                };
                let counted = counts.iter().zip(&free).zip(&gains).map(|((count, free), gains)| {
                    let gain: i64 = (0..pods.len()).filter(gone).map(|at| gains[at]).sum();
                    ((free + gain) / count.ask(&needs)) as u64
                });
                let counted = counted.min().unwrap_or(u64::MAX);
                assert!(serves <= counted, "seed {seed}, set {set:b}: {serves}, not {counted}");
                sets += 1;
                exact += u32::from(serves == counted);
                refused += u32::from(counted == 0);
            }
        }
        assert!(exact * 2 > sets && refused * 5 > sets, "{exact}, {refused} of {sets}");
    }

    #[test]
    fn halves_of_a_device_and_fragments_are_counted_as_what_they_are() {
        let mut cluster = Cluster::new();
        let gpu = || Device::new("gpu", "A").capacity("milli", 1_000);
        let node = (0..4).fold(Node::new("n").capacity("pods", 110), |node, at| {
            node.device(gpu().island(if at < 2 { "left" } else { "right" }))
        });
        cluster.add_node(node).unwrap();
        let mut bind = |name: &str, device: u32, milli: i64| {
            let mut pod = Pod::new().name(name).device(DeviceRequest::share("gpu", "milli", milli));
            pod.device_indexes = vec![vec![device]];
            cluster.add_pod(pod.on("n")).unwrap();
        };
        bind("a", 0, 400);
        bind("b", 0, 400);
        bind("c", 2, 700);
        let count = |request: DeviceRequest| {
            let needs = DeviceNeed::of(&cluster, Pod::new().device(request).shape());
            let mut counts = Vec::new();
            DeviceCount::add(&mut counts, &needs);
            let gain = |name: &str| counts[0].gain(&cluster, cluster.pod("default", name).unwrap());
            let free = counts[0].free(cluster.node("n").unwrap());
            ([free, gain("a"), gain("b"), gain("c")], counts[0].ask(&needs))
        };
        let one = PARTS;
        // Two of four are idle; `a` and `b` hold half of one each.
        let whole = count(DeviceRequest::whole("gpu", 2));
        assert_eq!(whole, ([2 * one, one / 2, one / 2, one], 2 * one));
        // On either island one lacks for the next pod.
        let island = count(DeviceRequest::whole("gpu", 2).island(IslandRule::Required));
        assert_eq!(island, ([0, one / 2, one / 2, one], one));
        // 200 and 300 thousandths are left over, which serve nothing; 300 and 200 lack.
        let shares = count(DeviceRequest::share("gpu", "milli", 500));
        assert_eq!(
            shares,
            ([4 * one, parts(400, 300), parts(400, 300), parts(700, 200).min(2 * one)], one)
        );
    }
}

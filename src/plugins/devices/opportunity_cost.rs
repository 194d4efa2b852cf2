//! Opportunity cost: a score for how little of a node's best fill the pod takes away.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::pool::{Pool, Slot};
use super::shadow_prices::{Names, ShadowPrices};
use crate::framework::{
    Context, Declaration, DeviceChoice, DeviceOffer, MAX_SCORE, Normalization, PreparedScore,
    ScorePlugin, ScorePreparation, TightestFit,
};
use crate::model::{MEMORY, PodShape};
use crate::state::{Cluster, NodeView};

/// Likes nodes whose best fill loses least by the pod; as a choice of devices, the device that
/// loses least.
///
/// The best fill of a node is that with pods of the workload, at their [`ShadowPrices`]. Its loss is
/// counted in thousandths of a device. The node with the least scores 100, and others one less for
/// each ten thousandths more. A pod that wants a share of one device is assumed on the device with
/// the least loss, the fullest among equals. Other pods are assumed on the devices open to them that
/// have least left.
///
/// Unlike [`Fgd`](super::Fgd) it looks beyond the next pod, at what the rest of a device, of its
/// node's CPU and of its memory could still take together. Prices do not move by themselves: build
/// the framework again when they are solved again. O(24 × devices) for a node.
///
/// Cloning shares the prices.
///
/// Source: bid prices of network revenue management, with duals of the fluid program.
///
/// ```
/// use phalanx::Framework;
/// use phalanx::plugins::{DeviceFit, DevicePool, Fit, OpportunityCost, ShadowPrices};
///
/// let prices = ShadowPrices::from_pods(DevicePool::new("gpu", "milli"), []);
/// let cost = OpportunityCost::new(prices);
/// let framework = Framework::builder()
///     .filter(Fit)
///     .filter(DeviceFit)
///     .score(1, cost.clone())
///     .device_choice(cost)
///     .build();
/// assert!(framework.is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct OpportunityCost {
    prices: Arc<ShadowPrices>,
}

/// Losses that differ by less are equal, in thousandths of a device.
const STEP: i128 = 10;

impl OpportunityCost {
    /// At these prices.
    pub fn new(prices: ShadowPrices) -> OpportunityCost {
        OpportunityCost { prices: Arc::new(prices) }
    }

    /// The prices.
    pub fn prices(&self) -> &ShadowPrices {
        &self.prices
    }
}

/// The prices for one pod shape.
struct Ready {
    prices: Arc<ShadowPrices>,
    pool: Pool,
    names: Names,
    memory_request: i64,
}

impl Ready {
    fn new(prices: &Arc<ShadowPrices>, pool: Pool, cluster: &Cluster, pod: &PodShape) -> Ready {
        let (prices, names) = (Arc::clone(prices), prices.names(cluster));
        Ready { prices, pool, names, memory_request: pod.requests.of(MEMORY) }
    }

    fn worth(&self, slots: &[Slot], cpu: i64, memory: i64) -> f64 {
        self.prices.worth(&self.prices.room(&self.names, slots, cpu, memory))
    }

    /// The worth of the fill with a share of each open device taken, the fullest device first.
    fn each(&self, slots: &[Slot], share: i64, cpu: i64, memory: i64) -> Vec<(u32, f64)> {
        let mut open: Vec<usize> = (0..slots.len()).filter(|&at| slots[at].open).collect();
        open.sort_by_key(|&at| (slots[at].free, at));
        open.dedup_by_key(|at| (slots[*at].free, slots[*at].model, slots[*at].capacity));
        let mut with = slots.to_vec();
        let try_one = |at: usize| {
            take(&mut with[at], share);
            let worth = self.worth(&with, cpu, memory);
            with[at] = slots[at];
            (slots[at].index, worth)
        };
        open.into_iter().map(try_one).collect()
    }
}

fn take(slot: &mut Slot, amount: i64) {
    slot.free = slot.free.saturating_sub(amount);
    slot.idle = false;
}

/// The highest worth, the first among equals.
fn best(each: Vec<(u32, f64)>) -> Option<(u32, f64)> {
    each.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best })
}

impl ScorePlugin for OpportunityCost {
    fn name(&self) -> &str {
        "OpportunityCost"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let pool = self.prices.pool.resolve(cx);
        ScorePreparation::ready(Ready::new(&self.prices, pool, cx.cluster(), cx.pod()))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }

    fn normalization(&self) -> Normalization {
        Normalization::Extremes
    }

    fn rescale(&self, raw: i64, _: i64, high: i64) -> i64 {
        let behind = (i128::from(high) - i128::from(raw)) / STEP;
        (i128::from(MAX_SCORE) - behind).max(0) as i64
    }
}

impl PreparedScore for Ready {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let mut slots = self.pool.slots(node);
        let (cpu, memory) = (self.pool.cpu_free(node), self.names.memory_free(node));
        let before = self.worth(&slots, cpu, memory);
        let cpu = cpu.saturating_sub(self.pool.cpu_request);
        let memory = memory.saturating_sub(self.memory_request);
        let after = match self.pool.share {
            Some(share) if self.pool.count() == 1 => {
                best(self.each(&slots, share, cpu, memory)).map_or(before, |(_, worth)| worth)
            }
            share => {
                for at in self.pool.tightest(&slots) {
                    let amount = share.unwrap_or(slots[at].capacity);
                    take(&mut slots[at], amount);
                }
                self.worth(&slots, cpu, memory)
            }
        };
        libm::round(after - before) as i64
    }
}

impl DeviceChoice for OpportunityCost {
    fn name(&self) -> &str {
        "OpportunityCost"
    }

    fn choose(&self, cx: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
        let pool = self.prices.pool.resolve(cx);
        let ours = offer.need().kind().is_some() && offer.need().kind() == pool.kind();
        let share = pool.share_of(offer.need()).filter(|_| ours && offer.count() == 1);
        let Some(share) = share else { return TightestFit.choose(cx, offer) };
        let ready = Ready::new(&self.prices, pool, cx.cluster(), cx.pod());
        let mut slots = ready.pool.slots_of(offer.devices());
        for slot in &mut slots {
            slot.open = offer.candidates().binary_search(&slot.index).is_ok();
        }
        let cpu = ready.pool.cpu_free(offer.node()).saturating_sub(ready.pool.cpu_request);
        let memory = ready.names.memory_free(offer.node()).saturating_sub(ready.memory_request);
        best(ready.each(&slots, share, cpu, memory)).map(|(device, _)| device).into_iter().collect()
    }
}

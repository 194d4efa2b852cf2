//! Fragmentation gradient descent.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::pool::{Pool, Slot, Slots};
use super::typical::{Models, TypicalPods};
use crate::framework::{
    Context, Declaration, DeviceChoice, DeviceOffer, PreparedScore, ScorePlugin, ScorePreparation,
    TightestFit,
};
use crate::model::PodShape;
use crate::state::{Cluster, NodeView};

/// Likes nodes that the pod fragments least; as a choice of devices, the device it fragments least.
///
/// The score is `100 · sigmoid((F(node) − F(node with the pod)) ÷ scale)`, truncated, with the
/// fragmentation `F` of [`TypicalPods`]. A pod that wants a share of one device is assumed on the
/// device where the score is best. Other pods are assumed on the devices open to them that have
/// least left.
///
/// As a [`DeviceChoice`] it gives a share of one device the device with the best score, the lowest
/// index among equals. Whole devices are taken by index, and equal shares of several as
/// [`TightestFit`] does.
///
/// Scores are those of the published arithmetic to the last bit. Where a sum in another order could
/// fall on the other side of a whole number, the published order decides. Nodes with devices of
/// several models are as exact, though nothing is published of them.
///
/// Cloning shares the typical pods.
///
/// Source: "Beware of Fragmentation" (USENIX ATC 2023) and its artifact, plugin `FGDScore`.
///
/// ```
/// use phalanx::Framework;
/// use phalanx::plugins::{DeviceFit, DevicePool, Fgd, Fit, TypicalPods};
///
/// let typical = TypicalPods::new(DevicePool::new("gpu", "milli"), Vec::new());
/// let fgd = Fgd::new(typical);
/// let framework = Framework::builder()
///     .filter(Fit)
///     .filter(DeviceFit)
///     .score(1, fgd.clone())
///     .device_choice(fgd)
///     .build();
/// assert!(framework.is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct Fgd {
    typical: Arc<TypicalPods>,
    scale: f64,
}

impl Fgd {
    /// For a workload of these pods, with the published scale: 1,000, the thousandths of a device.
    pub fn new(typical: TypicalPods) -> Fgd {
        Fgd { typical: Arc::new(typical), scale: 1_000.0 }
    }

    /// Sets what differences of fragmentation are divided by: a device's capacity in the unit.
    #[must_use]
    pub fn scale(mut self, device: u32) -> Fgd {
        self.scale = f64::from(device.max(1));
        self
    }

    /// The typical pods.
    pub fn typical(&self) -> &TypicalPods {
        &self.typical
    }

    /// The score for a fall of the fragmentation, as a number with a fraction.
    fn exact(&self, fall: f64) -> f64 {
        1.0 / (1.0 + libm::exp(-(fall / self.scale))) * 100.0
    }

    /// The score for a fall of the summed fragmentation, unless it is so near a whole number that
    /// the order of the sums decides.
    fn clear_score(&self, fall: f64) -> Option<i64> {
        if self.typical.weight <= 0.0 {
            return Some(50);
        }
        let exact = self.exact(fall / self.typical.weight);
        ((exact - libm::round(exact)).abs() > NEAR).then_some(exact as i64)
    }

    fn judge<'a>(&'a self, cluster: &'a Cluster, models: &'a Models) -> Judge<'a> {
        Judge { fgd: self, cluster, models }
    }
}

/// Sums of some thousand terms, rounded in any order, move a score by less.
const NEAR: f64 = 1e-6;

/// The score for one pod shape.
struct Ready {
    fgd: Arc<Fgd>,
    pool: Pool,
    models: Models,
}

/// Measures nodes as they would be.
struct Judge<'a> {
    fgd: &'a Fgd,
    cluster: &'a Cluster,
    models: &'a Models,
}

impl Judge<'_> {
    fn useless(&self, slots: &Slots, cpu: i64) -> f64 {
        self.fgd.typical.useless(self.cluster, self.models, slots, cpu)
    }

    /// The score of a node as it is and as it would be, each with its CPU left, in the published
    /// arithmetic.
    fn published(&self, (before, cpu): (&Slots, i64), (after, less): (&Slots, i64)) -> i64 {
        let typical = &self.fgd.typical;
        let same = before.iter().zip(after).all(|(one, other)| one.free == other.free);
        if same && typical.serves_alike(cpu, less) {
            return self.fgd.exact(0.0) as i64;
        }
        let of = |slots: &Slots, cpu| typical.published(self.cluster, self.models, slots, cpu);
        self.fgd.exact(of(before, cpu) - of(after, less)) as i64
    }

    /// The devices that `open` lets through, each with the score of a share of it in the published
    /// arithmetic.
    fn published_each(
        &self,
        slots: &Slots,
        (cpu, less): (i64, i64),
        share: i64,
        open: impl Fn(&Slot) -> bool,
    ) -> impl Iterator<Item = (u32, i64)> {
        (0..slots.len()).filter(move |at| open(&slots[*at])).map(move |at| {
            let mut after = slots.clone();
            after[at].free = after[at].free.saturating_sub(share);
            (slots[at].index, self.published((slots, cpu), (&after, less)))
        })
    }

    /// Tells, for each device that `open` lets through, what the fragmentation is with a share of
    /// it taken.
    #[inline]
    fn try_each(
        &self,
        slots: &mut Slots,
        cpu: i64,
        share: i64,
        open: impl Fn(&Slot) -> bool,
        mut tell: impl FnMut(u32, f64),
    ) {
        let table = self.fgd.typical.table(self.models, slots);
        let ready = table.map(|table| {
            let served = table.served(cpu);
            let parts: SmallVec<[f64; 8]> =
                slots.iter().map(|slot| table.useful_to_one(slot, served)).collect();
            let left: f64 = slots.iter().map(|slot| slot.free as f64).sum();
            (table, served, parts.iter().sum::<f64>(), parts, left)
        });
        let mut last: Option<(Slot, f64)> = None;
        for at in 0..slots.len() {
            let slot = slots[at];
            if !open(&slot) {
                continue;
            }
            let alike = |other: &Slot| {
                (other.free, other.model, other.capacity) == (slot.free, slot.model, slot.capacity)
            };
            // Devices that are alike fragment alike.
            if let Some((_, useless)) = last.filter(|(other, _)| alike(other)) {
                tell(slot.index, useless);
                continue;
            }
            slots[at].free = slot.free.saturating_sub(share);
            let useless = match &ready {
                // All other devices are as useful as before, but to pods that want several.
                Some((table, served, sum, parts, left)) => {
                    let useful = sum - parts[at]
                        + table.useful_to_one(&slots[at], *served)
                        + table.useful_to_several(slots, *served);
                    let left = left - slot.free as f64 + slots[at].free as f64;
                    left * self.fgd.typical.weight - useful
                }
                None => self.useless(slots, cpu),
            };
            slots[at].free = slot.free;
            last = Some((slot, useless));
            tell(slot.index, useless);
        }
    }
}

impl ScorePlugin for Fgd {
    fn name(&self) -> &str {
        "Fgd"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let pool = self.typical.pool.resolve(cx);
        let models = self.typical.models(cx.cluster());
        ScorePreparation::ready(Ready { fgd: self, pool, models })
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

impl PreparedScore for Ready {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Ready { fgd, pool, models } = self;
        let judge = fgd.judge(cx.cluster(), models);
        let mut slots = pool.slots(node);
        let cpu = pool.cpu_free(node);
        let before = judge.useless(&slots, cpu);
        let less = cpu.saturating_sub(pool.cpu_request);
        if let Some(share) = pool.share
            && pool.count() == 1
        {
            let mut least = f64::INFINITY;
            let tell = |_, useless: f64| least = least.min(useless);
            judge.try_each(&mut slots, less, share, |slot| slot.open, tell);
            if least.is_infinite() {
                return 0;
            }
            return fgd.clear_score(before - least).unwrap_or_else(|| {
                let each = judge.published_each(&slots, (cpu, less), share, |slot| slot.open);
                each.map(|(_, score)| score).max().unwrap_or(0)
            });
        }
        let untouched = slots.clone();
        for at in pool.tightest(&slots) {
            let taken = pool.share.unwrap_or(slots[at].capacity);
            slots[at].free = slots[at].free.saturating_sub(taken);
        }
        let score = fgd.clear_score(before - judge.useless(&slots, less));
        score.unwrap_or_else(|| judge.published((&untouched, cpu), (&slots, less)))
    }
}

impl DeviceChoice for Fgd {
    fn name(&self) -> &str {
        "Fgd"
    }

    fn choose(&self, cx: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
        let pool = self.typical.pool.resolve(cx);
        let ours = offer.need().kind().is_some() && offer.need().kind() == pool.kind();
        let Some(share) = pool.share_of(offer.need()) else {
            return TightestFit.choose(cx, offer);
        };
        if !ours || offer.count() != 1 {
            return TightestFit.choose(cx, offer);
        }
        let models = self.typical.models(cx.cluster());
        let judge = self.judge(cx.cluster(), &models);
        let mut slots = pool.slots_of(offer.devices());
        let cpu = pool.cpu_free(offer.node());
        let before = judge.useless(&slots, cpu);
        let less = cpu.saturating_sub(pool.cpu_request);
        let open = |slot: &Slot| offer.candidates().binary_search(&slot.index).is_ok();
        let mut scores: SmallVec<[(u32, Option<i64>); 8]> = SmallVec::new();
        judge.try_each(&mut slots, less, share, open, |device, after| {
            scores.push((device, self.clear_score(before - after)));
        });
        let clear: Option<SmallVec<[(u32, i64); 8]>> =
            scores.into_iter().map(|(device, score)| Some((device, score?))).collect();
        let scores = clear
            .unwrap_or_else(|| judge.published_each(&slots, (cpu, less), share, open).collect());
        let best =
            scores.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map(|(device, _)| device).into_iter().collect()
    }
}

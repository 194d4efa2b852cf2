//! The dialect's state, and the queues of the books as tables.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::min_runtime::{MinRuntime, RuntimeQueue};
use super::queues::{KaiQuantities, QueueShare, QueueShares, ResourceShare};
use super::settings::KaiSettings;
use crate::Time;
use crate::quota::books::tree::QueueId;
use crate::quota::books::{Books, Holder};
use crate::quota::model::amount::{UNLIMITED, plus};
use crate::quota::model::claim::{FlavorResource, Usage};
use crate::quota::model::queue::QueueKind;

/// The inner queue above the top queues, which has what there is in all. If it is stated, it says so of
/// the resources that it has quota of; of others, top queues that state what they deserve do.
pub const CLUSTER: &str = "(cluster)";

/// KAI's dialect.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Kai {
    pub(super) settings: KaiSettings,
    /// Amounts of the whole cluster that were stated since, by resource.
    pub(super) stated: BTreeMap<String, i64>,
    /// The latest time that is known.
    pub(super) now: Time,
}

impl Kai {
    pub(in crate::quota) fn new(settings: KaiSettings) -> Kai {
        Kai { settings, stated: BTreeMap::new(), now: Time::ZERO }
    }

    /// The queues as tables, without what is fair.
    pub(super) fn tables(&self, books: &Books) -> Tables {
        let tree = &books.tree;
        let numbers: Vec<FlavorResource> = tree.numbers().collect();
        let root = tree.queue(QueueKind::Inner, CLUSTER);
        let unit =
            |of: &FlavorResource| self.settings.units.get(tree.names(*of).1).copied().unwrap_or(1);
        let total = |of: &FlavorResource| root.map_or(0, |root| tree.sums(root, *of).nominal);
        let mut shares = QueueShares::new(
            numbers.iter().map(total).collect(),
            numbers.iter().map(unit).collect(),
        );
        shares.saturation = self.settings.saturation;
        if books.past.is_counted() {
            shares.usage_factor = self.settings.usage_factor;
        }
        let kinds = [QueueKind::Inner, QueueKind::Leaf];
        let ids: Vec<QueueId> = kinds.iter().flat_map(|kind| tree.queues(*kind)).collect();
        let below: Vec<QueueId> =
            ids.into_iter().filter(|id| Some(*id) != root && tree.is_linked(*id)).collect();
        let places: BTreeMap<QueueId, usize> =
            below.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        for id in below {
            let Some(spec) = tree.spec(id) else { continue };
            let resources = numbers.iter().map(|&of| {
                let sums = tree.sums(id, of);
                let own = ResourceShare {
                    request: sums.requested(),
                    allocated: sums.used,
                    usage: past_usage(books, (id, of), sums.used, total(&of)),
                    ..ResourceShare::default()
                };
                match tree.quota(id, of) {
                    // The queues below decide.
                    None => ResourceShare { deserved: UNLIMITED, weight: spec.weight, ..own },
                    Some(quota) => ResourceShare {
                        deserved: quota.deserved.unwrap_or(0),
                        limit: quota.limit.unwrap_or(UNLIMITED),
                        weight: quota.over_quota_weight.unwrap_or(spec.weight),
                        ..own
                    },
                }
            });
            shares.queues.push(QueueShare {
                name: spec.name.clone(),
                parent: tree.parent(id).and_then(|parent| places.get(&parent).copied()),
                priority: spec.priority,
                created: u64::from(id.slot),
                resources: resources.collect(),
            });
        }
        Tables { shares, places }
    }

    /// Counts what is held by work that is not preemptible. O(holders).
    pub(super) fn count_non_preemptible(&self, books: &Books, tables: &mut Tables) {
        let leaves: Vec<(QueueId, usize)> =
            tables.places.iter().map(|(id, place)| (*id, *place)).collect();
        for (leaf, place) in leaves {
            for holder in books.holders(leaf).filter_map(|id| books.holder(id)) {
                if self.may_be_taken(holder) {
                    continue;
                }
                let amounts = tables.quantities(&holder.usage);
                let path: Vec<usize> = tables.shares.path(place).collect();
                for queue in path {
                    let resources = &mut tables.shares.queues[queue].resources;
                    for (own, amount) in resources.iter_mut().zip(&amounts) {
                        own.non_preemptible = plus(own.non_preemptible, *amount);
                    }
                }
            }
        }
    }

    /// The queues as tables, with what is fair now.
    pub(super) fn fair_tables(&self, books: &Books) -> Tables {
        let mut tables = self.tables(books);
        tables.shares.divide();
        tables
    }

    pub(super) fn is_preemptible(&self, said: Option<bool>, priority: i64) -> bool {
        said.unwrap_or(priority < self.settings.preemptible_below)
    }

    pub(super) fn may_be_taken(&self, holder: &Holder) -> bool {
        !holder.kept && self.is_preemptible(holder.preemptible, holder.priority)
    }

    pub(super) fn runtimes(&self, tables: &Tables) -> MinRuntime {
        let settings = &self.settings;
        let queue = |queue: &QueueShare| {
            let own = settings.min_runtimes.get(&queue.name).copied().unwrap_or_default();
            RuntimeQueue {
                name: queue.name.clone(),
                parent: queue.parent,
                preempt: own.preempt,
                reclaim: own.reclaim,
            }
        };
        MinRuntime {
            queues: tables.shares.queues.iter().map(queue).collect(),
            default_preempt: settings.default_min_runtime.preempt.unwrap_or_default(),
            default_reclaim: settings.default_min_runtime.reclaim.unwrap_or_default(),
            method: settings.reclaim_method,
        }
    }
}

/// Queues, by their places in the tables.
pub(super) struct Tables {
    pub(super) shares: QueueShares,
    pub(super) places: BTreeMap<QueueId, usize>,
}

impl Tables {
    pub(super) fn quantities(&self, usage: &Usage) -> KaiQuantities {
        let mut amounts: KaiQuantities = self.shares.totals.iter().map(|_| 0).collect();
        for (of, amount) in usage {
            if let Some(own) = amounts.get_mut(of.0 as usize) {
                *own = plus(*own, *amount);
            }
        }
        amounts
    }

    /// Counts what waits with a claim that is not in the sums.
    pub(super) fn ask(&mut self, leaf: usize, amounts: &[i64]) {
        let path: Vec<usize> = self.shares.path(leaf).collect();
        for queue in path {
            for (own, amount) in self.shares.queues[queue].resources.iter_mut().zip(amounts) {
                own.request = plus(own.request, *amount);
            }
        }
    }

    /// The fair share of a queue, of a resource in a flavor.
    pub(super) fn fair_share(&self, queue: QueueId, of: FlavorResource) -> i64 {
        let place = self.places.get(&queue).copied();
        place.map_or(0, |place| self.shares.share(place, of.0 as usize).fair_share)
    }

    /// Whether a leaf holds less than is fair of something that another holds more of than it may.
    pub(super) fn may_take(&self, queue: QueueId, other: QueueId) -> bool {
        let (Some(&own), Some(&other)) = (self.places.get(&queue), self.places.get(&other)) else {
            return false;
        };
        let (side, others) = self.shares.sides(own, other);
        (0..self.shares.totals.len()).any(|at| {
            let share = self.shares.share(others, at);
            let own = self.shares.share(side, at);
            own.allocated < own.fair_share && share.allocated > share.allocatable()
        })
    }
}

/// The average of what a queue has used, in billionths of the whole.
fn past_usage(books: &Books, (queue, of): (QueueId, FlavorResource), used: i64, whole: i64) -> u64 {
    if !books.past.is_counted() || whole <= 0 {
        return 0;
    }
    // The cast saturates.
    (books.past.average(queue, of, used) / whole as f64 * 1e9) as u64
}

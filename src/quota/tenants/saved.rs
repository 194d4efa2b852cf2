//! Tenants as data: the dialect, its queues and flavors, and quota that is put aside. Holders of
//! quota are the embedder's to restore.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Tenants;
use crate::Time;
use crate::model::Owner;
use crate::quota::books::holds::Hold;
use crate::quota::books::past::Average;
use crate::quota::books::tree::QueueId;
use crate::quota::dialects::DialectSettings;
use crate::quota::model::claim::{FlavorResource, Usage};
use crate::quota::model::flavor::Flavor;
use crate::quota::model::queue::{Queue, QueueKind};

/// A claim that quota is put aside or reserved for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedAside {
    claim: String,
    queue: String,
    usage: Vec<(String, String, i64)>,
    #[serde(default, skip_serializing_if = "Owner::is_none")]
    owner: Owner,
}

/// [`Tenants`], without the holders of quota.
///
/// ```
/// use phalanx::quota::{Queue, QueueKind, Quota, SavedTenants, Tenants};
///
/// let mut tenants = Tenants::default();
/// tenants.set_queue(Queue::leaf("vision").quota("all", "gpu", Quota::nominal(8)))?;
/// let text = serde_json::to_string(&tenants.save())?;
/// let saved: SavedTenants = serde_json::from_str(&text)?;
/// let again = saved.restore();
/// assert!(again.tree().queue(QueueKind::Leaf, "vision").is_some());
/// assert_eq!(serde_json::to_string(&again.save())?, text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedTenants {
    dialect: DialectSettings,
    /// Flavors and resources in the order of their numbers, which decides ties.
    numbers: Vec<(String, String)>,
    flavors: Vec<Flavor>,
    queues: Vec<Queue>,
    /// Leaves that are being removed.
    draining: Vec<String>,
    aside: Option<SavedAside>,
    /// Usage reserved for claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reserved: Vec<SavedAside>,
    /// Amounts of the whole cluster that were stated to the dialect, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stated: BTreeMap<String, i64>,
    /// Past usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    past: Option<SavedPast>,
}

/// Averages of past usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedPast {
    now: Time,
    averages: Vec<SavedAverage>,
}

/// An average of past usage. The value is kept by its bits, which no text rounds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct SavedAverage {
    kind: QueueKind,
    queue: String,
    flavor: String,
    resource: String,
    bits: u64,
    at: Time,
}

impl Tenants {
    /// The dialect, queues and flavors as data. Who holds quota is not among it. O(queues).
    pub fn save(&self) -> SavedTenants {
        let tree = self.tree();
        let name = |of| {
            let (flavor, resource) = tree.names(of);
            (String::from(flavor), String::from(resource))
        };
        let stated = |&id: &QueueId| {
            tree.spec(id)
                .is_some_and(|own| *own != Queue::inner(&*own.name) && !self.dialect.makes(own))
        };
        let inner = tree.queues(QueueKind::Inner).filter(stated);
        let ids: Vec<QueueId> = inner.chain(tree.queues(QueueKind::Leaf)).collect();
        let named = |id: &QueueId| tree.spec(*id).map(|own| own.name.clone()).unwrap_or_default();
        let draining = ids.iter().filter(|id| tree.is_draining(**id)).map(named).collect();
        let saved = |claim: &str, hold: &Hold| SavedAside {
            claim: claim.into(),
            queue: named(&hold.queue),
            usage: hold
                .usage
                .iter()
                .map(|(of, amount)| {
                    let (flavor, resource) = name(*of);
                    (flavor, resource, *amount)
                })
                .collect(),
            owner: hold.owner.clone(),
        };
        SavedTenants {
            dialect: self.settings.clone(),
            numbers: tree.numbers().map(name).collect(),
            flavors: self.books.flavors().cloned().collect(),
            queues: ids.iter().filter_map(|id| tree.spec(*id).cloned()).collect(),
            draining,
            aside: self.books.holds.aside().map(|(claim, hold)| saved(claim, hold)),
            reserved: {
                let all = self.books.holds.reservations();
                all.map(|(claim, hold)| saved(claim, hold)).collect()
            },
            stated: self.dialect.save(),
            past: self.save_past(),
        }
    }

    fn save_past(&self) -> Option<SavedPast> {
        let (past, tree) = (&self.books.past, self.tree());
        let saved = |(queue, of, own): (QueueId, FlavorResource, Average)| {
            let spec = tree.spec(queue)?;
            let (flavor, resource) = tree.names(of);
            Some(SavedAverage {
                kind: spec.kind,
                queue: spec.name.clone(),
                flavor: flavor.into(),
                resource: resource.into(),
                bits: own.value.to_bits(),
                at: own.at,
            })
        };
        past.is_counted().then(|| {
            let mut averages: Vec<SavedAverage> = past.all().filter_map(saved).collect();
            averages.sort_unstable();
            SavedPast { now: past.now(), averages }
        })
    }

    fn restore_past(&mut self, saved: &SavedPast) {
        let tree = &self.books.tree;
        let named = saved.averages.iter().filter_map(|own| {
            let queue = tree.queue(own.kind, &own.queue)?;
            let of = tree.flavor_resource(&own.flavor, &own.resource)?;
            // A save that was meddled with may have any bits.
            let value = f64::from_bits(own.bits);
            let value = if value.is_finite() && value > 0.0 { value } else { 0.0 };
            Some((queue, of, Average { value, at: own.at }))
        });
        let all: Vec<_> = named.collect();
        self.books.past.restore(saved.now, all.into_iter());
    }
}

impl SavedAside {
    /// The leaf and the amounts; `None` if the leaf is not known.
    fn restore(&self, tenants: &mut Tenants) -> Option<(QueueId, Usage)> {
        let queue = tenants.tree().queue(QueueKind::Leaf, &self.queue)?;
        let intern = |(flavor, resource, amount): &(String, String, i64)| {
            (tenants.intern(flavor, resource), *amount)
        };
        Some((queue, self.usage.iter().map(intern).collect()))
    }
}

impl SavedTenants {
    /// The tenants, without the holders, which are to be restored ([`Tenants::restore`]) before
    /// [`SavedTenants::drain`]. A queue that makes no sense is left out.
    pub fn restore(&self) -> Tenants {
        let mut tenants = Tenants::of(self.dialect.clone());
        tenants.dialect.restore(self.stated.clone());
        for (flavor, resource) in &self.numbers {
            tenants.intern(flavor, resource);
        }
        for flavor in &self.flavors {
            tenants.set_flavor(flavor.clone());
        }
        for queue in &self.queues {
            if !tenants.dialect.makes(queue) {
                let _ = tenants.set_queue(queue.clone());
            }
        }
        if let Some(saved) = &self.aside
            && let Some((queue, usage)) = saved.restore(&mut tenants)
        {
            let hold = Hold { queue, usage, owner: saved.owner.clone() };
            tenants.books.holds.set_aside(Some((saved.claim.clone(), hold)));
        }
        for saved in &self.reserved {
            if let Some((queue, usage)) = saved.restore(&mut tenants) {
                let _ = tenants.reserve_for(&saved.claim, &saved.owner, queue, &usage);
            }
        }
        tenants
    }

    /// Takes past usage, and removes the leaves that were being removed, once their holders are
    /// there.
    pub fn drain(&self, tenants: &mut Tenants) {
        if let Some(past) = &self.past {
            tenants.restore_past(past);
        }
        for name in &self.draining {
            if let Some(queue) = tenants.tree().queue(QueueKind::Leaf, name) {
                let _ = tenants.remove_queue(queue);
            }
        }
    }
}

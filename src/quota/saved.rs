//! Tenants as data: the dialect, its queues and flavors, and quota that is put aside. Holders of
//! quota are the embedder's to restore.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::claim::Usage;
use super::dialect::{Aside, Dialect, Peer, TenantSettings};
use super::flavor::Flavor;
use super::kai::KaiSettings;
use super::koordinator::KoordinatorSettings;
use super::queue::{Queue, QueueKind};
use super::tenants::{KueueSettings, Tenants};
use super::tree::QueueId;
use super::volcano::VolcanoRule;
use super::yunikorn::YuniKornSettings;

/// A dialect by its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SavedDialect {
    Default(TenantSettings),
    Kueue(KueueSettings),
    Koordinator(KoordinatorSettings),
    Volcano(VolcanoRule),
    YuniKorn(YuniKornSettings),
    Kai(KaiSettings),
}

/// A claim that quota is put aside or reserved for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedAside {
    claim: String,
    queue: String,
    usage: Vec<(String, String, i64)>,
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
    dialect: SavedDialect,
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
}

impl Tenants {
    /// The dialect, queues and flavors as data. Who holds quota is not among it. O(queues).
    pub fn save(&self) -> SavedTenants {
        let tree = self.tree();
        let name = |of| {
            let (flavor, resource) = tree.names(of);
            (String::from(flavor), String::from(resource))
        };
        let stated =
            |&id: &QueueId| tree.spec(id).is_some_and(|own| *own != Queue::inner(&*own.name));
        let inner = tree.queues(QueueKind::Inner).filter(stated);
        let ids: Vec<QueueId> = inner.chain(tree.queues(QueueKind::Leaf)).collect();
        let named = |id: &QueueId| tree.spec(*id).map(|own| own.name.clone()).unwrap_or_default();
        let draining = ids.iter().filter(|id| tree.is_draining(**id)).map(named).collect();
        let aside = self.dialect.own().and_then(|own| own.aside.as_ref());
        let saved = |claim: &str, queue: &QueueId, usage: &Usage| SavedAside {
            claim: claim.into(),
            queue: named(queue),
            usage: usage
                .iter()
                .map(|(of, amount)| {
                    let (flavor, resource) = name(*of);
                    (flavor, resource, *amount)
                })
                .collect(),
        };
        SavedTenants {
            dialect: match &self.dialect {
                Dialect::Kueue => SavedDialect::Kueue(self.rules.clone()),
                Dialect::Own(own) => SavedDialect::Default(own.settings),
                Dialect::Koordinator(own) => SavedDialect::Koordinator(own.settings.clone()),
                Dialect::Peer(Peer::Volcano(rule)) => SavedDialect::Volcano(*rule),
                Dialect::Peer(Peer::YuniKorn(own)) => SavedDialect::YuniKorn(own.clone()),
                Dialect::Kai(own) => SavedDialect::Kai(own.settings.clone()),
            },
            numbers: tree.numbers().map(name).collect(),
            flavors: self.books.flavors().cloned().collect(),
            queues: ids.iter().filter_map(|id| tree.spec(*id).cloned()).collect(),
            draining,
            aside: aside.map(|aside| saved(&aside.claim, &aside.queue, &aside.usage)),
            reserved: self
                .reserved
                .iter()
                .map(|(claim, own)| saved(claim, &own.queue, &own.usage))
                .collect(),
        }
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
        let mut tenants = match &self.dialect {
            SavedDialect::Default(settings) => Tenants::with(*settings),
            SavedDialect::Kueue(settings) => Tenants::kueue_with(settings.clone()),
            SavedDialect::Koordinator(settings) => Tenants::koordinator_with(settings.clone()),
            SavedDialect::Volcano(rule) => Tenants::of_peer(Peer::Volcano(*rule)),
            SavedDialect::YuniKorn(settings) => Tenants::yunikorn_with(settings.clone()),
            SavedDialect::Kai(settings) => Tenants::kai_with(settings.clone()),
        };
        for (flavor, resource) in &self.numbers {
            tenants.intern(flavor, resource);
        }
        for flavor in &self.flavors {
            tenants.set_flavor(flavor.clone());
        }
        for queue in &self.queues {
            let _ = tenants.set_queue(queue.clone());
        }
        if let Some(saved) = &self.aside
            && let Some((queue, usage)) = saved.restore(&mut tenants)
            && let Dialect::Own(own) = &mut tenants.dialect
        {
            own.aside = Some(Aside { claim: saved.claim.clone(), queue, usage });
        }
        for saved in &self.reserved {
            if let Some((queue, usage)) = saved.restore(&mut tenants) {
                let _ = tenants.reserve(&saved.claim, queue, &usage);
            }
        }
        tenants
    }

    /// Removes the leaves that were being removed, once their holders are there.
    pub fn drain(&self, tenants: &mut Tenants) {
        for name in &self.draining {
            if let Some(queue) = tenants.tree().queue(QueueKind::Leaf, name) {
                let _ = tenants.remove_queue(queue);
            }
        }
    }
}

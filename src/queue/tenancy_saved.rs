//! The serialised tenants of a scheduler.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::ids::{GroupId, QueueKey};
use super::tenancy::{Charge, ReservedClaim, Tenancy};
use crate::base::Time;
use crate::quota::{Head, QueueId, QueueKind, SavedTenants, Usage};

/// A queue, a resource in a flavor, by name.
type SavedPlace = (QueueKind, String, String, String);

/// Flavor, resource, amount.
type SavedAmount = (String, String, i64);

/// A group, the leaf it waits in, what it requests.
type SavedRequest = (GroupId, String, Vec<SavedAmount>);

/// The head of a queue, as it was decided on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedHead {
    queue: String,
    name: String,
    priority: i64,
    since: Time,
    usage: Vec<SavedAmount>,
    level: u32,
    preempts: bool,
}

/// The tenants, and what is charged to which queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedTenancy {
    tenants: SavedTenants,
    charges: Vec<(GroupId, Charge)>,
    moved: Vec<SavedPlace>,
    tried: Vec<(String, Option<QueueKey>)>,
    /// Heads are decided on when they come first in their queue, so they are state.
    #[serde(default)]
    heads: Vec<SavedHead>,
    /// Queues whose head has changed since.
    #[serde(default)]
    pub(super) changed: BTreeSet<String>,
    /// What groups that wait request.
    #[serde(default)]
    asked: Vec<SavedRequest>,
    aside: Option<GroupId>,
    #[serde(default)]
    reserved: BTreeMap<GroupId, ReservedClaim>,
    #[serde(default)]
    kept: BTreeMap<GroupId, Option<Time>>,
    #[serde(default)]
    leaving: BTreeSet<GroupId>,
    #[serde(default)]
    reclaim_due: Vec<(QueueKind, String)>,
}

impl Tenancy {
    /// `changed` names the queues whose head is another than the one that stands.
    pub(super) fn save(&self, changed: &BTreeSet<String>) -> SavedTenancy {
        let tree = self.tenants.tree();
        let place = |(queue, of): &super::quota_sleepers::Place| {
            let spec = tree.spec(*queue)?;
            let (flavor, resource) = tree.names(*of);
            Some((spec.kind, spec.name.clone(), flavor.into(), resource.into()))
        };
        let amounts = |usage: &Usage| -> Vec<SavedAmount> {
            let named = usage.iter().map(|&(of, amount)| {
                let (flavor, resource) = tree.names(of);
                (flavor.into(), resource.into(), amount)
            });
            named.collect()
        };
        let named = |queue: &QueueId| tree.spec(*queue).map(|spec| (spec.kind, spec.name.clone()));
        let asked = |(id, (leaf, usage)): (&GroupId, &(QueueId, Usage))| {
            Some((*id, tree.spec(*leaf)?.name.clone(), amounts(usage)))
        };
        let head = |leaf: QueueId| {
            let head = self.heads.get(leaf)?;
            Some(SavedHead {
                queue: tree.spec(leaf)?.name.clone(),
                name: head.name.clone(),
                priority: head.priority,
                since: head.since,
                usage: amounts(&head.usage),
                level: head.level,
                preempts: head.preempts,
            })
        };
        SavedTenancy {
            tenants: self.tenants.save(),
            charges: self.charges.iter().map(|(id, charge)| (*id, charge.clone())).collect(),
            moved: sorted(self.moved.iter().filter_map(place)),
            tried: self.tried.iter().map(|(queue, key)| (queue.clone(), key.clone())).collect(),
            heads: tree.queues(QueueKind::Leaf).filter_map(head).collect(),
            changed: changed.clone(),
            asked: self.asked.iter().filter_map(asked).collect(),
            aside: self.aside,
            reserved: self.reserved.clone(),
            kept: self.kept.clone(),
            leaving: self.leaving.clone(),
            reclaim_due: sorted(self.reclaim_due.iter().filter_map(named)),
        }
    }

    pub(super) fn restore(saved: SavedTenancy) -> Tenancy {
        let mut tenancy = Tenancy::new(saved.tenants.restore());
        tenancy.reserved = saved.reserved;
        (tenancy.kept, tenancy.leaving) = (saved.kept, saved.leaving);
        for (id, charge) in saved.charges {
            tenancy.charge(id, charge);
        }
        saved.tenants.drain(&mut tenancy.tenants);
        let tree = tenancy.tenants.tree();
        let places = saved.moved.iter().filter_map(|(kind, queue, flavor, resource)| {
            Some((tree.queue(*kind, queue)?, tree.flavor_resource(flavor, resource)?))
        });
        tenancy.moved = places.collect();
        let roots = saved.reclaim_due.iter().filter_map(|(kind, name)| tree.queue(*kind, name));
        tenancy.reclaim_due = roots.collect();
        for (id, queue, usage) in saved.asked {
            let Some(leaf) = tenancy.leaf(&queue) else { continue };
            let usage = tenancy.numbered(usage);
            tenancy.ask(id, leaf, usage);
        }
        for saved in saved.heads {
            let Some(leaf) = tenancy.leaf(&saved.queue) else { continue };
            let usage = tenancy.numbered(saved.usage);
            let SavedHead { name, priority, since, level, preempts, .. } = saved;
            let head = Head { name, uid: String::new(), priority, since, usage, level, preempts };
            tenancy.heads.set(&mut tenancy.tenants, leaf, head);
        }
        tenancy.tried = saved.tried.into_iter().collect();
        tenancy.aside = saved.aside;
        tenancy
    }

    fn numbered(&mut self, amounts: Vec<SavedAmount>) -> Usage {
        let intern = |(flavor, resource, amount): SavedAmount| {
            (self.tenants.intern(&flavor, &resource), amount)
        };
        amounts.into_iter().map(intern).collect()
    }

    /// Whether the queue has a leaf without a head.
    pub(super) fn lacks_head(&self, queue: &str) -> bool {
        self.leaf(queue).is_some_and(|leaf| self.heads.get(leaf).is_none())
    }
}

/// What stands in the order of queues' numbers, in one that lasts.
fn sorted<T: Ord>(named: impl Iterator<Item = T>) -> Vec<T> {
    let mut named: Vec<T> = named.collect();
    named.sort_unstable();
    named
}

//! The serialised tenants of a scheduler.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::Time;
use crate::queue::tenancy::Tenancy;
use crate::queue::tenancy::charges::Charge;
use crate::queue::tenancy::sleepers::Place;
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::quota::{Head, QueueId, QueueKind, SavedTenants, Tenants, Usage};

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

/// The tenants, and the charges of queues.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::queue) struct SavedTenancy {
    tenants: SavedTenants,
    charges: Vec<(GroupId, Charge)>,
    moved: Vec<SavedPlace>,
    ended: Vec<(String, QueueKey)>,
    /// Heads are decided on when they come first in their queue, so they are state.
    #[serde(default)]
    heads: Vec<SavedHead>,
    /// Queues whose head has changed since.
    #[serde(default)]
    pub(in crate::queue) changed: BTreeSet<String>,
    /// Requests of groups that wait.
    #[serde(default)]
    asked: Vec<SavedRequest>,
    aside: Option<GroupId>,
    #[serde(default)]
    aside_ended: Time,
    #[serde(default)]
    kept: BTreeMap<GroupId, Option<Time>>,
    #[serde(default)]
    leaving: BTreeSet<GroupId>,
    #[serde(default)]
    reclaim_due: Vec<(QueueKind, String)>,
}

impl SavedTenancy {
    /// The tenancy as it is saved. `changed` names the queues whose first group is another since
    /// their head was entered.
    pub(in crate::queue) fn of(tenancy: &Tenancy, changed: &BTreeSet<String>) -> SavedTenancy {
        let tree = tenancy.tenants.tree();
        let place = |(queue, of): &Place| {
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
            let head = tenancy.heads.get(leaf)?;
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
            tenants: tenancy.tenants.save(),
            charges: tenancy.charges.iter().map(|(id, charge)| (*id, charge.clone())).collect(),
            moved: sorted(tenancy.moved.iter().filter_map(place)),
            ended: tenancy.ended.iter().map(|(queue, key)| (queue.clone(), key.clone())).collect(),
            heads: tree.queues(QueueKind::Leaf).filter_map(head).collect(),
            changed: changed.clone(),
            asked: tenancy.asked.iter().filter_map(asked).collect(),
            aside: tenancy.aside,
            aside_ended: tenancy.aside_ended,
            kept: tenancy.kept.clone(),
            leaving: tenancy.leaving.clone(),
            reclaim_due: sorted(tenancy.reclaim_due.iter().filter_map(named)),
        }
    }

    /// A tenancy that continues from a save.
    pub(in crate::queue) fn restore(self) -> Tenancy {
        let saved = self;
        let mut tenancy = Tenancy::new(saved.tenants.restore());
        (tenancy.kept, tenancy.leaving) = (saved.kept, saved.leaving);
        for (id, charge) in saved.charges {
            tenancy.charge(id, charge);
        }
        for (id, queue, usage) in saved.asked {
            let Some(leaf) = tenancy.leaf(&queue) else { continue };
            let usage = numbered(&mut tenancy.tenants, usage);
            tenancy.ask(id, leaf, usage);
        }
        // Charges and requests keep a queue that drains.
        saved.tenants.drain(&mut tenancy.tenants);
        let tree = tenancy.tenants.tree();
        let places = saved.moved.iter().filter_map(|(kind, queue, flavor, resource)| {
            Some((tree.queue(*kind, queue)?, tree.flavor_resource(flavor, resource)?))
        });
        tenancy.moved = places.collect();
        let roots = saved.reclaim_due.iter().filter_map(|(kind, name)| tree.queue(*kind, name));
        tenancy.reclaim_due = roots.collect();
        for saved in saved.heads {
            let Some(leaf) = tenancy.leaf(&saved.queue) else { continue };
            let usage = numbered(&mut tenancy.tenants, saved.usage);
            let SavedHead { name, priority, since, level, preempts, .. } = saved;
            let head = Head { name, uid: String::new(), priority, since, usage, level, preempts };
            tenancy.heads.set(&mut tenancy.tenants, leaf, head);
        }
        tenancy.ended = saved.ended.into_iter().collect();
        tenancy.aside = saved.aside;
        tenancy.aside_ended = saved.aside_ended;
        tenancy
    }
}

/// Amounts with the numbers of their flavors and resources.
fn numbered(tenants: &mut Tenants, amounts: Vec<SavedAmount>) -> Usage {
    let intern =
        |(flavor, resource, amount): SavedAmount| (tenants.intern(&flavor, &resource), amount);
    amounts.into_iter().map(intern).collect()
}

/// Entries by name: the order of numbers does not last.
fn sorted<T: Ord>(named: impl Iterator<Item = T>) -> Vec<T> {
    let mut named: Vec<T> = named.collect();
    named.sort_unstable();
    named
}

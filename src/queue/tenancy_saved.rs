//! The serialised tenants of a scheduler.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::ids::{GroupId, QueueKey};
use super::tenancy::{Charge, ReservedClaim, Tenancy};
use crate::base::Time;
use crate::quota::{QueueId, QueueKind, SavedTenants, Usage};

/// A queue, a resource in a flavor, by name.
type SavedPlace = (QueueKind, String, String, String);

/// A group, the leaf it waits in, what it requests: flavor, resource, amount.
type SavedRequest = (GroupId, String, Vec<(String, String, i64)>);

/// The tenants, and what is charged to which queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedTenancy {
    tenants: SavedTenants,
    charges: Vec<(GroupId, Charge)>,
    moved: Vec<SavedPlace>,
    tried: Vec<(String, Option<QueueKey>)>,
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
    pub(super) fn save(&self) -> SavedTenancy {
        let tree = self.tenants.tree();
        let place = |(queue, of): &super::quota_sleepers::Place| {
            let spec = tree.spec(*queue)?;
            let (flavor, resource) = tree.names(*of);
            Some((spec.kind, spec.name.clone(), flavor.into(), resource.into()))
        };
        let named = |queue: &QueueId| tree.spec(*queue).map(|spec| (spec.kind, spec.name.clone()));
        let asked = |(id, (leaf, usage)): (&GroupId, &(QueueId, Usage))| {
            let named = usage.iter().map(|&(of, amount)| {
                let (flavor, resource) = tree.names(of);
                (flavor.into(), resource.into(), amount)
            });
            Some((*id, tree.spec(*leaf)?.name.clone(), named.collect()))
        };
        SavedTenancy {
            tenants: self.tenants.save(),
            charges: self.charges.iter().map(|(id, charge)| (*id, charge.clone())).collect(),
            moved: self.moved.iter().filter_map(place).collect(),
            tried: self.tried.iter().map(|(queue, key)| (queue.clone(), key.clone())).collect(),
            asked: self.asked.iter().filter_map(asked).collect(),
            aside: self.aside,
            reserved: self.reserved.clone(),
            kept: self.kept.clone(),
            leaving: self.leaving.clone(),
            reclaim_due: self.reclaim_due.iter().filter_map(named).collect(),
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
            let intern = |(flavor, resource, amount): (String, String, i64)| {
                (tenancy.tenants.intern(&flavor, &resource), amount)
            };
            let usage = usage.into_iter().map(intern).collect();
            tenancy.ask(id, leaf, usage);
        }
        tenancy.tried = saved.tried.into_iter().collect();
        tenancy.aside = saved.aside;
        tenancy
    }
}

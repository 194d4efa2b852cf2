//! Claims that pods of a transaction bind, and the capacity that they take.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::delayed::Delayed;
use crate::base::{ObjectName, Row};
use crate::model::{StorageCapacity, Volume, VolumeBindings};

/// Where the storage of a claim comes from.
#[derive(Debug, Clone)]
pub(in crate::state) enum Source {
    /// A volume that is there.
    Volume(Arc<Volume>),
    /// One that is made, from a pool if what is left is known.
    Made(Option<Arc<StorageCapacity>>),
}

/// A claim and where its storage comes from.
#[derive(Debug, Clone)]
pub(in crate::state) struct Taking {
    pub(in crate::state) need: Arc<Delayed>,
    pub(in crate::state) source: Source,
}

impl Taking {
    pub(in crate::state) fn has(&self, name: &str) -> bool {
        matches!(&self.source, Source::Volume(volume) if volume.name == name)
    }
}

/// A claim with the rows of the pods that use it.
#[derive(Debug, Clone)]
pub(crate) struct PlannedClaim {
    pub(in crate::state) taking: Taking,
    pub(in crate::state) rows: Vec<Row>,
}

/// Claims as they were before a pod was placed, to be put back.
pub(crate) type Replanned = Vec<(ObjectName, Option<PlannedClaim>)>;

/// The claims of a transaction; none in a cluster.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Planned {
    claims: BTreeMap<ObjectName, PlannedClaim>,
    /// The claims that hold volumes, by volume.
    holders: BTreeMap<String, ObjectName>,
    /// Amounts taken from pools.
    taken: BTreeMap<ObjectName, i64>,
    /// Pods that were evicted, by the node and the volume that they used there.
    leaving: BTreeMap<(String, String), u32>,
    /// Whether claims hand volumes over to those that are placed later.
    pub(in crate::state) rearranges: bool,
}

impl Planned {
    pub(in crate::state) fn claims(&self) -> impl Iterator<Item = &PlannedClaim> {
        self.claims.values()
    }

    pub(in crate::state) fn claim(&self, name: &ObjectName) -> Option<&PlannedClaim> {
        self.claims.get(name)
    }

    /// Where the storage of a claim comes from, and the row of one of its pods.
    pub(in crate::state) fn source(&self, claim: &ObjectName) -> Option<(&Source, Row)> {
        let claim = self.claims.get(claim)?;
        Some((&claim.taking.source, *claim.rows.first()?))
    }

    /// The claim that holds a volume.
    pub(in crate::state) fn holder(&self, volume: &str) -> Option<&ObjectName> {
        self.holders.get(volume)
    }

    /// Counts a pod that was evicted from a node where it used a volume, or takes it back.
    pub(in crate::state) fn leave(&mut self, node: &str, volume: &str, is_back: bool) {
        let key = (String::from(node), String::from(volume));
        if !is_back {
            *self.leaving.entry(key).or_default() += 1;
        } else if let Some(pods) = self.leaving.get_mut(&key) {
            *pods -= 1;
            if *pods == 0 {
                self.leaving.remove(&key);
            }
        }
    }

    pub(in crate::state) fn leaves(&self, node: &str, volume: &str) -> bool {
        !self.leaving.is_empty()
            && self.leaving.contains_key(&(String::from(node), String::from(volume)))
    }

    /// Adds what a claim gets.
    pub(in crate::state) fn add_to(&self, claim: &ObjectName, bindings: &mut VolumeBindings) {
        match self.claims.get(claim).map(|claim| &claim.taking.source) {
            Some(Source::Volume(volume)) => {
                bindings.bind.push((claim.clone(), volume.name.clone()));
            }
            Some(Source::Made(_)) => bindings.provision.push(claim.clone()),
            None => {}
        }
    }

    /// How much is taken of a pool.
    pub(in crate::state) fn taken_of(&self, pool: &StorageCapacity) -> i64 {
        if self.taken.is_empty() {
            return 0;
        }
        self.taken.get(&pool.full_name()).copied().unwrap_or(0)
    }

    /// Gives claims what they take, one more pod of a row among their users if `is_new` says so.
    /// Returns what they were.
    pub(in crate::state) fn apply(
        &mut self,
        takings: Vec<Taking>,
        row: Row,
        is_new: impl Fn(&Taking) -> bool,
    ) -> Replanned {
        let mut before = Vec::with_capacity(takings.len());
        for taking in takings {
            let name = taking.need.name.clone();
            let mut rows = self.claims.get(&name).map_or_else(Vec::new, |claim| claim.rows.clone());
            if is_new(&taking) {
                rows.push(row);
            }
            let old = self.put(&name, None);
            before.push((name, old, PlannedClaim { taking, rows }));
        }
        // All are taken out before one is put in, so that volumes can change hands.
        let put = before.into_iter().map(|(name, old, new)| {
            self.put(&name, Some(new));
            (name, old)
        });
        put.collect()
    }

    /// Puts claims back to what they were.
    pub(in crate::state) fn restore(&mut self, before: Replanned) {
        for (name, _) in &before {
            self.put(name, None);
        }
        for (name, old) in before {
            self.put(&name, old);
        }
    }

    fn put(&mut self, name: &ObjectName, new: Option<PlannedClaim>) -> Option<PlannedClaim> {
        let old = self.claims.remove(name);
        if let Some(old) = &old {
            self.count(name, &old.taking, -1);
        }
        if let Some(new) = new {
            self.count(name, &new.taking, 1);
            self.claims.insert(name.clone(), new);
        }
        old
    }

    fn count(&mut self, name: &ObjectName, taking: &Taking, sign: i64) {
        match &taking.source {
            Source::Volume(volume) if sign > 0 => {
                self.holders.insert(volume.name.clone(), name.clone());
            }
            Source::Volume(volume) => {
                self.holders.remove(&volume.name);
            }
            Source::Made(Some(pool)) => {
                let taken = self.taken.entry(pool.full_name()).or_default();
                *taken = taken.saturating_add(sign.saturating_mul(taking.need.bytes()));
                if *taken == 0 {
                    self.taken.remove(&pool.full_name());
                }
            }
            Source::Made(None) => {}
        }
    }
}

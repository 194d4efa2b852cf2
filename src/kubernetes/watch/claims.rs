//! Claims and storage of a store: objects of which a field is not in force are kept from the
//! scheduler, and leave alone the pods that name them.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use super::entries::{GroupKey, PodEntry};
use super::store::{ObjectRef, Store};
use super::update::Update;
use crate::kubernetes::claims::{TaintRule, tainted};
use crate::kubernetes::membership::Family;
use crate::model::{ClaimSource, PodVolume, ResourceSlice};
use crate::state::{
    ClaimKey, ClaimKind, ClaimObject, Event, StorageKey, StorageKind, StorageObject,
};

/// The reason to leave pods with claims alone where nobody allocates.
const UNFOLLOWED: &str = "/spec/resourceClaims is not in force: nobody here allocates devices";

impl Store {
    /// A claim as it was last seen, whoever allocated it; `None` if it is not known.
    pub fn resource_claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<&crate::model::ResourceClaim> {
        match self.claims.get(&ClaimKey::claim(namespace, name))? {
            ClaimObject::Claim(claim) => Some(claim),
            _ => None,
        }
    }

    /// All claims as they were last seen, by namespace and name.
    pub fn resource_claims(&self) -> impl Iterator<Item = &crate::model::ResourceClaim> {
        self.claims.values().filter_map(|object| match object {
            ClaimObject::Claim(claim) => Some(claim),
            _ => None,
        })
    }

    /// A pod of a namespace that waits for the scheduler, by its uid. O(pods of the namespace).
    pub fn waiting_pod(&self, namespace: &str, uid: &str) -> Option<ObjectRef> {
        let first = alloc::format!("{namespace}/");
        let pods = self.pods.range(first.clone()..).take_while(|(key, _)| key.starts_with(&first));
        let mut waiting = pods.filter(|(_, entry)| entry.waits() && entry.pod.uid == uid);
        waiting.next().map(|(_, entry)| {
            let name = entry.pod.name.clone();
            ObjectRef { namespace: namespace.to_owned(), name, uid: uid.to_owned() }
        })
    }

    /// A claim of volumes as it was last seen; `None` if it is not known.
    pub fn volume_claim(&self, namespace: &str, name: &str) -> Option<&crate::model::VolumeClaim> {
        match self.storage.get(&StorageKey::claim(namespace, name))? {
            StorageObject::Claim(claim) => Some(claim),
            _ => None,
        }
    }

    /// Takes a class, a slice or a claim, with the reason for which it is not in force, if there is
    /// one.
    pub(super) fn put_claims(
        &mut self,
        object: ClaimObject,
        refused: Option<String>,
        updates: &mut Vec<Update>,
    ) {
        let key = object.key();
        if let Some(reason) = refused {
            self.drop_claims(&key, updates);
            self.claim_faults.insert(key, reason);
            self.show_claiming(updates);
            return;
        }
        let had_fault = self.claim_faults.remove(&key).is_some();
        if self.claims.get(&key) != Some(&object) {
            self.claims.insert(key.clone(), object);
            self.tell_claims(&key, updates);
        } else if !had_fault {
            return;
        }
        let claim = (key.kind == ClaimKind::Claim).then_some(&*key.name);
        self.show_concerned(had_fault, claim, updates);
    }

    pub(super) fn remove_claims(&mut self, key: &ClaimKey, updates: &mut Vec<Update>) {
        self.drop_claims(key, updates);
        let had_fault = self.claim_faults.remove(key).is_some();
        let claim = (key.kind == ClaimKind::Claim).then_some(&*key.name);
        self.show_concerned(had_fault, claim, updates);
    }

    fn drop_claims(&mut self, key: &ClaimKey, updates: &mut Vec<Update>) {
        if self.claims.remove(key).is_some() {
            let key = key.clone();
            updates.push(Update::Event(Event::ClaimsRemoved { key, version: 0 }));
        }
    }

    /// Tells of an object as it is. A slice has the taints of rules, or is not given away.
    fn tell_claims(&self, key: &ClaimKey, updates: &mut Vec<Update>) {
        let object = match self.claims.get(key) {
            Some(ClaimObject::Slice(slice)) => self.tainted(slice).map(ClaimObject::Slice),
            Some(object) => Some(object.clone()),
            None => return,
        };
        updates.push(Update::Event(match object {
            Some(object) => Event::ClaimsChanged { object, version: 0 },
            None => Event::ClaimsRemoved { key: key.clone(), version: 0 },
        }));
    }

    fn tainted(&self, slice: &ResourceSlice) -> Option<ResourceSlice> {
        tainted(slice, self.taint_rules.values())
    }

    /// Takes a rule that taints devices, or the end of one.
    pub(super) fn put_taint_rule(
        &mut self,
        name: &str,
        rule: Option<TaintRule>,
        updates: &mut Vec<Update>,
    ) {
        if self.taint_rules.get(name) == rule.as_ref() {
            return;
        }
        match rule {
            Some(rule) => self.taint_rules.insert(name.to_owned(), rule),
            None => self.taint_rules.remove(name),
        };
        let slices = self.claims.keys().filter(|key| key.kind == ClaimKind::Slice);
        for key in slices.cloned().collect::<Vec<_>>() {
            self.tell_claims(&key, updates);
        }
    }

    /// Takes a storage object, with the reason for which it is not in force, if there is one.
    pub(super) fn put_storage(
        &mut self,
        object: StorageObject,
        refused: Option<String>,
        updates: &mut Vec<Update>,
    ) {
        let key = object.key();
        if let Some(reason) = refused {
            self.drop_storage(&key, updates);
            self.storage_faults.insert(key, reason);
            self.show_claiming(updates);
            return;
        }
        let had_fault = self.storage_faults.remove(&key).is_some();
        if self.storage.get(&key) != Some(&object) {
            self.storage.insert(key.clone(), object.clone());
            updates.push(Update::Event(Event::StorageChanged { object, version: 0 }));
        } else if !had_fault {
            return;
        }
        let claim = (key.kind == StorageKind::Claim).then_some(&*key.name);
        self.show_concerned(had_fault, claim, updates);
    }

    pub(super) fn remove_storage(&mut self, key: &StorageKey, updates: &mut Vec<Update>) {
        self.drop_storage(key, updates);
        let had_fault = self.storage_faults.remove(key).is_some();
        let claim = (key.kind == StorageKind::Claim).then_some(&*key.name);
        self.show_concerned(had_fault, claim, updates);
    }

    fn drop_storage(&mut self, key: &StorageKey, updates: &mut Vec<Update>) {
        if self.storage.remove(key).is_some() {
            let key = key.clone();
            updates.push(Update::Event(Event::StorageRemoved { key, version: 0 }));
        }
    }

    /// Shows pods anew after a change of an object: all with claims if it was not in force before, else
    /// those of a claim.
    fn show_concerned(&mut self, had_fault: bool, claim: Option<&str>, updates: &mut Vec<Update>) {
        if had_fault { self.show_claiming(updates) } else { self.show_users(claim, updates) }
    }

    /// Shows pods with claims or volumes anew: what they name is in force now, or not any more.
    fn show_claiming(&mut self, updates: &mut Vec<Update>) {
        let claiming = self.pods.iter().filter(|(_, entry)| {
            let shape = entry.pod.shape();
            !shape.claims.is_empty() || !shape.volumes.is_empty()
        });
        for pod in claiming.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.show(&pod, updates);
        }
    }

    /// Shows pods of a claim anew, by its full name: its class or its volume may be out of force. O(pods of
    /// the namespace), where any object is.
    fn show_users(&mut self, claim: Option<&str>, updates: &mut Vec<Update>) {
        if self.claim_faults.is_empty() && self.storage_faults.is_empty() {
            return;
        }
        let Some((namespace, name)) = claim.and_then(|claim| claim.split_once('/')) else { return };
        let first = alloc::format!("{namespace}/");
        let pods = self.pods.range(first.clone()..).take_while(|(key, _)| key.starts_with(&first));
        let users = pods.filter(|(_, entry)| {
            let shape = entry.pod.shape();
            let mut claims = shape.claims.iter().filter_map(|claim| match &claim.source {
                ClaimSource::Named(own) | ClaimSource::Made { claim: own, .. } => Some(&**own),
                _ => None,
            });
            let mut volumes = shape.volumes.iter().filter_map(PodVolume::claim);
            claims.any(|own| own == name) || volumes.any(|own| own == name)
        });
        for pod in users.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.show(&pod, updates);
        }
    }

    /// Why what a pod claims is not in force, if so.
    pub(super) fn claim_fault(&self, entry: &PodEntry) -> Option<String> {
        let shape = entry.pod.shape();
        if !self.follows_claims && !shape.claims.is_empty() {
            return Some(UNFOLLOWED.to_owned());
        }
        if self.claim_faults.is_empty() && self.storage_faults.is_empty() {
            return None;
        }
        let of_claim = |claim: &crate::model::PodClaim| match &claim.source {
            ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                let key = ClaimKey::claim(&shape.namespace, name);
                let own = self.claim_faults.get(&key);
                let classes = || {
                    let claim = self.resource_claim(&shape.namespace, name)?;
                    let mut demands = claim.spec.demands();
                    demands.find_map(|(.., demand)| {
                        let key = ClaimKey::new(ClaimKind::Class, &*demand.class);
                        self.claim_faults.get(&key)
                    })
                };
                own.or_else(classes).cloned()
            }
            _ => None,
        };
        let of_volume = |name: &str| {
            let own = self.storage_faults.get(&StorageKey::claim(&shape.namespace, name));
            let named = || {
                use StorageKind::{Class, Volume};
                let claim = self.volume_claim(&shape.namespace, name)?;
                let class = self.storage_faults.get(&StorageKey::new(Class, &*claim.class));
                let volume = StorageKey::new(Volume, &*claim.volume);
                class.or_else(|| self.storage_faults.get(&volume))
            };
            own.or_else(named).cloned()
        };
        let claims = shape.claims.iter().find_map(of_claim);
        claims.or_else(|| shape.volumes.iter().filter_map(PodVolume::claim).find_map(of_volume))
    }

    /// Tells again of claims that a pod had and that are still allocated: devices stay taken until
    /// their claims say otherwise, whatever has become of the pods.
    pub(super) fn keep_allocated(&self, entry: &PodEntry, updates: &mut Vec<Update>) {
        let shape = entry.pod.shape();
        for claim in &shape.claims {
            let (ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) = &claim.source
            else {
                continue;
            };
            let known = self.resource_claim(&shape.namespace, name);
            if known.is_some_and(|claim| claim.allocation.is_some()) {
                self.tell_claims(&ClaimKey::claim(&shape.namespace, name), updates);
            }
        }
    }

    /// Lets claims that were made for a group serve one of its members, by the identity of the group.
    pub(super) fn own_claims_of_group(&self, entry: &mut PodEntry) {
        let Some(group) = entry.group.as_ref().filter(|group| group.family == Family::Kubernetes)
        else {
            return;
        };
        let uid = self.objects.get(group).map_or("", |object| object.uid.as_str());
        entry.claims_are_also_of(uid);
    }

    /// The same for all members of a group whose object appeared.
    pub(super) fn own_claims_of_members(&mut self, group: &GroupKey, updates: &mut Vec<Update>) {
        let Some(uid) = self.objects.get(group).map(|object| object.uid.clone()) else { return };
        let Some(instance) = self.instances.get(group) else { return };
        for pod in instance.members.iter().cloned().collect::<Vec<_>>() {
            let entry = self.pods.get_mut(&pod);
            if entry.is_some_and(|entry| entry.claims_are_also_of(&uid)) {
                self.show(&pod, updates);
            }
        }
    }
}

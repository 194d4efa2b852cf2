//! Objects of claims, taken one by one, and how they go together.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::taints::{TaintRule, tainted};
use super::{GROUP, claim_kind, claim_object, claim_template};
use crate::kubernetes::account;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::metadata;
use crate::model::{ClaimSpec, ResourceClaim};
use crate::state::{ClaimKey, ClaimKind, ClaimObject};

/// A kind of the API group of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::kubernetes) enum ClaimSort {
    /// A class, a slice or a claim.
    Object(ClaimKind),
    /// `ResourceClaimTemplate`.
    Template,
    /// `DeviceTaintRule`.
    Rule,
}

impl ClaimSort {
    /// The kind that an API group and kind name.
    pub(in crate::kubernetes) fn of(group: &str, kind: &str) -> Option<ClaimSort> {
        match (group, kind) {
            (GROUP, "ResourceClaimTemplate") => Some(ClaimSort::Template),
            (GROUP, "DeviceTaintRule") => Some(ClaimSort::Rule),
            _ => claim_kind(group, kind).map(ClaimSort::Object),
        }
    }

    /// Whether objects of the kind are in a namespace.
    pub(in crate::kubernetes) fn is_namespaced(self) -> bool {
        matches!(self, ClaimSort::Object(ClaimKind::Claim) | ClaimSort::Template)
    }
}

/// Objects of claims that were read.
#[derive(Debug, Default)]
pub(in crate::kubernetes) struct ClaimObjects {
    objects: BTreeMap<ClaimKey, ClaimObject>,
    /// Specifications of templates, by namespace and name.
    templates: BTreeMap<(String, String), Arc<ClaimSpec>>,
    rules: BTreeMap<String, TaintRule>,
    /// Objects of which a field is not in force, with the reason, by kind and full name.
    refused: BTreeMap<(ClaimSort, String), String>,
}

impl ClaimObjects {
    /// Takes an object; whether there was one of its kind and name. One of which a field is not in
    /// force is left out: what needs it is not placed.
    pub(in crate::kubernetes) fn take(&mut self, sort: ClaimSort, root: &Field<'_>) -> Fault<bool> {
        let name = metadata::name(root)?;
        let namespace = metadata::namespace(root)?;
        let refused = account::refused_of(root.value, root.object.mode);
        if !refused.is_empty() {
            let full =
                if sort.is_namespaced() { format!("{namespace}/{name}") } else { name.clone() };
            let reason = format!("{}: {}", root.object.name, refused.join("; "));
            self.refused.insert((sort, full), reason);
        }
        let is_whole = refused.is_empty();
        Ok(match sort {
            ClaimSort::Object(kind) => {
                let object = claim_object(kind, root)?;
                let key = object.key();
                if is_whole {
                    self.objects.insert(key, object).is_some()
                } else {
                    self.objects.remove(&key).is_some()
                }
            }
            ClaimSort::Template => {
                let spec = claim_template(root)?;
                self.templates.insert((namespace, name), spec).is_some()
            }
            ClaimSort::Rule => {
                let rule = TaintRule::read(root, is_whole)?;
                self.rules.insert(name, rule).is_some()
            }
        })
    }

    /// The specification of a template.
    ///
    /// # Errors
    /// It is not there, or a field of it is not in force.
    pub(in crate::kubernetes) fn template(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<ClaimSpec>, String> {
        if let Some(reason) =
            self.refused.get(&(ClaimSort::Template, format!("{namespace}/{name}")))
        {
            return Err(reason.clone());
        }
        let found = self.templates.get(&(namespace.into(), name.into()));
        found
            .cloned()
            .ok_or_else(|| format!("the resource claim template {namespace}/{name} is not there"))
    }

    /// Why a claim by its name is not in force, if so.
    pub(in crate::kubernetes) fn claim_fault(&self, namespace: &str, name: &str) -> Option<&str> {
        let sort = ClaimSort::Object(ClaimKind::Claim);
        let own = self.refused.get(&(sort, format!("{namespace}/{name}")));
        let object = || match self.objects.get(&ClaimKey::claim(namespace, name))? {
            ClaimObject::Claim(claim) => self.spec_fault(&claim.spec),
            _ => None,
        };
        own.map(String::as_str).or_else(object)
    }

    /// Why a class that a claim names is not in force, if so.
    pub(in crate::kubernetes) fn spec_fault(&self, spec: &ClaimSpec) -> Option<&str> {
        if self.refused.is_empty() {
            return None;
        }
        let sort = ClaimSort::Object(ClaimKind::Class);
        spec.demands().find_map(|(.., demand)| {
            self.refused.get(&(sort, demand.class.clone())).map(String::as_str)
        })
    }

    /// Whether a class serves a resource.
    pub(in crate::kubernetes) fn serves(&self, resource: &str) -> bool {
        self.objects.values().any(|object| match object {
            ClaimObject::Class(class) => {
                class.extended_resource.as_deref() == Some(resource)
                    || resource.strip_prefix(super::pods::CLASS_RESOURCE) == Some(&*class.name)
            }
            _ => false,
        })
    }

    /// Adds a claim, unless there is one of its name.
    pub(in crate::kubernetes) fn add(&mut self, claim: ResourceClaim) {
        let claim = ClaimObject::Claim(claim);
        self.objects.entry(claim.key()).or_insert(claim);
    }

    /// The reasons for which objects are left out.
    pub(in crate::kubernetes) fn faults(&self) -> impl Iterator<Item = &str> {
        self.refused.values().map(String::as_str)
    }

    /// The objects, with the taints of rules.
    pub(in crate::kubernetes) fn into_objects(self) -> Vec<ClaimObject> {
        let ClaimObjects { objects, rules, .. } = self;
        let objects = objects.into_values().filter_map(|object| match object {
            ClaimObject::Slice(slice) => tainted(&slice, rules.values()).map(ClaimObject::Slice),
            other => Some(other),
        });
        objects.collect()
    }
}

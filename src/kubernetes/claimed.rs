//! The claims of pods, once everything is read: templates become claims, and what is left out
//! leaves alone who needs it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::claims::{ClaimObjects, TemplateUse};
use super::groups::GroupObject;
use super::membership::Family;
use super::pod::PodRecord;
use super::storage::StorageRecords;
use crate::model::{ClaimSource, ClaimSpec, PodClaim, PodShape, PodVolume, ResourceClaim};

/// Key of a question: the claims of one shape of pods, by the address of the shape.
type Question = (usize, Vec<TemplateUse>, Option<usize>);

/// Puts claims into pods, and storage into its final form.
pub(super) fn settle(
    pods: &mut [PodRecord],
    groups: &[GroupObject],
    book: &mut ClaimObjects,
    storage: &mut StorageRecords,
) {
    storage.fill_in();
    let index = groups.iter().enumerate();
    let index = index.filter(|(_, group)| !group.composite() && !group.claims.is_empty());
    let index: BTreeMap<(Family, &str, &str), usize> =
        index.map(|(at, group)| ((group.family, &*group.namespace, &*group.name), at)).collect();
    let mut done: BTreeMap<Question, Result<Arc<PodShape>, String>> = BTreeMap::new();
    // Shapes that were replaced stay alive until the end, so that no address is used twice.
    let mut replaced = Vec::new();
    for record in pods {
        own_volumes(record, storage);
        let group = record.membership.as_deref().and_then(|membership| {
            let named = (membership.family, record.pod.namespace(), &*membership.object);
            index.get(&named).copied()
        });
        // Claims of a pod that exists are made by a controller.
        if !record.pod.uid.is_empty() {
            record.templates.clear();
            if let Some(group) = group {
                owned_by(record, &groups[group].uid);
            }
        }
        let is_served = record.extended.iter().any(|request| book.serves(&request.resource));
        if !record.templates.is_empty() || is_served {
            let shape = Arc::clone(record.pod.shape());
            let question = (Arc::as_ptr(&shape) as usize, record.templates.clone(), group);
            let new = done.entry(question).or_insert_with(|| {
                shape_of(record, is_served, group.map(|at| &groups[at]), book).map(Arc::new)
            });
            match new.clone() {
                Ok(shape) => record.pod = core::mem::take(&mut record.pod).with_shape(shape),
                Err(reason) if record.pod.node.is_none() => {
                    record.pod.scheduling_gates.push(reason);
                }
                Err(_) => {}
            }
            replaced.push(shape);
        }
        if record.pod.node.is_none() {
            let faults = faults(record.pod.shape(), book, storage);
            record.pod.scheduling_gates.extend(faults);
        }
    }
}

/// Makes the claims of a pod's own volumes.
fn own_volumes(record: &mut PodRecord, storage: &mut StorageRecords) {
    for own in core::mem::take(&mut record.own_volumes) {
        let claim = own.claim_of(record.pod.namespace(), &record.pod.name);
        let volume = PodVolume::Claim(claim.name.clone());
        record.pod.shape_mut().volumes.push(volume);
        storage.add(claim, own.is_classless);
    }
}

/// Lets claims that were made for a group serve its member.
fn owned_by(record: &mut PodRecord, group: &str) {
    let is_made = |claim: &PodClaim| matches!(claim.source, ClaimSource::Made { .. });
    if group.is_empty() || !record.pod.shape().claims.iter().any(is_made) {
        return;
    }
    for claim in &mut record.pod.shape_mut().claims {
        if let ClaimSource::Made { owners, .. } = &mut claim.source {
            owners.push(group.into());
        }
    }
}

/// The shape of a pod with the claims that its templates stand for. Members share what their group
/// claims.
///
/// # Errors
/// A template is not there, or not in force.
fn shape_of(
    record: &PodRecord,
    is_served: bool,
    group: Option<&GroupObject>,
    book: &mut ClaimObjects,
) -> Result<PodShape, String> {
    let mut shape = PodShape::clone(record.pod.shape());
    let namespace = shape.namespace.clone();
    for TemplateUse { at, template } in &record.templates {
        let spec = book.template(&namespace, template)?;
        let Some(claim) = shape.claims.get_mut(*at) else { continue };
        let shared = group.filter(|group| {
            let is_same = |own: &&super::claims::ClaimEntry| {
                own.name == claim.name && own.template.as_ref() == Some(template)
            };
            group.claims.iter().find(is_same).is_some()
        });
        claim.source = match shared {
            Some(group) => {
                let name = format!("{}-{}", group.name, claim.name);
                let mut made = ResourceClaim::new(name.clone(), ClaimSpec::clone(&spec));
                made.namespace.clone_from(&namespace);
                made.owner.clone_from(&group.uid);
                book.add(made);
                ClaimSource::Named(name)
            }
            None => ClaimSource::Own(spec),
        };
    }
    if is_served {
        let name = crate::claims::EXTENDED.to_string();
        let requests = record.extended.to_vec();
        shape.claims.push(PodClaim { name, source: ClaimSource::Extended(requests) });
    }
    Ok(shape)
}

/// Why what a pod claims is not in force.
fn faults(shape: &PodShape, book: &ClaimObjects, storage: &StorageRecords) -> Vec<String> {
    let claims = shape.claims.iter().filter_map(|claim| match &claim.source {
        ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
            book.claim_fault(&shape.namespace, name)
        }
        ClaimSource::Own(spec) => book.spec_fault(spec),
        _ => None,
    });
    let volumes = shape.volumes.iter().filter_map(PodVolume::claim);
    let volumes = volumes.filter_map(|claim| storage.fault(&shape.namespace, claim));
    claims.chain(volumes).map(String::from).collect()
}

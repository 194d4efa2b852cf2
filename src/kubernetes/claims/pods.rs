//! Claims that pods name.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::quantities;
use crate::base::Quantity;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::metadata;
use crate::kubernetes::mode::Mode;
use crate::kubernetes::resources::is_extended;
use crate::kubernetes::value::Value;
use crate::model::{ClaimSource, ExtendedRequest, ModelError, PodClaim};

/// The prefix of resources that classes serve by their own names.
pub(super) const CLASS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// An entry of `spec.resourceClaims`, of a pod or of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct ClaimEntry {
    pub(in crate::kubernetes) name: String,
    pub(in crate::kubernetes) claim: Option<String>,
    pub(in crate::kubernetes) template: Option<String>,
}

/// A claim of a pod that is to be made of a template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::kubernetes) struct TemplateUse {
    /// The place among the claims of the shape, where [`ClaimSource::Unmade`] stands.
    pub(in crate::kubernetes) at: usize,
    pub(in crate::kubernetes) template: String,
}

/// The entries of `spec.resourceClaims`.
pub(in crate::kubernetes) fn claim_entries(spec: &Field<'_>) -> Fault<Vec<ClaimEntry>> {
    let mut entries = Vec::new();
    spec.each("resourceClaims", |entry| {
        let name = entry.text_of("name")?;
        // 1.30 and before had both in `source`.
        let source = entry.get("source")?;
        let from = source.as_ref().unwrap_or(&entry);
        let claim = from.name_of("resourceClaimName")?;
        let template = from.name_of("resourceClaimTemplateName")?;
        if entry.strict() && claim.is_some() == template.is_some() {
            let text = "must have one of resourceClaimName, resourceClaimTemplateName";
            return Err(entry.invalid(text));
        }
        entries.push(ClaimEntry { name, claim, template });
        Ok(())
    })?;
    Ok(entries)
}

/// The claims of a pod, and those among them that are yet to be made of a template.
pub(in crate::kubernetes) fn claims_of(
    root: &Field<'_>,
    spec: &Field<'_>,
    group: Option<&str>,
) -> Fault<(Vec<PodClaim>, Vec<TemplateUse>)> {
    let (mut claims, mut templates) = (Vec::new(), Vec::new());
    let entries = claim_entries(spec)?;
    if entries.is_empty() {
        return Ok((claims, templates));
    }
    let mut owners: Vec<String> = Vec::new();
    if let Some(metadata) = root.get("metadata")? {
        owners.push(metadata.text_of("uid")?);
    }
    owners.extend(group.map(String::from));
    // Names of claims that were made; none for those that turned out not to be needed.
    let mut made: BTreeMap<String, Option<String>> = BTreeMap::new();
    if let Some(status) = root.get("status")? {
        status.each("resourceClaimStatuses", |entry| {
            made.insert(entry.text_of("name")?, entry.name_of("resourceClaimName")?);
            Ok(())
        })?;
    }
    for ClaimEntry { name, claim, template } in entries {
        let source = match (claim, made.get(&name)) {
            (Some(claim), _) => ClaimSource::Named(claim),
            (None, Some(Some(claim))) => {
                ClaimSource::Made { claim: claim.clone(), owners: owners.clone() }
            }
            (None, Some(None)) => continue,
            (None, None) => {
                let at = claims.len();
                templates.extend(template.map(|template| TemplateUse { at, template }));
                ClaimSource::Unmade
            }
        };
        claims.push(PodClaim { name, source });
    }
    Ok((claims, templates))
}

/// The claims of a pod from its manifest, whatever kind it states. `group` is the identity of the
/// object that stands for its group, for claims that were made for that.
///
/// Requests for resources that a class may serve count as a claim, which is of no account in a
/// cluster without such a class.
///
/// # Errors
/// The manifest cannot be taken.
pub fn pod_claims(
    manifest: &Value,
    mode: Mode,
    group: Option<&str>,
) -> Result<Vec<PodClaim>, ModelError> {
    let object = metadata::object("pod", true, manifest, mode);
    let root = Field::root(&object, manifest);
    let spec = root.need("spec")?;
    let (mut claims, _) = claims_of(&root, &spec, group)?;
    let extended = extended(&spec)?;
    if !extended.is_empty() {
        let name = String::from(crate::claims::EXTENDED);
        claims.push(PodClaim { name, source: ClaimSource::Extended(extended.into_vec()) });
    }
    Ok(claims)
}

/// Request of one container for a resource.
struct Asked {
    /// The place of the container, and that of the resource among those it requests.
    place: (usize, usize),
    count: u64,
    /// Whether it runs as long as the pod does.
    lasts: bool,
}

/// Requests for resources that a class may serve, in order of containers.
pub(in crate::kubernetes) fn extended(spec: &Field<'_>) -> Fault<Box<[ExtendedRequest]>> {
    let mut by_resource: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
    let mut index = 0_usize;
    for list in ["initContainers", "containers"] {
        spec.each(list, |container| {
            let lasts = list == "containers" || container.text_of("restartPolicy")? == "Always";
            let mut requests: BTreeMap<String, Quantity> = BTreeMap::new();
            if let Some(resources) = container.get("resources")? {
                requests = quantities(&resources, "requests")?;
                if container.strict() {
                    for (resource, limit) in quantities(&resources, "limits")? {
                        requests.entry(resource).or_insert(limit);
                    }
                }
            }
            for (place, (resource, amount)) in requests.iter().enumerate() {
                let served = is_extended(resource) || resource.starts_with(CLASS_RESOURCE);
                let count = u64::try_from(amount.ceil()).unwrap_or(0);
                if served && count > 0 {
                    let asked = Asked { place: (index, place), count, lasts };
                    by_resource.entry(resource.clone()).or_default().push(asked);
                }
            }
            index += 1;
            Ok(())
        })?;
    }
    let mut requests: Vec<((usize, usize), ExtendedRequest)> = Vec::new();
    for (resource, asked) in by_resource {
        let mut add = |(container, request): (usize, usize), count: u64| {
            let name = format!("container-{container}-request-{request}");
            let resource = resource.clone();
            requests.push(((container, request), ExtendedRequest { resource, name, count }));
        };
        asked.iter().filter(|own| own.lasts).for_each(|own| add(own.place, own.count));
        // A container that ends uses what those after it will have.
        let later = |at: usize| -> u64 {
            asked[at..].iter().filter(|own| own.lasts).map(|own| own.count).sum()
        };
        let ends = asked.iter().enumerate().filter(|(_, own)| !own.lasts);
        let mut most: Option<(u64, &Asked)> = None;
        for (at, own) in ends {
            let beyond = own.count.saturating_sub(later(at));
            if beyond > most.as_ref().map_or(0, |(most, _)| *most) {
                most = Some((beyond, own));
            }
        }
        if let Some((count, own)) = most {
            add(own.place, count);
        }
    }
    requests.sort_by_key(|(place, _)| *place);
    Ok(requests.into_iter().map(|(_, request)| request).collect())
}

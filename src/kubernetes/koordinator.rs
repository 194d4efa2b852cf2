//! Koordinator's fields of a pod beside its gang: class of service, band, quota.

use alloc::boxed::Box;
use alloc::string::String;

use super::field::{Fault, Field};
use crate::model::resources::amount_of;
use crate::model::{Amounts, Labels, PRIORITY_CLASS_LABEL, PodGroup, QOS_LABEL, QUOTA_LABEL};

/// The limits of the containers of a pod that states a class of service or a band, or asks for what
/// lower bands may have; `None` for any other.
pub(super) fn limits(
    spec: &Field<'_>,
    labels: &Labels,
    requests: &Amounts,
) -> Fault<Option<Box<Amounts>>> {
    let of_lower_band = |(name, _): (&str, i64)| {
        name.starts_with("kubernetes.io/batch-") || name.starts_with("kubernetes.io/mid-")
    };
    let stated = [QOS_LABEL, PRIORITY_CLASS_LABEL].iter().any(|key| labels.contains_key(*key));
    if !stated && !requests.iter().any(of_lower_band) {
        return Ok(None);
    }
    let mut limits = Amounts::new();
    spec.each("containers", |container| {
        let Some(resources) = container.get("resources")? else { return Ok(()) };
        resources.entries("limits", |name, field| {
            let amount =
                amount_of(name, field.quantity()?).map_err(|problem| field.fail(problem))?;
            limits.set(name, limits.of(name).saturating_add(amount));
            Ok(())
        })
    })?;
    Ok(Some(Box::new(limits)))
}

/// Puts a group that names no queue into the quota that its pods name.
pub(super) fn take_quota(group: &mut PodGroup) {
    if !group.queue.is_empty() {
        return;
    }
    let pods = group.all_pods();
    let quota = pods.iter().find_map(|pod| pod.shape().labels.get(QUOTA_LABEL));
    if let Some(quota) = quota.cloned() {
        set_queue(group, &quota);
    }
}

fn set_queue(group: &mut PodGroup, queue: &str) {
    group.queue = String::from(queue);
    for inner in &mut group.groups {
        set_queue(inner, queue);
    }
}

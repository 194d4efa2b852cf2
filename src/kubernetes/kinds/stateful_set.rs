//! `StatefulSet` of `apps`.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use super::kind::WorkloadKind;
use super::submitted::{Minimum, Names, Role, Submitted, count, word};
use crate::kubernetes::field::{Fault, Field};
use crate::model::Problem;

const GROUP_MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";

/// A stateful set: one role. Its pods start one after another unless they are managed in parallel,
/// so only then all of them can be waited for.
pub(super) fn stateful_set(root: &Field<'_>) -> Fault<Submitted> {
    let mut set = Submitted::new(WorkloadKind::StatefulSet, root)?;
    let spec = root.need("spec")?;
    let pods = count(&spec, "replicas", 1)?;
    set.count_pods(pods, &spec, "replicas")?;
    let management = word(&spec, "podManagementPolicy", &["OrderedReady", "Parallel"])?;
    let first = match spec.get("ordinals")? {
        Some(ordinals) => count(&ordinals, "start", 0)?,
        None => 0,
    };
    let template = set.template(&spec.need("template")?)?;
    let wanted = match min_member(root, pods)? {
        Some(min) => min,
        None if set.frame.local_queue.is_some() => pods,
        None => 1,
    };
    let minimum = if wanted > 1 && management == "OrderedReady" {
        let text = "its pods start one after another: a minimum above 1 needs podManagementPolicy \
                    Parallel";
        set.notes.push(text.to_string());
        Minimum::Any
    } else if wanted > 1 {
        Minimum::Whole(wanted)
    } else {
        Minimum::Any
    };
    let name = set.workload.name.clone();
    let mut role = Role::new("main", pods, name.clone(), template);
    role.names = Names::From(name.clone(), u32::try_from(first).unwrap_or(u32::MAX));
    set.add_group(name, vec![role], minimum);
    Ok(set.finish())
}

/// The minimum of the group that Volcano makes of the set, by an annotation.
fn min_member(root: &Field<'_>, pods: i64) -> Fault<Option<i64>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    let Some(field) = annotations.get(GROUP_MIN_MEMBER)? else { return Ok(None) };
    let text = field.text()?;
    match text.parse::<i64>() {
        Ok(min) if (1..=pods.max(1)).contains(&min) => Ok(Some(min)),
        _ if !field.strict() => Ok(None),
        Ok(min) if min >= 1 => {
            Err(field.invalid(format!("{min} is more than the {pods} replicas")))
        }
        Ok(value) => {
            Err(field.fail(Problem::OutOfRange { value, min: 1, max: i64::from(i32::MAX) }))
        }
        Err(_) => {
            Err(field.invalid(format!("{:?} is not an integer", crate::base::clip::clip(text))))
        }
    }
}

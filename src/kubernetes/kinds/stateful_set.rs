//! `StatefulSet` of `apps`.

use alloc::string::ToString;
use alloc::vec;

use super::submitted::{Minimum, Names, Role, Submitted, annotated_minimum, count, word};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::groups;
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::storage::claim_templates;

/// The annotation that states the minimum of the group that Volcano makes of a set.
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
    let mut template = set.template(&spec.need("template")?)?;
    template.own_volumes.extend(claim_templates(&spec, "volumeClaimTemplates")?);
    let all = format_args!("the {pods} replicas");
    let own = match spec.get("scheduling")? {
        Some(own) => groups::controlled(&own, pods, &mut set.frame)?.map(|min| (own, min)),
        None => None,
    };
    if let Some((own, min)) = own.as_ref().filter(|(own, _)| own.strict()) {
        if management == "OrderedReady" {
            let text = "a gang needs podManagementPolicy Parallel";
            return Err(own.invalid(text));
        }
        if *min != pods {
            return Err(own.invalid("a gang of a set has all its replicas, and no minCount"));
        }
    }
    let wanted = match annotated_minimum(root, GROUP_MIN_MEMBER, pods.max(1), all)? {
        Some(min) => min,
        None if own.is_some() => pods,
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

//! `LeaderWorkerSet` of `leaderworkerset.x-k8s.io`.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::submitted::{Minimum, Names, Role, Submitted, count, positive, word};
use super::workload::{StartAfter, StartCondition};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::storage::claim_templates;
use crate::model::Problem;

/// A set of independent groups, each of a leader and workers.
pub(super) fn leader_worker_set(root: &Field<'_>) -> Fault<Submitted> {
    let mut set = Submitted::new(WorkloadKind::LeaderWorkerSet, root)?;
    let spec = root.need("spec")?;
    let groups = count(&spec, "replicas", 1)?;
    let template = spec.need("leaderWorkerTemplate")?;
    let size = positive(&template, "size", 1)?;
    set.count_pods(groups.saturating_mul(size), &spec, "replicas")?;
    let order = word(&spec, "startupPolicy", &["LeaderCreated", "LeaderReady"])?;
    if let Some(policy) = template.get("subGroupPolicy")? {
        sub_groups(&policy, size)?;
    }
    let own = claim_templates(&template, "volumeClaimTemplates")?;
    let mut worker = set.template(&template.need("workerTemplate")?)?;
    worker.own_volumes.extend(own.iter().cloned());
    let leader = match template.get("leaderTemplate")? {
        Some(at) => {
            let mut leader = set.template(&at)?;
            leader.own_volumes.extend(own);
            leader
        }
        None => worker.clone(),
    };
    for group in 0..groups {
        let name = format!("{}-{group}", set.workload.name);
        let mut first = Role::new("leader", 1, String::new(), leader.clone());
        first.names = Names::One(name.clone());
        first.leader = true;
        let mut workers = Role::new("workers", size - 1, name.clone(), worker.clone());
        workers.names = Names::From(name.clone(), 1);
        if order == "LeaderReady" {
            workers.after.push(StartAfter::new("leader", StartCondition::Ready));
        }
        set.add_group(name, vec![first, workers], Minimum::Roles);
        if let Some(group) = set.groups.last_mut().filter(|group| !group.roles.is_empty()) {
            group.leader = Some("leader".into());
        }
    }
    Ok(set.finish())
}

/// Refuses subgroups that do not make up the group.
fn sub_groups(policy: &Field<'_>, size: i64) -> Fault<()> {
    let kind = word(policy, "subGroupPolicyType", &["LeaderWorker", "LeaderExcluded"])?;
    let Some(field) = policy.get("subGroupSize")? else { return Ok(()) };
    let part = field.within(1, i32::MAX.into())?;
    let sound = match kind {
        "LeaderExcluded" => (size - 1) % part == 0,
        _ => size % part == 0 || (size - 1) % part == 0,
    };
    if field.strict() && (part > size || !sound) {
        let text = format!("{part} does not divide the group of {size}");
        return Err(field.fail(Problem::Invalid(text)));
    }
    Ok(())
}

//! `LeaderWorkerSet` of `leaderworkerset.x-k8s.io`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::submitted::{Minimum, Names, Role, Submitted, count, positive, summary, word};
use super::workload::{StartAfter, StartCondition};
use crate::kubernetes::account::{Level, level};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::groups::{self, GroupObject};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::pod::PodRecord;
use crate::kubernetes::storage::claim_templates;
use crate::model::{LabelSelector, Operator, PodAffinityTerm, Problem, Requirement};

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
    let has_scheduling = spec.get("scheduling")?.is_some();
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
    let exclusive = match root.get("metadata")? {
        Some(metadata) => match metadata.get("annotations")? {
            Some(annotations) => annotations.name_of(EXCLUSIVE)?,
            None => None,
        },
        None => None,
    };
    let exclusive = exclusive.filter(|_| !has_scheduling);
    let roles = |group: i64| {
        let name = format!("{}-{group}", set.workload.name);
        let alone = |template: &PodRecord| match &exclusive {
            Some(key) => apart(template.clone(), key, &name),
            None => template.clone(),
        };
        let mut first = Role::new("leader", 1, String::new(), alone(&leader));
        first.names = Names::One(name.clone());
        first.leader = true;
        let mut workers = Role::new("workers", size - 1, name.clone(), alone(&worker));
        workers.names = Names::From(name.clone(), 1);
        if order == "LeaderReady" {
            workers.after.push(StartAfter::new("leader", StartCondition::Ready));
        }
        (name, [first, workers])
    };
    let all: Vec<(String, [Role; 2])> = (0..groups).map(roles).collect();
    set.frame.topology.require.clone_from(&exclusive);
    match spec.get("scheduling")? {
        Some(own) => scheduled(&mut set, &own, size, all)?,
        None => {
            for (name, roles) in all {
                add_replica(&mut set, name, roles, Minimum::Roles);
            }
        }
    }
    Ok(set.finish())
}

/// The annotation that names the level of which each replica has a domain alone.
const EXCLUSIVE: &str = "leaderworkerset.sigs.k8s.io/exclusive-topology";
/// The label by which the pods of replicas that are alone in their domain are told apart.
const GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";

/// A template whose pods keep off domains of other replicas.
///
/// Source: `kubernetes-sigs/lws`, `SetExclusiveAffinities`.
fn apart(mut template: PodRecord, level: &str, group: &str) -> PodRecord {
    let shape = template.pod.shape_mut();
    shape.labels.insert(GROUP_KEY.into(), group.into());
    let others = [
        Requirement::new(GROUP_KEY, Operator::Exists, [""; 0]),
        Requirement::new(GROUP_KEY, Operator::NotIn, [group]),
    ];
    shape.pod_anti_affinity.push(PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_expressions: others.into(),
            ..LabelSelector::default()
        }),
        topology_key: level.into(),
        ..PodAffinityTerm::default()
    });
    template
}

/// Adds the group of one replica, which its leader leads.
fn add_replica(set: &mut Submitted, name: String, roles: [Role; 2], minimum: Minimum) {
    set.add_group(name, roles.into(), minimum);
    if let Some(group) = set.groups.last_mut().filter(|group| !group.roles.is_empty()) {
        group.leader = Some("leader".into());
    }
}

/// Adds the groups of a set that states its scheduling: one of all pods, one of each replica, or two
/// of each. Where several levels say something, the account refuses the field.
///
/// Source: `kubernetes-sigs/lws`, KEP-666.
fn scheduled(
    set: &mut Submitted,
    own: &Field<'_>,
    size: i64,
    all: Vec<(String, [Role; 2])>,
) -> Fault<()> {
    let frame = set.frame.clone();
    let level = level(own.value);
    let pods = i64::try_from(all.len()).unwrap_or(i64::MAX).saturating_mul(size);
    let starts_later = all.iter().any(|(_, roles)| !roles[1].after.is_empty());
    let check = |field: &Field<'_>, is_gang: bool| {
        if is_gang && starts_later && field.strict() && size > 1 {
            return Err(field.invalid("workers that start after their leader are no gang with it"));
        }
        Ok(())
    };
    match level {
        Level::Set => {
            let min = groups::controlled(own, pods, &mut set.frame)?;
            check(own, min.is_some())?;
            whole(own, min, pods)?;
            let roles = all.into_iter().flat_map(|(_, roles)| roles).collect();
            let name = set.workload.name.clone();
            set.add_group(name, roles, min.map_or(Minimum::Any, Minimum::Whole));
        }
        Level::Roles => {
            let replica = own.need("replica")?;
            for (name, roles) in all {
                for (role, field) in roles.into_iter().zip(["leader", "worker"]) {
                    set.frame = frame.clone();
                    let mut minimum = Minimum::Any;
                    if let Some(leaf) = replica.get(field)? {
                        let min = groups::controlled(&leaf, role.count, &mut set.frame)?;
                        whole(&leaf, min, role.count)?;
                        minimum = min.map_or(Minimum::Any, Minimum::Whole);
                    }
                    if set.workload.roles.len() == 1 && field == "worker" {
                        set.workload.roles.push(summary(&role, 0));
                    }
                    set.add_group(format!("{name}-{field}"), vec![role], minimum);
                }
            }
        }
        Level::Replica | Level::Several => {
            let mut minimum = Minimum::Roles;
            if let Some(replica) = own.get("replica")? {
                let min = groups::controlled(&replica, size, &mut set.frame)?;
                whole(&replica, min, size)?;
                // A policy that is not stated is a gang at this level.
                if min.is_none() && replica.get("schedulingPolicy")?.is_some() {
                    minimum = Minimum::Any;
                }
                check(&replica, min.is_some())?;
            }
            for (name, roles) in all {
                add_replica(set, name, roles, minimum);
            }
        }
    }
    set.frame = GroupObject { refused: core::mem::take(&mut set.frame.refused), ..frame };
    Ok(())
}

/// Refuses a minimum that leaves members out.
fn whole(field: &Field<'_>, min: Option<i64>, pods: i64) -> Fault<()> {
    match min {
        Some(min) if field.strict() && pods > 0 && min != pods => {
            Err(field.invalid(format!("a gang of a set has all its {pods} pods, not {min}")))
        }
        _ => Ok(()),
    }
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

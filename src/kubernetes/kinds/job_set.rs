//! `JobSet` of `jobset.x-k8s.io`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::job::pods_at_once;
use super::submitted::{Minimum, Names, Role, Submitted, count, unique, word};
use super::workload::{StartAfter, StartCondition};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::groups;
use crate::kubernetes::membership::WorkloadKind;
use crate::model::Problem;

/// The most replicated jobs that one may depend on.
const MAX_DEPENDENCIES: usize = 5;

/// A job set: one group, of which each replicated job is a role.
pub(super) fn job_set(root: &Field<'_>) -> Fault<Submitted> {
    let mut set = Submitted::new(WorkloadKind::JobSet, root)?;
    let spec = root.need("spec")?;
    set.workload.suspended = spec.flag("suspend")?;
    let mut roles = roles(&mut set, &spec, |job, spec| {
        let each = pods_at_once(spec)?;
        Ok((count(job, "replicas", 1)?.saturating_mul(each), each))
    })?;
    open(root, &spec, &mut roles)?;
    let minimum = match spec.get("scheduling")? {
        Some(own) => scheduling(&own, &roles, &mut set)?,
        None => Minimum::Roles,
    };
    let name = set.workload.name.clone();
    set.add_group(name, roles, minimum);
    Ok(set.finish())
}

/// Minimum of a set that states its scheduling: a gang of all its pods if it says nothing else. Where
/// roles start one after another, all of each role.
fn scheduling(own: &Field<'_>, roles: &[Role], set: &mut Submitted) -> Fault<Minimum> {
    let pods = roles.iter().fold(0_i64, |sum, role| sum.saturating_add(role.count));
    let stated = groups::controlled(own, pods, &mut set.frame)?;
    let Some(policy) = own.get("schedulingPolicy")? else { return Ok(Minimum::Roles) };
    let gang = policy.get("gang")?;
    let minimum = gang.as_ref().map(|gang| gang.get("minCount")).transpose()?.flatten();
    if roles.iter().any(|role| !role.after.is_empty()) {
        if let Some(minimum) = minimum.filter(Field::strict) {
            return Err(minimum.invalid("its jobs start one after another, each a gang of its own"));
        }
        return Ok(if gang.is_some() { Minimum::Roles } else { Minimum::Any });
    }
    Ok(stated.map_or(Minimum::Any, Minimum::Whole))
}

/// Opens the roles whose dependencies are as far as they must be, by the status.
fn open(root: &Field<'_>, spec: &Field<'_>, roles: &mut [Role]) -> Fault<()> {
    let Some(status) = root.get("status")? else { return Ok(()) };
    // Jobs that must be ready, and those that are or have succeeded, by replicated job.
    let mut jobs: BTreeMap<String, i64> = BTreeMap::new();
    spec.each("replicatedJobs", |job| {
        jobs.insert(job.text_of("name")?, count(&job, "replicas", 1)?);
        Ok(())
    })?;
    let mut done: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    status.each("replicatedJobsStatus", |job| {
        let (ready, succeeded) = (count(&job, "ready", 0)?, count(&job, "succeeded", 0)?);
        done.insert(job.text_of("name")?, (ready + succeeded, succeeded));
        Ok(())
    })?;
    let is_so = |after: &StartAfter| {
        let (ready, complete) = done.get(&after.role).copied().unwrap_or((0, 0));
        let reached = if after.until == StartCondition::Complete { complete } else { ready };
        jobs.get(&after.role).is_some_and(|jobs| reached >= *jobs)
    };
    for role in roles.iter_mut() {
        role.open = role.after.iter().all(is_so);
    }
    Ok(())
}

/// The replicated jobs of a job set as roles. `counts` says how many pods a replicated job has in
/// all, and in each of its jobs.
pub(super) fn roles(
    set: &mut Submitted,
    spec: &Field<'_>,
    counts: impl Fn(&Field<'_>, &Field<'_>) -> Fault<(i64, i64)>,
) -> Fault<Vec<Role>> {
    let order = match spec.get("startupPolicy")? {
        Some(policy) => word(&policy, "startupPolicyOrder", &["AnyOrder", "InOrder"])?,
        None => "AnyOrder",
    };
    let leader = match spec.get("coordinator")? {
        Some(coordinator) => Some(String::from(coordinator.need("replicatedJob")?.text()?)),
        None => None,
    };
    let mut names = BTreeSet::new();
    let mut roles: Vec<Role> = Vec::new();
    spec.each("replicatedJobs", |job| {
        let name = unique(&mut names, &job, "name")?;
        let template = job.need("template")?;
        let job_spec = template.need("spec")?;
        let (count, each) = counts(&job, &job_spec)?;
        set.count_pods(count, &job, "replicas")?;
        let record = set.template(&job_spec.need("template")?)?;
        let prefix = format!("{}-{name}", set.workload.name);
        let mut role = Role::new(&name, count, prefix.clone(), record);
        role.names = Names::Pairs(prefix, u32::try_from(each).unwrap_or(u32::MAX));
        role.leader = leader.as_ref() == Some(&name);
        let is_earlier = |other: &str| other != name && names.contains(other);
        role.after = dependencies(&job, is_earlier, order)?;
        if order == "InOrder"
            && let Some(last) = roles.last()
        {
            role.after.push(StartAfter::new(&last.name, StartCondition::Ready));
        }
        roles.push(role);
        Ok(())
    })?;
    if spec.strict() {
        if roles.is_empty() {
            return Err(spec.fail_at("replicatedJobs", Problem::Required));
        }
        if let Some(leader) = leader.filter(|leader| !names.contains(leader)) {
            return Err(spec.fail_at("coordinator.replicatedJob", Problem::Unknown(leader)));
        }
    }
    Ok(roles)
}

/// Jobs before it in the list that a replicated job waits for.
fn dependencies(
    job: &Field<'_>,
    is_earlier: impl Fn(&str) -> bool,
    order: &str,
) -> Fault<Vec<StartAfter>> {
    let mut after = Vec::new();
    let found = job.each("dependsOn", |dependency| {
        let field = dependency.need("name")?;
        let name = field.text()?;
        let until = match word(&dependency, "status", &["Ready", "Complete"])? {
            "Complete" => StartCondition::Complete,
            _ => StartCondition::Ready,
        };
        if !is_earlier(name) {
            if field.strict() {
                return Err(field.fail(Problem::Unknown(name.into())));
            }
            return Ok(());
        }
        after.push(StartAfter::new(name, until));
        Ok(())
    })?;
    if job.strict() && found > 0 && order == "InOrder" {
        let text = "stands beside startupPolicyOrder InOrder; only one order is allowed";
        return Err(job.fail_at("dependsOn", Problem::Invalid(text.into())));
    }
    if job.strict() && found > MAX_DEPENDENCIES {
        let text = format!("has {found} entries; {MAX_DEPENDENCIES} are the most");
        return Err(job.fail_at("dependsOn", Problem::Invalid(text)));
    }
    Ok(after)
}

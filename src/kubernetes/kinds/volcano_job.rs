//! `Job` of `batch.volcano.sh`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::submitted::{Minimum, Role, Submitted, count, sum_of_minima};
use super::workload::{StartAfter, StartCondition};
use crate::kubernetes::devices;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::metadata::check_label_name;
use crate::kubernetes::topologies;
use crate::model::Problem;

/// A job of Volcano: one group, of which each task is a role.
pub(super) fn volcano_job(root: &Field<'_>) -> Fault<Submitted> {
    let mut job = Submitted::new(WorkloadKind::VolcanoJob, root)?;
    let spec = root.need("spec")?;
    let scheduler = spec.name_of("schedulerName")?.unwrap_or_else(|| "volcano".into());
    if let Some(queue) = spec.name_of("queue")? {
        job.frame.queue = queue;
    } else if job.frame.queue.is_empty() {
        job.frame.queue = "default".into();
    }
    if let Some(class) = spec.name_of("priorityClassName")? {
        job.frame.priority_class = Some(class);
        job.frame.class_field = "spec.priorityClassName";
    }
    job.frame.wish = topologies::volcano(&spec)?.or(job.frame.wish.take());
    let class = job.frame.priority_class.clone().map(String::into_boxed_str);
    let mut roles: Vec<Role> = Vec::new();
    let mut names = BTreeSet::new();
    let mut after: BTreeMap<String, Vec<String>> = BTreeMap::new();
    spec.each("tasks", |field| {
        let name = field.name_of("name")?.unwrap_or_else(|| format!("default{}", roles.len()));
        if field.strict()
            && let Some(at) = field.get("name")?
        {
            check_label_name(&at, &name)?;
        }
        if !names.insert(name.clone()) {
            return Err(field.fail_at("name", Problem::Duplicate(name)));
        }
        let replicas = count(&field, "replicas", 0)?;
        let minimum = minimum(&field, replicas)?;
        job.count_pods(replicas, &field, "replicas")?;
        let mut template = job.template(&field.need("template")?)?;
        template.scheduler.get_or_insert_with(|| scheduler.clone().into_boxed_str());
        if template.priority_class.is_none() && template.priority.is_none() {
            template.priority_class.clone_from(&class);
        }
        if let Some(policy) = field.get("topologyPolicy")? {
            let least = devices::named(&policy, devices::policy(policy.text()?))?;
            template.pod.shape_mut().zones.least = least;
        }
        if let Some(wish) = partitions(&field)? {
            template.wish = Some(wish.into());
        }
        // A task is of its job's group, whatever its template says.
        template.membership = None;
        let prefix = format!("{}-{name}", job.workload.name);
        let mut role = Role::new(&name, replicas, prefix, template);
        role.min = minimum;
        if let Some(dependency) = field.get("dependsOn")? {
            after.insert(name, dependency.texts("name")?);
        }
        roles.push(role);
        Ok(())
    })?;
    if spec.strict() && roles.is_empty() {
        return Err(spec.fail_at("tasks", Problem::Required));
    }
    for (at, role) in roles.iter_mut().enumerate() {
        let own = after.get(&role.name).into_iter().flatten();
        for task in own {
            if names.contains(task) {
                role.after.push(StartAfter::new(task, StartCondition::Ready));
            } else if spec.strict() {
                let path = format!("tasks[{at}].dependsOn.name");
                return Err(spec.fail_at(&path, Problem::Unknown(task.clone())));
            }
        }
    }
    if let Some(task) = in_circle(&after) {
        if spec.strict() {
            let text = format!("task {task:?} waits for itself, by its dependencies");
            return Err(spec.fail_at("tasks", Problem::Invalid(text)));
        }
        for role in &mut roles {
            role.after.clear();
        }
    }
    open(root, &mut roles)?;
    let total: i64 = roles.iter().map(|role| role.count).sum();
    // Zero is what an absent minimum is stored as: all that the tasks need.
    let mut min_available = sum_of_minima(&roles);
    if let Some(field) = spec.get("minAvailable")? {
        let min = field.within(0, i32::MAX.into())?;
        if field.strict() && min > total {
            let text = format!("{min} is more than the {total} replicas of all tasks");
            return Err(field.fail(Problem::Invalid(text)));
        }
        if min > 0 {
            min_available = min;
        }
    }
    let name = job.workload.name.clone();
    job.add_group(name, roles, Minimum::WholeAndRoles(min_available));
    Ok(job.finish())
}

/// Opens the tasks whose dependencies have their minimum running or done, by the status.
fn open(root: &Field<'_>, roles: &mut [Role]) -> Fault<()> {
    let Some(status) = root.get("status")? else { return Ok(()) };
    let Some(counts) = status.get("taskStatusCount")? else { return Ok(()) };
    let mut ready = BTreeSet::new();
    for role in roles.iter() {
        let Some(task) = counts.get(&role.name)? else { continue };
        let Some(phases) = task.get("phase")? else { continue };
        let found = count(&phases, "Running", 0)? + count(&phases, "Succeeded", 0)?;
        if found >= role.min {
            ready.insert(role.name.clone());
        }
    }
    for role in roles.iter_mut() {
        role.open = role.after.iter().all(|after| ready.contains(&after.role));
    }
    Ok(())
}

/// The minimum of a task: its own, that of its partitions, or all of it.
fn minimum(task: &Field<'_>, replicas: i64) -> Fault<i64> {
    if let Some(min) = task.get("minAvailable")? {
        let value = min.within(0, i32::MAX.into())?;
        if task.strict() && value > replicas {
            let text = format!("{value} is more than the {replicas} replicas");
            return Err(min.invalid(text));
        }
        return Ok(value);
    }
    let Some(partitions) = task.get("partitionPolicy")? else { return Ok(replicas) };
    let min = count(&partitions, "minPartitions", 0)?;
    let size = count(&partitions, "partitionSize", 0)?;
    let value = min.saturating_mul(size);
    if task.strict() && value > replicas {
        let text = format!("{min} partitions of {size} are more than the {replicas} replicas");
        return Err(partitions.fail_at("minPartitions", Problem::Invalid(text)));
    }
    Ok(if value > 0 { value } else { replicas })
}

/// Topology request of the partitions of a task: each by itself.
fn partitions(task: &Field<'_>) -> Fault<Option<topologies::Wish>> {
    let Some(policy) = task.get("partitionPolicy")? else { return Ok(None) };
    let size = count(&policy, "partitionSize", 0)?;
    let wish = topologies::volcano(&policy)?;
    Ok(wish.map(|wish| wish.of_parts(u32::try_from(size).unwrap_or(1).max(1))))
}

/// A task that waits for itself, directly or through others. Tasks that wait for none are done
/// first, then tasks that waited for them, and so on; the task found is one that is left. O(tasks +
/// dependencies), sorted.
fn in_circle(after: &BTreeMap<String, Vec<String>>) -> Option<&String> {
    let mut waited_for: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    let mut open: BTreeMap<&String, usize> = BTreeMap::new();
    for (task, others) in after {
        // A task without an entry waits for none.
        let others = others.iter().filter(|other| after.contains_key(*other));
        open.insert(task, others.clone().count());
        others.for_each(|other| waited_for.entry(other).or_default().push(task));
    }
    let mut done: Vec<&String> = open.iter().filter(|(_, n)| **n == 0).map(|(t, _)| *t).collect();
    while let Some(task) = done.pop() {
        open.remove(task);
        for waiting in waited_for.remove(task).into_iter().flatten() {
            if let Some(count) = open.get_mut(waiting) {
                *count -= 1;
                if *count == 0 {
                    done.push(waiting);
                }
            }
        }
    }
    open.into_keys().next()
}

/// The job of Volcano that a pod was made for.
pub(in crate::kubernetes) fn job_of(root: &Field<'_>) -> Fault<Option<String>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    match metadata.get("annotations")? {
        Some(annotations) => annotations.name_of("volcano.sh/job-name"),
        None => Ok(None),
    }
}

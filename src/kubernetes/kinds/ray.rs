//! `RayCluster`, `RayJob` and `RayService` of `ray.io`.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::submitted::{Minimum, Role, Submitted, count, positive, unique, word};
use super::workload::{StartAfter, StartCondition};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::pod::{self, PodRecord};
use crate::kubernetes::value::{Value, map, text};
use crate::model::Problem;

/// A cluster: one group, of its head and its worker groups.
pub(super) fn ray_cluster(root: &Field<'_>) -> Fault<Submitted> {
    let mut cluster = Submitted::new(WorkloadKind::RayCluster, root)?;
    let spec = root.need("spec")?;
    let roles = roles(&mut cluster, &spec)?;
    let name = cluster.workload.name.clone();
    cluster.add_group(name, roles, Minimum::Roles);
    Ok(cluster.finish())
}

/// A job: its cluster, and the pod that submits it once the cluster is ready.
pub(super) fn ray_job(root: &Field<'_>) -> Fault<Submitted> {
    const MODES: [&str; 4] = ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"];
    let mut job = Submitted::new(WorkloadKind::RayJob, root)?;
    let spec = root.need("spec")?;
    job.workload.suspended = spec.flag("suspend")?;
    let mut roles = Vec::new();
    if let Some(cluster) = spec.get("rayClusterSpec")? {
        roles = self::roles(&mut job, &cluster)?;
    } else if spec.strict() && spec.get("clusterSelector")?.is_none() {
        return Err(spec.fail_at("rayClusterSpec", Problem::Required));
    }
    if word(&spec, "submissionMode", &MODES)? == "K8sJobMode" {
        let template = match (spec.get("submitterPodTemplate")?, roles.first()) {
            (Some(at), _) => Some(job.template(&at)?),
            (None, Some(head)) => Some(submitter(root, &head.template, &job.workload.namespace)?),
            // The image of a cluster that is only selected is not known.
            (None, None) => None,
        };
        if let Some(template) = template {
            job.count_pods(1, &spec, "submitterPodTemplate")?;
            let prefix = format!("{}-submitter", job.workload.name);
            let mut submitter = Role::new("submitter", 1, prefix, template);
            if let Some(status) = root.get("status")?
                && let Some(cluster) = status.get("rayClusterStatus")?
            {
                submitter.open = cluster.text_of("state")? == "ready";
            }
            if !roles.is_empty() {
                submitter.after.push(StartAfter::new("head", StartCondition::Ready));
            }
            roles.push(submitter);
        } else {
            let text = "the pod that submits it is not made: it has no template";
            job.notes.push(text.to_string());
        }
    }
    let name = job.workload.name.clone();
    job.add_group(name, roles, Minimum::Roles);
    Ok(job.finish())
}

/// A service: the cluster that it makes first. During an upgrade it makes a second one, an object of
/// its own.
pub(super) fn ray_service(root: &Field<'_>) -> Fault<Submitted> {
    let mut service = Submitted::new(WorkloadKind::RayService, root)?;
    let spec = root.need("spec")?;
    service.workload.suspended = spec.flag("suspend")?;
    let roles = roles(&mut service, &spec.need("rayClusterConfig")?)?;
    let name = service.workload.name.clone();
    service.add_group(name, roles, Minimum::Roles);
    Ok(service.finish())
}

/// The pod that submits a job whose object has no template for it: the head's image, half a CPU,
/// 200 MiB.
///
/// Source: `ray-project/kuberay`, `GetDefaultSubmitterTemplate`.
fn submitter(root: &Field<'_>, head: &PodRecord, namespace: &str) -> Fault<PodRecord> {
    let image = head.pod.shape().images.first().map_or("", String::as_str);
    let requests = map([("cpu", text("500m")), ("memory", text("200Mi"))]);
    let limits = map([("cpu", text("1")), ("memory", text("1Gi"))]);
    let container = map([
        ("name", text("ray-job-submitter")),
        ("image", text(image)),
        ("resources", map([("requests", requests), ("limits", limits)])),
    ]);
    let spec = map([("containers", Value::List(vec![container]))]);
    let template = map([("spec", spec)]);
    let mut record = pod::template(&Field::root(root.object, &template), namespace.to_string())?;
    record.scheduler.clone_from(&head.scheduler);
    Ok(record)
}

/// Head and worker groups as roles. A cluster that is suspended suspends its workload.
fn roles(cluster: &mut Submitted, spec: &Field<'_>) -> Fault<Vec<Role>> {
    cluster.workload.suspended |= spec.flag("suspend")?;
    let head = spec.need("headGroupSpec")?;
    cluster.count_pods(1, &head, "replicas")?;
    let template = cluster.template(&head.need("template")?)?;
    let prefix = format!("{}-head", cluster.workload.name);
    let mut first = Role::new("head", 1, prefix, template);
    first.leader = true;
    let mut roles = vec![first];
    let mut names = BTreeSet::from(["head".to_string()]);
    spec.each("workerGroupSpecs", |group| {
        let name = unique(&mut names, &group, "groupName")?;
        let hosts = positive(&group, "numOfHosts", 1)?;
        let least = count(&group, "minReplicas", 0)?;
        let most = count(&group, "maxReplicas", i32::MAX.into())?;
        if group.strict() && least > most {
            let text = format!("{least} is more than the {most} of maxReplicas");
            return Err(group.fail_at("minReplicas", Problem::Invalid(text)));
        }
        let stated = count(&group, "replicas", least)?;
        let replicas = if group.flag("suspend")? { 0 } else { stated.max(least).min(most) };
        let least = if least > 0 { least.min(replicas) } else { replicas };
        cluster.count_pods(replicas.saturating_mul(hosts), &group, "replicas")?;
        let template = cluster.template(&group.need("template")?)?;
        let prefix = format!("{}-{name}-worker", cluster.workload.name);
        let mut role = Role::new(&name, replicas.saturating_mul(hosts), prefix, template);
        role.min = least.saturating_mul(hosts);
        roles.push(role);
        Ok(())
    })?;
    Ok(roles)
}

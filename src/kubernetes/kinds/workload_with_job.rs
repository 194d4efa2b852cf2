//! The rule of Kubernetes 1.36 by which a job is a gang (feature gate `WorkloadWithJob`).
//!
//! A job is a candidate if it is indexed, has a parallelism above 1 and as many completions, and
//! its template names no group. Nothing else counts. For a candidate the Job controller looks for
//! the `Workload` that refers to the job and the `PodGroup` that refers to that. It makes the
//! missing one: the workload only for a job that is new.
//!
//! Source: `k8s.io/kubernetes/pkg/controller/job/job_scheduling_manager.go` of 1.36, Apache-2.0.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::base::hash::FixedMap;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::mode::Mode;
use crate::kubernetes::value::{Value, map, text};
use crate::kubernetes::{groups, metadata};
use crate::model::{GroupPolicy, ModelError};

/// The next step of the Job controller for a job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum JobStep {
    /// Its pods are scheduled one by one: for this reason.
    Ordinary(OrdinaryReason),
    /// It makes this workload, and comes back.
    CreateWorkload(Value),
    /// It makes this pod group, and comes back.
    CreatePodGroup(Value),
    /// It makes the pods, each with `spec.schedulingGroup.podGroupName` of this name and a plain
    /// owner reference to the group.
    CreatePods {
        /// The name of the pod group.
        pod_group: String,
    },
}

/// Why the pods of a job are scheduled one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrdinaryReason {
    /// It is no candidate: not indexed, parallelism not above 1, another number of completions, or
    /// its template names a group.
    NoCandidate,
    /// No workload refers to it, and it is not new: it has or had pods, or was suspended.
    NotNew,
    /// The workload or pod group that refers to it is not controlled by it.
    Foreign,
    /// Several workloads refer to it, or several pod groups to its workload.
    Ambiguous,
    /// Its workload has another number of templates than one.
    OtherShape,
}

impl core::fmt::Display for OrdinaryReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            OrdinaryReason::NoCandidate => "it is no candidate for a gang",
            OrdinaryReason::NotNew => "no workload refers to it, and it is not new",
            OrdinaryReason::Foreign => {
                "the workload or pod group that refers to it is not controlled by it"
            }
            OrdinaryReason::Ambiguous => "several workloads or pod groups refer to it",
            OrdinaryReason::OtherShape => "its workload does not have one template",
        })
    }
}

/// Facts of a job that the rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct JobScheduling {
    candidate: bool,
    fresh: bool,
    parallelism: i64,
    namespace: String,
    name: String,
    uid: String,
}

/// Facts of a workload that the rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct WorkloadRecord {
    namespace: String,
    name: String,
    uid: String,
    /// The job that it refers to.
    job: Option<String>,
    /// The uid of its controller.
    controller: Option<String>,
    templates: Vec<(String, GroupPolicy)>,
}

/// Facts of a pod group that the rule asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct PodGroupRecord {
    namespace: String,
    name: String,
    /// The workload that it refers to.
    workload: Option<String>,
    /// The uid of its controller.
    controller: Option<String>,
}

/// The workloads and pod groups that exist, by namespace and the name that they refer to.
#[derive(Debug)]
pub(in crate::kubernetes) struct Existing<'a> {
    workloads: FixedMap<(&'a str, &'a str), Vec<&'a WorkloadRecord>>,
    pod_groups: FixedMap<(&'a str, &'a str), Vec<&'a PodGroupRecord>>,
}

impl<'a> Existing<'a> {
    /// All that exists.
    pub(in crate::kubernetes) fn new(
        workloads: &'a [WorkloadRecord],
        pod_groups: &'a [PodGroupRecord],
    ) -> Existing<'a> {
        let mut existing =
            Existing { workloads: FixedMap::default(), pod_groups: FixedMap::default() };
        for workload in workloads {
            if let Some(job) = &workload.job {
                let of_job = existing.workloads.entry((&workload.namespace, job));
                of_job.or_default().push(workload);
            }
        }
        for group in pod_groups {
            if let Some(workload) = &group.workload {
                let of_workload = existing.pod_groups.entry((&group.namespace, workload));
                of_workload.or_default().push(group);
            }
        }
        existing
    }
}

/// The decision of the rule.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kubernetes) enum Decision<'a> {
    Ordinary(OrdinaryReason),
    NewWorkload,
    NewPodGroup(&'a WorkloadRecord, &'a str, GroupPolicy),
    Reuse(&'a str),
}

/// The next step of Kubernetes 1.36's Job controller with the gate `WorkloadWithJob`, given the
/// job, the existing workloads and pod groups, and its number of pods.
///
/// Objects that it makes are as the controller makes them, by name and field. A new pod group takes
/// the policy of the template, and neither topology nor disruption mode nor priority.
///
/// O(objects).
///
/// ```
/// use phalanx::kubernetes::{JobStep, Value, workload_with_job};
///
/// let job: Value = serde_json::from_value(serde_json::json!({
///     "apiVersion": "batch/v1", "kind": "Job",
///     "metadata": {"name": "train", "namespace": "ml", "uid": "c5b0a4d2"},
///     "spec": {"completionMode": "Indexed", "completions": 4, "parallelism": 4,
///         "template": {"spec": {"containers": [{"name": "c"}]}}},
/// }))?;
/// let JobStep::CreateWorkload(workload) = workload_with_job(&job, &[], &[], 0)? else { panic!() };
/// let templates = workload.entry("spec").and_then(|spec| spec.entry("podGroupTemplates"));
/// assert!(templates.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// An object has no name, or a field that the rule reads is of a wrong type.
pub fn workload_with_job(
    job: &Value,
    workloads: &[Value],
    pod_groups: &[Value],
    pods: usize,
) -> Result<JobStep, ModelError> {
    let read = |kind: &str, value: &Value| metadata::object(kind, true, value, Mode::AsStored);
    let object = read("job", job);
    let scheduling = JobScheduling::read(&Field::root(&object, job))?;
    let workloads = workloads
        .iter()
        .map(|value| WorkloadRecord::read(&Field::root(&read("workload", value), value)))
        .collect::<Fault<Vec<_>>>()?;
    let pod_groups = pod_groups
        .iter()
        .map(|value| PodGroupRecord::read(&Field::root(&read("podgroup", value), value)))
        .collect::<Fault<Vec<_>>>()?;
    Ok(match scheduling.decide(&Existing::new(&workloads, &pod_groups), pods) {
        Decision::Ordinary(reason) => JobStep::Ordinary(reason),
        Decision::NewWorkload => JobStep::CreateWorkload(scheduling.workload()),
        Decision::NewPodGroup(workload, template, policy) => {
            JobStep::CreatePodGroup(scheduling.pod_group(workload, template, policy))
        }
        Decision::Reuse(name) => JobStep::CreatePods { pod_group: name.to_string() },
    })
}

impl JobScheduling {
    /// Reads what counts of a job.
    pub(super) fn read(root: &Field<'_>) -> Fault<JobScheduling> {
        let spec = root.need("spec")?;
        let number = |name| spec.get(name)?.map(|field| field.integer()).transpose();
        let (parallelism, completions) = (number("parallelism")?, number("completions")?);
        let has_group = match spec.get("template")? {
            Some(template) => match template.get("spec")? {
                Some(pod) => pod.get("schedulingGroup")?.is_some(),
                None => false,
            },
            None => false,
        };
        let candidate = parallelism.is_some_and(|pods| pods > 1)
            && spec.text_of("completionMode")? == "Indexed"
            && completions == parallelism
            && !has_group;
        let mut fresh = true;
        if let Some(status) = root.get("status")? {
            fresh &= status.get("startTime")?.is_none();
            for name in ["succeeded", "failed"] {
                fresh &= status.get(name)?.map_or(Ok(0), |field| field.integer())? == 0;
            }
            status.each("conditions", |condition| {
                fresh &= condition.text_of("type")? != "Suspended";
                Ok(())
            })?;
        }
        Ok(JobScheduling {
            candidate,
            fresh,
            parallelism: parallelism.unwrap_or(1),
            namespace: metadata::namespace(root)?,
            name: metadata::name(root)?,
            uid: uid(root)?,
        })
    }

    /// Whether all that the rule asks of the job holds.
    pub(in crate::kubernetes) fn is_candidate(&self) -> bool {
        self.candidate
    }

    /// The controller's step, given the existing objects.
    pub(in crate::kubernetes) fn decide<'a>(
        &self,
        existing: &Existing<'a>,
        pods: usize,
    ) -> Decision<'a> {
        use OrdinaryReason::{Ambiguous, Foreign, NoCandidate, NotNew, OtherShape};
        if !self.candidate {
            return Decision::Ordinary(NoCandidate);
        }
        let is_controlled = |controller: &Option<String>| controller.as_ref() == Some(&self.uid);
        let of_job = existing.workloads.get(&(self.namespace.as_str(), self.name.as_str()));
        let workload = match of_job.map_or(&[][..], Vec::as_slice) {
            [] if pods == 0 && self.fresh => return Decision::NewWorkload,
            [] => return Decision::Ordinary(NotNew),
            [workload] => *workload,
            _ => return Decision::Ordinary(Ambiguous),
        };
        if !is_controlled(&workload.controller) {
            return Decision::Ordinary(Foreign);
        }
        let [(template, policy)] = workload.templates.as_slice() else {
            return Decision::Ordinary(OtherShape);
        };
        let of_workload =
            existing.pod_groups.get(&(self.namespace.as_str(), workload.name.as_str()));
        match of_workload.map_or(&[][..], Vec::as_slice) {
            [] => Decision::NewPodGroup(workload, template, *policy),
            [group] if is_controlled(&group.controller) => Decision::Reuse(&group.name),
            [_] => Decision::Ordinary(Foreign),
            _ => Decision::Ordinary(Ambiguous),
        }
    }

    /// The name of the pod group that the controller makes, once the job has a uid.
    pub(in crate::kubernetes) fn new_group_name(&self) -> Option<String> {
        (!self.uid.is_empty()).then(|| pod_group_name(&self.workload_name(), &self.template_name()))
    }

    fn workload_name(&self) -> String {
        // The deep print of a uid is its type and its text.
        let hash = hash_name(&[b"(types.UID)", self.uid.as_bytes()]);
        let most = MAX_NAME.saturating_sub(hash.len() + 1);
        format!("{}-{hash}", cut(&self.name, most))
    }

    fn template_name(&self) -> String {
        format!("{}-pgt-0", self.name)
    }

    fn owner(&self) -> Value {
        map([
            ("apiVersion", text("batch/v1")),
            ("kind", text("Job")),
            ("name", text(&self.name)),
            ("uid", text(&self.uid)),
            ("controller", Value::Bool(true)),
            ("blockOwnerDeletion", Value::Bool(true)),
        ])
    }

    fn workload(&self) -> Value {
        let gang = map([("minCount", Value::Integer(self.parallelism.into()))]);
        let template = map([
            ("name", text(&self.template_name())),
            ("schedulingPolicy", map([("gang", gang)])),
        ]);
        let controller =
            map([("apiGroup", text("batch")), ("kind", text("Job")), ("name", text(&self.name))]);
        map([
            ("apiVersion", text(VERSION)),
            ("kind", text("Workload")),
            (
                "metadata",
                map([
                    ("name", text(&self.workload_name())),
                    ("namespace", text(&self.namespace)),
                    ("ownerReferences", Value::List(vec![self.owner()])),
                ]),
            ),
            (
                "spec",
                map([
                    ("controllerRef", controller),
                    ("podGroupTemplates", Value::List(vec![template])),
                ]),
            ),
        ])
    }

    fn pod_group(&self, workload: &WorkloadRecord, template: &str, policy: GroupPolicy) -> Value {
        let plain = map([
            ("apiVersion", text(VERSION)),
            ("kind", text("Workload")),
            ("name", text(&workload.name)),
            ("uid", text(&workload.uid)),
        ]);
        let policy = match policy {
            GroupPolicy::Basic {} => map([("basic", map([]))]),
            GroupPolicy::Gang { min_count } => {
                let min = map([("minCount", Value::Integer(min_count.into()))]);
                map([("gang", min)])
            }
        };
        let reference =
            map([("workloadName", text(&workload.name)), ("podGroupTemplateName", text(template))]);
        map([
            ("apiVersion", text(VERSION)),
            ("kind", text("PodGroup")),
            (
                "metadata",
                map([
                    ("name", text(&pod_group_name(&workload.name, template))),
                    ("namespace", text(&self.namespace)),
                    ("ownerReferences", Value::List(vec![self.owner(), plain])),
                ]),
            ),
            (
                "spec",
                map([
                    ("podGroupTemplateRef", map([("workload", reference)])),
                    ("schedulingPolicy", policy),
                ]),
            ),
        ])
    }
}

impl WorkloadRecord {
    /// The name of the pod group that the controller makes of a template.
    pub(in crate::kubernetes) fn group_name(&self, template: &str) -> String {
        pod_group_name(&self.name, template)
    }

    /// Reads what counts of a workload.
    pub(in crate::kubernetes) fn read(root: &Field<'_>) -> Fault<WorkloadRecord> {
        let (mut job, mut templates) = (None, Vec::new());
        if let Some(spec) = root.get("spec")? {
            if let Some(reference) = spec.get("controllerRef")?
                && reference.text_of("apiGroup")? == "batch"
                && reference.text_of("kind")? == "Job"
            {
                job = reference.name_of("name")?;
            }
            spec.each("podGroupTemplates", |template| {
                let policy = template.get("schedulingPolicy")?;
                let policy = policy.and_then(|field| groups::policy(&field, "minCount").ok());
                templates.push((template.text_of("name")?, policy.unwrap_or_default()));
                Ok(())
            })?;
        }
        Ok(WorkloadRecord {
            namespace: metadata::namespace(root)?,
            name: metadata::name(root)?,
            uid: uid(root)?,
            job,
            controller: controller_uid(root)?,
            templates,
        })
    }
}

impl PodGroupRecord {
    /// Reads what counts of a pod group.
    pub(in crate::kubernetes) fn read(root: &Field<'_>) -> Fault<PodGroupRecord> {
        let mut workload = None;
        if let Some(spec) = root.get("spec")?
            && let Some(reference) = spec.get("podGroupTemplateRef")?
            && let Some(of) = reference.get("workload")?
        {
            workload = of.name_of("workloadName")?;
        }
        // Kubernetes 1.37 spells it so.
        if let Some(spec) = root.get("spec")?
            && let Some(reference) = spec.get("workloadRef")?
        {
            workload = reference.name_of("workloadName")?;
        }
        Ok(PodGroupRecord {
            namespace: metadata::namespace(root)?,
            name: metadata::name(root)?,
            workload,
            controller: controller_uid(root)?,
        })
    }
}

/// The version of the objects that the controller makes.
const VERSION: &str = "scheduling.k8s.io/v1alpha2";
/// The most bytes of a name.
const MAX_NAME: usize = 253;

fn uid(root: &Field<'_>) -> Fault<String> {
    root.get("metadata")?.map_or(Ok(String::new()), |metadata| metadata.text_of("uid"))
}

/// The uid of the controller of an object.
fn controller_uid(root: &Field<'_>) -> Fault<Option<String>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    metadata::of_controller(&metadata, |owner| owner.text_of("uid"))
}

/// The name of the pod group of a workload's template: both names, cut fairly to fit, and a hash of
/// the whole.
fn pod_group_name(workload: &str, template: &str) -> String {
    let hash = hash_name(&[workload.as_bytes(), template.as_bytes()]);
    let most = MAX_NAME.saturating_sub(hash.len() + 2);
    let half = most / 2;
    let (of_workload, of_template) = if workload.len() + template.len() <= most {
        (workload.len(), template.len())
    } else if workload.len() <= half {
        (workload.len(), most - workload.len())
    } else if template.len() <= half {
        (most - template.len(), template.len())
    } else {
        (most - half, half)
    };
    format!("{}-{}-{hash}", cut(workload, of_workload), cut(template, of_template))
}

/// The first bytes of a name.
fn cut(name: &str, most: usize) -> &str {
    let end = (0..=most.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    &name[..end.unwrap_or(0)]
}

/// The 32-bit FNV-1a hash of texts, in decimal, its digits as letters that spell nothing.
///
/// Source: `k8s.io/apimachinery/pkg/util/rand`, `SafeEncodeString`.
fn hash_name(parts: &[&[u8]]) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let digits = hash.to_string();
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

#[cfg(test)]
mod tests;

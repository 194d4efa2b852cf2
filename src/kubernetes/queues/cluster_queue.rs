//! `ClusterQueue` and `Cohort`.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::affinity::label_selector;
use super::super::field::Note;
use super::super::field::{Fault, Field};
use super::super::metadata;
use super::unread::unread;
use crate::model::resources::amount_of;
use crate::model::{LabelSelector, Problem};
use crate::quota::{
    BorrowWithinCohort, FlavorQuotas, Fungibility, Queue, QueuePreemption, QueuePreemptionPolicy,
    QueueingStrategy, Quota, ResourceGroup, UNLIMITED, Weight,
};

/// A queue, and the namespaces it takes workloads from; `None`: from none.
pub(super) fn leaf(
    root: &Field<'_>,
    notes: &mut Vec<Note>,
) -> Fault<(Queue, Option<LabelSelector>)> {
    const READ: [&str; 9] = [
        "cohort",
        "cohortName",
        "resourceGroups",
        "queueingStrategy",
        "namespaceSelector",
        "flavorFungibility",
        "preemption",
        "fairSharing",
        "stopPolicy",
    ];
    let mut queue = Queue::leaf(metadata::name(root)?);
    let Some(spec) = root.get("spec")? else { return Ok((queue, None)) };
    unread(&spec, &READ, notes);
    // v1beta1 calls it `cohort`.
    queue.parent = spec.name_of("cohortName")?.or(spec.name_of("cohort")?);
    queue.groups = groups(&spec, notes)?;
    queue.weight = weight(&spec, notes)?;
    queue.stopped = is_stopped(&spec)?;
    queue.strategy =
        match choice(&spec, "queueingStrategy", &["BestEffortFIFO", "StrictFIFO"])?.as_str() {
            "StrictFIFO" => QueueingStrategy::StrictFifo,
            _ => QueueingStrategy::BestEffortFifo,
        };
    if let Some(fungibility) = spec.get("flavorFungibility")? {
        unread(&fungibility, &["whenCanBorrow", "whenCanPreempt", "preference"], notes);
        let next = |name| {
            const NAMES: [&str; 4] = ["TryNextFlavor", "MayStopSearch", "Borrow", "Preempt"];
            choice(&fungibility, name, &NAMES)
        };
        let preferences = ["BorrowingOverPreemption", "PreemptionOverBorrowing"];
        queue.fungibility = Fungibility {
            try_next_when_borrowing: next("whenCanBorrow")? == "TryNextFlavor",
            stop_when_preempting: !["", "TryNextFlavor"]
                .contains(&next("whenCanPreempt")?.as_str()),
            preemption_over_borrowing: choice(&fungibility, "preference", &preferences)?
                == "PreemptionOverBorrowing",
        };
    }
    if let Some(preemption) = spec.get("preemption")? {
        queue.preemption = read_preemption(&preemption, notes)?;
    }
    Ok((queue, label_selector(&spec, "namespaceSelector")?))
}

/// A cohort.
pub(super) fn inner(root: &Field<'_>, notes: &mut Vec<Note>) -> Fault<Queue> {
    let mut queue = Queue::inner(metadata::name(root)?);
    if let Some(spec) = root.get("spec")? {
        unread(&spec, &["parent", "parentName", "resourceGroups", "fairSharing"], notes);
        queue.parent = spec.name_of("parentName")?.or(spec.name_of("parent")?);
        queue.groups = groups(&spec, notes)?;
        queue.weight = weight(&spec, notes)?;
    }
    Ok(queue)
}

/// Whether a queue is stopped.
pub(super) fn is_stopped(spec: &Field<'_>) -> Fault<bool> {
    let policy = choice(spec, "stopPolicy", &["None", "Hold", "HoldAndDrain"])?;
    Ok(!matches!(policy.as_str(), "" | "None"))
}

/// One of some names; empty if it is absent.
fn choice(of: &Field<'_>, name: &str, names: &[&str]) -> Fault<String> {
    let Some(field) = of.get(name)? else { return Ok(String::new()) };
    let text = field.text()?;
    if !text.is_empty() && !names.contains(&text) {
        return Err(metadata::unsupported(&field, text, names));
    }
    Ok(text.to_owned())
}

fn read_preemption(field: &Field<'_>, notes: &mut Vec<Note>) -> Fault<QueuePreemption> {
    let known = ["reclaimWithinCohort", "withinClusterQueue", "borrowWithinCohort"];
    unread(field, &known, notes);
    let policy = |name, names: &[&str]| {
        Ok(match choice(field, name, names)?.as_str() {
            "LowerPriority" => QueuePreemptionPolicy::LowerPriority,
            "LowerOrNewerEqualPriority" => QueuePreemptionPolicy::LowerOrNewerEqualPriority,
            "Any" => QueuePreemptionPolicy::Any,
            _ => QueuePreemptionPolicy::Never,
        })
    };
    let mut borrow_within_cohort = BorrowWithinCohort::default();
    if let Some(borrow) = field.get("borrowWithinCohort")? {
        unread(&borrow, &["policy", "maxPriorityThreshold"], notes);
        borrow_within_cohort = BorrowWithinCohort {
            lower_priority: choice(&borrow, "policy", &["Never", "LowerPriority"])?
                == "LowerPriority",
            max_priority_threshold: borrow
                .get("maxPriorityThreshold")?
                .map(|most| most.int32().map(i64::from))
                .transpose()?,
        };
    }
    Ok(QueuePreemption {
        within_cluster_queue: policy(
            "withinClusterQueue",
            &["Never", "LowerPriority", "LowerOrNewerEqualPriority"],
        )?,
        reclaim_within_cohort: policy("reclaimWithinCohort", &["Never", "LowerPriority", "Any"])?,
        borrow_within_cohort,
    })
}

fn weight(spec: &Field<'_>, notes: &mut Vec<Note>) -> Fault<Weight> {
    let Some(sharing) = spec.get("fairSharing")? else { return Ok(Weight::ONE) };
    unread(&sharing, &["weight"], notes);
    let Some(field) = sharing.get("weight")? else { return Ok(Weight::ONE) };
    let quantity = field.quantity()?;
    let nanos = u64::try_from(quantity.nanos()).map_err(|_| field.invalid("is out of range"))?;
    Ok(Weight::from_nanos(nanos))
}

fn groups(spec: &Field<'_>, notes: &mut Vec<Note>) -> Fault<Vec<ResourceGroup>> {
    let mut groups = Vec::new();
    spec.each("resourceGroups", |group| {
        unread(&group, &["coveredResources", "flavors"], notes);
        let mut flavors = Vec::new();
        group.each("flavors", |flavor| {
            unread(&flavor, &["name", "resources"], notes);
            let mut resources: Vec<(String, Quota)> = Vec::new();
            flavor.each("resources", |resource| {
                let known = ["name", "nominalQuota", "borrowingLimit", "lendingLimit"];
                unread(&resource, &known, notes);
                let name = resource.need("name")?.text()?.to_owned();
                let amount =
                    |field: Option<Field<'_>>| field.map(|f| amount(&f, &name)).transpose();
                let nominal = amount(Some(resource.need("nominalQuota")?))?;
                let mut quota = Quota::nominal(nominal.unwrap_or(0));
                quota.borrowing_limit = amount(resource.get("borrowingLimit")?)?;
                quota.lending_limit = amount(resource.get("lendingLimit")?)?;
                resources.push((name, quota));
                Ok(())
            })?;
            flavors.push(FlavorQuotas::new(flavor.need("name")?.text()?, resources));
            Ok(())
        })?;
        groups.push(ResourceGroup { covered_resources: group.texts("coveredResources")?, flavors });
        Ok(())
    })?;
    Ok(groups)
}

/// An amount; one beyond the range of integers is unlimited, as in Kueue.
fn amount(field: &Field<'_>, resource: &str) -> Fault<i64> {
    let quantity = field.quantity()?;
    if quantity.is_negative() {
        return Err(field.invalid("is negative"));
    }
    match amount_of(resource, quantity) {
        Ok(amount) => Ok(amount),
        Err(Problem::Overflow) => Ok(UNLIMITED),
        Err(problem) => Err(field.fail(problem)),
    }
}

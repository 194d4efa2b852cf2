//! Cases about tenants, with Kueue's answers.

#[allow(clippy::needless_pass_by_value, reason = "one signature for all kinds of cases")]
mod cycles;
pub(super) mod fields;
mod flavors;
mod quota;
#[allow(clippy::needless_pass_by_value, reason = "one signature for all kinds of cases")]
mod victims;
mod world;

use std::fmt;

use serde_json::Value;

use fields::{AmountTable, Fields};
use world::{Rules, World};

/// How a case went.
pub(super) enum Verdict {
    /// The answers agree.
    Agrees,
    /// The first difference: where, the answer of Kueue, and ours.
    Differs { step: String, expected: String, actual: String },
    /// The case is about a rule that is left out, by its name in `docs/tenants/kueue.md`.
    Skipped(&'static str),
}

/// Stops the comparison: a difference, or a rule that is left out, or a bad case.
pub(super) enum Stop {
    Verdict(Verdict),
    Bad(String),
}

impl From<String> for Stop {
    fn from(error: String) -> Stop {
        Stop::Bad(error)
    }
}

impl From<&str> for Stop {
    fn from(error: &str) -> Stop {
        Stop::Bad(error.into())
    }
}

impl From<phalanx::quota::QuotaError> for Stop {
    fn from(error: phalanx::quota::QuotaError) -> Stop {
        Stop::Bad(error.to_string())
    }
}

/// Stops if two answers differ.
pub(super) fn same<T: PartialEq + fmt::Debug>(
    step: impl fmt::Display,
    expected: &T,
    actual: &T,
) -> Result<(), Stop> {
    if expected == actual {
        return Ok(());
    }
    Err(Stop::Verdict(Verdict::Differs {
        step: step.to_string(),
        expected: format!("{expected:?}"),
        actual: format!("{actual:?}"),
    }))
}

/// Whether a line is such a case.
pub(super) fn is_case(case: &Value) -> bool {
    ["source", "level", "input"].iter().all(|name| case.get(name).is_some())
}

/// Name, category and verdict of a case.
///
/// # Errors
/// The case is of no kind that is known, or has a field that is not.
pub(super) fn run(case: &Value) -> Result<(String, String, Verdict), String> {
    let mut fields = Fields::new("case", case)?;
    let (name, source) = (fields.text("name")?, fields.text("source")?);
    let level = fields.text("level")?;
    let gates = fields.take("gates")?;
    let tags = fields.texts("tags")?;
    let (input, expect) = (fields.take("input")?, fields.take("expect")?);
    fields.end()?;
    if !["core", "fair", "peripheral"].contains(&level) {
        return Err(format!("level: {level:?} is not known"));
    }
    let category = if tags.contains(&"partial-admission") {
        "tenants partial-admission".into()
    } else {
        format!("tenants {level}")
    };
    if tags.contains(&"kueue-quirk") {
        return Ok((name.into(), category, Verdict::Skipped("kueue-quirk")));
    }
    if is_refused(input) {
        return Ok((name.into(), category, Verdict::Skipped("kueue-refused-queue")));
    }
    let mut input = Fields::new("input", input)?;
    let mut expect = Fields::new("expect", expect)?;
    let verdict = match compare(source, gates, &mut input, &mut expect) {
        Ok(()) => Verdict::Agrees,
        Err(Stop::Verdict(verdict)) => verdict,
        Err(Stop::Bad(error)) => return Err(format!("{name}: {error}")),
    };
    if !matches!(verdict, Verdict::Skipped(_)) {
        // What came after a difference has not been read.
        if matches!(verdict, Verdict::Agrees) {
            input.end().and(expect.end()).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok((name.into(), category, verdict))
}

/// Whether a queue has a resource in two of its groups: Kueue's webhook refuses it, and so does a tree.
fn is_refused(input: &Value) -> bool {
    let list = |of: &Value, name: &str| {
        of.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let queues = [list(input, "clusterQueues"), list(input, "cohorts")].concat();
    queues.iter().any(|queue| {
        let groups = list(queue, "resourceGroups");
        let all = groups.iter().flat_map(|group| list(group, "coveredResources"));
        let names: Vec<String> = all.map(|name| name.to_string()).collect();
        names.iter().collect::<std::collections::BTreeSet<_>>().len() < names.len()
    })
}

/// A question and its recorded answer.
struct Case<'c, 'v> {
    rules: Rules,
    input: &'c mut Fields<'v>,
    expect: &'c mut Fields<'v>,
}

fn compare<'v>(
    source: &str,
    gates: &Value,
    input: &mut Fields<'v>,
    expect: &mut Fields<'v>,
) -> Result<(), Stop> {
    let rules = match world::rules(gates, input)? {
        Ok(rules) => rules,
        Err(rule) => return Err(Stop::Verdict(Verdict::Skipped(rule))),
    };
    let compare: fn(Case<'_, '_>) -> Result<(), Stop> = match source {
        "cache/TestAvailable" => quota::available,
        "cache/TestSnapshot"
        | "cache/TestSnapshotAddRemoveWorkload"
        | "cache/TestSnapshotAddRemoveWorkloadWithLendingLimit" => quota::snapshot,
        "cache/TestClusterQueueUsage" => quota::usage,
        "cache/TestCycles" => quota::circles,
        "cache/TestDeleteCohortUpdatesAncestorSubtreeQuota" => quota::deletion,
        "cache/TestDominantResourceShare" => quota::shares,
        "cache/TestIsBorrowingOn" => quota::borrowing,
        "cache/TestCohortLendable" => quota::lendable,
        "cache/TestPreciseWeightedShareSerialized" => quota::weighted,
        "generated/quota" => quota::generated,
        "flavorassigner/TestAssignFlavors"
        | "flavorassigner/TestAssignFlavorsWithAllowedFlavors"
        | "flavorassigner/TestDeletedFlavors"
        | "flavorassigner/TestHierarchical"
        | "flavorassigner/TestReclaimBeforePriorityPreemption"
        | "flavorassigner/TestIsNoFitDueToCapacityAndLimits" => flavors::assigned,
        "flavorassigner/TestIsPreferred" => flavors::preferred,
        "flavorassigner/TestSearch" => flavors::search,
        "generated/assign-classical" | "generated/assign-fair" => flavors::generated,
        "preemption/TestPreemption"
        | "preemption/TestHierarchicalPreemptions"
        | "preemption/TestFairPreemptions"
        | "preemption/TestFairPreemptionSkipsUnsatisfiableTournament" => victims::targets,
        "preemption/TestCandidatesOrdering" => victims::order,
        "preemption/TestMakeClusterQueueOrdering" => victims::queues,
        "preemption/TestSatisfiesPreemptionPolicy" => victims::policy,
        "scheduler/TestEntryOrdering" => cycles::order,
        "scheduler/TestEntryComparerLess" => cycles::less,
        "scheduler/TestResourcesToReserve" => cycles::reserved,
        "scheduler/TestSchedule"
        | "scheduler/TestScheduleForFairSharing"
        | "scheduler/TestScheduleRecomputePreemptionTargets"
        | "generated/cycle-classical"
        | "generated/cycle-fair" => cycles::one,
        "scheduler/TestLastSchedulingContext" => cycles::two,
        "queue/TestStrictFIFO" | "queue/TestFsAdmission" => cycles::head,
        "scheduler/TestScheduleForAFS" => {
            return Err(Stop::Verdict(Verdict::Skipped("admission-fair-sharing")));
        }
        other => return Err(format!("source: {other:?} is not known").into()),
    };
    compare(Case { rules, input, expect })
}

/// The amounts of a usage, by names; zeros are left out.
fn table(world: &World, usage: &phalanx::quota::Usage) -> AmountTable {
    let named = |(of, amount): &(phalanx::quota::FlavorResource, i64)| {
        let (flavor, resource) = world.tenants.tree().names(*of);
        ((flavor.to_string(), resource.to_string()), *amount)
    };
    usage.iter().map(named).filter(|(_, amount)| *amount != 0).collect()
}

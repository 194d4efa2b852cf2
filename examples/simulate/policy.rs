//! Policies by name: how the line is served, with what goes with it.

use std::time::Duration;

use phalanx::queue::{
    Backfill, Elastic, HeadOfLine, PreemptionSettings, ReservationPolicy, Settings,
};

use crate::common::cli::Mistake;

/// How the line is served.
const LINES: [&str; 5] = ["fcfs", "easy", "easy_sjbf", "conservative", "none"];
/// Additions to it.
const PARTS: [&str; 6] = ["reservations", "tenants", "preemption", "moves", "byquota", "turns"];
/// Units that may move for a group that does not fit.
const MOVES: u32 = 2;

/// A policy spelled out: its line, and its additions.
fn parts(name: &str) -> Vec<&str> {
    match name {
        "reservations" => vec!["none", "reservations"],
        "tenants_joint" => vec!["none", "tenants", "preemption"],
        "tenants_quota" => vec!["none", "tenants", "preemption", "byquota"],
        "tenants_none" => vec!["none", "tenants"],
        _ => name.split('+').collect(),
    }
}

/// Refuses a name that is no policy.
pub(crate) fn check(name: &str) -> Result<(), Mistake> {
    if matches!(name, "srtf" | "srsf") {
        return Ok(());
    }
    let parts = parts(name);
    let has = |part: &str| parts.contains(&part);
    let (line, additions) = (parts.first().copied().unwrap_or(""), parts.get(1..).unwrap_or(&[]));
    if !LINES.contains(&line) || !additions.iter().all(|part| PARTS.contains(part)) {
        let (lines, parts) = (LINES.join(", "), PARTS.join(", "));
        return Err(Mistake::Usage(format!(
            "--policy {name:?} is none of: {lines}, srtf, srsf, reservations, tenants_joint, \
             tenants_quota, tenants_none; the first five go with + and: {parts}"
        )));
    }
    for (part, needs) in [("moves", "preemption"), ("byquota", "preemption")] {
        if has(part) && !has(needs) {
            return Err(Mistake::Usage(format!("--policy {name:?}: {part} needs {needs}")));
        }
    }
    if has("reservations") && matches!(line, "easy" | "easy_sjbf" | "conservative") {
        return Err(Mistake::Usage(format!(
            "--policy {name:?}: a line with backfill has promises in place of reservations"
        )));
    }
    Ok(())
}

/// Whether the GPUs are shared by two tenants.
pub(crate) fn has_tenants(name: &str) -> bool {
    parts(name).contains(&"tenants")
}

/// The settings of a policy.
pub(crate) fn settings(name: &str) -> Settings {
    let parts = parts(name);
    let has = |part: &str| parts.contains(&part);
    let mut settings = match parts.first().copied() {
        Some("fcfs") => Settings::new().head_of_line(HeadOfLine::StrictFifo),
        Some("easy") => Settings::new().backfill(Backfill::easy()),
        Some("easy_sjbf") => Settings::new().backfill(Backfill::easy_shortest_first()),
        Some("conservative") => Settings::new().backfill(Backfill::conservative()),
        _ => Settings::new(),
    };
    if has("reservations") {
        settings = settings.reservation(
            ReservationPolicy::new().after(Duration::from_secs(600)).timeout(Duration::MAX),
        );
    }
    if has("preemption") {
        let mut preemption = PreemptionSettings::new();
        if has("byquota") {
            preemption = preemption.joint(false);
        }
        if has("moves") {
            preemption = preemption.consolidation(MOVES);
        }
        settings = settings.preemption(preemption);
    }
    if has("turns") {
        settings = settings.elastic(Elastic::new().by_turns());
    }
    settings
}

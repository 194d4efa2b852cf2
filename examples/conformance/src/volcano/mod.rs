//! Cases of Volcano: tables of its arithmetic and shares, and sessions.

mod amounts;
mod session;
mod tables;

use super::systems::Case;
use super::tenants::{Stop, Verdict};

/// Tags, plugins and fields of what is left out, with the rule's name in `docs/tenants/volcano.md`.
const LEFT_OUT_TAGS: [(&str, &str); 5] = [
    ("unchecked-by-peer", "volcano-unchecked-by-peer"),
    ("topology-and-sampling", "volcano-network-topology"),
    ("time-division", "volcano-time-division"),
    ("min-runtime", "volcano-cooldown"),
    ("shard", "volcano-shards"),
];

fn left_out(rule: &'static str) -> Stop {
    Stop::Verdict(Verdict::Skipped(rule))
}

/// Compares a case.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    for (tag, rule) in LEFT_OUT_TAGS {
        if case.tags.contains(&tag) {
            return Err(left_out(rule));
        }
    }
    match case.family {
        "table" => tables::compare(case),
        "session" => session::compare(case),
        family => Err(Stop::Bad(format!("{family}: is not known"))),
    }
}

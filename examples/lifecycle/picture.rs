//! The day as a picture: what runs and what waits, without and with reservations.

use crate::common::chart::{self, Chart, Line};

/// A sample at a time.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) secs: u64,
    /// GPUs in use.
    pub(crate) busy: f64,
    /// GPUs that the gangs in line ask for.
    pub(crate) waiting: f64,
    /// GPUs that the largest gang in line asks for.
    pub(crate) largest: f64,
}

/// Panels over the hours of the day, a line for each policy.
pub(crate) fn svg(note: &str, policies: &[(&str, Vec<Seen>)]) -> String {
    let chart = |title: &str, value: &dyn Fn(&Seen) -> f64| Chart {
        title: title.into(),
        across: "hours of the day".into(),
        up: "GPUs".into(),
        lines: policies
            .iter()
            .map(|(name, seen)| Line {
                name: (*name).into(),
                points: seen.iter().map(|own| (own.secs as f64 / 3_600.0, value(own))).collect(),
            })
            .collect(),
    };
    let charts = [
        chart("In use", &|own| own.busy),
        chart("Asked for by the gangs that wait", &|own| own.waiting),
        chart("Asked for by the largest gang that waits", &|own| own.largest),
    ];
    chart::svg("A day of gangs, with and without reservations", note, &charts)
}

//! The figures of a measurement, as text or JSON.

use std::time::Duration;

use phalanx::framework::math::simd_level;

use crate::scene::Scene;

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) placed: usize,
    pub(crate) refused: usize,
    pub(crate) seconds: f64,
    pub(crate) build_seconds: f64,
    pub(crate) intern_seconds: f64,
    gang_us: [f64; 4],
    refused_p50_us: f64,
    commit_p50_us: f64,
    pub(crate) plugin_calls: u64,
    pub(crate) allocations_per_placement: f64,
    pub(crate) bytes_per_node: f64,
    pub(crate) bytes_per_pod: f64,
    pub(crate) straight_pass_us: f64,
    pub(crate) change: Change,
    pub(crate) equal: Option<bool>,
    pub(crate) ratio: Option<f64>,
}

/// Cost of a change, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) clone: f64,
    pub(crate) event: f64,
    pub(crate) next: f64,
}

impl Report {
    pub(crate) fn new(scene: &Scene) -> Report {
        Report { nodes: scene.nodes, pods: scene.pods, ..Report::default() }
    }

    /// Takes in how long it took to decide on each gang, and to commit its plan.
    pub(crate) fn times(
        &mut self,
        mut placed: Vec<Duration>,
        mut refused: Vec<Duration>,
        mut committed: Vec<Duration>,
    ) {
        placed.sort_unstable();
        refused.sort_unstable();
        committed.sort_unstable();
        self.gang_us = [0.0, 0.5, 0.99, 1.0].map(|share| micros_at(&placed, share));
        self.refused_p50_us = micros_at(&refused, 0.5);
        self.commit_p50_us = micros_at(&committed, 0.5);
    }

    fn pods_per_s(&self) -> f64 {
        let seconds = self.seconds + self.intern_seconds;
        if seconds > 0.0 { self.placed as f64 / seconds } else { 0.0 }
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("nodes", self.nodes.to_string()),
            ("pods", self.pods.to_string()),
            ("placed", self.placed.to_string()),
            ("refused", self.refused.to_string()),
            ("seconds", format!("{:.9}", self.seconds)),
            ("build_seconds", format!("{:.6}", self.build_seconds)),
            ("intern_seconds", format!("{:.9}", self.intern_seconds)),
            ("pods_per_s", format!("{:.0}", self.pods_per_s())),
            ("gang_min_us", format!("{:.3}", self.gang_us[0])),
            ("gang_p50_us", format!("{:.3}", self.gang_us[1])),
            ("gang_p99_us", format!("{:.3}", self.gang_us[2])),
            ("gang_max_us", format!("{:.3}", self.gang_us[3])),
            ("refused_p50_us", format!("{:.3}", self.refused_p50_us)),
            ("commit_p50_us", format!("{:.3}", self.commit_p50_us)),
            ("plugin_calls", self.plugin_calls.to_string()),
            ("allocations_per_placement", format!("{:.4}", self.allocations_per_placement)),
            ("bytes_per_node", format!("{:.1}", self.bytes_per_node)),
            ("bytes_per_pod", format!("{:.1}", self.bytes_per_pod)),
            ("clone_us", format!("{:.3}", self.change.clone)),
            ("node_event_us", format!("{:.3}", self.change.event)),
            ("after_event_us", format!("{:.3}", self.change.next)),
            ("straight_pass_us", format!("{:.3}", self.straight_pass_us)),
            ("simd", simd()),
        ];
        if let Some(equal) = self.equal {
            fields.push(("equal", equal.to_string()));
        }
        if let Some(ratio) = self.ratio {
            fields.push(("ratio", format!("{ratio:.2}")));
        }
        fields
    }

    pub(crate) fn json(&self) -> String {
        json(&self.fields())
    }

    pub(crate) fn text(&self) -> String {
        text(&self.fields())
    }
}

/// Microseconds that a share of some times, which are sorted, are within; 0 if there are none.
pub(crate) fn micros_at(times: &[Duration], share: f64) -> f64 {
    let place = (times.len() as f64 * share) as usize;
    let time = times.get(place.min(times.len().saturating_sub(1)));
    time.map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// The level of vectors that loops run at, as JSON.
pub(crate) fn simd() -> String {
    format!("\"{}\"", simd_level())
}

/// Figures by name, as one JSON object.
pub(crate) fn json(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}\n", fields.join(","))
}

/// Figures by name, a line each.
pub(crate) fn text(fields: &[(&str, String)]) -> String {
    let lines: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name:>26}  {}", value.trim_matches('"')))
        .collect();
    lines.join("\n") + "\n"
}

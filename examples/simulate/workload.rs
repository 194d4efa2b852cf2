//! Workloads drawn from a trace: its load multiplied, its arrivals drawn by a seed.

use std::time::Duration;

use phalanx::Time;
use phalanx::simulate::Random;
use serde_json::{Value, json};

use crate::common::cli::{Arguments, Mistake};

use super::trace::Trace;

/// How the arrivals of a trace are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// As the trace has them.
    Trace,
    /// Its jobs in order, with exponential gaps of its mean: a Poisson process.
    Poisson,
    /// Its times, each with a job drawn from all of its jobs, with replacement.
    Resample,
}

/// The change of a trace before it is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) arrivals: Arrivals,
    /// Percent: at 200 the same jobs arrive in half of the time.
    pub(crate) load: u32,
}

impl Change {
    /// The change that the arguments ask for.
    pub(crate) fn parse(arguments: &Arguments) -> Result<Change, Mistake> {
        let arrivals = match arguments.word("--arrivals", &["trace", "poisson", "resample"])? {
            "poisson" => Arrivals::Poisson,
            "resample" => Arrivals::Resample,
            _ => Arrivals::Trace,
        };
        Ok(Change { arrivals, load: arguments.number("--load", 100, 1..=100_000)? })
    }

    /// Whether the trace stays as it is.
    pub(crate) fn is_none(self) -> bool {
        self == Change { arrivals: Arrivals::Trace, load: 100 }
    }

    /// Its part of the line that a cell is a function of; null for none.
    pub(crate) fn keys(self) -> [(&'static str, Value); 2] {
        let arrivals = match self.arrivals {
            Arrivals::Trace => Value::Null,
            Arrivals::Poisson => json!("poisson"),
            Arrivals::Resample => json!("resample"),
        };
        let load = if self.load == 100 { Value::Null } else { json!(self.load) };
        [("arrivals", arrivals), ("load", load)]
    }

    /// The workload of a seed. The first arrival keeps its time.
    pub(crate) fn of(self, trace: &Trace, seed: u64) -> Trace {
        let mut trace = trace.clone();
        trace.jobs.sort_by_key(|job| job.submit);
        // Estimates are drawn from the seed too; the arrivals are not to follow them.
        let mut random = Random::new(seed ^ 0x6172_7269_7661_6c73);
        let (Some(first), Some(last)) = (trace.jobs.first(), trace.jobs.last()) else {
            return trace;
        };
        let (first, last) = (first.submit, last.submit);
        let origin = seconds(first.since(Time::ZERO));
        match self.arrivals {
            Arrivals::Trace => {}
            Arrivals::Poisson => {
                let gaps = trace.jobs.len().max(2) - 1;
                let mean = seconds(last.since(first)) / gaps as f64;
                let mut at = origin;
                for job in trace.jobs.iter_mut().skip(1) {
                    // From 2^-53 to 1, so that the logarithm is finite.
                    let uniform = ((random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                    at -= mean * uniform.ln();
                    job.submit = millis(at);
                }
            }
            Arrivals::Resample => {
                let drawn = trace.jobs.clone();
                for job in &mut trace.jobs {
                    let other = drawn[random.below(drawn.len() as u64) as usize].clone();
                    let (id, submit) = (job.id.clone(), job.submit);
                    *job = other;
                    (job.id, job.submit, job.after) = (id, submit, None);
                }
            }
        }
        if self.load != 100 {
            for job in &mut trace.jobs {
                let since = seconds(job.submit.since(first));
                job.submit = millis(origin + since * 100.0 / f64::from(self.load.max(1)));
            }
        }
        trace
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

/// A time in whole milliseconds.
fn millis(secs: f64) -> Time {
    Time::from_millis((secs * 1_000.0).round() as u64)
}

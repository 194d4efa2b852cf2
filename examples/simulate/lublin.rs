//! Workloads drawn from the model of Lublin and Feitelson (*The workload on parallel supercomputers:
//! modeling the characteristics of rigid jobs*, Journal of Parallel and Distributed Computing 63(11),
//! 2003), with the parameters that it has for jobs of all kinds together.

use std::time::Duration;

use phalanx::Time;
use phalanx::simulate::Random;
use serde_json::Value;

use super::trace::{Trace, TraceJob};

/// Half hours of a day, in which the rate of arrivals is constant.
const SLOTS: usize = 48;
const SLOT: f64 = 86_400.0 / SLOTS as f64;
/// The first slot of the daily cycle: the distribution of arrivals over a day begins there.
const FIRST: usize = 11;
/// Shape and scale: the logarithm of the time between arrivals in a mean slot.
const GAPS: (f64, f64) = (10.2303 * 1.0225, 0.4871);
/// Shape and scale, in slots: arrivals over a day.
const DAY: (f64, f64) = (8.1737, 3.9631);
/// Shapes and scales of the logarithm of run times: short jobs and long ones.
const SHORT: (f64, f64) = (4.2, 0.94);
const LONG: (f64, f64) = (312.0, 0.03);
/// The share of short jobs falls with the number of processors: slope and value at none.
const SHARE: (f64, f64) = (-0.0054, 0.78);
/// The shares of jobs with one processor, and with a power of two.
const SERIAL: f64 = 0.244;
const POWER: f64 = 0.576;
/// Logarithms of sizes, base 2: the least, and the share below the bend, which is 2.5 below the most.
const LEAST: f64 = 0.8;
const BELOW: f64 = 0.86;
const BEND: f64 = 2.5;
/// Larger logarithms of run times and of gaps are drawn again.
const LONGEST: f64 = 12.0;
const WIDEST: f64 = 13.0;

/// A number from 0 on, below 1.
fn uniform(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Two numbers of the standard normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

/// A number of a gamma distribution with a shape of one or more (Marsaglia and Tsang, *A simple method
/// for generating gamma variables*, ACM TOMS 26(3), 2000).
pub(crate) fn gamma(random: &mut Random, (shape, scale): (f64, f64)) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - uniform(random)).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v * scale;
        }
    }
}

/// The weight of each slot of the day; their mean is one.
pub(crate) fn weights() -> [f64; SLOTS] {
    let (shape, scale) = DAY;
    // The density without its constant, which the mean takes out again.
    let density = |x: f64| ((shape - 1.0) * x.ln() - x / scale).exp();
    let mut weights = [0.0; SLOTS];
    for place in FIRST..FIRST + SLOTS {
        let (from, steps) = (place as f64 - 0.5, 64);
        let sum: f64 = (0..steps).map(|at| density(from + (f64::from(at) + 0.5) / 64.0)).sum();
        weights[(place - 1) % SLOTS] = sum;
    }
    let mean = weights.iter().sum::<f64>() / SLOTS as f64;
    weights.map(|weight| weight / mean)
}

/// The number of processors of a job on a machine of so many.
fn size(random: &mut Random, processors: u32) -> u32 {
    let kind = uniform(random);
    if kind <= SERIAL {
        return 1;
    }
    let most = f64::from(processors.max(2)).log2();
    let bend = (most - BEND).max(LEAST.min(most));
    let (low, high) = if uniform(random) <= BELOW { (LEAST.min(bend), bend) } else { (bend, most) };
    let power = low + (high - low) * uniform(random);
    let power = if kind <= SERIAL + POWER { power.round() } else { power };
    (power.exp2().round() as u32).clamp(1, processors)
}

/// So many jobs for a machine of so many processors, by a seed.
pub(crate) fn draw(count: usize, processors: u32, seed: u64) -> Trace {
    let mut random = Random::new(seed ^ 0x6c75_626c_696e);
    let weights = weights();
    // The time, and what has passed of it in slots of mean weight.
    let (mut slot, mut part) = (0_usize, 0.0_f64);
    let mut jobs = Vec::with_capacity(count);
    for id in 0..count {
        let gap = loop {
            let gap = gamma(&mut random, GAPS);
            if gap <= WIDEST {
                break gap.exp();
            }
        };
        // A gap passes faster in the slots of the day that have more arrivals.
        let mut left = gap / SLOT;
        loop {
            let weight = weights[slot % SLOTS];
            let rest = (1.0 - part) * weight;
            if left < rest {
                part += left / weight;
                break;
            }
            left -= rest;
            (slot, part) = (slot + 1, 0.0);
        }
        let at = (slot as f64 + part) * SLOT;
        let size = size(&mut random, processors);
        let share = (SHARE.0 * f64::from(size) + SHARE.1).clamp(0.0, 1.0);
        let run = loop {
            let kind = if uniform(&mut random) <= share { SHORT } else { LONG };
            let run = gamma(&mut random, kind);
            if run <= LONGEST {
                break run.exp();
            }
        };
        let submit = Time::from_millis((at * 1_000.0).round() as u64);
        let run = Duration::from_millis((run * 1_000.0).round() as u64);
        jobs.push(TraceJob::new(Value::from(id), submit, size, run));
    }
    Trace { jobs, processors: Some(processors) }
}

//! The most that any rule can allocate, with knowledge of all arrivals and moves without end.
//!
//! Only GPUs are counted: CPU, memory, models and the nodes of whole GPUs are left out, which can only
//! raise the bound. The linear program packs as much as devices hold. Any prices of sizes bound it
//! by what pods are worth beyond their prices, and for each device by the dearest filling. The prices are
//! moved down the slope, and the least bound is kept. So it holds however well they are found.

use std::collections::BTreeMap;

use crate::trace::{GPU, Trace};

/// A device is looked at in so many steps; sizes are rounded down to them.
const STEPS: usize = 1_000;
const ROUNDS: usize = 4_000;

/// The bound for a seed, in thousandths of a GPU, once all of the capacity has arrived.
pub(crate) fn bound(trace: &Trace, seed: u64) -> Option<f64> {
    let (_, arrivals) = trace.order(seed)?;
    let (mut arrived, mut sizes) = (0, BTreeMap::new());
    for pod in arrivals.iter().map(|row| &trace.pods[*row]) {
        arrived += pod.milli;
        // Arrivals are counted to the nearest percent.
        if 200 * arrived > 201 * trace.total_milli() {
            break;
        }
        let devices: i64 = pod.shape.devices.iter().map(|request| i64::from(request.count())).sum();
        if devices > 0 {
            *sizes.entry(pod.milli / devices).or_insert(0) += devices;
        }
    }
    Some(most(&sizes, trace.total_milli() / GPU))
}

/// The least bound found for so many pods by size, on devices of a GPU each.
pub(crate) fn most(sizes: &BTreeMap<i64, i64>, devices: i64) -> f64 {
    let devices = devices as f64;
    let worth: Vec<f64> = sizes.keys().map(|size| *size as f64).collect();
    let counts: Vec<f64> = sizes.values().map(|count| *count as f64).collect();
    let of = |size: &i64| (*size).clamp(1, GPU) as usize * STEPS / GPU as usize;
    let steps: Vec<usize> = sizes.keys().map(of).collect();
    let mut prices = worth.clone();
    let (mut best, mut gap, mut since) = (f64::MAX, 0.02, 0);
    for _ in 0..ROUNDS {
        let (value, filling) = fill(&prices, &steps);
        let beyond = (0..worth.len()).map(|at| counts[at] * (worth[at] - prices[at]).max(0.0));
        let bound = beyond.sum::<f64>() + devices * value;
        since += 1;
        if bound < best * (1.0 - 1e-6) {
            since = 0;
        }
        best = best.min(bound);
        if since > 40 {
            (gap, since) = (gap / 2.0, 0);
        }
        let slope: Vec<f64> = (0..worth.len())
            .map(|at| {
                let taken = devices * filling[at];
                if prices[at] < worth[at] { taken - counts[at] } else { taken.max(0.0) }
            })
            .collect();
        let steep: f64 = slope.iter().map(|part| part * part).sum();
        if steep == 0.0 {
            break;
        }
        let step = (bound - best * (1.0 - gap)) / steep;
        for (at, price) in prices.iter_mut().enumerate() {
            *price = (*price - step * slope[at]).clamp(0.0, worth[at]);
        }
    }
    best
}

/// The dearest filling of a device at prices, with how many of each size it has.
fn fill(prices: &[f64], steps: &[usize]) -> (f64, Vec<f64>) {
    let (mut best, mut by) = (vec![0.0_f64; STEPS + 1], vec![None; STEPS + 1]);
    for room in 1..=STEPS {
        best[room] = best[room - 1];
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| (1..=room).contains(*step)) {
            let value = best[room - step] + prices[at];
            if value > best[room] {
                (best[room], by[room]) = (value, Some(at));
            }
        }
    }
    let (mut room, mut filling) = (STEPS, vec![0.0; prices.len()]);
    while room > 0 {
        match by[room] {
            Some(at) => {
                filling[at] += 1.0;
                room -= steps[at];
            }
            None => room -= 1,
        }
    }
    (best[STEPS], filling)
}

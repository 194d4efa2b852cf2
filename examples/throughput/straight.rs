//! The measure of the machine: one plain pass that filters and scores every node once.
//!
//! A hand-written loop over bare columns, for this profile and this pod alone: nothing general is
//! left in it. Division is done in floats, which is exact for these amounts and vectorises.

use std::hint::black_box;

use phalanx::Cluster;

use crate::scene::{GPU, Scene};

/// Columns that a pass reads.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    binpack: bool,
    cpu: Vec<f64>,
    memory: Vec<f64>,
    gpu: Vec<f64>,
    pods: Vec<f64>,
    used_cpu: Vec<f64>,
    used_memory: Vec<f64>,
    used_gpu: Vec<f64>,
    used_pods: Vec<f64>,
}

impl Columns {
    /// The columns of a scene's cluster.
    pub(crate) fn of(scene: &Scene, cluster: &Cluster) -> Columns {
        let mut columns = Columns { binpack: scene.binpack, ..Columns::default() };
        let id = |name: &str| cluster.resource(name);
        let (Some(cpu), Some(memory), Some(gpu)) = (id("cpu"), id("memory"), id(GPU)) else {
            return columns;
        };
        for node in cluster.nodes() {
            columns.cpu.push(node.allocatable(cpu) as f64);
            columns.memory.push(node.allocatable(memory) as f64);
            columns.gpu.push(node.allocatable(gpu) as f64);
            columns.pods.push(node.pod_limit() as f64);
            columns.used_cpu.push(node.used(cpu) as f64);
            columns.used_memory.push(node.used(memory) as f64);
            columns.used_gpu.push(node.used(gpu) as f64);
            columns.used_pods.push(node.pod_count() as f64);
        }
        columns
    }

    /// One pass: the best node for the first shape of the scene, as its score and place.
    pub(crate) fn pass(&self) -> (f64, usize) {
        let columns = black_box(self);
        let request = black_box([1_000.0, 2_147_483_648.0, 1.0]);
        if self.binpack { most_allocated(columns, request) } else { kubernetes(columns, request) }
    }
}

const MAGIC: f64 = 4_503_599_627_370_496.0;

/// The whole part of a number from 0 to 2⁵².
#[inline]
fn whole(x: f64) -> f64 {
    let rounded = (x + MAGIC) - MAGIC;
    rounded - if rounded > x { 1.0 } else { 0.0 }
}

/// The best node under least allocated and balanced allocation, as its score and place.
fn kubernetes(columns: &Columns, [cpu, memory, gpu]: [f64; 3]) -> (f64, usize) {
    scan(columns, [cpu, memory, gpu], |a, m, _, qa, qm, _, ua, um| {
        let least = whole((whole((a - qa) * 100.0 / a) + whole((m - qm) * 100.0 / m)) * 0.5);
        let balance = |x: f64, y: f64| whole((1.0 - (x - y).abs() * 0.5) * 100.0);
        let with = balance((qa / a).min(1.0), (qm / m).min(1.0));
        let without = balance((ua / a).min(1.0), (um / m).min(1.0));
        let shift = 50.0 + with - without;
        // Truncation toward zero, below zero too.
        let half = if shift < 0.0 { -whole(-shift * 0.5) } else { whole(shift * 0.5) };
        least + 50.0 + half
    })
}

/// The best node under most allocated, GPUs weighted 20 to 1.
fn most_allocated(columns: &Columns, request: [f64; 3]) -> (f64, usize) {
    scan(columns, request, |a, m, g, qa, qm, qg, _, _| {
        let most = |q: f64, a: f64| whole(q.min(a) * 100.0 / a);
        whole((most(qa, a) + most(qm, m) + 20.0 * most(qg, g)) / 22.0)
    })
}

#[inline]
fn scan(
    columns: &Columns,
    [cpu, memory, gpu]: [f64; 3],
    score: impl Fn(f64, f64, f64, f64, f64, f64, f64, f64) -> f64,
) -> (f64, usize) {
    const LANES: usize = 64;
    let mut best = (-1.0, 0);
    let mut scores = [0.0; LANES];
    let count = columns.cpu.len();
    for start in (0..count).step_by(LANES) {
        let rows = start..(start + LANES).min(count);
        let (a, m, g) =
            (&columns.cpu[rows.clone()], &columns.memory[rows.clone()], &columns.gpu[rows.clone()]);
        let (p, up) = (&columns.pods[rows.clone()], &columns.used_pods[rows.clone()]);
        let (ua, um, ug) = (
            &columns.used_cpu[rows.clone()],
            &columns.used_memory[rows.clone()],
            &columns.used_gpu[rows.clone()],
        );
        let scores = &mut scores[..rows.len()];
        for i in 0..scores.len() {
            let (qa, qm, qg) = (ua[i] + cpu, um[i] + memory, ug[i] + gpu);
            let room = (a[i] - qa).min(m[i] - qm).min(g[i] - qg).min(p[i] - up[i] - 1.0);
            let total = score(a[i], m[i], g[i], qa, qm, qg, ua[i], um[i]);
            scores[i] = if room >= 0.0 { total } else { -1.0 };
        }
        let top = scores.iter().fold(-1.0_f64, |top, &score| if score > top { score } else { top });
        if top > best.0 {
            let at = scores.iter().position(|&score| score == top).unwrap_or(0);
            best = (top, start + at);
        }
    }
    best
}

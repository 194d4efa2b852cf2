//! A real cluster, half full, and a gang that wants in.
//!
//! The nodes and pods are those of openb, Alibaba's production GPU cluster; see
//! `examples/data/openb`.

use std::error::Error;

use phalanx::framework::Strategy;
use phalanx::model::{Node, Pod, PodGroup};
use phalanx::plugins::{Fit, LeastAllocated};
use phalanx::{Cluster, Framework, Planner};

use super::Scene;
use super::draw::GPU;
use crate::common::files;

const NODES: &[u8] = include_bytes!("../data/openb/nodes.csv.gz");
const PODS: &[u8] = include_bytes!("../data/openb/pods.csv.gz");
/// The node label that names the kind of GPU.
pub(crate) const MODEL: &str = "gpu-model";

/// The cluster with half of its GPUs taken, and a launcher with 48 workers.
///
/// Pods are taken in the order of the file until half of the GPUs are; those that share a GPU are
/// passed over. They are spread, as Kubernetes does unless told otherwise.
pub(crate) fn scene() -> Result<Scene, Box<dyn Error>> {
    let mut cluster = Cluster::new();
    let mut gpus = 0;
    for line in table("nodes.csv.gz", NODES)?.lines().skip(1) {
        let [name, cpu_milli, memory_mib, gpu, model] = fields(line)?;
        gpus += gpu.parse::<i64>()?;
        let node = Node::new(name)
            .capacity("cpu", format!("{cpu_milli}m"))
            .capacity("memory", format!("{memory_mib}Mi"))
            .capacity(GPU, gpu)
            .label(MODEL, model);
        cluster.add_node(node)?;
    }
    let spread = Framework::builder()
        .filter(Fit)
        .score(1, LeastAllocated::of([(GPU, 2), ("cpu", 1), ("memory", 1)]))
        .strategy(Strategy::Kubernetes)
        .build()?;
    let mut planner = Planner::new();
    let mut taken = 0;
    for line in table("pods.csv.gz", PODS)?.lines().skip(1) {
        let [name, cpu_milli, memory_mib, count, milli, ..] = fields::<11>(line)?;
        let count: i64 = count.parse()?;
        if taken + count > gpus / 2 {
            break;
        }
        if count == 1 && milli != "1000" {
            continue;
        }
        let mut pod = Pod::new()
            .name(name)
            .request("cpu", format!("{cpu_milli}m"))
            .request("memory", format!("{memory_mib}Mi"));
        if count > 0 {
            pod = pod.request(GPU, count);
        }
        let alone = PodGroup::basic(name).pod(pod);
        if let Some(plan) = planner.place(&cluster, &spread, &alone)?.plan() {
            cluster.commit(&spread, plan)?;
            taken += count;
        }
    }
    let worker = Pod::new().request("cpu", 16).request("memory", "64Gi").request(GPU, 2);
    let launcher = Pod::new().name("launcher").request("cpu", 4).request("memory", "16Gi");
    let gang = PodGroup::gang("llm-pretrain", 49).pods(48, worker).pod(launcher);
    Ok(Scene {
        title: "openb (Alibaba)".into(),
        source: "openb".into(),
        cluster,
        groups: vec![gang],
    })
}

fn table(name: &str, bytes: &[u8]) -> Result<String, String> {
    files::text(name, files::unpack(name, bytes.to_vec())?)
}

fn fields<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = line.split(',').collect();
    fields.try_into().map_err(|_| format!("{line:?} has not {N} fields"))
}

//! A real cluster, half full, and a gang that wants in.
//!
//! The nodes and pods are those of openb, Alibaba's production GPU cluster; see
//! `examples/data/openb`.

use std::error::Error;

use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup};

use super::Scene;
use super::draw::GPU;
use crate::common::files;

const NODES: &[u8] = include_bytes!("../data/openb/nodes.csv.gz");
const PODS: &[u8] = include_bytes!("../data/openb/pods.csv.gz");
/// The node label that names the kind of GPU.
pub(crate) const MODEL: &str = "gpu-model";

/// The cluster with half of its GPUs taken, and a training gang of four groups.
///
/// Pods come in the order of the file, packed, until 70 % of the GPUs are taken; those that share
/// a GPU are passed over. Then every so many leave, until half are: holes of all sizes stay.
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
    let pack = Framework::default();
    let mut planner = Planner::new();
    let mut running = Vec::new();
    let mut taken = 0;
    for line in table("pods.csv.gz", PODS)?.lines().skip(1) {
        let [name, cpu_milli, memory_mib, count, milli, ..] = fields::<11>(line)?;
        let count: i64 = count.parse()?;
        if taken + count > gpus * 7 / 10 {
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
        if let Some(plan) = planner.place(&cluster, &pack, &alone)?.plan() {
            #[cfg(feature = "laws")]
            phalanx::reference::is_sound(plan, &alone, &cluster, &pack)?;
            cluster.commit(&pack, plan)?;
            running.push((name.to_string(), count));
            taken += count;
        }
    }
    // A stride that shares no factor with the number of pods visits each once.
    let pods = running.len();
    let stride = (pods / 3..pods).find(|stride| coprime(*stride, pods)).unwrap_or(1);
    for visit in 0..pods {
        let (name, count) = &running[visit * stride % pods];
        if *count > 0 && taken - count >= gpus / 2 {
            cluster.remove_pod("default", name)?;
            taken -= count;
        }
    }
    let pod = |cpu: i32, memory: &str, gpus: i32| {
        Pod::new().request("cpu", cpu).request("memory", memory).request(GPU, gpus)
    };
    let gang = PodGroup::gang("rlhf", 4)
        .group(PodGroup::of("launcher", 1, pod(4, "16Gi", 0)))
        .group(PodGroup::of("trainer", 8, pod(64, "256Gi", 8)))
        .group(PodGroup::of("rollout", 12, pod(16, "64Gi", 2)))
        .group(PodGroup::of("reward", 4, pod(8, "32Gi", 1)));
    Ok(Scene {
        title: "openb (Alibaba)".into(),
        source: "openb".into(),
        cluster,
        has_claims: false,
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

fn coprime(a: usize, b: usize) -> bool {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

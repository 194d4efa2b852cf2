//! Reading the experiment: nodes, pods, and the orders they come in.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use phalanx::model::{Device, DeviceRequest, PodShape};
use phalanx::plugins::{DevicePool, ShadowPrices, TypicalPods};
use phalanx::{Node, Pod};

/// A text with the name it is complained about by.
pub(crate) struct Source {
    name: String,
    text: String,
}

/// A fault in a file, on which line (from 1; 0 where no line is at fault).
#[derive(Debug)]
pub(crate) struct Bad {
    file: String,
    line: usize,
    problem: String,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.problem),
            line => write!(f, "{}:{line}: {}", self.file, self.problem),
        }
    }
}

impl Source {
    /// Reads a file, plain or gzip.
    pub(crate) fn open(path: &Path) -> Result<Source, Bad> {
        let name = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Source::from_bytes(&name, &bytes),
            Err(error) => Err(Bad { file: name, line: 0, problem: error.to_string() }),
        }
    }

    /// Takes bytes, plain or gzip.
    pub(crate) fn from_bytes(name: &str, bytes: &[u8]) -> Result<Source, Bad> {
        let bad = |line, problem: String| Bad { file: name.into(), line, problem };
        let mut plain = Vec::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut decoder = MultiGzDecoder::new(bytes);
            decoder.read_to_end(&mut plain).map_err(|error| bad(0, error.to_string()))?;
        } else {
            plain.extend_from_slice(bytes);
        }
        match String::from_utf8(plain) {
            Ok(text) => Ok(Source { name: name.into(), text }),
            Err(error) => {
                let upto = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = upto.split(|byte| *byte == b'\n').count();
                Err(bad(line, "is not UTF-8 text".into()))
            }
        }
    }

    /// The text.
    #[allow(dead_code, reason = "the tests read it")]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn bad(&self, line: usize, problem: impl Into<String>) -> Bad {
        Bad { file: self.name.clone(), line, problem: problem.into() }
    }

    /// The lines that are not blank, with their numbers.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        lines.filter(|(_, line)| !line.is_empty())
    }

    /// The rows of a comma-separated table: the cells of the columns asked for, by name. A column
    /// marked optional reads as empty where the table lacks it.
    fn rows<const N: usize>(
        &self,
        columns: [(&str, bool); N],
    ) -> Result<Vec<(usize, [&str; N])>, Bad> {
        let mut lines = self.lines();
        let Some((number, header)) = lines.next() else {
            return Err(self.bad(1, "has no header"));
        };
        let names: Vec<&str> =
            header.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
        let mut places = [None; N];
        for (place, (name, optional)) in places.iter_mut().zip(columns) {
            *place = names.iter().position(|have| *have == name);
            if place.is_none() && !optional {
                return Err(self.bad(number, format!("has no column {name}")));
            }
        }
        lines
            .map(|(number, line)| {
                let cells: Vec<&str> = line.split(',').map(str::trim).collect();
                if cells.len() != names.len() {
                    let (have, want) = (cells.len(), names.len());
                    return Err(self.bad(number, format!("has {have} cells instead of {want}")));
                }
                Ok((number, places.map(|place| place.map_or("", |place| cells[place]))))
            })
            .collect()
    }

    fn number(&self, line: usize, name: &str, text: &str, most: i64) -> Result<i64, Bad> {
        match text.parse::<i64>() {
            Ok(number) if (0..=most).contains(&number) => Ok(number),
            _ => Err(self.bad(line, format!("{name}: {text:?} is not a number from 0 to {most}"))),
        }
    }
}

/// The experiment as read.
pub(crate) struct Trace {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<TracePod>,
    orders: Vec<Order>,
}

/// A row of the list of pods.
pub(crate) struct TracePod {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) milli: i64,
    /// The models allowed, as the list spells them.
    pub(crate) spec: String,
}

/// The orders of one seed.
struct Order {
    seed: u64,
    nodes: Vec<usize>,
    pods: Vec<usize>,
}

/// The pool of devices in this experiment.
pub(crate) const KIND: &str = "gpu";
pub(crate) const UNIT: &str = "milli";
/// Units that one GPU has.
pub(crate) const GPU: i64 = 1_000;

const MOST_CPU: i64 = 1 << 40;
const MOST_MEMORY: i64 = 1 << 40;
const MOST_GPUS: i64 = 1_024;

impl Trace {
    pub(crate) fn read(nodes: &Source, pods: &Source, orders: &Source) -> Result<Trace, Bad> {
        let nodes = read_nodes(nodes)?;
        let pods = read_pods(pods)?;
        let orders = read_orders(orders, nodes.len(), pods.len())?;
        Ok(Trace { nodes, pods, orders })
    }

    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> + '_ {
        self.orders.iter().map(|order| order.seed)
    }

    /// The nodes in the order of ties, and the pods in the order of arrival, for a seed.
    pub(crate) fn order(&self, seed: u64) -> Option<(&[usize], &[usize])> {
        let order = self.orders.iter().find(|order| order.seed == seed)?;
        Some((&order.nodes, &order.pods))
    }

    /// The typical pods, as the experiment tells them apart.
    pub(crate) fn typical(&self) -> TypicalPods {
        let pods = self.pods.iter().map(|pod| (&*pod.shape, &*pod.spec));
        TypicalPods::from_pods_with_models(DevicePool::new(KIND, UNIT), pods)
    }

    /// The prices that are solved from the same history.
    pub(crate) fn prices(&self) -> ShadowPrices {
        let pods = self.pods.iter().map(|pod| &*pod.shape);
        ShadowPrices::from_pods(DevicePool::new(KIND, UNIT), pods)
    }

    /// Units that all GPUs have together.
    pub(crate) fn total_milli(&self) -> i64 {
        self.nodes.iter().map(|node| node.devices.len() as i64 * GPU).sum()
    }
}

fn read_nodes(source: &Source) -> Result<Vec<Node>, Bad> {
    let columns = [
        ("sn", false),
        ("cpu_milli", false),
        ("memory_mib", false),
        ("gpu", false),
        ("model", true),
    ];
    let mut names = std::collections::BTreeSet::new();
    let mut nodes = Vec::new();
    for (line, [name, cpu, memory, gpus, model]) in source.rows(columns)? {
        if name.is_empty() || !names.insert(name) {
            return Err(source.bad(line, format!("sn: {name:?} is empty or occurs twice")));
        }
        let cpu = source.number(line, "cpu_milli", cpu, MOST_CPU)?;
        let memory = source.number(line, "memory_mib", memory, MOST_MEMORY)?;
        let gpus = source.number(line, "gpu", gpus, MOST_GPUS)?;
        let mut node = Node::new(name)
            .capacity("cpu", format!("{cpu}m"))
            .capacity("memory", memory << 20)
            .capacity("pods", 1_000);
        for _ in 0..gpus {
            node = node.device(Device::new(KIND, model).capacity(UNIT, GPU));
        }
        nodes.push(node);
    }
    Ok(nodes)
}

fn read_pods(source: &Source) -> Result<Vec<TracePod>, Bad> {
    let columns = [
        ("name", true),
        ("cpu_milli", false),
        ("memory_mib", false),
        ("num_gpu", false),
        ("gpu_milli", false),
        ("gpu_spec", true),
    ];
    let mut pods = Vec::new();
    for (line, [_, cpu, memory, gpus, milli, spec]) in source.rows(columns)? {
        let cpu = source.number(line, "cpu_milli", cpu, MOST_CPU)?;
        let memory = source.number(line, "memory_mib", memory, MOST_MEMORY)?;
        let gpus = source.number(line, "num_gpu", gpus, MOST_GPUS)?;
        let milli = source.number(line, "gpu_milli", milli, GPU)?;
        let mut pod = Pod::new().request("cpu", format!("{cpu}m")).request("memory", memory << 20);
        if gpus > 0 {
            let mut request = if milli == GPU {
                DeviceRequest::whole(KIND, gpus as u32)
            } else {
                DeviceRequest::shares(KIND, gpus as u32, UNIT, milli)
            };
            for model in spec.split('|').map(str::trim).filter(|model| !model.is_empty()) {
                request = request.model(model);
            }
            pod = pod.device(request);
        }
        let spec = if gpus > 0 { spec.into() } else { String::new() };
        pods.push(TracePod { shape: Arc::clone(pod.shape()), milli: gpus * milli, spec });
    }
    Ok(pods)
}

fn read_orders(source: &Source, nodes: usize, pods: usize) -> Result<Vec<Order>, Bad> {
    type Rows = Option<Vec<usize>>;
    let mut found: Vec<(u64, Rows, Rows)> = Vec::new();
    for (line, text) in source.lines() {
        let mut words = text.split_ascii_whitespace();
        let seed = words.next().unwrap_or("");
        let seed: u64 =
            seed.parse().map_err(|_| source.bad(line, format!("{seed:?} is not a seed")))?;
        let list = words.next().unwrap_or("");
        let rows = match list {
            "N" => nodes,
            "P" => pods,
            _ => return Err(source.bad(line, format!("{list:?} is neither N nor P"))),
        };
        let mut order = Vec::new();
        for word in words {
            match word.parse::<usize>() {
                Ok(row) if row < rows => order.push(row),
                _ => {
                    let problem = format!("{word:?} is not a row number below {rows}");
                    return Err(source.bad(line, problem));
                }
            }
        }
        if list == "N" {
            let mut once = order.clone();
            once.sort_unstable();
            once.dedup();
            if once.len() != rows || order.len() != rows {
                return Err(source.bad(line, format!("does not list each of {rows} nodes once")));
            }
        }
        if !found.iter().any(|(have, ..)| *have == seed) {
            found.push((seed, None, None));
        }
        let entry = found.iter_mut().find(|(have, ..)| *have == seed);
        let place = entry.map(|(_, nodes, pods)| if list == "N" { nodes } else { pods });
        match place {
            Some(place @ None) => *place = Some(order),
            _ => return Err(source.bad(line, format!("a second list {list} for seed {seed}"))),
        }
    }
    let last = source.lines().last().map_or(1, |(line, _)| line);
    found
        .into_iter()
        .map(|(seed, nodes, pods)| match (nodes, pods) {
            (Some(nodes), Some(pods)) => Ok(Order { seed, nodes, pods }),
            (None, _) => Err(source.bad(last, format!("ends without a list N for seed {seed}"))),
            (_, None) => Err(source.bad(last, format!("ends without a list P for seed {seed}"))),
        })
        .collect()
}

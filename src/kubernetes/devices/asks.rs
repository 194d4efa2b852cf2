//! Requests of containers for single cards.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::supply::{CardSort, DeviceDialect};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::resources::is_card_share;
use crate::kubernetes::value::Value;

/// Request of a container for a number of cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct Ask {
    pub(super) dialect: DeviceDialect,
    /// The number of the container, init containers first.
    pub(super) container: u32,
    pub(super) count: u32,
    pub(super) memory: Memory,
    /// In hundredths of a card; 0 is any.
    pub(super) cores: i64,
    /// Counted as any resource where no card is registered.
    pub(super) plain: bool,
    /// The sort of card.
    pub(super) sort: CardSort,
    /// Whether it is to be one of the best sets of a partition table.
    pub(super) best_set: bool,
    /// Beside the first GPUs of the pod; if so, whether on the same switches.
    pub(super) beside: Option<bool>,
    /// Cards that annotations of the pod allow.
    pub(super) choice: Option<Choice>,
    /// The reason for which it cannot be granted, whatever the nodes have.
    pub(super) fault: Option<String>,
    /// Where it is asked, for errors.
    pub(super) field: String,
}

impl Ask {
    /// Whether it is of a card, whatever is registered.
    pub(in crate::kubernetes) fn is_of_card(&self) -> bool {
        !self.plain
    }

    /// Whether it is a fraction of KAI's.
    pub(in crate::kubernetes) fn is_fraction(&self) -> bool {
        self.dialect == DeviceDialect::Kai
    }

    /// Whether annotations say something of it, which shapes do not have.
    pub(in crate::kubernetes) fn is_annotated(&self) -> bool {
        self.is_fraction() || self.best_set || self.beside.is_some() || self.choice.is_some()
    }

    pub(super) fn new(dialect: DeviceDialect, container: u32, count: u32, memory: Memory) -> Ask {
        Ask {
            dialect,
            container,
            count,
            memory,
            cores: 0,
            plain: false,
            sort: CardSort::Gpu,
            best_set: false,
            beside: None,
            choice: None,
            fault: None,
            field: String::new(),
        }
    }
}

/// Cards of `HAMi` and Volcano that annotations of a pod allow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Choice {
    /// Parts of the names of types, in capitals: one of them is in the name. Empty is any.
    types: Vec<String>,
    /// The same: none of them is.
    other_types: Vec<String>,
    /// Whether several cards are to be of one NUMA node.
    pub(super) numa: bool,
}

impl Choice {
    fn read(annotations: &Field<'_>) -> Fault<Choice> {
        let list = |key: &str| -> Fault<Vec<String>> {
            let text = annotations.name_of(key)?.unwrap_or_default().to_uppercase();
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Ok(parts.map(ToString::to_string).collect())
        };
        let numa = annotations.name_of(NUMA_BIND)?;
        Ok(Choice {
            types: list(TYPES)?,
            other_types: list(OTHER_TYPES)?,
            numa: numa
                .is_some_and(|text| matches!(&*text, "1" | "t" | "T" | "true" | "TRUE" | "True")),
        })
    }

    /// Whether a card of a model may be given.
    pub(super) fn allows(&self, model: &str) -> bool {
        let model = model.to_uppercase();
        let among = |list: &[String]| list.iter().any(|part| model.contains(part));
        (self.types.is_empty() || among(&self.types)) && !among(&self.other_types)
    }

    /// Whether it is by type.
    pub(super) fn is_of_types(&self) -> bool {
        !(self.types.is_empty() && self.other_types.is_empty())
    }

    /// The reason for which it is not in force.
    pub(super) fn fault(&self, why: &str) -> String {
        let key = match (self.types.is_empty(), self.other_types.is_empty()) {
            (false, _) => TYPES,
            (true, false) => OTHER_TYPES,
            (true, true) => NUMA_BIND,
        };
        format!("/metadata/annotations/{} is not in force: {why}", key.replace('/', "~1"))
    }
}

const TYPES: &str = "nvidia.com/use-gputype";
const OTHER_TYPES: &str = "nvidia.com/nouse-gputype";
const NUMA_BIND: &str = "nvidia.com/numa-bind";

/// How much memory of each card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    All,
    Bytes(i64),
    Percent(i64),
    /// Millionths.
    Part(i64),
}

/// Names of a dialect: cards, memory, its unit in bytes, memory in hundredths, cores in hundredths.
struct Names {
    dialect: DeviceDialect,
    count: &'static str,
    memory: &'static str,
    unit: i64,
    percent: &'static str,
    cores: &'static str,
}

const MIB: i64 = 1 << 20;

const PER_CARD: [Names; 2] = [
    Names {
        dialect: DeviceDialect::Hami,
        count: "nvidia.com/gpu",
        memory: "nvidia.com/gpumem",
        unit: MIB,
        percent: "nvidia.com/gpumem-percentage",
        cores: "nvidia.com/gpucores",
    },
    Names {
        dialect: DeviceDialect::Volcano,
        count: "volcano.sh/vgpu-number",
        memory: "volcano.sh/vgpu-memory",
        unit: MIB,
        percent: "volcano.sh/vgpu-memory-percentage",
        cores: "volcano.sh/vgpu-cores",
    },
];

const KOORDINATOR: [&str; 5] = [
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu-memory",
    "koordinator.sh/gpu.shared",
];

/// Requests of the containers of a pod for cards, by resource.
pub(super) fn asks(annotations: Option<&Field<'_>>, spec: &Field<'_>) -> Fault<Vec<Ask>> {
    let mut asks = Vec::new();
    let mut container = 0;
    let terms = annotations.map_or(Ok(Terms::default()), Terms::read)?;
    let choice = annotations.map_or(Ok(Choice::default()), Choice::read)?;
    let choice = Some(choice).filter(|choice| *choice != Choice::default());
    for list in ["initContainers", "containers"] {
        spec.each(list, |field| {
            let asked = amounts(&field)?;
            let path = field.path();
            for names in &PER_CARD {
                let ask = per_card(names, &asked, container, &path);
                asks.extend(ask.map(|ask| Ask { choice: choice.clone(), ..ask }));
            }
            if let Some(ask) = koordinator(&field, &asked, container)? {
                asks.push(terms.apply(ask));
            }
            if let Some(ask) = rdma(&field, &asked, container) {
                asks.push(terms.apply(ask));
            }
            container += 1;
            Ok(())
        })?;
    }
    Ok(asks)
}

/// Koordinator's terms on GPUs and network cards: annotations of a pod.
#[derive(Debug, Default)]
struct Terms {
    best_set: bool,
    beside: Option<bool>,
}

impl Terms {
    fn read(annotations: &Field<'_>) -> Fault<Terms> {
        let mut terms = Terms::default();
        let read = |key: &str| -> Fault<Option<Value>> {
            let Some(field) = annotations.get(key)? else { return Ok(None) };
            match json::value(field.text()?) {
                Some(value) => Ok(Some(value)),
                None => Err(field.invalid("is no JSON")),
            }
        };
        if let Some(spec) = read(PARTITION_SPEC)? {
            let policy = spec.entry("allocatePolicy").and_then(Value::text);
            terms.best_set = policy == Some("Restricted");
        }
        if let Some(joint) = read(JOINT)? {
            let scope = joint.entry("requiredScope").and_then(Value::text);
            terms.beside = Some(scope == Some("SamePCIe"));
        }
        Ok(terms)
    }

    fn apply(&self, mut ask: Ask) -> Ask {
        ask.best_set = self.best_set && ask.sort == CardSort::Gpu;
        ask.beside = self.beside.filter(|_| ask.sort == CardSort::Rdma);
        ask
    }
}

pub(super) const PARTITION_SPEC: &str = "scheduling.koordinator.sh/gpu-partition-spec";
pub(super) const JOINT: &str = "scheduling.koordinator.sh/device-joint-allocate";

/// Hundredths of network cards: of one, or so many whole ones.
fn rdma(container: &Field<'_>, asked: &BTreeMap<String, i64>, number: u32) -> Option<Ask> {
    let amount = asked.get("koordinator.sh/rdma").copied().filter(|amount| *amount > 0)?;
    let (count, each) = if amount > 100 { (amount / 100, 100) } else { (1, amount) };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut ask = Ask::new(DeviceDialect::Koordinator, number, count, Memory::Percent(each));
    ask.sort = CardSort::Rdma;
    ask.field = format!("{}.resources", container.path());
    if amount > 100 && amount % 100 != 0 {
        ask.fault = Some(format!("{} asks for {amount} of koordinator.sh/rdma", ask.field));
    }
    Some(ask)
}

/// Requests, and limits where a person wrote them.
fn amounts(container: &Field<'_>) -> Fault<BTreeMap<String, i64>> {
    let mut amounts = BTreeMap::new();
    let Some(resources) = container.get("resources")? else { return Ok(amounts) };
    for list in ["limits", "requests"] {
        if list == "limits" && !container.strict() {
            continue;
        }
        resources.entries(list, |name, field| {
            let is_card = is_card_share(name) || PER_CARD.iter().any(|names| names.count == name);
            if is_card {
                let amount = field.quantity()?.nanos() / 1_000_000_000;
                let amount = i64::try_from(amount);
                let amount = amount.map_err(|_| field.fail(crate::model::Problem::Overflow))?;
                amounts.insert(name.to_string(), amount);
            }
            Ok(())
        })?;
    }
    Ok(amounts)
}

fn per_card(
    names: &Names,
    asked: &BTreeMap<String, i64>,
    container: u32,
    path: &str,
) -> Option<Ask> {
    let of = |name: &str| asked.get(name).copied().filter(|amount| *amount > 0);
    let (memory, percent, cores) = (of(names.memory), of(names.percent), of(names.cores));
    let shares = memory.is_some() || percent.is_some() || cores.is_some();
    let count = match of(names.count) {
        Some(count) => u32::try_from(count).unwrap_or(u32::MAX),
        None if shares => 1,
        None => return None,
    };
    let memory = match (memory, percent) {
        (Some(memory), _) => Memory::Bytes(memory.saturating_mul(names.unit)),
        (None, Some(percent)) if percent < 100 => Memory::Percent(percent),
        _ => Memory::All,
    };
    Some(Ask {
        cores: cores.unwrap_or(0),
        plain: !shares && names.dialect == DeviceDialect::Hami,
        field: format!("{path}.resources"),
        ..Ask::new(names.dialect, container, count, memory)
    })
}

/// Koordinator's hundredths are of all cards together.
fn koordinator(
    container: &Field<'_>,
    asked: &BTreeMap<String, i64>,
    number: u32,
) -> Fault<Option<Ask>> {
    let of = |name: &str| asked.get(name).copied().filter(|amount| *amount > 0);
    let [all, core, ratio, memory, shared] = KOORDINATOR.map(of);
    let (core, ratio) = (core.or(all), ratio.or(all));
    if core.is_none() && ratio.is_none() && memory.is_none() {
        return match shared {
            Some(_) => Err(container.invalid("asks for koordinator.sh/gpu.shared without memory")),
            None => Ok(None),
        };
    }
    if ratio.is_none() && memory.is_none() {
        return Err(container.invalid("asks for koordinator.sh/gpu-core without memory"));
    }
    let count = match (shared, ratio) {
        (Some(shared), _) => shared,
        (None, Some(ratio)) if ratio > 100 => ratio / 100,
        _ => 1,
    };
    let parts = [core, ratio, memory];
    if parts.iter().flatten().any(|amount| amount % count != 0) {
        let text = format!("asks for devices in {count} parts that are not whole");
        return Err(container.invalid(text));
    }
    let (core, ratio) = (core.unwrap_or(0) / count, ratio.map(|ratio| ratio / count));
    if core > 100 || ratio.is_some_and(|ratio| ratio > 100) {
        return Err(container.invalid("asks for more than 100 of a card"));
    }
    let memory = match (ratio, memory) {
        (Some(100), _) => Memory::All,
        (Some(ratio), _) => Memory::Percent(ratio),
        (None, memory) => Memory::Bytes(memory.unwrap_or(0) / count),
    };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    Ok(Some(Ask {
        cores: core,
        field: format!("{}.resources", container.path()),
        ..Ask::new(DeviceDialect::Koordinator, number, count, memory)
    }))
}

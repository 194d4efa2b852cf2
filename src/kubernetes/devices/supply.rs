//! The cards that nodes have, as agents register them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::value::Value;
use crate::model::{Device, DeviceSet, IslandRule, Partitions};

/// The dialect that cards are registered in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DeviceDialect {
    /// `HAMi`'s annotation of nodes, and `nvidia.com/gpu` with memory and cores.
    Hami,
    /// Volcano's annotation of nodes, and `volcano.sh/vgpu-number` with memory and cores.
    Volcano,
    /// Koordinator's `Device`, and `koordinator.sh/gpu-core` and its kin.
    Koordinator,
    /// GPUs that a node counts, of which KAI's annotations ask fractions.
    Kai,
}

impl DeviceDialect {
    /// The kind of device in the model.
    pub(super) fn kind(self, sort: CardSort) -> &'static str {
        match (self, sort) {
            (_, CardSort::Rdma) => "koordinator.sh/rdma",
            (DeviceDialect::Hami | DeviceDialect::Kai, CardSort::Gpu) => "nvidia.com/gpu",
            (DeviceDialect::Volcano, CardSort::Gpu) => "volcano.sh/vgpu",
            (DeviceDialect::Koordinator, CardSort::Gpu) => "koordinator.sh/gpu",
        }
    }
}

/// The sort of a card.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CardSort {
    /// A GPU.
    #[default]
    Gpu,
    /// A network card with RDMA.
    Rdma,
}

impl CardSort {
    /// The type as Koordinator spells it.
    pub(super) fn name(self) -> &'static str {
        match self {
            CardSort::Gpu => "gpu",
            CardSort::Rdma => "rdma",
        }
    }
}

/// One card.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct DeviceCard {
    /// The sort of card.
    pub sort: CardSort,
    /// The identity that its plugin knows it by.
    pub id: String,
    /// Its number on the node.
    pub minor: u32,
    /// The model: `NVIDIA-Tesla V100`.
    pub model: String,
    /// Its memory in bytes.
    pub memory: i64,
    /// How many pods may share it.
    pub slots: i64,
    /// The NUMA node it is attached to.
    pub numa: Option<u32>,
    /// The PCIe switch it is attached to.
    pub pcie: Option<String>,
    /// Whether it can be given away.
    pub healthy: bool,
}

/// The cards of a node, in the order of the devices of the model.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeCards {
    /// The dialect that they are registered in.
    pub dialect: DeviceDialect,
    /// The cards.
    pub cards: Vec<DeviceCard>,
    /// The sets of cards that go together, by their places in the list.
    #[serde(default)]
    pub partitions: Partitions,
}

impl NodeCards {
    pub(super) fn new(dialect: DeviceDialect, cards: Vec<DeviceCard>) -> NodeCards {
        NodeCards { dialect, cards, partitions: Partitions::default() }
    }

    /// The cards as devices of the model.
    pub(super) fn model(&self) -> Vec<Device> {
        let device = |card: &DeviceCard| {
            // A card that is broken has nothing, and is of no kind that pods ask for.
            let kind = if card.healthy { self.dialect.kind(card.sort) } else { "broken" };
            let device = Device::new(kind, card.model.clone());
            let mut device = match (card.sort, self.dialect) {
                (CardSort::Rdma, _) => device.capacity("cores", 100),
                (CardSort::Gpu, DeviceDialect::Kai) => device.capacity("portion", WHOLE),
                (CardSort::Gpu, _) => device
                    .capacity("memory", card.memory)
                    .capacity("cores", 100)
                    .capacity("slots", card.slots),
            };
            device.numa = card.numa;
            device.island.clone_from(&card.pcie);
            device
        };
        self.cards.iter().map(device).collect()
    }
}

/// All of a card, in the unit that KAI's fractions are counted in.
pub(super) const WHOLE: i64 = 1_000_000;
const MIB: i64 = 1 << 20;
/// How many pods of Koordinator's share a card: each takes a hundredth at least.
const MANY: i64 = 100;

/// The cards that annotations of a node register.
pub(in crate::kubernetes) fn registered(root: &Field<'_>) -> Fault<Option<NodeCards>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    if let Some(field) = annotations.get("hami.io/node-nvidia-register")? {
        let cards = hami(field.text()?);
        let cards = cards.ok_or_else(|| field.invalid("is no list of cards"))?;
        return Ok(Some(NodeCards::new(DeviceDialect::Hami, cards)));
    }
    if let Some(field) = annotations.get("volcano.sh/node-vgpu-register")? {
        let cards = volcano(field.text()?);
        let cards = cards.ok_or_else(|| field.invalid("is no list of cards"))?;
        return Ok(Some(NodeCards::new(DeviceDialect::Volcano, cards)));
    }
    Ok(None)
}

/// The mode of a card that its plugin cuts up by profiles. It has no shares that can be given away one by
/// one.
const CUT: &str = "mig";

fn hami(text: &str) -> Option<Vec<DeviceCard>> {
    let Value::List(entries) = json::value(text)? else { return None };
    let card = |(at, entry): (usize, &Value)| {
        let number = |name: &str| entry.entry(name).and_then(Value::integer);
        let word = |name: &str| entry.entry(name).and_then(Value::text).unwrap_or("").to_string();
        Some(DeviceCard {
            id: entry.entry("id")?.text()?.to_string(),
            minor: number("index").and_then(|index| u32::try_from(index).ok()).unwrap_or(at as u32),
            model: word("type"),
            memory: number("devmem")?.checked_mul(MIB)?,
            slots: number("count").unwrap_or(1),
            numa: number("numa").and_then(|numa| u32::try_from(numa).ok()),
            healthy: entry.entry("health").is_none_or(|health| *health == Value::Bool(true))
                && word("mode") != CUT,
            ..DeviceCard::default()
        })
    };
    entries.iter().enumerate().map(card).collect()
}

fn volcano(text: &str) -> Option<Vec<DeviceCard>> {
    let entries = text.split(':').filter(|entry| !entry.is_empty()).enumerate();
    let card = |(at, entry): (usize, &str)| {
        let parts: Vec<&str> = entry.split(',').collect();
        let [id, count, memory, model, health, ..] = parts.as_slice() else { return None };
        Some(DeviceCard {
            id: (*id).to_string(),
            minor: at as u32,
            model: (*model).to_string(),
            memory: memory.parse::<i64>().ok()?.checked_mul(MIB)?,
            slots: count.parse().ok()?,
            healthy: *health == "true" && parts.get(5).is_none_or(|mode| *mode != CUT),
            ..DeviceCard::default()
        })
    };
    entries.map(card).collect()
}

/// The cards of a `Device` of Koordinator.
pub(super) fn koordinator(root: &Field<'_>) -> Fault<Option<NodeCards>> {
    let Some(spec) = root.get("spec")? else { return Ok(None) };
    let mut cards = Vec::new();
    spec.each("devices", |device| {
        let sort = match device.text_of("type")?.as_str() {
            "gpu" => CardSort::Gpu,
            "rdma" => CardSort::Rdma,
            _ => return Ok(()),
        };
        let minor = device.get("minor")?.map_or(Ok(0), |minor| minor.within(0, i32::MAX.into()))?;
        let mut card = DeviceCard {
            sort,
            id: device.text_of("id")?,
            minor: minor as u32,
            slots: MANY,
            healthy: device.flag("health")?,
            ..DeviceCard::default()
        };
        device.entries("resources", |name, field| {
            if name == "koordinator.sh/gpu-memory" {
                let bytes = i64::try_from(field.quantity()?.nanos() / 1_000_000_000);
                card.memory = bytes.map_err(|_| field.fail(crate::model::Problem::Overflow))?;
            }
            Ok(())
        })?;
        if let Some(topology) = device.get("topology")? {
            card.pcie = topology.name_of("pcieID")?;
            if let Some(numa) = topology.get("nodeID")? {
                card.numa = u32::try_from(numa.integer()?).ok();
            }
        }
        if let Some(metadata) = root.get("metadata")?
            && let Some(labels) = metadata.get("labels")?
        {
            card.model = labels.text_of("node.koordinator.sh/gpu-model")?;
        }
        cards.push(card);
        Ok(())
    })?;
    if let Some(twice) = cards.iter().enumerate().find(|(at, card)| {
        let own = (card.sort, card.minor);
        cards.iter().skip(at + 1).any(|other| (other.sort, other.minor) == own)
    }) {
        return Err(spec.fail_at(
            "devices",
            crate::model::Problem::Duplicate(format!("minor {}", twice.1.minor)),
        ));
    }
    let mut devices = NodeCards::new(DeviceDialect::Koordinator, cards);
    if let Some(metadata) = root.get("metadata")? {
        devices.partitions = partitions(&metadata, &devices.cards)?;
    }
    Ok(Some(devices))
}

const PARTITIONS: &str = "scheduling.koordinator.sh/gpu-partitions";

/// The partition table of a `Device`: sets of minors by their number. Only with the policy `Honor` it
/// binds.
fn partitions(metadata: &Field<'_>, cards: &[DeviceCard]) -> Fault<Partitions> {
    let mut partitions = Partitions::default();
    let Some(annotations) = metadata.get("annotations")? else { return Ok(partitions) };
    let Some(field) = annotations.get(PARTITIONS)? else { return Ok(partitions) };
    let sets = match json::value(field.text()?) {
        Some(Value::Map(sizes)) => sizes
            .iter()
            .map(|(size, sets)| sets_of(size, sets, cards))
            .collect::<Option<Vec<Vec<DeviceSet>>>>(),
        _ => None,
    };
    let Some(sets) = sets else { return Err(field.invalid("is no table of partitions")) };
    partitions.sets = sets.concat();
    let label = match metadata.get("labels")? {
        Some(labels) => labels.text_of("node.koordinator.sh/gpu-partition-policy")?,
        None => String::new(),
    };
    let binds = label == "Honor";
    partitions.rule = if binds { IslandRule::Required } else { IslandRule::Preferred };
    Ok(partitions)
}

/// The sets of one size. Sets with a GPU that is not there are left out.
fn sets_of(size: &str, sets: &Value, cards: &[DeviceCard]) -> Option<Vec<DeviceSet>> {
    let (size, Value::List(sets)) = (size.parse::<usize>().ok()?, sets) else { return None };
    let mut found = Vec::new();
    for set in sets {
        let Some(Value::List(minors)) = set.entry("minors") else { return None };
        let minors: Vec<i64> = minors.iter().map(Value::integer).collect::<Option<_>>()?;
        let place = |minor: &i64| {
            cards
                .iter()
                .position(|card| card.sort == CardSort::Gpu && i64::from(card.minor) == *minor)
        };
        let places: Option<Vec<u32>> =
            minors.iter().map(|minor| place(minor).map(|at| at as u32)).collect();
        let score = set
            .entry("allocationScore")
            .map_or(Some(0), |score| score.integer().or_else(|| score.text()?.parse().ok()))?;
        let set = places.map(|places| DeviceSet::new(places).score(score));
        let sound = |set: &DeviceSet| {
            set.devices.len() == size && set.devices.is_sorted_by(|one, next| one < next)
        };
        match set {
            Some(set) if sound(&set) => found.push(set),
            Some(_) => return None,
            None if minors.len() != size => return None,
            None => {}
        }
    }
    (size > 0).then_some(found)
}

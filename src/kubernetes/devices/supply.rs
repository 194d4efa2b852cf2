//! The cards that nodes have, as agents register them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::value::Value;
use crate::model::Device;

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
}

impl DeviceDialect {
    /// The kind of device in the model.
    pub(super) fn kind(self) -> &'static str {
        match self {
            DeviceDialect::Hami => "nvidia.com/gpu",
            DeviceDialect::Volcano => "volcano.sh/vgpu",
            DeviceDialect::Koordinator => "koordinator.sh/gpu",
        }
    }
}

/// One card.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct DeviceCard {
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
}

impl NodeCards {
    /// The cards as devices of the model.
    pub(super) fn model(&self) -> Vec<Device> {
        let device = |card: &DeviceCard| {
            // A card that is broken has nothing, and is of no kind that pods ask for.
            let kind = if card.healthy { self.dialect.kind() } else { "broken" };
            let device = Device::new(kind, card.model.clone())
                .capacity("memory", card.memory)
                .capacity("cores", 100)
                .capacity("slots", card.slots);
            card.numa.into_iter().fold(device, Device::numa)
        };
        self.cards.iter().map(device).collect()
    }
}

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
        return Ok(Some(NodeCards { dialect: DeviceDialect::Hami, cards }));
    }
    if let Some(field) = annotations.get("volcano.sh/node-vgpu-register")? {
        let cards = volcano(field.text()?);
        let cards = cards.ok_or_else(|| field.invalid("is no list of cards"))?;
        return Ok(Some(NodeCards { dialect: DeviceDialect::Volcano, cards }));
    }
    Ok(None)
}

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
            healthy: entry.entry("health").is_none_or(|health| *health == Value::Bool(true)),
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
            numa: None,
            healthy: *health == "true",
        })
    };
    entries.map(card).collect()
}

/// The cards of a `Device` of Koordinator.
pub(super) fn koordinator(root: &Field<'_>) -> Fault<Option<NodeCards>> {
    let Some(spec) = root.get("spec")? else { return Ok(None) };
    let mut cards = Vec::new();
    spec.each("devices", |device| {
        if device.text_of("type")? != "gpu" {
            return Ok(());
        }
        let minor = device.get("minor")?.map_or(Ok(0), |minor| minor.within(0, i32::MAX.into()))?;
        let mut card = DeviceCard {
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
        if let Some(topology) = device.get("topology")?
            && let Some(numa) = topology.get("nodeID")?
        {
            card.numa = u32::try_from(numa.integer()?).ok();
        }
        if let Some(metadata) = root.get("metadata")?
            && let Some(labels) = metadata.get("labels")?
        {
            card.model = labels.text_of("node.koordinator.sh/gpu-model")?;
        }
        cards.push(card);
        Ok(())
    })?;
    if let Some(twice) = cards
        .iter()
        .enumerate()
        .find(|(at, card)| cards.iter().skip(at + 1).any(|other| other.minor == card.minor))
    {
        return Err(spec.fail_at(
            "devices",
            crate::model::Problem::Duplicate(format!("minor {}", twice.1.minor)),
        ));
    }
    Ok(Some(NodeCards { dialect: DeviceDialect::Koordinator, cards }))
}

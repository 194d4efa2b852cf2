//! Requests of containers for single cards.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::DeviceDialect;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::resources::is_card_share;

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
    /// Where it is asked, for errors.
    pub(super) field: String,
}

impl Ask {
    /// Whether it is of a card, whatever is registered.
    pub(in crate::kubernetes) fn is_of_card(&self) -> bool {
        !self.plain
    }
}

/// How much memory of each card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    All,
    Bytes(i64),
    Percent(i64),
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

/// Requests of the containers of a pod for cards.
pub(in crate::kubernetes) fn asks(spec: &Field<'_>) -> Fault<Vec<Ask>> {
    let mut asks = Vec::new();
    let mut container = 0;
    for list in ["initContainers", "containers"] {
        spec.each(list, |field| {
            let asked = amounts(&field)?;
            let path = field.path();
            for names in &PER_CARD {
                asks.extend(per_card(names, &asked, container, &path));
            }
            if let Some(ask) = koordinator(&field, &asked, container)? {
                asks.push(ask);
            }
            container += 1;
            Ok(())
        })?;
    }
    Ok(asks)
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
        dialect: names.dialect,
        container,
        count,
        memory,
        cores: cores.unwrap_or(0),
        plain: !shares && names.dialect == DeviceDialect::Hami,
        field: format!("{path}.resources"),
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
    Ok(Some(Ask {
        dialect: DeviceDialect::Koordinator,
        container: number,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        memory,
        cores: core,
        plain: false,
        field: format!("{}.resources", container.path()),
    }))
}

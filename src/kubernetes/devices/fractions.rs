//! Fractions of GPUs as KAI has them: annotations of pods, and cards that only their groups tell apart.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::asks::{Ask, Memory};
use super::supply::{DeviceCard, DeviceDialect, NodeCards, WHOLE};
use crate::base::Quantity;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::metadata;
use crate::model::{Labels, Pod};

const FRACTION: &str = "gpu-fraction";
const MEMORY: &str = "gpu-memory";
const COUNT: &str = "gpu-fraction-num-devices";
const CONTAINER: &str = "gpu-fraction-container-name";
const RESOURCE: &str = "nvidia.com/gpu";
/// The label of the group that shares a card; of several cards its prefix.
pub(super) const GROUP: &str = "runai-gpu-group";
/// The namespace of the pods that hold a card for a group.
const RESERVED: &str = "kai-resource-reservation";

const MIB: i64 = 1 << 20;

/// The fraction that annotations of a pod ask for. `whole` says that a container asks for whole GPUs.
pub(super) fn ask(annotations: &Field<'_>, spec: &Field<'_>, whole: bool) -> Fault<Option<Ask>> {
    let (fraction, memory) = (annotations.get(FRACTION)?, annotations.get(MEMORY)?);
    let (field, asked) = match (&fraction, &memory) {
        (None, None) => return Ok(None),
        (Some(field), None) => {
            let nanos = field.quantity().ok().map(Quantity::nanos);
            let inside = nanos.filter(|nanos| (1..1_000_000_000).contains(nanos));
            let part = inside.map(|nanos| Memory::Part((nanos as i64 + 999) / 1_000));
            (field, part.ok_or("is no number between 0 and 1"))
        }
        (None, Some(field)) => {
            let mib = field.text()?.trim().parse::<i64>().ok().filter(|mib| *mib > 0);
            let bytes = mib.and_then(|mib| mib.checked_mul(MIB)).map(Memory::Bytes);
            (field, bytes.ok_or("is no number of MiB"))
        }
        (Some(field), Some(_)) => (field, Err("stands beside gpu-memory")),
    };
    let count = match annotations.name_of(COUNT)? {
        None => Ok(1),
        Some(text) => match text.trim().parse::<u32>() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err("goes with a gpu-fraction-num-devices that is no number of devices"),
        },
    };
    let container = container(annotations, spec)?;
    let mut ask = Ask::new(DeviceDialect::Kai, 0, 1, Memory::Part(WHOLE));
    ask.field = field.path();
    let sound = match (asked, count, container, whole) {
        (_, _, _, true) => Err("stands beside nvidia.com/gpu"),
        (Ok(memory), Ok(count), Some(container), false) => {
            (ask.memory, ask.count, ask.container) = (memory, count, container);
            Ok(())
        }
        (Err(reason), ..) | (_, Err(reason), ..) => Err(reason),
        (_, _, None, _) => Err("goes with a gpu-fraction-container-name that no container has"),
    };
    ask.fault = sound.err().map(|reason| format!("{} is not in force: it {reason}", ask.field));
    Ok(Some(ask))
}

/// The number of the container that gets the fraction, init containers first.
fn container(annotations: &Field<'_>, spec: &Field<'_>) -> Fault<Option<u32>> {
    let wanted = annotations.name_of(CONTAINER)?;
    let (mut number, mut found) = (0, None);
    for list in ["initContainers", "containers"] {
        spec.each(list, |container| {
            let named = match &wanted {
                Some(wanted) => container.text_of("name")? == *wanted,
                None => list == "containers",
            };
            if named && found.is_none() {
                found = Some(number);
            }
            number += 1;
            Ok(())
        })?;
    }
    Ok(found)
}

/// GPUs of nodes that nobody registers card by card: how many, and what memory each has.
#[derive(Debug, Default)]
pub(super) struct PlainCards {
    nodes: BTreeMap<String, (u32, i64)>,
}

impl PlainCards {
    /// The nodes that have any.
    #[cfg(feature = "scheduler")]
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// Forgets the GPUs of a node.
    #[cfg(feature = "scheduler")]
    pub(super) fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Notes the GPUs of a node.
    pub(super) fn take(&mut self, root: &Field<'_>) -> Fault<()> {
        let name = metadata::name(root)?;
        self.nodes.remove(&name);
        let Some(status) = root.get("status")? else { return Ok(()) };
        let mut count = 0_i64;
        let list = if status.get("allocatable")?.is_some() { "allocatable" } else { "capacity" };
        status.entries(list, |name, field| {
            if name == RESOURCE {
                count = i64::try_from(field.quantity()?.nanos() / 1_000_000_000).unwrap_or(0);
            }
            Ok(())
        })?;
        let Some(count) = u32::try_from(count).ok().filter(|count| (1..=MOST).contains(count))
        else {
            return Ok(());
        };
        let labels = root.get("metadata")?.map_or(Ok(Labels::new()), |of| of.labels("labels"))?;
        let memory = labels.get("nvidia.com/gpu.memory").and_then(|mib| mib.parse::<i64>().ok());
        let memory = memory.and_then(|mib| mib.checked_mul(MIB)).filter(|bytes| *bytes > 0);
        self.nodes.insert(name, (count, memory.unwrap_or(0)));
        Ok(())
    }

    /// The GPUs of a node as cards, each with the group that has it.
    pub(super) fn cards<'g>(
        &self,
        node: &str,
        group: impl Fn(u32) -> Option<&'g str>,
    ) -> Option<NodeCards> {
        let (count, memory) = self.nodes.get(node)?;
        let cards = (0..*count).map(|minor| DeviceCard {
            id: named(node, minor, group(minor)),
            minor,
            memory: *memory,
            slots: MANY,
            healthy: true,
            ..DeviceCard::default()
        });
        Some(NodeCards::new(DeviceDialect::Kai, cards.collect()))
    }

    /// The GPUs as cards, and the cards that each running pod holds, request by request. Groups
    /// have the first cards of their node, in order of name; pods with whole GPUs have those after
    /// them.
    pub(super) fn settle<'a>(
        &self,
        pods: impl Iterator<Item = (&'a Pod, &'a [Ask])> + Clone,
    ) -> (BTreeMap<String, NodeCards>, Holdings) {
        let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (pod, asks) in pods.clone() {
            if let (Some(node), true) = (&pod.node, asks.iter().any(Ask::is_fraction)) {
                groups.entry(node.as_str()).or_default().extend(groups_of(pod));
            }
        }
        let nodes = self.nodes.keys().filter_map(|node| {
            let own = groups.get(node.as_str());
            let group = |minor| own?.iter().nth(minor as usize).copied();
            Some((node.clone(), self.cards(node, group)?))
        });
        let mut holdings = Holdings::default();
        let mut next: BTreeMap<&str, u32> = BTreeMap::new();
        for (pod, asks) in pods {
            let Some(node) = &pod.node else { continue };
            let own = groups.get(node.as_str());
            let next = next.entry(node).or_insert(own.map_or(0, |own| own.len() as u32));
            let lists = asks.iter().map(|ask| -> Option<Vec<u32>> {
                if ask.is_fraction() {
                    let place = |group: &str| own?.iter().position(|own| *own == group);
                    let places = groups_of(pod).into_iter().map(place);
                    return places.map(|at| at.map(|at| at as u32)).collect();
                }
                let first = *next;
                *next = next.saturating_add(ask.count);
                Some((first..*next).collect())
            });
            let lists: Option<Vec<Vec<u32>>> = lists.collect();
            let have = self.nodes.get(node.as_str()).map_or(0, |(count, _)| *count);
            let lists = lists.filter(|lists| lists.iter().flatten().all(|at| *at < have));
            let name = (pod.namespace().to_string(), pod.name.clone());
            holdings.insert(name, lists);
        }
        (nodes.collect(), holdings)
    }
}

/// The cards that pods hold, request by request; `None` where they are not known.
pub(super) type Holdings = BTreeMap<(String, String), Option<Vec<Vec<u32>>>>;

/// More GPUs than a machine has.
const MOST: u32 = 1 << 10;
/// How many pods may share a card.
const MANY: i64 = 1 << 20;

/// The name of a card: that of the group that has it, or what a group would be called.
pub(super) fn named(node: &str, minor: u32, group: Option<&str>) -> String {
    group.map_or_else(|| format!("{node}-{minor}"), ToString::to_string)
}

/// Whether a pod holds a card for a group, which the pods of the group share.
pub(super) fn is_reservation(pod: &Pod) -> bool {
    pod.namespace() == RESERVED
}

/// The groups whose cards a pod shares.
pub(super) fn groups_of(pod: &Pod) -> Vec<&str> {
    let labels = &pod.shape().labels;
    let several = labels.keys().filter_map(|key| key.strip_prefix(GROUP)?.strip_prefix('/'));
    let several: Vec<&str> = several.collect();
    if several.is_empty() {
        labels.get(GROUP).map(String::as_str).into_iter().collect()
    } else {
        several
    }
}

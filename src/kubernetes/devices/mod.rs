//! Devices of the dialects without claims: cards of nodes, requests of containers for single cards,
//! and annotations that are written back.

mod asks;
#[cfg(feature = "scheduler")]
mod live;
mod supply;
mod written;

pub use supply::{DeviceCard, DeviceDialect, NodeCards};

pub(super) use asks::{Ask, asks};
#[cfg(feature = "scheduler")]
pub(super) use live::{Asking, is_followed};
pub(super) use supply::registered;
pub(super) use written::{Held, held};

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::account;
use super::field::{Fault, Field};
use super::metadata;
use super::resources::is_card_share;
use crate::model::{Amounts, DeviceRequest, Node, Pod, PodShape};
use asks::Memory;
use written::CONTAINERS;

/// The cards of all nodes.
#[derive(Debug, Default)]
pub(super) struct Cards {
    nodes: BTreeMap<String, NodeCards>,
}

impl Cards {
    /// Takes an object, if it registers cards. Of one with a refused field none is given away.
    pub(super) fn take(&mut self, group: &str, kind: &str, root: &Field<'_>) -> Fault<()> {
        let found = match (group, kind) {
            ("", "Node") => registered(root)?,
            ("scheduling.koordinator.sh", "Device")
                if account::refused_of(root.value, root.object.mode).is_empty() =>
            {
                supply::koordinator(root)?
            }
            _ => None,
        };
        if let Some(devices) = found {
            self.nodes.insert(metadata::name(root)?, devices);
        }
        Ok(())
    }

    /// Puts cards on nodes.
    pub(super) fn settle(&self, nodes: &mut [Node]) {
        for node in nodes.iter_mut() {
            if let Some(devices) = self.nodes.get(&node.name) {
                node.devices = devices.model();
            }
        }
    }

    /// The cards by node.
    pub(super) fn into_nodes(self) -> BTreeMap<String, NodeCards> {
        self.nodes
    }

    /// The shape with device requests in the place of what is asked.
    ///
    /// # Errors
    /// A part of a card is asked for, and cards differ.
    pub(super) fn shape(&self, shape: &PodShape, asks: &[Ask]) -> Result<PodShape, String> {
        let mut requests = Vec::new();
        let mut containers: Vec<u32> = Vec::new();
        for ask in asks {
            let at = ask.container as usize;
            containers.resize(containers.len().max(at + 1), 0);
            if let Some(request) = self.request(ask)? {
                containers[at] += 1;
                requests.push(request);
            }
        }
        let mut shape = shape.clone();
        for amounts in [&mut shape.requests, &mut shape.incoming_requests] {
            let mut rest = Amounts::new();
            for (name, amount) in amounts.iter().filter(|(name, _)| !is_card_share(name)) {
                rest.set(name, amount);
            }
            *amounts = rest;
        }
        if !requests.is_empty() {
            let counts: Vec<String> = containers.iter().map(ToString::to_string).collect();
            shape.attributes.insert(CONTAINERS.to_string(), counts.join(","));
            shape.devices = requests;
        }
        Ok(shape)
    }

    fn request(&self, ask: &Ask) -> Result<Option<DeviceRequest>, String> {
        let dialect = ask.dialect;
        let cards = || {
            let nodes = self.nodes.values().filter(move |node| node.dialect == dialect);
            nodes.flat_map(|node| node.cards.iter())
        };
        if ask.plain && cards().next().is_none() {
            return Ok(None);
        }
        let kind = dialect.kind();
        let memory = match ask.memory {
            Memory::All if ask.cores == 0 => {
                return Ok(Some(DeviceRequest::whole(kind, ask.count)));
            }
            _ if ask.cores >= 100 && dialect != DeviceDialect::Koordinator => {
                return Ok(Some(DeviceRequest::whole(kind, ask.count)));
            }
            Memory::Bytes(bytes) => bytes,
            Memory::All | Memory::Percent(_) => {
                let percent = if let Memory::Percent(percent) = ask.memory { percent } else { 100 };
                let mut sizes = cards().map(|card| card.memory);
                let first = sizes.next().unwrap_or(0);
                if sizes.any(|size| size != first) {
                    let (field, kind) = (&ask.field, dialect.kind());
                    return Err(format!(
                        "{field} is not in force: cards of {kind} differ in memory, of which it is a part"
                    ));
                }
                first / 100 * percent + first % 100 * percent / 100
            }
        };
        let mut request = DeviceRequest::shares(kind, ask.count, "memory", memory);
        if ask.cores > 0 {
            request = request.and("cores", ask.cores);
        }
        Ok(Some(request.and("slots", 1)))
    }

    /// The numbers of the cards that a pod holds on its node, request by request; `None` where they
    /// are not known.
    pub(super) fn indexes(&self, pod: &Pod, held: Option<&Held>) -> Option<Vec<Vec<u32>>> {
        let devices = self.nodes.get(pod.node.as_deref()?)?;
        let indexes = held?.indexes(devices)?;
        let asked = pod.shape().devices.iter().map(DeviceRequest::count);
        let sound = indexes.len() == pod.shape().devices.len()
            && indexes.iter().zip(asked).all(|(of, count)| of.len() == count as usize);
        sound.then_some(indexes)
    }
}

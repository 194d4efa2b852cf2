//! Devices of the dialects without claims: cards of nodes, requests of containers for single cards and
//! for NUMA zones, and annotations that are written back.

mod asks;
mod fractions;
#[cfg(feature = "scheduler")]
mod live;
#[cfg(feature = "scheduler")]
mod occupied;
mod supply;
mod written;
mod zones;

pub use supply::{CardSort, DeviceCard, DeviceDialect, NodeCards};
pub use written::CardFraction;

pub(super) use asks::Ask;
#[cfg(feature = "scheduler")]
pub(super) use live::{Asking, Basis};
pub(super) use supply::registered;
pub(super) use written::{Held, held};
#[cfg(feature = "scheduler")]
pub(super) use zones::{PREDICTED, predicted, written as zones_written};
pub(super) use zones::{named, parts, policy, wanted};

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::account;
use super::field::{Fault, Field};
use super::metadata;
use super::resources::is_card_share;
use crate::model::{
    Amounts, Beside, DeviceRequest, IslandRule, Node, NodeZones, Pod, PodShape, ZoneAsk, ZonePart,
};
use asks::Memory;
use fractions::{Holdings, PlainCards};
use supply::WHOLE;
use written::CONTAINERS;

/// Requests of the containers of a pod for cards.
pub(super) fn asks(metadata: Option<&Field<'_>>, spec: &Field<'_>) -> Fault<Vec<Ask>> {
    let annotations = match metadata {
        Some(metadata) => metadata.get("annotations")?,
        None => None,
    };
    let mut asks = asks::asks(annotations.as_ref(), spec)?;
    if let Some(annotations) = &annotations {
        let whole = asks.iter().any(|ask| !ask.is_of_card());
        asks.extend(fractions::ask(annotations, spec, whole)?);
    }
    Ok(asks)
}

/// The cards and the NUMA zones of all nodes.
#[derive(Debug, Default)]
pub(super) struct Cards {
    nodes: BTreeMap<String, NodeCards>,
    /// GPUs of nodes that nobody registers card by card, and the cards that pods hold of them.
    plain: PlainCards,
    holdings: Holdings,
    /// Whether those GPUs are cards: a pod asks for a fraction of one.
    shared: bool,
    zones: BTreeMap<String, NodeZones>,
    /// Holders of those cards in a cluster that is followed.
    #[cfg(feature = "scheduler")]
    occupied: occupied::Occupied,
}

impl Cards {
    /// Takes an object, if it registers cards. Of one with a refused field none is given away.
    pub(super) fn take(&mut self, group: &str, kind: &str, root: &Field<'_>) -> Fault<()> {
        if (group, kind) == ("topology.node.k8s.io", "NodeResourceTopology") {
            self.zones.insert(metadata::name(root)?, zones::topology(root)?);
            return Ok(());
        }
        if (group, kind) == ("", "Node") {
            self.plain.take(root)?;
        }
        let found = match (group, kind) {
            ("", "Node") => match registered(root)? {
                Some(own) => Some(own),
                None => self.shared_cards(&metadata::name(root)?),
            },
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

    /// The GPUs of a node as cards, once they are.
    fn shared_cards(&self, node: &str) -> Option<NodeCards> {
        #[cfg(feature = "scheduler")]
        let group = |card| self.occupied.group(node, card);
        #[cfg(not(feature = "scheduler"))]
        let group = |_| None;
        self.plain.cards(node, group).filter(|_| self.shared)
    }

    /// Whether an agent registers cards of the kind that fractions are of.
    fn is_registered(&self) -> bool {
        self.nodes.values().any(|node| node.dialect == DeviceDialect::Hami)
    }

    /// Takes the GPUs that nodes count for cards, if a pod asks for a fraction and nobody registers
    /// cards of that kind.
    pub(super) fn share<'a>(&mut self, pods: impl Iterator<Item = (&'a Pod, &'a [Ask])> + Clone) {
        let asked = pods.clone().any(|(_, asks)| asks.iter().any(Ask::is_fraction));
        if !asked || self.is_registered() {
            return;
        }
        let pods = pods.filter(|(pod, _)| !fractions::is_reservation(pod));
        let (nodes, holdings) = self.plain.settle(pods);
        (self.holdings, self.shared) = (holdings, true);
        for (name, devices) in nodes {
            self.nodes.entry(name).or_insert(devices);
        }
    }

    /// Puts cards and zones on nodes.
    pub(super) fn settle(&self, nodes: &mut [Node]) {
        for node in nodes.iter_mut() {
            if let Some(devices) = self.nodes.get(&node.name) {
                node.devices = devices.model();
                node.partitions.clone_from(&devices.partitions);
            }
            if let Some(zones) = self.zones.get(&node.name) {
                node.zones.clone_from(zones);
            }
        }
    }

    /// Whether a pod holds a card for others, which is counted with them.
    pub(super) fn is_reservation(&self, pod: &Pod) -> bool {
        self.shared && fractions::is_reservation(pod)
    }

    /// The shape with what nodes with NUMA zones align; `None` if no node has zones.
    pub(super) fn aligned(&self, shape: &PodShape, parts: &[ZonePart]) -> Option<PodShape> {
        if self.zones.is_empty() || parts.is_empty() {
            return None;
        }
        let zones = ZoneAsk { parts: parts.to_vec(), least: shape.zones.least };
        Some(PodShape { zones, ..shape.clone() })
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
        let mut requests: Vec<DeviceRequest> = Vec::new();
        let mut containers: Vec<u32> = Vec::new();
        for ask in asks {
            let at = ask.container as usize;
            containers.resize(containers.len().max(at + 1), 0);
            let Some(mut request) = self.request(ask)? else { continue };
            request.best_set = ask.best_set && request.is_whole();
            if let Some(same) = ask.beside {
                let gpus = DeviceDialect::Koordinator.kind(CardSort::Gpu);
                let gpus = requests.iter().position(|other| other.kind == gpus);
                let Some(gpus) = gpus else {
                    let field = &ask.field;
                    return Err(format!(
                        "{field} is not in force: no GPUs are asked for before it"
                    ));
                };
                let beside = Beside::request(gpus as u32);
                request.beside = Some(if same { beside.same() } else { beside });
            }
            containers[at] += 1;
            requests.push(request);
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

    /// The request for what is asked; `None` for a resource that is counted only.
    fn request(&self, ask: &Ask) -> Result<Option<DeviceRequest>, String> {
        let mut request = self.request_of_any(ask)?;
        let Some(choice) = &ask.choice else { return Ok(request) };
        let Some(own) = &mut request else { return Err(choice.fault("no cards are registered")) };
        if choice.is_of_types() {
            let models = self.cards_for(ask).map(|card| card.model.clone());
            let models: BTreeSet<String> = models.collect();
            if models.is_empty() {
                return Err(choice.fault("no card that is registered is of such a type"));
            }
            own.models = models.into_iter().collect();
        }
        if choice.numa {
            own.numa = IslandRule::Required;
        }
        Ok(request)
    }

    /// The dialect that serves what is asked.
    fn dialect_for(&self, ask: &Ask) -> DeviceDialect {
        let is_shared = self.shared && !self.is_registered();
        if ask.plain && is_shared { DeviceDialect::Kai } else { ask.dialect }
    }

    /// The cards of all nodes that may serve what is asked.
    fn cards_for(&self, ask: &Ask) -> impl Iterator<Item = &DeviceCard> {
        let dialect = self.dialect_for(ask);
        let nodes = self.nodes.values().filter(move |node| node.dialect == dialect);
        let cards = nodes.flat_map(|node| node.cards.iter());
        cards.filter(move |card| {
            let choice = ask.choice.as_ref();
            card.sort == ask.sort && choice.is_none_or(|choice| choice.allows(&card.model))
        })
    }

    fn request_of_any(&self, ask: &Ask) -> Result<Option<DeviceRequest>, String> {
        if let Some(fault) = &ask.fault {
            return Err(fault.clone());
        }
        let dialect = self.dialect_for(ask);
        let cards = || self.cards_for(ask);
        if ask.plain && cards().next().is_none() {
            return Ok(None);
        }
        let kind = dialect.kind(ask.sort);
        if let (CardSort::Rdma, Memory::Percent(percent)) = (ask.sort, ask.memory) {
            return Ok(Some(match percent {
                100 => DeviceRequest::whole(kind, ask.count),
                percent => DeviceRequest::shares(kind, ask.count, "cores", percent),
            }));
        }
        if ask.is_fraction() {
            return self.fraction(ask).map(Some);
        }
        let memory = match ask.memory {
            Memory::All if ask.cores == 0 || ask.cores >= 100 => {
                return Ok(Some(DeviceRequest::whole(kind, ask.count)));
            }
            _ if ask.cores >= 100 && dialect != DeviceDialect::Koordinator => {
                return Ok(Some(DeviceRequest::whole(kind, ask.count)));
            }
            Memory::Bytes(bytes) => bytes,
            Memory::All | Memory::Percent(_) | Memory::Part(_) => {
                let percent = if let Memory::Percent(percent) = ask.memory { percent } else { 100 };
                let mut sizes = cards().map(|card| card.memory);
                let first = sizes.next().unwrap_or(0);
                if sizes.any(|size| size != first) {
                    let field = &ask.field;
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

    /// A fraction of KAI's, in millionths: of memory by what the cards have, which must be alike.
    fn fraction(&self, ask: &Ask) -> Result<DeviceRequest, String> {
        let field = &ask.field;
        if self.is_registered() {
            return Err(format!("{field} is not in force: cards are registered by HAMi"));
        }
        let part = match ask.memory {
            Memory::Part(part) => part,
            Memory::Bytes(bytes) => {
                let nodes = self.nodes.values().filter(|node| node.dialect == DeviceDialect::Kai);
                let mut sizes = nodes.flat_map(|node| &node.cards).map(|card| card.memory);
                let first = sizes.next().unwrap_or(0);
                if first <= 0 || sizes.any(|size| size != first) {
                    return Err(format!(
                        "{field} is not in force: the memory of cards differs, or is not known"
                    ));
                }
                let part = (i128::from(bytes) * i128::from(WHOLE) + i128::from(first) - 1)
                    / i128::from(first);
                i64::try_from(part).unwrap_or(i64::MAX)
            }
            Memory::All | Memory::Percent(_) => WHOLE,
        };
        let kind = DeviceDialect::Kai.kind(CardSort::Gpu);
        Ok(DeviceRequest::shares(kind, ask.count, "portion", part))
    }

    /// The numbers of the cards that a pod holds on its node, request by request; `None` where they
    /// are not known.
    pub(super) fn indexes(&self, pod: &Pod, held: Option<&Held>) -> Option<Vec<Vec<u32>>> {
        let devices = self.nodes.get(pod.node.as_deref()?)?;
        let indexes = if devices.dialect == DeviceDialect::Kai {
            let name = (pod.namespace().to_string(), pod.name.clone());
            self.holdings.get(&name)?.clone()?
        } else {
            held?.indexes(devices)?
        };
        let asked = pod.shape().devices.iter().map(DeviceRequest::count);
        let sound = indexes.len() == pod.shape().devices.len()
            && indexes.iter().zip(asked).all(|(of, count)| of.len() == count as usize);
        sound.then_some(indexes)
    }
}

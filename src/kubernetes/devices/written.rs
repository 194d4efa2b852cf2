//! Annotations of a pod on the cards that it holds: read, and written.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::fractions::GROUP;
use super::supply::{CardSort, DeviceCard, DeviceDialect, NodeCards};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::value::Value;
use crate::model::{DeviceAsk, DeviceRequest, Pod};

/// How many device requests each container has, in order: an attribute of shapes.
pub(super) const CONTAINERS: &str = "phalanx/device-requests-of-containers";

const HAMI: &str = "hami.io/vgpu-devices-allocated";
const VOLCANO: &str = "volcano.sh/vgpu-ids-new";
const KOORDINATOR: &str = "scheduling.koordinator.sh/device-allocated";
/// Numbers of cards that no plugin asks for: so they are known when the pod is seen to run.
const CARDS: &str = "phalanx.dev/cards";
const MIB: i64 = 1 << 20;

/// The cards that a pod holds by its annotations: their identities, request by request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct Held {
    requests: Vec<Vec<String>>,
}

/// The cards that annotations of a pod name.
pub(in crate::kubernetes) fn held(metadata: &Field<'_>) -> Fault<Option<Held>> {
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    for key in [HAMI, VOLCANO] {
        if let Some(text) = annotations.name_of(key)? {
            return Ok(Some(Held { requests: listed(&text) }));
        }
    }
    if let Some(text) = annotations.name_of(CARDS)? {
        return Ok(Some(Held { requests: numbered(&text) }));
    }
    let Some(text) = annotations.name_of(KOORDINATOR)? else { return Ok(None) };
    let cards = json::value(&text);
    let mut requests = Vec::new();
    for sort in [CardSort::Gpu, CardSort::Rdma] {
        let own = cards.as_ref().and_then(|value| value.entry(sort.name()));
        if let Some(Value::List(cards)) = own {
            let minors = cards.iter().filter_map(|card| card.entry("minor")?.integer());
            requests.push(minors.map(|minor| koordinator_name(sort, minor)).collect());
        }
    }
    Ok((!requests.is_empty()).then_some(Held { requests }))
}

/// A card by its type and minor.
fn koordinator_name(sort: CardSort, minor: i64) -> String {
    format!("{}/{minor}", sort.name())
}

/// The cards of each container that has any: `id,type,memory,cores:` repeated.
fn listed(text: &str) -> Vec<Vec<String>> {
    let cards = |container: &str| -> Vec<String> {
        let cards = container.split(':').filter_map(|card| card.split(',').next());
        cards.filter(|id| !id.is_empty()).map(ToString::to_string).collect()
    };
    text.split(';').map(cards).filter(|cards| !cards.is_empty()).collect()
}

/// Numbers of cards, one list a request: `0,1;2`.
fn numbered(text: &str) -> Vec<Vec<String>> {
    let cards = |list: &str| list.split(',').map(|card| card.trim().to_string()).collect();
    text.split(';').map(cards).collect()
}

impl Held {
    /// The numbers of all cards, where they have no other names.
    #[cfg(feature = "scheduler")]
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.requests.iter().flatten().filter_map(|card| card.parse().ok()).collect()
    }

    /// The numbers of the cards among those of the node, request by request; `None` if one is not
    /// there.
    pub(super) fn indexes(&self, devices: &NodeCards) -> Option<Vec<Vec<u32>>> {
        let index = |name: &String| {
            let at = devices.cards.iter().position(|card| match devices.dialect {
                DeviceDialect::Koordinator => {
                    koordinator_name(card.sort, card.minor.into()) == *name
                }
                DeviceDialect::Hami | DeviceDialect::Volcano | DeviceDialect::Kai => {
                    card.id == *name
                }
            });
            at.map(|at| at as u32)
        };
        self.requests.iter().map(|cards| cards.iter().map(index).collect()).collect()
    }
}

impl NodeCards {
    /// The annotations by which a pod's cards are told to the plugin of the node: with the binding,
    /// or before it. `devices` are those of the plan ([`Assignment::devices`]). Times are left to
    /// the embedder: `hami.io/vgpu-time` and its kin.
    ///
    /// [`Assignment::devices`]: crate::state::Assignment::devices
    pub fn annotations(
        &self,
        node: &str,
        pod: &Pod,
        devices: &[Vec<u32>],
    ) -> BTreeMap<String, String> {
        let mut written = BTreeMap::new();
        let shape = pod.shape();
        if shape.devices.is_empty() {
            return written;
        }
        let mut set = |key: &str, value: String| {
            written.insert(key.to_string(), value);
        };
        let requests: Vec<(&DeviceRequest, &[u32])> =
            shape.devices.iter().zip(devices.iter().map(Vec::as_slice)).collect();
        match self.dialect {
            DeviceDialect::Koordinator => {
                set(KOORDINATOR, self.koordinator(&requests));
                let gpus: Vec<String> = requests
                    .iter()
                    .flat_map(|(_, of)| of.iter().filter_map(|at| self.cards.get(*at as usize)))
                    .filter(|card| card.sort == CardSort::Gpu)
                    .map(|card| card.minor.to_string())
                    .collect();
                if !gpus.is_empty() {
                    set("scheduling.koordinator.sh/gpu-minors", gpus.join(","));
                }
            }
            DeviceDialect::Kai => {
                let whole = requests.iter().all(|(request, _)| request.is_whole());
                let kind = if whole { "Regular" } else { "Fraction" };
                set("received-resource-type", kind.to_string());
                if whole {
                    let list = |of: &&[u32]| {
                        let cards: Vec<String> = of.iter().map(ToString::to_string).collect();
                        cards.join(",")
                    };
                    let lists: Vec<String> = requests.iter().map(|(_, of)| list(of)).collect();
                    set(CARDS, lists.join(";"));
                }
            }
            DeviceDialect::Hami => {
                let containers = self.containers(pod, &requests);
                let mut text = containers.join(";");
                if !containers.is_empty() {
                    text.push(';');
                }
                set("hami.io/vgpu-devices-to-allocate", text.clone());
                set(HAMI, text);
                set("hami.io/vgpu-node", node.to_string());
                set("hami.io/bind-phase", "allocating".to_string());
            }
            DeviceDialect::Volcano => {
                let text = self.containers(pod, &requests).join(";");
                set("volcano.sh/devices-to-allocate", text.clone());
                set(VOLCANO, text);
                set("volcano.sh/vgpu-node", node.to_string());
                set("volcano.sh/bind-phase", "allocating".to_string());
            }
        }
        written
    }

    /// The labels by which KAI's binder knows the cards of a pod with a fraction: the groups that
    /// share them. A group that no pod has yet is named `<node>-<number of the card>`; its
    /// reservation pod is to be made. Empty in other dialects, and for whole cards.
    pub fn labels(&self, pod: &Pod, devices: &[Vec<u32>]) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let groups = self.fraction(pod, devices).map(|fraction| fraction.groups);
        match groups.unwrap_or_default().as_slice() {
            [one] => {
                labels.insert(GROUP.to_string(), one.clone());
            }
            several => {
                labels.extend(several.iter().map(|id| (format!("{GROUP}/{id}"), id.clone())));
            }
        }
        labels
    }

    /// The fraction of KAI's that a plan gives a pod; `None` in other dialects, and for whole cards.
    ///
    /// KAI's binder takes it from a `BindRequest` of `scheduling.run.ai`, and binds the pod itself. The
    /// binder makes the reservation pod of a group that has none, and tells the container its card.
    ///
    /// ```
    /// use phalanx::kubernetes::{Mode, Reader};
    ///
    /// let text = r#"[
    ///   {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
    ///    "status": {"allocatable": {"nvidia.com/gpu": "2", "pods": "9"}}},
    ///   {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a",
    ///    "annotations": {"gpu-fraction": "0.5"}}, "spec": {"containers": [{"name": "c"}]}}]"#;
    /// let mut reader = Reader::new(Mode::AsStored);
    /// for value in serde_json::from_str::<Vec<serde_json::Value>>(text)? {
    ///     reader.read("m.json", &mut serde_json::Deserializer::from_str(&value.to_string()))?;
    /// }
    /// let manifests = reader.finish()?;
    /// let pod = &manifests.groups[0].pods[0];
    /// let fraction = manifests.devices["n1"].fraction(pod, &[vec![1]]).unwrap();
    /// assert_eq!((fraction.groups, fraction.count), (vec!["n1-1".to_owned()], 1));
    /// assert_eq!(fraction.portion, "0.5");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fraction(&self, pod: &Pod, devices: &[Vec<u32>]) -> Option<CardFraction> {
        if self.dialect != DeviceDialect::Kai {
            return None;
        }
        let requests = pod.shape().devices.iter().zip(devices);
        let mut shared = requests.filter_map(|(request, of)| match &request.ask {
            DeviceAsk::Whole { .. } => None,
            DeviceAsk::Shares { each, .. } => Some((each.of("portion"), of)),
        });
        let (portion, of) = shared.next()?;
        let cards = of.iter().filter_map(|at| self.cards.get(*at as usize));
        let groups: Vec<String> = cards.map(|card| card.id.clone()).collect();
        let text = format!("{:06}", portion.max(0));
        let (whole, part) = text.split_at(text.len() - 6);
        let part = part.trim_end_matches('0');
        let portion = format!(
            "{}.{}",
            if whole.is_empty() { "0" } else { whole },
            if part.is_empty() { "0" } else { part }
        );
        Some(CardFraction { count: groups.len() as u32, groups, portion })
    }

    /// The cards of each container, one after the other.
    fn containers(&self, pod: &Pod, requests: &[(&DeviceRequest, &[u32])]) -> Vec<String> {
        let counts = pod.shape().attributes.get(CONTAINERS).map_or("", String::as_str);
        let mut rest = requests.iter();
        let counts = counts.split(',').map(|count| count.parse::<usize>().unwrap_or(0));
        let container = |count: usize| -> String {
            let own = rest.by_ref().take(count);
            own.flat_map(|(request, cards)| {
                cards.iter().filter_map(|at| {
                    let card = self.cards.get(*at as usize)?;
                    let (memory, cores) = taken(request, card);
                    Some(format!("{},NVIDIA,{},{cores}:", card.id, memory / MIB))
                })
            })
            .collect()
        };
        counts.map(container).collect()
    }

    fn koordinator(&self, requests: &[(&DeviceRequest, &[u32])]) -> String {
        let mut types: BTreeMap<CardSort, Vec<String>> = BTreeMap::new();
        for (request, of) in requests {
            for card in of.iter().filter_map(|at| self.cards.get(*at as usize)) {
                let (memory, cores) = taken(request, card);
                let resources = if card.sort == CardSort::Rdma {
                    format!("\"koordinator.sh/rdma\":\"{cores}\"")
                } else {
                    let ratio = i128::from(memory) * 100 / i128::from(card.memory.max(1));
                    format!(
                        "\"koordinator.sh/gpu-core\":\"{cores}\",\
                         \"koordinator.sh/gpu-memory\":\"{memory}\",\
                         \"koordinator.sh/gpu-memory-ratio\":\"{ratio}\""
                    )
                };
                let own = types.entry(card.sort).or_default();
                own.push(format!("{{\"minor\":{},\"resources\":{{{resources}}}}}", card.minor));
            }
        }
        let types = types.iter();
        let lists = types.map(|(sort, cards)| format!("\"{}\":[{}]", sort.name(), cards.join(",")));
        format!("{{{}}}", lists.collect::<Vec<_>>().join(","))
    }
}

/// A fraction of cards, as KAI's binder is asked for it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CardFraction {
    /// The groups that share the cards, one a card (`selectedGPUGroups`).
    pub groups: Vec<String>,
    /// How many cards (`receivedGPU.count`).
    pub count: u32,
    /// The part of each card, as a decimal number (`receivedGPU.portion`).
    pub portion: String,
}

/// Memory in bytes and cores in hundredths that a request takes of a card.
fn taken(request: &DeviceRequest, card: &DeviceCard) -> (i64, i64) {
    match &request.ask {
        DeviceAsk::Whole { .. } => (card.memory, 100),
        DeviceAsk::Shares { each, .. } => (each.of("memory"), each.of("cores")),
    }
}

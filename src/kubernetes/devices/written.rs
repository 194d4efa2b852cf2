//! Annotations of a pod on the cards that it holds: read, and written.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::supply::{DeviceCard, DeviceDialect, NodeCards};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::value::Value;
use crate::model::{DeviceAsk, DeviceRequest, Pod};

/// How many device requests each container has, in order: an attribute of shapes.
pub(super) const CONTAINERS: &str = "phalanx/device-requests-of-containers";

const HAMI: &str = "hami.io/vgpu-devices-allocated";
const VOLCANO: &str = "volcano.sh/vgpu-ids-new";
const KOORDINATOR: &str = "scheduling.koordinator.sh/device-allocated";
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
    let Some(text) = annotations.name_of(KOORDINATOR)? else { return Ok(None) };
    let cards = json::value(&text);
    let Some(Value::List(cards)) = cards.as_ref().and_then(|value| value.entry("gpu")) else {
        return Ok(None);
    };
    let minors = cards.iter().filter_map(|card| card.entry("minor")?.integer());
    Ok(Some(Held { requests: alloc::vec![minors.map(|minor| minor.to_string()).collect()] }))
}

/// The cards of each container that has any: `id,type,memory,cores:` repeated.
fn listed(text: &str) -> Vec<Vec<String>> {
    let cards = |container: &str| -> Vec<String> {
        let cards = container.split(':').filter_map(|card| card.split(',').next());
        cards.filter(|id| !id.is_empty()).map(ToString::to_string).collect()
    };
    text.split(';').map(cards).filter(|cards| !cards.is_empty()).collect()
}

impl Held {
    /// The numbers of the cards among those of the node, request by request; `None` if one is not
    /// there.
    pub(super) fn indexes(&self, devices: &NodeCards) -> Option<Vec<Vec<u32>>> {
        let index = |name: &String| {
            let at = devices.cards.iter().position(|card| match devices.dialect {
                DeviceDialect::Koordinator => card.minor.to_string() == *name,
                DeviceDialect::Hami | DeviceDialect::Volcano => card.id == *name,
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
            DeviceDialect::Koordinator => set(KOORDINATOR, self.koordinator(&requests)),
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
        let mut cards = Vec::new();
        for (request, of) in requests {
            for card in of.iter().filter_map(|at| self.cards.get(*at as usize)) {
                let (memory, cores) = taken(request, card);
                let ratio = if card.memory > 0 {
                    (i128::from(memory) * 100 / i128::from(card.memory)) as i64
                } else {
                    0
                };
                cards.push(format!(
                    "{{\"minor\":{},\"resources\":{{\"koordinator.sh/gpu-core\":\"{cores}\",\
                     \"koordinator.sh/gpu-memory\":\"{memory}\",\
                     \"koordinator.sh/gpu-memory-ratio\":\"{ratio}\"}}}}",
                    card.minor
                ));
            }
        }
        format!("{{\"gpu\":[{}]}}", cards.join(","))
    }
}

/// Memory in bytes and cores in hundredths that a request takes of a card.
fn taken(request: &DeviceRequest, card: &DeviceCard) -> (i64, i64) {
    match &request.ask {
        DeviceAsk::Whole { .. } => (card.memory, 100),
        DeviceAsk::Shares { each, .. } => (each.of("memory"), each.of("cores")),
    }
}

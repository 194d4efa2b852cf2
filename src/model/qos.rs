//! Mixed work: classes of service, bands of priority, and the resources that lower bands ask for.
//!
//! The words and the numbers are Koordinator's (`apis/extension`).

use alloc::format;
use alloc::string::{String, ToString};

use super::{Amounts, CPU, Labels, MEMORY, Pod, PodShape};

/// The label of a pod's class of service.
pub const QOS_LABEL: &str = "koordinator.sh/qosClass";
/// The label of a pod's band, which counts before its priority; and the attribute of a shape that says
/// which band the priority of its pods is in (see [`Pod::in_band`](super::super::Pod::in_band)).
pub const PRIORITY_CLASS_LABEL: &str = "koordinator.sh/priority-class";

/// The label by which a pod names its quota.
pub const QUOTA_LABEL: &str = "quota.scheduling.koordinator.sh/name";
/// The label that allows a pod to be evicted, with `true`.
const EVICTION_ENABLED: &str = "koordinator.sh/eviction-enabled";
/// The annotation that says which pods are evicted first.
const EVICTION_PRIORITY: &str = "koordinator.sh/eviction-priority";
/// The label of whether a pod preempts.
const PREEMPTION_POLICY: &str = "scheduling.koordinator.sh/preemption-policy";
/// The label that keeps a pod from being preempted by reservations.
const DISABLE_PREEMPTIBLE: &str = "scheduling.koordinator.sh/disable-preemptible";
/// The prefix of the attributes of a shape that state limits.
const LIMIT: &str = "limits.";

/// A class of service: how a pod shares its node's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum QosClass {
    /// `LSE`: cores of its own, which no other pod is given the rest of.
    Lse,
    /// `LSR`: cores of its own; best-effort pods may use the rest of them.
    Lsr,
    /// `LS`: latency-sensitive, on shared cores.
    Ls,
    /// `BE`: best effort.
    Be,
    /// `SYSTEM`: agents of the node.
    System,
}

impl QosClass {
    /// The class of a name.
    pub fn from_name(name: &str) -> Option<QosClass> {
        Some(match name {
            "LSE" => QosClass::Lse,
            "LSR" => QosClass::Lsr,
            "LS" => QosClass::Ls,
            "BE" => QosClass::Be,
            "SYSTEM" => QosClass::System,
            _ => return None,
        })
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            QosClass::Lse => "LSE",
            QosClass::Lsr => "LSR",
            QosClass::Ls => "LS",
            QosClass::Be => "BE",
            QosClass::System => "SYSTEM",
        }
    }

    /// The class that labels state.
    pub fn of_labels(labels: &Labels) -> Option<QosClass> {
        QosClass::from_name(labels.get(QOS_LABEL)?)
    }

    /// The class of a pod that states none, by Kubernetes' class.
    pub fn of_kubernetes(class: KubernetesQos) -> QosClass {
        match class {
            KubernetesQos::Guaranteed => QosClass::Lsr,
            KubernetesQos::Burstable => QosClass::Ls,
            KubernetesQos::BestEffort => QosClass::Be,
        }
    }

    /// The band of pods of the class that state none.
    pub fn band(self) -> PriorityBand {
        if self == QosClass::Be { PriorityBand::Batch } else { PriorityBand::Prod }
    }
}

/// Kubernetes' class of service, by requests and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum KubernetesQos {
    /// Every container has limits of CPU and memory, and requests as much.
    Guaranteed,
    /// Some container requests or limits CPU or memory.
    Burstable,
    /// None does.
    BestEffort,
}

/// A band of priorities: which resources a pod asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PriorityBand {
    /// 3000 to 3999: what no pod has been promised.
    Free,
    /// 5000 to 5999: what services are not using now.
    Batch,
    /// 7000 to 7999: what services will not use for a while.
    Mid,
    /// 9000 to 9999: services, on the node's own resources.
    Prod,
}

impl PriorityBand {
    /// The band of a priority.
    ///
    /// ```
    /// use phalanx::model::PriorityBand;
    ///
    /// assert_eq!(PriorityBand::of_priority(5_400), Some(PriorityBand::Batch));
    /// assert_eq!(PriorityBand::of_priority(0), None);
    /// ```
    pub fn of_priority(priority: i32) -> Option<PriorityBand> {
        Some(match priority {
            9_000..=9_999 => PriorityBand::Prod,
            7_000..=7_999 => PriorityBand::Mid,
            5_000..=5_999 => PriorityBand::Batch,
            3_000..=3_999 => PriorityBand::Free,
            _ => return None,
        })
    }

    /// The band of a name.
    pub fn from_name(name: &str) -> Option<PriorityBand> {
        Some(match name {
            "koord-prod" => PriorityBand::Prod,
            "koord-mid" => PriorityBand::Mid,
            "koord-batch" => PriorityBand::Batch,
            "koord-free" => PriorityBand::Free,
            _ => return None,
        })
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            PriorityBand::Prod => "koord-prod",
            PriorityBand::Mid => "koord-mid",
            PriorityBand::Batch => "koord-batch",
            PriorityBand::Free => "koord-free",
        }
    }

    /// The priority of pods that state the band alone.
    pub fn default_priority(self) -> i32 {
        match self {
            PriorityBand::Prod => 9_500,
            PriorityBand::Mid => 7_500,
            PriorityBand::Batch => 5_500,
            PriorityBand::Free => 3_500,
        }
    }

    /// The band that a pod states: by its label, which counts also where it names none, or by its
    /// priority.
    pub fn stated(labels: &Labels, priority: Option<i32>) -> Option<PriorityBand> {
        match labels.get(PRIORITY_CLASS_LABEL) {
            Some(name) => PriorityBand::from_name(name),
            None => PriorityBand::of_priority(priority?),
        }
    }

    /// The band of a pod: as stated, or that of its class of service.
    pub fn of_pod(
        labels: &Labels,
        priority: Option<i32>,
        kubernetes: KubernetesQos,
    ) -> PriorityBand {
        PriorityBand::stated(labels, priority).unwrap_or_else(|| {
            let qos = QosClass::of_labels(labels);
            qos.unwrap_or_else(|| QosClass::of_kubernetes(kubernetes)).band()
        })
    }

    /// The name by which pods of the band ask for a resource; `None` if they cannot.
    ///
    /// Units: batch and mid CPU in whole units, each a thousandth of a core; memory in bytes.
    pub fn resource(self, name: &str) -> Option<String> {
        let prefix = match self {
            PriorityBand::Prod => return Some(name.into()),
            PriorityBand::Mid => "mid",
            PriorityBand::Batch => "batch",
            PriorityBand::Free => return None,
        };
        [CPU, MEMORY].contains(&name).then(|| format!("kubernetes.io/{prefix}-{name}"))
    }
}

/// The priority of a pod: its own, unless that is 0, or the default of its band.
pub fn priority_or_default(priority: Option<i32>, band: PriorityBand) -> i32 {
    priority.filter(|priority| *priority != 0).unwrap_or(band.default_priority())
}

/// Whether a pod may be evicted by what keeps nodes from overload.
pub fn is_evictable(labels: &Labels) -> bool {
    labels.get(EVICTION_ENABLED).is_some_and(|value| value == "true")
}

/// The order of eviction that an annotation states; 0 if there is none.
///
/// # Errors
/// It is no integer of 32 bits.
pub fn eviction_priority(annotations: &Labels) -> Result<i32, core::num::ParseIntError> {
    annotations.get(EVICTION_PRIORITY).map_or(Ok(0), |value| value.parse())
}

/// Whether a pod preempts others, if a label says so; the names are Kubernetes'.
pub fn preemption_policy(labels: &Labels) -> Option<super::PreemptionPolicy> {
    match labels.get(PREEMPTION_POLICY)?.as_str() {
        "Never" => Some(super::PreemptionPolicy::Never),
        "PreemptLowerPriority" => Some(super::PreemptionPolicy::PreemptLowerPriority),
        _ => None,
    }
}

/// Whether a pod may be preempted.
pub fn is_preemptible(labels: &Labels) -> bool {
    labels.get(DISABLE_PREEMPTIBLE).is_none_or(|value| value != "true")
}

#[cfg(feature = "usage")]
impl Pod {
    /// Writes into the shape which band the pod's priority is in, and what its limits are, for plugins
    /// that read them: a shape says nothing of either by itself.
    #[must_use]
    pub fn in_band(mut self, limits: &Amounts) -> Pod {
        let band = PriorityBand::of_priority(self.priority);
        let shape = self.shape_mut();
        if let Some(band) = band {
            shape.attributes.insert(PRIORITY_CLASS_LABEL.into(), band.as_str().into());
        }
        for (resource, amount) in limits.iter() {
            shape.attributes.insert(format!("{LIMIT}{resource}"), amount.to_string());
        }
        self
    }
}

#[cfg(feature = "usage")]
impl PodShape {
    /// The band of the pods: by label, by the attribute that [`Pod::in_band`] writes, or by the
    /// class of service. A shape without requests and limits of CPU and memory is best effort.
    pub fn band(&self) -> PriorityBand {
        let stated = self.attributes.get(PRIORITY_CLASS_LABEL);
        let band = stated.and_then(|name| PriorityBand::from_name(name));
        self.band_at(band.map(PriorityBand::default_priority))
    }

    /// The band of a pod of the shape with a priority.
    pub fn band_with(&self, priority: i32) -> PriorityBand {
        match PriorityBand::of_priority(priority) {
            Some(_) => self.band_at(Some(priority)),
            None => self.band(),
        }
    }

    fn band_at(&self, priority: Option<i32>) -> PriorityBand {
        PriorityBand::stated(&self.labels, priority).unwrap_or_else(|| self.qos().band())
    }

    /// The class of service: as stated, or Kubernetes'.
    pub fn qos(&self) -> QosClass {
        QosClass::of_labels(&self.labels)
            .unwrap_or_else(|| QosClass::of_kubernetes(self.kubernetes_qos()))
    }

    /// Kubernetes' class of service as far as a shape tells: that all containers are guaranteed is
    /// taken where limits are stated and are what is requested.
    pub fn kubernetes_qos(&self) -> KubernetesQos {
        let requests = [CPU, MEMORY].map(|resource| self.requests.of(resource));
        let limits = [CPU, MEMORY].map(|resource| self.limit(resource));
        if requests == [0, 0] && limits == [0, 0] {
            KubernetesQos::BestEffort
        } else if requests == limits && !limits.contains(&0) {
            KubernetesQos::Guaranteed
        } else {
            KubernetesQos::Burstable
        }
    }

    /// The limit of a resource that [`Pod::in_band`] wrote; 0 if there is none.
    pub fn limit(&self, resource: &str) -> i64 {
        let text = self.attributes.get(&format!("{LIMIT}{resource}"));
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;

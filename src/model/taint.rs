//! Taints and tolerations.

use alloc::string::String;

/// A mark on a node that keeps pods away which do not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Taint {
    /// The taint's key.
    pub key: String,
    /// The taint's value; often empty.
    #[cfg_attr(feature = "serde", serde(default))]
    pub value: String,
    /// The effect on pods that do not tolerate it.
    pub effect: Effect,
}

/// The effect of a taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "String", into = "String"))]
#[non_exhaustive]
pub enum Effect {
    /// Keeps new pods away.
    NoSchedule,
    /// Makes the node less liked.
    PreferNoSchedule,
    /// Keeps new pods away, and running pods are evicted (by others than this crate).
    NoExecute,
    /// An unknown effect; does nothing.
    Unknown(String),
}

impl From<String> for Effect {
    fn from(text: String) -> Effect {
        match text.as_str() {
            "NoSchedule" => Effect::NoSchedule,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => Effect::Unknown(text),
        }
    }
}

impl From<Effect> for String {
    fn from(effect: Effect) -> String {
        match effect {
            Effect::NoSchedule => "NoSchedule".into(),
            Effect::PreferNoSchedule => "PreferNoSchedule".into(),
            Effect::NoExecute => "NoExecute".into(),
            Effect::Unknown(text) => text,
        }
    }
}

impl Taint {
    /// A taint.
    pub fn new(key: impl Into<String>, value: impl Into<String>, effect: Effect) -> Taint {
        Taint { key: key.into(), value: value.into(), effect }
    }

    /// Whether the taint keeps pods off the node altogether.
    pub fn repels(&self) -> bool {
        matches!(self.effect, Effect::NoSchedule | Effect::NoExecute)
    }
}

/// A pod's consent to taints.
///
/// `Toleration::default()` (`{}` in a manifest) tolerates every taint with an empty value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Toleration {
    /// The key consented to; empty means any.
    pub key: String,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The value consented to.
    pub value: String,
    /// The effect consented to; `None` means any.
    pub effect: Option<Effect>,
}

/// How a [`Toleration`] compares values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "String", into = "String"))]
#[non_exhaustive]
pub enum TolerationOperator {
    /// The values are equal. An empty operator means this.
    #[default]
    Equal,
    /// Any value.
    Exists,
    /// An operator that is not in force; tolerates nothing.
    Unknown(String),
}

impl From<String> for TolerationOperator {
    fn from(text: String) -> TolerationOperator {
        match text.as_str() {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            _ => TolerationOperator::Unknown(text),
        }
    }
}

impl From<TolerationOperator> for String {
    fn from(operator: TolerationOperator) -> String {
        match operator {
            TolerationOperator::Equal => "Equal".into(),
            TolerationOperator::Exists => "Exists".into(),
            TolerationOperator::Unknown(text) => text,
        }
    }
}

impl Toleration {
    /// Tolerates a key, whatever the value and effect.
    pub fn exists(key: impl Into<String>) -> Toleration {
        Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            ..Toleration::default()
        }
    }

    /// Tolerates a key with one value, whatever the effect.
    pub fn equal(key: impl Into<String>, value: impl Into<String>) -> Toleration {
        Toleration { key: key.into(), value: value.into(), ..Toleration::default() }
    }

    /// Whether this toleration consents to a taint.
    ///
    /// Source: `k8s.io/api/core/v1`, `Toleration.ToleratesTaint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match &self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
                TolerationOperator::Unknown(_) => false,
            }
    }
}

#[cfg(test)]
mod tests;

//! Values of expressions.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::net::IpAddr;

use super::semver::Semver;
use crate::base::Quantity;

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<[Value]>),
    Map(Arc<[(Value, Value)]>),
    /// A map whose absent entries are empty maps.
    Domains(Arc<[(Value, Value)]>),
    Type(Kind),
    Optional(Option<Box<Value>>),
    Quantity(Quantity),
    Semver(Arc<Semver>),
    Ip(IpAddr),
    /// An address and the number of bits of its network.
    Cidr(IpAddr, u8),
    Url(Arc<str>),
    /// In nanoseconds.
    Duration(i128),
    /// In nanoseconds since 1970.
    Timestamp(i128),
    /// A format of names.
    Format(&'static str),
    Device,
}

/// The kind of a value, as far as it is known without evaluating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    List,
    Map,
    Type,
    Optional,
    Quantity,
    Semver,
    Ip,
    Cidr,
    Url,
    Duration,
    Timestamp,
    Format,
    Device,
}

impl Kind {
    /// Whether values of two kinds can be equal, as far as is known.
    pub(super) fn meets(self, other: Kind) -> bool {
        self == Kind::Dyn || other == Kind::Dyn || self == other
    }

    /// Whether values of two kinds have an order.
    pub(super) fn is_ordered_with(self, other: Kind) -> bool {
        const NUMBERS: [Kind; 3] = [Kind::Int, Kind::Uint, Kind::Double];
        const ALSO: [Kind; 5] =
            [Kind::Bool, Kind::Text, Kind::Bytes, Kind::Duration, Kind::Timestamp];
        let is = |kind: Kind| kind == Kind::Dyn || NUMBERS.contains(&kind) || ALSO.contains(&kind);
        let alike = NUMBERS.contains(&self) && NUMBERS.contains(&other);
        is(self) && is(other) && (alike || self.meets(other))
    }
}

impl Value {
    pub(super) fn text(text: impl AsRef<str>) -> Value {
        Value::Text(text.as_ref().into())
    }

    pub(super) fn list(values: Vec<Value>) -> Value {
        Value::List(values.into())
    }

    pub(super) fn some(value: Value) -> Value {
        Value::Optional(Some(Box::new(value)))
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Int(_) => Kind::Int,
            Value::Uint(_) => Kind::Uint,
            Value::Double(_) => Kind::Double,
            Value::Text(_) => Kind::Text,
            Value::Bytes(_) => Kind::Bytes,
            Value::List(_) => Kind::List,
            Value::Map(_) | Value::Domains(_) => Kind::Map,
            Value::Type(_) => Kind::Type,
            Value::Optional(_) => Kind::Optional,
            Value::Quantity(_) => Kind::Quantity,
            Value::Semver(_) => Kind::Semver,
            Value::Ip(_) => Kind::Ip,
            Value::Cidr(..) => Kind::Cidr,
            Value::Url(_) => Kind::Url,
            Value::Duration(_) => Kind::Duration,
            Value::Timestamp(_) => Kind::Timestamp,
            Value::Format(_) => Kind::Format,
            Value::Device => Kind::Device,
        }
    }

    /// Whether it is of a kind that Kubernetes adds to the language.
    pub(super) fn is_particular(&self) -> bool {
        let kind = self.kind();
        matches!(kind, Kind::Quantity | Kind::Semver | Kind::Ip | Kind::Cidr | Kind::Url)
    }

    /// The entry of a map.
    pub(super) fn entry(&self, key: &Value) -> Option<Value> {
        let (Value::Map(entries) | Value::Domains(entries)) = self else { return None };
        let found = entries.iter().find(|(own, _)| own.equals(key));
        match (found, self) {
            (Some((_, value)), _) => Some(value.clone()),
            (None, Value::Domains(_)) if matches!(key, Value::Text(_)) => {
                Some(Value::Map(Arc::from([])))
            }
            _ => None,
        }
    }

    /// Whether a map has an entry of its own.
    pub(super) fn has(&self, key: &Value) -> bool {
        let (Value::Map(entries) | Value::Domains(entries)) = self else { return false };
        entries.iter().any(|(own, _)| own.equals(key))
    }

    pub(super) fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) | (Value::Device, Value::Device) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Text(a), Value::Text(b)) | (Value::Url(a), Value::Url(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::Quantity(a), Value::Quantity(b)) => a == b,
            (Value::Semver(a), Value::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Value::Ip(a), Value::Ip(b)) => a == b,
            (Value::Cidr(a, m), Value::Cidr(b, n)) => a == b && m == n,
            (Value::Duration(a), Value::Duration(b))
            | (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Format(a), Value::Format(b)) => a == b,
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (Value::Map(a) | Value::Domains(a), Value::Map(b) | Value::Domains(b)) => {
                let same = |(key, value): &(Value, Value)| {
                    b.iter().any(|(other, own)| other.equals(key) && own.equals(value))
                };
                a.len() == b.len() && a.iter().all(same)
            }
            _ => self.compare_numbers(other) == Some(Ordering::Equal),
        }
    }

    fn compare_numbers(&self, other: &Value) -> Option<Ordering> {
        let whole = |value: &Value| match value {
            Value::Int(value) => Some(i128::from(*value)),
            Value::Uint(value) => Some(i128::from(*value)),
            _ => None,
        };
        if let (Some(a), Some(b)) = (whole(self), whole(other)) {
            return Some(a.cmp(&b));
        }
        let real = |value: &Value| match value {
            Value::Double(value) => Some(*value),
            value => whole(value).map(|value| value as f64),
        };
        real(self)?.partial_cmp(&real(other)?)
    }

    /// The order of two values; `None` if they have none.
    pub(super) fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b))
            | (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            _ => self.compare_numbers(other),
        }
    }
}

//! A tree of plain values, as any self-describing format can hold.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::keep::Keep;

/// The deepest nesting that is read; deeper input is an error, not a stack overflow.
pub const MAX_NESTING: usize = 100;

/// The key under which `serde_json` hands over a number that it keeps as text.
const NUMBER_TOKEN: &str = "$serde_json::private::Number";

/// One value of a manifest, with the order of its keys, and with keys that occur twice.
///
/// It reads from JSON and YAML alike. A map keeps every entry it was given; [`Value::entry`]
/// answers with the last of that name, as an API server does.
///
/// ```
/// use phalanx::kubernetes::Value;
///
/// let value: Value = serde_json::from_str(r#"{"cpu": 0.5, "pods": 110}"#)?;
/// assert_eq!(value.entry("pods").and_then(Value::integer), Some(110));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A number without a fraction.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// Values in order.
    List(Vec<Value>),
    /// Named values in order.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The last entry of that name in a map.
    pub fn entry(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => {
                entries.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one without a fraction that fits 64 bits.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The kind of value, with its article.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }
}

/// A text.
pub(super) fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

/// A map with entries in this order.
pub(super) fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

impl<'de> de::Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Seed::new(&Keep::All).deserialize(deserializer)
    }
}

/// Reads one value, and leaves out what the filter does not name.
#[derive(Clone, Copy)]
pub(super) struct Seed {
    keep: &'static Keep,
    depth: usize,
}

impl Seed {
    pub(super) fn new(keep: &'static Keep) -> Seed {
        Seed { keep, depth: 0 }
    }

    fn deeper<E: de::Error>(self, keep: &'static Keep) -> Result<Seed, E> {
        if self.depth >= MAX_NESTING {
            return Err(E::custom(format!("nested deeper than {MAX_NESTING} levels")));
        }
        Ok(Seed { keep, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(i128::try_from(value).map_or(Value::Float(value as f64), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Value, E> {
        self.visit_str(text_of(bytes)?)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let element = self.deeper(self.keep)?;
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(element)? {
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key_seed(KeySeed(self.keep))? {
            match key {
                Some((key, _)) if entries.is_empty() && key == NUMBER_TOKEN => {
                    return Ok(number(access.next_value::<String>()?));
                }
                Some((key, keep)) => {
                    let value = access.next_value_seed(self.deeper(keep)?)?;
                    entries.push((key, value));
                }
                None => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Map(entries))
    }
}

/// Bytes of a format without strings as text.
fn text_of<E: de::Error>(bytes: &[u8]) -> Result<&str, E> {
    core::str::from_utf8(bytes)
        .map_err(|error| E::custom(format_args!("not UTF-8 at byte {}", error.valid_up_to())))
}

fn number(text: String) -> Value {
    if let Ok(integer) = text.parse() {
        Value::Integer(integer)
    } else {
        text.parse().map_or(Value::Text(text), Value::Float)
    }
}

/// Reads a key; `None` if the filter does not name it.
pub(super) struct KeySeed(pub(super) &'static Keep);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Option<(String, &'static Keep)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl KeySeed {
    fn take(&self, key: &str) -> Option<(String, &'static Keep)> {
        // The token of a number kept as text passes every filter.
        let keep = if key == NUMBER_TOKEN { Some(&Keep::All) } else { self.0.field(key) };
        keep.map(|keep| (String::from(key), keep))
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Option<(String, &'static Keep)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.take(key))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        self.visit_str(text_of(bytes)?)
    }

    fn visit_bool<E>(self, key: bool) -> Result<Self::Value, E> {
        Ok(self.take(&key.to_string()))
    }

    fn visit_i64<E>(self, key: i64) -> Result<Self::Value, E> {
        Ok(self.take(&key.to_string()))
    }

    fn visit_u64<E>(self, key: u64) -> Result<Self::Value, E> {
        Ok(self.take(&key.to_string()))
    }

    fn visit_f64<E>(self, key: f64) -> Result<Self::Value, E> {
        Ok(self.take(&key.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.take("null"))
    }
}

#[cfg(test)]
mod tests;

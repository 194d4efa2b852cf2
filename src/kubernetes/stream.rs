//! A document read as a stream: its objects are handed on one by one as they are parsed.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::Deserializer;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::keep::OBJECT;
use super::value::{KeySeed, Seed, Value};
use crate::model::ModelError;

/// Version and kind of an object.
pub(super) type Kind = (String, String);

/// Takes objects as they are read.
type Sink<'r> = dyn FnMut(Value, Option<&Kind>) -> Result<(), ModelError> + 'r;

/// A document at its top: an object, a list of objects in any of its forms, or nothing.
pub(super) struct Document<'r> {
    /// Takes an object, or a list of them. With it goes the version and kind of objects that state
    /// none, because their list does.
    pub(super) sink: &'r mut Sink<'r>,
    /// Where the error goes that ends the reading.
    pub(super) rejected: &'r mut Option<ModelError>,
}

impl Document<'_> {
    fn accept<E: de::Error>(&mut self, value: Value, like: Option<&Kind>) -> Result<(), E> {
        (self.sink)(value, like).map_err(|error| {
            let text = error.to_string();
            *self.rejected = Some(error);
            E::custom(text)
        })
    }
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object or a list of them")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        while let Some(value) = access.next_element_seed(Seed::new(&OBJECT))? {
            self.accept(value, None)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        let mut nameless: Vec<Value> = Vec::new();
        let mut is_list = false;
        while let Some(key) = access.next_key_seed(KeySeed(&OBJECT))? {
            match key {
                None => {
                    access.next_value::<IgnoredAny>()?;
                }
                Some((key, _)) if key == "items" => {
                    is_list = true;
                    let like = element_kind(&entries);
                    let document =
                        Document { sink: &mut *self.sink, rejected: &mut *self.rejected };
                    access.next_value_seed(Items { document, like, nameless: &mut nameless })?;
                }
                Some((key, keep)) => {
                    let value = access.next_value_seed(Seed::new(keep))?;
                    entries.push((key, value));
                }
            }
        }
        if !is_list {
            return self.accept(Value::Map(entries), None);
        }
        // Objects that state no kind had to wait for that of their list.
        let like = element_kind(&entries);
        nameless.into_iter().try_for_each(|value| self.accept(value, like.as_ref()))
    }
}

/// The version and kind of the objects in a list, from what is known of the list.
fn element_kind(entries: &[(String, Value)]) -> Option<Kind> {
    let text = |name: &str| {
        entries.iter().rev().find(|(key, _)| key == name).and_then(|(_, value)| value.text())
    };
    let kind = text("kind")?.strip_suffix("List").filter(|kind| !kind.is_empty())?;
    Some((text("apiVersion").unwrap_or("").to_string(), kind.to_string()))
}

/// The objects of a list.
struct Items<'r> {
    document: Document<'r>,
    like: Option<Kind>,
    nameless: &'r mut Vec<Value>,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        while let Some(value) = access.next_element_seed(Seed::new(&OBJECT))? {
            if self.like.is_none() && value.entry("kind").is_none() {
                self.nameless.push(value);
            } else {
                self.document.accept(value, self.like.as_ref())?;
            }
        }
        Ok(())
    }
}

//! Documents with the line of each value, so that complaints can name it.

use std::fmt;

use phalanx::kubernetes::{Error, Value};
use serde::Deserialize;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A value and the line it begins on.
#[derive(Debug)]
pub(crate) struct Located(Spanned<Tree>);

#[derive(Debug)]
enum Tree {
    Leaf(Value),
    List(Vec<Located>),
    Map(Vec<(String, Located)>),
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Located, D::Error> {
        Spanned::<Tree>::deserialize(deserializer).map(Located)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_some<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Integer(value.into())))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Integer(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Text(value.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Tree::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}

/// The documents of a file, empty ones included.
///
/// # Errors
/// The file is no YAML: where, and why.
pub(crate) fn documents(file: &str, text: &str) -> Result<Vec<Located>, String> {
    let options = super::manifests::options(text.len(), serde_saphyr::DuplicateKeyPolicy::LastWins);
    let mut input = text.as_bytes();
    serde_saphyr::read_with_options::<_, Located>(&mut input, options)
        .map(|document| document.map_err(|error| format!("{file}: {error}")))
        .collect()
}

impl Located {
    /// The value alone.
    pub(crate) fn value(&self) -> Value {
        match &self.0.value {
            Tree::Leaf(value) => value.clone(),
            Tree::List(values) => Value::List(values.iter().map(Located::value).collect()),
            Tree::Map(entries) => {
                let entries = entries.iter().map(|(name, value)| (name.clone(), value.value()));
                Value::Map(entries.collect())
            }
        }
    }

    /// The line on which it begins.
    fn line(&self) -> u64 {
        self.0.referenced.line()
    }

    /// An error with the line of the field that it names, or of what that is in; so many lines stand
    /// before the text that was read.
    pub(crate) fn place(&self, error: &Error, before: usize) -> String {
        let (object, field) =
            error.model().map_or(("", ""), |error| (error.object.as_str(), error.field.as_str()));
        let own = self.item(object).unwrap_or(self);
        format!("{error} (line {})", own.line_of(field) + before as u64)
    }

    /// The object of a list that an error names as kind and name.
    fn item(&self, object: &str) -> Option<&Located> {
        let (kind, name) = object.split_once(' ')?;
        let name = name.rsplit('/').next()?;
        let items = match &self.0.value {
            Tree::List(_) => self,
            _ => self.entry("items")?,
        };
        let Tree::List(items) = &items.0.value else { return None };
        items.iter().find(|item| {
            let text = |of: Option<&Located>| match &of?.0.value {
                Tree::Leaf(Value::Text(text)) => Some(text.clone()),
                _ => None,
            };
            let own_kind = text(item.entry("kind")).map(|kind| kind.to_lowercase());
            let own_name = text(item.entry("metadata").and_then(|own| own.entry("name")));
            own_kind.is_none_or(|own| own == kind) && own_name.as_deref() == Some(name)
        })
    }

    /// The last entry of a name in a map.
    fn entry(&self, name: &str) -> Option<&Located> {
        match &self.0.value {
            Tree::Map(entries) => {
                entries.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The line of a field, by its path as errors have it: `spec.tolerations[1].operator`.
    fn line_of(&self, path: &str) -> u64 {
        let mut at = self;
        let mut line = at.line();
        for step in steps(path) {
            let inner = match &at.0.value {
                Tree::Leaf(_) => None,
                Tree::List(values) => step.parse().ok().and_then(|index: usize| values.get(index)),
                Tree::Map(entries) => {
                    entries.iter().rev().find(|(name, _)| *name == step).map(|(_, value)| value)
                }
            };
            let Some(inner) = inner else { break };
            at = inner;
            line = at.line();
        }
        line
    }
}

/// The names, keys and indexes of a path.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches('.');
        let (step, behind) = match rest.strip_prefix('[') {
            Some(key) => key.split_once(']')?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        rest = behind;
        (!step.is_empty()).then_some(step)
    })
}

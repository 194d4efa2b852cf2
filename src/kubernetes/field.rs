//! A value with its place in its object, so that every error can name both.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::mode::Mode;
use super::value::Value;
use crate::base::Quantity;
use crate::base::clip::clip;
use crate::model::selector::{SelectorError, check_key, check_value};
use crate::model::{Labels, ModelError, Problem};

/// The object that fields belong to.
#[derive(Debug)]
pub(super) struct Object {
    /// Kind and name, as errors name it: `pod default/a`.
    pub(super) name: String,
    /// How it is read.
    pub(super) mode: Mode,
}

/// A value and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) object: &'a Object,
    pub(super) value: &'a Value,
    path: Path<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Path<'a> {
    Root,
    /// A field of an object: `.name`.
    Name(&'a Path<'a>, &'a str),
    /// An entry of a map: `[key]`.
    Key(&'a Path<'a>, &'a str),
    /// An element of a list: `[0]`.
    At(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn render(&self, into: &mut String) {
        match self {
            Path::Root => {}
            Path::Name(parent, name) => {
                parent.render(into);
                push_name(into, name);
            }
            Path::Key(parent, key) => {
                parent.render(into);
                let _ = write!(into, "[{key}]");
            }
            Path::At(parent, index) => {
                parent.render(into);
                let _ = write!(into, "[{index}]");
            }
        }
    }
}

/// Adds a field to a path: `.name`, or `[a.qualified/name]`.
fn push_name(path: &mut String, name: &str) {
    if name.contains('/') {
        let _ = write!(path, "[{name}]");
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// The result of a conversion.
pub(super) type Fault<T> = Result<T, ModelError>;

impl<'a> Field<'a> {
    /// The object itself.
    pub(super) fn root(object: &'a Object, value: &'a Value) -> Field<'a> {
        Field { object, value, path: Path::Root }
    }

    /// Whether what a person wrote is read, and so is to be validated.
    pub(super) fn strict(&self) -> bool {
        self.object.mode == Mode::AsWritten
    }

    /// Where the field stands in its object.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        self.path.render(&mut path);
        path
    }

    /// An error about this field.
    pub(super) fn fail(&self, problem: impl Into<Problem>) -> ModelError {
        ModelError::new(self.object.name.clone(), self.path(), problem)
    }

    /// An error that states a broken rule.
    pub(super) fn invalid(&self, text: impl Into<String>) -> ModelError {
        self.fail(Problem::Invalid(text.into()))
    }

    /// An error about a field inside this one.
    pub(super) fn fail_at(&self, name: &str, problem: impl Into<Problem>) -> ModelError {
        let mut path = self.path();
        push_name(&mut path, name);
        ModelError::new(self.object.name.clone(), path, problem)
    }

    fn wrong(&self, expected: &str) -> ModelError {
        self.invalid(format!("is {}, not {expected}", self.value.what()))
    }

    /// A field inside; `None` if it is absent or null.
    pub(super) fn get<'b>(&'b self, name: &'b str) -> Fault<Option<Field<'b>>> {
        match self.value {
            Value::Map(_) => Ok(self.value.entry(name).and_then(|value| match value {
                Value::Null => None,
                value => {
                    Some(Field { object: self.object, value, path: Path::Name(&self.path, name) })
                }
            })),
            Value::Null => Ok(None),
            _ => Err(self.wrong("an object")),
        }
    }

    /// A field inside that must be there.
    pub(super) fn need<'b>(&'b self, name: &'b str) -> Fault<Field<'b>> {
        self.get(name)?.ok_or_else(|| self.fail_at(name, Problem::Required))
    }

    /// The elements of a list field inside; none if it is absent.
    pub(super) fn each(
        &self,
        name: &str,
        mut visit: impl FnMut(Field<'_>) -> Fault<()>,
    ) -> Fault<usize> {
        let Some(list) = self.get(name)? else { return Ok(0) };
        let Value::List(values) = list.value else { return Err(list.wrong("a list")) };
        for (index, value) in values.iter().enumerate() {
            visit(Field { object: self.object, value, path: Path::At(&list.path, index) })?;
        }
        Ok(values.len())
    }

    /// The entries of a map field inside; none if it is absent.
    pub(super) fn entries(
        &self,
        name: &str,
        mut visit: impl FnMut(&str, Field<'_>) -> Fault<()>,
    ) -> Fault<()> {
        let Some(map) = self.get(name)? else { return Ok(()) };
        let Value::Map(entries) = map.value else { return Err(map.wrong("an object")) };
        entries.iter().try_for_each(|(key, value)| {
            visit(key, Field { object: self.object, value, path: Path::Key(&map.path, key) })
        })
    }

    /// The text of this field.
    pub(super) fn text(&self) -> Fault<&'a str> {
        self.value.text().ok_or_else(|| self.wrong("a string"))
    }

    /// The integer of this field.
    pub(super) fn integer(&self) -> Fault<i64> {
        match self.value {
            Value::Integer(_) => self.value.integer().ok_or_else(|| self.fail(Problem::Overflow)),
            _ => Err(self.wrong("an integer")),
        }
    }

    /// The integer that the text of this field spells.
    pub(super) fn spelled_integer(&self) -> Fault<i64> {
        let text = self.text()?;
        text.parse().map_err(|_| self.invalid(format!("{:?} is not an integer", clip(text))))
    }

    /// The integer of this field, which must be within a range.
    pub(super) fn within(&self, min: i64, max: i64) -> Fault<i64> {
        let value = self.integer()?;
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(self.fail(Problem::OutOfRange { value, min, max }))
        }
    }

    /// The integer of this field, of 32 bits.
    pub(super) fn int32(&self) -> Fault<i32> {
        self.within(i32::MIN.into(), i32::MAX.into()).map(|value| value as i32)
    }

    /// The truth of this field.
    pub(super) fn boolean(&self) -> Fault<bool> {
        match self.value {
            Value::Bool(value) => Ok(*value),
            _ => Err(self.wrong("a boolean")),
        }
    }

    /// The quantity of this field.
    pub(super) fn quantity(&self) -> Fault<Quantity> {
        let parsed = match self.value {
            Value::Text(text) => text.parse(),
            Value::Integer(number) => number.to_string().parse(),
            Value::Float(number) => number.to_string().parse(),
            _ => return Err(self.wrong("a quantity")),
        };
        parsed.map_err(|error| self.fail(error))
    }

    /// The text of a field inside; empty if it is absent.
    pub(super) fn text_of(&self, name: &str) -> Fault<String> {
        self.get(name)?.map_or(Ok(String::new()), |field| field.text().map(String::from))
    }

    /// The text of a field inside, if it is there and not empty.
    pub(super) fn name_of(&self, name: &str) -> Fault<Option<String>> {
        Ok(Some(self.text_of(name)?).filter(|text| !text.is_empty()))
    }

    /// The truth of a field inside; false if it is absent.
    pub(super) fn flag(&self, name: &str) -> Fault<bool> {
        self.get(name)?.map_or(Ok(false), |field| field.boolean())
    }

    /// The texts of a list field inside.
    pub(super) fn texts(&self, name: &str) -> Fault<Vec<String>> {
        let mut texts = Vec::new();
        self.each(name, |element| {
            texts.push(String::from(element.text()?));
            Ok(())
        })?;
        Ok(texts)
    }

    /// The string-to-string map of a field inside, validated as labels where a person wrote it.
    pub(super) fn labels(&self, name: &str) -> Fault<Labels> {
        let mut labels = Labels::new();
        self.entries(name, |key, field| {
            let value = if *field.value == Value::Null { "" } else { field.text()? };
            if field.strict() {
                check_key(key)
                    .and_then(|()| check_value(value))
                    .map_err(|error| field.selector_error(&error))?;
            }
            labels.insert(String::from(key), String::from(value));
            Ok(())
        })?;
        Ok(labels)
    }

    /// An error about a selector.
    pub(super) fn selector_error(&self, error: &SelectorError) -> ModelError {
        self.invalid(error.to_string())
    }

    /// Refuses keys that occur twice anywhere inside.
    pub(super) fn check_repeats(&self) -> Fault<()> {
        match self.value {
            Value::Map(entries) => {
                let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
                keys.sort_unstable();
                if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(self.fail(Problem::Duplicate(twice[0].into())));
                }
                entries.iter().try_for_each(|(key, value)| {
                    let path = Path::Name(&self.path, key);
                    Field { object: self.object, value, path }.check_repeats()
                })
            }
            Value::List(values) => values.iter().enumerate().try_for_each(|(index, value)| {
                let path = Path::At(&self.path, index);
                Field { object: self.object, value, path }.check_repeats()
            }),
            _ => Ok(()),
        }
    }
}

/// A remark on one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Note {
    /// The object, as kind and name: `pod default/a`.
    pub object: String,
    /// The remark.
    pub text: String,
}

impl Note {
    pub(super) fn new(root: &Field<'_>, text: &str) -> Note {
        Note { object: root.object.name.clone(), text: text.to_string() }
    }
}

impl core::fmt::Display for Note {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.object, self.text)
    }
}

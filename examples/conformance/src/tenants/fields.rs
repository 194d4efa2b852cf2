//! JSON objects of which every field is known.

use std::collections::BTreeMap;

use phalanx::Time;
use phalanx::quota::UNLIMITED;
use serde_json::{Map, Value};

/// An object whose fields are taken one by one; what is left at the end is an error.
pub(crate) struct Fields<'a> {
    title: &'a str,
    object: &'a Map<String, Value>,
    known: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(title: &'a str, value: &'a Value) -> Result<Fields<'a>, String> {
        let object = value.as_object().ok_or_else(|| format!("{title}: is no object"))?;
        Ok(Fields { title, object, known: Vec::new() })
    }

    /// A field, if it is there and not null.
    pub(crate) fn maybe(&mut self, name: &'a str) -> Option<&'a Value> {
        self.known.push(name);
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn take(&mut self, name: &'a str) -> Result<&'a Value, String> {
        self.maybe(name).ok_or_else(|| format!("{}.{name}: is required", self.title))
    }

    pub(crate) fn text(&mut self, name: &'a str) -> Result<&'a str, String> {
        let title = self.title;
        self.take(name)?.as_str().ok_or_else(|| format!("{title}.{name}: is no text"))
    }

    /// A text; empty if it is absent.
    pub(crate) fn text_or_empty(&mut self, name: &'a str) -> Result<&'a str, String> {
        let title = self.title;
        let text = |value: &'a Value| value.as_str().ok_or(format!("{title}.{name}: is no text"));
        self.maybe(name).map_or(Ok(""), text)
    }

    pub(crate) fn flag(&mut self, name: &'a str) -> Result<bool, String> {
        let title = self.title;
        let flag = |value: &Value| value.as_bool().ok_or(format!("{title}.{name}: is no boolean"));
        self.maybe(name).map_or(Ok(false), flag)
    }

    pub(crate) fn integer(&mut self, name: &'a str) -> Result<Option<i64>, String> {
        let title = self.title;
        let read = |value: &Value| value.as_i64().ok_or(format!("{title}.{name}: is no integer"));
        self.maybe(name).map(read).transpose()
    }

    /// A list; empty if it is absent.
    pub(crate) fn list(&mut self, name: &'a str) -> Result<&'a [Value], String> {
        let title = self.title;
        let list = |value: &'a Value| {
            value.as_array().map(Vec::as_slice).ok_or(format!("{title}.{name}: is no list"))
        };
        self.maybe(name).map_or(Ok(&[]), list)
    }

    /// The entries of an object; none if it is absent.
    pub(crate) fn entries(&mut self, name: &'a str) -> Result<Vec<(&'a str, &'a Value)>, String> {
        let title = self.title;
        let Some(value) = self.maybe(name) else { return Ok(Vec::new()) };
        let object = value.as_object().ok_or(format!("{title}.{name}: is no object"))?;
        Ok(object.iter().map(|(key, value)| (key.as_str(), value)).collect())
    }

    /// Texts of a list.
    pub(crate) fn texts(&mut self, name: &'a str) -> Result<Vec<&'a str>, String> {
        let title = self.title;
        let text = |value: &'a Value| value.as_str().ok_or(format!("{title}.{name}: has no texts"));
        self.list(name)?.iter().map(text).collect()
    }

    /// Integers by text.
    pub(crate) fn integers(&mut self, name: &'a str) -> Result<BTreeMap<String, i64>, String> {
        let title = self.title;
        let pair = |(key, value): (&str, &Value)| {
            Ok((key.to_string(), value.as_i64().ok_or(format!("{title}.{name}: {key}"))?))
        };
        self.entries(name)?.into_iter().map(pair).collect()
    }

    /// A time; `None` if it is absent.
    pub(crate) fn time(&mut self, name: &'a str) -> Result<Option<Time>, String> {
        let title = self.title;
        let read = |value: &Value| {
            time(value.as_f64().ok_or(format!("{title}.{name}: is no time"))?)
                .ok_or(format!("{title}.{name}: is out of range"))
        };
        self.maybe(name).map(read).transpose()
    }

    /// Fields that are known and say nothing here.
    pub(crate) fn pass(&mut self, names: &[&'a str]) {
        self.known.extend(names);
    }

    /// Whether all fields were known.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.object.keys().find(|key| !self.known.contains(&key.as_str())) {
            Some(key) => Err(format!("{}.{key}: is not known", self.title)),
            None => Ok(()),
        }
    }
}

/// Seconds after the test's "now", which is far from the origin.
fn time(seconds: f64) -> Option<Time> {
    const NOW: f64 = 1e9;
    let millis = ((NOW + seconds) * 1e3).round();
    (1.0..1.8e13).contains(&millis).then(|| Time::from_millis(millis as u64))
}

/// The test's "now".
pub(crate) fn now() -> Time {
    time(0.0).unwrap_or(Time::ZERO)
}

/// An amount, which may be unlimited.
pub(crate) fn amount(title: &str, value: &Value) -> Result<i64, String> {
    match value {
        Value::String(text) if text == "unlimited" => Ok(UNLIMITED),
        value => value.as_i64().ok_or_else(|| format!("{title}: is no amount: {value}")),
    }
}

/// Amounts by flavor and resource; zeros are left out.
pub(crate) type AmountTable = BTreeMap<(String, String), i64>;

/// An amount list.
pub(crate) fn amounts(title: &str, list: &[Value]) -> Result<AmountTable, String> {
    let mut table = AmountTable::new();
    for value in list {
        let mut fields = Fields::new(title, value)?;
        let key = (fields.text("flavor")?.to_string(), fields.text("resource")?.to_string());
        let each = amount(title, fields.take("amount")?)?;
        fields.end()?;
        if each != 0 && table.insert(key, each).is_some() {
            return Err(format!("{title}: an amount stands twice"));
        }
    }
    Ok(table)
}

//! Label selectors.

use alloc::string::String;
use alloc::vec::Vec;

use super::Labels;
use crate::base::clip::clip;

/// Objects by their labels: every pair equal and every requirement met.
///
/// `LabelSelector::default()` (`{}` in a manifest) matches everything. A selector that is absent
/// (`null`) matches nothing; where that can occur the field is an `Option`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct LabelSelector {
    /// Labels that must be present with these values.
    pub match_labels: Labels,
    /// Further requirements.
    pub match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Asks for a label with this value, too.
    #[must_use]
    pub fn and_label(mut self, key: impl Into<String>, value: impl Into<String>) -> LabelSelector {
        self.match_labels.insert(key.into(), value.into());
        self
    }

    /// Adds a requirement.
    #[must_use]
    pub fn requirement(mut self, requirement: Requirement) -> LabelSelector {
        self.match_expressions.push(requirement);
        self
    }
}

/// One requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Requirement {
    /// The label's key; for `matchFields`, the field.
    pub key: String,
    /// How the value is judged.
    pub operator: Operator,
    /// The values that it is compared with.
    #[cfg_attr(feature = "serde", serde(default))]
    pub values: Vec<String>,
}

/// How a [`Requirement`] judges a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "String", into = "String"))]
#[non_exhaustive]
pub enum Operator {
    /// Present, with one of the values.
    In,
    /// Absent, or with none of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present, an integer, and greater than the one value. Node selectors only.
    Gt,
    /// Present, an integer, and less than the one value. Node selectors only.
    Lt,
    /// An unknown operator, as an API server may have stored it. Never matches.
    Unknown(String),
}

impl From<String> for Operator {
    fn from(text: String) -> Operator {
        match text.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            _ => Operator::Unknown(text),
        }
    }
}

impl From<Operator> for String {
    fn from(operator: Operator) -> String {
        String::from(operator.as_str())
    }
}

impl Operator {
    /// The operator as Kubernetes writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::Gt => "Gt",
            Operator::Lt => "Lt",
            Operator::Unknown(text) => text,
        }
    }
}

/// Why a selector cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The operator is unknown, or not allowed where it stands.
    #[error("operator {:?} is not allowed here", clip(.0))]
    Operator(String),
    /// The number of values does not go with the operator.
    #[error("operator {} does not take {count} values", clip(.operator))]
    Values {
        /// The operator.
        operator: String,
        /// How many values were given.
        count: usize,
    },
    /// A key is no qualified name.
    #[error("{:?} is not a label key", clip(.0))]
    Key(String),
    /// A value is no label value.
    #[error("{:?} is not a label value", clip(.0))]
    Value(String),
    /// `Gt` and `Lt` take one base-10 integer.
    #[error("{:?} is not an integer", clip(.0))]
    Integer(String),
}

impl LabelSelector {
    /// A selector for one label with one value.
    pub fn label(key: impl Into<String>, value: impl Into<String>) -> LabelSelector {
        LabelSelector {
            match_labels: Labels::from([(key.into(), value.into())]),
            match_expressions: Vec::new(),
        }
    }

    /// Whether the selector has no requirement at all, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether the labels meet the selector. A malformed selector matches nothing; see
    /// [`LabelSelector::check`].
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| {
                requirement.matches(labels.get(&requirement.key).map(String::as_str))
            })
            && self.check().is_ok()
    }

    /// Whether the selector is well-formed, by the rules of `metav1.LabelSelectorAsSelector`.
    ///
    /// # Errors
    /// The first requirement that is not.
    pub fn check(&self) -> Result<(), SelectorError> {
        for (key, value) in &self.match_labels {
            check_key(key)?;
            check_value(value)?;
        }
        self.match_expressions.iter().try_for_each(|requirement| {
            if matches!(requirement.operator, Operator::Gt | Operator::Lt) {
                return Err(SelectorError::Operator(requirement.operator.clone().into()));
            }
            requirement.check()
        })
    }
}

impl Requirement {
    /// A requirement.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Requirement {
        Requirement {
            key: key.into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
        }
    }

    /// Whether a label's value (`None`: the label is absent) meets the requirement.
    ///
    /// Judges by the operator alone; a malformed requirement is for [`Requirement::check`].
    pub fn matches(&self, value: Option<&str>) -> bool {
        match &self.operator {
            Operator::In => value.is_some_and(|value| self.values.iter().any(|v| v == value)),
            Operator::NotIn => value.is_none_or(|value| self.values.iter().all(|v| v != value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compare(value).is_some_and(|(have, limit)| have > limit),
            Operator::Lt => self.compare(value).is_some_and(|(have, limit)| have < limit),
            Operator::Unknown(_) => false,
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    /// Whether the requirement is well-formed, by the rules of `labels.NewRequirement`.
    ///
    /// # Errors
    /// Checks that it is well formed.
    pub fn check(&self) -> Result<(), SelectorError> {
        check_key(&self.key)?;
        let count = self.values.len();
        let counts = match &self.operator {
            Operator::In | Operator::NotIn => count > 0,
            Operator::Exists | Operator::DoesNotExist => count == 0,
            Operator::Gt | Operator::Lt => count == 1,
            Operator::Unknown(text) => return Err(SelectorError::Operator(text.clone())),
        };
        if !counts {
            return Err(SelectorError::Values { operator: self.operator.clone().into(), count });
        }
        if matches!(self.operator, Operator::Gt | Operator::Lt)
            && self.values[0].parse::<i64>().is_err()
        {
            return Err(SelectorError::Integer(self.values[0].clone()));
        }
        self.values.iter().try_for_each(|value| check_value(value))
    }
}

/// A qualified name: an optional DNS prefix and `/`, then up to 63 of `[A-Za-z0-9_.-]` that begin
/// and end alphanumeric.
pub(crate) fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let sound = !name.is_empty() && is_name(name) && prefix.is_none_or(is_dns_subdomain);
    if sound { Ok(()) } else { Err(SelectorError::Key(String::from(key))) }
}

/// Empty, or up to 63 of `[A-Za-z0-9_.-]` that begin and end alphanumeric.
pub(crate) fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_name(value) {
        Ok(())
    } else {
        Err(SelectorError::Value(String::from(value)))
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            let bytes = part.as_bytes();
            bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
                && bytes.first().is_some_and(|b| *b != b'-')
                && bytes.last().is_some_and(|b| *b != b'-')
        })
}

#[cfg(test)]
mod tests;

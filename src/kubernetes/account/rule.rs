//! Rules: the verdict on a field and on the fields inside it.

use crate::kubernetes::mode::Mode;
use crate::kubernetes::value::Value;

/// The rule for a field. A list is looked through by the rules that have rules inside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// The field is in force, as a whole.
    Honoured,
    /// The field's statement holds anyway, for this reason.
    Holds(&'static str),
    /// It is said with the object that it is a part of.
    Part,
    /// It bears on nothing that is placed.
    Silent,
    /// It is not in force, and bears on no place.
    Ignored(&'static str),
    /// It is not in force, and what it belongs to is not placed.
    Refused(&'static str),
    /// An object, by its fields.
    Fields(&'static [Entry]),
    /// An object that is in force as a whole, by its fields.
    Whole(&'static [Entry]),
    /// An object, each entry by the same rule.
    Each(&'static Rule),
    /// The metadata of an object, by its labels and its annotations.
    Metadata(&'static Keys, &'static Keys),
    /// Labels or annotations.
    Keys(&'static Keys),
    /// A part that several kinds have.
    Table(&'static Table),
    /// By what is written.
    Choice(&'static Choice),
}

/// A field and its rule.
pub(super) type Entry = (&'static str, Rule);

/// A kind and the rules of its fields.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) dialect: &'static str,
    /// The API groups that serve it.
    pub(super) groups: &'static [&'static str],
    #[expect(clippy::struct_field_names, reason = "Kubernetes' word for it")]
    pub(super) kind: &'static str,
    /// The fields beside `apiVersion`, `kind` and `status`.
    pub(super) fields: &'static [Entry],
}

/// Rules of labels or annotations.
#[derive(Debug)]
pub(super) struct Keys {
    /// The name of the keys together; empty if none of them is named.
    pub(super) name: &'static str,
    pub(super) known: &'static [&'static [Entry]],
    /// For keys that are not known, by how they begin.
    pub(super) prefixes: &'static [&'static [Entry]],
    pub(super) other: Rule,
}

/// A part that several kinds have.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) rule: Rule,
}

/// A rule that depends on what is written.
#[derive(Debug)]
pub(super) struct Choice {
    /// When a rule applies, and the rule.
    pub(super) options: &'static [Entry],
    pub(super) pick: fn(&Spot<'_>, Mode) -> usize,
}

/// A value and the values that it stands in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) up: Option<&'a Spot<'a>>,
    pub(super) step: Step<'a>,
    pub(super) value: &'a Value,
}

/// How a value is reached from the one that it stands in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    Root,
    Name(&'a str),
    At(usize),
}

impl Spot<'_> {
    /// The name of the field, if it is one.
    pub(super) fn name(&self) -> &str {
        match self.step {
            Step::Name(name) => name,
            Step::Root | Step::At(_) => "",
        }
    }

    /// The value so many levels up.
    pub(super) fn above(&self, levels: usize) -> Option<&Value> {
        match levels {
            0 => Some(self.value),
            _ => self.up?.above(levels - 1),
        }
    }
}

/// Fields of metadata beside labels and annotations.
pub(super) const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
    "selfLink",
    "clusterName",
];

/// The rule of unknown fields.
pub(super) const UNKNOWN: Rule = Rule::Refused("no field that is known");

impl Keys {
    /// The rule of a key.
    pub(super) fn rule(&self, key: &str) -> &Rule {
        let known = self.known.iter().flat_map(|part| part.iter());
        let prefixes = self.prefixes.iter().flat_map(|part| part.iter());
        known
            .clone()
            .find(|(name, _)| *name == key)
            .or_else(|| prefixes.clone().find(|(prefix, _)| key.starts_with(prefix)))
            .map_or(&self.other, |(_, rule)| rule)
    }
}

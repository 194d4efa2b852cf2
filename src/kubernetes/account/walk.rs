//! A walk over a document by its rules.

use alloc::string::String;
use core::fmt::Write;

use super::rule::{Entry, Keys, METADATA, Rule, Spot, Step, UNKNOWN};
use super::verdict::FieldVerdict;
use crate::kubernetes::mode::Mode;
use crate::kubernetes::value::Value;

/// Takes each verdict, with its place and reason.
pub(super) type Sink<'s> = dyn FnMut(FieldVerdict, &Spot<'_>, &'static str) + 's;

/// A walk over one document.
pub(super) struct Walk<'s> {
    pub(super) mode: Mode,
    pub(super) sink: &'s mut Sink<'s>,
}

impl Walk<'_> {
    /// Applies a rule to a value.
    pub(super) fn apply(&mut self, spot: &Spot<'_>, rule: &Rule) {
        if *spot.value == Value::Null {
            return;
        }
        match rule {
            Rule::Part | Rule::Silent => {}
            Rule::Honoured => self.say(FieldVerdict::Honoured, spot, ""),
            Rule::Holds(why) => self.say(FieldVerdict::Honoured, spot, why),
            Rule::Ignored(why) => self.say(FieldVerdict::Ignored, spot, why),
            Rule::Refused(why) => self.say(FieldVerdict::Refused, spot, why),
            Rule::Table(table) => self.apply(spot, &table.rule),
            Rule::Fields(_)
            | Rule::Whole(_)
            | Rule::Each(_)
            | Rule::Metadata(..)
            | Rule::Keys(_)
            | Rule::Choice(_) => match spot.value {
                Value::List(values) => self.elements(spot, values, rule),
                _ => self.inside(spot, rule),
            },
        }
    }

    fn elements(&mut self, list: &Spot<'_>, values: &[Value], rule: &Rule) {
        // Labels and annotations are no lists, and neither are lists of lists anywhere.
        if matches!(rule, Rule::Metadata(..) | Rule::Keys(_)) || matches!(list.step, Step::At(_)) {
            self.say(FieldVerdict::Refused, list, "is a list");
            return;
        }
        for (index, value) in values.iter().enumerate() {
            self.apply(&Spot { up: Some(list), step: Step::At(index), value }, rule);
        }
    }

    fn inside(&mut self, spot: &Spot<'_>, rule: &Rule) {
        if let Rule::Choice(choice) = rule {
            let at = (choice.pick)(spot, self.mode);
            let rule = choice.options.get(at).map_or(&UNKNOWN, |(_, rule)| rule);
            return self.apply(spot, rule);
        }
        let Value::Map(entries) = spot.value else {
            self.say(FieldVerdict::Refused, spot, "is no object");
            return;
        };
        if let Rule::Whole(_) = rule {
            self.say(FieldVerdict::Honoured, spot, "");
        }
        for (name, value) in entries {
            let inner = Spot { up: Some(spot), step: Step::Name(name), value };
            match rule {
                Rule::Fields(fields) | Rule::Whole(fields) => {
                    self.apply(&inner, field(fields, name));
                }
                Rule::Each(rule) => self.apply(&inner, rule),
                Rule::Keys(keys) => self.key(&inner, keys.rule(name)),
                Rule::Metadata(labels, annotations) => match name.as_str() {
                    "labels" => self.apply_keys(&inner, labels),
                    "annotations" => self.apply_keys(&inner, annotations),
                    name if METADATA.contains(&name) => {}
                    _ => self.apply(&inner, &UNKNOWN),
                },
                _ => {}
            }
        }
    }

    fn apply_keys(&mut self, spot: &Spot<'_>, keys: &'static Keys) {
        self.apply(spot, &Rule::Keys(keys));
    }

    /// Applies the rule of a label or an annotation, which is text.
    fn key(&mut self, spot: &Spot<'_>, rule: &Rule) {
        let is_named = !matches!(rule, Rule::Silent | Rule::Ignored(_));
        if is_named && spot.value.text().is_none() && *spot.value != Value::Null {
            self.say(FieldVerdict::Refused, spot, "is no text");
        } else {
            self.apply(spot, rule);
        }
    }

    fn say(&mut self, verdict: FieldVerdict, spot: &Spot<'_>, why: &'static str) {
        (self.sink)(verdict, spot, why);
    }
}

/// The rule of a field.
fn field<'r>(fields: &'r [Entry], name: &str) -> &'r Rule {
    fields.iter().find(|(field, _)| *field == name).map_or(&UNKNOWN, |(_, rule)| rule)
}

/// Where a value stands, as a JSON pointer (RFC 6901).
pub(super) fn pointer(spot: &Spot<'_>) -> String {
    let mut into = String::new();
    render(spot, &mut into);
    into
}

fn render(spot: &Spot<'_>, into: &mut String) {
    if let Some(up) = spot.up {
        render(up, into);
    }
    match spot.step {
        Step::Root => {}
        Step::At(index) => {
            let _ = write!(into, "/{index}");
        }
        Step::Name(name) => {
            into.push('/');
            for character in name.chars() {
                match character {
                    '~' => into.push_str("~0"),
                    '/' => into.push_str("~1"),
                    other => into.push(other),
                }
            }
        }
    }
}

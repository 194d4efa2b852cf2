//! The table as rows, for people.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::kinds::KINDS;
use super::rule::{Entry, Keys, Kind, Rule, Table};
use super::verdict::{FieldRow, FieldVerdict};

/// The table by which documents are read, row by row: what is said of each field of each kind.
/// Parts that several kinds have come once, as kinds of their own.
pub fn field_table() -> Vec<FieldRow> {
    let mut rows = Rows { rows: Vec::new(), dialect: "", kind: "", parts: Vec::new() };
    for kind in KINDS.iter().flat_map(|kinds| kinds.iter()) {
        rows.kind(kind);
    }
    let mut at = 0;
    while let Some(part) = rows.parts.get(at).copied() {
        (rows.dialect, rows.kind) = ("all", part.name());
        match part {
            Part::Table(table) => rows.rule("", &table.rule),
            Part::Keys(keys) => rows.keys("", keys),
        }
        at += 1;
    }
    rows.rows
}

struct Rows {
    #[expect(clippy::struct_field_names, reason = "the rows of a table")]
    rows: Vec<FieldRow>,
    dialect: &'static str,
    kind: &'static str,
    parts: Vec<Part>,
}

/// Parts that several kinds have.
#[derive(Clone, Copy)]
enum Part {
    Table(&'static Table),
    Keys(&'static Keys),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Table(table) => table.name,
            Part::Keys(keys) => keys.name,
        }
    }
}

impl Rows {
    fn kind(&mut self, kind: &'static Kind) {
        (self.dialect, self.kind) = (kind.dialect, kind.kind);
        self.fields("", kind.fields);
    }

    fn fields(&mut self, path: &str, fields: &'static [Entry]) {
        for (name, rule) in fields {
            self.rule(&format!("{path}/{}", escaped(name)), rule);
        }
    }

    fn rule(&mut self, path: &str, rule: &'static Rule) {
        match rule {
            Rule::Part | Rule::Silent => {}
            Rule::Honoured => self.row(path, FieldVerdict::Honoured, ""),
            Rule::Holds(why) => self.row(path, FieldVerdict::Honoured, why),
            Rule::Ignored(why) => self.row(path, FieldVerdict::Ignored, why),
            Rule::Refused(why) => self.row(path, FieldVerdict::Refused, why),
            Rule::Fields(fields) => self.fields(path, fields),
            Rule::Whole(fields) => {
                self.row(path, FieldVerdict::Honoured, "");
                self.fields(path, fields);
            }
            Rule::Each(rule) => self.rule(&format!("{path}/*"), rule),
            Rule::Metadata(labels, annotations) => {
                self.part(&format!("{path}/labels"), Part::Keys(labels));
                self.part(&format!("{path}/annotations"), Part::Keys(annotations));
            }
            Rule::Keys(keys) => self.keys(path, keys),
            Rule::Table(table) => self.part(path, Part::Table(table)),
            Rule::Choice(choice) => {
                for (when, rule) in choice.options {
                    self.rule(&format!("{path} ({when})"), rule);
                }
            }
        }
    }

    /// Names a part, and keeps it for later.
    fn part(&mut self, path: &str, part: Part) {
        if part.name().is_empty() {
            return;
        }
        if !self.parts.iter().any(|known| known.name() == part.name()) {
            self.parts.push(part);
        }
        self.row(path, FieldVerdict::Honoured, &format!("see {}", part.name()));
    }

    fn keys(&mut self, path: &str, keys: &'static Keys) {
        for (name, rule) in keys.known.iter().flat_map(|part| part.iter()) {
            self.rule(&format!("{path}/{}", escaped(name)), rule);
        }
        for (prefix, rule) in keys.prefixes.iter().flat_map(|part| part.iter()) {
            self.rule(&format!("{path}/{}*", escaped(prefix)), rule);
        }
        self.rule(&format!("{path}/*"), &keys.other);
    }

    fn row(&mut self, path: &str, verdict: FieldVerdict, why: &str) {
        self.rows.push(FieldRow {
            dialect: self.dialect.to_string(),
            kind: self.kind.to_string(),
            path: path.to_string(),
            verdict,
            why: why.to_string(),
        });
    }
}

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

//! The account of a reading: what became of each field of each document.

use phalanx::kubernetes::{Error, FieldRemark, Mode, Reader, Reading, Value};

use super::located;
use crate::common::cli::{Finish, MISUSE};

/// The account of each document of a file, a line each; errors of broken documents go apart.
///
/// # Errors
/// The file cannot be read, or is no YAML or JSON.
pub(crate) fn account(file: &str, mode: Mode) -> Result<Finish, String> {
    let mut finish = Finish::default();
    let text = super::manifests::text(file)?;
    for (index, (begin, own)) in parts(&text).into_iter().enumerate() {
        let document = match located::documents(file, &own) {
            Ok(documents) => documents.into_iter().next(),
            Err(_) => {
                // Once more, after as many empty lines as stand before it: so the line is right.
                let placed = located::documents(file, &format!("{}{own}", "\n".repeat(begin)));
                finish.code = MISUSE;
                let error = placed.err().unwrap_or_default();
                finish.err.push_str(&format!("error: {error}\n"));
                continue;
            }
        };
        let Some(document) = document else { continue };
        let value = document.value();
        if value == Value::Null {
            continue;
        }
        let mut reading = Reading::of(&value, mode);
        if let Some(error) = fault(file, &value, mode) {
            finish.code = MISUSE;
            finish.err.push_str(&format!("error: {}\n", document.place(&error, begin)));
            refuse(&mut reading, &value, &error);
        }
        finish.out.push_str(&format!("{}\n", line(index, &reading)));
    }
    Ok(finish)
}

/// The documents of a text, each with the number of lines before it.
fn parts(text: &str) -> Vec<(usize, String)> {
    if let Some(values) = json_values(text) {
        return values;
    }
    let lines: Vec<&str> = text.lines().collect();
    let own = |(begin, end)| (begin, lines.get(begin..end).unwrap_or_default().join("\n"));
    Starts::of(text).spans(lines.len()).map(own).collect()
}

/// JSON values one after the other, as `kubectl` and logs of it write them; `None` of other text.
fn json_values(text: &str) -> Option<Vec<(usize, String)>> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(value) = values.next() {
        value.ok()?;
        let end = values.byte_offset();
        let own = text.get(from..end)?;
        let bare = own.trim_start();
        let begin = text.get(..end - bare.len())?.matches('\n').count();
        found.push((begin, bare.to_string()));
        from = end;
    }
    Some(found)
}

/// The lines on which documents begin, those of empty ones included.
struct Starts(Vec<u64>);

impl Starts {
    fn of(text: &str) -> Starts {
        let mut starts = Vec::new();
        let mut inside = false;
        for (number, line) in (1_u64..).zip(text.lines()) {
            let marks = |mark: &str| {
                line.strip_prefix(mark).is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with(|next: char| next.is_whitespace())
                })
            };
            let bare = line.trim_start();
            if marks("---") {
                starts.push(number);
                inside = true;
            } else if marks("...") {
                inside = false;
            } else if !inside && !bare.is_empty() && !bare.starts_with(['#', '%']) {
                starts.push(number);
                inside = true;
            }
        }
        Starts(starts)
    }

    /// The lines of each document: the first, and the one behind the last.
    fn spans(&self, lines: usize) -> impl Iterator<Item = (usize, usize)> {
        let begins = self.0.iter().map(|start| *start as usize - 1);
        let ends = begins.clone().skip(1).chain([lines]);
        begins.zip(ends)
    }
}

/// The fault that keeps a document by itself from being taken. A file of queues states no kind.
fn fault(file: &str, value: &Value, mode: Mode) -> Option<Error> {
    if value.entry("kind").is_none() && value.entry("partitions").is_some() {
        return None;
    }
    let mut reader = Reader::new(mode);
    reader.take(file, value.clone()).err()
}

/// Nothing of a document that cannot be taken is in force.
fn refuse(reading: &mut Reading, value: &Value, error: &Error) {
    let Value::Map(entries) = value else { return };
    let why = error.model().map_or_else(|| error.to_string(), ToString::to_string);
    let fields = entries.iter().map(|(name, _)| name.as_str());
    let fields = fields.filter(|name| !["apiVersion", "kind"].contains(name));
    reading.honoured.clear();
    reading.ignored.clear();
    reading.refused = fields
        .map(|name| {
            FieldRemark::new(format!("/{}", name.replace('~', "~0").replace('/', "~1")), &why)
        })
        .collect();
}

fn line(index: usize, reading: &Reading) -> serde_json::Value {
    let refused: Vec<&str> = reading.refused.iter().map(|remark| remark.path.as_str()).collect();
    serde_json::json!({
        "doc": index,
        "kind": reading.kind,
        "name": reading.name,
        "honoured": reading.honoured,
        "refused": refused,
        "ignored": reading.ignored,
    })
}

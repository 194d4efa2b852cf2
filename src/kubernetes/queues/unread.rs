//! Fields that are not understood.

use alloc::format;
use alloc::vec::Vec;

use super::super::field::Field;
use super::super::field::Note;
use super::super::value::Value;

/// Notes the fields of an object that are set and not among those that are read.
pub(super) fn unread(of: &Field<'_>, read: &[&str], notes: &mut Vec<Note>) {
    let Value::Map(entries) = of.value else { return };
    for (name, value) in entries {
        if *value != Value::Null && !read.contains(&name.as_str()) {
            let path = of.path();
            let dot = if path.is_empty() { "" } else { "." };
            notes.push(Note::new(of, &format!("{path}{dot}{name} is not understood")));
        }
    }
}

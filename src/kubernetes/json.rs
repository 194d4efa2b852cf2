//! JSON in annotations: lists and objects of one level.

/// The elements of a JSON object or list without nesting, of which none has a comma in it.
pub(super) fn elements(text: &str, open: char, close: char) -> Option<impl Iterator<Item = &str>> {
    let inner = text.trim().strip_prefix(open)?.strip_suffix(close)?.trim();
    Some(inner.split(',').map(str::trim).filter(move |_| !inner.is_empty()))
}

/// A JSON string; names and quantities have no character that JSON escapes.
pub(super) fn string(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains(['"', '\\'])).then_some(inner)
}

//! JSON in annotations.

use alloc::string::String;
use alloc::vec::Vec;
use core::str::Chars;

use super::value::Value;

/// The deepest nesting that is read.
const DEEPEST: usize = 32;

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

/// A JSON text as a value; `None` if it is none, or nested too deep.
pub(super) fn value(text: &str) -> Option<Value> {
    let mut rest = text;
    let value = any(&mut rest, 0)?;
    rest.trim_start().is_empty().then_some(value)
}

/// Takes a sign off the front, after white space.
fn sign(rest: &mut &str, sign: char) -> Option<()> {
    *rest = rest.trim_start().strip_prefix(sign)?;
    Some(())
}

fn any(rest: &mut &str, depth: usize) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    *rest = rest.trim_start();
    match rest.chars().next()? {
        '{' => map(rest, depth),
        '[' => list(rest, depth),
        '"' => quoted(rest).map(Value::Text),
        _ => word(rest),
    }
}

fn map(rest: &mut &str, depth: usize) -> Option<Value> {
    sign(rest, '{')?;
    let mut entries = Vec::new();
    while sign(rest, '}').is_none() {
        if !entries.is_empty() {
            sign(rest, ',')?;
        }
        *rest = rest.trim_start();
        let name = quoted(rest)?;
        sign(rest, ':')?;
        entries.push((name, any(rest, depth + 1)?));
    }
    Some(Value::Map(entries))
}

fn list(rest: &mut &str, depth: usize) -> Option<Value> {
    sign(rest, '[')?;
    let mut values = Vec::new();
    while sign(rest, ']').is_none() {
        if !values.is_empty() {
            sign(rest, ',')?;
        }
        values.push(any(rest, depth + 1)?);
    }
    Some(Value::List(values))
}

/// A number, or one of the three words.
fn word(rest: &mut &str) -> Option<Value> {
    let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n', ':']).unwrap_or(rest.len());
    let (word, behind) = rest.split_at(end);
    *rest = behind;
    match word {
        "null" => Some(Value::Null),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number if number.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
            let whole = number.parse().ok().map(Value::Integer);
            whole.or_else(|| number.parse().ok().map(Value::Float))
        }
        _ => None,
    }
}

fn quoted(rest: &mut &str) -> Option<String> {
    let mut characters = rest.strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => text.push(match characters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => escaped(&mut characters)?,
                other @ ('"' | '\\' | '/') => other,
                _ => return None,
            }),
            other => text.push(other),
        }
    }
    *rest = characters.as_str();
    Some(text)
}

/// A character by its number, or by two surrogates.
fn escaped(characters: &mut Chars<'_>) -> Option<char> {
    let first = number(characters)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    *characters = characters.as_str().strip_prefix("\\u")?.chars();
    let second = number(characters)?.checked_sub(0xdc00)?;
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second & 0x3ff))
}

/// Four digits to the base of 16.
fn number(characters: &mut Chars<'_>) -> Option<u32> {
    let digits = characters.as_str().get(..4)?;
    *characters = characters.as_str().get(4..)?.chars();
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;

//! Documents that were right until somebody altered them: refused, or harmless.

mod found;
pub(crate) mod lines;
pub(crate) mod plans;
pub(crate) mod saves;

use serde_json::{Number, Value, json};

use crate::support::dice::Dice;

/// The end of a document that was altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Refused,
    Harmless,
}

/// Alters some values of a document.
pub(crate) fn mar(dice: &mut Dice, document: &mut Value) {
    for _ in 0..1 + dice.roll(3) {
        let mut paths = Vec::new();
        paths_of(document, &mut Vec::new(), &mut paths);
        if paths.is_empty() {
            return;
        }
        let path = &paths[dice.roll(paths.len() as u64) as usize];
        let other = &paths[dice.roll(paths.len() as u64) as usize];
        match dice.roll(8) {
            0 => drop(remove(document, path)),
            1 => *at(document, path) = odd(dice),
            2 => *at(document, path) = at(document, other).clone(),
            3 => {
                let (one, two) = (at(document, path).clone(), at(document, other).clone());
                *at(document, path) = two;
                // One may be inside the other, which is another now.
                if let Some(place) = find(document, other) {
                    *place = one;
                }
            }
            _ => alter(dice, at(document, path)),
        }
    }
}

/// The places of a path from the root.
type Path = Vec<usize>;

/// The paths of all values inside a document.
fn paths_of(value: &Value, path: &mut Path, into: &mut Vec<Path>) {
    for (place, value) in children(value).enumerate() {
        path.push(place);
        into.push(path.clone());
        paths_of(value, path, into);
        path.pop();
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(values) => Box::new(values.iter()),
        Value::Object(entries) => Box::new(entries.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn find<'v>(document: &'v mut Value, path: &[usize]) -> Option<&'v mut Value> {
    path.iter().try_fold(document, |value, place| match value {
        Value::Array(values) => values.get_mut(*place),
        Value::Object(entries) => entries.values_mut().nth(*place),
        _ => None,
    })
}

fn at<'v>(document: &'v mut Value, path: &[usize]) -> &'v mut Value {
    find(document, path).expect("the path is of the document")
}

fn remove(document: &mut Value, path: &[usize]) -> Option<Value> {
    let (last, parent) = path.split_last()?;
    match find(document, parent)? {
        Value::Array(values) => Some(values.remove(*last)),
        Value::Object(entries) => {
            let name = entries.keys().nth(*last)?.clone();
            entries.remove(&name)
        }
        _ => None,
    }
}

/// Another value of the same kind.
fn alter(dice: &mut Dice, value: &mut Value) {
    match value {
        Value::Null => *value = odd(dice),
        Value::Bool(is) => *is = !*is,
        Value::Number(number) => *number = altered(dice, number),
        Value::String(text) => match dice.roll(4) {
            0 => text.clear(),
            1 => text.push('x'),
            2 => drop(text.pop()),
            _ => *text = dice.of(&WORDS).into(),
        },
        Value::Array(values) if values.is_empty() => values.push(odd(dice)),
        Value::Array(values) => {
            let one = dice.roll(values.len() as u64) as usize;
            let two = dice.roll(values.len() as u64) as usize;
            match dice.roll(4) {
                0 => drop(values.remove(one)),
                1 => values.insert(two, values[one].clone()),
                2 => values.truncate(one),
                _ => values.swap(one, two),
            }
        }
        Value::Object(entries) => {
            let names: Vec<String> = entries.keys().cloned().collect();
            let Some(name) = names.get(dice.roll(names.len().max(1) as u64) as usize) else {
                return;
            };
            if dice.one_in(2) {
                entries.remove(name);
            } else {
                entries.insert(name.clone(), odd(dice));
            }
        }
    }
}

fn altered(dice: &mut Dice, number: &Number) -> Number {
    if let Some(number) = number.as_u64() {
        return match dice.roll(8) {
            0 => u64::MAX.into(),
            1 => i64::MAX.into(),
            2 => u32::MAX.into(),
            3 => i64::try_from(number).map_or(0, |number| -number).into(),
            4 => dice.roll(16).into(),
            5 => number.saturating_sub(1).into(),
            6 => (number / 2).into(),
            _ => number.saturating_add(1).into(),
        };
    }
    match number.as_i64() {
        Some(number) => {
            [i64::MIN, number.saturating_sub(1), 0, -(number + 1)][dice.roll(4) as usize].into()
        }
        None => 0.into(),
    }
}

const WORDS: [&str; 8] = ["", "default", "g0", "n0", "cpu", "pods", "rack", "default/g1-0"];

fn odd(dice: &mut Dice) -> Value {
    match dice.roll(10) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!(-1),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(dice.roll(8)),
        7 => json!(true),
        8 => json!(1.5),
        _ => json!(dice.of(&WORDS)),
    }
}

//! Functions that are called on a value.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use regex_lite::Regex;

use super::net::{cidr, of_url, within};
use super::outcome::{Evaluated, Fail, no_overload};
use super::times::SECOND;
use super::value::Value;
use crate::base::Quantity;

fn regex(text: &str) -> Result<Regex, Fail> {
    Regex::new(text).map_err(|error| Fail::from(format!("{error}")))
}

fn position(text: &str, find: &str, from: usize) -> i64 {
    let chars: Vec<char> = text.chars().collect();
    let find: Vec<char> = find.chars().collect();
    let last = chars.len().checked_sub(find.len());
    let found = last.and_then(|last| (from..=last).find(|&at| chars[at..].starts_with(&find)));
    found.map_or(-1, |at| at as i64)
}

pub(super) fn of_text(name: &str, text: &str, rest: &[Value]) -> Evaluated {
    let chars = || text.chars().collect::<Vec<char>>();
    let place = |at: i64| {
        let len = text.chars().count();
        usize::try_from(at)
            .ok()
            .filter(|at| *at <= len)
            .ok_or_else(|| Fail::from("is out of range"))
    };
    Ok(match (name, rest) {
        ("size", []) => Value::Int(text.chars().count() as i64),
        ("startsWith", [Value::Text(other)]) => Value::Bool(text.starts_with(&**other)),
        ("endsWith", [Value::Text(other)]) => Value::Bool(text.ends_with(&**other)),
        ("contains", [Value::Text(other)]) => Value::Bool(text.contains(&**other)),
        ("matches", [Value::Text(other)]) => Value::Bool(regex(other)?.is_match(text)),
        ("find", [Value::Text(other)]) => {
            Value::text(regex(other)?.find(text).map_or("", |found| found.as_str()))
        }
        ("findAll", [Value::Text(other), rest @ ..]) => {
            let most = match rest {
                [Value::Int(most)] if *most >= 0 => *most as usize,
                _ => usize::MAX,
            };
            let regex = regex(other)?;
            let found = regex.find_iter(text).take(most);
            Value::list(found.map(|found| Value::text(found.as_str())).collect())
        }
        ("charAt", [Value::Int(at)]) => {
            let at = place(*at)?;
            Value::text(text.chars().skip(at).take(1).collect::<String>())
        }
        ("indexOf", [Value::Text(other), rest @ ..]) => {
            let from = match rest {
                [Value::Int(from)] => place(*from)?,
                _ => 0,
            };
            Value::Int(position(text, other, from))
        }
        ("lastIndexOf", [Value::Text(other), ..]) => {
            let found = text.rfind(&**other);
            Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64))
        }
        ("lowerAscii", []) => Value::text(text.to_ascii_lowercase()),
        ("upperAscii", []) => Value::text(text.to_ascii_uppercase()),
        ("replace", [Value::Text(old), Value::Text(new)]) => Value::text(text.replace(&**old, new)),
        ("replace", [Value::Text(old), Value::Text(new), Value::Int(most)]) => {
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            Value::text(text.replacen(&**old, new, most))
        }
        ("split", [Value::Text(by), rest @ ..]) => Value::list(split(text, by, rest)),
        ("substring", [Value::Int(from)]) => {
            Value::text(chars()[place(*from)?..].iter().collect::<String>())
        }
        ("substring", [Value::Int(from), Value::Int(to)]) => {
            let (from, to) = (place(*from)?, place(*to)?);
            let part = chars().get(from..to).map(|part| part.iter().collect::<String>());
            Value::text(part.ok_or("is out of range")?)
        }
        ("trim", []) => Value::text(text.trim()),
        ("format", [Value::List(values)]) => Value::text(formatted(text, values)?),
        _ => return of_others(name, &Value::text(text), rest),
    })
}

fn split(text: &str, by: &str, rest: &[Value]) -> Vec<Value> {
    let most = match rest {
        [Value::Int(most)] if *most >= 0 => *most as usize,
        _ => usize::MAX,
    };
    if most == 0 {
        return Vec::new();
    }
    if by.is_empty() {
        let mut chars: Vec<String> = text.chars().map(String::from).collect();
        if chars.len() > most {
            let last = chars.split_off(most - 1).concat();
            chars.push(last);
        }
        return chars.into_iter().map(Value::text).collect();
    }
    text.splitn(most, by).map(Value::text).collect()
}

fn formatted(text: &str, values: &[Value]) -> Result<String, Fail> {
    let (mut out, mut values, mut rest) = (String::new(), values.iter(), text);
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let Some(verb) = after.chars().next() else { return Err("ends in a %".into()) };
        rest = &after[verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or("has too few values")?;
        let text = match (verb, value) {
            ('s', value) => shown(value),
            ('d', Value::Int(_) | Value::Uint(_)) => shown(value),
            ('f', Value::Double(value)) => Some(format!("{value:.6}")),
            ('x', Value::Int(value)) => Some(format!("{value:x}")),
            ('o', Value::Int(value)) => Some(format!("{value:o}")),
            ('b', Value::Int(value)) => Some(format!("{value:b}")),
            _ => None,
        };
        out.push_str(&text.ok_or("does not go with its verb")?);
    }
    out.push_str(rest);
    Ok(out)
}

/// Whether a list is in order; `None` if its elements have none.
fn ascends(list: &[Value]) -> Option<bool> {
    let mut ascends = true;
    for pair in list.windows(2) {
        ascends &= pair[0].compare(&pair[1])?.is_le();
    }
    Some(ascends)
}

pub(super) fn of_list(name: &str, list: &[Value], rest: &[Value]) -> Evaluated {
    let no_order = || Fail::from("has no order");
    Ok(match (name, rest) {
        ("size", []) => Value::Int(list.len() as i64),
        ("sum", []) => {
            let mut sum = None;
            for value in list {
                sum = Some(match (sum, value) {
                    (None, value) => value.clone(),
                    (Some(Value::Int(a)), Value::Int(b)) => {
                        Value::Int(a.checked_add(*b).ok_or("overflows")?)
                    }
                    (Some(Value::Uint(a)), Value::Uint(b)) => {
                        Value::Uint(a.checked_add(*b).ok_or("overflows")?)
                    }
                    (Some(Value::Double(a)), Value::Double(b)) => Value::Double(a + b),
                    (Some(Value::Duration(a)), Value::Duration(b)) => Value::Duration(a + b),
                    _ => return Err("has no sum".into()),
                });
            }
            sum.unwrap_or(Value::Int(0))
        }
        ("min" | "max", []) => {
            let mut values = list.iter();
            let mut best = values.next().ok_or("is empty")?;
            for value in values {
                let order = value.compare(best).ok_or_else(no_order)?;
                let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                best = if order == wanted { value } else { best };
            }
            best.clone()
        }
        ("isSorted", []) => Value::Bool(ascends(list).ok_or_else(no_order)?),
        ("sort", []) => {
            let mut sorted = list.to_vec();
            ascends(list).ok_or_else(no_order)?;
            sorted.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
            Value::list(sorted)
        }
        ("distinct", []) => {
            let mut kept: Vec<Value> = Vec::new();
            for value in list {
                if !kept.iter().any(|own| own.equals(value)) {
                    kept.push(value.clone());
                }
            }
            Value::list(kept)
        }
        ("reverse", []) => Value::list(list.iter().rev().cloned().collect()),
        ("slice", [Value::Int(from), Value::Int(to)]) => {
            let place = |at: &i64| usize::try_from(*at).unwrap_or(usize::MAX);
            Value::list(list.get(place(from)..place(to)).ok_or("is out of range")?.to_vec())
        }
        ("flatten", rest) => {
            let depth = match rest {
                [Value::Int(depth)] if *depth >= 0 => *depth,
                [] => 1,
                _ => return Err("has no such depth".into()),
            };
            let mut flat = list.to_vec();
            for _ in 0..depth.min(8) {
                let inner = flat.into_iter().flat_map(|value| match value {
                    Value::List(values) => values.to_vec(),
                    value => [value].into(),
                });
                flat = inner.collect();
            }
            Value::list(flat)
        }
        ("indexOf", [wanted]) => {
            let found = list.iter().position(|value| value.equals(wanted));
            Value::Int(found.map_or(-1, |at| at as i64))
        }
        ("lastIndexOf", [wanted]) => {
            let found = list.iter().rposition(|value| value.equals(wanted));
            Value::Int(found.map_or(-1, |at| at as i64))
        }
        ("join", rest) => {
            let by = match rest {
                [Value::Text(by)] => by,
                _ => "",
            };
            let mut texts = Vec::new();
            for value in list {
                let Value::Text(text) = value else { return Err(no_overload(name, value)) };
                texts.push(&**text);
            }
            Value::text(texts.join(by))
        }
        ("includes", [wanted]) => Value::Bool(list.iter().any(|value| value.equals(wanted))),
        _ => return Err(format!("no function {name} of a list").into()),
    })
}

pub(super) fn of_quantity(name: &str, own: Quantity, rest: &[Value]) -> Evaluated {
    let amount = |value: &Value| match value {
        Value::Quantity(other) => Ok(*other),
        Value::Int(other) => Ok(Quantity::from(*other)),
        other => Err(no_overload(name, other)),
    };
    let whole = own.nanos() % SECOND == 0;
    Ok(match (name, rest) {
        ("compareTo", [Value::Quantity(other)]) => Value::Int(own.cmp(other) as i64),
        ("isGreaterThan", [Value::Quantity(other)]) => Value::Bool(own > *other),
        ("isLessThan", [Value::Quantity(other)]) => Value::Bool(own < *other),
        ("add", [other]) => Value::Quantity(own.checked_add(amount(other)?).ok_or("overflows")?),
        ("sub", [other]) => {
            let other = Quantity::from_nanos(-amount(other)?.nanos());
            Value::Quantity(own.checked_add(other).ok_or("overflows")?)
        }
        ("isInteger", []) => Value::Bool(whole),
        ("asInteger", []) => {
            if !whole {
                return Err("is no whole number".into());
            }
            Value::Int(own.ceil())
        }
        ("asApproximateFloat", []) => Value::Double(own.nanos() as f64 / 1e9),
        ("includes", [wanted]) => Value::Bool(Value::Quantity(own).equals(wanted)),
        _ => return Err(format!("no function {name} of a quantity").into()),
    })
}

pub(super) fn of_others(name: &str, own: &Value, rest: &[Value]) -> Evaluated {
    Ok(match (name, own, rest) {
        ("size", Value::Bytes(bytes), []) => Value::Int(bytes.len() as i64),
        ("size", Value::Map(map) | Value::Domains(map), []) => Value::Int(map.len() as i64),
        ("compareTo", Value::Semver(a), [Value::Semver(b)]) => Value::Int(a.compare(b) as i64),
        ("isGreaterThan", Value::Semver(a), [Value::Semver(b)]) => {
            Value::Bool(a.compare(b).is_gt())
        }
        ("isLessThan", Value::Semver(a), [Value::Semver(b)]) => Value::Bool(a.compare(b).is_lt()),
        ("major", Value::Semver(own), []) => Value::Int(own.numbers[0] as i64),
        ("minor", Value::Semver(own), []) => Value::Int(own.numbers[1] as i64),
        ("patch", Value::Semver(own), []) => Value::Int(own.numbers[2] as i64),
        ("hasValue", Value::Optional(inner), []) => Value::Bool(inner.is_some()),
        ("value", Value::Optional(inner), []) => *inner.clone().ok_or("has no value")?,
        ("orValue", Value::Optional(inner), [other]) => {
            inner.as_ref().map_or_else(|| other.clone(), |inner| (**inner).clone())
        }
        ("or", Value::Optional(inner), [other]) => {
            if inner.is_some() {
                own.clone()
            } else {
                other.clone()
            }
        }
        ("family", Value::Ip(ip), []) => Value::Int(if ip.is_ipv4() { 4 } else { 6 }),
        ("isUnspecified", Value::Ip(ip), []) => Value::Bool(ip.is_unspecified()),
        ("isLoopback", Value::Ip(ip), []) => Value::Bool(ip.is_loopback()),
        ("containsIP", Value::Cidr(of, bits), [ip]) => Value::Bool(match ip {
            Value::Ip(ip) => within(*ip, *of, *bits),
            Value::Text(text) => within(text.parse().map_err(|_| "is no address")?, *of, *bits),
            other => return Err(no_overload(name, other)),
        }),
        ("containsCIDR", Value::Cidr(of, bits), [other]) => {
            let (ip, own) = match other {
                Value::Cidr(ip, own) => (*ip, *own),
                Value::Text(text) => cidr(text).ok_or("is no network")?,
                other => return Err(no_overload(name, other)),
            };
            Value::Bool(own >= *bits && within(ip, *of, *bits))
        }
        ("ip", Value::Cidr(ip, _), []) => Value::Ip(*ip),
        ("prefixLength", Value::Cidr(_, bits), []) => Value::Int(i64::from(*bits)),
        (_, Value::Url(url), []) => Value::text(of_url(name, url).ok_or("no such part")?),
        ("validate", Value::Format(format), [Value::Text(text)]) => {
            if has_format(format, text) {
                Value::Optional(None)
            } else {
                Value::some(Value::list([Value::text("is malformed")].into()))
            }
        }
        ("getHours", Value::Duration(nanos), []) => Value::Int((nanos / SECOND / 3_600) as i64),
        ("getMinutes", Value::Duration(nanos), []) => Value::Int((nanos / SECOND / 60) as i64),
        ("getSeconds", Value::Duration(nanos), []) => Value::Int((nanos / SECOND) as i64),
        ("getMilliseconds", Value::Duration(nanos), []) => {
            Value::Int((nanos % SECOND / 1_000_000) as i64)
        }
        ("includes", own, [wanted]) => Value::Bool(own.equals(wanted)),
        _ => return Err(format!("no function {name} of {:?}", own.kind()).into()),
    })
}

fn has_format(format: &str, text: &str) -> bool {
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |text: &str| {
        !text.is_empty()
            && text.len() <= 63
            && text.starts_with(lower)
            && text.ends_with(lower)
            && text.chars().all(|c| lower(c) || c == '-')
    };
    match format {
        "dns1123Label" => label(text),
        "dns1035Label" => label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()),
        "dns1123Subdomain" => text.len() <= 253 && text.split('.').all(label),
        _ => crate::model::selector::check_value(text).is_ok(),
    }
}

/// A value as `string` shows it.
pub(super) fn shown(value: &Value) -> Option<String> {
    Some(match value {
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(ip, bits) => format!("{ip}/{bits}"),
        Value::Duration(nanos) => {
            let (whole, part) = (nanos / SECOND, (nanos % SECOND).abs());
            let part = format!("{part:09}");
            let part = part.trim_end_matches('0');
            if part.is_empty() { format!("{whole}s") } else { format!("{whole}.{part}s") }
        }
        _ => return None,
    })
}

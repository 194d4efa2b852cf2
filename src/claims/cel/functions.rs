//! The functions of Kubernetes' environment.

use alloc::format;
use alloc::string::ToString;
use core::net::IpAddr;

use super::members::{of_list, of_others, of_quantity, of_text, shown};
use super::net::{cidr, is_url};
use super::outcome::{Cost, Evaluated, Fail, no_overload};
use super::parse::Operator;
use super::semver::Semver;
use super::times::{SECOND, duration, timestamp};
use super::value::{Kind, Value};
use crate::base::Quantity;

/// The operators of numbers, sums of texts and lists, and those of times.
pub(super) fn arithmetic(cost: &mut Cost, operator: Operator, a: &Value, b: &Value) -> Evaluated {
    use Operator::{Add, Divide, Multiply, Remainder, Subtract};
    let overflow = || Fail::from("overflows, or divides by nothing");
    Ok(match (operator, a, b) {
        (_, Value::Int(a), Value::Int(b)) => Value::Int(
            match operator {
                Add => a.checked_add(*b),
                Subtract => a.checked_sub(*b),
                Multiply => a.checked_mul(*b),
                Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            }
            .ok_or_else(overflow)?,
        ),
        (_, Value::Uint(a), Value::Uint(b)) => Value::Uint(
            match operator {
                Add => a.checked_add(*b),
                Subtract => a.checked_sub(*b),
                Multiply => a.checked_mul(*b),
                Divide => a.checked_div(*b),
                _ => a.checked_rem(*b),
            }
            .ok_or_else(overflow)?,
        ),
        (Add | Subtract | Multiply | Divide, Value::Double(a), Value::Double(b)) => {
            Value::Double(match operator {
                Add => a + b,
                Subtract => a - b,
                Multiply => a * b,
                _ => a / b,
            })
        }
        (Add, Value::Text(a), Value::Text(b)) => {
            cost.spend((a.len() + b.len()) / 10)?;
            Value::text(format!("{a}{b}"))
        }
        (Add, Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&**a, &**b].concat().into()),
        (Add, Value::List(a), Value::List(b)) => {
            cost.spend(a.len() + b.len())?;
            Value::list([&**a, &**b].concat())
        }
        (Add, Value::Duration(a), Value::Duration(b)) => Value::Duration(a + b),
        (Add, Value::Timestamp(a), Value::Duration(b))
        | (Add, Value::Duration(a), Value::Timestamp(b)) => Value::Timestamp(a + b),
        (Subtract, Value::Timestamp(a), Value::Duration(b)) => Value::Timestamp(a - b),
        (Subtract, Value::Duration(a), Value::Duration(b))
        | (Subtract, Value::Timestamp(a), Value::Timestamp(b)) => Value::Duration(a - b),
        (Add | Subtract | Multiply | Divide | Remainder, a, _) => {
            return Err(no_overload("an operator", a));
        }
        _ => return Err("no such operator".into()),
    })
}

/// Functions of name spaces.
pub(super) fn spaced(cost: &mut Cost, space: &str, name: &str, values: &[Value]) -> Evaluated {
    Ok(match (space, name, values) {
        ("optional", "none", []) => Value::Optional(None),
        ("optional", "of", [value]) => Value::some(value.clone()),
        ("optional", "ofNonZeroValue", [value]) => {
            let zero = match value {
                Value::Null => true,
                Value::Bool(value) => !value,
                Value::Int(value) => *value == 0,
                Value::Uint(value) => *value == 0,
                Value::Double(value) => *value == 0.0,
                Value::Text(text) => text.is_empty(),
                Value::List(list) => list.is_empty(),
                Value::Map(map) => map.is_empty(),
                _ => false,
            };
            if zero { Value::Optional(None) } else { Value::some(value.clone()) }
        }
        ("sets", _, [Value::List(a), Value::List(b)]) => {
            let has = |all: &[Value], value: &Value| all.iter().any(|own| own.equals(value));
            let within = |a: &[Value], b: &[Value]| a.iter().all(|value| has(b, value));
            Value::Bool(match name {
                "contains" => within(b, a),
                "equivalent" => within(a, b) && within(b, a),
                _ => a.iter().any(|value| has(b, value)),
            })
        }
        ("format", _, []) => Value::Format(match name {
            "dns1123Label" => "dns1123Label",
            "dns1123Subdomain" => "dns1123Subdomain",
            "dns1035Label" => "dns1035Label",
            _ => "labelValue",
        }),
        ("lists", "range", [Value::Int(count)]) => {
            cost.spend(usize::try_from(*count).unwrap_or(0))?;
            Value::list((0..*count).map(Value::Int).collect())
        }
        ("ip", "isCanonical", [Value::Text(text)]) => {
            let ip: IpAddr = text.parse().map_err(|_| "is no address")?;
            Value::Bool(ip.to_string() == **text)
        }
        _ => return Err(format!("no function {space}.{name} of these").into()),
    })
}

/// Functions, called on the first value if it is one of a member.
pub(super) fn call(cost: &mut Cost, name: &str, member: bool, values: &[Value]) -> Evaluated {
    let wrong = || Fail::from(format!("no function {name} of these"));
    let texts: usize =
        values.iter().map(|value| if let Value::Text(text) = value { text.len() } else { 0 }).sum();
    cost.spend(texts / 10)?;
    if !member && let Some(value) = global(name, values)? {
        return Ok(value);
    }
    match values.first() {
        Some(Value::Text(text)) => of_text(name, text, &values[1..]),
        Some(Value::List(list)) => {
            cost.spend(list.len())?;
            of_list(name, list, &values[1..])
        }
        Some(Value::Quantity(quantity)) => of_quantity(name, *quantity, &values[1..]),
        Some(own) => of_others(name, own, &values[1..]),
        None => Err(wrong()),
    }
}

fn global(name: &str, values: &[Value]) -> Result<Option<Value>, Fail> {
    let Some(own) = values.first() else { return Ok(None) };
    let no = |what: &str| Fail::from(format!("is no {what}"));
    let lenient = matches!(values.get(1), Some(Value::Bool(true)));
    Ok(Some(match (name, own) {
        ("type", own) => Kind::of(own),
        ("dyn", own) => own.clone(),
        ("int", Value::Int(_))
        | ("uint", Value::Uint(_))
        | ("double", Value::Double(_))
        | ("string", Value::Text(_))
        | ("bytes", Value::Bytes(_))
        | ("bool", Value::Bool(_))
        | ("duration", Value::Duration(_))
        | ("timestamp", Value::Timestamp(_)) => own.clone(),
        ("int", Value::Uint(value)) => Value::Int((*value).try_into().map_err(|_| no("int"))?),
        ("int", Value::Double(value)) => {
            let fits = *value > -9.3e18 && *value < 9.2e18;
            if !fits {
                return Err(no("int"));
            }
            Value::Int(*value as i64)
        }
        ("int", Value::Text(text)) => Value::Int(text.parse().map_err(|_| no("int"))?),
        ("int", Value::Timestamp(nanos)) => {
            Value::Int(i64::try_from(nanos.div_euclid(SECOND)).map_err(|_| no("int"))?)
        }
        ("int", Value::Duration(nanos)) => {
            Value::Int(i64::try_from(*nanos).map_err(|_| no("int"))?)
        }
        ("uint", Value::Int(value)) => Value::Uint((*value).try_into().map_err(|_| no("uint"))?),
        ("uint", Value::Double(value)) => {
            if !(*value >= 0.0 && *value < 1.8e19) {
                return Err(no("uint"));
            }
            Value::Uint(*value as u64)
        }
        ("uint", Value::Text(text)) => Value::Uint(text.parse().map_err(|_| no("uint"))?),
        ("double", Value::Int(value)) => Value::Double(*value as f64),
        ("double", Value::Uint(value)) => Value::Double(*value as f64),
        ("double", Value::Text(text)) => Value::Double(text.parse().map_err(|_| no("double"))?),
        ("string", own) => Value::text(shown(own).ok_or_else(|| no("string"))?),
        ("bytes", Value::Text(text)) => Value::Bytes(text.as_bytes().into()),
        ("bool", Value::Text(text)) => Value::Bool(match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            _ => return Err(no("bool")),
        }),
        ("duration", Value::Text(text)) => {
            Value::Duration(duration(text).ok_or_else(|| no("duration"))?)
        }
        ("timestamp", Value::Text(text)) => {
            Value::Timestamp(timestamp(text).ok_or_else(|| no("timestamp"))?)
        }
        ("timestamp", Value::Int(seconds)) => Value::Timestamp(i128::from(*seconds) * SECOND),
        ("quantity", Value::Text(text)) => {
            Value::Quantity(quantity(text).ok_or_else(|| no("quantity"))?)
        }
        ("isQuantity", Value::Text(text)) => Value::Bool(quantity(text).is_some()),
        ("semver", Value::Text(text)) => {
            Value::Semver(Semver::parse(text, lenient).ok_or_else(|| no("version"))?.into())
        }
        ("isSemver", Value::Text(text)) => Value::Bool(Semver::parse(text, lenient).is_some()),
        ("sign", Value::Quantity(own)) => Value::Int(own.nanos().signum() as i64),
        ("url", Value::Text(text)) => {
            if !is_url(text) {
                return Err(no("url"));
            }
            Value::Url(text.clone())
        }
        ("isURL", Value::Text(text)) => Value::Bool(is_url(text)),
        ("ip", Value::Text(text)) => Value::Ip(text.parse().map_err(|_| no("address"))?),
        ("isIP", Value::Text(text)) => Value::Bool(text.parse::<IpAddr>().is_ok()),
        ("cidr", Value::Text(text)) => {
            let (ip, bits) = cidr(text).ok_or_else(|| no("network"))?;
            Value::Cidr(ip, bits)
        }
        ("isCIDR", Value::Text(text)) => Value::Bool(cidr(text).is_some()),
        _ => return Ok(None),
    }))
}

fn quantity(text: &str) -> Option<Quantity> {
    // Kubernetes takes no blanks around it here.
    if text.trim() == text { text.parse().ok() } else { None }
}

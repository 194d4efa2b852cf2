//! The evaluator.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::check::{KINDS, OVER_ELEMENTS};
use super::functions::{arithmetic, call, spaced};
use super::outcome::{Cost, Evaluated, Fail, no_overload};
use super::parse::{Expr, Operator};
use super::semver::Semver;
use super::value::{Kind, Value};
use crate::claims::selector::DeviceFacts;
use crate::model::Attribute;

pub(super) struct Evaluator<'a> {
    facts: DeviceFacts<'a>,
    variables: Vec<(&'a str, Value)>,
    cost: Cost,
    attributes: Option<Value>,
    capacity: Option<Value>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(facts: DeviceFacts<'a>) -> Evaluator<'a> {
        Evaluator {
            facts,
            variables: Vec::new(),
            cost: Cost::default(),
            attributes: None,
            capacity: None,
        }
    }

    /// Whether an expression is true.
    pub(super) fn judge<'e: 'a>(&mut self, expr: &'e Expr) -> Result<bool, String> {
        // Kubernetes converts all attributes beforehand, and fails over one that is malformed.
        for attribute in self.facts.device.attributes.values() {
            if let Attribute::Version(text) = attribute
                && Semver::parse(text, false).is_none()
            {
                return Err(format!("{text:?} is no version"));
            }
        }
        match self.eval(expr) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(format!("is of kind {:?}, not Bool", other.kind())),
            Err(Fail::Error(error)) => Err(error),
            Err(Fail::Cost) => Err("costs more than is allowed".into()),
        }
    }

    fn eval(&mut self, expr: &'a Expr) -> Evaluated {
        self.cost.spend(1)?;
        Ok(match expr {
            Expr::Null => Value::Null,
            Expr::Bool(value) => Value::Bool(*value),
            Expr::Int(value) => Value::Int(*value),
            Expr::Uint(value) => Value::Uint(*value),
            Expr::Double(value) => Value::Double(*value),
            Expr::Text(text) => Value::text(text.as_str()),
            Expr::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
            Expr::Name(name) => return self.name(name),
            Expr::Field(of, name, optional) => return self.field(of, name, *optional),
            Expr::Index(of, index, optional) => return self.index(of, index, *optional),
            Expr::Call(name, of, arguments) => return self.call(name, of.as_deref(), arguments),
            Expr::List(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                for (element, optional) in elements {
                    match self.eval(element)? {
                        Value::Optional(inner) if *optional => {
                            values.extend(inner.map(|inner| *inner));
                        }
                        _ if *optional => return Err("is no optional".into()),
                        value => values.push(value),
                    }
                }
                Value::list(values)
            }
            Expr::Map(entries) => {
                let mut values: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
                for (key, value, optional) in entries {
                    let key = self.eval(key)?;
                    let value = match self.eval(value)? {
                        Value::Optional(None) if *optional => continue,
                        Value::Optional(Some(inner)) if *optional => *inner,
                        value => value,
                    };
                    if values.iter().any(|(own, _)| own.equals(&key)) {
                        return Err("has a key twice".into());
                    }
                    values.push((key, value));
                }
                Value::Map(values.into())
            }
            Expr::Not(inner) => match self.eval(inner)? {
                Value::Bool(value) => Value::Bool(!value),
                other => return Err(no_overload("!", &other)),
            },
            Expr::Negate(inner) => match self.eval(inner)? {
                Value::Int(value) => Value::Int(value.checked_neg().ok_or("overflows")?),
                Value::Double(value) => Value::Double(-value),
                other => return Err(no_overload("-", &other)),
            },
            Expr::Binary(operator, left, right) => return self.binary(*operator, left, right),
            Expr::Choose(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => return self.eval(then),
                    Value::Bool(false) => return self.eval(otherwise),
                    other => return Err(no_overload("?", &other)),
                }
            }
        })
    }

    fn name(&self, name: &str) -> Evaluated {
        let known = self.variables.iter().rev().find(|(own, _)| *own == name);
        if let Some((_, value)) = known {
            return Ok(value.clone());
        }
        if name == "device" {
            return Ok(Value::Device);
        }
        let kind = KINDS.iter().find(|(own, _)| *own == name);
        kind.map(|(_, kind)| Value::Type(*kind)).ok_or_else(|| format!("no {name:?}").into())
    }

    fn field(&mut self, of: &'a Expr, name: &str, optional: bool) -> Evaluated {
        let of = self.eval(of)?;
        if let Value::Device = of {
            let value = self.device_field(name)?;
            return Ok(if optional { Value::some(value) } else { value });
        }
        entry(&of, &Value::text(name), optional)
    }

    fn device_field(&mut self, name: &str) -> Evaluated {
        let DeviceFacts { driver, device } = self.facts;
        match name {
            "driver" => Ok(Value::text(driver)),
            "allowMultipleAllocations" => Ok(Value::Bool(device.shareable)),
            "attributes" => {
                if self.attributes.is_none() {
                    let all = device.attributes.iter();
                    let values = all.map(|(name, value)| (&**name, attribute(value)));
                    self.attributes = Some(by_domain(driver, values));
                }
                Ok(self.attributes.clone().unwrap_or(Value::Null))
            }
            "capacity" => {
                if self.capacity.is_none() {
                    let all = device.capacity.iter();
                    let values = all.map(|(name, own)| (&**name, Value::Quantity(own.value)));
                    self.capacity = Some(by_domain(driver, values));
                }
                Ok(self.capacity.clone().unwrap_or(Value::Null))
            }
            _ => Err(format!("device has no field {name:?}").into()),
        }
    }

    fn index(&mut self, of: &'a Expr, index: &'a Expr, optional: bool) -> Evaluated {
        let of = self.eval(of)?;
        let index = self.eval(index)?;
        entry(&of, &index, optional)
    }

    fn truth(&mut self, expr: &'a Expr) -> Result<bool, Fail> {
        match self.eval(expr)? {
            Value::Bool(value) => Ok(value),
            other => Err(no_overload("a truth", &other)),
        }
    }

    fn binary(&mut self, operator: Operator, left: &'a Expr, right: &'a Expr) -> Evaluated {
        if let Operator::Or | Operator::And = operator {
            let decides = operator == Operator::Or;
            let first = self.truth(left);
            match first {
                Ok(value) if value == decides => return Ok(Value::Bool(decides)),
                Err(Fail::Cost) => return Err(Fail::Cost),
                _ => {}
            }
            let second = self.truth(right)?;
            return if second == decides {
                Ok(Value::Bool(decides))
            } else {
                first.map(Value::Bool)
            };
        }
        let (a, b) = (self.eval(left)?, self.eval(right)?);
        let ordered = || {
            let mismatch = || format!("no order of {:?} and {:?}", a.kind(), b.kind());
            if a.kind().is_ordered_with(b.kind()) { Ok(a.compare(&b)) } else { Err(mismatch()) }
        };
        Ok(Value::Bool(match operator {
            // Quantities, versions and the like compare with their own kind alone.
            Operator::Equal | Operator::Unequal if a.is_particular() && a.kind() != b.kind() => {
                return Err(no_overload("==", &b));
            }
            Operator::Equal => a.equals(&b),
            Operator::Unequal => !a.equals(&b),
            Operator::Less => ordered()?.is_some_and(core::cmp::Ordering::is_lt),
            Operator::LessOrEqual => ordered()?.is_some_and(core::cmp::Ordering::is_le),
            Operator::Greater => ordered()?.is_some_and(core::cmp::Ordering::is_gt),
            Operator::GreaterOrEqual => ordered()?.is_some_and(core::cmp::Ordering::is_ge),
            Operator::In => match &b {
                Value::List(values) => {
                    self.cost.spend(values.len())?;
                    values.iter().any(|value| value.equals(&a))
                }
                Value::Map(_) | Value::Domains(_) => b.has(&a),
                other => return Err(no_overload("in", other)),
            },
            _ => return arithmetic(&mut self.cost, operator, &a, &b),
        }))
    }

    fn call(&mut self, name: &'a str, of: Option<&'a Expr>, arguments: &'a [Expr]) -> Evaluated {
        match (of, name, arguments) {
            (None, "has", [Expr::Field(of, name, _)]) => {
                let of = self.eval(of)?;
                return Ok(Value::Bool(match &of {
                    Value::Device => true,
                    Value::Map(_) | Value::Domains(_) => of.has(&Value::text(name.as_str())),
                    Value::Optional(inner) => {
                        inner.as_ref().is_some_and(|inner| inner.has(&Value::text(name.as_str())))
                    }
                    other => return Err(no_overload("has", other)),
                }));
            }
            (Some(Expr::Name(space)), _, _) if self.is_space(space) => {
                if let ("cel", "bind", [Expr::Name(variable), value, body]) =
                    (&**space, name, arguments)
                {
                    let value = self.eval(value)?;
                    self.variables.push((variable, value));
                    let value = self.eval(body);
                    self.variables.pop();
                    return value;
                }
                let values = self.all(arguments)?;
                return spaced(&mut self.cost, space, name, &values);
            }
            (Some(of), _, [Expr::Name(variable), body @ ..])
                if OVER_ELEMENTS.contains(&name) && !body.is_empty() =>
            {
                let of = self.eval(of)?;
                return self.over_elements(name, &of, variable, body);
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(1 + arguments.len());
        if let Some(of) = of {
            values.push(self.eval(of)?);
        }
        values.extend(self.all(arguments)?);
        call(&mut self.cost, name, of.is_some(), &values)
    }

    fn is_space(&self, name: &str) -> bool {
        name != "device" && !self.variables.iter().any(|(own, _)| *own == name)
    }

    fn all(&mut self, exprs: &'a [Expr]) -> Result<Vec<Value>, Fail> {
        exprs.iter().map(|expr| self.eval(expr)).collect()
    }

    /// A macro over the elements of a list or the keys of a map.
    fn over_elements(
        &mut self,
        name: &str,
        of: &Value,
        variable: &'a str,
        body: &'a [Expr],
    ) -> Evaluated {
        let elements: Vec<Value> = match of {
            Value::List(values) => values.to_vec(),
            Value::Map(entries) | Value::Domains(entries) => {
                entries.iter().map(|(key, _)| key.clone()).collect()
            }
            other => return Err(no_overload(name, other)),
        };
        let (mut list, mut count, mut failed) = (Vec::new(), 0, None);
        for element in elements {
            self.variables.push((variable, element.clone()));
            let first = self.eval(&body[0]);
            let second = match (&first, body.get(1)) {
                (Ok(Value::Bool(true)), Some(second)) => Some(self.eval(second)),
                _ => None,
            };
            self.variables.pop();
            let truth = match &first {
                Ok(Value::Bool(value)) => Ok(*value),
                Ok(other) => Err(no_overload(name, other)),
                Err(fail) => Err(fail.clone()),
            };
            match name {
                "all" | "exists" => match truth {
                    Ok(value) if value == (name == "exists") => return Ok(Value::Bool(value)),
                    Ok(_) => {}
                    Err(Fail::Cost) => return Err(Fail::Cost),
                    Err(fail) => failed = failed.or(Some(fail)),
                },
                "map" if body.len() == 1 => list.push(first?),
                "map" => {
                    if truth? {
                        list.extend(second.transpose()?);
                    }
                }
                "filter" => {
                    if truth? {
                        list.push(element);
                    }
                }
                _ => count += usize::from(truth?),
            }
        }
        match (failed, name) {
            (Some(fail), _) => Err(fail),
            (None, "all" | "exists") => Ok(Value::Bool(name == "all")),
            (None, "map" | "filter") => Ok(Value::list(list)),
            _ => Ok(Value::Bool(count == 1)),
        }
    }
}

/// A field or an entry of a value.
fn entry(of: &Value, key: &Value, optional: bool) -> Evaluated {
    let found = match of {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => return entry(inner, key, true),
        Value::Map(_) | Value::Domains(_) => of.entry(key),
        Value::List(values) => {
            let at = match key {
                Value::Int(at) => usize::try_from(*at).ok(),
                Value::Uint(at) => usize::try_from(*at).ok(),
                other => return Err(no_overload("an index", other)),
            };
            at.and_then(|at| values.get(at)).cloned()
        }
        other => return Err(no_overload("an entry", other)),
    };
    match (found, optional) {
        (Some(value), true) => Ok(Value::some(value)),
        (None, true) => Ok(Value::Optional(None)),
        (Some(value), false) => Ok(value),
        (None, false) => Err("no such key".into()),
    }
}

fn attribute(value: &Attribute) -> Value {
    match value {
        Attribute::Int(value) => Value::Int(*value),
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::Text(text) => Value::text(text.as_str()),
        Attribute::Version(text) => match Semver::parse(text, false) {
            Some(version) => Value::Semver(Arc::new(version)),
            None => Value::Null,
        },
    }
}

/// Values by domain, then by name. Names without a domain are of the driver's.
fn by_domain<'v>(driver: &str, values: impl Iterator<Item = (&'v str, Value)>) -> Value {
    let mut domains: BTreeMap<&str, Vec<(Value, Value)>> = BTreeMap::new();
    for (name, value) in values {
        let (domain, id) = name.rsplit_once('/').unwrap_or((driver, name));
        domains.entry(domain).or_default().push((Value::text(id), value));
    }
    let domains = domains.into_iter();
    let entries = domains.map(|(domain, own)| (Value::text(domain), Value::Map(own.into())));
    Value::Domains(entries.collect::<Vec<_>>().into())
}

impl Kind {
    /// The name of the kind, as its value.
    pub(super) fn of(value: &Value) -> Value {
        Value::Type(value.kind())
    }
}

//! Static facts about an expression: names, functions, and kinds as far as they are plain.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::parse::{Expr, Operator};
use super::value::Kind;

use Kind::{
    Bool, Bytes, Cidr, Double, Duration, Dyn, Format, Int, Ip, List, Map, Optional, Quantity,
    Semver, Text, Timestamp, Uint, Url,
};

/// A function: its name, the kinds that it takes as its first, the least and the most arguments
/// beside it, and the kind of its value.
type Signature = (&'static str, &'static [Kind], usize, usize, Kind);

/// Functions that are called on something.
#[rustfmt::skip]
const MEMBERS: &[Signature] = &[
    ("size", &[Text, Bytes, List, Map], 0, 0, Int),
    ("startsWith", &[Text], 1, 1, Bool), ("endsWith", &[Text], 1, 1, Bool),
    ("contains", &[Text], 1, 1, Bool), ("matches", &[Text], 1, 1, Bool),
    ("find", &[Text], 1, 1, Text), ("findAll", &[Text], 1, 2, List),
    ("charAt", &[Text], 1, 1, Text), ("indexOf", &[Text, List], 1, 2, Int),
    ("lastIndexOf", &[Text, List], 1, 2, Int), ("lowerAscii", &[Text], 0, 0, Text),
    ("upperAscii", &[Text], 0, 0, Text), ("replace", &[Text], 2, 3, Text),
    ("split", &[Text], 1, 2, List), ("substring", &[Text], 1, 2, Text),
    ("trim", &[Text], 0, 0, Text), ("join", &[List], 0, 1, Text), ("format", &[Text], 1, 1, Text),
    ("reverse", &[List], 0, 0, List), ("sum", &[List], 0, 0, Dyn), ("min", &[List], 0, 0, Dyn),
    ("max", &[List], 0, 0, Dyn), ("isSorted", &[List], 0, 0, Bool),
    ("distinct", &[List], 0, 0, List), ("flatten", &[List], 0, 1, List),
    ("slice", &[List], 2, 2, List), ("sort", &[List], 0, 0, List),
    ("compareTo", &[Quantity, Semver], 1, 1, Int), ("isGreaterThan", &[Quantity, Semver], 1, 1, Bool),
    ("isLessThan", &[Quantity, Semver], 1, 1, Bool), ("add", &[Quantity], 1, 1, Quantity),
    ("sub", &[Quantity], 1, 1, Quantity), ("asInteger", &[Quantity], 0, 0, Int),
    ("isInteger", &[Quantity], 0, 0, Bool), ("asApproximateFloat", &[Quantity], 0, 0, Double),
    ("major", &[Semver], 0, 0, Int), ("minor", &[Semver], 0, 0, Int),
    ("patch", &[Semver], 0, 0, Int), ("hasValue", &[Optional], 0, 0, Bool),
    ("value", &[Optional], 0, 0, Dyn), ("orValue", &[Optional], 1, 1, Dyn),
    ("or", &[Optional], 1, 1, Optional), ("family", &[Ip], 0, 0, Int),
    ("isUnspecified", &[Ip], 0, 0, Bool), ("isLoopback", &[Ip], 0, 0, Bool),
    ("containsIP", &[Cidr], 1, 1, Bool), ("containsCIDR", &[Cidr], 1, 1, Bool),
    ("ip", &[Cidr], 0, 0, Ip), ("masked", &[Cidr], 0, 0, Cidr),
    ("prefixLength", &[Cidr], 0, 0, Int), ("getScheme", &[Url], 0, 0, Text),
    ("getHost", &[Url], 0, 0, Text), ("getHostname", &[Url], 0, 0, Text),
    ("getPort", &[Url], 0, 0, Text), ("getEscapedPath", &[Url], 0, 0, Text),
    ("validate", &[Format], 1, 1, Optional), ("includes", &[], 1, 1, Bool),
    ("getHours", &[Duration], 0, 0, Int), ("getMinutes", &[Duration], 0, 0, Int),
    ("getSeconds", &[Duration], 0, 0, Int), ("getMilliseconds", &[Duration], 0, 0, Int),
];

/// Functions that are called on nothing.
#[rustfmt::skip]
const GLOBALS: &[Signature] = &[
    ("size", &[Text, Bytes, List, Map], 1, 1, Int), ("type", &[], 1, 1, Kind::Type),
    ("dyn", &[], 1, 1, Dyn),
    ("int", &[Int, Uint, Double, Text, Duration, Timestamp], 1, 1, Int),
    ("uint", &[Int, Uint, Double, Text], 1, 1, Uint),
    ("double", &[Int, Uint, Double, Text], 1, 1, Double),
    ("string", &[Int, Uint, Double, Text, Bool, Bytes, Ip, Cidr, Duration, Timestamp], 1, 1, Text),
    ("bytes", &[Bytes, Text], 1, 1, Bytes), ("bool", &[Bool, Text], 1, 1, Bool),
    ("duration", &[Text, Duration], 1, 1, Duration),
    ("timestamp", &[Text, Timestamp, Int], 1, 1, Timestamp),
    ("quantity", &[Text], 1, 1, Quantity), ("isQuantity", &[Text], 1, 1, Bool),
    ("semver", &[Text], 1, 2, Semver), ("isSemver", &[Text], 1, 2, Bool),
    ("sign", &[Quantity], 1, 1, Int), ("url", &[Text], 1, 1, Url), ("isURL", &[Text], 1, 1, Bool),
    ("ip", &[Text], 1, 1, Ip), ("isIP", &[Text], 1, 1, Bool), ("cidr", &[Text], 1, 1, Cidr),
    ("isCIDR", &[Text], 1, 1, Bool), ("matches", &[Text], 2, 2, Bool),
];

/// Formats of names.
const FORMATS: [&str; 4] = ["dns1123Label", "dns1123Subdomain", "dns1035Label", "labelValue"];

/// Names of kinds.
pub(super) const KINDS: [(&str, Kind); 10] = [
    ("bool", Bool),
    ("int", Int),
    ("uint", Uint),
    ("double", Double),
    ("string", Text),
    ("bytes", Bytes),
    ("list", List),
    ("map", Map),
    ("null_type", Kind::Null),
    ("type", Kind::Type),
];

/// Macros over the elements of a list or the keys of a map.
pub(super) const OVER_ELEMENTS: [&str; 6] =
    ["all", "exists", "exists_one", "existsOne", "map", "filter"];

/// Checks an expression, which must be true or false.
pub(super) fn check(expr: &Expr) -> Result<(), String> {
    let kind = Checker::default().kind(expr)?;
    if Kind::Bool.meets(kind) { Ok(()) } else { Err(format!("is of kind {kind:?}, not Bool")) }
}

#[derive(Default)]
struct Checker<'a> {
    variables: Vec<(&'a str, Kind)>,
}

type Checked = Result<Kind, String>;

fn wrong(what: &str, kind: Kind) -> String {
    format!("{what} takes no {kind:?}")
}

impl<'a> Checker<'a> {
    fn all(&mut self, exprs: &'a [Expr]) -> Result<Vec<Kind>, String> {
        exprs.iter().map(|expr| self.kind(expr)).collect()
    }

    fn need(&mut self, expr: &'a Expr, of: &[Kind], what: &str) -> Checked {
        let kind = self.kind(expr)?;
        let fits = of.is_empty() || of.iter().any(|of| of.meets(kind));
        if fits { Ok(kind) } else { Err(wrong(what, kind)) }
    }

    fn kind(&mut self, expr: &'a Expr) -> Checked {
        Ok(match expr {
            Expr::Null => Kind::Null,
            Expr::Bool(_) => Bool,
            Expr::Int(_) => Int,
            Expr::Uint(_) => Uint,
            Expr::Double(_) => Double,
            Expr::Text(_) => Text,
            Expr::Bytes(_) => Bytes,
            Expr::Name(name) => return self.name(name),
            Expr::Field(of, name, optional) => {
                let kind = self.need(of, &[Map, Optional, Kind::Device], "a field")?;
                let kind = if kind == Kind::Device { device_field(name)? } else { member(expr) };
                if *optional { Optional } else { kind }
            }
            Expr::Index(of, index, optional) => {
                let kind = self.need(of, &[Map, List, Optional], "an index")?;
                self.kind(index)?;
                if *optional || kind == Optional { Optional } else { member(expr) }
            }
            Expr::Call(name, of, arguments) => return self.call(name, of.as_deref(), arguments),
            Expr::List(elements) => {
                for (element, _) in elements {
                    self.kind(element)?;
                }
                List
            }
            Expr::Map(entries) => {
                for (key, value, _) in entries {
                    self.kind(key)?;
                    self.kind(value)?;
                }
                Map
            }
            Expr::Not(inner) => self.need(inner, &[Bool], "!").map(|_| Bool)?,
            Expr::Negate(inner) => self.need(inner, &[Int, Double], "-")?,
            Expr::Binary(operator, left, right) => return self.binary(*operator, left, right),
            Expr::Choose(parts) => {
                let [condition, then, otherwise] = &**parts;
                self.need(condition, &[Bool], "?")?;
                let (then, otherwise) = (self.kind(then)?, self.kind(otherwise)?);
                if !then.meets(otherwise) {
                    return Err(format!("? has a {then:?} and a {otherwise:?}"));
                }
                if then == otherwise { then } else { Dyn }
            }
        })
    }

    fn name(&self, name: &str) -> Checked {
        if let Some((_, kind)) = self.variables.iter().rev().find(|(own, _)| *own == name) {
            return Ok(*kind);
        }
        if name == "device" {
            return Ok(Kind::Device);
        }
        if KINDS.iter().any(|(own, _)| *own == name) {
            return Ok(Kind::Type);
        }
        Err(format!("{name:?} is not known"))
    }

    fn binary(&mut self, operator: Operator, left: &'a Expr, right: &'a Expr) -> Checked {
        let (a, b) = (self.kind(left)?, self.kind(right)?);
        let mismatch = || Err(format!("{operator:?} takes no {a:?} and {b:?}"));
        match operator {
            Operator::Or | Operator::And => {
                if Bool.meets(a) && Bool.meets(b) {
                    Ok(Bool)
                } else {
                    mismatch()
                }
            }
            Operator::Equal | Operator::Unequal => {
                if a.meets(b) {
                    Ok(Bool)
                } else {
                    mismatch()
                }
            }
            Operator::In => {
                if List.meets(b) || Map.meets(b) {
                    Ok(Bool)
                } else {
                    mismatch()
                }
            }
            Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Remainder => {
                let numbers = [Int, Uint, Double];
                let sums = [Text, Bytes, List, Duration, Timestamp];
                let fits = |kind: Kind| {
                    kind == Dyn
                        || numbers.contains(&kind)
                        || operator == Operator::Add && sums.contains(&kind)
                        || operator == Operator::Subtract && sums[3..].contains(&kind)
                };
                let times = sums[3..].contains(&a) && sums[3..].contains(&b);
                if !(fits(a) && fits(b) && (a.meets(b) || times)) {
                    return mismatch();
                }
                Ok(if a == b { a } else { Dyn })
            }
            _ => {
                if a.is_ordered_with(b) {
                    Ok(Bool)
                } else {
                    mismatch()
                }
            }
        }
    }

    fn call(&mut self, name: &'a str, of: Option<&'a Expr>, arguments: &'a [Expr]) -> Checked {
        match (of, name, arguments) {
            (None, "has", [Expr::Field(..)]) => {
                self.kind(&arguments[0])?;
                return Ok(Bool);
            }
            (Some(Expr::Name(space)), _, _) if !self.knows(space) => {
                return self.spaced(space, name, arguments);
            }
            (Some(of), _, [Expr::Name(variable), body @ ..])
                if OVER_ELEMENTS.contains(&name) && !body.is_empty() =>
            {
                self.need(of, &[List, Map], name)?;
                let most = if name == "map" { 2 } else { 1 };
                if body.len() > most {
                    return Err(format!("{name} has too many arguments"));
                }
                self.variables.push((variable, Dyn));
                let kinds = self.all(body);
                self.variables.pop();
                let kinds = kinds?;
                let truths = if name == "map" { &kinds[..kinds.len() - 1] } else { &kinds[..] };
                if !truths.iter().all(|kind| Bool.meets(*kind)) {
                    return Err(format!("{name} takes what is true or false"));
                }
                return Ok(if matches!(name, "map" | "filter") { List } else { Bool });
            }
            _ => {}
        }
        let table = if of.is_some() { MEMBERS } else { GLOBALS };
        let Some((_, first, least, most, kind)) = table.iter().find(|own| own.0 == name) else {
            return Err(format!("function {name:?} is not known"));
        };
        let count = arguments.len();
        if count < *least || count > *most {
            return Err(format!("{name} takes {least} to {most} arguments"));
        }
        let own = of.or(arguments.first());
        let mut own_kind = Dyn;
        if let Some(own) = own {
            own_kind = self.need(own, first, name)?;
        }
        let rest = if of.is_some() { arguments } else { arguments.get(1..).unwrap_or(&[]) };
        let kinds = self.all(rest)?;
        let alike = matches!(name, "compareTo" | "isGreaterThan" | "isLessThan");
        let texts =
            matches!(name, "startsWith" | "endsWith" | "contains" | "matches" | "find" | "split");
        let fits = kinds.iter().all(|kind| match name {
            _ if alike => own_kind.meets(*kind),
            _ if texts && kinds.len() == 1 => Text.meets(*kind),
            "add" | "sub" => Quantity.meets(*kind) || Int.meets(*kind),
            _ => true,
        });
        if fits { Ok(*kind) } else { Err(format!("{name} takes no {kinds:?}")) }
    }

    fn knows(&self, name: &str) -> bool {
        name == "device" || self.variables.iter().any(|(own, _)| *own == name)
    }

    /// A function of a name space.
    fn spaced(&mut self, space: &str, name: &'a str, arguments: &'a [Expr]) -> Checked {
        match (space, name, arguments) {
            ("cel", "bind", [Expr::Name(variable), value, body]) => {
                let kind = self.kind(value)?;
                self.variables.push((variable, kind));
                let kind = self.kind(body);
                self.variables.pop();
                kind
            }
            ("optional", "none", []) => Ok(Optional),
            ("optional", "of" | "ofNonZeroValue", [value]) => self.kind(value).map(|_| Optional),
            ("sets", "contains" | "equivalent" | "intersects", [a, b]) => {
                self.need(a, &[List], name)?;
                self.need(b, &[List], name).map(|_| Bool)
            }
            ("format", _, []) if FORMATS.contains(&name) => Ok(Format),
            ("lists", "range", [count]) => self.need(count, &[Int], name).map(|_| List),
            ("ip", "isCanonical", [text]) => self.need(text, &[Text], name).map(|_| Bool),
            _ => Err(format!("function {space}.{name} is not known")),
        }
    }
}

fn device_field(name: &str) -> Checked {
    match name {
        "driver" => Ok(Text),
        "attributes" | "capacity" => Ok(Map),
        "allowMultipleAllocations" => Ok(Bool),
        _ => Err(format!("device has no field {name:?}")),
    }
}

/// The kind of a field or an entry: a capacity, the attributes or the capacities of a domain, or not
/// known.
fn member(expr: &Expr) -> Kind {
    let Some(of) = inside(expr) else { return Dyn };
    if device_map(of).is_some() {
        return Map;
    }
    match inside(of).and_then(device_map) {
        Some("capacity") => Quantity,
        _ => Dyn,
    }
}

/// The expression that a field or an entry belongs to.
fn inside(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Field(of, ..) | Expr::Index(of, ..) => Some(of),
        _ => None,
    }
}

/// The field of the device that an expression is.
fn device_map(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Field(of, name, false) => {
            matches!(&**of, Expr::Name(own) if own == "device").then_some(&**name)
        }
        _ => None,
    }
}

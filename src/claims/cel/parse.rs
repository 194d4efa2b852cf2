//! Expressions from their text.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The longest text, as Kubernetes has it.
const LONGEST: usize = 10 << 10;
/// The deepest nesting.
const DEEPEST: usize = 64;

/// The most operators and members.
const MOST_LINKS: usize = 1_000;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Name(String),
    /// A field; whether it is optional.
    Field(Box<Expr>, String, bool),
    /// An entry; whether it is optional.
    Index(Box<Expr>, Box<Expr>, bool),
    /// A function, what it is called on, and its arguments.
    Call(String, Option<Box<Expr>>, Vec<Expr>),
    /// Elements; whether each is optional.
    List(Vec<(Expr, bool)>),
    /// Entries; whether each is optional.
    Map(Vec<(Expr, Expr, bool)>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Choose(Box<[Expr; 3]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Name(String),
    Sign(&'static str),
}

/// Signs, longer ones first.
const SIGNS: [&str; 27] = [
    "&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "{?", "(", ")", "[", "]", "{", "}", ".", ",",
    "?", ":", "+", "-", "*", "/", "%", "!", "<", ">",
];

/// Operators by how closely they bind, loosest first.
const LEVELS: [&[(&str, Operator)]; 5] = [
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

type Parsed<T> = Result<T, String>;

/// Reads an expression.
pub(super) fn parse(text: &str) -> Parsed<Expr> {
    if text.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, links: 0 };
    let expr = parser.expr()?;
    if parser.at < parser.tokens.len() {
        return Err(String::from("has something after its end"));
    }
    Ok(expr)
}

fn tokens(text: &str) -> Parsed<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        if let Some((token, left)) = quoted(rest)? {
            tokens.push(token);
            rest = left;
            continue;
        }
        if first.is_ascii_digit()
            || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            let (token, left) = number(rest)?;
            tokens.push(token);
            rest = left;
            continue;
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..end].into()));
            rest = &rest[end..];
            continue;
        }
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        let Some(sign) = sign else { return Err(format!("has a stray {first:?}")) };
        tokens.push(Token::Sign(sign));
        rest = &rest[sign.len()..];
    }
}

fn number(text: &str) -> Parsed<(Token, &str)> {
    let wrong = || String::from("has a number that is none");
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let value = u64::from_str_radix(&hex[..end], 16).map_err(|_| wrong())?;
        let rest = &hex[end..];
        return Ok(match rest.strip_prefix(['u', 'U']) {
            Some(rest) => (Token::Uint(value), rest),
            None => (Token::Int(value), rest),
        });
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut end = digits(text);
    let mut real = false;
    if text[end..].starts_with('.') && digits(&text[end + 1..]) > 0 {
        real = true;
        end += 1 + digits(&text[end + 1..]);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[end + 1 + sign..]);
        if exponent > 0 {
            real = true;
            end += 1 + sign + exponent;
        }
    }
    let (number, rest) = text.split_at(end);
    if real {
        return Ok((Token::Double(number.parse().map_err(|_| wrong())?), rest));
    }
    let value = number.parse().map_err(|_| wrong())?;
    Ok(match rest.strip_prefix(['u', 'U']) {
        Some(rest) => (Token::Uint(value), rest),
        None => (Token::Int(value), rest),
    })
}

/// A text or bytes in quotes, if the text begins with one.
fn quoted(text: &str) -> Parsed<Option<(Token, &str)>> {
    let (mut raw, mut bytes, mut rest) = (false, false, text);
    for _ in 0..2 {
        match rest.as_bytes().first() {
            Some(b'r' | b'R') if !raw => raw = true,
            Some(b'b' | b'B') if !bytes => bytes = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
    let Some(quote) = quote else { return Ok(None) };
    rest = &rest[quote.len()..];
    let mut content = Vec::new();
    loop {
        if let Some(left) = rest.strip_prefix(quote) {
            let token = if bytes {
                Token::Bytes(content)
            } else {
                Token::Text(String::from_utf8(content).map_err(|_| String::from("is no text"))?)
            };
            return Ok(Some((token, left)));
        }
        let Some(next) = rest.chars().next() else { return Err("has a text without end".into()) };
        if next == '\n' && quote.len() == 1 {
            return Err("has a text without end".into());
        }
        if next == '\\' && !raw {
            rest = escape(&rest[1..], bytes, &mut content)?;
            continue;
        }
        content.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[next.len_utf8()..];
    }
}

fn escape<'a>(text: &'a str, bytes: bool, content: &mut Vec<u8>) -> Parsed<&'a str> {
    let wrong = || String::from("has an escape that is none");
    let first = text.chars().next().ok_or_else(wrong)?;
    let plain = match first {
        'a' => Some(7),
        'b' => Some(8),
        'f' => Some(12),
        'n' => Some(b'\n'),
        'r' => Some(b'\r'),
        't' => Some(b'\t'),
        'v' => Some(11),
        '\\' | '\'' | '"' | '`' | '?' => Some(first as u8),
        _ => None,
    };
    if let Some(plain) = plain {
        content.push(plain);
        return Ok(&text[1..]);
    }
    let (from, digits, radix) = match first {
        'x' | 'X' => (1, 2, 16),
        'u' => (1, 4, 16),
        'U' => (1, 8, 16),
        '0'..='3' => (0, 3, 8),
        _ => return Err(wrong()),
    };
    let number = text.get(from..from + digits).ok_or_else(wrong)?;
    let code = u32::from_str_radix(number, radix).map_err(|_| wrong())?;
    if bytes && digits < 4 {
        content.push(code as u8);
    } else {
        let code = char::from_u32(code).ok_or_else(wrong)?;
        content.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&text[from + digits..])
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    links: usize,
}

impl Parser {
    fn eat(&mut self, sign: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some(Token::Sign(next)) if *next == sign);
        self.at += usize::from(is);
        is
    }

    fn need(&mut self, sign: &str) -> Parsed<()> {
        if self.eat(sign) { Ok(()) } else { Err(format!("lacks a {sign:?}")) }
    }

    /// One more operator or member, each of which holds what is before it.
    fn link(&mut self) -> Parsed<()> {
        self.links += 1;
        if self.links > MOST_LINKS { Err(String::from("has too many operators")) } else { Ok(()) }
    }

    fn name(&mut self) -> Parsed<String> {
        match self.tokens.get(self.at) {
            Some(Token::Name(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => Err(String::from("lacks a name")),
        }
    }

    fn expr(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(String::from("is nested too deeply"));
        }
        let condition = self.level(0)?;
        let expr = if self.eat("?") {
            let then = self.level(0)?;
            self.need(":")?;
            let otherwise = self.expr()?;
            Expr::Choose(Box::new([condition, then, otherwise]))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn level(&mut self, level: usize) -> Parsed<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            let found = operators.iter().find(|(sign, _)| self.eat(sign)).map(|(_, own)| *own);
            let is_in = level == 2
                && matches!(self.tokens.get(self.at), Some(Token::Name(name)) if name == "in");
            let operator = match found {
                Some(operator) => operator,
                None if is_in => {
                    self.at += 1;
                    Operator::In
                }
                None => return Ok(left),
            };
            self.link()?;
            let right = self.level(level + 1)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        for (sign, wrap) in [("!", Expr::Not as fn(Box<Expr>) -> Expr), ("-", Expr::Negate)] {
            if self.eat(sign) {
                if sign == "-"
                    && let Some(Token::Int(value)) = self.tokens.get(self.at)
                {
                    let value = 0_i128 - i128::from(*value);
                    self.at += 1;
                    let value = i64::try_from(value).map_err(|_| "has too large a number")?;
                    return self.members(Expr::Int(value));
                }
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(String::from("is nested too deeply"));
                }
                let inner = self.unary()?;
                self.depth -= 1;
                return Ok(wrap(Box::new(inner)));
            }
        }
        let primary = self.primary()?;
        self.members(primary)
    }

    fn members(&mut self, mut of: Expr) -> Parsed<Expr> {
        loop {
            self.link()?;
            if self.eat(".?") {
                of = Expr::Field(Box::new(of), self.name()?, true);
            } else if self.eat(".") {
                let name = self.name()?;
                of = if self.eat("(") {
                    Expr::Call(name, Some(Box::new(of)), self.arguments()?)
                } else {
                    Expr::Field(Box::new(of), name, false)
                };
            } else if self.eat("[?") {
                let index = self.expr()?;
                self.need("]")?;
                of = Expr::Index(Box::new(of), Box::new(index), true);
            } else if self.eat("[") {
                let index = self.expr()?;
                self.need("]")?;
                of = Expr::Index(Box::new(of), Box::new(index), false);
            } else {
                return Ok(of);
            }
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.eat(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expr()?);
            if !self.eat(",") {
                self.need(")")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.tokens.get(self.at).cloned().ok_or("ends too early")?;
        self.at += 1;
        Ok(match token {
            Token::Int(value) => {
                Expr::Int(i64::try_from(value).map_err(|_| "has too large a number")?)
            }
            Token::Uint(value) => Expr::Uint(value),
            Token::Double(value) => Expr::Double(value),
            Token::Text(text) => Expr::Text(text),
            Token::Bytes(bytes) => Expr::Bytes(bytes),
            Token::Name(name) => match &*name {
                "true" => Expr::Bool(true),
                "false" => Expr::Bool(false),
                "null" => Expr::Null,
                "in" => return Err(String::from("has a stray \"in\"")),
                _ if self.eat("(") => Expr::Call(name, None, self.arguments()?),
                _ => Expr::Name(name),
            },
            Token::Sign("(") => {
                let inner = self.expr()?;
                self.need(")")?;
                inner
            }
            Token::Sign("[") => self.list(false)?,
            Token::Sign("[?") => self.list(true)?,
            Token::Sign("{") => self.map(false)?,
            Token::Sign("{?") => self.map(true)?,
            Token::Sign(".") => {
                let name = self.name()?;
                if self.eat("(") {
                    Expr::Call(name, None, self.arguments()?)
                } else {
                    Expr::Name(name)
                }
            }
            Token::Sign(sign) => return Err(format!("has a stray {sign:?}")),
        })
    }

    fn list(&mut self, mut optional: bool) -> Parsed<Expr> {
        let mut elements = Vec::new();
        loop {
            if !optional && self.eat("]") {
                return Ok(Expr::List(elements));
            }
            optional |= self.eat("?");
            elements.push((self.expr()?, core::mem::take(&mut optional)));
            if !self.eat(",") {
                self.need("]")?;
                return Ok(Expr::List(elements));
            }
        }
    }

    fn map(&mut self, mut optional: bool) -> Parsed<Expr> {
        let mut entries = Vec::new();
        loop {
            if !optional && self.eat("}") {
                return Ok(Expr::Map(entries));
            }
            optional |= self.eat("?");
            let key = self.expr()?;
            self.need(":")?;
            entries.push((key, self.expr()?, core::mem::take(&mut optional)));
            if !self.eat(",") {
                self.need("}")?;
                return Ok(Expr::Map(entries));
            }
        }
    }
}

#[cfg(test)]
mod tests;

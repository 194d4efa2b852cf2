//! Requests and answers of the stand-in as they go over the wire, and patches.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

use serde_json::{Value, json};

/// A request.
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub strategic: bool,
    pub body: Value,
}

/// A line of a watch.
pub fn line(change: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": change, "object": object}))
}

/// A refusal.
pub fn failure(status: u16, message: &str) -> (u16, Value) {
    (status, json!({"kind": "Status", "message": message, "code": status}))
}

/// A merge patch; a strategic one merges conditions by type.
pub fn merge(into: &mut Value, patch: &Value, strategic: bool) {
    let Value::Object(entries) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in entries {
        match value {
            Value::Null => drop(into.as_object_mut().map(|into| into.remove(name))),
            Value::Array(conditions) if strategic && name == "conditions" => {
                let mut all = into[name].as_array().cloned().unwrap_or_default();
                for condition in conditions {
                    all.retain(|own| own["type"] != condition["type"]);
                    all.push(condition.clone());
                }
                into[name] = all.into();
            }
            _ => merge(&mut into[name], value, strategic),
        }
    }
}

/// Reads a request; none if the connection has ended.
pub fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut words = first.split_whitespace();
    let (method, address) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let (mut length, mut strategic) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        strategic |= header.contains("strategic-merge-patch");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
    Ok(Some(Request { method, path, query, strategic, body }))
}

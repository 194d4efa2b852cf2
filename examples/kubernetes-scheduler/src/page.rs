//! Pages, made by the server: HTML without scripts, styles in one place, nothing fetched from elsewhere.
//! Everything can be reached by keyboard: links, forms, and `details` that open.

use std::fmt::{Display, Write};

use serde_json::Value;

/// Text with the characters of HTML written out.
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in self.0.split_inclusive(['&', '<', '>', '"', '\'']) {
            let (text, last) = match part.char_indices().next_back() {
                Some((at, '&')) => (&part[..at], "&amp;"),
                Some((at, '<')) => (&part[..at], "&lt;"),
                Some((at, '>')) => (&part[..at], "&gt;"),
                Some((at, '"')) => (&part[..at], "&quot;"),
                Some((at, '\'')) => (&part[..at], "&#39;"),
                _ => (part, ""),
            };
            f.write_str(text)?;
            f.write_str(last)?;
        }
        Ok(())
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886;--bar:#4a7fd8}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:78rem;padding:0 1rem 3rem}
nav a{margin-right:1rem}h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem;\
border-bottom:1px solid var(--line);vertical-align:top}th{font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
details{margin-left:1.2rem}details.top{margin-left:0}summary{padding:.15rem 0;cursor:pointer}
a:focus-visible,summary:focus-visible,button:focus-visible,textarea:focus-visible{outline:3px solid var(--bar)}
.free{opacity:.8;margin-left:.7rem;white-space:nowrap}meter{width:6rem;vertical-align:middle}
textarea{width:100%;box-sizing:border-box;font:13px ui-monospace,monospace}pre{white-space:pre-wrap}
.leaf{margin-left:1.2rem;padding:.15rem 0}";

/// A whole page.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>{title} · phalanx</title><style>{STYLE}</style></head><body>\
         <nav><a href=\"/\">Overview</a><a href=\"/#waiting\">Waiting</a><a href=\"/#queues\">Queues</a>\
         <a href=\"/#topology\">Topology</a><a href=\"/#what-if\">What if</a>\
         <a href=\"/#decisions\">Decisions</a><a href=\"/metrics\">Metrics</a></nav>\
         <main>{body}</main></body></html>",
        title = Escaped(title)
    )
}

/// A page that says why there is nothing to see.
pub fn fault(status: u16, reason: &str) -> String {
    page("Not answered", &format!("<h1>{status}</h1><p>{}</p>", Escaped(reason)))
}

/// An amount in its unit: CPU in cores, memory in GiB.
pub fn amount(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" => format!("{:.1}", amount as f64 / 1_000.0),
        "memory" => format!("{:.1} GiB", amount as f64 / f64::from(1 << 30)),
        _ => amount.to_string(),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// A span for people.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// The page at `/`.
pub fn overview(data: &Value) -> String {
    let mut body = String::new();
    let states = data["groups"].as_object().into_iter().flatten();
    let states: Vec<String> = states.map(|(state, count)| format!("{count} {state}")).collect();
    let states = if states.is_empty() { "none".to_owned() } else { states.join(", ") };
    let _ = write!(
        body,
        "<h1>phalanx</h1><p>{} nodes, {} pods with a place. Groups: {}.</p>",
        data["nodes"],
        data["pods"],
        Escaped(&states)
    );
    waiting(&mut body, data);
    queues(&mut body, data);
    topology(&mut body, data);
    body.push_str(
        "<h2 id=what-if>What if</h2><form method=post action=\"/what-if\" enctype=\"text/plain\">\
         <label for=manifest>A manifest, YAML or JSON. Nothing is changed.</label>\
         <textarea id=manifest name=manifest rows=8 spellcheck=false></textarea>\
         <p><button>Would it start?</button></p></form>",
    );
    body.push_str("<h2 id=decisions>Recent decisions</h2>");
    let rows = list(data, "decisions");
    if rows.is_empty() {
        body.push_str("<p>None yet.</p>");
    } else {
        body.push_str("<table><thead><tr><th>Time<th>Decision<th>Group</thead><tbody>");
        for row in rows {
            let _ = write!(
                body,
                "<tr><td>{}<td>{}<td>{}",
                Escaped(text(row, "at")),
                Escaped(text(row, "kind")),
                Escaped(text(row, "text"))
            );
        }
        body.push_str("</tbody></table>");
    }
    page("Overview", &body)
}

fn waiting(body: &mut String, data: &Value) {
    let rows = list(data, "waiting");
    let _ = write!(body, "<h2 id=waiting>Waiting ({})</h2>", data["allWaiting"]);
    if rows.is_empty() {
        body.push_str("<p>Nothing waits.</p>");
        return;
    }
    body.push_str(
        "<table><thead><tr><th>Group<th>State<th class=n>Pods<th class=n>Waits for<th>Why\
         <th>Would help<th class=n>Promised</thead><tbody>",
    );
    for row in rows {
        let group = text(row, "group");
        let promised = row["promisedInSeconds"].as_u64().map(|own| format!("in {}", span(own)));
        let _ = write!(
            body,
            "<tr><td><a href=\"/why?group={}\">{}</a><td>{}<td class=n>{}<td class=n>{}<td>{}<td>{}\
             <td class=n>{}",
            encode(group),
            Escaped(group),
            Escaped(text(row, "state")),
            row["pending"].as_u64().unwrap_or_default(),
            span(row["waitedSeconds"].as_u64().unwrap_or_default()),
            Escaped(text(row, "why")),
            Escaped(text(row, "remedy")),
            promised.unwrap_or_default()
        );
    }
    body.push_str("</tbody></table>");
    let all = data["allWaiting"].as_u64().unwrap_or_default();
    if all > rows.len() as u64 {
        let _ = write!(body, "<p>… and {} more.</p>", all - rows.len() as u64);
    }
}

fn queues(body: &mut String, data: &Value) {
    let rows = list(data, "queues");
    body.push_str("<h2 id=queues>Queues</h2>");
    if rows.is_empty() {
        body.push_str("<p>There are no tenants.</p>");
        return;
    }
    body.push_str(
        "<table><thead><tr><th>Queue<th>Flavor<th>Resource<th class=n>Used<th class=n>Guaranteed\
         <th class=n>Deserved<th class=n>Borrowed<th class=n>Share<th class=n>Waiting</thead><tbody>",
    );
    for row in rows {
        for (index, own) in list(row, "resources").iter().enumerate() {
            let resource = text(own, "resource");
            let cell = |name: &str| amount(resource, own[name].as_i64().unwrap_or_default());
            let (name, share, waiting) = if index == 0 {
                let share = row["share"].as_i64().unwrap_or_default();
                let share =
                    if share == i64::MAX { "∞".to_owned() } else { format!("{share} ‰") };
                (text(row, "queue"), share, row["waiting"].to_string())
            } else {
                ("", String::new(), String::new())
            };
            let _ = write!(
                body,
                "<tr><td>{}<td>{}<td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}\
                 <td class=n>{share}<td class=n>{waiting}",
                Escaped(name),
                Escaped(text(own, "flavor")),
                Escaped(resource),
                cell("used"),
                cell("nominal"),
                cell("deserved"),
                cell("borrowed"),
            );
        }
    }
    body.push_str("</tbody></table>");
}

fn topology(body: &mut String, data: &Value) {
    body.push_str("<h2 id=topology>Topology: free of all</h2>");
    let rows = list(data, "topology");
    let deepest = list(data, "levels").len();
    let mut open = 0;
    for row in rows {
        let path: Vec<&str> = list(row, "path").iter().filter_map(Value::as_str).collect();
        while open > path.len() {
            body.push_str("</details>");
            open -= 1;
        }
        let name = path.last().copied().unwrap_or("Cluster");
        let encoded: Vec<String> = path.iter().map(|value| encode(value)).collect();
        let link = format!("/nodes?path={}", encoded.join("/"));
        let mut line = format!(
            "{} <a href=\"{link}\">{} nodes</a>",
            Escaped(name),
            row["nodes"].as_u64().unwrap_or_default()
        );
        for (index, resource) in list(data, "resources").iter().enumerate() {
            let resource = resource.as_str().unwrap_or_default();
            let of = |name: &str| row[name][index].as_i64().unwrap_or_default();
            if of("total") > 0 {
                line.push_str(&free(resource, of("free"), of("total")));
            }
        }
        if path.len() == deepest {
            let _ = write!(body, "<div class=leaf>{line}</div>");
        } else {
            // The uppermost two levels are open.
            let class = if path.is_empty() { " class=top open" } else { "" };
            let _ = write!(body, "<details{class}><summary>{line}</summary>");
            open += 1;
        }
    }
    for _ in 0..open {
        body.push_str("</details>");
    }
}

/// An amount that is free, with a bar.
fn free(resource: &str, free: i64, total: i64) -> String {
    let short = resource.rsplit('/').next().unwrap_or(resource);
    format!(
        "<span class=free>{} {} of {} <meter min=0 max={total} value={free} aria-label=\"free\"></meter></span>",
        Escaped(short),
        amount(resource, free),
        amount(resource, total)
    )
}

/// The nodes of a domain.
pub fn nodes(data: &Value) -> String {
    let path: Vec<&str> = list(data, "path").iter().filter_map(Value::as_str).collect();
    let title = if path.is_empty() { "All nodes".to_owned() } else { path.join(" / ") };
    let mut body = format!("<h1>{}</h1><table><thead><tr><th>Node", Escaped(&title));
    let resources: Vec<&str> = list(data, "resources").iter().filter_map(Value::as_str).collect();
    for resource in &resources {
        let _ = write!(body, "<th class=n>{} free", Escaped(resource));
    }
    body.push_str("<th class=n>Pods<th>Taints</thead><tbody>");
    let rows = list(data, "nodes");
    for row in rows {
        let _ = write!(body, "<tr><td>{}", Escaped(text(row, "name")));
        if row["cordoned"] == true {
            body.push_str(" (cordoned)");
        }
        for (index, resource) in resources.iter().enumerate() {
            let of = |name: &str| row[name][index].as_i64().unwrap_or_default();
            let (free, total) = (amount(resource, of("free")), amount(resource, of("total")));
            let _ = write!(body, "<td class=n>{free} of {total}");
        }
        let taints: Vec<&str> = list(row, "taints").iter().filter_map(Value::as_str).collect();
        let _ = write!(body, "<td class=n>{}<td>{}", row["pods"], Escaped(&taints.join(", ")));
    }
    body.push_str("</tbody></table>");
    let all = data["all"].as_u64().unwrap_or_default();
    if all > rows.len() as u64 {
        let _ = write!(body, "<p>… and {} more.</p>", all - rows.len() as u64);
    }
    page(&title, &body)
}

/// The answer to *why* or *what-if*.
pub fn answer(title: &str, data: &Value) -> String {
    let text = crate::ask::text(data);
    page(title, &format!("<h1>{}</h1><pre>{}</pre>", Escaped(title), Escaped(&text)))
}

/// A text as a part of an address.
pub fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// The text that was encoded; bytes that are no text are replaced.
pub fn decode(text: &str) -> String {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 3;
            }
            (b'+', ..) => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_of_others_is_never_markup() {
        let bad = "<script>alert('1')</script>&\"";
        assert_eq!(
            Escaped(bad).to_string(),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;"
        );
        let data = json!({
            "groups": {}, "allWaiting": 1, "levels": ["<l>"], "resources": ["<r>"],
            "waiting": [{"group": bad, "state": bad, "why": bad, "remedy": bad}],
            "queues": [{"queue": bad, "resources": [{"flavor": bad, "resource": bad}]}],
            "topology": [
                {"path": [], "nodes": 1, "free": [1], "total": [1]},
                {"path": [bad], "nodes": 1, "free": [1], "total": [1]},
            ],
            "decisions": [{"at": bad, "kind": bad, "text": bad}],
        });
        assert!(!overview(&data).contains("<script"));
        assert!(!answer("Why", &json!({"group": bad, "state": bad})).contains("<script"));
        assert!(!nodes(&json!({"path": [bad], "nodes": [{"name": bad}]})).contains("<script"));
        assert!(!fault(404, bad).contains("<script"));
    }

    #[test]
    fn parts_of_addresses_come_back() {
        for text in ["ml/pod:a-b", "ä & b=c", "100%", "", "%zz"] {
            assert_eq!(decode(&encode(text)), text);
        }
        assert_eq!(decode("%"), "%");
        assert_eq!(decode("a+b%2"), "a b%2");
    }

    #[test]
    fn amounts_have_their_units() {
        assert_eq!(amount("cpu", 1_500), "1.5");
        assert_eq!(amount("memory", 3 << 29), "1.5 GiB");
        assert_eq!(amount("nvidia.com/gpu", 8), "8");
        assert_eq!(
            (span(90), span(600), span(7_260)),
            ("90 s".into(), "10 min".into(), "2 h 1 min".into())
        );
    }
}

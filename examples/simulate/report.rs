//! The report: one HTML file that needs nothing from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::common::text::count;

use super::cell::Done;
use super::trace::Trace;
use super::{COLUMNS, estimates_of, machine, quantile, shown};

/// The most bars of the chart; beyond, the shortest are left out, and the report says so.
const BARS: usize = 20_000;
/// The most points of a line.
const POINTS: usize = 1_000;

/// Text in a document.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The name of a cell.
pub(super) fn name(figures: &Value) -> String {
    let policy = figures["policy"].as_str().unwrap_or("");
    let estimates = estimates_of(figures);
    format!("{policy}, {estimates} estimates, {}, seed {}", machine(figures), figures["seed"])
}

/// The report of a grid.
pub(crate) fn html(file: &str, trace: &Trace, done: &[Done]) -> String {
    let mut table =
        String::from("<tr><th>policy</th><th>estimates</th><th>machine</th><th>seed</th>");
    for (_, title, _) in COLUMNS {
        let _ = write!(table, "<th>{}</th>", escape(title));
    }
    table.push_str("</tr>\n");
    for (index, done) in done.iter().enumerate() {
        let figures = &done.figures;
        let policy = escape(figures["policy"].as_str().unwrap_or(""));
        let _ = write!(
            table,
            "<tr><th>{}{policy}</th><td>{}</td><td>{}</td><td>{}</td>",
            key(index),
            escape(estimates_of(figures)),
            escape(&machine(figures)),
            figures["seed"],
        );
        for (key, _, decimals) in COLUMNS {
            let _ = write!(table, "<td>{}</td>", shown(figures, key, decimals));
        }
        table.push_str("</tr>\n");
    }
    let cells: Vec<Value> = done.iter().enumerate().map(cell).collect();
    // No text of a trace ends the script.
    let data = json!(cells).to_string().replace('<', "\\u003c");
    let name = std::path::Path::new(file).file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_else(|| file.into());
    let title = escape(&format!("{} of {name}", count(trace.jobs.len(), "job")));
    let colours = json!(COLOURS).to_string();
    let page = TEMPLATE.replace("{title}", &title);
    page.replace("{colours}", &colours).replace("{table}", &table).replace("{data}", &data)
}

/// Colours of Okabe and Ito, which people who see colours differently can tell apart, but for the
/// yellow, which is darker here, so that it shows on white.
pub(super) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7f00"];
/// Dashes of lines, so that they differ in print without colours too.
const DASHES: [&[u32]; 8] =
    [&[], &[7, 3], &[2, 2], &[9, 3, 2, 3], &[4, 4], &[12, 4], &[1, 3], &[6, 2, 1, 2]];

/// The colour and the dashes of a cell. No two of the first 64 have both in common.
fn pen(index: usize) -> (&'static str, &'static [u32]) {
    let place = index % 8;
    (COLOURS[place], DASHES[(index + index / 8) % 8])
}

/// A piece of the line of a cell, for the table.
fn key(index: usize) -> String {
    let (colour, dashes) = pen(index);
    let dashes: Vec<String> = dashes.iter().map(ToString::to_string).collect();
    format!(
        "<svg width=\"36\" height=\"8\" aria-hidden=\"true\"><line x2=\"30\" y1=\"4\" y2=\"4\" \
         stroke=\"{colour}\" stroke-width=\"3\" stroke-dasharray=\"{}\"/></svg>",
        dashes.join(" ")
    )
}

/// Data for the charts of a cell.
fn cell((index, done): (usize, &Done)) -> Value {
    let step = done.samples.len().div_ceil(POINTS).max(1);
    let samples = done.samples.iter().step_by(step);
    let samples: Vec<Value> = samples
        .map(|sample| {
            let share = sample.used as f64 / (sample.capacity.max(1)) as f64;
            json!([sample.at.as_secs(), (share * 1e4).round() / 1e4, sample.queue])
        })
        .collect();
    let waits: Vec<Value> = classes(done)
        .into_iter()
        .map(|(size, waits)| {
            let at = [0.05, 0.25, 0.5, 0.75, 0.95].map(|share| quantile(&waits, share).round());
            json!([class_title(size), waits.len(), at])
        })
        .collect();
    let mut bars = done.bars.clone();
    bars.retain(|bar| bar.to > bar.from);
    bars.sort_by(|a, b| (b.to - b.from).total_cmp(&(a.to - a.from)));
    let left_out = bars.len().saturating_sub(BARS);
    bars.truncate(BARS);
    let round = |value: f64| (value * 10.0).round() / 10.0;
    let bars: Vec<Value> = bars
        .iter()
        .map(|bar| json!([bar.node, bar.job, round(bar.from), round(bar.to), bar.amount]))
        .collect();
    json!({
        "name": name(&done.figures), "samples": samples, "waits": waits, "bars": bars,
        "leftOut": left_out, "nodes": done.nodes, "pen": pen(index),
    })
}

/// Sorted waits by class of size: powers of two, by the largest size of each.
pub(crate) fn classes(done: &Done) -> BTreeMap<u32, Vec<f64>> {
    let mut classes: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (size, waits) in &done.waits {
        classes.entry(size.max(&1).next_power_of_two()).or_default().extend(waits);
    }
    for waits in classes.values_mut() {
        waits.sort_by(f64::total_cmp);
    }
    classes
}

/// The title of a class of sizes.
pub(crate) fn class_title(most: u32) -> String {
    let least = most / 2 + 1;
    if least >= most { most.to_string() } else { format!("{least}–{most}") }
}

/// The document.
const TEMPLATE: &str = r##"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 12px; }
th, td { padding: .2rem .32rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child { text-align: left; }
canvas { width: 100%; display: block; border: 1px solid #ddd; touch-action: none; }
p.note { color: #555; font-size: .9em; } select, button { font: inherit; }
#tip { min-height: 1.5em; }
@media print { body { margin: 0; max-width: none; } h2 { break-after: avoid; } canvas { break-inside: avoid; } .control { display: none; } .wide { overflow: visible; } table { font-size: 8pt; } th, td { padding: .1rem .25rem; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
</style></head><body>
<h1>{title}</h1>
<div class="wide"><table id="grid">
{table}</table></div>
<p class="note">Wait: from arrival to start. Slowdown: bounded at 10 s. Utilisation: useful work per capacity until the last end; on arrivals: what is in use until the last job arrives. Jain: fairness among queues, 1 if all are treated alike.</p>
<h2>Utilisation over time</h2><canvas id="use" height="220" role="img" aria-label="Utilisation over time, a line for each cell of the table"></canvas>
<h2>Jobs that wait over time</h2><canvas id="queue" height="220" role="img" aria-label="Number of waiting jobs over time, a line for each cell of the table"></canvas>
<h2>Waiting by size</h2><canvas id="waits" height="280" role="img" aria-label="Distribution of waits by size of job"></canvas>
<p class="note">Boxes from the 25th to the 75th percentile with the median, whiskers from the 5th to the 95th; the scale is logarithmic.</p>
<h2>Nodes over time</h2>
<p class="control"><select id="which"></select> <button id="most">most runs</button> <button id="whole">all runs</button> <span class="note">wheel, + and −: zoom; drag: move; the lines above follow</span></p>
<canvas id="gantt" height="420" tabindex="0" role="img" aria-label="Jobs on nodes over time"></canvas><p id="tip" class="note"></p>
<script id="data" type="application/json">{data}</script>
<script>
"use strict";
const cells = JSON.parse(document.getElementById("data").textContent);
const colours = {colours};
const get = id => document.getElementById(id);
const short = v => v.toFixed(1).replace(/\.0$/, "");
const span = s => s === 0 ? "0" : s >= 86400 ? short(s / 86400) + " d" : s >= 3600 ? short(s / 3600) + " h" : s >= 60 ? short(s / 60) + " min" : short(s) + " s";
function sheet(canvas) {
  const scale = Math.max(window.devicePixelRatio || 1, 2), box = canvas.getBoundingClientRect();
  if (!canvas.dataset.height) canvas.dataset.height = canvas.getAttribute("height");
  const height = Number(canvas.dataset.height), width = box.width || 900;
  canvas.width = width * scale; canvas.height = height * scale; canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale); pen.fillStyle = "#fff"; pen.fillRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif"; pen.fillStyle = "#333";
  return [pen, width, height];
}
const extent = cells.flatMap(c => c.samples.map(s => s[0]).concat(c.bars.map(b => b[3])));
const end = extent.reduce((a, b) => Math.max(a, b), 1);
// What is shown at first: the time by which most runs are over, so that the few longest do not squeeze the rest.
const over = cells.flatMap(c => c.bars.map(b => b[3])).sort((a, b) => a - b);
const most = over.length ? Math.min(end, over[Math.floor(over.length * .95)] * 1.1) : end;
let view = [0, most, 0, 1];
function axis(pen, width, height, left, from, to) {
  pen.strokeStyle = "#ccc"; pen.setLineDash([]); pen.lineWidth = 1; pen.textAlign = "center"; pen.fillStyle = "#333";
  for (let i = 0; i <= 6; i++) {
    const x = left + (width - left - 20) * i / 6;
    pen.beginPath(); pen.moveTo(x, 10); pen.lineTo(x, height - 24); pen.stroke();
    pen.fillText(span(from + (to - from) * i / 6), x, height - 8);
  }
}
function lines(id, column, top, label) {
  const [pen, width, height] = sheet(get(id)), left = 64, [from, to] = view;
  axis(pen, width, height, left, from, to);
  pen.textAlign = "right";
  for (let i = 0; i <= 4; i++) pen.fillText(label(top * i / 4), left - 6, height - 24 - (height - 34) * i / 4 + 4);
  pen.save(); pen.beginPath(); pen.rect(left, 8, width - left - 20, height - 31); pen.clip();
  cells.forEach(cell => {
    pen.strokeStyle = cell.pen[0]; pen.setLineDash(cell.pen[1]); pen.lineWidth = 1.5; pen.beginPath();
    cell.samples.forEach((s, i) => {
      const x = left + (width - left - 20) * (s[0] - from) / (to - from), y = height - 24 - (height - 34) * s[column] / top;
      i ? pen.lineTo(x, y) : pen.moveTo(x, y);
    });
    pen.stroke();
  });
  pen.restore();
}
function waits() {
  const [pen, width, height] = sheet(get("waits")), left = 64;
  const sizes = [...new Set(cells.flatMap(c => c.waits.map(w => w[0])))].sort((a, b) => parseInt(a) - parseInt(b));
  const longest = cells.flatMap(c => c.waits.map(w => w[2][4])).reduce((a, b) => Math.max(a, b), 10);
  const place = v => height - 40 - (height - 64) * Math.log10(1 + v) / Math.log10(1 + longest);
  pen.textAlign = "right";
  for (const v of [0, 1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000].filter(v => v <= longest)) {
    pen.strokeStyle = "#ddd"; pen.setLineDash([]); pen.beginPath(); pen.moveTo(left, place(v)); pen.lineTo(width - 10, place(v)); pen.stroke();
    pen.fillText(span(v), left - 6, place(v) + 4);
  }
  const step = (width - left - 20) / Math.max(1, sizes.length), box = Math.min(24, step * .8 / Math.max(1, cells.length));
  sizes.forEach((size, at) => {
    pen.fillStyle = "#333"; pen.textAlign = "center"; pen.fillText(size, left + step * (at + .5), height - 20);
    cells.forEach((cell, n) => {
      const found = cell.waits.find(w => w[0] === size);
      if (!found) return;
      const [low, first, half, third, high] = found[2].map(place);
      const x = left + step * (at + .5) + (n - cells.length / 2) * box;
      pen.strokeStyle = pen.fillStyle = cell.pen[0]; pen.setLineDash([]);
      pen.beginPath(); pen.moveTo(x + box * .4, low); pen.lineTo(x + box * .4, high); pen.stroke();
      pen.globalAlpha = .35; pen.fillRect(x, third, box * .8, Math.max(1, first - third)); pen.globalAlpha = 1;
      pen.strokeRect(x, third, box * .8, Math.max(1, first - third));
      pen.lineWidth = 3; pen.beginPath(); pen.moveTo(x, half); pen.lineTo(x + box * .8, half); pen.stroke(); pen.lineWidth = 1;
    });
  });
  pen.fillStyle = "#333"; pen.textAlign = "center"; pen.fillText("size", width / 2, height - 4);
}
function gantt() {
  const cell = cells[get("which").value || 0], [pen, width, height] = sheet(get("gantt")), left = 64;
  if (!cell) return;
  const rows = Math.max(1, cell.nodes), [from, to, low, high] = [view[0], view[1], view[2] * rows, view[3] * rows];
  axis(pen, width, height, left, from, to);
  const across = t => left + (width - left - 20) * (t - from) / (to - from), down = n => 10 + (height - 34) * (n - low) / (high - low);
  pen.save(); pen.beginPath(); pen.rect(left, 10, width - left - 20, height - 34); pen.clip();
  const tall = Math.max(1, (height - 34) / (high - low) - (high - low < 100 ? 1 : 0));
  for (const [node, job, begin, finish] of cell.bars) {
    if (finish < from || begin > to || node + 1 < low || node > high) continue;
    pen.fillStyle = colours[job % 8]; pen.globalAlpha = job % 16 < 8 ? .85 : .5;
    pen.fillRect(across(begin), down(node), Math.max(.5, across(finish) - across(begin)), tall);
  }
  pen.restore(); pen.fillStyle = "#333"; pen.textAlign = "right";
  for (let i = 0; i <= 4; i++) { const n = low + (high - low) * i / 4; pen.fillText(Math.min(rows - 1, Math.floor(n)), left - 6, down(n) + 4); }
  get("tip").textContent = cell.leftOut ? cell.leftOut + " of the shortest runs are not drawn" : "";
}
function draw() {
  waits(); moved();
}
const deepest = cells.flatMap(c => c.samples.map(s => s[2])).reduce((a, b) => Math.max(a, b), 1);
function moved() {
  lines("use", 1, 1, v => Math.round(v * 100) + " %"); lines("queue", 2, deepest, v => Math.round(v)); gantt();
}
cells.forEach((cell, n) => { const option = document.createElement("option"); option.value = n; option.textContent = cell.name; get("which").append(option); });
const pane = get("gantt");
const zoom = (x, y, by) => {
  const box = pane.getBoundingClientRect(), a = Math.min(1, Math.max(0, (x - box.left - 64) / (box.width - 84))), b = Math.min(1, Math.max(0, (y - box.top - 10) / (box.height - 34)));
  const wide = Math.min(end, (view[1] - view[0]) * by), tall = Math.min(1, (view[3] - view[2]) * by);
  const from = Math.min(end - wide, Math.max(0, view[0] + (view[1] - view[0] - wide) * a)), low = Math.min(1 - tall, Math.max(0, view[2] + (view[3] - view[2] - tall) * b));
  view = [from, from + wide, low, low + tall]; moved();
};
pane.addEventListener("wheel", e => { e.preventDefault(); zoom(e.clientX, e.clientY, e.deltaY > 0 ? 1.25 : .8); }, { passive: false });
let held = null;
pane.addEventListener("pointerdown", e => { held = [e.clientX, e.clientY, ...view]; pane.setPointerCapture(e.pointerId); });
pane.addEventListener("pointerup", () => held = null);
pane.addEventListener("pointermove", e => {
  const box = pane.getBoundingClientRect();
  if (held) {
    const wide = held[3] - held[2], tall = held[5] - held[4];
    const from = Math.min(end - wide, Math.max(0, held[2] - (e.clientX - held[0]) / (box.width - 84) * wide)), low = Math.min(1 - tall, Math.max(0, held[4] - (e.clientY - held[1]) / (box.height - 34) * tall));
    view = [from, from + wide, low, low + tall]; moved(); return;
  }
  const cell = cells[get("which").value || 0], t = view[0] + (e.clientX - box.left - 64) / (box.width - 84) * (view[1] - view[0]);
  const n = Math.floor((view[2] + (e.clientY - box.top - 10) / (box.height - 34) * (view[3] - view[2])) * cell.nodes);
  const bar = cell.bars.find(b => b[0] === n && b[2] <= t && t < b[3]);
  get("tip").textContent = bar ? "job " + bar[1] + " on node " + n + ": " + span(bar[2]) + " to " + span(bar[3]) : "";
});
pane.addEventListener("dblclick", () => { view = [0, most, 0, 1]; moved(); });
pane.addEventListener("keydown", e => { const box = pane.getBoundingClientRect(); if (e.key === "+" || e.key === "-") zoom(box.left + box.width / 2, box.top + box.height / 2, e.key === "+" ? .8 : 1.25); });
get("whole").addEventListener("click", () => { view = [0, end, 0, 1]; moved(); });
get("most").addEventListener("click", () => { view = [0, most, 0, 1]; moved(); });
get("which").addEventListener("change", gantt);
window.addEventListener("resize", draw); window.addEventListener("beforeprint", draw);
draw(); document.documentElement.dataset.drawn = "yes";
</script></body></html>
"##;

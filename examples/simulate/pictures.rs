//! Pictures as SVG files: use and line over time, two policies and their difference, and what ran
//! when, by node and by tenant.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::common::chart::{Chart, Line, svg};
use crate::common::files;

use super::cell::Done;
use super::report::{COLOURS, name};

/// The most points of a line, and the most bars of a picture.
const POINTS: usize = 1_000;
const BARS: usize = 20_000;
const WIDE: f64 = 900.0;
const LEFT: f64 = 90.0;
const HEAD: f64 = 64.0;

/// Writes the pictures of a grid into a folder. Returns their names.
pub(crate) fn write(folder: &str, title: &str, done: &[Done]) -> Result<Vec<String>, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut names = Vec::new();
    let mut put = |name: String, picture: String| -> Result<(), String> {
        files::write(Path::new(folder).join(&name), picture)?;
        names.push(name);
        Ok(())
    };
    put("over-time.svg".into(), over_time(title, done))?;
    if let [first, second, ..] = done {
        put("difference.svg".into(), difference(title, first, second))?;
        if !first.bars.is_empty() && !second.bars.is_empty() {
            let until = last(first).max(last(second));
            put("beside.svg".into(), beside(&by_node(first, until), &by_node(second, until)))?;
        }
    }
    for (index, done) in done.iter().enumerate().filter(|(_, done)| !done.bars.is_empty()) {
        put(format!("nodes-{index}.svg"), by_node(done, last(done)))?;
        put(format!("tenants-{index}.svg"), by_tenant(done))?;
    }
    Ok(names)
}

/// The last end of a bar, in seconds.
fn last(done: &Done) -> f64 {
    done.bars.iter().map(|bar| bar.to).fold(1.0, f64::max)
}

/// Two pictures of one size side by side.
fn beside(left: &str, right: &str) -> String {
    let size = |picture: &str, name: &str| -> f64 {
        let text = picture.split_once(&format!(" {name}=\"")).map_or("", |(_, rest)| rest);
        text.split('"').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
    };
    let (one, other) = (size(left, "width"), size(right, "width"));
    let high = size(left, "height").max(size(right, "height"));
    let moved = right.replacen("<svg ", &format!("<svg x=\"{one}\" "), 1);
    let wide = one + other;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" \
         viewBox=\"0 0 {wide} {high}\">\n{left}{moved}</svg>\n"
    )
}

/// Hours, and a figure: the share in use in percent, or the jobs that wait.
fn points(done: &Done, in_use: bool) -> Vec<(f64, f64)> {
    let step = done.samples.len().div_ceil(POINTS).max(1);
    let samples = done.samples.iter().step_by(step);
    let point = |sample: &phalanx::simulate::Sample| {
        let share = 100.0 * sample.used as f64 / sample.capacity.max(1) as f64;
        let hours = sample.at.as_nanos() as f64 / 3.6e12;
        (hours, if in_use { share } else { sample.queue as f64 })
    };
    samples.map(point).collect()
}

fn chart(title: &str, up: &str, lines: Vec<Line>) -> Chart {
    Chart { title: title.into(), across: "time in hours".into(), up: up.into(), lines }
}

fn over_time(title: &str, done: &[Done]) -> String {
    let lines = |in_use| -> Vec<Line> {
        let line = |done: &Done| Line { name: policy(done), points: points(done, in_use) };
        done.iter().filter(|done| !done.samples.is_empty()).map(line).collect()
    };
    let charts = [
        chart("In use", "share in percent", lines(true)),
        chart("The line", "number of waiting jobs", lines(false)),
    ];
    svg(title, "A line for each cell of the grid.", &charts)
}

/// The value of a step function at a time.
fn at(points: &[(f64, f64)], time: f64) -> f64 {
    let after = points.partition_point(|point| point.0 <= time);
    after.checked_sub(1).map_or(0.0, |before| points[before].1)
}

fn difference(title: &str, first: &Done, second: &Done) -> String {
    let mut charts = Vec::new();
    for (in_use, name, up) in
        [(true, "In use", "share in percent"), (false, "The line", "number of waiting jobs")]
    {
        let (one, other) = (points(first, in_use), points(second, in_use));
        let mut times: Vec<f64> = one.iter().chain(&other).map(|point| point.0).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let minus: Vec<(f64, f64)> =
            times.iter().map(|time| (*time, at(&other, *time) - at(&one, *time))).collect();
        let lines = vec![
            Line { name: policy(first), points: one },
            Line { name: policy(second), points: other },
        ];
        charts.push(chart(name, up, lines));
        let line = Line { name: "difference".into(), points: minus };
        charts.push(chart(&format!("{name}: second less first"), up, vec![line]));
    }
    let note = format!("{} and {}.", self::name(&first.figures), self::name(&second.figures));
    svg(title, &note, &charts)
}

fn policy(done: &Done) -> String {
    format!("{}, {}", done.figures["policy"].as_str().unwrap_or(""), done.figures["seed"])
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A bar: its row, from and to in seconds, its tenant, and a text for those who point at it.
struct Row {
    at: f64,
    /// In rows.
    high: f64,
    from: f64,
    to: f64,
    tenant: usize,
    text: String,
}

/// Bars over time, rows under each other; `labels` are texts of rows.
#[allow(clippy::too_many_arguments, reason = "a picture has many parts")]
fn bars(
    done: &Done,
    title: &str,
    up: &str,
    rows: usize,
    bars: &[Row],
    labels: &[(f64, String)],
    tenants: &[String],
    end: f64,
) -> String {
    let tall = (600.0 / rows.max(1) as f64).clamp(0.5, 16.0);
    let height = tall * rows.max(1) as f64;
    let (wide, high) = (LEFT + WIDE + 30.0, HEAD + height + 90.0);
    let across = |secs: f64| LEFT + WIDE * secs / end;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high:.0}\" \
         viewBox=\"0 0 {wide} {high:.0}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{0}</title>\n<rect width=\"{wide}\" height=\"{high:.0}\" fill=\"white\"/>\n\
         <text x=\"20\" y=\"28\" font-size=\"17\" font-weight=\"bold\">{0}</text>\n",
        escaped(title)
    );
    let _ = writeln!(
        out,
        "<text x=\"20\" y=\"48\" fill=\"#55606a\">{}</text>",
        escaped(&name(&done.figures))
    );
    for bar in bars {
        let (x, y) = (across(bar.from), HEAD + tall * bar.at);
        let long = (across(bar.to) - x).max(0.3);
        let colour = COLOURS[bar.tenant % COLOURS.len()];
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{:.1}\" fill=\"{colour}\" \
             fill-opacity=\".8\" stroke=\"white\" stroke-width=\".3\"><title>{}</title></rect>",
            tall * bar.high * 0.95,
            escaped(&bar.text)
        );
    }
    let below = HEAD + height;
    let step = round_step(end / 3_600.0 / 6.0);
    let marks = (0..=12).map(|mark| f64::from(mark) * step * 3_600.0);
    for secs in marks.take_while(|secs| *secs <= end) {
        let x = across(secs);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{below:.1}\" y2=\"{:.1}\" stroke=\"#55606a\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            below + 5.0,
            below + 18.0,
            (secs / 3_600.0 * 1_000.0).round() / 1_000.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#55606a\">time in hours</text>\n\
         <text transform=\"translate(18,{:.1}) rotate(-90)\" text-anchor=\"middle\" \
         fill=\"#55606a\">{}</text>",
        LEFT + WIDE / 2.0,
        below + 36.0,
        HEAD + height / 2.0,
        escaped(up)
    );
    let mut above = f64::MIN;
    for (row, label) in labels {
        let y = HEAD + tall * row + 4.0;
        // A label that would cover the one above is left out.
        if y < above + 11.0 {
            continue;
        }
        above = y;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            escaped(label)
        );
    }
    // Tenants by colour, and by name.
    for (at, tenant) in tenants.iter().take(COLOURS.len()).enumerate() {
        let x = LEFT + 115.0 * at as f64;
        let shown: String = tenant.chars().take(12).collect();
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            below + 52.0,
            COLOURS[at],
            x + 17.0,
            below + 62.0,
            escaped(if shown.is_empty() { "no tenant" } else { &shown })
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The next of 1, 2, 5, 10, 20 and so on.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-6).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(least)
}

/// The tenants in the order of their names.
fn tenants(done: &Done) -> Vec<String> {
    let names: std::collections::BTreeSet<&str> =
        done.records.iter().map(|(_, record)| record.queue.as_str()).collect();
    names.into_iter().map(String::from).collect()
}

fn tenant_of(done: &Done, tenants: &[String], job: usize) -> usize {
    let queue = done.records.get(job).map(|(_, record)| record.queue.as_str());
    tenants.iter().position(|name| Some(name.as_str()) == queue).unwrap_or(0)
}

/// Longest first, so that the picture keeps what it shows if there are too many.
fn longest(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (b.to - b.from).total_cmp(&(a.to - a.from)));
    rows.truncate(BARS);
    rows
}

fn by_node(done: &Done, end: f64) -> String {
    let tenants = tenants(done);
    // A node has a lane for each of its GPUs; a bar goes to those that are free.
    let gpus = done.figures["gpus_per_node"].as_u64().unwrap_or(1).max(1) as usize;
    let most = done.bars.iter().map(|bar| bar.amount).max().unwrap_or(1);
    let unit = if most > gpus as i64 { 1_000 } else { 1 };
    let mut lanes: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut bars_in_order: Vec<_> = done.bars.iter().filter(|bar| bar.to > bar.from).collect();
    bars_in_order.sort_by(|a, b| a.from.total_cmp(&b.from).then(a.job.cmp(&b.job)));
    let mut rows = Vec::new();
    for bar in bars_in_order {
        let lanes = lanes.entry(bar.node).or_insert_with(|| vec![0.0; gpus]);
        let wanted = ((bar.amount + unit - 1) / unit).clamp(1, gpus as i64) as usize;
        let free = (0..gpus).filter(|lane| lanes[*lane] <= bar.from + 1e-9);
        let mut taken: Vec<usize> = free.take(wanted).collect();
        if taken.is_empty() {
            // Shares of one GPU lie over each other.
            taken.push(0);
        }
        for lane in &taken {
            lanes[*lane] = bar.to;
        }
        for run in taken.chunk_by(|a, b| a + 1 == *b) {
            rows.push(Row {
                at: bar.node as f64 + run[0] as f64 / gpus as f64,
                high: run.len() as f64 / gpus as f64,
                from: bar.from,
                to: bar.to,
                tenant: tenant_of(done, &tenants, bar.job),
                text: format!("job {}, {} on node {}", bar.job, bar.amount, bar.node),
            });
        }
    }
    // Nodes that were bought come after the others.
    let nodes = done.bars.iter().map(|bar| bar.node + 1).fold(done.nodes, usize::max);
    let step = nodes.div_ceil(20).max(1);
    let labels: Vec<(f64, String)> =
        (0..nodes).step_by(step).map(|node| (node as f64 + 0.5, node.to_string())).collect();
    let title = "Jobs on nodes over time";
    bars(done, title, "node", nodes, &longest(rows), &labels, &tenants, end)
}

fn by_tenant(done: &Done) -> String {
    let tenants = tenants(done);
    let mut runs: BTreeMap<usize, Vec<(f64, f64, usize)>> = BTreeMap::new();
    for (job, (_, record)) in done.records.iter().enumerate() {
        let (Some(start), Some(end)) = (record.start, record.end) else { continue };
        let secs = |time: phalanx::Time| time.as_nanos() as f64 / 1e9;
        runs.entry(tenant_of(done, &tenants, job)).or_default().push((secs(start), secs(end), job));
    }
    let (mut rows, mut labels, mut base) = (Vec::new(), Vec::new(), 0);
    for (tenant, mut runs) in runs {
        runs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        // Each run goes to the first lane of its tenant that is free.
        let mut lanes: Vec<f64> = Vec::new();
        for (from, to, job) in runs {
            let lane = lanes.iter().position(|until| *until <= from);
            let lane = lane.unwrap_or_else(|| {
                lanes.push(0.0);
                lanes.len() - 1
            });
            lanes[lane] = to;
            let (id, record) = &done.records[job];
            let text = format!("job {id}, {} of {}", record.amount, record.queue);
            let (at, high) = ((base + lane) as f64, 1.0);
            rows.push(Row { at, high, from, to, tenant, text });
        }
        labels.push((
            base as f64 + lanes.len() as f64 / 2.0,
            tenants[tenant].chars().take(12).collect(),
        ));
        base += lanes.len();
    }
    bars(
        done,
        "Jobs of tenants over time",
        "jobs that run, by tenant",
        base,
        &longest(rows),
        &labels,
        &tenants,
        last(done),
    )
}

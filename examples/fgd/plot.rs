//! The comparison of policies: a table and a plot, as text.

use std::error::Error;
use std::fmt::Write;

use crate::common::chart::{self, Chart, Line};
use crate::run::{Point, Policy, Run, run};
use crate::trace::Trace;

const HEIGHT: usize = 16;

/// Runs every policy with every seed, and shows the means: as text, and as a picture.
pub(crate) fn compare(
    trace: &Trace,
    policies: &[Policy],
    seeds: &[u64],
) -> Result<(String, String), Box<dyn Error>> {
    let mut curves = Vec::new();
    let mut text = String::new();
    let list: Vec<String> = seeds.iter().map(u64::to_string).collect();
    writeln!(
        text,
        "{} GPUs on {} nodes. Means over the seeds {}, in % of all GPUs.\n",
        trace.total_milli() / crate::trace::GPU,
        trace.nodes.len(),
        list.join(", ")
    )?;
    for &policy in policies {
        let runs = seeds
            .iter()
            .map(|&seed| run(trace, policy, seed, true))
            .collect::<Result<Vec<Run>, _>>()?;
        curves.push((policy, mean(&runs), runs));
    }
    let last = curves.iter().filter_map(|(_, points, _)| points.last()).map(|point| point.arrived);
    let last = last.max().unwrap_or(0);
    let columns: Vec<i64> = (80..last).step_by(10).chain([last]).collect();

    writeln!(text, "Allocated, by the load that has arrived")?;
    table(&mut text, &columns, &curves, |point| point.allocated)?;
    writeln!(text, "\nFragmented: left on GPUs where a typical pod cannot use it")?;
    table(&mut text, &columns, &curves, |point| point.fragmentation)?;
    writeln!(text, "\nPods that found no place, and seconds a run")?;
    for (policy, _, runs) in &curves {
        let failed: usize = runs.iter().map(|run| run.failed).sum();
        let seconds: f64 = runs.iter().map(|run| run.time.as_secs_f64()).sum();
        let count = runs.len().max(1);
        writeln!(
            text,
            "{:>11} {:>8} {:>8.3}",
            policy.name(),
            failed / count,
            seconds / count as f64
        )?;
    }
    plot(&mut text, &curves, last)?;
    let picture = svg(&curves, text.lines().next().unwrap_or_default(), last);
    Ok((text, picture))
}

/// The same curves as a picture; what is allocated for the part where the policies differ.
fn svg(curves: &[Curve], note: &str, last: i64) -> String {
    let lines = |from: i64, value: &dyn Fn(&Point) -> f64| -> Vec<Line> {
        let points = |points: &[Point]| {
            let shown = points.iter().filter(|point| point.arrived >= from);
            shown.map(|point| (point.arrived as f64, value(point))).collect()
        };
        let line =
            |(policy, means, _): &Curve| Line { name: policy.name().into(), points: points(means) };
        curves.iter().map(line).collect()
    };
    let chart = |title: &str, lines| Chart {
        title: title.into(),
        across: "GPUs asked for by all arrivals, in % of all GPUs".into(),
        up: "% of all GPUs".into(),
        lines,
    };
    let allocated = chart("Allocated", lines((last - 60).max(0), &|point| point.allocated));
    let fragmented = chart(
        "Fragmented: left on GPUs where a typical pod cannot use it",
        lines(0, &|point| point.fragmentation),
    );
    chart::svg("A cluster that fills, by policy", note, &[allocated, fragmented])
}

type Curve = (Policy, Vec<Point>, Vec<Run>);

/// The means of several curves where all have arrivals.
fn mean(runs: &[Run]) -> Vec<Point> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let at =
        |run: &Run, arrived: i64| run.curve.iter().find(|point| point.arrived == arrived).copied();
    let mut means = Vec::new();
    for point in &first.curve {
        let Some(others) =
            others.iter().map(|run| at(run, point.arrived)).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        let all = || others.iter().chain([point]);
        means.push(Point {
            arrived: point.arrived,
            allocated: all().map(|point| point.allocated).sum::<f64>() / runs.len() as f64,
            fragmentation: all().map(|point| point.fragmentation).sum::<f64>() / runs.len() as f64,
        });
    }
    means
}

fn table(
    text: &mut String,
    columns: &[i64],
    curves: &[Curve],
    value: impl Fn(&Point) -> f64,
) -> std::fmt::Result {
    write!(text, "{:>11}", "arrived %")?;
    for column in columns {
        write!(text, "{column:>8}")?;
    }
    writeln!(text)?;
    for (policy, points, _) in curves {
        write!(text, "{:>11}", policy.name())?;
        for column in columns {
            match points.iter().find(|point| point.arrived == *column) {
                Some(point) => write!(text, "{:>8.2}", value(point))?,
                None => write!(text, "{:>8}", "-")?,
            }
        }
        writeln!(text)?;
    }
    Ok(())
}

/// Allocated over arrived GPUs, for the part where the policies differ.
fn plot(text: &mut String, curves: &[Curve], last: i64) -> std::fmt::Result {
    let from = (last - 60).max(0);
    let shown = |point: &&Point| point.arrived >= from;
    let values = curves.iter().flat_map(|(_, points, _)| points.iter().filter(shown));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), point| {
        (low.min(point.allocated), high.max(point.allocated))
    });
    if low >= high {
        return Ok(());
    }
    let width = (last - from + 1) as usize;
    let mut canvas = vec![vec![' '; width]; HEIGHT];
    for (policy, points, _) in curves {
        let letter = policy.name().chars().next().unwrap_or('*').to_ascii_uppercase();
        for point in points.iter().filter(shown) {
            let level = (point.allocated - low) / (high - low) * (HEIGHT - 1) as f64;
            canvas[HEIGHT - 1 - level.round() as usize][(point.arrived - from) as usize] = letter;
        }
    }
    writeln!(text, "\nAllocated %, over the load arrived; later policies cover earlier ones")?;
    for (line, cells) in canvas.iter().enumerate() {
        let level = high - (high - low) * line as f64 / (HEIGHT - 1) as f64;
        writeln!(text, "{level:>7.1} |{}", cells.iter().collect::<String>().trim_end())?;
    }
    writeln!(text, "        +{}", "-".repeat(width))?;
    writeln!(text, "         {from:<width$}{last}", width = width.saturating_sub(3))
}

//! Use against guarantee, a panel a queue, all on one scale.

use std::fmt::Write;

use super::run::{QueueReport, Report};

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 110.0;
const COLUMNS: usize = 3;
/// Between panels: room for the labels of an axis, and for two lines above.
const GAP: f64 = 60.0;
/// Above the panels: the title and the legend.
const HEAD: f64 = 56.0;
/// Colours that are told apart with any kind of colour blindness, and in grey.
const OWN: &str = "#2b5c8f";
const BORROWED: &str = "#f0b27a";
const GRID: &str = "#d8d8d8";
const MUTED: &str = "#555";

/// The scale that all panels share, so that they can be compared.
struct Scale {
    hours: u64,
    hour_step: u64,
    gpus: i64,
    gpu_step: i64,
}

impl Scale {
    fn of(report: &Report) -> Scale {
        let amounts = report
            .queues
            .iter()
            .flat_map(|queue| queue.used.iter().copied().chain(std::iter::once(queue.guaranteed)));
        let most = amounts.max().unwrap_or(1).max(1);
        let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500];
        let gpu_step = steps.into_iter().find(|step| most <= 4 * step).unwrap_or(1_000);
        let hours = report.hours.last().copied().unwrap_or(1).max(1);
        Scale {
            hours,
            hour_step: if hours <= 48 { 12 } else { 24 },
            gpus: (most + gpu_step - 1) / gpu_step * gpu_step,
            gpu_step,
        }
    }

    fn x(&self, hour: u64) -> f64 {
        hour as f64 / self.hours as f64 * WIDTH
    }

    fn y(&self, gpus: i64) -> f64 {
        HEIGHT - gpus as f64 / self.gpus as f64 * HEIGHT
    }
}

/// The drawing: what a queue uses up to the dashed line is its own, what is above is borrowed.
pub(crate) fn svg(report: &Report) -> String {
    let scale = Scale::of(report);
    let is_idle =
        |queue: &&QueueReport| queue.guaranteed == 0 && queue.used.iter().all(|used| *used == 0);
    let (idle, shown): (Vec<_>, Vec<_>) = report.queues.iter().partition(is_idle);
    let rows = shown.len().div_ceil(COLUMNS);
    let wide = GAP + COLUMNS as f64 * (WIDTH + GAP);
    let high = HEAD + rows as f64 * (HEIGHT + GAP) + 40.0;
    let title = format!("GPUs in use by queue, hour by hour, in dialect {}", report.dialect);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" role=\"img\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>{title}</title>\n\
         <rect width=\"{wide}\" height=\"{high}\" fill=\"white\"/>\n\
         <text x=\"{GAP}\" y=\"22\" font-size=\"16\">{title}</text>"
    );
    legend(&mut out);
    for (at, queue) in shown.into_iter().enumerate() {
        let left = GAP + (at % COLUMNS) as f64 * (WIDTH + GAP);
        let top = HEAD + 36.0 + (at / COLUMNS) as f64 * (HEIGHT + GAP);
        let _ = writeln!(out, "<g transform=\"translate({left:.1},{top:.1})\">");
        panel(&mut out, &scale, &report.hours, queue);
        let _ = writeln!(out, "</g>");
    }
    let _ = writeln!(
        out,
        "<text x=\"{GAP}\" y=\"{:.1}\" fill=\"{MUTED}\">{} gangs over {} days on {} GPUs. Across: hours \
         since the first gang; up: GPUs. All panels have one scale.</text>",
        high - 24.0,
        report.gangs,
        report.days,
        report.gpus
    );
    if !idle.is_empty() {
        let names: Vec<&str> = idle.iter().map(|queue| queue.name.as_str()).collect();
        let _ = writeln!(
            out,
            "<text x=\"{GAP}\" y=\"{:.1}\" fill=\"{MUTED}\">Not drawn, without guarantee and without use: \
             {}.</text>",
            high - 8.0,
            names.join(", ")
        );
    }
    out.push_str("</svg>\n");
    out
}

fn legend(out: &mut String) {
    let mut left = GAP;
    for (colour, what, wide) in
        [(OWN, "within the guarantee", 140.0), (BORROWED, "borrowed from other queues", 175.0)]
    {
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"44\">{what}</text>",
            left + 18.0
        );
        left += wide;
    }
    let _ = writeln!(
        out,
        "<line x1=\"{left}\" x2=\"{}\" y1=\"40\" y2=\"40\" stroke=\"black\" stroke-dasharray=\"4 3\"/>\
         <text x=\"{}\" y=\"44\">guarantee</text>",
        left + 24.0,
        left + 30.0
    );
}

fn times(number: u64) -> String {
    match number {
        0 => "nothing".into(),
        1 => "once".into(),
        more => format!("{more} times"),
    }
}

fn panel(out: &mut String, scale: &Scale, hours: &[u64], queue: &QueueReport) {
    let _ = writeln!(
        out,
        "<text y=\"-18\" font-weight=\"bold\">{}</text>\n\
         <text y=\"-5\" fill=\"{MUTED}\">guaranteed {}, mean {:.0}, borrowed {:.0} GPU-hours, gave back \
         {}</text>",
        queue.name,
        queue.guaranteed,
        queue.mean_used,
        queue.borrowed_hours,
        times(queue.reclaimed)
    );
    let area = |most: i64| {
        let mut path = format!("M0,{HEIGHT}");
        for (hour, used) in hours.iter().zip(&queue.used) {
            let _ = write!(path, " L{:.1},{:.1}", scale.x(*hour), scale.y((*used).min(most)));
        }
        let _ = write!(path, " L{WIDTH},{HEIGHT} Z");
        path
    };
    let _ = writeln!(
        out,
        "<path d=\"{}\" fill=\"{BORROWED}\"/>\n<path d=\"{}\" fill=\"{OWN}\"/>",
        area(i64::MAX),
        area(queue.guaranteed)
    );
    for gpus in (0..=scale.gpus).step_by(scale.gpu_step.unsigned_abs() as usize) {
        let y = scale.y(gpus);
        let _ = writeln!(
            out,
            "<line x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{GRID}\" stroke-opacity=\"0.7\"/>\
             <text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{MUTED}\">{gpus}</text>",
            y + 4.0
        );
    }
    for hour in (0..=scale.hours).step_by(scale.hour_step as usize) {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{MUTED}\">{hour} h</text>",
            scale.x(hour),
            HEIGHT + 14.0
        );
    }
    let y = scale.y(queue.guaranteed);
    let _ = writeln!(
        out,
        "<line x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"black\" stroke-dasharray=\"4 3\"/>"
    );
}

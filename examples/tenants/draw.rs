//! Use against guarantee, a panel a queue, all on one scale.

use std::fmt::Write;

use super::run::Report;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 110.0;
const COLUMNS: usize = 3;
const GAP: f64 = 40.0;

/// The drawing. Panels share their scale, so that they can be compared; what is below the dashed line
/// is the queue's own, what is above is borrowed.
pub(crate) fn svg(report: &Report) -> String {
    let most = report
        .queues
        .iter()
        .flat_map(|queue| queue.used.iter().copied().chain(std::iter::once(queue.guaranteed)));
    let most = most.max().unwrap_or(1).max(1) as f64;
    let last = report.hours.last().copied().unwrap_or(1).max(1) as f64;
    let rows = report.queues.len().div_ceil(COLUMNS);
    let (wide, high) =
        (GAP + COLUMNS as f64 * (WIDTH + GAP), 2.0 * GAP + rows as f64 * (HEIGHT + GAP));
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{wide}\" height=\"{high}\" fill=\"white\"/>\n\
         <text x=\"{GAP}\" y=\"20\" font-size=\"14\">GPUs in use by queue, {} gangs, {} days, dialect \
         {}: own (dark), borrowed (light), guarantee (dashed)</text>",
        report.gangs, report.days, report.dialect
    );
    for (at, queue) in report.queues.iter().enumerate() {
        let left = GAP + (at % COLUMNS) as f64 * (WIDTH + GAP);
        let top = 2.0 * GAP + (at / COLUMNS) as f64 * (HEIGHT + GAP) - 10.0;
        let x = |hour: u64| left + hour as f64 / last * WIDTH;
        let y = |gpus: i64| top + HEIGHT - gpus as f64 / most * HEIGHT;
        let area = |bounded: bool| {
            let mut path = format!("M{left:.1},{:.1}", top + HEIGHT);
            for (hour, used) in report.hours.iter().zip(&queue.used) {
                let used = if bounded { (*used).min(queue.guaranteed) } else { *used };
                let _ = write!(path, " L{:.1},{:.1}", x(*hour), y(used));
            }
            let _ = write!(path, " L{:.1},{:.1} Z", left + WIDTH, top + HEIGHT);
            path
        };
        let _ = writeln!(
            out,
            "<text x=\"{left:.1}\" y=\"{:.1}\">{}: guaranteed {}, used {:.0}, borrowed {:.0} h</text>\n\
             <path d=\"{}\" fill=\"#f2b880\"/>\n<path d=\"{}\" fill=\"#3b6ea5\"/>\n\
             <line x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"black\" \
             stroke-dasharray=\"4 3\"/>\n\
             <rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" \
             stroke=\"#888\"/>",
            top - 5.0,
            queue.name,
            queue.guaranteed,
            queue.mean_used,
            queue.borrowed_hours,
            area(false),
            area(true),
            left + WIDTH,
            y(queue.guaranteed),
            y(queue.guaranteed)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{GAP}\" y=\"{:.1}\">all panels: {last:.0} hours, up to {most:.0} GPUs</text>\n</svg>",
        high - 12.0
    );
    out
}

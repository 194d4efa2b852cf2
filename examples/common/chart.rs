//! Line charts as SVG, in colours that everybody can tell apart; each line is also named at its end.

use std::fmt::Write as _;

/// A line: its name, and its points from left to right.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One panel: what it shows, what its axes count, and its lines.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) across: String,
    pub(crate) up: String,
    pub(crate) lines: Vec<Line>,
}

const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9"];
const DASHES: [&str; 6] = ["none", "7 3", "2 2", "9 3 2 3", "4 4", "none"];
const GRID: &str = "#d9dde1";
const MUTED: &str = "#55606a";
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 170.0;
const HEAD: f64 = 64.0;
const PANEL: f64 = HEIGHT + 92.0;
/// The least distance of two names at the ends of lines.
const APART: f64 = 15.0;

/// The range of an axis, and the distance of its marks.
struct Axis {
    from: f64,
    to: f64,
    step: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, marks: f64) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let rough = ((high - low) / marks).max(f64::MIN_POSITIVE);
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
        let step = if high > low {
            steps.into_iter().find(|step| *step >= rough).unwrap_or(steps[3])
        } else {
            1.0
        };
        let (from, to) = ((low / step).floor() * step, (high / step).ceil() * step);
        Axis { from, to: to.max(from + step), step }
    }

    /// Where a value stands, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }

    fn marks(&self) -> impl Iterator<Item = f64> + '_ {
        let count = ((self.to - self.from) / self.step).round() as usize;
        (0..=count).map(|at| self.from + at as f64 * self.step)
    }

    fn label(&self, value: f64) -> String {
        if self.step < 1.0 { format!("{value:.1}") } else { format!("{value:.0}") }
    }
}

/// A picture of panels under each other, with a title and a line below it.
pub(crate) fn svg(title: &str, note: &str, charts: &[Chart]) -> String {
    let (wide, high) = (LEFT + WIDTH + RIGHT, HEAD + PANEL * charts.len() as f64);
    let (title, note) = (escaped(title), escaped(note));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" \
         viewBox=\"0 0 {wide} {high}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{title}</title>\n<rect width=\"{wide}\" height=\"{high}\" fill=\"white\"/>\n\
         <text x=\"20\" y=\"28\" font-size=\"17\" font-weight=\"bold\">{title}</text>\n\
         <text x=\"20\" y=\"48\" fill=\"{MUTED}\">{note}</text>\n"
    );
    for (at, chart) in charts.iter().enumerate() {
        let top = HEAD + 34.0 + at as f64 * PANEL;
        let _ = writeln!(out, "<g transform=\"translate({LEFT},{top})\">");
        panel(&mut out, chart);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, chart: &Chart) {
    let points = || chart.lines.iter().flat_map(|line| line.points.iter().copied());
    let across = Axis::of(points().map(|point| point.0), 8.0);
    let up = Axis::of(points().map(|point| point.1), 6.0);
    let place = |(x, y): (f64, f64)| (across.part(x) * WIDTH, HEIGHT - up.part(y) * HEIGHT);
    let _ = writeln!(
        out,
        "<text y=\"-10\" font-size=\"14\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{MUTED}\">{}</text>\n\
         <text transform=\"translate(-44,{}) rotate(-90)\" text-anchor=\"middle\" \
         fill=\"{MUTED}\">{}</text>",
        escaped(&chart.title),
        WIDTH / 2.0,
        HEIGHT + 36.0,
        escaped(&chart.across),
        HEIGHT / 2.0,
        escaped(&chart.up)
    );
    for mark in up.marks() {
        let y = place((across.from, mark)).1;
        let _ = writeln!(
            out,
            "<line x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{GRID}\"/>\
             <text x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            y + 4.0,
            up.label(mark)
        );
    }
    for mark in across.marks() {
        let x = place((mark, up.from)).0;
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{HEIGHT}\" y2=\"{}\" stroke=\"{MUTED}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT + 5.0,
            HEIGHT + 18.0,
            across.label(mark)
        );
    }
    // The names, from the top; each below the one before.
    let mut names: Vec<(f64, usize)> = Vec::new();
    for (at, line) in chart.lines.iter().enumerate() {
        let places: Vec<String> = line
            .points
            .iter()
            .map(|point| place(*point))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" \
             stroke-dasharray=\"{}\"/>",
            places.join(" "),
            COLOURS[at % COLOURS.len()],
            DASHES[at % DASHES.len()]
        );
        names.extend(line.points.last().map(|last| (place(*last).1, at)));
    }
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut above = f64::NEG_INFINITY;
    for (y, at) in names {
        above = y.max(above + APART);
        let _ = writeln!(
            out,
            "<line x1=\"{}\" x2=\"{}\" y1=\"{above:.1}\" y2=\"{above:.1}\" stroke=\"{}\" \
             stroke-width=\"2\" stroke-dasharray=\"{}\"/><text x=\"{}\" y=\"{:.1}\">{}</text>",
            WIDTH + 20.0,
            WIDTH + 44.0,
            COLOURS[at % COLOURS.len()],
            DASHES[at % DASHES.len()],
            WIDTH + 50.0,
            above + 4.0,
            escaped(&chart.lines[at].name)
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

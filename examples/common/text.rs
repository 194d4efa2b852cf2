//! Numbers and bars as people like to read them.

use std::time::Duration;

/// A whole number with a comma every three digits.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 pod`, `2,000 pods`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number as u64), if number == 1 { "" } else { "s" })
}

/// A span in the unit that suits it.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 1e-3 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// Parts of a whole as a bar of `width` characters; what no part covers is dots.
///
/// A part that is not nothing shows at least one character while there is room.
pub(crate) fn bar(parts: &[(char, i64)], whole: i64, width: usize) -> String {
    let mut bar = String::new();
    let mut drawn = 0;
    let mut sum = 0_i128;
    for &(symbol, part) in parts {
        sum += i128::from(part.max(0));
        let scaled = sum * width as i128 / i128::from(whole.max(1));
        let mut end = usize::try_from(scaled).unwrap_or(width).min(width);
        if part > 0 {
            end = end.max(drawn + 1).min(width);
        }
        bar.extend(std::iter::repeat_n(symbol, end.saturating_sub(drawn)));
        drawn = drawn.max(end);
    }
    bar.extend(std::iter::repeat_n('·', width - drawn));
    bar
}

/// A progress bar on standard error, if a person is looking at it.
#[derive(Debug)]
pub(crate) struct Progress {
    label: String,
    visible: bool,
    drawn: Option<usize>,
}

impl Progress {
    const WIDTH: usize = 40;

    /// A bar that is not drawn yet.
    pub(crate) fn new(label: impl Into<String>) -> Progress {
        let visible = std::io::IsTerminal::is_terminal(&std::io::stderr());
        Progress { label: label.into(), visible, drawn: None }
    }

    /// Draws, if it looks different from before.
    pub(crate) fn show(&mut self, done: usize, all: usize) {
        if !self.visible {
            return;
        }
        let percent = done * 100 / all.max(1);
        if self.drawn != Some(percent) {
            self.drawn = Some(percent);
            let bar = bar(&[('█', done as i64)], all as i64, Progress::WIDTH);
            eprint!("\r  {:<18} {bar} {percent:>3} %", self.label);
        }
    }
}

impl Drop for Progress {
    /// Wipes the bar away.
    fn drop(&mut self) {
        if self.drawn.is_some() {
            eprint!("\r{:width$}\r", "", width = Progress::WIDTH + 30);
        }
    }
}

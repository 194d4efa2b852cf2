//! Versions by semver 2.0.0.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A version. What is built from it (`+...`) does not matter to its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Semver {
    pub(super) numbers: [u64; 3],
    before: Vec<String>,
}

impl Semver {
    /// Reads a version; a lenient reader takes `v1.2` for `1.2.0`, and leading zeros.
    pub(super) fn parse(text: &str, lenient: bool) -> Option<Semver> {
        let text = if lenient { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (text, build) = text.split_once('+').map_or((text, None), |(a, b)| (a, Some(b)));
        let (core, before) = text.split_once('-').map_or((text, None), |(a, b)| (a, Some(b)));
        let mut numbers = [0; 3];
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > 3 || parts.len() < 3 && (!lenient || before.is_some() || build.is_some()) {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(&parts) {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || !lenient && part.len() > 1 && part.starts_with('0') {
                return None;
            }
            *number = part.parse().ok()?;
        }
        let sound = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let padded = |part: &str| part.len() > 1 && part.starts_with('0') && is_number(part);
        let before: Vec<String> =
            before.iter().flat_map(|before| before.split('.')).map(String::from).collect();
        let mut built = build.iter().flat_map(|build| build.split('.'));
        let fine = before.iter().all(|part| sound(part) && !padded(part)) && built.all(sound);
        fine.then_some(Semver { numbers, before })
    }

    pub(super) fn compare(&self, other: &Semver) -> Ordering {
        let before = || match (self.before.is_empty(), other.before.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let parts = self.before.iter().zip(&other.before);
                let parts = parts.map(|(a, b)| compare_parts(a, b));
                let first = parts.into_iter().find(|order| order.is_ne());
                first.unwrap_or_else(|| self.before.len().cmp(&other.before.len()))
            }
        };
        self.numbers.cmp(&other.numbers).then_with(before)
    }
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers by value and before texts, texts by bytes.
fn compare_parts(a: &str, b: &str) -> Ordering {
    match (is_number(a), is_number(b)) {
        (true, true) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests;

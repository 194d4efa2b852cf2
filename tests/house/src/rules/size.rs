//! Size of files.

use crate::sources::Sources;

/// Files with more lines of code than a limit, tests included; comments and blank lines are free.
#[must_use]
pub fn long_files(sources: &Sources, limit: usize) -> Vec<String> {
    let files = sources.files.iter().zip(&sources.lines).filter(|(_, lines)| **lines > limit);
    let told = |(file, lines)| {
        format!("{file} has {lines} lines of code, {limit} are allowed: split it by what it does")
    };
    files.map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found() {
        let long = "// a\n\n/* b\n c */\nconst D: u8 = 1; // e\n/// f\nconst G: u8 = 1;";
        let sources = Sources::of(&[("lib.rs", "mod a;"), ("a.rs", long)]);
        assert!(long_files(&sources, 2).is_empty());
        assert!(long_files(&sources, 1)[0].starts_with("a.rs has 2 lines"));
    }
}

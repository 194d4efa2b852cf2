//! Words of pages and doc comments: how a paragraph opens, and how long sentences and pages are.
//!
//! Headings, tables and blocks of code are free. A code span or the text of a link is read as text.

/// A paragraph of prose, or an item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paragraph {
    /// The line that it begins on, from 1.
    pub line: usize,
    pub text: String,
}

/// Paragraphs of a page of Markdown.
#[must_use]
pub fn of_page(page: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    paragraphs(page.lines().enumerate(), &mut found);
    found
}

/// Paragraphs of the section of a changelog that is not released.
#[must_use]
pub fn of_unreleased(changelog: &str) -> Vec<Paragraph> {
    let lines = changelog.lines().enumerate();
    let section = lines.skip_while(|(_, line)| !line.starts_with("## [Unreleased]"));
    let mut found = Vec::new();
    let mut heads = 0;
    let inside = section.take_while(|(_, line)| {
        heads += usize::from(line.starts_with("## "));
        heads < 2
    });
    paragraphs(inside, &mut found);
    found
}

/// Paragraphs of the doc comments of a source.
#[must_use]
pub fn of_source(source: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut comment: Vec<(usize, &str)> = Vec::new();
    let mut kind = "";
    for (at, line) in source.lines().map(str::trim_start).enumerate() {
        let own = ["///", "//!"].into_iter().find(|own| line.starts_with(own)).unwrap_or("");
        if own != kind {
            paragraphs(comment.drain(..), &mut found);
        }
        kind = own;
        if !own.is_empty() {
            comment.push((at, &line[own.len()..]));
        }
    }
    paragraphs(comment.drain(..), &mut found);
    found
}

fn paragraphs<'t>(lines: impl Iterator<Item = (usize, &'t str)>, found: &mut Vec<Paragraph>) {
    let (mut is_code, mut is_hidden, mut is_open) = (false, false, false);
    for (at, line) in lines {
        let line = line.trim();
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        is_hidden |= line.starts_with("<!--");
        let is_prose = !(is_fence || is_code || is_hidden || is_free(line));
        is_hidden &= !line.contains("-->");
        let item = is_prose.then(|| after_marker(line)).flatten();
        if let (true, true, None, Some(last)) = (is_prose, is_open, item, found.last_mut()) {
            last.text.push(' ');
            last.text.push_str(line);
        } else if is_prose {
            found.push(Paragraph { line: at + 1, text: item.unwrap_or(line).to_owned() });
        }
        is_open = is_prose;
    }
}

/// Whether a line is blank, a heading, a row of a table or the target of a link.
fn is_free(line: &str) -> bool {
    let is_target = line.starts_with('[') && line.contains("]: ");
    line.is_empty() || line.starts_with(['#', '|']) || is_target
}

/// The text of an item of a list.
fn after_marker(line: &str) -> Option<&str> {
    let (marker, text) = line.split_once(' ')?;
    let number = marker.strip_suffix('.').unwrap_or("");
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number || ["-", "*"].contains(&marker)).then(|| text.trim_start())
}

/// A text without the content of code spans and the targets of links, as both are one word or none.
fn plain(text: &str) -> String {
    let mut found = String::new();
    let spans = text.split('`').enumerate();
    let words = spans.map(|(at, span)| if at % 2 == 0 { span } else { "code" });
    let text: String = words.collect();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        found.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    found.push_str(rest);
    found
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

/// Words of the sentences of a text, each with its first words.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut sentence: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        sentence.push(word);
        if word.trim_end_matches([')', '"', '*', '”', ']']).ends_with(['.', '!', '?']) {
            found.push(std::mem::take(&mut sentence));
        }
    }
    found.push(sentence);
    let told = |sentence: Vec<&str>| (words(&sentence.join(" ")), sentence.join(" "));
    found.into_iter().map(told).collect()
}

/// Paragraphs that open with a word in place of the thing's name.
#[must_use]
pub fn bad_openings(file: &str, paragraphs: &[Paragraph], refused: &[&str]) -> Vec<String> {
    let told = |Paragraph { line, text }: &Paragraph| {
        let first = text.split_whitespace().next()?.trim_matches(['*', '(', '"']);
        let is_bad = refused.contains(&first);
        is_bad.then(|| format!("{file}:{line} begins with {first}: name the thing first"))
    };
    paragraphs.iter().filter_map(told).collect()
}

/// Sentences with more words than a limit.
#[must_use]
pub fn long_sentences(file: &str, paragraphs: &[Paragraph], limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    for Paragraph { line, text } in paragraphs {
        for (count, sentence) in sentences(&plain(text)).iter().filter(|(count, _)| *count > limit)
        {
            found.push(format!(
                "{file}:{line} has a sentence of {count} words, {limit} are allowed: {sentence}"
            ));
        }
    }
    found
}

/// A page with more words of prose than a limit.
#[must_use]
pub fn long_page(file: &str, paragraphs: &[Paragraph], limit: usize) -> Option<String> {
    let count: usize = paragraphs.iter().map(|paragraph| words(&plain(&paragraph.text))).sum();
    let told =
        || format!("{file} has {count} words, {limit} are allowed: split it by what it says");
    (count > limit).then(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paragraphs: &[Paragraph]) -> Vec<&str> {
        paragraphs.iter().map(|paragraph| paragraph.text.as_str()).collect()
    }

    #[test]
    fn headings_tables_and_code_are_free() {
        let page = "# What\nOne\ntwo.\n\n- three\n  four\n2. five\n\n| Of | a |\n```text\nWhich\n```\n\
                    [b]: c.md\n<!-- Those\nhidden -->\nsix";
        assert_eq!(texts(&of_page(page)), ["One two.", "three four", "five", "six"]);
        assert_eq!(of_page(page)[1].line, 5);
    }

    #[test]
    fn a_changelog_counts_until_it_was_released() {
        let changelog = "Before.\n## [Unreleased]\n- New.\n## [0.1.0]\n- Old.";
        assert_eq!(texts(&of_unreleased(changelog)), ["New."]);
    }

    #[test]
    fn comments_end_with_their_kind() {
        let source =
            "//! Of a file.\n/// Of an item.\n///\n/// - Item.\nstruct A; // What\n  /// B.";
        assert_eq!(texts(&of_source(source)), ["Of a file.", "Of an item.", "Item.", "B."]);
    }

    #[test]
    fn bad_openings_are_found() {
        let found = |text| bad_openings("a.rs", &of_page(text), &["What", "Of"]);
        assert_eq!(found("**What** is free."), ["a.rs:1 begins with What: name the thing first"]);
        assert_eq!(found("Whatever. Of course.\n- Offers."), [""; 0]);
        assert_eq!(found("- Offers.\n- Of these.").len(), 1);
    }

    #[test]
    fn long_sentences_are_found() {
        let found = |text| long_sentences("a.md", &of_page(text), 4);
        assert_eq!(found("One two three four. Five (six seven eight.) `a b c d e` nine."), [""; 0]);
        assert_eq!(found("[one two](three four five six)\nseven — eight."), [""; 0]);
        assert!(found("One two three.\n\nOne two three\nfour 5.")[0].starts_with("a.md:3 has"));
    }

    #[test]
    fn long_pages_are_found() {
        let page = of_page("One two\n\n| three four |\n\nfive `six seven`");
        assert_eq!(long_page("a.md", &page, 4), None);
        assert!(long_page("a.md", &page, 3).expect("long").contains("has 4 words"));
    }
}

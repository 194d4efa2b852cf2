//! Texts cut to a length that an error message can bear.

use core::fmt;

/// The most bytes of a name or value that a message quotes: more than a full name of Kubernetes has.
const MOST: usize = 320;
/// The most bytes of a sentence that a message takes over.
const MOST_TEXT: usize = 1_024;

/// A text for a message: its first bytes, and how many there are if that is not all.
#[derive(Clone, Copy)]
pub(crate) struct Clipped<'a> {
    text: &'a str,
    most: usize,
}

/// Cuts a name or a value to what a message can bear.
pub(crate) fn clip(text: &str) -> Clipped<'_> {
    Clipped { text, most: MOST }
}

/// Cuts a sentence to what a message can bear.
pub(crate) fn clip_text(text: &str) -> Clipped<'_> {
    Clipped { text, most: MOST_TEXT }
}

impl<'a> Clipped<'a> {
    /// The part that is shown, and whether that is not all.
    fn shown(self) -> (&'a str, bool) {
        if self.text.len() <= self.most {
            return (self.text, false);
        }
        let end = (0..=self.most).rev().find(|end| self.text.is_char_boundary(*end)).unwrap_or(0);
        (&self.text[..end], true)
    }
}

impl fmt::Display for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, cut) = self.shown();
        f.write_str(shown)?;
        if cut { write!(f, "… ({} bytes)", self.text.len()) } else { Ok(()) }
    }
}

impl fmt::Debug for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, cut) = self.shown();
        write!(f, "{shown:?}")?;
        if cut { write!(f, "… ({} bytes)", self.text.len()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;

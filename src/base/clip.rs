//! Texts cut to a length that an error message can bear.

use core::fmt;

/// The most bytes of a text that a message quotes.
const MOST: usize = 128;

/// A text for a message: its first bytes, and how many there are if that is not all.
#[derive(Clone, Copy)]
pub(crate) struct Clipped<'a>(&'a str);

/// Cuts a text to what a message can bear.
pub(crate) fn clip(text: &str) -> Clipped<'_> {
    Clipped(text)
}

impl<'a> Clipped<'a> {
    /// The part that is shown, and whether that is not all.
    fn shown(self) -> (&'a str, bool) {
        if self.0.len() <= MOST {
            return (self.0, false);
        }
        let end = (0..=MOST).rev().find(|end| self.0.is_char_boundary(*end)).unwrap_or(0);
        (&self.0[..end], true)
    }
}

impl fmt::Display for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, cut) = self.shown();
        f.write_str(shown)?;
        if cut { write!(f, "… ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

impl fmt::Debug for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, cut) = self.shown();
        write!(f, "{shown:?}")?;
        if cut { write!(f, "… ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn long_texts_are_cut_between_characters_and_short_ones_are_not() {
        let short = "n".repeat(MOST);
        assert_eq!(
            (format!("{}", clip(&short)), format!("{:?}", clip("a\n"))),
            (short, "\"a\\n\"".into())
        );
        let long = "é".repeat(MOST);
        assert_eq!(format!("{}", clip(&long)), format!("{}… (256 bytes)", "é".repeat(MOST / 2)));
        let odd = format!("x{long}");
        assert_eq!(
            format!("{}", clip(&odd)),
            format!("x{}… (257 bytes)", "é".repeat(MOST / 2 - 1))
        );
    }
}

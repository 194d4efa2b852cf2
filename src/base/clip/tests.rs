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
    assert_eq!(format!("{}", clip(&long)), format!("{}… (640 bytes)", "é".repeat(MOST / 2)));
    let odd = format!("x{long}");
    assert_eq!(format!("{}", clip(&odd)), format!("x{}… (641 bytes)", "é".repeat(MOST / 2 - 1)));
}

use super::*;

#[test]
fn versions_are_in_the_order_of_the_specification() {
    let ordered = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.9.0",
        "1.10.0",
    ];
    let ordered = ordered.map(|text| Semver::parse(text, false).unwrap());
    for (a, version) in ordered.iter().enumerate() {
        for (b, other) in ordered.iter().enumerate() {
            assert_eq!(version.compare(other), a.cmp(&b));
        }
    }
    for wrong in ["1.0", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0-", "1.0.0+", "", "1.0.0.0"] {
        assert_eq!(Semver::parse(wrong, false), None, "{wrong}");
    }
    assert_eq!(Semver::parse("v2.0", true).unwrap().numbers, [2, 0, 0]);
    assert_eq!(Semver::parse("01.2.3", true).unwrap().numbers, [1, 2, 3]);
}

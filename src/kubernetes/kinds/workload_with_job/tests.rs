use super::*;

#[test]
fn hashes_are_spelled_without_vowels() {
    // FNV-1a of nothing is its offset basis, 2166136261.
    let digits = "2166136261";
    let letters = b"bcdfghjklmnpqrstvwxz2456789";
    let expected: String =
        digits.bytes().map(|digit| char::from(letters[usize::from(digit) % 27])).collect();
    assert_eq!(hash_name(&[]), expected);
    assert_eq!(hash_name(&[b"ab", b"c"]), hash_name(&[b"abc"]));
}

#[test]
fn long_names_are_cut_fairly() {
    let long = "x".repeat(253);
    for (workload, template) in [(&*long, &*long), ("w", &*long), (&*long, "t")] {
        let name = pod_group_name(workload, template);
        assert!(name.len() <= MAX_NAME, "{}", name.len());
        assert!(name.len() >= MAX_NAME - 1, "{}", name.len());
    }
    assert!(pod_group_name("w", &long).starts_with("w-xx"));
    assert!(pod_group_name(&long, "t").contains("x-t-"));
    assert!(pod_group_name(&"é".repeat(200), &long).len() <= MAX_NAME);
}

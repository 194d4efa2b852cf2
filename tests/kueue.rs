//! Topology assignments against Kueue's own tables, the examples of KEP-2724, and odd input.

#[path = "../examples/common/kueue_cases.rs"]
mod kueue_cases;

use std::io::Read;

fn cases() -> String {
    let packed: &[u8] = include_bytes!("data/kueue-tas.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("the data is gzip");
    text
}

#[test]
fn every_case_of_kueue_agrees() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for line in cases().lines() {
        let verdict = kueue_cases::run_case(line).expect("a case");
        count += 1;
        if !verdict.agrees() {
            wrong.push(verdict);
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ: {wrong:#?}", wrong.len());
    assert_eq!(count, 46);
}

//! The busy day of `throughput`, on a small cluster for a few seconds; and the workloads of other
//! schedulers' benchmarks, small.

use std::collections::BTreeMap;

use crate::day::Day;
use crate::workload::{Arrivals, KNOWN, Kind};

fn fields(seed: u64) -> BTreeMap<String, String> {
    let day = Day { nodes: 120, racks: 3, seed, seconds: 12 };
    let figures = day.measure(1.0, || 0.0);
    assert!(figures.is_equal(), "fresh planners answer the same");
    let json: BTreeMap<String, serde_json::Value> = serde_json::from_str(&figures.json()).unwrap();
    let text = figures.text();
    assert!(json.keys().all(|name| text.contains(name)), "{text}");
    json.into_iter().map(|(name, value)| (name, value.to_string())).collect()
}

#[test]
fn a_day_is_the_same_for_the_same_seed() {
    let (first, again, other) = (fields(1), fields(1), fields(2));
    for name in ["decisions", "placed", "refused", "conflicts", "events", "warm_share", "plans"] {
        assert_eq!(first[name], again[name], "{name}");
    }
    assert_ne!(first["plans"], other["plans"]);
    let number = |name: &str| first[name].parse::<f64>().unwrap();
    // Every gang that comes is placed or refused, and decided again after each conflict.
    assert_eq!(number("placed") + number("refused"), 12.0 * 20.0);
    assert_eq!(number("decisions"), 12.0 * 20.0 + number("conflicts"));
    assert!(number("placed") > 120.0 && number("conflicts") > 0.0);
    assert!(number("warm_share") > 0.8);
    assert!(number("gpus_taken_most") <= 1.0);
    for name in [
        "decisions_per_s",
        "p50_us",
        "p99_us",
        "p999_us",
        "fresh_ratio",
        "bytes_at_10_min",
        "bytes_at_60_min",
        "straight_pass_us",
        "simd",
    ] {
        assert!(first.contains_key(name), "{name}");
    }
}

#[test]
fn arrivals_are_drawn_as_they_are_described() {
    const GANGS: usize = 40_000;
    let mut arrivals = Arrivals::new(5);
    let mut sizes = BTreeMap::<usize, usize>::new();
    let mut kinds = [0; 4];
    let mut known = 0;
    for _ in 0..GANGS {
        let work = arrivals.next();
        *sizes.entry(work.group.pods.len()).or_default() += 1;
        kinds[work.kind as usize] += 1;
        known += usize::from(work.shape < KNOWN);
        assert_eq!(work.kind == Kind::Rack, work.group.topology.require.is_some());
        let shape = work.group.pods[0].shape();
        assert_eq!(work.kind == Kind::Spread, !shape.spread.is_empty());
        assert_eq!(work.kind == Kind::Repel, !shape.pod_anti_affinity.is_empty());
    }
    let near = |count: usize, share: f64| {
        let (count, expected) = (count as f64, GANGS as f64 * share);
        assert!((count - expected).abs() < 5.0 * expected.sqrt(), "{count} for {expected}");
    };
    assert_eq!(sizes.len(), 10);
    for (size, count) in sizes {
        near(count, 512.0 / size as f64 / 1_023.0);
    }
    near(kinds[Kind::Rack as usize], 1.0 / 3.0);
    near(kinds[Kind::Spread as usize], 0.05);
    near(kinds[Kind::Repel as usize], 0.05);
    near(known, 0.6);
}

#[test]
fn workloads_of_peers_bind_all_their_pods() {
    const DIVIDE: usize = 100;
    let rows = crate::peers::measure(DIVIDE, "").unwrap();
    let json: Vec<serde_json::Value> = serde_json::from_str(&crate::peers::json(&rows)).unwrap();
    let text = crate::peers::text(&rows, DIVIDE);
    assert!(text.contains("WITH AN API SERVER"), "{text}");
    let mut sections = BTreeMap::<&str, usize>::new();
    for row in &json {
        let (name, section) = (row["name"].as_str().unwrap(), row["section"].as_str().unwrap());
        assert!(text.contains(name));
        *sections.entry(section).or_default() += 1;
        assert_eq!(row["bound"], row["pods"], "{name}: every pod has a place");
        assert!(row["per_s"].as_f64().unwrap() > 0.0, "{name}");
        let is_of_server = row["theirs_with_server"].as_bool().unwrap();
        assert_eq!(is_of_server, section.starts_with('4') || section == "7", "{name}");
    }
    let expected = ["10", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.7", "4.8", "7", "8"];
    assert_eq!(sections.keys().copied().collect::<Vec<_>>(), expected);
    assert!(json.len() > 60, "{} rows", json.len());
    assert_eq!(crate::peers::measure(DIVIDE, "KAI allocate").unwrap().len(), 3);
}

//! The table of cards in the guide: of each dialect a node with two cards, what is in use of them, what
//! is asked, which card serves it and what is written back.

use super::devices::{DIALECTS, kai_node, kai_pod, labels, node, place, pod};
use super::reading::written;
use super::zones;

/// The share in use of each of two cards, in hundredths, and the share that is asked.
const CASES: [([usize; 2], usize); 6] =
    [([50, 0], 50), ([50, 0], 60), ([0, 50], 100), ([50, 50], 50), ([50, 50], 60), ([50, 50], 100)];

fn words(share: usize) -> &'static str {
    match share {
        0 => "none",
        50 => "half",
        100 => "a whole card",
        _ => "more than half",
    }
}

/// The manifests of a case in a dialect.
fn case(dialect: usize, used: [usize; 2], asked: usize) -> String {
    let in_use = || used.into_iter().enumerate().filter(|(_, share)| *share > 0);
    if let Some(dialect) = DIALECTS.get(dialect) {
        let runs: String = in_use().map(|(card, share)| (dialect.runs)(card, share)).collect();
        return [(dialect.node)(), runs, (dialect.asks)(asked)].concat();
    }
    let fraction = |share: usize| format!("gpu-fraction: \"0.{share}\"");
    if dialect == DIALECTS.len() {
        let runs = in_use().map(|(card, share)| {
            kai_pod(&format!("on{card}"), Some(&format!("g{card}")), &fraction(share), "cpu: 1")
        });
        let runs: String = runs.collect();
        let asks = match asked {
            100 => kai_pod("new", None, "", "nvidia.com/gpu: 1"),
            share => kai_pod("new", None, &fraction(share), "cpu: 1"),
        };
        return [kai_node(), runs, asks].concat();
    }
    // Both cards are cut in halves: there is no larger slice, and no whole card.
    let runs = in_use().map(|(card, _)| {
        pod(&format!("on{card}"), "", "nodeName: n1", "nvidia.com/mig-3g.20gb: 1")
    });
    let runs: String = runs.collect();
    let slice = match asked {
        50 => "nvidia.com/mig-3g.20gb: 1",
        60 => "nvidia.com/mig-4g.20gb: 1",
        _ => "nvidia.com/gpu: 1",
    };
    let node = node("", "cpu: 8, nvidia.com/mig-3g.20gb: 4, nvidia.com/gpu: 0");
    [node, runs, pod("new", "", "restartPolicy: Never", slice)].concat()
}

/// The keys that say which card a pod has, by dialect.
const NAMES: [(&str, &str); 6] = [
    ("HAMi", "hami.io/vgpu-devices-allocated"),
    ("Volcano", "volcano.sh/vgpu-ids-new"),
    ("Koordinator", "scheduling.koordinator.sh/device-allocated"),
    ("KAI", "received-resource-type"),
    ("MIG", ""),
    ("NodeResourceTopology", ""),
];

/// The card that serves a case, and what is written on the pod.
fn answer(dialect: usize, used: [usize; 2], asked: usize) -> (String, String) {
    if NAMES[dialect].0 == "NodeResourceTopology" {
        return zone(used, asked);
    }
    let manifests = written(&case(dialect, used, asked)).unwrap();
    assert!(!manifests.nodes[0].unschedulable, "{:?}", manifests.notes);
    assert!(manifests.groups[0].pods[0].scheduling_gates.is_empty());
    let (name, key) = NAMES[dialect];
    let (devices, mut annotations) = match place(&manifests) {
        Ok(found) => found,
        // The explanation names the filter: the node has CPUs and room for pods.
        Err(why) => {
            let filter = if name == "MIG" { "Fit rejects" } else { "DeviceFit" };
            assert!(why.contains(filter), "{name} {used:?} {asked}: {why}");
            return ("nothing".into(), String::new());
        }
    };
    if name == "MIG" {
        return ("a slice, of a card that its plugin picks".into(), "nothing".into());
    }
    let [card @ [_]] = &devices.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] else {
        panic!("{name}: {devices:?}");
    };
    let mut written = Vec::new();
    if let Some(value) = annotations.remove(key) {
        written.push(format!("`{key}: {value}`"));
    }
    let labels = labels(&manifests, &devices);
    written.extend(labels.iter().map(|(key, value)| format!("label `{key}: {value}`")));
    let card = if name == "KAI" { card_of_group(&labels, used) } else { card[0] as usize };
    (format!("card {card}"), written.join(", "))
}

/// The same of two NUMA zones of eight CPUs, of a node that admits a pod to one zone only.
fn zone(used: [usize; 2], asked: usize) -> (String, String) {
    let cpus = |share: usize| (share * 8).div_ceil(100) as u32;
    let node = zones::node("single-numa-node", "container", used.map(|used| 8 - cpus(used)));
    let pod = zones::pod("", &[(&cpus(asked).to_string(), 0)]);
    match zones::place(&written(&format!("{node}{pod}")).unwrap()) {
        Ok(shares) => {
            assert_eq!(shares[0].1, i64::from(cpus(asked)), "{shares:?}");
            (format!("zone {}", shares[0].0), "nothing: kubelet chooses".into())
        }
        Err(why) => {
            assert!(why.contains("ZoneFit"), "{used:?} {asked}: {why}");
            ("nothing".into(), String::new())
        }
    }
}

/// KAI's cards have no numbers: those in use are known by their groups, of which `g<n>` has card n, and
/// any other card is the one without a group.
fn card_of_group(labels: &[(String, String)], used: [usize; 2]) -> usize {
    let group = labels.first().and_then(|(_, group)| group.strip_prefix('g')?.parse().ok());
    group.unwrap_or_else(|| used.iter().position(|share| *share == 0).unwrap())
}

#[test]
fn the_guide_has_the_table_of_cards() {
    const MARKS: [&str; 2] = ["<!-- cards: begin -->\n", "<!-- cards: end -->"];
    let mut rows = String::from(
        "| dialect | in use of card 0, card 1 | asked | granted | written on the pod |\n\
         |---|---|---|---|---|\n",
    );
    for (dialect, (name, _)) in NAMES.iter().enumerate() {
        for (used, asked) in CASES {
            let (granted, written) = answer(dialect, used, asked);
            // Two halves are no whole, whatever the dialect.
            let is_none = used == [50, 50] && asked > 50;
            if is_none {
                assert_eq!(granted, "nothing", "{name} {used:?} {asked}");
            } else if *name != "MIG" || asked == 50 {
                let card = usize::from(asked == 60);
                let is_own = granted == format!("card {card}") || granted == format!("zone {card}");
                assert!(*name == "MIG" || is_own, "{name} {used:?} {asked}: {granted}");
            }
            rows.push_str(&format!(
                "| {name} | {}, {} | {} | {granted} | {written} |\n",
                words(used[0]),
                words(used[1]),
                words(asked)
            ));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubernetes.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (table, after) = rest.split_once(MARKS[1]).unwrap();
    if std::env::var_os("PHALANX_WRITE_DOCS").is_some() {
        std::fs::write(path, [before, MARKS[0], &rows, MARKS[1], after].concat()).unwrap();
    } else {
        assert!(table == rows, "the guide is behind the code: PHALANX_WRITE_DOCS=1 writes it anew");
    }
}

//! Small random instances.

use phalanx::framework::{Declaration, Reach, Verdict, filter_fn};
use phalanx::model::{LabelSelector, PodAffinityTerm, PodShape};
use phalanx::plugins::{Fit, InterPodAffinity};
use phalanx::state::NodeView;
use phalanx::{Cluster, Filter, Framework, Node, Pod, PodGroup, Strategy};

use crate::support::dice::Dice;

pub(super) const LEVELS: [&str; 3] = ["zone", "block", "rack"];

pub(super) fn cluster(random: &mut Dice) -> Cluster {
    let mut cluster = Cluster::builder().levels(LEVELS).build().unwrap();
    let nodes = 1 + random.roll(8);
    let sizes = [1, 2, 4, 8];
    for number in 0..nodes {
        let mut node = Node::new(format!("n{number}"))
            .capacity("gpu", sizes[random.roll(4) as usize])
            .capacity("cpu", 2 + random.roll(9) as i64)
            .capacity("pods", 2 + random.roll(6) as i64)
            .label("kind", ["a", "b"][random.roll(2) as usize]);
        // Mixed depth: some nodes lack a level; names of racks are used again in other zones.
        for (level, count) in [("zone", 2), ("block", 2), ("rack", 3)] {
            if random.chance(90) {
                node = node.label(level, format!("{level}{}", random.roll(count)));
            }
        }
        cluster.add_node(node).unwrap();
        if random.chance(30) {
            let bound = Pod::new().name(format!("b{number}")).request("gpu", 1).request("cpu", 1);
            cluster.add_pod(bound.on(format!("n{number}"))).unwrap();
        }
    }
    cluster
}

pub(super) fn leaf(random: &mut Dice, name: &str, pods: u64, far: bool) -> PodGroup {
    let roles = 1 + random.roll(3);
    let mut shapes: Vec<Pod> = Vec::new();
    for _ in 0..roles {
        let mut pod = Pod::new()
            .request("gpu", [1, 1, 2, 3, 4][random.roll(5) as usize])
            .request("cpu", 1 + random.roll(4) as i64);
        if random.chance(25) {
            pod = pod.attribute("kind", ["a", "b"][random.roll(2) as usize]);
        }
        if random.chance(15) {
            pod = pod.attribute("solo", "yes");
        }
        if far && random.chance(40) {
            pod = pod.label("lead", "x");
        }
        if far && random.chance(40) {
            pod = pod.label("follow", "x");
        }
        if far && random.chance(20) {
            pod = pod.label("apart", "x");
        }
        shapes.push(pod);
    }
    let mut group = PodGroup::gang(name, 1);
    for number in 0..pods {
        let shape = &shapes[random.roll(roles) as usize];
        group = group.pod(shape.clone().name(format!("{name}-{number}")));
    }
    let minimum = if random.chance(75) { pods } else { 1 + random.roll(pods) };
    group.policy = phalanx::model::GroupPolicy::Gang { min_count: minimum as u32 };
    confine(random, group)
}

pub(super) fn confine(random: &mut Dice, mut group: PodGroup) -> PodGroup {
    match random.roll(10) {
        0..4 => {}
        4..8 => group = group.require(LEVELS[random.roll(3) as usize]),
        8 => group = group.prefer(LEVELS[random.roll(3) as usize]),
        _ => group = group.require("kind"),
    }
    group
}

pub(super) fn group(random: &mut Dice, far: bool) -> PodGroup {
    let most = if far { 5 } else { 7 };
    match random.roll(5) {
        0 | 1 => {
            let pods = 1 + random.roll(most);
            let group = leaf(random, "g", pods, far);
            if random.chance(20) { group.slice("rack", 2) } else { group }
        }
        2 | 3 => {
            let inside = 2 + random.roll(2);
            let minimum = if random.chance(70) { inside } else { 1 + random.roll(inside) };
            let mut root = PodGroup::gang("w", minimum as u32);
            for number in 0..inside {
                let pods = 1 + random.roll(most / inside);
                root = root.group(leaf(random, &format!("g{number}"), pods, far));
            }
            confine(random, root)
        }
        _ => {
            let mut root = PodGroup::gang("w", 2);
            for outer in 0..2 {
                let minimum = 1 + random.roll(2) as u32;
                let mut middle = PodGroup::gang(format!("m{outer}"), minimum);
                for number in 0..2 {
                    let pods = 1 + random.roll(2);
                    middle = middle.group(leaf(random, &format!("g{outer}{number}"), pods, far));
                }
                root = root.group(confine(random, middle));
            }
            confine(random, root)
        }
    }
}

/// The same group with real affinity terms in place of labels that closures read.
pub(super) fn with_terms(mut group: PodGroup) -> PodGroup {
    let term = |key: &str| PodAffinityTerm::new("rack", LabelSelector::label(key, "x"));
    for pod in &mut group.pods {
        let has = |key: &str| pod.shape().labels.contains_key(key);
        let (follow, apart) = (has("follow"), has("apart"));
        if follow {
            *pod = pod.clone().affinity(term("lead"));
        }
        if apart {
            *pod = pod.clone().anti_affinity(term("apart"));
        }
    }
    group.groups = group.groups.into_iter().map(with_terms).collect();
    group
}

/// At most one pod with attribute `solo` a node, and it wants no company of its kind.
pub(super) struct Solo;

impl Filter for Solo {
    fn name(&self) -> &str {
        "Solo"
    }

    fn filter(&self, cx: &phalanx::framework::Context<'_>, node: NodeView<'_>) -> Verdict {
        let solo = |shape: &PodShape| shape.attributes.contains_key("solo");
        Verdict::pass_if(!solo(cx.pod()) || !node.pods().any(|pod| solo(pod.shape())))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::node().monotone()
    }
}

pub(super) fn framework(near: bool, far: bool, terms: bool) -> Framework {
    let mut builder = Framework::builder().filter(Fit).strategy(Strategy::Search);
    if terms {
        builder = builder.filter(InterPodAffinity::new());
    }
    if near {
        let kind = filter_fn("Kind", Reach::Static, |cx, node| {
            cx.pod().attributes.get("kind").is_none_or(|kind| node.has_label("kind", kind))
        });
        builder = builder.filter(kind).filter(Solo);
    }
    if far && !terms {
        // Company in the rack that must be there first: not monotone, so the order matters.
        builder = builder.filter(filter_fn("Follow", Reach::Cluster, |cx, node| {
            let has = |pod: &PodShape, key: &str| pod.labels.contains_key(key);
            !has(cx.pod(), "follow")
                || has(cx.pod(), "lead")
                || cx.cluster().pods().any(|pod| {
                    has(pod.shape(), "lead")
                        && pod.node().is_some_and(|other| other.label("rack") == node.label("rack"))
                })
        }));
        builder = builder.filter(filter_fn("Apart", Reach::Cluster, |cx, node| {
            let apart = |pod: &PodShape| pod.labels.contains_key("apart");
            !apart(cx.pod())
                || !cx.cluster().pods().any(|pod| {
                    apart(pod.shape())
                        && pod.node().is_some_and(|other| other.label("rack") == node.label("rack"))
                })
        }));
    }
    builder.build().unwrap()
}

//! The search against brute force, on thousands of small random instances.
//!
//! A group is feasible if and only if brute force says so, the search never runs out of steps,
//! every certificate verifies, and one that was changed does not.

mod dice;

use std::collections::BTreeSet;

use dice::Dice;
use phalanx::framework::{Declaration, Evaluation, Filter, Reach, Verdict, filter_fn};
use phalanx::model::{LabelSelector, Node, Pod, PodAffinityTerm, PodGroup, PodShape};
use phalanx::place::{Certificate, Lack, Proof, Refusal, UnplacedKind};
use phalanx::plugins::{Fit, InterPodAffinity};
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Outcome, Strategy, Txn, place_gang};

const LEVELS: [&str; 3] = ["zone", "block", "rack"];

fn cluster(random: &mut Dice) -> Cluster {
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

fn leaf(random: &mut Dice, name: &str, pods: u64, far: bool) -> PodGroup {
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

fn confine(random: &mut Dice, mut group: PodGroup) -> PodGroup {
    match random.roll(10) {
        0..4 => {}
        4..8 => group = group.require(LEVELS[random.roll(3) as usize]),
        8 => group = group.prefer(LEVELS[random.roll(3) as usize]),
        _ => group = group.require("kind"),
    }
    group
}

fn group(random: &mut Dice, far: bool) -> PodGroup {
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
fn with_terms(mut group: PodGroup) -> PodGroup {
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
struct Solo;

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

fn framework(near: bool, far: bool, terms: bool) -> Framework {
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

/// The nodes of each domain of a level, told apart by all levels above it.
fn domains(cluster: &Cluster, key: &str, nodes: &[String]) -> Vec<Vec<String>> {
    let keys: Vec<&str> = match LEVELS.iter().position(|level| *level == key) {
        Some(level) => LEVELS[..=level].to_vec(),
        None => vec![key],
    };
    let path = |name: &String| -> Option<Vec<Option<String>>> {
        let node = cluster.node(name).unwrap();
        node.label(key)?;
        Some(keys.iter().map(|key| node.label(key).map(String::from)).collect())
    };
    let paths: BTreeSet<_> = nodes.iter().filter_map(path).collect();
    let of = |wanted: &Vec<Option<String>>| {
        nodes.iter().filter(|name| path(name).as_ref() == Some(wanted)).cloned().collect()
    };
    paths.iter().map(of).collect()
}

/// A leaf or a slice that is to be placed, where, and how much of it.
#[derive(Clone)]
struct Task {
    pods: Vec<Pod>,
    nodes: Vec<String>,
    need: usize,
}

/// Every way to decide on domains and on which groups to place.
fn ways(cluster: &Cluster, group: &PodGroup, nodes: &[String]) -> Vec<Vec<Task>> {
    let topology = &group.topology;
    let places = match (&topology.require, &topology.prefer) {
        (Some(key), _) => domains(cluster, key, nodes),
        // A preference gives way up to the whole.
        (None, _) => vec![nodes.to_vec()],
    };
    let need = group.policy.minimum() as usize;
    let mut all = Vec::new();
    for nodes in places {
        if let Some(slice) = topology.slices.first() {
            let slices: Vec<Vec<Pod>> =
                group.pods.chunks(slice.size as usize).map(<[Pod]>::to_vec).collect();
            let mut partial: Vec<(usize, Vec<Task>)> = vec![(0, Vec::new())];
            for pods in slices {
                let mut next = partial.clone();
                for (count, tasks) in &partial {
                    for nodes in domains(cluster, &slice.level, &nodes) {
                        let mut tasks = tasks.clone();
                        tasks.push(Task { pods: pods.clone(), nodes, need: pods.len() });
                        next.push((count + pods.len(), tasks));
                    }
                }
                partial = next;
            }
            all.extend(partial.into_iter().filter(|(count, _)| *count >= need).map(|(_, t)| t));
        } else if group.groups.is_empty() {
            all.push(vec![Task { pods: group.pods.clone(), nodes, need }]);
        } else {
            let mut partial: Vec<(usize, Vec<Task>)> = vec![(0, Vec::new())];
            for inner in &group.groups {
                let mut next = partial.clone();
                let inner_ways = ways(cluster, inner, &nodes);
                for (count, tasks) in &partial {
                    for way in &inner_ways {
                        next.push((count + 1, [tasks.clone(), way.clone()].concat()));
                    }
                }
                partial = next;
            }
            all.extend(partial.into_iter().filter(|(count, _)| *count >= need).map(|(_, t)| t));
        }
    }
    all
}

/// Whether some order and choice of nodes passes every filter at every step.
fn feasible(cluster: &Cluster, framework: &Framework, group: &PodGroup, far: bool) -> bool {
    let nodes: Vec<String> = cluster.nodes().map(|node| node.name().to_string()).collect();
    ways(cluster, group, &nodes).into_iter().any(|tasks| {
        if tasks.iter().any(|task| task.need > task.pods.len()) {
            return false;
        }
        let mut txn = cluster.txn();
        let mut places: Vec<Vec<(usize, usize)>> = vec![Vec::new(); tasks.len()];
        let mut seen = BTreeSet::new();
        walk(&mut txn, framework, &tasks, &mut places, &mut seen, far)
    })
}

fn walk(
    txn: &mut Txn,
    framework: &Framework,
    tasks: &[Task],
    places: &mut Vec<Vec<(usize, usize)>>,
    seen: &mut BTreeSet<Vec<Vec<(usize, usize)>>>,
    far: bool,
) -> bool {
    if tasks.iter().zip(&*places).all(|(task, placed)| placed.len() >= task.need) {
        return true;
    }
    for (number, task) in tasks.iter().enumerate() {
        // Where order cannot matter, earlier tasks are finished first and pods go in order.
        let done = |n: usize| places[n].len() >= tasks[n].need;
        if !far && (done(number) || (0..number).any(|before| !done(before))) {
            continue;
        }
        for (index, pod) in task.pods.iter().enumerate() {
            let taken = |index: usize| places[number].iter().any(|(other, _)| *other == index);
            let ordered = far || places[number].iter().all(|(other, _)| *other < index);
            let twin_first =
                (0..index).any(|other| !taken(other) && task.pods[other].shape() == pod.shape());
            if taken(index) || !ordered || twin_first && far {
                continue;
            }
            for (place, node) in task.nodes.iter().enumerate() {
                let view = txn.node(node).unwrap();
                let judged =
                    Evaluation::new(framework, txn, pod.shape(), None, phalanx::Time::ZERO);
                if judged.filter(view).is_err() {
                    continue;
                }
                let id = view.id();
                let before = txn.checkpoint();
                txn.place(pod, id).unwrap();
                places[number].push((index, place));
                let mut state = places.clone();
                for list in &mut state {
                    list.sort_unstable();
                }
                let found = seen.insert(state) && walk(txn, framework, tasks, places, seen, far);
                places[number].pop();
                txn.rollback(before).unwrap();
                if found {
                    return true;
                }
            }
        }
    }
    false
}

/// The plan holds: every filter passes at its step, domains are kept, minima are met.
fn check_plan(cluster: &Cluster, framework: &Framework, outcome: &Outcome, seed: u64) {
    let plan = outcome.plan().unwrap();
    let mut txn = cluster.txn();
    for assignment in plan.assignments() {
        let node = txn.node(assignment.node()).unwrap();
        let shape = assignment.pod().shape();
        let judged = Evaluation::new(framework, &txn, shape, None, phalanx::Time::ZERO);
        assert!(judged.filter(node).is_ok(), "seed {seed}: {assignment:?}");
        let id = node.id();
        txn.place(assignment.pod(), id).unwrap();
    }
}

fn counts(group: &PodGroup, placed: &BTreeSet<String>) -> bool {
    let have = if group.groups.is_empty() {
        group.pods.iter().filter(|pod| placed.contains(&pod.name)).count()
    } else {
        group.groups.iter().filter(|inner| counts(inner, placed)).count()
    };
    have >= group.policy.minimum() as usize
}

/// Changes every claim of a certificate, one at a time.
fn mutants(certificate: &Certificate) -> Vec<Certificate> {
    fn of(refusal: &Refusal) -> Vec<Refusal> {
        let mut all = Vec::new();
        let mut renamed = refusal.clone();
        renamed.group.push('x');
        all.push(renamed);
        if let Some((have, need)) = refusal.too_few {
            all.push(Refusal { too_few: Some((have, need + 1)), ..refusal.clone() });
            all.push(Refusal { too_few: Some((have + 1, need)), ..refusal.clone() });
        }
        for index in 0..refusal.candidates.len() {
            let mut missing = refusal.clone();
            missing.candidates.remove(index);
            all.push(missing);
            let mut other = refusal.clone();
            other.candidates[index].path.push(None);
            all.push(other);
            let lacks: Vec<Lack> = match &refusal.candidates[index].lack {
                Lack::Room { resource, need, free } => vec![
                    Lack::Room { resource: resource.clone(), need: need + 1, free: *free },
                    Lack::Room { resource: resource.clone(), need: *need, free: free - 1 },
                    Lack::Room { resource: resource.clone(), need: *free, free: *need },
                ],
                Lack::Count { pod, need, fits } => vec![
                    Lack::Count { pod: pod.clone(), need: need + 1, fits: *fits },
                    Lack::Count { pod: pod.clone(), need: *need, fits: fits + 1 },
                    Lack::Count { pod: "nobody".into(), need: *need, fits: *fits },
                ],
                Lack::Members { need, fits } => vec![
                    Lack::Members { need: need + 1, fits: *fits },
                    Lack::Members { need: *need, fits: fits + 1 },
                ],
                Lack::Shares { resource, each, need, fits } => {
                    let claim = |each: i64, need: u32, fits: u32| Lack::Shares {
                        resource: resource.clone(),
                        each,
                        need,
                        fits,
                    };
                    vec![
                        claim(each + 100, *need, *fits),
                        claim(*each, need + 1, *fits),
                        claim(*each, *need, fits + 1),
                    ]
                }
                Lack::Groups { need, fits, blocked } => {
                    let mut lacks = vec![
                        Lack::Groups { need: need + 1, fits: *fits, blocked: blocked.clone() },
                        Lack::Groups { need: *need, fits: *fits, blocked: Vec::new() },
                    ];
                    for (at, inner) in blocked.iter().enumerate() {
                        for inner in of(inner) {
                            let mut blocked = blocked.clone();
                            blocked[at] = inner;
                            lacks.push(Lack::Groups { need: *need, fits: *fits, blocked });
                        }
                    }
                    lacks
                }
                _ => vec![Lack::Room { resource: "gpu".into(), need: 1_000, free: 0 }],
            };
            for lack in lacks {
                let mut changed = refusal.clone();
                changed.candidates[index].lack = lack;
                all.push(changed);
            }
        }
        all
    }
    of(&certificate.refusal).into_iter().map(|refusal| Certificate { refusal }).collect()
}

fn compare(seeds: std::ops::Range<u64>, near: bool, far: bool, terms: bool) {
    let framework = framework(near, far, terms);
    let (mut placed, mut infeasible, mut searched, mut mutated) = (0, 0, 0, 0);
    for seed in seeds {
        let mut random = Dice(seed * 7_919 + u64::from(near) + 2 * u64::from(far));
        let cluster = cluster(&mut random);
        let mut group = group(&mut random, far);
        if terms {
            group = with_terms(group);
        }
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        // A node filter that looks at pods is asked in every order, too.
        let expected = feasible(&cluster, &framework, &group, far);
        match &outcome {
            Outcome::Placed(plan) => {
                assert!(expected, "seed {seed}: placed, but brute force finds no way");
                check_plan(&cluster, &framework, &outcome, seed);
                phalanx::reference::is_sound(plan, &group, &cluster, &framework).unwrap();
                let names = plan.assignments().map(|a| a.pod().name.clone()).collect();
                assert!(counts(&group, &names), "seed {seed}: too few placed");
                cluster.clone().commit(&framework, plan).unwrap();
                placed += 1;
            }
            Outcome::Unplaced(unplaced) => {
                assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "seed {seed}");
                assert!(!expected, "seed {seed}: brute force finds a way\n{group:#?}");
                let certificate = unplaced.certificate.as_ref().unwrap();
                let proof = certificate
                    .verify(&cluster, &framework, &group)
                    .unwrap_or_else(|flaw| panic!("seed {seed}: {flaw}\n{certificate}\n{group:?}"));
                // A search is labelled, and changes what the certificate is worth.
                let claims_search = certificate.to_string().contains("every way");
                assert_eq!(proof == Proof::Searched, claims_search, "seed {seed}");
                for mutant in mutants(certificate) {
                    assert_ne!(
                        mutant.verify(&cluster, &framework, &group),
                        Ok(proof),
                        "seed {seed}: {mutant}"
                    );
                    mutated += 1;
                }
                searched += usize::from(claims_search);
                infeasible += 1;
            }
            other => panic!("seed {seed}: {other}"),
        }
    }
    println!("placed {placed}, infeasible {infeasible} ({searched} by search), mutants {mutated}");
    assert!(placed > 0 && infeasible > 0 && searched > 0 && mutated > 0);
}

const MANY: u64 = if cfg!(debug_assertions) { 1_000 } else { 5_000 };

#[test]
fn room_alone() {
    compare(0..MANY, false, false, false);
}

#[test]
fn static_and_node_filters() {
    compare(0..MANY, true, false, false);
}

#[test]
fn filters_that_read_other_nodes() {
    compare(0..MANY / 2, true, true, false);
}

#[test]
fn affinity_between_pods() {
    compare(0..MANY / 2, true, true, true);
}

//! Certificates that somebody made up, against all ways to place a small group.

use arbitrary::Arbitrary;
use phalanx::place::{Certificate, Proof, UnplacedKind};
use phalanx::plugins::Fit;
use phalanx::{Cluster, Framework, Node, Outcome, Pod, PodGroup, Strategy, place_gang};
use serde_json::{Value, json};

/// A small cluster, a group for it, and certificates about the two.
#[derive(Debug, Arbitrary)]
pub struct Case {
    nodes: [Machine; 4],
    /// How many of the nodes there are.
    count: u8,
    leaves: [Leaf; 2],
    /// One leaf alone, or a root above both, with its minimum and level.
    root: Option<(u8, Level)>,
    made_up: Vec<Refusal>,
    altered: Vec<Change>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Machine {
    zone: u8,
    rack: u8,
    gpu: u8,
    cpu: u8,
    pods: u8,
}

#[derive(Debug, Arbitrary)]
struct Leaf {
    minimum: u8,
    level: Level,
    /// GPU and CPU of each member; the first so many are there.
    members: [(u8, u8); 3],
    count: u8,
}

#[derive(Debug, Clone, Copy, Arbitrary, PartialEq, Eq)]
enum Level {
    Anywhere,
    Zone,
    Rack,
}

#[derive(Debug, Arbitrary)]
struct Refusal {
    group: u8,
    too_few: Option<(u8, u8)>,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Arbitrary)]
struct Candidate {
    level: Level,
    zone: u8,
    rack: u8,
    lack: Lack,
}

#[derive(Debug, Arbitrary)]
enum Lack {
    Room { gpu: bool, need: i8, free: i8 },
    Count { pod: u8, need: u8, fits: u8 },
    Members { need: u8, fits: u8 },
    Shares { gpu: bool, each: i8, need: u8, fits: u8 },
    Groups { need: u8, fits: u8, blocked: Vec<Refusal> },
    Devices { pod: u8, need: u8, fits: u8 },
    Claims { pod: u8, need: u8, fits: u8 },
    Searched,
}

/// A change of the planner's own certificate.
#[derive(Debug, Arbitrary)]
enum Change {
    Lack { at: u8, lack: Lack },
    Number { at: u8, by: i8 },
    Drop { at: u8 },
    Add { candidate: Candidate },
    TooFew { have: u8, need: u8 },
    Inner { at: u8, refusal: Refusal },
}

const GROUPS: [&str; 3] = ["g", "a", "b"];

impl Level {
    fn key(self) -> Option<&'static str> {
        match self {
            Level::Anywhere => None,
            Level::Zone => Some("zone"),
            Level::Rack => Some("rack"),
        }
    }
}

impl Leaf {
    fn members(&self) -> &[(u8, u8)] {
        &self.members[..1 + usize::from(self.count % 3)]
    }

    fn minimum(&self) -> usize {
        1 + usize::from(self.minimum) % (self.members().len() + 1)
    }

    fn group(&self, name: &str) -> PodGroup {
        let mut group = PodGroup::gang(name, self.minimum() as u32);
        for (at, (gpu, cpu)) in self.members().iter().enumerate() {
            let pod = Pod::new().name(format!("{name}-{at}"));
            group = group
                .pod(pod.request("gpu", i64::from(gpu % 4)).request("cpu", i64::from(cpu % 4)));
        }
        confined(group, self.level)
    }
}

fn confined(group: PodGroup, level: Level) -> PodGroup {
    match level.key() {
        Some(key) => group.require(key),
        None => group,
    }
}

impl Machine {
    /// The domain of a level that it is in.
    fn domain(self, level: Level) -> (u8, u8) {
        match level {
            Level::Anywhere => (0, 0),
            Level::Zone => (1 + self.zone % 2, 0),
            Level::Rack => (1 + self.zone % 2, 1 + self.rack % 2),
        }
    }
}

impl Case {
    fn nodes(&self) -> &[Machine] {
        &self.nodes[..1 + usize::from(self.count % 4)]
    }

    fn cluster(&self) -> Cluster {
        let mut cluster =
            Cluster::builder().levels(["zone", "rack"]).build().expect("levels differ");
        for (at, own) in self.nodes().iter().enumerate() {
            let node = Node::new(format!("n{at}"))
                .label("zone", format!("z{}", own.zone % 2))
                .label("rack", format!("r{}", own.rack % 2))
                .capacity("gpu", i64::from(own.gpu % 6))
                .capacity("cpu", i64::from(own.cpu % 6))
                .capacity("pods", i64::from(own.pods % 4));
            cluster.add_node(node).expect("names differ");
        }
        cluster
    }

    /// The leaves, with their names.
    fn leaves(&self) -> Vec<(&'static str, &Leaf)> {
        match self.root {
            None => vec![("g", &self.leaves[0])],
            Some(_) => vec![("a", &self.leaves[0]), ("b", &self.leaves[1])],
        }
    }

    fn group(&self) -> PodGroup {
        let Some((minimum, level)) = self.root else { return self.leaves[0].group("g") };
        let root = PodGroup::gang("g", 1 + u32::from(minimum % 2));
        let root =
            self.leaves().into_iter().fold(root, |root, (name, leaf)| root.group(leaf.group(name)));
        confined(root, level)
    }

    /// Whether a group can be placed on some of the nodes: the root, or one of its leaves.
    fn fits(&self, name: &str, nodes: &[usize]) -> bool {
        let all = self.leaves();
        let leaves: Vec<&Leaf> =
            all.iter().filter(|own| name == "g" || own.0 == name).map(|own| own.1).collect();
        let (minimum, level) = match self.root {
            Some((minimum, level)) if name == "g" => (1 + usize::from(minimum % 2), level),
            _ => (1, Level::Anywhere),
        };
        let members: Vec<(u8, u8)> =
            leaves.iter().flat_map(|leaf| leaf.members().iter().copied()).collect();
        let mut places = vec![None; members.len()];
        self.any(&leaves, (minimum, level), &members, nodes, &mut places, 0)
    }

    /// Whether any choice of nodes for the members from one on is right.
    fn any(
        &self,
        leaves: &[&Leaf],
        root: (usize, Level),
        members: &[(u8, u8)],
        nodes: &[usize],
        places: &mut Vec<Option<usize>>,
        at: usize,
    ) -> bool {
        if at == members.len() {
            return self.counts(leaves, root, places);
        }
        places[at] = None;
        if self.any(leaves, root, members, nodes, places, at + 1) {
            return true;
        }
        for &node in nodes {
            places[at] = Some(node);
            if self.has_room(node, members, &places[..=at])
                && self.any(leaves, root, members, nodes, places, at + 1)
            {
                return true;
            }
        }
        places[at] = None;
        false
    }

    fn has_room(&self, node: usize, members: &[(u8, u8)], places: &[Option<usize>]) -> bool {
        let on = || members.iter().zip(places).filter(|(_, place)| **place == Some(node));
        let sum = |of: fn(&(u8, u8)) -> u8| on().map(|(own, _)| of(own) % 4).sum::<u8>();
        let machine = &self.nodes()[node];
        sum(|own| own.0) <= machine.gpu % 6
            && sum(|own| own.1) <= machine.cpu % 6
            && on().count() <= usize::from(machine.pods % 4)
    }

    fn counts(&self, leaves: &[&Leaf], root: (usize, Level), places: &[Option<usize>]) -> bool {
        let (minimum, level) = root;
        let domain = |level: Level, node: &usize| self.nodes()[*node].domain(level);
        let is_one = |level: Level, nodes: &[usize]| {
            nodes.windows(2).all(|two| domain(level, &two[0]) == domain(level, &two[1]))
        };
        let (mut from, mut have, mut all) = (0, 0, Vec::new());
        for leaf in leaves {
            let own = &places[from..from + leaf.members().len()];
            from += own.len();
            let own: Vec<usize> = own.iter().flatten().copied().collect();
            if own.len() >= leaf.minimum() && is_one(leaf.level, &own) {
                have += 1;
                all.extend(own);
            } else if !own.is_empty() {
                return false;
            }
        }
        have >= minimum && is_one(level, &all)
    }

    fn refusal(&self, refusal: &Refusal) -> Value {
        let candidates: Vec<Value> =
            refusal.candidates.iter().map(|own| self.candidate(own)).collect();
        let group = GROUPS[usize::from(refusal.group % 3)];
        json!({"group": format!("default/{group}"), "candidates": candidates,
            "tooFew": refusal.too_few})
    }

    fn candidate(&self, own: &Candidate) -> Value {
        let zone = format!("z{}", own.zone % 2);
        let path = match own.level {
            Level::Anywhere => vec![],
            Level::Zone => vec![zone],
            Level::Rack => vec![zone, format!("r{}", own.rack % 2)],
        };
        json!({"key": own.level.key(), "path": path, "lack": self.lack(&own.lack)})
    }

    fn lack(&self, lack: &Lack) -> Value {
        let pod = |pod: &u8| {
            let leaves = self.leaves();
            let (name, leaf) = leaves[usize::from(*pod) % leaves.len()];
            format!("{name}-{}", usize::from(pod / 2) % leaf.members().len())
        };
        let resource = |gpu: &bool| if *gpu { "gpu" } else { "cpu" };
        match lack {
            Lack::Room { gpu, need, free } => {
                json!({"room": {"resource": resource(gpu), "need": need, "free": free}})
            }
            Lack::Count { pod: own, need, fits } => {
                json!({"count": {"pod": pod(own), "need": need, "fits": fits}})
            }
            Lack::Members { need, fits } => json!({"members": {"need": need, "fits": fits}}),
            Lack::Shares { gpu, each, need, fits } => json!({"shares":
                {"resource": resource(gpu), "each": each, "need": need, "fits": fits}}),
            Lack::Groups { need, fits, blocked } => {
                let blocked: Vec<Value> = blocked.iter().map(|own| self.refusal(own)).collect();
                json!({"groups": {"need": need, "fits": fits, "blocked": blocked}})
            }
            Lack::Devices { pod: own, need, fits } => json!({"devices": {"pod": pod(own),
                "claim": "c", "request": "r", "same": null, "each": 1, "need": need, "fits": fits}}),
            Lack::Claims { pod: own, need, fits } => {
                json!({"claims": {"pods": [pod(own)], "need": need, "fits": fits}})
            }
            Lack::Searched => json!("searched"),
        }
    }

    fn change(&self, refusal: &mut Value, change: &Change) {
        let candidates = refusal["candidates"].as_array_mut().expect("a list");
        let place = |at: &u8| usize::from(*at) % candidates.len().max(1);
        match change {
            Change::Add { candidate } => candidates.push(self.candidate(candidate)),
            Change::TooFew { have, need } => refusal["tooFew"] = json!([have, need]),
            _ if candidates.is_empty() => {}
            Change::Lack { at, lack } => {
                let at = place(at);
                candidates[at]["lack"] = self.lack(lack);
            }
            Change::Drop { at } => {
                let at = place(at);
                candidates.remove(at);
            }
            Change::Number { at, by } => {
                let at = place(at);
                let Some(lack) = candidates[at]["lack"].as_object_mut() else { return };
                for own in lack.values_mut() {
                    for name in ["need", "free", "fits"] {
                        if let Some(number) = own[name].as_i64() {
                            own[name] = json!(number + i64::from(*by));
                            return;
                        }
                    }
                }
            }
            Change::Inner { at, refusal } => {
                let inner = self.refusal(refusal);
                let at = place(at);
                let blocked = candidates[at].pointer_mut("/lack/groups/blocked");
                if let Some(blocked) = blocked.and_then(Value::as_array_mut) {
                    blocked.push(inner);
                }
            }
        }
    }

    /// Every refusal of a certificate is true: by trying all ways.
    fn holds(&self, refusal: &phalanx::place::Refusal, nodes: &[usize]) -> bool {
        let name = refusal.group.strip_prefix("default/").unwrap_or(&refusal.group);
        let inside = |candidate: &phalanx::place::CandidateLack, node: &usize| {
            let own = self.nodes()[*node];
            let labels = [format!("z{}", own.zone % 2), format!("r{}", own.rack % 2)];
            candidate.path.iter().zip(&labels).all(|(one, other)| one.as_ref() == Some(other))
        };
        !self.fits(name, nodes)
            && refusal.candidates.iter().all(|candidate| {
                let phalanx::place::Lack::Groups { blocked, .. } = &candidate.lack else {
                    return true;
                };
                let nodes: Vec<usize> =
                    nodes.iter().copied().filter(|node| inside(candidate, node)).collect();
                blocked.iter().all(|inner| self.holds(inner, &nodes))
            })
    }
}

fn has_searched(value: &Value) -> bool {
    match value {
        Value::String(text) => text == "searched",
        Value::Array(values) => values.iter().any(has_searched),
        Value::Object(entries) => entries.values().any(has_searched),
        _ => false,
    }
}

/// Places the group, and shows all certificates to `verify`.
///
/// # Panics
/// An answer is wrong, or a false certificate is accepted.
pub fn run(case: &Case) {
    let (cluster, group) = (case.cluster(), case.group());
    let nodes: Vec<usize> = (0..case.nodes().len()).collect();
    let framework = Framework::builder().filter(Fit).strategy(Strategy::Search);
    let framework = framework.build().expect("it judges room");
    let feasible = case.fits("g", &nodes);
    let outcome = place_gang(&cluster, &framework, &group).expect("the request is sound");
    assert_eq!(outcome.is_placed(), feasible, "{outcome}\n{group:#?}");
    let mut shown: Vec<Value> = case.made_up.iter().map(|own| case.refusal(own)).collect();
    if let Outcome::Unplaced(unplaced) = &outcome {
        assert_eq!(unplaced.kind, UnplacedKind::Infeasible, "{outcome}");
        let certificate = unplaced.certificate.as_ref().expect("a proof");
        let proof = certificate.verify(&cluster, &framework, &group);
        assert!(proof.is_ok(), "{proof:?}\n{certificate}");
        assert!(case.holds(&certificate.refusal, &nodes), "{certificate}");
        let own = serde_json::to_value(&certificate.refusal).expect("data");
        let mut all = own.clone();
        for change in &case.altered {
            let mut one = own.clone();
            case.change(&mut one, change);
            case.change(&mut all, change);
            shown.push(one);
        }
        shown.push(all);
    }
    for refusal in shown {
        let Ok(certificate) = serde_json::from_value::<Certificate>(json!({"refusal": refusal}))
        else {
            continue;
        };
        let _ = certificate.to_string();
        match certificate.verify(&cluster, &framework, &group) {
            Ok(Proof::Counted) => {
                assert!(case.holds(&certificate.refusal, &nodes), "accepted: {certificate}");
            }
            Ok(_) => assert!(has_searched(&refusal), "no search: {certificate}"),
            Err(flaw) => drop(flaw.to_string()),
        }
    }
}

//! A policy of one's own, in the four forms that a score can have, each with its law.
//!
//! A filter has the same four: `filter_fn`, `Filter`, `FilterPlugin` with a `PreparedFilter`, and
//! `Incremental`, which filters and scores share.
#[path = "common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use phalanx::framework::{
    Context, Declaration, Grain, Incremental, PreparedScore, Reach, ScorePlugin, ScorePreparation,
    score_fn,
};
use phalanx::laws::check_score;
use phalanx::model::PodShape;
use phalanx::state::{LabelKey, LabelValue, NodeView};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Score, place_gang};

const USAGE: &str = "\
Places pods where it is cool, by a score written four times: as a closure, as a trait, prepared for
each shape of pod, and kept up to date as pods come and go. Each is checked by the laws of plugins.

Usage: custom_score

Exit code: 0 if every form keeps the laws and finds a place, 1 if one does not, 2 for misuse.
";

/// The worth of a node of some temperature: 100 at 20 °C or below, 0 at 40 °C or above.
fn worth(celsius: Option<&str>) -> i64 {
    let celsius = celsius.and_then(|text| text.parse().ok()).unwrap_or(40_i64);
    (40 - celsius.clamp(20, 40)) * 5
}

// 1. A closure, and what it reads: labels of the node alone, so that answers are kept.

fn closure() -> impl ScorePlugin + 'static {
    score_fn("Cool", Reach::Static, |_, node| worth(node.label("celsius")))
}

// 2. A trait of two methods; the third makes it fast.

struct Cool;

impl Score for Cool {
    fn name(&self) -> &str {
        "Cool"
    }

    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        worth(node.label("celsius"))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }
}

// 3. Prepared: the label is looked up once, and its values are read once for all pods of a shape.

struct Thermometer {
    label: &'static str,
}

/// Preparation of a [`Thermometer`]: the label, and the worth of each of its values.
struct Worth {
    key: LabelKey,
    of: BTreeMap<LabelValue, i64>,
}

impl ScorePlugin for Thermometer {
    fn name(&self) -> &str {
        "Cool"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        // The values of other nodes are read, too, though they change no answer for this one.
        Declaration::constant().reading_nodes()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let cluster = cx.cluster();
        // Where no node has the label, all are alike.
        let Some(key) = cluster.label_key(self.label) else { return ScorePreparation::Skip };
        let values = cluster.nodes().filter_map(|node| node.label_value(key));
        let of = values.map(|value| (value, worth(Some(cluster.label_text(value))))).collect();
        ScorePreparation::ready(Worth { key, of })
    }
}

impl PreparedScore for Worth {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let value = node.label_value(self.key);
        value.and_then(|value| self.of.get(&value)).copied().unwrap_or(0)
    }
}

// 4. Incremental: every pod warms its room, so that the room has to be followed.

struct CoolRooms;

/// The number of pods in each room.
struct Rooms {
    key: Option<LabelKey>,
    pods: BTreeMap<LabelValue, i64>,
}

impl Rooms {
    fn count(&mut self, node: NodeView<'_>, pods: i64) {
        if let Some(room) = self.key.and_then(|key| node.label_value(key)) {
            *self.pods.entry(room).or_default() += pods;
        }
    }
}

impl ScorePlugin for CoolRooms {
    fn name(&self) -> &str {
        "CoolRooms"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        // Grained: nodes are told apart by their room, and what is prepared is kept up to date.
        Declaration::domain(["room"]).grained()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let mut rooms = Rooms { key: cx.cluster().label_key("room"), pods: BTreeMap::new() };
        for node in cx.cluster().nodes() {
            rooms.count(node, node.pod_count());
        }
        ScorePreparation::ready(rooms)
    }
}

impl PreparedScore for Rooms {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let room = self.key.and_then(|key| node.label_value(key));
        let pods = room.and_then(|room| self.pods.get(&room)).copied().unwrap_or(0);
        (100 - 10 * pods).max(0)
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Rooms {
    fn classes(&self, _: &Context<'_>) -> Grain {
        Grain::new(self.key)
    }

    fn pod_added(&mut self, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        self.count(node, 1);
    }

    fn pod_removed(&mut self, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        self.count(node, -1);
    }
}

fn main() -> std::process::ExitCode {
    common::cli::answer(USAGE, || {
        let cluster = house()?;
        let gang = PodGroup::of("solver", 4, worker());
        let forms: [(&str, Arc<dyn ScorePlugin>); 4] = [
            ("closure", Arc::new(closure())),
            ("trait", Arc::new(Cool)),
            ("prepared", Arc::new(Thermometer { label: "celsius" })),
            ("incremental", Arc::new(CoolRooms)),
        ];
        let (mut all_well, mut out) = (true, String::new());
        for (form, score) in forms {
            // What belongs in the tests of a plugin: the shapes of pods that it tells apart.
            let shapes = [PodShape::default(), (**worker().shape()).clone()];
            let law = check_score(score.clone(), &cluster, &shapes);
            // A framework that exists, with one score more.
            let framework = Framework::default().to_builder().score(100, score).build()?;
            let outcome = place_gang(&cluster, &framework, &gang)?;
            let nodes = outcome.plan().map(phalanx::Plan::pods_per_node).unwrap_or_default();
            let line = |(node, pods): &(&str, usize)| format!("{node} {}", "●".repeat(*pods));
            let nodes: Vec<String> = nodes.iter().map(line).collect();
            all_well &= law.is_ok() && outcome.is_placed();
            writeln!(out, "{form:<12} {}", nodes.join("  "))?;
            match law {
                Ok(()) => writeln!(out, "{:<12} keeps the laws", "")?,
                Err(error) => writeln!(out, "{:<12} {error}", "")?,
            }
        }
        Ok((all_well, out))
    })
}

/// Two nodes in each of three rooms.
fn house() -> Result<Cluster, phalanx::StateError> {
    let mut cluster = Cluster::new();
    for (room, celsius) in [("attic", ["38", "36"]), ("cellar", ["21", "22"]), ("hall", ["26"; 2])]
    {
        for (number, celsius) in (1..).zip(celsius) {
            let node = Node::new(format!("{room}-{number}")).capacity("cpu", 8);
            cluster.add_node(node.label("room", room).label("celsius", celsius))?;
        }
    }
    Ok(cluster)
}

fn worker() -> Pod {
    Pod::new().request("cpu", 4)
}

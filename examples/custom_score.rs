//! A policy of one's own: pods of a job like racks that have cooling to spare.
#[path = "common/mod.rs"]
mod common;

use phalanx::framework::{Context, Declaration};
use phalanx::model::PodShape;
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Score, place_gang, plugins};

/// Likes cool nodes: 100 at 20 °C or below, 0 at 40 °C or above.
struct Cool;

impl Score for Cool {
    fn name(&self) -> &'static str {
        "Cool"
    }
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let celsius = node.label("celsius").and_then(|text| text.parse().ok()).unwrap_or(40_i64);
        (40 - celsius.clamp(20, 40)) * 5
    }
    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant() // labels of the node alone, so the answer is kept
    }
}

fn main() -> std::process::ExitCode {
    common::cli::plain("Places pods where it is cool.\n\nUsage: custom_score\n", || {
        let mut cluster = Cluster::new();
        for (name, celsius) in [("attic", "38"), ("cellar", "21"), ("office", "26")] {
            cluster.add_node(Node::new(name).capacity("cpu", 8).label("celsius", celsius))?;
        }
        let framework = Framework::builder().filter(plugins::Fit).score(1, Cool).build()?;
        let gang = PodGroup::gang("solver", 3).pods(3, Pod::new().request("cpu", 4));
        let outcome = place_gang(&cluster, &framework, &gang)?;
        if let Some(plan) = outcome.plan() {
            phalanx::reference::is_sound(plan, &gang, &cluster, &framework)?;
        }
        let nodes = outcome.plan().map(phalanx::Plan::pods_per_node).unwrap_or_default();
        let line = |(node, pods): &(&str, usize)| format!("{node:<8} {}", "● ".repeat(*pods));
        Ok(nodes.iter().map(line).collect::<Vec<_>>().join("\n") + "\n")
    })
}

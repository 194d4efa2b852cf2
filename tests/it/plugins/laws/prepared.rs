//! Preparation, blocks and room that disagree with the plain answer are caught.

use std::sync::Arc;

use phalanx::framework::{
    Block, Capacity, Context, Declaration, FilterPlugin, FilterPreparation, Grain, Incremental,
    PreparedFilter, PreparedScore, ScorePlugin, ScorePreparation, Verdict,
};
use phalanx::laws::{Law, check_filter, check_score};
use phalanx::model::PodShape;
use phalanx::state::NodeView;

use super::worlds::*;

#[test]
fn a_block_that_disagrees_with_its_nodes_is_caught() {
    #[derive(Clone, Copy)]
    struct Sloppy {
        skips_last: bool,
        forgives: bool,
    }

    impl FilterPlugin for Sloppy {
        fn name(&self) -> &str {
            "sloppy"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::constant()
        }

        fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
            FilterPreparation::ready(*self)
        }
    }

    impl PreparedFilter for Sloppy {
        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.has_label("zone", "a"))
        }

        fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
            let judged = verdicts.len() - usize::from(self.skips_last);
            for (at, verdict) in verdicts.iter_mut().enumerate().take(judged) {
                let passes = block.node(at).is_some_and(|node| self.filter(cx, node).passes());
                if self.forgives || !passes {
                    *verdict = if passes { 0 } else { -1 };
                }
            }
        }
    }

    let error = filter_breaks(Sloppy { skips_last: true, forgives: false });
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n5"));
    // Lets nodes pass that a filter before it has rejected.
    let error = filter_breaks(Sloppy { skips_last: false, forgives: true });
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n0"));
    let honest = Sloppy { skips_last: false, forgives: false };
    assert_eq!(check_filter(honest, &cluster(), &shapes()), Ok(()));

    struct Rounded;

    impl ScorePlugin for Rounded {
        fn name(&self) -> &str {
            "rounded"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::node()
        }

        fn prepare(self: Arc<Self>, _: &Context<'_>) -> ScorePreparation {
            ScorePreparation::ready(Rounded)
        }
    }

    impl PreparedScore for Rounded {
        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            node.pod_count()
        }

        fn score_block(&self, _: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
            for (out, count) in out.iter_mut().zip(block.pod_count()) {
                *out = count / 2 * 2;
            }
        }
    }

    let error = score_breaks(Rounded);
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n4"));
}

/// Counts the pods of each zone beforehand, and keeps the counts up to date.
#[derive(Clone, Copy)]
struct Zones {
    adds: bool,
    removes: bool,
    /// Whether it is incremental at all; if not, it is prepared anew after each placement.
    follows: bool,
}

const HONEST: Zones = Zones { adds: true, removes: true, follows: true };

struct Counts {
    zones: Zones,
    counts: Vec<(String, i64)>,
}

impl Counts {
    fn add(&mut self, node: NodeView<'_>, more: i64) {
        let zone = node.label("zone").unwrap_or_default();
        match self.counts.iter_mut().find(|(name, _)| name == zone) {
            Some((_, count)) => *count += more,
            None => self.counts.push((zone.into(), more)),
        }
    }
}

impl ScorePlugin for Zones {
    fn name(&self) -> &str {
        "zones"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain(["zone"])
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let mut counts = Counts { zones: *self, counts: Vec::new() };
        for node in cx.cluster().nodes() {
            counts.add(node, node.pod_count());
        }
        ScorePreparation::ready(counts)
    }
}

impl PreparedScore for Counts {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let zone = node.label("zone").unwrap_or_default();
        self.counts.iter().find(|(name, _)| name == zone).map_or(0, |(_, count)| (*count).min(100))
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        if self.zones.follows { Some(self) } else { None }
    }
}

impl Incremental for Counts {
    fn classes(&self, cx: &Context<'_>) -> Grain {
        Grain::of(cx, ["zone"])
    }

    fn pod_added(&mut self, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        if self.zones.adds {
            self.add(node, 1);
        }
    }

    fn pod_removed(&mut self, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        if self.zones.removes {
            self.add(node, -1);
        }
    }
}

#[test]
fn preparation_that_is_not_kept_up_to_date_is_caught() {
    let error = score_breaks(Zones { adds: false, ..HONEST });
    assert_eq!(error.law, Law::Incremental);
    let error = score_breaks(Zones { removes: false, ..HONEST });
    assert_eq!(error.law, Law::Incremental);
    assert_eq!(check_score(HONEST, &cluster(), &shapes()), Ok(()));
    let anew = Zones { follows: false, ..HONEST };
    assert_eq!(check_score(anew, &cluster(), &shapes()), Ok(()));
}

/// Prepared state of a plugin of a node's own stays as it is while pods come and go: it is shown
/// none.
#[test]
fn following_pods_without_declaring_to_read_them_beyond_the_node_is_caught() {
    struct OwnCount;

    struct Counted(Vec<i64>);

    impl ScorePlugin for OwnCount {
        fn name(&self) -> &str {
            "own-count"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::node()
        }

        fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
            let mut counted = Counted(vec![0; cx.cluster().rows()]);
            for node in cx.cluster().nodes() {
                counted.0[node.row()] = node.pod_count();
            }
            ScorePreparation::ready(counted)
        }
    }

    impl PreparedScore for Counted {
        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            self.0[node.row()].min(100)
        }

        fn incremental(&mut self) -> Option<&mut dyn Incremental> {
            Some(self)
        }
    }

    impl Incremental for Counted {
        fn classes(&self, _: &Context<'_>) -> Grain {
            Grain::default().each()
        }

        fn pod_added(&mut self, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
            self.0[node.row()] += 1;
        }

        fn pod_removed(&mut self, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
            self.0[node.row()] -= 1;
        }
    }

    assert_eq!(score_breaks(OwnCount).law, Law::Incremental);
}

#[test]
fn room_that_is_too_small_or_no_room_at_all_is_caught() {
    #[derive(Clone, Copy)]
    struct Bounded {
        room: i64,
        block: i64,
        judges: bool,
        of_all: i64,
    }

    impl FilterPlugin for Bounded {
        fn name(&self) -> &str {
            "bounded"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            let declaration = Declaration::usage().monotone();
            if self.judges { declaration.judging_room() } else { declaration }
        }

        fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
            FilterPreparation::ready(*self)
        }
    }

    impl PreparedFilter for Bounded {
        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.pod_count() < 5)
        }

        fn capacity(&self) -> Option<&dyn Capacity> {
            Some(self)
        }
    }

    impl Capacity for Bounded {
        fn of_node(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            (self.room - node.pod_count()).max(0)
        }

        fn of_block(&self, _: &Context<'_>, block: &Block<'_>, capacities: &mut [i64]) {
            for (capacity, count) in capacities.iter_mut().zip(block.pod_count()) {
                *capacity = (*capacity).min((self.block - count).max(0));
            }
        }

        fn of_all(&self, _: &Context<'_>, _: i64) -> i64 {
            self.of_all
        }
    }

    let check_all = |room, block, judges, of_all| {
        check_filter(Bounded { room, block, judges, of_all }, &cluster(), &shapes())
            .map_err(|error| error.law)
    };
    let check = |room, block, judges| check_all(room, block, judges, i64::MAX);
    assert_eq!(check(5, 5, false), Ok(()));
    assert_eq!(check(9, 9, false), Ok(()));
    assert_eq!(check(4, 4, false), Err(Law::Room));
    assert_eq!(check(5, 6, false), Err(Law::Room));
    // Six nodes of five pods each, three of which run.
    assert_eq!(check_all(5, 5, false, 27), Ok(()));
    assert_eq!(check_all(5, 5, false, 26), Err(Law::Room));
    // The nodes may have three pods each, so this is not room as the fit has it.
    assert_eq!(check(5, 5, true), Err(Law::Room));
}

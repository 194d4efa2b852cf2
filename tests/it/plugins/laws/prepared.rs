//! Preparation, blocks and room that disagree with the plain answer are caught.

use phalanx::framework::{Block, Context, Declaration, Preparation, Prepared, Verdict};
use phalanx::laws::{Law, check_filter, check_score};
use phalanx::model::PodShape;
use phalanx::state::NodeView;
use phalanx::{Filter, Score};

use super::worlds::*;

#[test]
fn a_block_that_disagrees_with_its_nodes_is_caught() {
    struct Sloppy {
        skips_last: bool,
        forgives: bool,
    }

    impl Filter for Sloppy {
        fn name(&self) -> &str {
            "sloppy"
        }

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

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::constant()
        }
    }

    let error = filter_breaks(Sloppy { skips_last: true, forgives: false });
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n5"));
    // Lets nodes pass that a filter before it has rejected.
    let error = filter_breaks(Sloppy { skips_last: false, forgives: true });
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n0"));
    let honest = Sloppy { skips_last: false, forgives: false };
    assert_eq!(check_filter(&honest, &cluster(), &shapes()), Ok(()));

    struct Rounded;

    impl Score for Rounded {
        fn name(&self) -> &str {
            "rounded"
        }

        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            node.pod_count()
        }

        fn score_block(&self, _: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
            for (out, count) in out.iter_mut().zip(block.pod_count()) {
                *out = count / 2 * 2;
            }
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::node()
        }
    }

    let error = score_breaks(Rounded);
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n4"));
}

/// Counts the pods of each zone beforehand, and keeps the counts up to date.
struct Zones {
    takes: bool,
    undoes: bool,
}

struct Counts(Vec<(String, i64)>);

impl Counts {
    fn add(&mut self, node: NodeView<'_>, more: i64) {
        let zone = node.label("zone").unwrap_or_default();
        match self.0.iter_mut().find(|(name, _)| name == zone) {
            Some((_, count)) => *count += more,
            None => self.0.push((zone.into(), more)),
        }
    }
}

impl Score for Zones {
    fn name(&self) -> &str {
        "zones"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let mut counts = Counts(Vec::new());
        for node in cx.cluster().nodes() {
            counts.add(node, node.pod_count());
        }
        Preparation::with(counts)
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Some(Counts(counts)) = cx.prepared() else { return 0 };
        let zone = node.label("zone").unwrap_or_default();
        counts.iter().find(|(name, _)| name == zone).map_or(0, |(_, count)| (*count).min(100))
    }

    fn take(&self, prepared: &mut Prepared, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        if self.takes
            && let Some(counts) = prepared.value_mut::<Counts>()
        {
            counts.add(node, 1);
        }
    }

    fn undo(&self, prepared: &mut Prepared, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        if self.undoes
            && let Some(counts) = prepared.value_mut::<Counts>()
        {
            counts.add(node, -1);
        }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain(["zone"])
    }
}

#[test]
fn preparation_that_is_not_kept_up_to_date_is_caught() {
    let error = score_breaks(Zones { takes: false, undoes: true });
    assert_eq!(error.law, Law::Incremental);
    let error = score_breaks(Zones { takes: true, undoes: false });
    assert_eq!(error.law, Law::Incremental);
    let honest = Zones { takes: true, undoes: true };
    assert_eq!(check_score(&honest, &cluster(), &shapes()), Ok(()));
}

#[test]
fn room_that_is_too_small_or_no_room_at_all_is_caught() {
    struct Bounded {
        room: i64,
        block: i64,
        judges: bool,
        of_all: i64,
    }

    impl Filter for Bounded {
        fn name(&self) -> &str {
            "bounded"
        }

        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.pod_count() < 5)
        }

        fn room(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            (self.room - node.pod_count()).max(0)
        }

        fn room_block(&self, _: &Context<'_>, block: &Block<'_>, room: &mut [i64]) {
            for (room, count) in room.iter_mut().zip(block.pod_count()) {
                *room = (*room).min((self.block - count).max(0));
            }
        }

        fn room_of_all(&self, _: &Context<'_>, _: i64) -> i64 {
            self.of_all
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            let declaration = Declaration::usage().monotone();
            if self.judges { declaration.judging_room() } else { declaration }
        }
    }

    let check_all = |room, block, judges, of_all| {
        check_filter(&Bounded { room, block, judges, of_all }, &cluster(), &shapes())
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

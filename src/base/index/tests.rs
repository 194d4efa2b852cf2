//! Tests: the index against a map.

use alloc::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::base::hash::hash_of;

/// By threes alike in the bits that select shard and place.
fn hash(id: u32) -> u64 {
    hash_of(&(id / 3)) ^ u64::from(id % 3) << 40
}

fn same(index: &Index, model: &BTreeSet<u32>, most: u32) {
    assert_eq!(index.len, model.len());
    for id in 0..most {
        let found = index.find(hash(id), |have| have == id);
        assert_eq!(found, model.contains(&id).then_some(id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn it_is_a_set_whose_clones_are_independent(
        steps in prop::collection::vec((0_u8..4, 0_u32..6_000, 1_u32..900), 1..60),
    ) {
        let mut index = Index::default();
        let mut model = BTreeSet::new();
        let mut kept = None;
        for (action, first, count) in steps {
            for id in first..first + count {
                if action == 2 {
                    index.remove(hash(id), id, hash);
                    model.remove(&id);
                } else if action < 2 {
                    let known = index.insert(hash(id), id, |have| have == id, hash);
                    prop_assert_eq!(known, (!model.insert(id)).then_some(id));
                }
            }
            if action == 3 {
                let now = (index.clone(), model.clone());
                if let Some((index, model)) = kept.replace(now) {
                    same(&index, &model, 7_000);
                }
            }
        }
        same(&index, &model, 7_000);
        if let Some((index, model)) = kept {
            same(&index, &model, 7_000);
        }
    }
}

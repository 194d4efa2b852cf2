use alloc::collections::BTreeMap;
use alloc::format;

use proptest::prelude::*;

use super::*;

type Model = BTreeMap<u32, (String, u32)>;

fn same(slab: &Slab<u32>, model: &Model) {
    assert_eq!(slab.len(), model.len());
    let all: Vec<_> = slab.iter().map(|(id, &value)| (id, slab.name(id).into(), value)).collect();
    let expected: Vec<_> =
        model.iter().map(|(&id, (name, value))| (id, name.clone(), *value)).collect();
    assert_eq!(all, expected);
    let gone = slab.next();
    assert_eq!((slab.get(gone), slab.name(gone)), (None, ""));
}

fn name(number: u32, kind: u8) -> String {
    match kind {
        0 => String::new(),
        1 => "ä".repeat(100 + number as usize % 28),
        2 => "x".repeat(256 + number as usize % 3),
        _ => format!("pod-{number}"),
    }
}

proptest! {
    #[test]
    fn it_is_a_map_whose_clones_are_independent(
        steps in prop::collection::vec((0_u8..12, any::<u32>(), 0_u8..6), 1..2_000),
    ) {
        let mut slab = Slab::default();
        let mut model = Model::new();
        let mut kept: Option<(Slab<u32>, Model)> = None;
        for (step, (action, number, kind)) in steps.into_iter().enumerate() {
            match action {
                0..=5 => {
                    let (name, next) = (name(number, kind), slab.next());
                    let id = slab.insert(&name, number);
                    prop_assert_eq!(id, next);
                    prop_assert!(model.insert(id, (name, number)).is_none());
                }
                6..=9 => {
                    let id = number % (model.len() as u32 + 8);
                    let gone = model.remove(&id).map(|(_, value)| value);
                    prop_assert_eq!(slab.remove(id), gone);
                }
                10 => {
                    let id = number % (model.len() as u32 + 8);
                    if let Some(value) = slab.get_mut(id) {
                        *value = number;
                    }
                    if let Some((_, value)) = model.get_mut(&id) {
                        *value = number;
                    }
                }
                _ if step % 3 == 0 => {
                    if let Some((slab, model)) = kept.replace((slab.clone(), model.clone())) {
                        same(&slab, &model);
                    }
                }
                _ => if let Some((old, of_old)) = kept.take() {
                    (slab, model) = (old, of_old);
                },
            }
        }
        same(&slab, &model);
        if let Some((slab, model)) = kept {
            same(&slab, &model);
        }
    }
}

#[test]
fn an_endless_stream_of_names_takes_no_more_room() {
    let mut slab = Slab::default();
    let mut ids: Vec<u32> = (0..1_000).map(|n| slab.insert(&format!("a-{n}"), ())).collect();
    for round in 0..200_000_usize {
        let at = round * 7_919 % ids.len();
        assert!(slab.remove(ids[at]).is_some());
        ids[at] = slab.insert(&"name".repeat(round % 60), ());
    }
    assert_eq!((slab.len(), slab.chunks.len()), (1_000, 4));
    for chunk in &slab.chunks {
        let live: usize =
            chunk.entries.iter().filter(|e| e.state == State::Short).map(|e| e.len as usize).sum();
        assert_eq!(live + chunk.dead, chunk.names.len());
        assert!(chunk.names.len() <= 2 * live + SLACK + SHORT, "{live} {}", chunk.names.len());
    }
}

#[test]
fn a_chunk_holds_as_many_of_the_longest_short_names_as_there_can_be() {
    let mut slab = Slab::default();
    for round in 0..4 {
        for id in 0..CHUNK as u32 {
            if round > 0 {
                slab.remove(id);
            }
            assert_eq!(slab.insert(&format!("{id:03}{}", "y".repeat(252)), round), id);
        }
    }
    for id in 0..CHUNK as u32 {
        assert!(slab.name(id).starts_with(&format!("{id:03}y")) && slab.name(id).len() == 255);
    }
}

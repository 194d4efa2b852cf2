use super::*;

fn amounts(pods: i64, gpus: i64) -> Demand {
    Demand::of_amounts([pods, gpus])
}

/// A small generator, so that profiles are random and always the same.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// The earliest second at which all shapes have room over a span: seconds are tried one after
/// the other.
fn by_hand(free: &[Vec<i64>], need: &Need, from: u64, until: u64, run: u64) -> Option<Time> {
    let end = free[0].len() as u64;
    (from..until.min(end)).map(|at| (at, at.saturating_add(run).min(end))).find_map(|(at, to)| {
        let least = |row: usize| (at..to).map(|t| free[row][t as usize]).min().unwrap();
        let room = |shape: &ShapeNeed, domain: u32| {
            let is_in =
                |row: &&Row| need.domains.as_ref().is_none_or(|own| own[row.index()] == domain);
            let rows = shape.rows.iter().filter(is_in);
            rows.map(|row| (least(row.index()) / shape.one.amounts()[1]).max(0)).sum::<i64>()
        };
        let has_room =
            |domain| need.shapes.iter().all(|shape| room(shape, domain) >= shape.count as i64);
        (0..3).any(has_room).then_some(Time::from_secs(at))
    })
}

#[test]
fn the_earliest_room_is_that_of_a_search_second_by_second() {
    let (mut found, mut none) = (0, 0);
    for seed in 0..300_u64 {
        let mut seed = seed.wrapping_mul(7_919);
        let at = |secs: u64| Time::from_secs(secs);
        let (rows, end) = (6, 40_u64);
        let mut nodes = NodeProfiles::new(at(0), (0..rows).map(|_| amounts(100, 8)));
        let mut free = alloc::vec![alloc::vec![8_i64; end as usize]; rows];
        // The bounds of one search hold in the next ones, whatever has changed.
        for _ in 0..4 {
            for _ in 0..10 {
                let (row, gpus) =
                    (random(&mut seed) as usize % rows, random(&mut seed) as i64 % 8 + 1);
                let begin = random(&mut seed) % end;
                let to = begin + 1 + random(&mut seed) % 15;
                let place = Place::of(alloc::vec![(Row::new(row), amounts(1, gpus))]);
                if !nodes.has_room(&place, at(begin), at(to)) {
                    let over = (begin..to.min(end)).map(|t| free[row][t as usize]).min();
                    assert!(over.is_some_and(|least| least < gpus), "{over:?}");
                    continue;
                }
                nodes.take(&place, at(begin), at(to));
                (begin..to.min(end)).for_each(|t| free[row][t as usize] -= gpus);
                if random(&mut seed).is_multiple_of(4) {
                    nodes.give(&place, at(begin), at(to));
                    (begin..to.min(end)).for_each(|t| free[row][t as usize] += gpus);
                }
            }
            let all: Arc<[Row]> = Row::all(rows).filter(|row| row.index() != 1).collect();
            let kind = random(&mut seed) % 3;
            let mut shape = |most| ShapeNeed {
                one: amounts(1, [1, 2, 4, 8][random(&mut seed) as usize % 4]),
                count: random(&mut seed) % most + 1,
                rows: Arc::clone(&all),
                shares: true,
            };
            let shapes = match kind {
                0 => alloc::vec![ShapeNeed { count: 1, ..shape(1) }],
                1 => alloc::vec![shape(9)],
                _ => alloc::vec![shape(3), shape(2)],
            };
            let domains =
                random(&mut seed).is_multiple_of(2).then(|| Arc::from([0_u32, 0, 1, 1, 2, 2]));
            let need = Need { shapes, domains };
            let (from, run) = (random(&mut seed) % 10, random(&mut seed) % 12 + 1);
            let until = from + 1 + random(&mut seed) % 29;
            let expected = by_hand(&free, &need, from, until, run);
            let run = Some(Duration::from_secs(run));
            let earliest = nodes.earliest(&need, at(from), at(until), run);
            assert_eq!(earliest, expected, "{need:?} from {from} until {until} for {run:?}");
            if earliest.is_some() { found += 1 } else { none += 1 }
        }
    }
    assert!(found > 100 && none > 50, "{found} and {none}");
}

#[test]
fn room_for_ever_begins_when_the_last_that_takes_it_has_ended() {
    let at = Time::from_secs;
    let mut nodes = NodeProfiles::new(at(0), core::iter::once(amounts(10, 8)));
    let half = (Row::new(0), amounts(1, 3));
    let place = Place::of(alloc::vec![half.clone(), half]);
    nodes.take(&place, at(10), at(20));
    let rows: Arc<[Row]> = Arc::from([Row::new(0)]);
    for count in [1, 2] {
        let need = |gpus| Need {
            shapes: alloc::vec![ShapeNeed {
                one: amounts(1, gpus),
                count,
                rows: Arc::clone(&rows),
                shares: true,
            }],
            domains: None,
        };
        assert_eq!(nodes.earliest(&need(1), at(0), Time::MAX, None), Some(at(0)));
        assert_eq!(nodes.earliest(&need(4), at(0), Time::MAX, None), Some(at(20)));
        assert_eq!(nodes.earliest(&need(4), at(0), at(20), None), None);
        assert_eq!(nodes.earliest(&need(9), at(0), Time::MAX, None), None);
    }
    assert_eq!(nodes.next_change(at(10)), Some(at(20)));
    assert_eq!(nodes.next_change(at(20)), None);
}

#[test]
fn a_row_that_has_not_changed_is_not_searched_again() {
    let at = Time::from_secs;
    let mut nodes = NodeProfiles::new(at(1), (0..3).map(|_| amounts(10, 8)));
    let place = |row| Place::of(alloc::vec![(Row::new(row), amounts(1, 8))]);
    (0..3).for_each(|row| nodes.take(&place(row), at(1), at(10 + row as u64)));
    let rows: Arc<[Row]> = Row::all(3).collect();
    for count in [1, 3] {
        let one = ShapeNeed { one: amounts(1, 8), count, rows: Arc::clone(&rows), shares: false };
        let need = Need { shapes: alloc::vec![one], domains: None };
        let secs = |secs| Some(Duration::from_secs(secs));
        let mut until = |until, run| nodes.earliest(&need, at(1), at(until), run);
        assert_eq!(until(100, secs(5)), Some(at(if count == 1 { 10 } else { 12 })));
        // The profiles change without a word: only a search would see it.
        let kept = core::mem::take(&mut nodes.profiles);
        nodes.profiles = kept.iter().map(|_| Profile::new(at(1), &amounts(10, 8))).collect();
        assert_eq!(nodes.earliest(&need, at(1), at(10), secs(5)), None);
        assert_eq!(nodes.earliest(&need, at(1), at(10), secs(7)), None);
        // A shorter run is searched anew.
        assert_eq!(nodes.earliest(&need, at(1), at(10), secs(3)), Some(at(1)));
        nodes.profiles = kept;
        nodes.bounds.clear();
    }
}

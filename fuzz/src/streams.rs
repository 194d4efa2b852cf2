//! Targets that are streams of `tests/it`: the input makes each choice in place of a seed.

use phalanx::Framework;
use phalanx::preempt::PreemptingPlanner;

use crate::dice::play;
use crate::{claims, everything, lifecycle, marred, placement, preempt, reclaim, tenants, watches};

/// The first byte names the stream and whether it is saved; the rest are its choices.
///
/// An event takes some eight bytes. A stream ends soon after its input.
struct Stream {
    kind: u8,
    events: usize,
}

impl Stream {
    fn of(input: &[u8], kinds: u8) -> Option<Stream> {
        let (&first, rest) = input.split_first()?;
        play(rest);
        Some(Stream { kind: first % kinds, events: (rest.len() / 8).clamp(1, 250) })
    }
}

/// Planners and searches against their definitions, over all frameworks, with events between.
pub fn definition(input: &[u8]) {
    let Some(stream) = Stream::of(input, 10) else { return };
    match stream.kind {
        0 | 1 => drop(placement::equality::stream(0)),
        2 => drop(placement::node_events::stream(0)),
        3 => drop(placement::node_events::stream(1)),
        4 | 5 => placement::reach::classes::stream(0, &mut Default::default()),
        6 => placement::search_reference::holds(0, false, false, &mut Default::default()),
        7 => placement::search_reference::holds(0, false, true, &mut Default::default()),
        8 => placement::search_reference::holds(0, true, false, &mut Default::default()),
        _ => placement::search_reference::holds(0, true, true, &mut Default::default()),
    }
}

/// Placements and certificates against every order and every choice of nodes.
pub fn brute(input: &[u8]) {
    let Some(stream) = Stream::of(input, 4) else { return };
    let filters = [[false; 3], [true, false, false], [true, true, false], [true; 3]];
    let filters = filters[usize::from(stream.kind)];
    placement::brute_force::holds(0, filters, &mut Default::default());
}

/// Victims against all sets of units.
pub fn victims(input: &[u8]) {
    let Some(stream) = Stream::of(input, 3) else { return };
    let (mut planner, framework) = (PreemptingPlanner::new(), Framework::default());
    match stream.kind {
        0 => drop(preempt::brute::holds(0, &mut planner, &framework)),
        _ => drop(preempt::claims::holds(0, &mut planner, &framework)),
    }
}

/// Moves against all sets, places and orders, and carried out step by step.
pub fn moves(input: &[u8]) {
    play(input);
    let mut planner = PreemptingPlanner::new();
    preempt::moves::brute::holds(0, &mut planner, &Framework::default());
}

/// Tenants: sums made anew, promises to queues, and who yields by all sets in all orders.
pub fn tenants(input: &[u8]) {
    let Some(stream) = Stream::of(input, 6) else { return };
    match stream.kind {
        0 | 1 => drop(tenants::stream::stream(u64::from(stream.kind), stream.events)),
        2 => drop(tenants::random::run(0, false)),
        3 => drop(tenants::random::run(0, true)),
        _ => drop(reclaim::brute::one(0, &mut PreemptingPlanner::new())),
    }
}

/// The driver with everything on, and with all frameworks.
pub fn driver(input: &[u8]) {
    let Some(stream) = Stream::of(input, 8) else { return };
    // A seed that three or four divide is saved and restored, and both are fed.
    let (saved, alone, events) = (0, 1, stream.events);
    match stream.kind {
        0 | 1 => drop(everything::stream(saved, events)),
        2 | 3 => drop(everything::stream(alone, events)),
        4 => drop(lifecycle::model::stream(saved, events)),
        5 => drop(lifecycle::model::stream(alone, events)),
        6 => drop(lifecycle::model::evictions::stream(alone, events)),
        _ => drop(lifecycle::model::moves::stream(alone, events)),
    }
}

/// Watches that are late, repeat themselves and break.
pub fn watches(input: &[u8]) {
    play(input);
    watches::lives::life(0, (input.len() as u64 / 4).clamp(1, 400));
}

/// Gangs with claims against all ways to give out devices, and certificates that are forged.
pub fn claims(input: &[u8]) {
    let Some(stream) = Stream::of(input, 4) else { return };
    claims::properties::holds(
        u64::from(stream.kind),
        &claims::properties::framework(),
        &mut Default::default(),
    );
}

/// Plans that are altered.
pub fn plans(input: &[u8]) {
    play(input);
    marred::plans::one(0);
}

/// Saves of a scheduler that are altered.
pub fn saves(input: &[u8]) {
    play(input);
    marred::saves::one(0);
}

/// Lines of watches that are altered.
pub fn lines(input: &[u8]) {
    play(input);
    marred::lines::one(0, (input.len() as u64 / 6).clamp(1, 100));
}

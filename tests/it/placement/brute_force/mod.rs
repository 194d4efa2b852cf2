//! The search against brute force, on thousands of small random instances.
//!
//! A group is feasible if and only if brute force says so, the search never runs out of steps,
//! every certificate verifies, and one that was changed does not.

mod mutants;
mod oracle;
mod random;

use phalanx::framework::Evaluation;
use phalanx::place::{Proof, UnplacedKind};
use phalanx::{Cluster, Framework, Outcome, place_gang};

use crate::support::budget;
use crate::support::dice::Dice;
use mutants::*;
use oracle::*;
use random::*;

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

/// Groups that were placed, refused, refused by search, of which the search ran out of steps, and
/// certificates that were changed.
#[derive(Default)]
pub(crate) struct Seen {
    placed: u32,
    infeasible: u32,
    searched: usize,
    exhausted: u32,
    mutated: u32,
}

/// Holds the answer in one world to brute force: filters that are near, far, or affinity terms.
pub(crate) fn holds(seed: u64, [near, far, terms]: [bool; 3], seen: &mut Seen) {
    let framework = framework(near, far, terms);
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
            let names = plan.assignments().map(|a| a.pod().name.clone()).collect();
            assert!(counts(&group, &names), "seed {seed}: too few placed");
            phalanx::reference::is_sound(plan, &group, &cluster, &framework).unwrap();
            cluster.clone().commit(&framework, plan).unwrap();
            seen.placed += 1;
        }
        // Nothing is claimed.
        Outcome::Unplaced(unplaced) if unplaced.kind == UnplacedKind::Exhausted => {
            seen.exhausted += 1;
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
                seen.mutated += 1;
            }
            seen.searched += usize::from(claims_search);
            seen.infeasible += 1;
        }
        other => panic!("seed {seed}: {other}"),
    }
}

fn compare(seeds: std::ops::Range<u64>, near: bool, far: bool, terms: bool) {
    let mut seen = Seen::default();
    for seed in seeds {
        holds(seed, [near, far, terms], &mut seen);
    }
    let Seen { placed, infeasible, searched, exhausted, mutated } = seen;
    assert_eq!(exhausted, 0, "the search has enough steps in worlds of these seeds");
    println!("placed {placed}, infeasible {infeasible} ({searched} by search), mutants {mutated}");
    assert!(placed > 0 && infeasible > 0 && searched > 0 && mutated > 0);
}

fn many() -> u64 {
    budget::of(150, 5_000)
}

#[test]
fn room_alone() {
    compare(0..many(), false, false, false);
}

#[test]
fn static_and_node_filters() {
    compare(0..many(), true, false, false);
}

#[test]
fn filters_that_read_other_nodes() {
    compare(0..many() / 2, true, true, false);
}

#[test]
fn affinity_between_pods() {
    compare(0..many() / 2, true, true, true);
}

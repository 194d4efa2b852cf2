//! Every claim of the search for victims against brute force.
//!
//! In small random worlds all sets of units are known, and a model that is not the planner says which
//! of them make room. Held to that: the least cost, "proved least", lower bounds, "no victims help"
//! and its certificate, with all steps and with few.

mod found;
mod model;
mod world;

use std::collections::BTreeMap;

use phalanx::preempt::{
    Cost, NoVictimsHelp, Preempt, PreemptingPlanner, Preemption, PreemptionRequest,
};
use phalanx::{Cluster, Framework, Planner, PodGroup, Request, Strategy, Time};

use self::model::{Model, Set, members};
use self::world::{NOW, World};
use crate::support::budget;
use crate::support::dice::Dice;

/// A world that is asked, with its sets.
struct Case {
    world: World,
    cluster: Cluster,
    gang: PodGroup,
}

impl Case {
    fn new(seed: u64) -> Case {
        let world = World::random(seed);
        let (cluster, gang) = (world.cluster(), world.gang());
        Case { world, cluster, gang }
    }

    fn request(&self) -> Request<'_> {
        Request::new(&self.gang).now(Time::from_secs(NOW)).strategy(Strategy::Search)
    }

    fn ask(&self, steps: u64) -> PreemptionRequest<'_> {
        PreemptionRequest::new(self.request()).policy(self.world.rule.policy()).budget(steps)
    }

    /// Whether the gang fits without some pods: by the model, or by the planner where members of
    /// the gang run.
    fn fits(&self, model: &Model<'_>, gone: Set) -> bool {
        if !self.world.has_own() {
            return model.fits(gone);
        }
        let mut txn = self.cluster.txn();
        for pod in members(gone) {
            txn.evict("default", &self.world.pods[pod].name).unwrap();
        }
        Planner::new().place(&txn, &Framework::default(), self.request()).unwrap().is_placed()
    }
}

/// Holds an answer to brute force.
pub(crate) fn holds(
    seed: u64,
    planner: &mut PreemptingPlanner,
    framework: &Framework,
) -> Vec<&'static str> {
    let case = Case::new(seed);
    let model = Model::new(&case.world);
    let running = case.world.running();
    let going = model.going();
    let fits_now = case.fits(&model, 0);
    let least = (!fits_now).then(|| {
        let mut sets = model.sets().into_iter();
        sets.find(|(_, set)| case.fits(&model, set | going)).map(|(cost, _)| cost)
    });
    let mut words = Vec::new();
    let few = 1 + Dice(seed).roll(2_000);
    for steps in [1_000_000, few] {
        let answer = planner.place(&case.cluster, framework, &running, case.ask(steps)).unwrap();
        let text =
            || format!("seed {seed}, {steps} steps: {answer}, least {least:?}: {:#?}", case.world);
        let Some(least) = least else {
            assert_eq!(answer.word(), "placed", "{}", text());
            return vec!["placed"];
        };
        let claim = match &answer {
            Preemption::Preempt(preempt) => {
                let least = least.unwrap_or_else(|| panic!("{}", text()));
                check_set(&case, &model, preempt, least)
                    .unwrap_or_else(|e| panic!("{e}: {}", text()));
                if preempt.is_least() { "least" } else { "found" }
            }
            Preemption::NoVictimsHelp(help) => {
                assert_eq!(least, None, "{}", text());
                check_none(&case, &model, help).unwrap_or_else(|e| panic!("{e}: {}", text()))
            }
            Preemption::Exhausted { lower_bound } => {
                assert!(least.is_none_or(|least| *lower_bound <= least), "{}", text());
                "exhausted"
            }
            _ => panic!("{}", text()),
        };
        assert!(steps == few || claim != "found" && claim != "exhausted", "{}", text());
        words.push(claim);
    }
    words
}

/// A set is sound, may be taken, costs what is said and no less than the least, and makes room;
/// nothing of it could stay.
fn check_set(case: &Case, model: &Model<'_>, found: &Preempt, least: Cost) -> Result<(), String> {
    let world = &case.world;
    let place = |name: &str| world.pods.iter().position(|pod| pod.name == name).unwrap();
    let units: Vec<Set> = found
        .victims
        .iter()
        .map(|unit| unit.pods.iter().map(|pod| 1 << place(&pod.name)).sum::<Set>())
        .collect();
    let gone: Set = units.iter().sum();
    let going = model.going();
    let mut faults: Vec<&str> = Vec::new();
    let mut check = |holds: bool, fault| {
        if !holds {
            faults.push(fault)
        }
    };
    check(units.iter().all(|unit| model.atoms.contains(unit)), "not units");
    check(units.iter().all(|unit| model.is_free(*unit)), "may not be taken");
    check(model.is_sound(gone), "not sound");
    check(model.cost(gone) == found.cost, "another cost");
    check(found.lower_bound <= least && least <= found.cost, "a wrong bound");
    check(!found.is_least() || found.cost == least, "not least");
    check(case.fits(model, gone | going), "no room");
    if world.is_monotone() {
        let spare = |unit: &&Set| {
            let rest = gone & !**unit;
            model.is_sound(rest) && case.fits(model, rest | going)
        };
        check(units.iter().find(spare).is_none(), "a unit too many");
    }
    let pods = members(gone).map(|pod| ("default", world.pods[pod].name.as_str()));
    let price = case.ask(1).cost_of(&case.cluster, &world.running(), pods).unwrap();
    check(price == found.cost, "another price");
    let mut after = case.cluster.clone();
    for pod in members(gone | going) {
        after.remove_pod("default", &world.pods[pod].name).unwrap();
    }
    check(after.commit(&Framework::default(), &found.plan).is_ok(), "the plan does not hold");
    if faults.is_empty() { Ok(()) } else { Err(faults.join(", ")) }
}

/// A certificate is about the cluster without every pod that some set contains, and
/// `without_all` makes that cluster.
fn check_none(
    case: &Case,
    model: &Model<'_>,
    help: &NoVictimsHelp,
) -> Result<&'static str, String> {
    let all = model.sets().into_iter().fold(model.going(), |all, (_, set)| all | set);
    let mut txn = case.cluster.txn();
    for pod in members(all) {
        txn.evict("default", &case.world.pods[pod].name).unwrap();
    }
    let made = case.ask(1).without_all(&case.cluster, &case.world.running()).unwrap();
    let names = |cluster: &Cluster| {
        let on = cluster.pods().filter(|pod| pod.node().is_some());
        on.map(|pod| pod.name().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    if names(&made) != names(&txn) {
        return Err("another transaction".into());
    }
    let Some(certificate) = &help.certificate else { return Ok("none") };
    match certificate.verify(&txn, &Framework::default(), case.request()) {
        Ok(_) => Ok("none, certified"),
        Err(error) => Err(format!("{error}")),
    }
}

/// Worlds of `cargo test`, and of a soak with factor 1.
const WORLDS: (u64, u64) = (200, 60_000);

#[test]
fn every_claim_about_victims_holds_in_small_worlds() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let from = budget::number("PHALANX_CLAIMS_SEED").unwrap_or(0);
    let worlds = budget::of(WORLDS.0, WORLDS.1);
    for seed in from..from + worlds {
        for word in holds(seed, &mut planner, &framework) {
            *counts.entry(word).or_default() += 1;
        }
    }
    println!("{counts:?}");
    for (word, share) in [("least", 5), ("none, certified", 20), ("found", 200), ("none", 200)] {
        assert!(counts.get(word).is_some_and(|count| count * share > worlds), "{counts:?}");
    }
}

/// Weaker bounds and a worse order change no answer: they show in the work.
#[test]
fn worlds_of_two_resources_take_few_steps_and_trials() {
    let (framework, mut planner) = (Framework::default(), PreemptingPlanner::new());
    let mut steps = 0;
    for seed in 0..600 {
        let case = Case::new(seed);
        let (running, asked) = (case.world.running(), case.ask(1_000_000));
        let answer = planner.place(&case.cluster, &framework, &running, asked).unwrap();
        steps += answer.preempt().map_or(0, |preempt| preempt.steps);
    }
    let work = (steps, planner.trials());
    assert!(work.0 <= 8_581 && work.1 <= 808, "{work:?}");
}

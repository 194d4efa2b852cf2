//! Limits by user and group: against the definition on random trees, and in the scheduler.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::model::{Amounts, Owner};
use phalanx::queue::{Gone, GroupState, PriorityThenTime, QuotaReason, SavedScheduler, Shortage};
use phalanx::quota::{
    ANYONE, AssignmentMode, Claim, Flavor, HolderId, LimitProblem, Limited, PodSet, Queue,
    QueueKind, Quota, QuotaError, Tenants, Usage, UserLimit,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler};

use super::scheduler::{at, finish, run, scheduler};
use crate::support::budget;
use crate::support::dice::Dice;

const USERS: [&str; 4] = ["", "ada", "bob", "eve"];
const GROUPS: [&str; 3] = ["dev", "ops", "qa"];
const RESOURCES: [&str; 2] = ["cpu", "gpu"];

/// A queue of a random tree, as this test knows it.
#[derive(Debug, Clone)]
struct Known {
    name: String,
    is_leaf: bool,
    parent: Option<usize>,
    limits: Vec<UserLimit>,
}

/// Work that holds quota, or for which some is reserved.
#[derive(Debug, Clone)]
struct Work {
    claim: Claim,
    leaf: usize,
    amounts: BTreeMap<String, i64>,
    /// `None`: it is reserved.
    holder: Option<HolderId>,
}

fn limits(dice: &mut Dice) -> Vec<UserLimit> {
    let mut all = Vec::new();
    let mut names: Vec<&str> = USERS[1..].to_vec();
    let mut groups: Vec<&str> = GROUPS.to_vec();
    let mut any = (dice.one_in(2), dice.one_in(3));
    for _ in 0..dice.roll(3) {
        let mut limit = UserLimit::default();
        if dice.one_in(2) && !names.is_empty() {
            let at = dice.roll(names.len() as u64) as usize;
            limit.users.push(names.remove(at).into());
        }
        if dice.one_in(2) && !groups.is_empty() {
            let at = dice.roll(groups.len() as u64) as usize;
            limit.groups.push(groups.remove(at).into());
        }
        all.push(limit);
    }
    if any.0 || any.1 {
        let mut limit = UserLimit::default();
        limit.users.extend(any.0.then(|| ANYONE.to_owned()));
        limit.groups.extend(any.1.then(|| ANYONE.to_owned()));
        any = (false, false);
        all.push(limit);
    }
    assert_eq!(any, (false, false));
    all.retain(|limit| !limit.users.is_empty() || !limit.groups.is_empty());
    for limit in &mut all {
        for resource in RESOURCES {
            if dice.one_in(2) {
                limit.amounts.set(resource, dice.roll(12) as i64);
            }
        }
        if limit.amounts.is_empty() || dice.one_in(3) {
            limit.claims = Some(dice.roll(3) as u32);
        }
    }
    all
}

fn path(queues: &[Known], leaf: usize) -> Vec<usize> {
    std::iter::successors(Some(leaf), |at| queues[*at].parent).collect()
}

/// The group that work of a user counts in: from the leaf up the first named one, or the wildcard.
fn group_of(queues: &[Known], leaf: usize, owner: &Owner) -> Option<String> {
    if owner.user.is_empty() || owner.groups.is_empty() {
        return None;
    }
    for at in path(queues, leaf) {
        for name in queues[at].limits.iter().flat_map(|limit| &limit.groups) {
            if name == ANYONE || owner.groups.contains(name) {
                return Some(name.clone());
            }
        }
    }
    None
}

/// Whether a limit of a queue binds an owner as a user, and as one of a group.
fn binds(
    queues: &[Known],
    at: usize,
    leaf: usize,
    owner: &Owner,
) -> (Option<usize>, Option<usize>) {
    if owner.user.is_empty() {
        return (None, None);
    }
    let named = |name: &str| {
        queues[at].limits.iter().position(|limit| limit.users.iter().any(|own| own == name))
    };
    let group = group_of(queues, leaf, owner);
    let of_group = group
        .and_then(|group| queues[at].limits.iter().position(|limit| limit.groups.contains(&group)));
    (named(&owner.user).or_else(|| named(ANYONE)), of_group)
}

/// Whether a claim with some amounts keeps to all limits beside other work, by the definition.
fn is_within(
    queues: &[Known],
    work: &[Work],
    leaf: usize,
    claim: &Claim,
    asked: &BTreeMap<String, i64>,
) -> bool {
    let owner = &claim.owner;
    path(queues, leaf).into_iter().all(|at| {
        let below = |other: &&Work| path(queues, other.leaf).contains(&at);
        let (user, group) = binds(queues, at, leaf, owner);
        let keeps = |limit: &UserLimit, all: Vec<&Work>| {
            let names: BTreeSet<&str> = all.iter().map(|own| own.claim.name.as_str()).collect();
            let has_place = limit.claims.is_none_or(|most| (names.len() as u32) < most);
            has_place
                && limit.amounts.iter().all(|(name, most)| {
                    let of =
                        |amounts: &BTreeMap<String, i64>| amounts.get(name).copied().unwrap_or(0);
                    let used: i64 = all.iter().map(|own| of(&own.amounts)).sum();
                    of(asked) == 0 || used + of(asked) <= most
                })
        };
        let by_user = user.is_none_or(|limit| {
            let own = work.iter().filter(below).filter(|own| own.claim.owner.user == owner.user);
            keeps(&queues[at].limits[limit], own.collect())
        });
        by_user
            && group.is_none_or(|limit| {
                let name = group_of(queues, leaf, owner);
                let own = work
                    .iter()
                    .filter(below)
                    .filter(|own| group_of(queues, own.leaf, &own.claim.owner) == name);
                keeps(&queues[at].limits[limit], own.collect())
            })
    })
}

fn by_name(tenants: &Tenants, usage: &Usage) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for (of, amount) in usage {
        *sums.entry(tenants.tree().names(*of).1.to_owned()).or_insert(0) += amount;
    }
    sums
}

fn state(known: &Known, queues: &[Known], with_limits: bool) -> Queue {
    let mut queue =
        if known.is_leaf { Queue::leaf(&*known.name) } else { Queue::inner(&*known.name) };
    queue.parent = known.parent.map(|at| queues[at].name.clone());
    for flavor in ["spot", "fixed"] {
        for resource in RESOURCES {
            let amount = if known.is_leaf { 8 } else { 6 };
            queue = queue.quota(flavor, resource, Quota::nominal(amount).limit(200));
        }
    }
    if with_limits {
        queue.limits.clone_from(&known.limits);
    }
    queue
}

/// One random stream of claims, releases, reservations, and changes of queues. Returns the number of
/// claims that limits alone kept out, and of those that got fewer pods for them.
fn stream(seed: u64) -> (usize, usize) {
    let dice = &mut Dice(seed);
    let make = || if seed.is_multiple_of(3) { Tenants::yunikorn() } else { Tenants::default() };
    let (mut tenants, mut free) = (make(), make());
    let mut queues = vec![
        Known { name: "root".into(), is_leaf: false, parent: None, limits: limits(dice) },
        Known { name: "mid".into(), is_leaf: false, parent: Some(0), limits: limits(dice) },
    ];
    for at in 0..2 + dice.roll(3) {
        let parent = Some(dice.roll(2) as usize);
        let (name, limits) = (format!("q{at}"), limits(dice));
        queues.push(Known { name, is_leaf: true, parent, limits });
    }
    for tenants in [&mut tenants, &mut free] {
        tenants.set_flavor(Flavor::new("spot"));
        tenants.set_flavor(Flavor::new("fixed"));
    }
    for known in &queues {
        tenants.set_queue(state(known, &queues, true)).expect("sound");
        free.set_queue(state(known, &queues, false)).expect("sound");
    }
    let mut work: Vec<Work> = Vec::new();
    let mut frees: BTreeMap<String, HolderId> = BTreeMap::new();
    let (mut kept_out, mut fewer) = (0, 0);
    for step in 0..60 {
        match dice.roll(8) {
            0 if !work.is_empty() => {
                let gone = work.remove(dice.roll(work.len() as u64) as usize);
                match gone.holder {
                    Some(holder) => drop(tenants.release(holder).expect("held")),
                    None => drop(tenants.unreserve(&gone.claim.name).expect("reserved")),
                }
                if let Some(holder) = frees.remove(&gone.claim.name) {
                    free.release(holder).expect("held");
                } else {
                    free.unreserve(&gone.claim.name).expect("reserved");
                }
            }
            1 => {
                let at = dice.roll(queues.len() as u64) as usize;
                queues[at].limits = limits(dice);
                if at > 1 && dice.one_in(2) {
                    queues[at].parent = Some(dice.roll(2) as usize);
                }
                let known = queues[at].clone();
                tenants.set_queue(state(&known, &queues, true)).expect("sound");
                free.set_queue(state(&known, &queues, false)).expect("sound");
            }
            _ => {
                let leaf = 2 + dice.roll(queues.len() as u64 - 2) as usize;
                let mut owner = Owner::new(dice.of(&USERS));
                for group in GROUPS {
                    if dice.one_in(3) {
                        owner = owner.group(group);
                    }
                }
                let pods = 1 + dice.roll(4) as u32;
                let each = Amounts::new().with(dice.of(&RESOURCES), 1 + dice.roll(3) as i64);
                let mut requests = Amounts::new();
                for (name, amount) in each.iter() {
                    requests.set(name, amount * i64::from(pods));
                }
                let mut set = PodSet::new("main", pods, requests);
                set.min_count = dice.one_in(2).then_some(1);
                let name = format!("c{step}");
                let claim = Claim::new(&*name, &*queues[leaf].name).owner(owner).pods(set);
                let found = tenants.decide(&claim).expect("sound");
                let without = free.decide(&claim).expect("sound");
                let asked = by_name(&tenants, &found.assignment.usage);
                if found.assignment.mode == AssignmentMode::NoFit {
                    if without.assignment.mode != AssignmentMode::NoFit {
                        let all = by_name(&free, &without.assignment.usage);
                        let is_over = !is_within(&queues, &work, leaf, &claim, &all);
                        assert!(is_over, "seed {seed}, step {step}: no limit keeps it out");
                        let over = tenants.over_limit(&claim, &found.assignment.usage);
                        let over = over.expect("the limit is named");
                        assert!(over.used + over.needed > over.limit, "{over:?}");
                        kept_out += 1;
                        // Not one pod of an elastic claim would be let in.
                        if claim.is_elastic() {
                            let one = each.iter().map(|(name, own)| (name.to_owned(), own));
                            let is_in = is_within(&queues, &work, leaf, &claim, &one.collect());
                            assert!(!is_in, "seed {seed}, step {step}: one pod would be let in");
                        }
                    }
                    continue;
                }
                let is_in = is_within(&queues, &work, leaf, &claim, &asked);
                assert!(is_in, "seed {seed}, step {step}: it goes beyond a limit");
                let count = found.assignment.pod_sets[0].count;
                let most = without.assignment.pod_sets[0].count;
                if count < most {
                    fewer += 1;
                    // One pod more would go beyond a limit.
                    let more = each
                        .iter()
                        .map(|(name, own)| (name.to_owned(), own * i64::from(count + 1)));
                    let is_in = is_within(&queues, &work, leaf, &claim, &more.collect());
                    assert!(!is_in, "seed {seed}, step {step}: one pod more would be let in");
                }
                if found.assignment.mode != AssignmentMode::Fit {
                    continue;
                }
                let usage = found.assignment.usage.clone();
                let id = tenants.tree().queue(QueueKind::Leaf, &claim.queue).expect("there");
                let named: Usage = usage
                    .iter()
                    .map(|&(of, amount)| {
                        let (flavor, resource) = tenants.tree().names(of);
                        (free.intern(flavor, resource), amount)
                    })
                    .collect();
                let other = free.tree().queue(QueueKind::Leaf, &claim.queue).expect("there");
                let holder = if dice.one_in(5) {
                    tenants.reserve_for(&claim.name, &claim.owner, id, &usage).expect("sound");
                    free.reserve(&claim.name, other, &named).expect("sound");
                    assert!(tenants.fits_reserved(&claim.name, &[]));
                    None
                } else {
                    let held = free.restore(&claim, &named, at(0)).expect("sound");
                    frees.insert(claim.name.clone(), held);
                    Some(tenants.admit(&claim, &found.assignment, at(0)).expect("sound"))
                };
                work.push(Work { claim, leaf, amounts: asked, holder });
            }
        }
    }
    (kept_out, fewer)
}

#[test]
fn limits_hold_as_defined_on_random_trees() {
    let (mut kept_out, mut fewer) = (0, 0);
    for seed in 0..budget::of(300, 20_000) {
        let (out, less) = stream(seed);
        (kept_out, fewer) = (kept_out + out, fewer + less);
    }
    assert!(kept_out > 500 && fewer > 50, "{kept_out} kept out, {fewer} with fewer pods");
}

#[test]
fn a_limit_that_makes_no_sense_is_refused_by_name_and_changes_nothing() {
    let mut tenants = Tenants::default();
    let limit = UserLimit::users(["ada", "ada"]).claims(1);
    let wrong = tenants.set_queue(Queue::leaf("vision").limit(limit)).expect_err("twice");
    let QuotaError::UserLimit { queue, number, problem } = &wrong else { panic!("{wrong:?}") };
    assert_eq!((&**queue, *number, problem), ("vision", 0, &LimitProblem::Twice("ada".into())));
    assert_eq!(wrong.to_string(), "queue \"vision\": limit 0 names \"ada\", as another does");
    assert_eq!(tenants.tree().queue(QueueKind::Leaf, "vision"), None);
}

fn team(limit: UserLimit) -> Tenants {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    let labs = Queue::inner("labs").limit(limit);
    tenants.set_queue(labs).expect("sound");
    for name in ["a", "b"] {
        let queue = Queue::leaf(name).parent("labs").quota("all", "gpu", Quota::nominal(8));
        tenants.set_queue(queue).expect("sound");
    }
    tenants
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n0").capacity("gpu", 16)).expect("sound");
    cluster
}

fn gang(name: &str, queue: &str, user: &str, pods: usize, gpus: i64) -> PodGroup {
    let pod = Pod::new().request("gpu", gpus);
    let gang = PodGroup::gang(name, pods as u32).pods(pods, pod).queue(queue);
    gang.owner(Owner::new(user).group("research"))
}

fn reason(scheduler: &Scheduler, group: &str) -> Option<QuotaReason> {
    match scheduler.state(group) {
        Some(GroupState::Unschedulable {
            shortage: Some(Shortage::Quota { reason, .. }), ..
        }) => Some(reason),
        _ => None,
    }
}

#[test]
fn a_user_waits_for_its_own_work_and_others_go_ahead() {
    let mut scheduler = scheduler(cluster(), team(UserLimit::users(["*"]).amount("gpu", 4)));
    for (name, queue, user) in [("a1", "a", "ada"), ("a2", "b", "ada"), ("b1", "b", "bob")] {
        scheduler.handle_group(gang(name, queue, user, 2, 2), at(0)).expect("sound");
    }
    assert_eq!(run(&mut scheduler, at(0)), ["default/a1", "default/b1"]);
    let why = reason(&scheduler, "default/a2").expect("a limit");
    let limited = Limited::User("ada".into());
    let resource = Some("gpu".to_owned());
    let limit = QuotaReason::UserLimit { queue: "labs".into(), limited, resource, limit: 4 };
    assert_eq!(why, limit);
    let shortage = scheduler.queue_status("b").expect("known").shortage;
    let Some(Shortage::Quota { needed: 4, available: 0, .. }) = shortage else {
        panic!("{shortage:?}")
    };
    // The end of another user's work wakes nobody.
    finish(&mut scheduler, "b1", 2, at(1));
    let looks = scheduler.metrics().attempts;
    assert_eq!(run(&mut scheduler, at(1)), Vec::<String>::new());
    assert_eq!(scheduler.metrics().attempts, looks, "nobody was tried");
    finish(&mut scheduler, "a1", 1, at(2));
    assert_eq!(run(&mut scheduler, at(2)), Vec::<String>::new(), "half of it has ended");
    scheduler.handle_gone(Gone::finished("default", "a1-1"), at(3)).expect("known");
    assert_eq!(run(&mut scheduler, at(3)), ["default/a2"]);
}

#[test]
fn groups_of_claims_are_counted_and_a_saved_scheduler_knows_them() {
    let limit = UserLimit::groups(["research"]).claims(2);
    let mut first = scheduler(cluster(), team(limit));
    for (name, user) in [("a1", "ada"), ("a2", "bob"), ("a3", "eve"), ("a4", "ada")] {
        first.handle_group(gang(name, "a", user, 1, 1), at(0)).expect("sound");
    }
    assert_eq!(run(&mut first, at(0)).len(), 2, "whoever the users are");
    let text = serde_json::to_string(&first.save()).expect("data");
    let saved: SavedScheduler = serde_json::from_str(&text).expect("data");
    let mut again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    assert_eq!(serde_json::to_string(&again.save()).expect("data"), text);
    for one in [&mut first, &mut again] {
        let limited = Limited::Group("research".into());
        let why = reason(one, "default/a3");
        let expected =
            QuotaReason::UserLimit { queue: "labs".into(), limited, resource: None, limit: 2 };
        assert_eq!(why, Some(expected));
        finish(one, "a2", 1, at(1));
        assert_eq!(run(one, at(1)), ["default/a3"]);
        // Another owner of a1: the group has room again.
        let mut other = gang("a1", "a", "ada", 1, 1);
        other.owner = Owner::new("ada");
        one.handle_group(other, at(2)).expect("sound");
        assert_eq!(run(one, at(2)), ["default/a4"]);
    }
}

#[test]
fn an_elastic_gang_gets_as_many_members_as_its_user_may_have() {
    let mut scheduler = scheduler(cluster(), team(UserLimit::users(["ada"]).amount("gpu", 5)));
    let mut elastic = gang("e", "a", "ada", 4, 2);
    elastic.policy = phalanx::model::GroupPolicy::Gang { min_count: 1 };
    scheduler.handle_group(elastic, at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), ["default/e"]);
    assert_eq!(super::scheduler::used(&scheduler, "a"), 4, "two members of two");
    let raised = UserLimit::users(["ada"]).amount("gpu", 8);
    scheduler.handle_queue(Queue::inner("labs").limit(raised), at(1)).expect("sound");
    run(&mut scheduler, at(1));
    assert_eq!(super::scheduler::used(&scheduler, "a"), 8, "all four");
}

#[test]
fn nobody_yields_for_the_limit_of_a_user() {
    let mut settings = phalanx::queue::Settings::default();
    settings.preemption = Some(phalanx::queue::PreemptionSettings::default());
    let tenants = team(UserLimit::users(["ada"]).amount("gpu", 4));
    let mut scheduler =
        Scheduler::new(cluster(), Framework::default(), settings).with_tenants(tenants);
    scheduler.handle_group(gang("b1", "b", "bob", 3, 4), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), ["default/b1"]);
    // Queue `a` may take back four of the GPUs that `b` borrows; its user may have no more than four.
    scheduler.handle_group(gang("a1", "a", "ada", 1, 6), at(1)).expect("sound");
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert!(matches!(reason(&scheduler, "default/a1"), Some(QuotaReason::UserLimit { .. })));
}

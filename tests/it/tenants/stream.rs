//! Random events through a scheduler with the default tenants, reclaim among them, against a model
//! that counts everything anew.
//!
//! Pods are of one GPU and nodes are alike, so that room is there wherever quota is. Always:
//!
//! - what a queue uses is what its pods in the cluster ask for, and no queue is above its limit;
//! - a guarantee is never taken by a queue above its own;
//! - nothing is evicted that is protected, nor twice;
//! - a scheduler that was saved and restored answers everything alike.
//!
//! And whenever nothing is left to do but what was decided: what was asked for has started, and no
//! group waits within its queue's guarantee while unprotected ones of those that borrow would
//! suffice.
//!
//! 3,000 events, 100,000 in a soak, a million with `PHALANX_SOAK=10`; `PHALANX_TENANTS_SEED` sets the seed, and
//! `PHALANX_TENANTS_TRACE` tells of one stream.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::preempt::Victim;
use phalanx::queue::{
    Gone, GroupChange, GroupState, PreemptionSettings, PriorityThenTime, ReservationEnd,
    SavedScheduler, Settings, Ticket,
};
use phalanx::quota::{Flavor, Queue, Quota, TenantSettings, Tenants, Weight};
use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};

use crate::lifecycle::world::{Random, streams};
use crate::support::budget;

/// Amounts that are promised to a leaf, and allowed.
#[derive(Debug, Clone, Copy)]
struct Promise {
    guaranteed: i64,
    limit: Option<i64>,
}

#[derive(Debug, Clone)]
struct Gang {
    queue: usize,
    gpus: i64,
    non_preemptible: bool,
    min_run_time: Option<Duration>,
    since: Option<Time>,
}

#[derive(Debug, Clone)]
struct Asked {
    ticket: Ticket,
    /// The group that room is made for.
    by: String,
    group: String,
    pods: Vec<String>,
}

struct World {
    random: Random,
    scheduler: Scheduler,
    twin: Option<Scheduler>,
    now: Time,
    promises: Vec<Promise>,
    /// The limit of the root.
    limit: Option<i64>,
    gangs: BTreeMap<String, Gang>,
    asked: Vec<Asked>,
    /// Groups that wait for victims, and whether one of theirs has gone in the quiet.
    claims: BTreeMap<String, bool>,
    /// Groups of which an eviction failed or was taken back, and how long they may be left alone.
    refused: BTreeMap<String, Time>,
    /// Groups whose claims have ended though victims had gone for them: when, and whether another
    /// group outranked them.
    vain: Vec<(String, Time, bool)>,
    next: usize,
    reclaimed: usize,
    started: usize,
    lent: usize,
    /// Whether it is saved and restored between decisions.
    saves: bool,
    loud: bool,
}

const GPUS: i64 = 8;

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let patience = Duration::from_secs([30, 300, 3_600][random.below(3)]);
        let mut tenants = Tenants::with(TenantSettings::default().patience(patience));
        tenants.set_flavor(Flavor::new("all"));
        let mut promises = Vec::new();
        for number in 0..2 + random.below(4) {
            let guaranteed = random.below(10) as i64;
            let mut quota = Quota::nominal(guaranteed);
            let limit = random.one_in(3).then(|| guaranteed + random.below(6) as i64);
            if let Some(limit) = limit {
                quota = quota.limit(limit);
            }
            let queue = Queue::leaf(format!("q{number}")).parent("root").quota("all", "gpu", quota);
            let weight = Weight::from_nanos((1 + random.below(3) as u64) * 1_000_000_000);
            tenants.set_queue(queue.weight(weight)).expect("sound");
            promises.push(Promise { guaranteed, limit });
        }
        let all: i64 = promises.iter().map(|own| own.guaranteed).sum();
        // The root may have some of its own, and may be limited.
        let own = random.below(4) as i64;
        let limit = random.one_in(4).then(|| all.max(1));
        let mut quota = Quota::nominal(own);
        if let Some(limit) = limit {
            quota = quota.limit(limit);
        }
        tenants.set_queue(Queue::inner("root").quota("all", "gpu", quota)).expect("sound");
        let mut cluster = Cluster::new();
        for at in 0..(all + own + GPUS - 1) / GPUS {
            let node = Node::new(format!("n{at}")).capacity("gpu", GPUS);
            cluster.add_node(node).expect("sound");
        }
        let mut settings = Settings::default();
        let mut preemption = PreemptionSettings::default();
        preemption.start_timeout = Duration::from_secs(60);
        preemption.grace_period = Duration::from_secs(60);
        // In three of four streams as by default: over quota and room at once.
        preemption.joint = random.one_in(4).then_some(false);
        settings.preemption = Some(preemption);
        let scheduler =
            Scheduler::new(cluster, Framework::default(), settings).with_tenants(tenants);
        World {
            random,
            scheduler,
            twin: None,
            now: Time::from_secs(1),
            promises,
            limit,
            gangs: BTreeMap::new(),
            asked: Vec::new(),
            claims: BTreeMap::new(),
            refused: BTreeMap::new(),
            vain: Vec::new(),
            next: 0,
            reclaimed: 0,
            started: 0,
            lent: 0,
            saves: false,
            loud: std::env::var_os("PHALANX_TENANTS_TRACE").is_some(),
        }
    }

    fn both<T: PartialEq + std::fmt::Debug>(&mut self, act: impl Fn(&mut Scheduler) -> T) -> T {
        let answer = act(&mut self.scheduler);
        if let Some(twin) = &mut self.twin {
            assert_eq!(act(twin), answer);
        }
        answer
    }

    fn tell(&self, what: impl Fn() -> String) {
        if self.loud {
            eprintln!("{:?} {}", self.now, what());
        }
    }

    /// GPUs of a group's pods that are in the cluster.
    fn used_by(&self, name: &str) -> i64 {
        let cluster = self.scheduler.cluster();
        let pods = self.gangs[name].gpus;
        let there = |at: &i64| cluster.pod("default", &format!("{}-{at}", &name[8..])).is_some();
        (0..pods).filter(there).count() as i64
    }

    fn used(&self, queue: usize) -> i64 {
        let own = self.gangs.iter().filter(|(_, gang)| gang.queue == queue);
        own.map(|(name, _)| self.used_by(name)).sum()
    }

    fn is_asked(&self, name: &str) -> bool {
        self.asked.iter().any(|asked| asked.group == name)
    }

    fn step(&mut self) {
        let now = self.now;
        match self.random.below(16) {
            0..=4 if self.gangs.len() < 24 => {
                let name = format!("g{}", self.next);
                self.next += 1;
                let queue = self.random.below(self.promises.len());
                let most = if self.random.one_in(4) { 8 } else { 3 };
                let gpus = 1 + self.random.below(most);
                let pod = Pod::new().request("gpu", 1);
                let mut gang = PodGroup::gang(&name, gpus as u32).pods(gpus, pod);
                gang.queue = format!("q{queue}");
                gang.priority = self.random.below(3) as i32;
                gang.non_preemptible = self.random.one_in(10);
                let protection = Duration::from_secs(40);
                gang.min_run_time = self.random.one_in(6).then_some(protection);
                let own = Gang {
                    queue,
                    gpus: gpus as i64,
                    non_preemptible: gang.non_preemptible,
                    min_run_time: gang.min_run_time,
                    since: None,
                };
                self.tell(|| format!("+ {name} {own:?} {}", gang.priority));
                self.both(|s| s.handle_group(gang.clone(), now)).expect("sound");
                self.gangs.insert(format!("default/{name}"), own);
            }
            5..=8 => {
                let runs = |(name, _): &(&String, &Gang)| self.used_by(name) > 0;
                let running: Vec<String> =
                    self.gangs.iter().filter(runs).map(|(name, _)| name.clone()).collect();
                if let Some(name) = self.random.pick(&running) {
                    self.end(&name);
                }
            }
            9 => {
                let names: Vec<String> = self.gangs.keys().cloned().collect();
                if let Some(name) = self.random.pick(&names) {
                    self.end(&name);
                }
            }
            10..=12 => {
                let Some(asked) = self.random.pick(&self.asked.clone()) else { return };
                match self.random.below(6) {
                    0 => {
                        let later = now.after(Duration::from_secs(20));
                        let retry = self.random.one_in(2).then_some(later);
                        self.tell(|| format!("{} does not go", asked.group));
                        let Asked { ticket, group, .. } = &asked;
                        self.both(|s| s.handle_eviction_failed(*ticket, group, retry, now).is_ok());
                        self.asked.retain(|own| own.group != asked.group);
                        self.leave_alone(&asked.group);
                    }
                    1 => {
                        // One pod first: the others follow.
                        let pod = asked.pods[0].clone();
                        self.pod_goes(&asked, &pod);
                    }
                    _ => self.goes(&asked),
                }
            }
            13 | 14 => {
                self.now = now.after(Duration::from_millis(100 + self.random.below(9_000) as u64));
            }
            _ => {
                let wake = self.scheduler.next_wake();
                self.now = wake.filter(|wake| *wake > now).unwrap_or(now);
            }
        }
    }

    fn pod_goes(&mut self, asked: &Asked, pod: &str) {
        let now = self.now;
        self.tell(|| format!("{pod} goes"));
        let known = self.both(|s| s.handle_gone(Gone::evicted(asked.ticket, pod), now)).is_ok();
        if !known {
            let name = &pod[8..];
            self.both(|s| s.handle_gone(Gone::unbound("default", name), now)).expect("known");
        }
        for own in &mut self.asked {
            own.pods.retain(|other| other != pod);
        }
        self.asked.retain(|own| !own.pods.is_empty());
        if let Some(gang) = self.gangs.get_mut(&asked.group) {
            gang.since = None;
        }
    }

    fn goes(&mut self, asked: &Asked) {
        self.reclaimed += 1;
        for pod in &asked.pods {
            self.pod_goes(asked, pod);
        }
    }

    /// A group and its pods are gone.
    fn end(&mut self, name: &str) {
        let now = self.now;
        self.tell(|| format!("- {name}"));
        let gang = self.gangs[name].clone();
        self.both(|s| s.handle_group_removed(name, now)).expect("known");
        for at in 0..gang.gpus {
            let pod = format!("{}-{at}", &name[8..]);
            self.both(|s| s.handle_gone(Gone::deleted("default", &pod), now))
                .expect("it is ignored");
        }
        self.asked.retain(|asked| asked.group != name);
        self.claims.remove(name);
        self.gangs.remove(name);
    }

    fn poll(&mut self) {
        let now = self.now;
        for round in 0.. {
            assert!(round < 400, "decisions never end");
            let Some(decision) = self.both(|s| s.poll_decision(now)) else { break };
            self.tell(|| format!("{decision:?}"));
            match decision {
                Decision::Bind { ticket, groups, .. } => {
                    self.both(|s| s.handle_bound(ticket, now)).expect("known");
                    for group in groups {
                        let gang = self.gangs.get_mut(group.as_str()).expect("known");
                        gang.since = Some(now);
                        self.started += 1;
                        let (queue, gpus) = (gang.queue, gang.gpus);
                        let above = self.used(queue) - self.promises[queue].guaranteed;
                        self.lent += usize::from(above > 0 && gpus > 0);
                    }
                }
                Decision::Evict { ticket, victims, plan, .. } => {
                    self.check_victims(plan.group().as_str(), &victims);
                    for victim in victims {
                        let pod = |pod: &phalanx::preempt::EvictedPod| {
                            format!("{}/{}", pod.namespace, pod.name)
                        };
                        let pods = victim.pods.iter().map(pod).collect();
                        let group: String = victim.group.expect("all are of groups").into();
                        self.asked.retain(|own| own.group != group);
                        let by = plan.group().to_string();
                        self.asked.push(Asked { ticket, by, group, pods });
                    }
                }
                Decision::CancelEvictions { ticket, victims } => {
                    for victim in victims {
                        let is = |own: &Asked| own.ticket == ticket && own.group == victim.name;
                        assert!(self.asked.iter().any(is), "{} was not asked for", victim.name);
                        self.asked.retain(|own| !is(own));
                        self.leave_alone(&victim.name);
                    }
                }
                other => panic!("{other:?}"),
            }
            if self.saves {
                self.save();
            }
        }
        while let Some(event) = self.both(Scheduler::poll_event) {
            self.tell(|| format!("{event:?}"));
            match &event.change {
                GroupChange::Preempting { .. } => {
                    // Victims of a claim count for the claim that replaces it at once, of the same
                    // group or of one that takes its reserved quota.
                    let group = event.group.to_string();
                    let before = self.vain.len();
                    let is_replaced = |(ended, at, outranked): &(String, Time, bool)| {
                        *at == event.at && (*outranked || *ended == group)
                    };
                    self.vain.retain(|own| !is_replaced(own));
                    self.claims.insert(group, self.vain.len() < before);
                }
                GroupChange::ReservationEnded { reason } => {
                    let gone = self.claims.remove(event.group.as_str());
                    if gone == Some(true) && *reason != ReservationEnd::Used {
                        let outranked = *reason == ReservationEnd::Outranked;
                        self.vain.push((event.group.to_string(), event.at, outranked));
                    }
                }
                _ => {}
            }
        }
    }

    fn leave_alone(&mut self, name: &str) {
        let until = self.now.after(PreemptionSettings::default().timeout);
        self.refused.insert(name.to_owned(), until);
    }

    fn protected(&self, gang: &Gang) -> bool {
        let ends = |least: Duration| gang.since.is_none_or(|since| self.now < since.after(least));
        gang.non_preemptible || gang.min_run_time.is_some_and(ends)
    }

    /// Checks victims when they are named.
    fn check_victims(&self, group: &str, victims: &[Victim]) {
        // What has begun to go is asked for again also when the other is not there any more.
        let Some(own) = self.gangs.get(group) else { return };
        let mut lost: BTreeMap<usize, i64> = BTreeMap::new();
        for victim in victims {
            let name = victim.group.as_ref().expect("all are of groups").as_str();
            let theirs = &self.gangs[name];
            // What has begun to go is asked for until it has gone.
            let has_begun = self.used_by(name) < theirs.gpus;
            assert!(has_begun || !self.is_asked(name), "{name} is evicted twice");
            assert!(has_begun || !self.protected(theirs), "{name} is protected");
            assert_eq!(victim.pods.len() as i64, self.used_by(name), "{name} goes in part");
            *lost.entry(theirs.queue).or_default() += self.used_by(name);
        }
        for asked in &self.asked {
            *lost.entry(self.gangs[&asked.group].queue).or_default() += self.used_by(&asked.group);
        }
        let above = self.used(own.queue) + own.gpus > self.promises[own.queue].guaranteed;
        for (queue, lost) in lost.into_iter().filter(|(queue, _)| above && *queue != own.queue) {
            // Those that have begun to go were named before.
            let named = victims.iter().any(|victim| {
                let name = victim.group.as_ref().expect("all are of groups").as_str();
                self.gangs[name].queue == queue && self.used_by(name) == self.gangs[name].gpus
            });
            // What is reserved for a group of the queue is the queue's.
            let reserving = self.scheduler.tenants().expect("there").reserving();
            let claims = reserving.filter_map(|name| self.gangs.get(name));
            let reserved = claims.filter(|gang| gang.queue == queue).map(|gang| gang.gpus);
            let left = self.used(queue) + reserved.sum::<i64>() - lost;
            assert!(
                !named || left >= self.promises[queue].guaranteed,
                "{group} above its guarantee leaves {left} to q{queue}"
            );
        }
    }

    fn check(&self) {
        let mut all = 0;
        for (queue, promise) in self.promises.iter().enumerate() {
            let used = self.used(queue);
            all += used;
            let status = self.scheduler.queue_status(&format!("q{queue}")).expect("known");
            let sums = status.report.resources.iter().map(|own| own.sums.used).sum::<i64>();
            assert_eq!(sums, used, "q{queue}");
            assert!(
                promise.limit.is_none_or(|limit| used <= limit),
                "q{queue} is beyond its limit"
            );
        }
        assert!(self.limit.is_none_or(|limit| all <= limit), "the root is beyond its limit");
        for (name, gang) in &self.gangs {
            let state = self.scheduler.state(name).expect("known");
            match state {
                GroupState::Running => assert_eq!(self.used_by(name), gang.gpus, "{name}"),
                GroupState::Failed { .. } => panic!("{name}: {state:?}"),
                _ => {}
            }
        }
        let tenants = self.scheduler.tenants().expect("there");
        let reserved: BTreeSet<&str> = tenants.reserving().collect();
        let claims: BTreeSet<&str> = self.claims.keys().map(String::as_str).collect();
        assert_eq!(reserved, claims, "quota is reserved for those that wait for victims");
    }

    /// Nothing happens but what was decided.
    fn quiet(&mut self) {
        self.vain.clear();
        for has_gone in self.claims.values_mut() {
            *has_gone = false;
        }
        // Long enough for protections and back-offs.
        let end = self.now.after(Duration::from_secs(120));
        for round in 0.. {
            assert!(round < 600, "it is never quiet");
            if let Some(asked) = self.asked.first().cloned() {
                if let Some(has_gone) = self.claims.get_mut(&asked.by) {
                    *has_gone = true;
                }
                self.goes(&asked);
            } else {
                let wake = self.scheduler.next_wake().filter(|wake| *wake <= end);
                match wake {
                    Some(wake) => self.now = wake.max(self.now),
                    None if self.claims.is_empty() => break,
                    None => panic!("no deadline: {:?}", self.claims),
                }
            }
            self.poll();
            self.check();
        }
        assert!(self.vain.is_empty(), "victims went in vain for {:?}", self.vain);
        self.check_guarantees();
    }

    /// No first group of a queue waits within the guarantee while those that borrow could give back.
    fn check_guarantees(&self) {
        let used: Vec<i64> = (0..self.promises.len()).map(|queue| self.used(queue)).collect();
        let mut can = 0;
        for (queue, promise) in self.promises.iter().enumerate() {
            let borrowed = (used[queue] - promise.guaranteed).max(0);
            let is_free = |name: &String| self.refused.get(name).is_none_or(|end| *end <= self.now);
            let open = self.gangs.iter().filter(|(name, gang)| {
                gang.queue == queue && !self.protected(gang) && is_free(name)
            });
            let open: i64 = open.map(|(name, _)| self.used_by(name)).sum();
            can += borrowed.min(open);
        }
        let aside = self.scheduler.tenants().and_then(Tenants::aside).map(str::to_owned);
        let aside = aside.and_then(|name| self.gangs.get(&name)).map(|gang| gang.queue);
        for (queue, promise) in self.promises.iter().enumerate() {
            let name = format!("q{queue}");
            let Some(first) = self.scheduler.queue(&name).next() else { continue };
            let gang = &self.gangs[first];
            let within = used[queue] + gang.gpus
                <= promise.guaranteed.min(promise.limit.unwrap_or(i64::MAX));
            if !within || aside == Some(queue) {
                continue;
            }
            let status = self.scheduler.queue_status(&name).expect("known");
            let free: i64 = status.report.resources.iter().map(|own| own.available.max(0)).sum();
            assert!(
                free + can < gang.gpus || self.limit.is_some(),
                "{first} waits for {} within the guarantee of {name}: {free} are free, {can} could be \
                 given back: {status:?} {:?}",
                gang.gpus,
                self.holders()
            );
        }
    }

    /// Amounts that each group holds, and whether it leaves or is kept.
    fn holders(&self) -> Vec<(String, i64, bool, bool)> {
        let tenants = self.scheduler.tenants().expect("there");
        let held = self.gangs.keys().filter_map(|name| tenants.holder(tenants.find(name)?));
        let of = |own: &phalanx::quota::Holder| own.usage.iter().map(|(_, amount)| *amount).sum();
        held.map(|own| (own.name.clone(), of(own), own.leaving, own.kept)).collect()
    }

    fn save(&mut self) {
        let text = serde_json::to_string(&self.scheduler.save()).expect("data");
        if let Some(twin) = self.twin.take() {
            assert_eq!(serde_json::to_string(&twin.save()).expect("data"), text);
        }
        let saved: SavedScheduler = serde_json::from_str(&text).expect("data");
        let twin = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
        assert_eq!(serde_json::to_string(&twin.save()).expect("data"), text);
        self.twin = Some(twin);
    }
}

/// One stream: what was reclaimed, started, and lent.
pub(crate) fn stream(seed: u64, events: usize) -> (usize, usize, usize) {
    let mut world = World::new(seed);
    for event in 0..events {
        if seed.is_multiple_of(4) && event % 50 == 0 {
            world.save();
        }
        let known = world.next;
        world.step();
        // Several groups at once, so that several heads of queues stand when it is saved.
        world.saves = seed.is_multiple_of(4) && event % 5 == 4;
        if seed.is_multiple_of(4) && !world.saves && world.next > known {
            continue;
        }
        world.poll();
        world.check();
        if event % 40 == 39 {
            world.quiet();
        }
    }
    (world.reclaimed, world.started, world.lent)
}

/// One stream again, told by `PHALANX_TENANTS_TRACE`.
#[test]
fn one_stream_of_tenants_by_its_seed() {
    stream(budget::number("PHALANX_TENANTS_TRACE").unwrap_or(7), 250);
}

#[test]
fn random_events_keep_what_the_default_promises() {
    let events = budget::of(1_500, 100_000) as usize;
    let (reclaimed, started, lent) = streams(events, "PHALANX_TENANTS_SEED", stream)
        .into_iter()
        .fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
    eprintln!("{reclaimed} reclaimed, {started} started, {lent} of them borrowed");
    // The streams do get somewhere.
    assert!(reclaimed * 250 > events, "{reclaimed} evictions in {events} events");
    assert!(started * 10 > events, "{started} starts in {events} events");
    assert!(lent * 40 > events, "{lent} starts beyond guarantees in {events} events");
}

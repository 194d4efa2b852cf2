//! Random lives of a cluster, told by watches that are late, repeat themselves and break, against a
//! plain bookkeeping of the test's own.
//!
//! 6,000 lines; a million in a soak. `PHALANX_WATCH_SEED` sets the seed.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::kubernetes::watch::{Kind, Store, WatchEvent};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
use serde_json::{Value, json};

use super::relist::{list_end, node};
use super::truth::{CPU, KINDS, Truth};
use crate::support::budget;
use crate::support::dice::Dice;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const GROUPS: [(&str, Option<&str>); 6] = [
    ("g0", None),
    ("g1", None),
    ("g2", None),
    ("g3", Some("c0")),
    ("g4", Some("c0")),
    ("g5", Some("c1")),
];
const COMPOSITES: [(&str, Option<&str>); 2] = [("c0", None), ("c1", Some("c0"))];

/// The place of a watch in the log of its kind.
#[derive(Default)]
struct Stream {
    /// Lines before this one have been sent.
    sent: usize,
    /// Lines up to this one may be sent: they are not after the next bookmark.
    since_bookmark: usize,
    /// Lines that were overtaken.
    late: Vec<usize>,
}

struct Life {
    dice: Dice,
    truth: Truth,
    streams: BTreeMap<Kind, Stream>,
    store: Store,
    scheduler: Scheduler,
    now: u64,
    lines: u64,
    bound: BTreeSet<(String, u64)>,
}

impl Life {
    fn new(seed: u64) -> Life {
        let scheduler = Scheduler::new(Cluster::new(), Framework::default(), Settings::new());
        let mut life = Life {
            dice: Dice(seed),
            truth: Truth::after(10),
            streams: KINDS.into_iter().map(|kind| (kind, Stream::default())).collect(),
            store: Store::new("phalanx"),
            scheduler,
            now: 1,
            lines: 0,
            bound: BTreeSet::new(),
        };
        for (at, name) in NODES.into_iter().enumerate() {
            let mut node = node(name);
            node["metadata"]["resourceVersion"] = (1 + at).to_string().into();
            life.hear(&json!({"type": "ADDED", "object": node}));
        }
        life
    }

    fn time(&self) -> Time {
        Time::from_secs(self.now)
    }

    fn hear(&mut self, line: &Value) {
        self.lines += 1;
        let event: WatchEvent = serde_json::from_str(&line.to_string()).unwrap();
        let now = self.time();
        for update in self.store.apply(event).unwrap() {
            let text = format!("{update:?}");
            let passed = update.pass_to(&mut self.scheduler, now);
            assert_eq!(passed, Ok(()), "{text} after {line}");
        }
    }

    /// Something happens in the cluster.
    fn happen(&mut self) {
        let name = format!("p{}", self.dice.roll(12));
        match self.dice.roll(12) {
            0..=3 if !self.truth.pods.contains_key(&name) => {
                let group = (!self.dice.one_in(4)).then(|| self.dice.of(&GROUPS).0.to_owned());
                let cpu = 1 + self.dice.roll(4) as u32;
                self.truth.add_pod(&name, group, cpu);
            }
            0..=4 => self.truth.delete_pod(&name),
            5 => self.truth.change_pod(&name, |_| {}),
            6 if self.truth.pods.get(&name).is_some_and(|pod| pod.runs()) => {
                self.truth.change_pod(&name, |pod| pod.succeeded = true);
            }
            7..=8 => self.group_happens(Kind::PodGroup, &GROUPS),
            9 => self.group_happens(Kind::CompositePodGroup, &COMPOSITES),
            _ => self.now += self.dice.roll(20),
        }
    }

    fn group_happens(&mut self, kind: Kind, all: &[(&str, Option<&str>)]) {
        let (name, parent) = self.dice.of(all);
        let most = if kind == Kind::PodGroup { 3 } else { 2 };
        if self.dice.one_in(3) {
            self.truth.delete_group(kind, name);
        } else {
            let min = 1 + self.dice.roll(most) as u32;
            self.truth.put_group(kind, name, min, parent.map(str::to_owned));
        }
    }

    /// A watch sends a line: the next, one that was overtaken, or one again.
    fn send(&mut self, kind: Kind) {
        let written = self.truth.log(kind).len();
        let stream = self.streams.get_mut(&kind).unwrap();
        if !stream.late.is_empty() && self.dice.one_in(3) {
            let at = self.dice.roll(stream.late.len() as u64) as usize;
            let at = stream.late.swap_remove(at);
            return self.send_line(kind, at);
        }
        if stream.sent > stream.since_bookmark && self.dice.one_in(8) {
            let again = stream.sent - stream.since_bookmark;
            let at = stream.since_bookmark + self.dice.roll(again as u64) as usize;
            if !stream.late.contains(&at) {
                return self.send_line(kind, at);
            }
        }
        if stream.sent < written {
            let at = stream.sent;
            stream.sent += 1;
            if self.dice.one_in(4) {
                stream.late.push(at);
            } else {
                self.send_line(kind, at);
            }
        }
    }

    fn send_line(&mut self, kind: Kind, at: usize) {
        let (_, line) = self.truth.log(kind)[at].clone();
        self.hear(&line);
    }

    /// A bookmark of a watch: what was overtaken comes first.
    fn bookmark(&mut self, kind: Kind) {
        let late = std::mem::take(&mut self.streams.get_mut(&kind).unwrap().late);
        for at in late {
            self.send_line(kind, at);
        }
        let sent = self.streams[&kind].sent;
        let Some((version, _)) = self.truth.log(kind)[..sent].last().cloned() else { return };
        let mut object = list_end(kind);
        object["metadata"] = json!({"resourceVersion": version.to_string()});
        self.hear(&json!({"type": "BOOKMARK", "object": object}));
        self.streams.get_mut(&kind).unwrap().since_bookmark = sent;
    }

    /// A watch breaks, and its objects are listed anew; perhaps the list breaks too.
    fn break_off(&mut self, kind: Kind) {
        loop {
            let (mut lines, end) = self.truth.list(kind);
            self.store.begin_list(kind);
            let is_whole = !self.dice.one_in(4);
            while !lines.is_empty() && (is_whole || !self.dice.one_in(4)) {
                let at = self.dice.roll(lines.len() as u64) as usize;
                let line = lines.swap_remove(at);
                self.hear(&line);
            }
            if is_whole {
                self.hear(&end);
                let sent = self.truth.log(kind).len();
                let stream = Stream { sent, since_bookmark: sent, late: Vec::new() };
                self.streams.insert(kind, stream);
                return;
            }
            self.happen();
        }
    }

    /// The scheduler decides; the API server binds what it still has, and refuses the rest.
    fn decide(&mut self) {
        let now = self.time();
        while let Some(decision) = self.scheduler.poll_decision(now) {
            let Decision::Bind { ticket, plan, .. } = decision else { continue };
            for assignment in plan.assignments() {
                let pod = assignment.pod();
                let node = assignment.node().to_owned();
                let uid: u64 = pod.uid.parse().unwrap();
                let own = self.truth.pods.get(&pod.name).filter(|own| own.uid == uid);
                let result = match own {
                    Some(own) => {
                        assert_eq!(own.node, None, "{} is bound twice", pod.name);
                        assert!(self.bound.insert((pod.name.clone(), uid)));
                        self.truth.change_pod(&pod.name, |own| own.node = Some(node.clone()));
                        Ok(())
                    }
                    None => Err("not found".to_owned()),
                };
                let told = self.scheduler.handle_binding(ticket, "default", &pod.name, result, now);
                assert_eq!(told, Ok(()), "{}", pod.name);
            }
        }
        for node in NODES {
            let runs = self.truth.pods.values().filter(|pod| pod.runs());
            let used: u32 =
                runs.filter(|pod| pod.node.as_deref() == Some(node)).map(|pod| pod.cpu).sum();
            assert!(used <= CPU, "{node} has {used}");
        }
    }

    /// All lines are sent: the store and the scheduler know what there is, and no more.
    fn compare(&mut self) {
        for kind in KINDS {
            while self.streams[&kind].sent < self.truth.log(kind).len() {
                self.send(kind);
            }
            self.bookmark(kind);
        }
        let cluster = self.scheduler.cluster().pods();
        let known: BTreeSet<(String, String)> = cluster
            .map(|pod| {
                let node = pod.node().map_or("", |node| node.name());
                (pod.name().to_owned(), node.to_owned())
            })
            .collect();
        assert_eq!(known, self.truth.running());
        let groups: BTreeSet<String> =
            self.scheduler.groups().map(|name| name.to_string()).collect();
        assert_eq!(groups, self.truth.expected_groups());
        for group in groups {
            let waiting = self.store.waiting_pods(&group).into_iter().map(|pod| pod.name);
            assert_eq!(waiting.collect::<BTreeSet<_>>(), self.truth.waiting_in(&group), "{group}");
        }
        for (name, pod) in &self.truth.pods {
            let uid = pod.uid.to_string();
            assert_eq!(self.store.pod_uid("default", name), Some(uid.as_str()));
        }
    }

    fn step(&mut self) {
        self.happen();
        for _ in 0..self.dice.roll(4) {
            let kind = self.dice.of(&KINDS);
            self.send(kind);
        }
        let kind = self.dice.of(&KINDS);
        match self.dice.roll(40) {
            0..=1 => self.bookmark(kind),
            2 => self.break_off(kind),
            3..=12 => self.decide(),
            13 => self.compare(),
            _ => {}
        }
    }
}

/// One life of some lines: how many there were, and how many pods were bound.
pub(crate) fn life(seed: u64, lines: u64) -> (u64, usize) {
    let mut life = Life::new(seed);
    while life.lines < lines {
        life.step();
    }
    life.compare();
    (life.lines, life.bound.len())
}

#[test]
fn the_scheduler_knows_what_there_is_whatever_watches_do() {
    let first = budget::number("PHALANX_WATCH_SEED").unwrap_or(1);
    let wanted = budget::of(6_000, 1_000_000);
    let (mut lines, mut bound) = (0, 0);
    for seed in first.. {
        let (heard, started) = life(seed, 1_000);
        lines += heard;
        bound += started;
        if lines >= wanted {
            break;
        }
    }
    assert!(bound as u64 > lines / 100, "{bound} pods were bound in {lines} lines");
}

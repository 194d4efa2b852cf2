//! Lines of watches, some of them altered: an error or a change, and a list puts everything right.

use std::collections::BTreeSet;

use phalanx::kubernetes::watch::{Kind, Store, WatchEvent};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
use serde_json::{Value, json};

use super::mar;
use crate::support::budget;
use crate::support::dice::Dice;
use crate::watches::relist::{list_end, node};
use crate::watches::truth::{KINDS, Truth};

/// A store that hears of a cluster.
struct Ear {
    dice: Dice,
    truth: Truth,
    store: Store,
    scheduler: Scheduler,
    now: u64,
    /// Lines that were altered and heard.
    altered: usize,
    /// Whether the version, the identity or the end of an object was altered: then a list may not mend it.
    is_forged: bool,
}

/// One cluster of so many changes; how many lines were altered.
pub(crate) fn one(seed: u64, changes: u64) -> usize {
    let settings = Settings::new();
    let mut ear = Ear {
        dice: Dice(seed),
        truth: Truth::after(10),
        store: Store::new("phalanx"),
        scheduler: Scheduler::new(Cluster::new(), Framework::default(), settings),
        now: 1,
        altered: 0,
        is_forged: false,
    };
    for (at, name) in NODES.into_iter().enumerate() {
        ear.hear(node_line(at, name), false);
    }
    for _ in 0..changes {
        ear.happen();
        if ear.dice.one_in(3) {
            ear.decide();
        }
    }
    ear.touch_all();
    ear.list_all();
    ear.compare();
    ear.altered
}

const NODES: [&str; 3] = ["n1", "n2", "n3"];

fn node_line(at: usize, name: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["resourceVersion"] = (1 + at).to_string().into();
    json!({"type": "ADDED", "object": node})
}

impl Ear {
    fn hear(&mut self, mut line: Value, may_alter: bool) {
        let before = line.clone();
        if may_alter && self.dice.one_in(2) {
            mar(&mut self.dice, &mut line);
        }
        let is_altered = line != before;
        self.altered += usize::from(is_altered);
        for field in ["resourceVersion", "uid", "name", "namespace"] {
            let of = |line: &Value| line["object"]["metadata"][field].clone();
            self.is_forged |= of(&line) != of(&before);
        }
        // Whoever was deleted does not come back under its uid.
        self.is_forged |= line["type"] == "DELETED" && before["type"] != "DELETED";
        let event: Result<WatchEvent, _> = serde_json::from_value(line);
        let Ok(updates) =
            event.map_err(|_| ()).and_then(|event| self.store.apply(event).map_err(|_| ()))
        else {
            return assert!(is_altered, "refused: {before}");
        };
        for update in updates {
            let passed = update.pass_to(&mut self.scheduler, Time::from_secs(self.now));
            assert!(passed.is_ok() || self.altered > 0, "{passed:?} after {before}");
        }
        self.scheduler.check().unwrap_or_else(|error| panic!("{error}, after {before}"));
    }

    /// The last line of a kind comes in.
    fn told(&mut self, kind: Kind) {
        if let Some((_, line)) = self.truth.log(kind).last().cloned() {
            self.hear(line, true);
        }
    }

    fn happen(&mut self) {
        let name = format!("p{}", self.dice.roll(6));
        let kind = match self.dice.roll(8) {
            0..=3 if !self.truth.pods.contains_key(&name) => {
                let group = self.dice.one_in(2).then(|| format!("g{}", self.dice.roll(3)));
                let cpu = 1 + self.dice.roll(4) as u32;
                self.truth.add_pod(&name, group, cpu);
                Kind::Pod
            }
            0 => {
                self.truth.delete_pod(&name);
                Kind::Pod
            }
            1..=3 => {
                let node = self.dice.of(&NODES);
                self.truth.change_pod(&name, |pod| pod.node = Some(node.to_owned()));
                Kind::Pod
            }
            4 => {
                let name = format!("c{}", self.dice.roll(2));
                self.truth.put_group(Kind::CompositePodGroup, &name, 1, None);
                Kind::CompositePodGroup
            }
            5 => {
                let name = format!("g{}", self.dice.roll(3));
                self.truth.delete_group(Kind::PodGroup, &name);
                Kind::PodGroup
            }
            6 => {
                self.now += self.dice.roll(20);
                return;
            }
            _ => {
                let at = self.dice.roll(3);
                let parent = (at == 2).then(|| "c0".to_owned());
                let min = 1 + self.dice.roll(2) as u32;
                self.truth.put_group(Kind::PodGroup, &format!("g{at}"), min, parent);
                Kind::PodGroup
            }
        };
        self.told(kind);
    }

    /// Decisions are taken and refused: nothing is bound but by the world outside.
    fn decide(&mut self) {
        let now = Time::from_secs(self.now);
        for _ in 0..50 {
            let Some(decision) = self.scheduler.poll_decision(now) else { break };
            if let Decision::Bind { ticket, .. } = decision {
                let _ = self.scheduler.handle_conflict(ticket, "not now", now);
            }
            self.scheduler.check().unwrap();
        }
    }

    /// Every object changes: one that was altered under its own version would stay so.
    fn touch_all(&mut self) {
        for name in self.truth.pods.keys().cloned().collect::<Vec<_>>() {
            self.truth.change_pod(&name, |_| ());
        }
        for kind in [Kind::PodGroup, Kind::CompositePodGroup] {
            let is_composite = kind == Kind::CompositePodGroup;
            let lives = if is_composite { &self.truth.composites } else { &self.truth.groups };
            for (name, life) in lives.clone() {
                self.truth.put_group(kind, &name, life.min, life.parent);
            }
        }
    }

    /// All is listed anew, and nothing is altered.
    fn list_all(&mut self) {
        self.store.begin_list(Kind::Node);
        for (at, name) in NODES.into_iter().enumerate() {
            self.hear(node_line(at, name), false);
        }
        let mut end = list_end(Kind::Node);
        end["metadata"]["resourceVersion"] = self.truth.version.to_string().into();
        self.hear(json!({"type": "BOOKMARK", "object": end}), false);
        for kind in KINDS {
            let (lines, end) = self.truth.list(kind);
            self.store.begin_list(kind);
            for line in lines {
                self.hear(line, false);
            }
            self.hear(end, false);
        }
    }

    fn compare(&self) {
        if self.is_forged {
            return;
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
    }
}

#[test]
fn altered_lines_break_nothing_that_a_list_does_not_mend() {
    let first = budget::number("PHALANX_MARRED_SEED").unwrap_or(0);
    let seeds = budget::of(60, 20_000);
    let altered: usize = (first..first + seeds).map(|seed| one(seed, 30)).sum();
    assert!(altered as u64 > 5 * seeds, "{altered} lines of {seeds} clusters");
}

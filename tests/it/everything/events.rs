//! Random events.

use std::time::Duration;

use super::setup::{self, BudgetState, COLOURS};
use super::world::{Gang, Leave, World};
use crate::lifecycle::world::leaves;

impl World {
    pub(super) fn step(&mut self) {
        match self.random.below(40) {
            0..=4 => self.submit(),
            5..=12 | 36.. => self.carry(),
            13..=16 => self.evictions(),
            17..=19 => self.pass_time(),
            20 | 21 => self.group_event(),
            22 | 23 => self.pod_event(),
            24 | 25 => self.node_event(),
            26 => self.budget_event(),
            27 => self.queue_event(),
            28 | 29 => self.permit_event(),
            30 | 31 => self.late_member(),
            32 => self.stranger(),
            33 | 34 => self.remove_group(),
            35 => self.restart_any(),
        }
    }

    fn restart_any(&mut self) {
        if self.random.one_in(4) {
            let owner = self.random.below(self.processes.len());
            self.restart(owner);
        }
    }

    fn any_gang(&mut self) -> Option<String> {
        let names: Vec<String> = self.gangs.keys().cloned().collect();
        self.random.pick(&names)
    }

    fn queue_names(&self) -> Vec<String> {
        if self.rules.tenants {
            let leaves = self.queues.iter().filter(|(_, state)| state.leaf);
            return leaves.map(|(name, _)| name.clone()).collect();
        }
        if self.rules.queues == 1 { Vec::new() } else { vec!["x".into(), "y".into()] }
    }

    fn submit(&mut self) {
        if self.gangs.len() >= 14 {
            return self.remove_group();
        }
        let name = format!("g{}", self.next);
        self.next += 1;
        let owner = self.random.below(self.processes.len());
        let others = self.gangs.iter().filter(|(_, gang)| gang.owner == owner);
        let others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
        let partner = if self.random.one_in(9) { self.random.pick(&others) } else { None };
        let queues = self.queue_names();
        let mut tree = setup::group(&mut self.random, &name, &queues, partner.as_deref(), self.now);
        self.tell(|| format!("+ {name} of {owner}: {}", describe(&tree)));
        self.processes[owner].group(&tree, self.now);
        for leaf in leaves(&mut tree) {
            for mut pod in std::mem::take(&mut leaf.pods) {
                pod.group = Some(leaf.name.clone());
                self.add_pod(pod, Some(name.clone()));
            }
        }
        for (index, process) in self.processes.iter_mut().enumerate() {
            if index != owner {
                process.running_group(&tree, self.now);
            }
        }
        let gang = Gang {
            owner,
            tree,
            paused: false,
            started: false,
            lowered: false,
            may_have_started: false,
            below: None,
            raised: false,
            evicting: false,
            goes: false,
        };
        self.gangs.insert(name, gang);
    }

    /// Something that was decided happens.
    fn carry(&mut self) {
        let (flights, leaving) = (self.flights.len(), self.leaving.len());
        if flights > 0 && (leaving == 0 || !self.random.one_in(3)) {
            let at = self.random.below(flights);
            self.carry_flight(at, false);
        } else if leaving > 0 {
            let at = self.random.below(leaving);
            self.carry_leaving(at);
        } else {
            self.evictions();
        }
    }

    fn evictions(&mut self) {
        let asks = self.asks.clone();
        let going = self.pods.iter().filter(|(_, pod)| pod.deleting && pod.node.is_some());
        let going: Vec<String> = going.map(|(name, _)| name.clone()).collect();
        if !going.is_empty() && self.random.one_in(3) {
            let pod = self.random.pick(&going).unwrap();
            self.terminated(&pod);
        } else if let Some(ask) = self.random.pick(&asks) {
            self.carry_ask(&ask);
        } else {
            let stranded = self.stranded();
            if let Some(pod) = self.random.pick(&stranded) {
                let how = self.any_leave();
                self.leave(&pod, how);
            }
        }
    }

    fn pass_time(&mut self) {
        let now = self.now;
        self.now = match self.random.below(12) {
            0 => now.after(Duration::from_secs(self.random.below(600) as u64)),
            1 if self.random.one_in(4) => now.after(Duration::from_secs(5_000)),
            2..=4 => {
                let wakes =
                    self.processes.iter().filter_map(super::drive::Process::next_wake).min();
                wakes.unwrap_or(now).max(now)
            }
            _ => now.after(Duration::from_millis(100 + self.random.below(8_000) as u64)),
        };
        if self.random.one_in(2) {
            for process in &mut self.processes {
                process.time(self.now);
            }
        }
        self.tell(|| "time passes".into());
    }

    /// A group is paused or resumed, or changes.
    fn group_event(&mut self) {
        let Some(name) = self.any_gang() else { return };
        let now = self.now;
        let owner = self.gangs[&name].owner;
        match self.random.below(6) {
            0 => {
                self.tell(|| format!("{name} is paused"));
                self.gangs.get_mut(&name).unwrap().paused = true;
                self.processes[owner].pause(&name, now);
                return;
            }
            1 | 2 => {
                self.tell(|| format!("{name} is resumed"));
                self.gangs.get_mut(&name).unwrap().paused = false;
                self.processes[owner].resume(&name, now);
                return;
            }
            3 => {
                let raise = self.random.one_in(2);
                let gang = self.gangs.get_mut(&name).unwrap();
                let mut all = leaves(&mut gang.tree);
                let policy = &mut all[0].policy;
                let phalanx::model::GroupPolicy::Gang { min_count } = policy else {
                    return;
                };
                *min_count = if raise { *min_count + 1 } else { (*min_count - 1).max(1) };
                gang.raised |= raise && gang.started && gang.below.is_none();
            }
            4 => {
                let priority = self.random.below(6) as i32;
                let gang = self.gangs.get_mut(&name).unwrap();
                gang.lowered |= priority < gang.tree.priority;
                gang.tree.priority = priority;
            }
            _ => {
                let queues = self.queue_names();
                let Some(queue) = self.random.pick(&queues) else { return };
                self.gangs.get_mut(&name).unwrap().tree.queue = queue;
                self.quota_changed = now;
            }
        }
        let tree = self.gangs[&name].tree.clone();
        self.tell(|| format!("{name} changes: {}", describe(&tree)));
        for (index, process) in self.processes.iter_mut().enumerate() {
            if index == owner {
                process.group(&tree, now);
            } else {
                process.running_group(&tree, now);
            }
        }
    }

    /// A pod is deleted, finishes, or is bound from outside.
    fn pod_event(&mut self) {
        let names: Vec<String> = self.pods.keys().cloned().collect();
        let Some(name) = self.random.pick(&names) else { return };
        let pod = self.pods[&name].clone();
        match self.random.below(6) {
            0 => self.leave(&name, Leave::Gone),
            1 => {
                if pod.node.is_some() {
                    let how = self.kept_leave();
                    self.leave(&name, how);
                }
            }
            2 | 3 => {
                let (true, Some(root)) = (pod.node.is_some(), &pod.root) else { return };
                self.finish(&name, &root.clone());
            }
            4 => {
                // A pod of somebody terminates for reasons of its own.
                if pod.node.is_some() && self.random.one_in(2) && !pod.deleting {
                    self.terminate(&name);
                }
            }
            _ => {
                let is_pending = pod.node.is_none()
                    && !pod.finished
                    && !self.is_in_flight(&name)
                    && !self.is_leaving(&name);
                let has_plan = |root: &String| {
                    let gang = &self.gangs[root];
                    let is_drained =
                        self.queues.get(&gang.tree.queue).is_some_and(|queue| !queue.there);
                    is_drained || self.held.contains_key(&(gang.owner, root.clone()))
                };
                if !is_pending || !self.random.one_in(3) || pod.root.as_ref().is_some_and(has_plan)
                {
                    return;
                }
                let room: Vec<String> =
                    self.nodes.keys().filter(|node| self.has_room(node, &pod)).cloned().collect();
                if let Some(node) = self.random.pick(&room) {
                    self.tell(|| format!("{name} is bound to {node} from outside"));
                    self.put_on(&name, &node, false);
                    self.nodes.get_mut(&node).unwrap().changed = self.now;
                    self.quota_changed = self.now;
                }
            }
        }
    }

    fn finish(&mut self, name: &str, root: &str) {
        self.tell(|| format!("{name} finishes"));
        let (now, owner) = (self.now, self.gangs[root].owner);
        let state = self.pods.get_mut(name).unwrap();
        (state.finished, state.node, state.deleting) = (true, None, false);
        self.forget(name);
        self.note_begun(name);
        for (index, process) in self.processes.iter_mut().enumerate() {
            if index == owner {
                process.finished(name, now);
            } else {
                process.deleted(name, now);
            }
        }
        for ask in &mut self.asks {
            ask.pods.remove(name);
        }
        self.asks.retain(|ask| !ask.pods.is_empty());
    }

    /// A node is lost, comes back, is cordoned or resized.
    fn node_event(&mut self) {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        let name = self.random.pick(&names).unwrap();
        let now = self.now;
        let dice = self.random.below(8);
        let used = self.used(&name, "gpu", &std::collections::BTreeSet::new());
        let state = self.nodes.get_mut(&name).unwrap();
        state.changed = now;
        if state.there {
            match dice {
                0 | 1 => {
                    state.there = false;
                    self.tell(|| format!("{name} is lost"));
                    for process in &mut self.processes {
                        process.node_removed(&name, now);
                    }
                    // What was being bound there has failed.
                    let open = self.flights.iter().flat_map(|own| own.open.iter().chain(&own.lost));
                    let open: Vec<String> =
                        open.filter(|(_, to)| **to == name).map(|(pod, _)| pod.clone()).collect();
                    for pod in open {
                        self.fall_out(&pod);
                    }
                    let pods = &self.pods;
                    self.asks.retain(|ask| !ask.has_moved(pods));
                    // What was to go from there has gone; it may come back with the node.
                    let on_it = |pod: &String| self.pods[pod].node.as_ref() == Some(&name);
                    let gone: Vec<String> =
                        self.pods.keys().filter(|pod| on_it(pod)).cloned().collect();
                    for ask in &mut self.asks {
                        if !ask.to.is_empty() {
                            let left = ask.pods.iter().filter(|pod| on_it(pod));
                            self.moved.extend(left.filter_map(|pod| self.pods[pod].root.clone()));
                        }
                        ask.pods.retain(|pod| !on_it(pod));
                        // A unit moves no more without the node of its place.
                        if ask.to.values().any(|to| *to == name) {
                            ask.to.clear();
                        }
                    }
                    self.asks.retain(|ask| !ask.pods.is_empty());
                    for pod in gone {
                        self.note_begun(&pod);
                    }
                    return;
                }
                2 | 3 => state.cordoned = !state.cordoned,
                4 => state.gpus = (state.gpus - 1).max(0),
                _ => state.gpus = (state.gpus + 1).min(6),
            }
        }
        state.there = true;
        state.level = state.gpus.max(used);
        let node = setup::node(&name, state);
        let state = state.clone();
        self.tell(|| format!("{name} changes: {state:?}"));
        for process in &mut self.processes {
            process.node(&node, now);
        }
    }

    fn budget_event(&mut self) {
        let colour = COLOURS[self.random.below(2)];
        let now = self.now;
        if self.random.one_in(4) {
            self.budgets.remove(colour);
            self.tell(|| format!("budget {colour} is removed"));
            for process in &mut self.processes {
                process.budget_removed(colour, now);
            }
            return;
        }
        let allowed = self.random.below(3) as i64;
        let disrupted = self.budgets.get(colour).map(|own| own.disrupted.clone());
        let state = BudgetState { allowed, disrupted: disrupted.unwrap_or_default() };
        self.tell(|| format!("budget {colour}: {state:?}"));
        self.budgets.insert(colour.to_owned(), state);
        self.tell_budget(colour);
    }

    fn queue_event(&mut self) {
        let names: Vec<String> = self.queues.keys().cloned().collect();
        let Some(name) = self.random.pick(&names) else { return };
        let now = self.now;
        self.quota_changed = now;
        let is_removed = self.random.one_in(5);
        let mut state = self.queues[&name].clone();
        if state.leaf && state.there && is_removed {
            state.there = false;
            self.tell(|| format!("queue {name} is removed"));
            for process in &mut self.processes {
                process.queue_removed(&name, true, now);
            }
            self.queues.insert(name, state);
            return;
        }
        let (nominal, [limit, borrowing, lending]) = setup::quota(&mut self.random, state.leaf);
        (state.nominal, state.there) = (nominal, true);
        if state.parent.is_some() {
            state.limit = limit.map(|limit| if state.leaf { limit } else { limit + 8 });
            (state.borrowing, state.lending) = (borrowing, lending);
        }
        self.tell(|| format!("queue {name}: {state:?}"));
        for process in &mut self.processes {
            process.queue(&setup::queue(&name, &state), now);
        }
        self.queues.insert(name, state);
    }

    fn permit_event(&mut self) {
        let held: Vec<(usize, String)> = self.held.keys().cloned().collect();
        let Some((owner, group)) = self.random.pick(&held) else { return self.carry() };
        let admit = !self.random.one_in(3);
        self.tell(|| format!("permit of {group}: {admit}"));
        let _ = self.processes[owner].permit(&group, admit, self.now);
        if !admit {
            self.held.remove(&(owner, group));
        }
    }

    fn late_member(&mut self) {
        let Some(root) = self.any_gang() else { return };
        let number = self.next;
        self.next += 1;
        let dice = self.random.below(2);
        let pod = setup::pod(&mut self.random);
        let gang = self.gangs.get_mut(&root).unwrap();
        let all = leaves(&mut gang.tree);
        let at = dice % all.len();
        let leaf = all[at].name.clone();
        let owner = gang.owner;
        let of_leaf = |own: &&super::world::PodState| own.spec.group.as_ref() == Some(&leaf);
        let like = self.pods.values().find(of_leaf).map(|own| own.spec.clone());
        if self.pods.values().filter(of_leaf).count() >= 6 {
            return;
        }
        let mut pod = like.filter(|_| !self.random.one_in(3)).unwrap_or(pod);
        pod.name = format!("{leaf}-l{number}");
        pod.group = Some(leaf);
        self.tell(|| format!("+ {} {:?}", pod.name, pod.shape().requests));
        self.processes[owner].pod(&pod, self.now);
        self.add_pod(pod, Some(root));
    }

    /// A pod of nobody's comes or goes.
    fn stranger(&mut self) {
        let foreign = self.pods.iter().filter(|(_, pod)| pod.root.is_none());
        let foreign: Vec<String> = foreign.map(|(name, _)| name.clone()).collect();
        if foreign.len() > 3 || self.random.one_in(2) {
            if let Some(pod) = self.random.pick(&foreign) {
                self.leave(&pod, Leave::Gone);
            }
            return;
        }
        let name = format!("f{}", self.next);
        self.next += 1;
        let pod = setup::pod(&mut self.random).name(&name);
        self.add_pod(pod, None);
        let state = self.pods[&name].clone();
        let room: Vec<String> =
            self.nodes.keys().filter(|node| self.has_room(node, &state)).cloned().collect();
        let Some(node) = self.random.pick(&room) else {
            self.pods.remove(&name);
            return;
        };
        self.tell(|| format!("{name} comes to {node}"));
        self.put_on(&name, &node, false);
        self.nodes.get_mut(&node).unwrap().changed = self.now;
    }

    fn remove_group(&mut self) {
        let Some(name) = self.any_gang() else { return };
        self.tell(|| format!("- {name}"));
        let now = self.now;
        let gang = self.gangs[&name].clone();
        for (index, process) in self.processes.iter_mut().enumerate() {
            if index == gang.owner {
                process.group_removed(&name, now);
            } else {
                process.running_group_removed(&name, now);
            }
        }
        self.held.remove(&(gang.owner, name.clone()));
        self.claims.remove(&(gang.owner, name.clone()));
        let pods: Vec<String> = self.members(&name).map(|(pod, _)| pod.clone()).collect();
        for pod in &pods {
            let state = self.pods.get_mut(pod).unwrap();
            (state.root, state.charged) = (None, Some((gang.owner, gang.tree.queue.clone())));
        }
        self.gangs.remove(&name);
        // What is taken back for it is decided before its pods go.
        self.poll();
        for pod in pods {
            self.leave(&pod, Leave::Gone);
        }
    }
}

fn describe(tree: &phalanx::PodGroup) -> String {
    let mut text = format!(
        "priority {} queue {:?} {:?} {:?} keep {} with {:?} min {:?} run {:?} never {} {:?} {:?}",
        tree.priority,
        tree.queue,
        tree.policy,
        tree.disruption,
        tree.keep_running,
        tree.gang_group,
        tree.min_run_time,
        tree.run_time_estimate,
        tree.non_preemptible,
        tree.attributes,
        tree.topology.require,
    );
    let mut tree = tree.clone();
    for leaf in leaves(&mut tree) {
        let pods: Vec<String> = leaf
            .pods
            .iter()
            .map(|pod| {
                format!("{}{:?}", pod.shape().requests.of("gpu"), pod.shape().labels.get("colour"))
            })
            .collect();
        text.extend([format!(" [{} {:?} {pods:?}]", leaf.name, leaf.policy)]);
    }
    text
}

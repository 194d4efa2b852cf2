//! Two schedulers over one cluster: each plans on a snapshot of its own, and a store that orders
//! the commits tells who came first.
//!
//! The store stands for what the embedder has: an API server over etcd, a database. It keeps the
//! one true cluster and a log of what changed. A proposal is a plan; the store takes it whole if
//! every filter still holds where it goes, or refuses it whole. A loser hears of what it had not
//! known, and its gang is tried again whole.
//!
//! Run it with `cargo run --features full --example optimistic_sharing`.

#[path = "common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::process::ExitCode;

use common::cli::{Finish, Program, say};
use phalanx::queue::{GroupState, Settings};
use phalanx::reference::is_sound;
use phalanx::{
    Cluster, CommitError, Decision, Event, Framework, Node, Plan, Pod, PodGroup, Scheduler, Time,
};

/// The store: the truth, and every change of it in order.
struct Store {
    cluster: Cluster,
    framework: Framework,
    log: Vec<Event>,
    /// Requests, by full name.
    gangs: BTreeMap<String, PodGroup>,
}

impl Store {
    /// Takes a plan whole, or says what stands against it.
    fn commit(&mut self, plan: &Plan) -> Result<(), CommitError> {
        let before = self.cluster.clone();
        self.cluster.commit(&self.framework, plan)?;
        is_sound(plan, &self.gangs[&*plan.group()], &before, &self.framework)
            .expect("what commit takes keeps every promise");
        for assignment in plan.assignments() {
            let mut pod = assignment.pod().clone().on(assignment.node());
            pod.device_indexes = assignment.devices().to_vec();
            self.log.push(Event::PodChanged { pod, version: self.log.len() as u64 + 1 });
        }
        Ok(())
    }
}

/// A process: its scheduler, and how far it has read the log.
struct Process {
    name: &'static str,
    scheduler: Scheduler,
    read: usize,
    won: usize,
    lost: usize,
}

impl Process {
    fn new(name: &'static str, salt: u64, store: &Store) -> Process {
        let mut settings = Settings::default();
        // Different salts keep processes from meeting on the same nodes where it does not matter.
        settings.salt = salt;
        let cluster = store.cluster.clone();
        let scheduler = Scheduler::new(cluster, store.framework.clone(), settings);
        Process { name, scheduler, read: store.log.len(), won: 0, lost: 0 }
    }

    /// Hears of what others have committed. What it committed itself confirms its bindings.
    fn catch_up(&mut self, store: &Store, now: Time) {
        for event in &store.log[self.read..] {
            self.scheduler.handle_event(event.clone(), now).expect("the log is sound");
        }
        self.read = store.log.len();
    }

    /// Proposes a plan and takes the answer in.
    fn propose(&mut self, store: &mut Store, decision: Decision, now: Time) {
        let Decision::Bind { ticket, plan, groups } = decision else { return };
        match store.commit(&plan) {
            Ok(()) => {
                self.won += 1;
                say!("  {} binds {} ({} pods)", self.name, groups.join(", "), plan.len());
                self.catch_up(store, now);
            }
            Err(conflict) => {
                self.lost += 1;
                say!("  {} loses {}: {conflict}", self.name, groups.join(", "));
                self.catch_up(store, now);
                let reason = conflict.to_string();
                self.scheduler.handle_conflict(ticket, &reason, now).expect("it is on its way");
            }
        }
    }
}

const PROGRAM: Program = Program {
    usage: "\
Two schedulers over one cluster: each plans on a snapshot of its own, and a store orders the
commits. Shows each proposal, and what became of it.

Usage: optimistic_sharing
",
    options: &[],
    flags: &[],
};

fn main() -> ExitCode {
    PROGRAM.main(|_| Ok(share()))
}

fn share() -> Finish {
    let gpu = "nvidia.com/gpu";
    let mut cluster = Cluster::new();
    for index in 0..8 {
        let node = Node::new(format!("n{index}")).capacity(gpu, 8);
        cluster.add_node(node).expect("names are different");
    }
    let mut store =
        Store { cluster, framework: Framework::default(), log: Vec::new(), gangs: BTreeMap::new() };
    let mut processes = vec![Process::new("east", 1, &store), Process::new("west", 2, &store)];

    // Twelve gangs of 3 to 8 pods, dealt out in turns: 62 GPUs of 64.
    let sizes = [8, 3, 6, 4, 7, 5, 3, 6, 4, 5, 8, 3];
    let mut owners = BTreeMap::new();
    for (index, size) in sizes.into_iter().enumerate() {
        let name = format!("job-{index:02}");
        let gang = PodGroup::gang(&name, size).pods(size as usize, Pod::new().request(gpu, 1));
        owners.insert(gang.full_name(), index % 2);
        store.gangs.insert(gang.full_name().into(), gang.clone());
        processes[index % 2].scheduler.handle_group(gang, Time::ZERO).expect("it is sound");
    }

    for round in 1..=40 {
        let now = Time::from_secs(round);
        say!("t = {round} s");
        // Both decide on what they know before either hears of the other.
        let decisions: Vec<_> =
            processes.iter_mut().map(|process| process.scheduler.poll_decision(now)).collect();
        if decisions.iter().all(Option::is_none) {
            break;
        }
        for (process, decision) in processes.iter_mut().zip(decisions) {
            if let Some(decision) = decision {
                process.propose(&mut store, decision, now);
            }
        }
        for process in &mut processes {
            process.catch_up(&store, now);
        }
    }

    let node_over = store
        .cluster
        .nodes()
        .find(|node| store.cluster.resource(gpu).is_some_and(|gpu| node.free(gpu) < 0));
    assert!(node_over.is_none(), "no commit takes what is not there");
    let running = owners
        .iter()
        .filter(|(group, owner)| {
            processes[**owner].scheduler.state(group) == Some(GroupState::Running)
        })
        .count();
    for process in &processes {
        say!("{}: {} commits won, {} lost", process.name, process.won, process.lost);
    }
    say!("{running} of {} gangs run, {} pods", owners.len(), store.cluster.pod_count());
    assert_eq!(store.cluster.pod_count(), sizes.iter().sum::<u32>() as usize);
    assert_eq!(running, owners.len());
    Finish::default()
}

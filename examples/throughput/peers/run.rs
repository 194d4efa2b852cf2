//! A run of a workload: all pods go through the queue of a scheduler, and each is bound at once.

use std::time::{Duration, Instant};

use phalanx::model::{AttachLimits, Volume, VolumeClaim};
use phalanx::queue::{Gone, PreemptionSettings, Settings};
use phalanx::state::Assignment;
use phalanx::{Cluster, Decision, Event, Framework, Node, PodGroup, QueueError, Scheduler, Time};

use super::objects::{self, RACK};
use super::workloads::{Churn, Workload};
use crate::scene::ZONE;

/// The figures of a run.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) nodes: usize,
    pub(super) pods: usize,
    pub(super) bound: usize,
    pub(super) took: Duration,
}

impl Run {
    pub(super) fn pods_per_s(&self) -> f64 {
        self.bound as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

struct Driver {
    scheduler: Scheduler,
    now: Time,
    bound: Vec<(String, String)>,
}

impl Driver {
    /// Carries decisions out until there are none: pods are bound, and victims deleted, at once.
    fn settle(&mut self) -> Result<(), QueueError> {
        while let Some(decision) = self.scheduler.poll_decision(self.now) {
            match decision {
                Decision::Bind { ticket, plan, .. } => {
                    let pods = plan.assignments().map(Assignment::pod);
                    self.bound.extend(pods.map(|pod| (pod.namespace().into(), pod.name.clone())));
                    self.scheduler.handle_bound(ticket, self.now)?;
                }
                Decision::Prepare { ticket, .. } => {
                    self.scheduler.handle_prepared(ticket, Ok(()), self.now)?;
                }
                Decision::Evict { victims, .. } => {
                    for pod in victims.iter().flat_map(|victim| &victim.pods) {
                        let gone = Gone::deleted(&pod.namespace, &pod.name);
                        self.scheduler.handle_gone(gone, self.now)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn submit(&mut self, groups: Vec<PodGroup>) -> Result<(), QueueError> {
        groups.into_iter().try_for_each(|group| self.scheduler.handle_group(group, self.now))
    }
}

/// Runs one part in `divide` of a workload.
pub(super) fn run(own: &Workload, divide: usize, alike: bool) -> Result<Run, QueueError> {
    let measured = own.measured.part(divide);
    // Gangs that need whole nodes find as many.
    let least = if own.preempts { measured.pods.min(own.nodes) } else { 1 };
    let nodes = own.nodes.div_ceil(divide).max(least);
    let mut cluster = cluster(own, nodes)?;
    let before: Vec<_> = own.before.iter().flatten().map(|batch| batch.part(divide)).collect();
    let mut groups = measured.groups("measured", alike);
    let mut earlier: Vec<PodGroup> = Vec::new();
    for (number, batch) in before.iter().enumerate() {
        earlier.extend(batch.groups(&format!("before-{number}"), alike));
    }
    if own.volumes {
        groups.iter_mut().chain(&mut earlier).for_each(|group| give_volumes(&mut cluster, group));
    }
    let settings = Settings::new();
    let settings =
        if own.preempts { settings.preemption(PreemptionSettings::new()) } else { settings };
    let scheduler = Scheduler::new(cluster, Framework::kubernetes(), settings);
    let mut driver = Driver { scheduler, now: Time::from_secs(1), bound: Vec::new() };
    driver.submit(earlier)?;
    let gate = |number: usize| {
        let pod = objects::default_pod(number).scheduling_gate("later");
        PodGroup::of(format!("gated-{number}"), 1, pod)
    };
    driver.submit((0..own.gated / divide).map(gate).collect())?;
    driver.settle()?;
    let mut leaving = std::mem::take(&mut driver.bound).into_iter();
    // So many pods make a second at the threshold.
    let second = own.threshold.unwrap_or(1_000) as usize;
    let (lot, each) = match own.churn {
        Churn::None => (usize::MAX, 0),
        Churn::Recreate => (second, 1),
        Churn::Huge(each) | Churn::High(each) | Churn::Delete(each) => (second, each),
    };
    let mut groups = groups.into_iter();
    let mut round = 0;
    let begin = Instant::now();
    loop {
        let now: Vec<PodGroup> = groups.by_ref().take(lot).collect();
        if now.is_empty() {
            break;
        }
        driver.submit(now)?;
        churn(&mut driver, own.churn, (round, each), &mut leaving)?;
        driver.settle()?;
        driver.now = Time::from_secs(driver.now.as_secs() + 1);
        round += 1;
    }
    let took = begin.elapsed();
    let bound = driver.bound.iter().filter(|(_, name)| name.starts_with("measured")).count();
    Ok(Run { nodes, pods: measured.pods, bound, took })
}

fn cluster(own: &Workload, nodes: usize) -> Result<Cluster, QueueError> {
    let mut cluster = Cluster::builder().levels([ZONE, RACK]).build()?;
    for index in 0..nodes {
        let node = (own.node)(index);
        let name = node.name.clone();
        cluster.add_node(node)?;
        if own.volumes {
            cluster.set_storage(AttachLimits::new(name).limit("ebs.csi.aws.com", 39))?;
        }
    }
    Ok(cluster)
}

/// A volume, and a claim that is bound to it, for each pod.
fn give_volumes(cluster: &mut Cluster, group: &mut PodGroup) {
    for pod in &mut group.pods {
        let name = format!("{}-data", pod.name);
        let volume = Volume::new(&*name, 1 << 30).driver("ebs.csi.aws.com", &*name);
        let claim = VolumeClaim::new(pod.namespace(), &*name).bound_to(&*name);
        // Names differ and amounts are sound.
        let _ = cluster.set_storage(volume);
        let _ = cluster.set_storage(claim);
        *pod = pod.clone().volume_claim(name);
    }
}

/// The events of one second.
fn churn(
    driver: &mut Driver,
    kind: Churn,
    (round, each): (usize, usize),
    leaving: &mut impl Iterator<Item = (String, String)>,
) -> Result<(), QueueError> {
    let now = driver.now;
    let one = |name: String, pod| PodGroup::of(name, 1, pod);
    match kind {
        Churn::None => {}
        Churn::Recreate if round % 2 == 0 => {
            let node = Node::new("churned").capacity("pods", 0);
            driver.scheduler.handle_event(Event::NodeChanged { node, version: 0 }, now)?;
            let huge = one(format!("huge-{round}"), objects::huge(round));
            driver.scheduler.handle_group(huge, now)?;
        }
        Churn::Recreate => {
            let gone = Event::NodeRemoved { name: "churned".into(), version: 0 };
            driver.scheduler.handle_event(gone, now)?;
            driver.scheduler.handle_group_removed(&format!("default/huge-{}", round - 1), now)?;
        }
        Churn::Huge(_) => {
            let own = |at: usize| one(format!("huge-{round}-{at}"), objects::huge(at));
            driver.submit((0..each).map(own).collect())?;
        }
        Churn::High(_) => {
            let own = |at: usize| one(format!("high-{round}-{at}"), objects::high(at));
            driver.submit((0..each).map(own).collect())?;
        }
        Churn::Delete(_) => {
            for (namespace, name) in leaving.take(each) {
                driver.scheduler.handle_gone(Gone::deleted(&namespace, &name), now)?;
            }
        }
    }
    Ok(())
}

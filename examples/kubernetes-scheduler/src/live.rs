//! Queues that are followed: objects of the API server and the file of the configuration, as changes of the
//! scheduler's tenants.

use std::collections::BTreeMap;

use phalanx::kubernetes::Value;
use phalanx::kubernetes::queues::LocalQueues;
use phalanx::model::Amounts;
use phalanx::quota::{Flavor, Queue, QueueKind};
use phalanx::{Cluster, Scheduler, Time};

use crate::config::{Dialect, File};
use crate::profile::{self, Queues};
use crate::reservations;

/// The resources of a dialect: paths in the API server.
pub fn resources(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Kueue | Dialect::Default => &[
            "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
            "/apis/kueue.x-k8s.io/v1beta2/cohorts",
            "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
            "/apis/kueue.x-k8s.io/v1beta2/localqueues",
        ],
        Dialect::Kai => &["/apis/scheduling.run.ai/v2/queues"],
        Dialect::Koordinator => {
            &["/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas", reservations::RESOURCE]
        }
        Dialect::VolcanoProportion | Dialect::VolcanoCapacity | Dialect::VolcanoDrf => {
            &["/apis/scheduling.volcano.sh/v1beta1/queues"]
        }
        // Its queues are a file.
        Dialect::Yunikorn => &[],
    }
}

/// The kind of a queue, and its name.
type Key = (bool, String);

/// Queues as they were last told to the scheduler, and the objects that they follow from.
#[derive(Default)]
pub struct Live {
    file: File,
    /// Objects by resource; a resource that is not listed yet has none.
    objects: BTreeMap<&'static str, Option<Vec<Value>>>,
    queues: BTreeMap<Key, Queue>,
    flavors: BTreeMap<String, Flavor>,
    local: Option<LocalQueues>,
}

impl Live {
    /// The queues of a file, as the scheduler begins with them.
    pub fn new(file: File, queues: Option<&Queues>) -> Live {
        let mut live = Live::default();
        if file.queues.watch {
            let resources = resources(file.queues.dialect).iter();
            live.objects = resources.map(|resource| (*resource, None)).collect();
        }
        live.file = file;
        if let Some(queues) = queues {
            live.keep(queues);
        }
        live
    }

    /// Whether every resource that is followed has been listed.
    pub fn is_listed(&self) -> bool {
        self.objects.values().all(Option::is_some)
    }

    /// The rule that finds the queue of a group.
    pub fn local(&self) -> Option<&LocalQueues> {
        self.local.as_ref()
    }

    /// Sets all objects of a resource.
    pub fn set(&mut self, resource: &'static str, objects: Vec<Value>) {
        self.objects.insert(resource, Some(objects));
    }

    /// Sets the file.
    pub fn set_file(&mut self, file: File) {
        self.file = file;
    }

    fn keep(&mut self, queues: &Queues) {
        let specs = queues.specs().into_iter();
        self.queues = specs.map(|queue| (key(&queue), queue)).collect();
        let flavors = queues.flavors.iter();
        self.flavors = flavors.map(|flavor| (flavor.name.clone(), flavor.clone())).collect();
        self.local.clone_from(&queues.local);
    }

    /// Tells the scheduler what is new, changed and gone; returns the rule that finds queues.
    ///
    /// # Errors
    /// The queues make no sense. If the scheduler refuses a single one, those before it are told.
    pub fn follow(
        &mut self,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> Result<Option<LocalQueues>, String> {
        if scheduler.tenants().is_none() {
            return Ok(None);
        }
        let queues = self.objects.iter().filter(|(of, _)| **of != reservations::RESOURCE);
        let live: Vec<Value> = queues.flat_map(|(_, own)| own.iter().flatten()).cloned().collect();
        let total = total(scheduler.cluster());
        let Some(queues) = profile::tenants(&self.file, &live, &total)? else { return Ok(None) };
        let told = |error: &dyn std::fmt::Display| error.to_string();
        for flavor in &queues.flavors {
            if self.flavors.get(&flavor.name) != Some(flavor) {
                scheduler.handle_flavor(flavor.clone(), now).map_err(|error| told(&error))?;
            }
        }
        let specs = queues.specs();
        for queue in &specs {
            if self.queues.get(&key(queue)) != Some(queue) {
                scheduler.handle_queue(queue.clone(), now).map_err(|error| told(&error))?;
            }
        }
        let kept: BTreeMap<Key, ()> = specs.iter().map(|queue| (key(queue), ())).collect();
        // Leaves go before the queues that they are in.
        for ((is_inner, name), _) in self.queues.iter().filter(|(key, _)| !kept.contains_key(*key))
        {
            let kind = if *is_inner { QueueKind::Inner } else { QueueKind::Leaf };
            scheduler.handle_queue_removed(kind, name, now).map_err(|error| told(&error))?;
        }
        for name in self.flavors.keys() {
            if !queues.flavors.iter().any(|flavor| flavor.name == *name) {
                scheduler.handle_flavor_removed(name, now).map_err(|error| told(&error))?;
            }
        }
        self.keep(&queues);
        Ok(queues.local)
    }
}

fn key(queue: &Queue) -> Key {
    (queue.kind == QueueKind::Inner, queue.name.clone())
}

/// The amounts that all nodes have. O(nodes · resources).
fn total(cluster: &Cluster) -> Amounts {
    let mut total = Amounts::default();
    for id in cluster.resources() {
        let sum = cluster.nodes().fold(0_i64, |sum, node| sum.saturating_add(node.allocatable(id)));
        total.set(cluster.resource_name(id), sum);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Parts;

    const FILE: &str = "
queues:
  objects:
  - {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}
  - apiVersion: kueue.x-k8s.io/v1beta2
    kind: ClusterQueue
    metadata: {name: vision}
    spec:
      namespaceSelector: {}
      resourceGroups:
      - coveredResources: [cpu]
        flavors: [{name: any, resources: [{name: cpu, nominalQuota: 64}]}]
";

    fn nominal(scheduler: &Scheduler) -> Option<i64> {
        let status = scheduler.queue_status("vision")?;
        status.report.resources.first().map(|own| own.sums.nominal)
    }

    #[test]
    fn queues_change_and_go_while_the_scheduler_runs() {
        let read = |text: &str| File::read(text).expect("it is sound");
        let file = read(FILE);
        let queues = profile::tenants(&file, &[], &Amounts::default()).expect("they are sound");
        let queues = queues.expect("there are some");
        let mut live = Live::new(file.clone(), Some(&queues));
        let parts = Parts::new(&file, 0).expect("they are sound");
        let mut scheduler = parts.scheduler(Some(queues.tenants)).expect("there are no levels");
        assert_eq!(nominal(&scheduler), Some(64_000));

        live.set_file(read(&FILE.replace("64", "32")));
        live.follow(&mut scheduler, Time::ZERO).expect("they are sound");
        assert_eq!(nominal(&scheduler), Some(32_000));

        // One that makes no sense changes nothing.
        live.set_file(read(&FILE.replace("nominalQuota: 64", "nominalQuota: -1")));
        assert!(live.follow(&mut scheduler, Time::ZERO).is_err());
        assert_eq!(nominal(&scheduler), Some(32_000));

        let other = FILE.replace("name: vision", "name: speech");
        live.set_file(read(&other));
        live.follow(&mut scheduler, Time::ZERO).expect("they are sound");
        assert_eq!(nominal(&scheduler), None);
        assert!(scheduler.queue_status("speech").is_some());
    }
}

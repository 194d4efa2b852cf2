//! Tenants: queues with quota, of which one may borrow from the other.

use std::time::Duration;

use crate::scenario::{Cluster, SOON, scenario};
use crate::support::ledger::Book;
use crate::support::objects::Gang;
use crate::support::program::Program;

/// Two queues of 64 CPUs each; `vision` may borrow half of what `speech` has. The nodes have more
/// than both.
fn configuration(namespace: &str) -> String {
    let queue = |name: &str, limit: &str| {
        format!(
            "
  - apiVersion: kueue.x-k8s.io/v1beta2
    kind: ClusterQueue
    metadata: {{name: {name}}}
    spec:
      cohortName: labs
      namespaceSelector: {{}}
      resourceGroups:
      - coveredResources: [cpu, memory]
        flavors:
        - name: any
          resources:
          - {{name: cpu, nominalQuota: 64{limit}}}
          - {{name: memory, nominalQuota: 1Ti}}
  - apiVersion: kueue.x-k8s.io/v1beta2
    kind: LocalQueue
    metadata: {{name: {name}, namespace: {namespace}}}
    spec: {{clusterQueue: {name}}}"
        )
    };
    format!(
        "timeouts: {{belowMinimum: 40s, binding: 30s}}
queues:
  objects:
  - apiVersion: kueue.x-k8s.io/v1beta2
    kind: ResourceFlavor
    metadata: {{name: any}}
    spec: {{}}{}{}
",
        queue("vision", ", borrowingLimit: 32"),
        queue("speech", "")
    )
}

fn start(cluster: &Cluster<'_>) -> Program {
    let configuration = configuration(cluster.namespace);
    cluster.scheduler_with(&cluster.plane.kubeconfig("scheduler"), &configuration, &[])
}

/// A gang of 32 CPUs.
fn gang<'a>(name: &'a str, queue: &'a str) -> Gang<'a> {
    Gang { name, cpu: 8, queue: Some(queue), ..Gang::default() }
}

/// Waits until a gang is said to wait for quota, and returns how.
async fn refused(cluster: &Cluster<'_>, gang: &str) -> String {
    let group = format!("{}/{gang}", cluster.groups());
    let (reason, message) = cluster.until_condition(&group, "PodGroupScheduled", "False").await;
    assert_eq!(reason, "Unschedulable");
    assert!(message.contains("quota"), "{message}");
    assert_eq!(cluster.bound_of(gang), 0);
    message
}

#[test]
fn a_queue_borrows_up_to_its_limit_and_another_keeps_the_rest() {
    scenario("tenants", async |cluster| {
        cluster.add_nodes(8, 4).await;
        let scheduler = start(cluster);
        let vision = ["vision-0", "vision-1", "vision-2"].map(|name| gang(name, "vision"));
        for (bound, gang) in vision.iter().enumerate() {
            cluster.add_gangs(&[*gang]).await;
            cluster.until_bound(4 * (bound + 1)).await;
        }
        // 64 CPUs of its own and 32 of the other's are in use.
        let fourth = gang("vision-3", "vision");
        cluster.add_gangs(&[fourth]).await;
        let message = refused(cluster, "vision-3").await;
        assert!(message.contains("vision") && message.contains("32000m"), "{message}");

        // What is in use is known from the API server alone.
        scheduler.kill();
        let _scheduler = start(cluster);
        cluster.add_gangs(&[gang("speech-0", "speech")]).await;
        cluster.until_bound(16).await;
        cluster.add_gangs(&[gang("speech-1", "speech")]).await;
        let message = refused(cluster, "speech-1").await;
        assert!(message.contains("speech"), "{message}");
        assert_eq!(cluster.bound_of("vision-3"), 0);

        // What becomes free goes to the queue that does not borrow, though the other has waited
        // longer.
        for n in 0..4 {
            cluster.delete_pod(&vision[0].pod_name(n)).await;
        }
        let taken = |book: &Book| book.bound_of(cluster.namespace, "speech-1") == 4;
        assert!(cluster.ledger.within(SOON, taken).await, "the queue does not get its own");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let gangs = [gang("speech-1", "speech"), fourth];
        assert_eq!(cluster.check(&gangs).await, [4, 0]);
    });
}

#[test]
fn a_gang_without_a_queue_is_left_alone_and_says_so() {
    scenario("no-queue", async |cluster| {
        cluster.add_nodes(8, 4).await;
        let _scheduler = start(cluster);
        let lost = Gang { name: "lost", ..gang("lost", "nowhere") };
        let without = Gang { name: "without", queue: None, ..lost };
        cluster.add_gangs(&[lost, without, gang("taken", "vision")]).await;
        cluster.until_bound(4).await;
        assert_eq!(cluster.bound_of("taken"), 4);
        for (gang, word) in [(lost, "nowhere"), (without, "queue-name")] {
            let pod = format!("{}/{}", cluster.pods(), gang.pod_name(0));
            let (_, message) = cluster.until_condition(&pod, "PodScheduled", "False").await;
            assert!(message.contains(word), "{message}");
        }
    });
}

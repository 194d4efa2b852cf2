//! Gangs that are more important than those that fill the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::scenario::{Cluster, SOON, condition, note, scenario};
use crate::support::ledger::Book;
use crate::support::objects::Gang;
use crate::support::program::Program;

/// Configuration of the scheduler. A gang that a restart has left half evicted goes as one below
/// its minimum if nothing else takes it.
const CONFIGURATION: &str = "\
preemption: {timeout: 2m, start: 30s, grace: 60s}
timeouts: {belowMinimum: 10s, binding: 30s, firstBackoff: 200ms}
bindings: {retryFor: 5s}
";

/// Four gangs that go whole and fill eight nodes.
const LOW: [&str; 4] = ["low-0", "low-1", "low-2", "low-3"];

fn low(name: &'static str) -> Gang<'static> {
    Gang { name, cpu: 16, whole: true, ..Gang::default() }
}

fn high() -> Gang<'static> {
    Gang { name: "high", cpu: 16, class: Some("high"), ..Gang::default() }
}

fn start(cluster: &Cluster<'_>) -> Program {
    cluster.scheduler_with(&cluster.plane.kubeconfig("scheduler"), CONFIGURATION, &[])
}

/// A disruption budget of one gang's pods that allows so many disruptions.
async fn protect(cluster: &Cluster<'_>, gang: &str, allowed: u64) {
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", cluster.namespace);
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": gang},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"gang": gang}}},
    });
    cluster.api.create(&path, &budget).await;
    // What the controller of budgets does, where one runs.
    let status = json!({"status": {
        "disruptionsAllowed": allowed, "currentHealthy": 4, "desiredHealthy": 4,
        "expectedPods": 4, "observedGeneration": 1,
    }});
    cluster.api.patch(&format!("{path}/{gang}/status"), &status).await;
}

/// A full cluster, of which the first two gangs are protected.
async fn fill(cluster: &Cluster<'_>) {
    cluster.add_nodes(8, 4).await;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000,
    });
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    protect(cluster, LOW[0], 0).await;
    protect(cluster, LOW[1], 3).await;
    cluster.add_gangs(&LOW.map(low)).await;
    cluster.until_bound(16).await;
}

/// How many bound pods of each low gang have gone or are to go.
fn victims(cluster: &Cluster<'_>, book: &Book) -> BTreeMap<String, usize> {
    let mut victims = BTreeMap::new();
    for pod in book.pods.values() {
        let group = pod.group.as_deref().filter(|group| LOW.contains(group));
        if let (Some(group), true) = (group, pod.key.0 == cluster.namespace)
            && pod.bound.is_some()
            && (pod.gone || pod.terminating)
        {
            *victims.entry(group.to_owned()).or_default() += 1;
        }
    }
    victims
}

/// One unprotected gang has gone whole, and nothing else.
fn check_victims(cluster: &Cluster<'_>) {
    let victims = victims(cluster, &cluster.ledger.book());
    let gone: Vec<(&str, usize)> =
        victims.iter().map(|(gang, pods)| (gang.as_str(), *pods)).collect();
    let [(gang, pods)] = gone[..] else { panic!("one gang goes: {gone:?}") };
    assert_eq!(pods, 4, "{gang} goes whole");
    assert!(LOW[2..].contains(&gang), "{gang} is protected by its budget");
}

/// Runs the controllers until the more important gang is bound, and so long beyond.
async fn replace(cluster: &Cluster<'_>, beyond: Duration) {
    let bound = |book: &Book| book.bound_of(cluster.namespace, "high") == 4;
    tokio::select! {
        _ = cluster.run_controllers() => {},
        () = async {
            assert!(cluster.ledger.within(SOON, bound).await, "the gang is not bound");
            tokio::time::sleep(beyond).await;
        } => {},
    }
}

#[test]
fn a_more_important_gang_takes_the_place_of_a_whole_one() {
    scenario("preemption", async |cluster| {
        let _scheduler = start(cluster);
        fill(cluster).await;
        cluster.add_gangs(&[high()]).await;
        // Without a kubelet the victims stay, terminating: nothing is bound on top of them.
        let all_asked = |book: &Book| victims(cluster, book).values().sum::<usize>() >= 4;
        assert!(cluster.ledger.within(SOON, all_asked).await, "no gang is preempted");
        tokio::time::sleep(Duration::from_secs(2)).await;
        check_victims(cluster);
        assert_eq!(cluster.bound_of("high"), 0, "the victims are still there");
        let pods = cluster.api.list(&cluster.pods()).await;
        let mut nominated = BTreeSet::new();
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            if pod["metadata"]["deletionTimestamp"].is_string() {
                let target = condition(pod, "DisruptionTarget");
                let reason = target.map(|target| &target["reason"]);
                assert_eq!(reason, Some(&"PreemptionByScheduler".into()), "{name}");
            }
            if name.starts_with("high") {
                let node = pod["status"]["nominatedNodeName"].as_str();
                nominated.insert(node.unwrap_or_else(|| panic!("{name} is not nominated")));
            }
        }
        assert_eq!(nominated.len(), 2, "{nominated:?}");

        // They end, and their controllers make them anew: those wait.
        replace(cluster, Duration::from_secs(3)).await;
        check_victims(cluster);
        cluster.check(&[high()]).await;
        let group = format!("{}/high", cluster.groups());
        cluster.until_condition(&group, "PodGroupScheduled", "True").await;
    });
}

#[test]
fn a_restart_in_the_middle_of_a_preemption_takes_nothing_more() {
    scenario("preemption-restart", async |cluster| {
        let scheduler = start(cluster);
        fill(cluster).await;
        cluster.add_gangs(&[high()]).await;
        let begun = |book: &Book| !victims(cluster, book).is_empty();
        assert!(cluster.ledger.within(SOON, begun).await, "no gang is preempted");
        scheduler.kill();
        let asked = victims(cluster, &cluster.ledger.book());
        note(&format!("killed when victims were {asked:?}"));
        let _scheduler = start(cluster);
        // Longer than a gang may stay below its minimum.
        replace(cluster, Duration::from_secs(12)).await;
        check_victims(cluster);
        cluster.check(&[high()]).await;
        let half: Vec<usize> = LOW.iter().map(|gang| cluster.bound_of(gang)).collect();
        assert!(half.iter().all(|&bound| bound == 0 || bound == 4), "{half:?}");
    });
}

#[test]
fn without_a_configuration_nothing_is_preempted() {
    scenario("no-preemption", async |cluster| {
        let _scheduler = cluster.scheduler();
        fill(cluster).await;
        cluster.add_gangs(&[high()]).await;
        let group = format!("{}/high", cluster.groups());
        let (_, message) = cluster.until_condition(&group, "PodGroupScheduled", "False").await;
        assert!(!message.is_empty());
        let none: BTreeMap<String, usize> = BTreeMap::new();
        assert_eq!(victims(cluster, &cluster.ledger.book()), none);
        let pods: Vec<Value> = cluster.api.list(&cluster.pods()).await;
        assert!(pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null()));
    });
}

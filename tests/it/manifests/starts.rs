//! Since when a pod runs, as watches tell it, and what preemption makes of that.

use phalanx::kubernetes::watch::{Store, WatchEvent};
use phalanx::queue::{PreemptionSettings, Settings};
use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
use serde_json::{Value, json};

/// Passes an event on. Returns how many updates it is.
fn send(
    store: &mut Store,
    scheduler: &mut Scheduler,
    now: u64,
    (word, object): (&str, &Value),
) -> usize {
    let line = json!({"type": word, "object": object}).to_string();
    let event: WatchEvent = serde_json::from_str(&line).unwrap();
    let updates = store.apply(event).unwrap();
    let count = updates.len();
    for update in updates {
        update.pass_to(scheduler, Time::from_secs(now)).unwrap();
    }
    count
}

fn pod(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "resourceVersion": version.to_string()},
        "spec": {"schedulerName": "phalanx", "nodeName": "n",
                 "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}})
}

#[test]
fn the_pod_that_has_run_for_less_time_is_taken() {
    let settings = Settings::new().preemption(PreemptionSettings::new());
    let mut scheduler = Scheduler::new(Cluster::new(), Framework::default(), settings);
    let mut store = Store::new("phalanx");
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "resourceVersion": "1"},
        "status": {"allocatable": {"cpu": "8", "pods": "110"},
                   "conditions": [{"type": "Ready", "status": "True"}]}});
    send(&mut store, &mut scheduler, 1, ("ADDED", &node));
    let start = |scheduler: &Scheduler, name| scheduler.cluster().pod("default", name)?.start();
    let days = [("old", "2026-01-01T00:00:00Z"), ("young", "2026-01-02T00:00:00Z")];
    for (number, (name, time)) in days.into_iter().enumerate() {
        let version = 10 * (number as u64 + 1);
        send(&mut store, &mut scheduler, 1, ("ADDED", &pod(name, version)));
        assert_eq!(start(&scheduler, name), Some(Time::from_secs(1)), "since it was first seen");
        let mut runs = pod(name, version + 1);
        runs["status"] = json!({"phase": "Running", "startTime": time});
        assert_eq!(send(&mut store, &mut scheduler, 1, ("MODIFIED", &runs)), 1);
        runs["metadata"]["resourceVersion"] = (version + 2).to_string().into();
        assert_eq!(send(&mut store, &mut scheduler, 1, ("MODIFIED", &runs)), 0);
    }
    assert_eq!(start(&scheduler, "young"), Some(Time::from_secs(1_767_312_000)));

    let now = 1_767_398_400;
    let mut important = pod("important", 30);
    important["spec"]["nodeName"] = Value::Null;
    important["spec"]["priority"] = 10.into();
    send(&mut store, &mut scheduler, now, ("ADDED", &important));
    let Some(Decision::Evict { victims, .. }) = scheduler.poll_decision(Time::from_secs(now))
    else {
        panic!("one of them has to go");
    };
    assert_eq!((victims.len(), victims[0].name.as_str()), (1, "default/young"));
    assert_eq!(victims[0].work_lost, 24 * 3_600_000);
}

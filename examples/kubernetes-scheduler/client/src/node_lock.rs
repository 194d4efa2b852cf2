//! The lock of a node that HAMi's plugin asks for.
//!
//! Kubelet does not tell a plugin for which pod it allocates. HAMi's takes the pod of its node that is being
//! bound, so one pod at a time may be: the scheduler locks the node before it binds, and the plugin takes the lock
//! away once it has served the pod.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Api;
use crate::bind::Placement;
use crate::log;

const LOCK: &str = "hami.io/mutex.lock";
/// A lock that nobody has taken away for so long is void.
const LIFE: Duration = Duration::from_secs(300);
/// How often a lock of another pod is looked at.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether the plugin of the pod's node asks for the lock.
pub(crate) fn is_wanted(pod: &Placement) -> bool {
    pod.annotations.contains_key("hami.io/bind-phase")
}

fn path(pod: &Placement) -> String {
    format!("/api/v1/nodes/{}", pod.node)
}

/// The end of the text of a lock, which names its pod.
fn owner(pod: &Placement) -> String {
    format!(",{},{}", pod.namespace, pod.name)
}

/// The version of a node, and its lock.
async fn read(api: &Api, pod: &Placement) -> Result<(Value, Option<String>), String> {
    let answer = api.get(&path(pod)).await?;
    if answer.status != 200 {
        return Err(answer.message());
    }
    let node: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    let metadata = &node["metadata"];
    let lock = metadata["annotations"][LOCK].as_str().map(str::to_owned);
    Ok((metadata["resourceVersion"].clone(), lock))
}

/// Writes the lock of a node, if it still has the version. Returns the reason for which that failed.
async fn write(api: &Api, pod: &Placement, version: &Value, lock: Value) -> Option<String> {
    let body = json!({"metadata": {"resourceVersion": version, "annotations": {LOCK: lock}}});
    match api.merge(&path(pod), &body).await {
        Ok(answer) if answer.status < 300 => None,
        Ok(answer) => Some(answer.message()),
        Err(error) => Some(error),
    }
}

/// Locks the node for a pod. A lock of another pod is waited for, as long as it may last.
///
/// # Errors
/// The server does not answer or refuses, until after `patience`.
pub(crate) async fn take(api: &Api, pod: &Placement, patience: Duration) -> Result<(), String> {
    let own = owner(pod);
    let mut deadline = Instant::now() + patience;
    let mut seen: Option<(String, Instant)> = None;
    loop {
        let failure = match read(api, pod).await {
            Ok((_, Some(lock))) if lock.ends_with(&own) => return Ok(()),
            Ok((version, lock)) => {
                let since = match (&lock, &seen) {
                    (Some(lock), Some((known, since))) if lock == known => *since,
                    _ => Instant::now(),
                };
                let is_void = lock.is_none() || since.elapsed() >= LIFE;
                seen = lock.map(|lock| (lock, since));
                if is_void {
                    let lock = format!("{}{own}", log::seconds());
                    match write(api, pod, &version, lock.into()).await {
                        None => return Ok(()),
                        Some(failure) => failure,
                    }
                } else {
                    // The time of others is not taken off that of this pod.
                    deadline = Instant::now() + patience;
                    format!("node {} is locked for another pod", pod.node)
                }
            }
            Err(error) => error,
        };
        if Instant::now() >= deadline {
            return Err(failure);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes the lock of a pod away that is not bound.
pub(crate) async fn release(api: &Api, pod: &Placement) {
    for _ in 0..3 {
        match read(api, pod).await {
            Ok((version, Some(lock))) if lock.ends_with(&owner(pod)) => {
                if write(api, pod, &version, Value::Null).await.is_none() {
                    return;
                }
            }
            Ok(_) => return,
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

//! KAI's binder: it binds pods with fractions of cards, which are no resource of a node.
//!
//! The scheduler writes a `BindRequest`; the binder makes the pod that reserves the card, tells the container
//! its part, and binds the pod. The request is taken back if that fails or takes too long.

use std::time::{Duration, Instant};

use phalanx::kubernetes::CardFraction;
use serde_json::{Value, json};

use crate::api::Api;
use crate::bind::{Outcome, Placement, Whereabouts, read_back};

/// How often a pod is looked at that the binder is to bind.
const PAUSE: Duration = Duration::from_millis(200);

/// Asks the binder for a pod, and waits until it is bound.
pub(crate) async fn ask(
    api: &Api,
    pod: &Placement,
    fraction: &CardFraction,
    deadline: Instant,
) -> Outcome {
    let all = format!("/apis/scheduling.run.ai/v1alpha2/namespaces/{}/bindrequests", pod.namespace);
    let own = format!("{all}/{}", pod.name);
    let body = request(pod, fraction);
    let mut is_made = false;
    let reason = loop {
        let failure = if is_made {
            match api.get(&own).await {
                Ok(answer) if answer.status == 200 => match failed(&answer.body) {
                    Some(reason) => break reason,
                    None => "KAI's binder has not bound it".to_owned(),
                },
                // The binder takes a request away that it has carried out.
                Ok(_) => "KAI's binder has dropped the request".to_owned(),
                Err(error) => error,
            }
        } else {
            match api.post(&all, &body).await {
                Ok(answer) if answer.status < 300 => {
                    is_made = true;
                    continue;
                }
                // One of an earlier plan for the pod.
                Ok(answer) if answer.status == 409 => {
                    let message = answer.message();
                    api.delete(&own, &json!({})).await.err().unwrap_or(message)
                }
                Ok(answer) if answer.status == 404 => {
                    break "parts of cards need KAI's binder, which is not served".to_owned();
                }
                Ok(answer) if (400..429).contains(&answer.status) => break answer.message(),
                Ok(answer) => answer.message(),
                Err(error) => error,
            }
        };
        match read_back(api, pod).await {
            Some(Whereabouts::Bound) => return Outcome::Bound,
            Some(Whereabouts::Gone | Whereabouts::Elsewhere) => return Outcome::Watched,
            None if Instant::now() >= deadline => break failure,
            None => tokio::time::sleep(PAUSE).await,
        }
    };
    // It may have been carried out meanwhile.
    let _ = api.delete(&own, &json!({})).await;
    match read_back(api, pod).await {
        Some(Whereabouts::Bound) => Outcome::Bound,
        Some(_) => Outcome::Watched,
        None => Outcome::Failed(reason),
    }
}

/// The request, which goes with its pod.
fn request(pod: &Placement, fraction: &CardFraction) -> Value {
    json!({
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {
            "name": pod.name, "namespace": pod.namespace, "labels": {"selected-node": pod.node},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid},
            ],
        },
        "spec": {
            "podName": pod.name, "selectedNode": pod.node, "receivedResourceType": "Fraction",
            "selectedGPUGroups": fraction.groups,
            "receivedGPU": {"count": fraction.count, "portion": fraction.portion},
        },
    })
}

/// The reason for which the binder has given a request up.
fn failed(body: &[u8]) -> Option<String> {
    let stored: Value = serde_json::from_slice(body).ok()?;
    let status = &stored["status"];
    (status["phase"] == "Failed").then(|| {
        let reason = status["reason"].as_str().unwrap_or("no reason is given");
        format!("KAI's binder: {reason}")
    })
}

//! Faults of a bare client that binds what it likes: what the inspector must find.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::faults::{NODES, RACK};
use crate::load::{CLASS, SCHEDULER};
use crate::support::api::Api;
use crate::support::objects::{self, Gang, NODE_CPU};

/// Namespace of what is planted.
const NAMESPACE: &str = "planted";

/// The name of a scheduler that does not run: its pods are bound here.
const NOBODY: &str = "nobody";

/// Names of the rules that are broken.
pub const RULES: [&str; 5] = ["apart", "capacity", "minimum", "never whole", "unbound"];

/// Breaks each rule, and mends what can be mended when the deadline of gangs is over.
pub async fn plant(api: &Api, deadline: Duration) {
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    api.create("/api/v1/namespaces", &namespace).await;
    let (node, other) = used_nodes(api).await;
    // A pod of a whole node beside others.
    let mut large = objects::pod("large", NODE_CPU, NOBODY);
    large["spec"]["priorityClassName"] = CLASS.into();
    api.create(&objects::pods(NAMESPACE), &large).await;
    bind(api, "large", &node).await;
    // One pod of four.
    let half = Gang { name: "half", cpu: 0, class: Some(CLASS), ..Gang::default() };
    // Two that must share a rack, in two.
    let apart = Gang { name: "apart", pods: 2, one_rack: true, ..half };
    // One that nobody binds.
    let never = Gang { name: "never", pods: 2, ..half };
    for gang in [half, apart, never] {
        api.create(&objects::groups(NAMESPACE), &gang.group()).await;
        api.create_all(&objects::pods(NAMESPACE), &gang.all_pods(NOBODY)).await;
    }
    bind(api, "half-0", &node).await;
    bind(api, "apart-0", &node).await;
    bind(api, "apart-1", &other).await;
    // The server is away for some of this time, and it does not count then.
    tokio::time::sleep(deadline + Duration::from_secs(60)).await;
    let pods = ["large", "half-0", "half-1", "half-2", "half-3", "apart-0", "apart-1"];
    for pod in pods {
        api.delete(&format!("{}/{pod}", objects::pods(NAMESPACE))).await;
    }
    // A pod that fits nowhere waits to the end.
    let mut lost = objects::pod("lost", 1, SCHEDULER);
    lost["spec"]["nodeSelector"] = json!({"example.com/row": "none"});
    api.create(&objects::pods(NAMESPACE), &lost).await;
    for group in ["half", "apart"] {
        let path = format!("{}/{group}", objects::groups(NAMESPACE));
        api.patch(&path, &json!({"metadata": {"finalizers": null}})).await;
        api.delete(&path).await;
    }
}

/// Two nodes with pods on them, the first of two racks: those never fail.
async fn used_nodes(api: &Api) -> (String, String) {
    loop {
        let pods = api.list("/api/v1/pods").await;
        let used: BTreeSet<&str> =
            pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        let mut found = objects::nodes(NODES, RACK).into_iter().step_by(RACK).filter_map(|node| {
            let name = node["metadata"]["name"].as_str()?;
            used.contains(name).then(|| name.to_owned())
        });
        if let (Some(first), Some(second)) = (found.next(), found.next()) {
            return (first, second);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn bind(api: &Api, pod: &str, node: &str) {
    let (path, body) = objects::binding(NAMESPACE, &json!({"name": pod}), node);
    api.create(&path, &body).await;
}

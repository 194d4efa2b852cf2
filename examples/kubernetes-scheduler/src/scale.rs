//! Nodes that would start groups, by templates of a file; and answers to ProvisioningRequests of
//! cluster-autoscaler's API.
//!
//! | the pods of a request | conditions |
//! |---|---|
//! | fit as it is | `Accepted`, `Provisioned` |
//! | would fit with nodes of the templates | `Accepted`, `Provisioned=False`; the nodes stand in `provisioningClassDetails` |
//! | fit on no nodes of the templates | `Accepted`, `Failed` |
//!
//! Nobody here buys nodes. Whoever does reads the details; once the nodes are there, the request is answered
//! anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpOutcome, ScaleUpRequest};
use phalanx::kubernetes::{self, Mode};
use phalanx::{Framework, PodGroup, Scheduler};
use phalanx_kubernetes_client::log;
use phalanx_kubernetes_client::status::{Note, condition};
use phalanx_kubernetes_client::watch::ObjectRef;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::ask::{Copy, read};
use crate::config::{Autoscaling, File};

/// The resources that requests are made of.
pub const RESOURCES: [&str; 2] =
    ["/apis/autoscaling.x-k8s.io/v1/provisioningrequests", "/api/v1/podtemplates"];

/// The time after which requests that wait for nodes are looked at again.
const AGAIN: Duration = Duration::from_secs(5);
/// The most pods of a request.
const PODS: u64 = 10_000;

/// A template, as the file has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Template {
    /// The manifest of a node.
    node: kubernetes::Value,
    price: u64,
    /// The most blocks.
    limit: Option<u32>,
    /// Nodes of a block.
    block: Option<u32>,
    /// Labels with a value of its own for each block.
    #[serde(default)]
    own_domains: Vec<String>,
    /// A label, and the values of it among which a block goes.
    among: Option<(String, Vec<String>)>,
}

/// The templates of a file.
///
/// # Errors
/// One sentence that names the file.
pub fn templates(path: &Path) -> Result<Vec<NodeTemplate>, String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
    let all: Vec<Template> = serde_saphyr::from_str(&text).map_err(|error| fault(&error))?;
    let mut templates = Vec::new();
    for own in all {
        let node = kubernetes::node(&own.node, Mode::AsWritten).map_err(|error| fault(&error))?;
        let mut template = NodeTemplate::new(node, own.price);
        template.limit = own.limit;
        template.nodes = own.block.unwrap_or(1);
        template.own_domains = own.own_domains;
        template.among = own.among;
        templates.push(template);
    }
    if templates.is_empty() {
        return Err(fault(&"there are no templates"));
    }
    Ok(templates)
}

/// Nodes that would start groups beside all that runs: counts by template, the price, and whether none
/// costs less; or why there are none.
pub fn nodes_for(
    scheduler: &Scheduler,
    framework: &Framework,
    templates: &[NodeTemplate],
    groups: &[PodGroup],
) -> Result<Value, String> {
    let request = ScaleUpRequest::new(groups).templates(templates.iter().cloned());
    let outcome = Autoscaler::new().scale_up(scheduler.cluster(), framework, request);
    Ok(match outcome.map_err(|error| error.to_string())? {
        ScaleUpOutcome::Start(answer) => {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for block in &answer.blocks {
                *counts.entry(block.template.as_str()).or_default() += block.nodes.len();
            }
            json!({
                "nodes": counts, "price": answer.price, "isCheapest": answer.is_cheapest(),
            })
        }
        ScaleUpOutcome::Impossible { .. } => json!({"impossible": true}),
        _ => json!({"exhausted": true}),
    })
}

/// Requests that are followed, and what was said of them.
#[derive(Default)]
pub struct Provisioning {
    settings: Option<Arc<Settings>>,
    objects: BTreeMap<&'static str, Vec<Value>>,
    looked: Option<Instant>,
    /// The last status of each request, by uid.
    said: Arc<Mutex<BTreeMap<String, Value>>>,
}

struct Settings {
    class: String,
    templates: Vec<NodeTemplate>,
}

impl Provisioning {
    /// Requests and templates as a file says.
    ///
    /// # Errors
    /// The templates cannot be read.
    pub fn new(file: &File) -> Result<Provisioning, String> {
        let settings = match &file.autoscaling {
            Some(Autoscaling { templates: path, provisioning_class }) => Some(Arc::new(Settings {
                class: provisioning_class.clone(),
                templates: templates(path)?,
            })),
            None => None,
        };
        Ok(Provisioning { settings, ..Provisioning::default() })
    }

    /// The templates; none without autoscaling.
    pub fn templates(&self) -> Vec<NodeTemplate> {
        self.settings.as_ref().map_or_else(Vec::new, |settings| settings.templates.clone())
    }

    /// Sets all objects of a resource.
    pub fn set(&mut self, resource: &'static str, objects: Vec<Value>) {
        self.objects.insert(resource, objects);
        self.looked = None;
    }

    /// Whether there are requests to be looked at now.
    pub fn is_due(&self) -> bool {
        let is_late = self.looked.is_none_or(|at| at.elapsed() >= AGAIN);
        is_late && self.objects.len() == RESOURCES.len() && self.open().next().is_some()
    }

    /// Requests of the class that have no end yet.
    fn open(&self) -> impl Iterator<Item = &Value> {
        let class = self.settings.as_ref().map(|settings| settings.class.as_str());
        let requests = self.objects.get(RESOURCES[0]).into_iter().flatten();
        requests.filter(move |request| {
            class.is_some_and(|class| request["spec"]["provisioningClassName"] == class)
                && !has(request, "Provisioned", "True")
                && !has(request, "Failed", "True")
        })
    }

    /// Answers what is due, on a thread of its own.
    pub fn answer(&mut self, copy: Copy, notes: UnboundedSender<Note>) {
        self.looked = Some(Instant::now());
        let Some(settings) = self.settings.clone() else { return };
        let requests: Vec<Value> = self.open().cloned().collect();
        let templates = self.objects.get(RESOURCES[1]).cloned().unwrap_or_default();
        let said = Arc::clone(&self.said);
        let thread = std::thread::Builder::new().name("provision".to_owned());
        let spawned = thread.spawn(move || {
            let scheduler = copy.scheduler();
            for request in &requests {
                let end = groups(request, &templates).and_then(|groups| {
                    nodes_for(&scheduler, &copy.parts.framework, &settings.templates, &groups)
                });
                let status = status(request, end);
                let text =
                    |name: &str| request["metadata"][name].as_str().unwrap_or_default().to_owned();
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                if said.get(&text("uid")) == Some(&status) {
                    continue;
                }
                said.insert(text("uid"), status.clone());
                let request = ObjectRef::new(text("namespace"), text("name"), text("uid"));
                let path = format!(
                    "/apis/autoscaling.x-k8s.io/v1/namespaces/{}/provisioningrequests/{}/status",
                    request.namespace, request.name
                );
                let status = dated(status);
                let _ = notes.send(Note::Status { path, object: request, status });
            }
        });
        if let Err(error) = spawned {
            log!(warn, "provisioning requests are not answered", reason = error);
        }
    }
}

/// Whether an object has a condition of some status.
fn has(object: &Value, name: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|own| own["type"] == name && own["status"] == status)
}

/// The pods of a request as one gang.
fn groups(request: &Value, templates: &[Value]) -> Result<Vec<PodGroup>, String> {
    let namespace = &request["metadata"]["namespace"];
    let name = request["metadata"]["name"].as_str().unwrap_or_default();
    let mut pods = Vec::new();
    for set in request["spec"]["podSets"].as_array().into_iter().flatten() {
        let wanted = &set["podTemplateRef"]["name"];
        let template = templates.iter().find(|own| {
            own["metadata"]["name"] == *wanted && own["metadata"]["namespace"] == *namespace
        });
        let template = template.ok_or_else(|| format!("there is no pod template {wanted}"))?;
        let count = set["count"].as_u64().unwrap_or(0);
        if count.saturating_add(pods.len() as u64) > PODS {
            return Err(format!("it has more than {PODS} pods"));
        }
        for _ in 0..count {
            let mut spec = template["template"]["spec"].clone();
            spec["schedulingGroup"] = json!({"podGroupName": name});
            let mut metadata = json!({
                "name": format!("{name}-{}", pods.len()), "namespace": namespace,
            });
            metadata["labels"] = template["template"]["metadata"]["labels"].clone();
            pods.push(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
            }));
        }
    }
    if pods.is_empty() {
        return Err("it has no pods".to_owned());
    }
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": pods.len()}}},
    });
    pods.push(group);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    read(&list.to_string()).map(|read| read.groups)
}

/// The status of a request: its own conditions without their times, and the details.
fn status(request: &Value, end: Result<Value, String>) -> Value {
    let of = |kind: &str, state: &str, reason: &str, message: &str| json!({"type": kind, "status": state, "reason": reason, "message": message});
    let accepted = of("Accepted", "True", "Accepted", "");
    let failed = |message: &str| of("Failed", "True", "CapacityIsNotFound", message);
    let (last, details) = match end {
        Err(reason) => (failed(&reason), json!({})),
        Ok(answer) if answer["impossible"] == true => {
            (failed("no nodes of the templates start it"), json!({}))
        }
        Ok(answer) if answer["exhausted"] == true => {
            let message = "the search ended before nodes were found";
            (of("Provisioned", "False", "SearchExhausted", message), json!({}))
        }
        Ok(answer) => {
            let counts = answer["nodes"].as_object().cloned().unwrap_or_default();
            if counts.is_empty() {
                (of("Provisioned", "True", "CapacityIsFound", "it fits as it is"), json!({}))
            } else {
                let counts: Vec<String> =
                    counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
                let nodes = counts.join(",");
                let message = format!("it would start with these nodes: {nodes}");
                let condition = of("Provisioned", "False", "NodesAreNeeded", &message);
                let price = answer["price"].to_string();
                (condition, json!({"phalanx.dev/nodes": nodes, "phalanx.dev/price": price}))
            }
        }
    };
    let own = [accepted, last];
    let others = request["status"]["conditions"].as_array().into_iter().flatten();
    let others = others.filter(|other| !own.iter().any(|own| own["type"] == other["type"]));
    let mut conditions: Vec<Value> = others.cloned().collect();
    conditions.extend(own.iter().cloned());
    json!({"conditions": conditions, "provisioningClassDetails": details})
}

/// The same with the time of its new conditions.
fn dated(mut status: Value) -> Value {
    for own in status["conditions"].as_array_mut().into_iter().flatten() {
        if own.get("lastTransitionTime").is_none() {
            let text = |name: &str| own[name].as_str().unwrap_or_default().to_owned();
            *own = condition(&text("type"), &text("status"), &text("reason"), &text("message"));
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Parts;

    fn request(count: u32, cpu: &str) -> (Value, Vec<Value>) {
        let request = json!({
            "metadata": {"name": "r", "namespace": "ml", "uid": "u"},
            "spec": {"podSets": [{"podTemplateRef": {"name": "t"}, "count": count}]},
        });
        let template = json!({
            "metadata": {"name": "t", "namespace": "ml"},
            "template": {"spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu}}},
            ]}},
        });
        (request, vec![template])
    }

    const TEMPLATES: &str = "
- price: 3
  limit: 4
  node:
    apiVersion: v1
    kind: Node
    metadata: {name: large}
    status: {allocatable: {cpu: 8, pods: 110}}
";

    #[test]
    fn a_request_is_told_what_it_needs() {
        let path = std::env::temp_dir().join(format!("templates-{}.yaml", std::process::id()));
        std::fs::write(&path, TEMPLATES).expect("a file can be written");
        let templates = templates(&path).expect("they are sound");
        std::fs::remove_file(&path).expect("it was written");
        let parts = Parts::new(&File::default(), 0).expect("they are sound");
        let scheduler = parts.scheduler(None).expect("there are no levels");
        let said = |count: u32, cpu: &str| {
            let (request, pods) = request(count, cpu);
            let end = groups(&request, &pods)
                .and_then(|groups| nodes_for(&scheduler, &parts.framework, &templates, &groups));
            status(&request, end)
        };
        let two = said(3, "4");
        assert_eq!(two["provisioningClassDetails"]["phalanx.dev/nodes"], "large=2");
        assert_eq!(two["provisioningClassDetails"]["phalanx.dev/price"], "6");
        assert!(has(&json!({"status": two}), "Provisioned", "False"));
        assert!(has(&json!({"status": said(1, "9")}), "Failed", "True"), "no node is as large");
        assert!(has(&json!({"status": said(9, "8")}), "Failed", "True"), "the limit is four");
        assert!(has(&json!({"status": said(0, "8")}), "Failed", "True"), "it has no pods");
    }
}

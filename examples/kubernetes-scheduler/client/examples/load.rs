//! Nodes, pods and groups for a control plane without kubelets, with many requests in flight, and a bare
//! client that only binds.
//!
//! ```text
//! load KUBECONFIG nodes --count N [--rack SIZE]
//! load KUBECONFIG pods  --count N [--gang SIZE] [--in-rack] [--scheduler NAME] [--prefix NAME]
//! load KUBECONFIG bind  [--scheduler NAME]
//! load KUBECONFIG clear
//! ```
//!
//! `nodes` makes ready nodes of 32 CPUs, 256 GiB and 8 GPUs; `pods` asks for a CPU each. `bind` binds the pods
//! of a scheduler's name to the nodes in turn and looks at nothing: the rate is what the server allows.
//! `clear` deletes all nodes, and all pods and groups of the namespace `default`.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use phalanx::kubernetes::watch::SchedulingResource;
use phalanx_kubernetes_client::api::{Answer, Api};
use phalanx_kubernetes_client::discovery::Discovery;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Requests in flight.
const IN_FLIGHT: usize = 64;
/// The most objects of one call: all of them are in memory.
const MOST: usize = 10_000_000;
/// Tries of a request that the server puts off or loses.
const TRIES: usize = 100;
const RACK: &str = "topology.kubernetes.io/rack";
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

type Failure = Box<dyn std::error::Error>;

struct Arguments {
    count: usize,
    rack: usize,
    gang: usize,
    in_rack: bool,
    scheduler: String,
    prefix: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    match run().await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("load: {failure}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let word = |word: OsString| {
        word.into_string().map_err(|word| format!("{} is not UTF-8", word.display()))
    };
    let words: Vec<String> = std::env::args_os().skip(1).map(word).collect::<Result<_, _>>()?;
    let mut words = words.into_iter();
    let (Some(kubeconfig), Some(command)) = (words.next(), words.next()) else {
        return Err("usage: load KUBECONFIG nodes|pods|bind|clear [ARGUMENTS]".into());
    };
    let own = read(words)?;
    if own.count > MOST {
        return Err(format!("--count: at most {MOST}").into());
    }
    if own.count == 0 && matches!(command.as_str(), "nodes" | "pods") {
        return Err(format!("{command}: --count is missing").into());
    }
    let api = Api::connect(Some(Path::new(&kubeconfig))).await?;
    let begin = Instant::now();
    let count = match command.as_str() {
        "nodes" => {
            let nodes = (0..own.count).map(|n| node(n, own.rack.max(1)));
            send(&api, nodes.map(|node| Call::Create(NODES.into(), node)).collect()).await?
        }
        "pods" => {
            if own.gang > 0 {
                let groups = groups_path(&api).await?;
                let sizes = (0..own.count).step_by(own.gang).map(|n| own.gang.min(own.count - n));
                let gangs = sizes.enumerate().map(|(n, size)| group(&own, n, size));
                send(&api, gangs.map(|group| Call::Create(groups.clone(), group)).collect())
                    .await?;
            }
            let pods = (0..own.count).map(|n| Call::Create(PODS.into(), pod(&own, n)));
            send(&api, pods.collect()).await?
        }
        "bind" => {
            let nodes = list(&api, NODES).await?;
            let pods = list(&api, &format!("{PODS}?fieldSelector=spec.nodeName%3D")).await?;
            let own = |pod: &&Value| pod["spec"]["schedulerName"] == own.scheduler.as_str();
            let pairs = pods.iter().filter(own).zip(nodes.iter().cycle());
            send(&api, pairs.map(|(pod, node)| binding(pod, node)).collect()).await?
        }
        "clear" => {
            let groups = groups_path(&api).await;
            let mut gone = 0;
            // A server without groups has none to delete.
            for path in [PODS].into_iter().chain(groups.as_deref().ok()).chain([NODES]) {
                let all = list(&api, path).await?;
                let path = |own: &Value| format!("{path}/{}", text(&own["metadata"]["name"]));
                let has_finalizer = |own: &&Value| !own["metadata"]["finalizers"].is_null();
                let held = all.iter().filter(has_finalizer).map(path).map(Call::Free);
                send(&api, held.collect()).await?;
                gone += send(&api, all.iter().map(path).map(Call::Delete).collect()).await?;
            }
            gone
        }
        _ => return Err(format!("{command}: no command; nodes, pods, bind and clear are").into()),
    };
    let seconds = begin.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    writeln!(std::io::stdout(), "{count} in {seconds:.1} s, {rate:.0} a second")
        .map_err(|error| format!("standard output: {error}").into())
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, Failure> {
    let mut own = Arguments {
        count: 0,
        rack: 16,
        gang: 0,
        in_rack: false,
        scheduler: "phalanx".into(),
        prefix: "load".into(),
    };
    while let Some(word) = words.next() {
        if word == "--in-rack" {
            own.in_rack = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word}: a value is missing"))?;
        let number = || value.parse().map_err(|_| format!("{word}: {value} is no number"));
        match word.as_str() {
            "--count" => own.count = number()?,
            "--rack" => own.rack = number()?,
            "--gang" => own.gang = number()?,
            "--scheduler" => own.scheduler = value,
            "--prefix" => own.prefix = value,
            _ => return Err(format!("{word}: no argument").into()),
        }
    }
    Ok(own)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Path of the groups of namespace `default`, in the version that the server serves.
async fn groups_path(api: &Api) -> Result<String, Failure> {
    let served = Discovery::default().ask(api).await?;
    let version = served.version(SchedulingResource::PodGroups);
    let version = version.ok_or("the server serves no PodGroup of scheduling.k8s.io")?;
    Ok(format!("/apis/scheduling.k8s.io/{}/namespaces/default/podgroups", version.name()))
}

fn node(n: usize, rack: usize) -> Value {
    let room = json!({"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"});
    let name = format!("node-{n:05}");
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"labels": {"kubernetes.io/hostname": name, RACK: format!("rack-{}", n / rack)},
                     "name": name},
        "status": {"capacity": room, "allocatable": room,
                   "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn group(own: &Arguments, n: usize, size: usize) -> Value {
    let mut group = json!({"kind": "PodGroup",
        "metadata": {"name": format!("{}-{n}", own.prefix)},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}}});
    if own.in_rack {
        group["spec"]["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
    }
    group
}

fn pod(own: &Arguments, n: usize) -> Value {
    let requests = json!({"cpu": "1", "memory": "1Gi"});
    let container = json!({"name": "c", "image": "none", "resources": {"requests": requests}});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{}-{n}", own.prefix)},
        "spec": {"schedulerName": own.scheduler, "containers": [container]}});
    if let Some(gang) = n.checked_div(own.gang) {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": format!("{}-{gang}", own.prefix)});
    }
    pod
}

fn binding(pod: &Value, node: &Value) -> Call {
    let meta = &pod["metadata"];
    let target = json!({"kind": "Node", "name": node["metadata"]["name"]});
    let body = json!({"apiVersion": "v1", "kind": "Binding", "target": target,
        "metadata": {"name": meta["name"], "uid": meta["uid"]}});
    Call::Create(format!("{PODS}/{}/binding", text(&meta["name"])), body)
}

/// A write.
enum Call {
    Create(String, Value),
    Delete(String),
    /// Takes the finalizers off.
    Free(String),
}

impl Call {
    async fn once(&self, api: &Api) -> Result<Answer, String> {
        match self {
            Call::Create(path, body) => api.post(path, body).await,
            Call::Delete(path) => api.delete(path, &json!({"gracePeriodSeconds": 0})).await,
            Call::Free(path) => api.merge(path, &json!({"metadata": {"finalizers": null}})).await,
        }
    }

    /// Whether an answer says that nothing is left to do: an earlier try may have had no answer.
    fn is_done(&self, status: u16) -> bool {
        let is_old = match self {
            Call::Create(..) => status == 409,
            Call::Delete(_) | Call::Free(_) => status == 404,
        };
        is_old || (200..300).contains(&status)
    }

    fn path(&self) -> &str {
        let (Call::Create(path, _) | Call::Delete(path) | Call::Free(path)) = self;
        path
    }

    async fn persist(self, api: Api) -> Result<(), String> {
        let fault = |why: &dyn Display| format!("{}: {why}", self.path());
        for _ in 0..TRIES {
            match self.once(&api).await {
                Ok(answer) if self.is_done(answer.status) => return Ok(()),
                Ok(answer) if answer.status == 429 || answer.status >= 500 => {
                    let pause = answer.retry_after.unwrap_or(Duration::from_millis(100));
                    tokio::time::sleep(pause).await;
                }
                Ok(answer) => return Err(fault(&answer.message())),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        Err(fault(&"the server does not answer"))
    }
}

/// Sends writes, many at a time. Returns how many there were.
async fn send(api: &Api, calls: Vec<Call>) -> Result<usize, Failure> {
    let count = calls.len();
    let mut flying = JoinSet::new();
    for call in calls {
        if flying.len() >= IN_FLIGHT
            && let Some(ended) = flying.join_next().await
        {
            ended??;
        }
        flying.spawn(call.persist(api.clone()));
    }
    while let Some(ended) = flying.join_next().await {
        ended??;
    }
    Ok(count)
}

async fn list(api: &Api, path: &str) -> Result<Vec<Value>, Failure> {
    let answer = api.get(path).await?;
    if answer.status != 200 {
        return Err(format!("{path}: {}", answer.message()).into());
    }
    let mut list: Value = serde_json::from_slice(&answer.body)?;
    match list["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Err(format!("{path}: no list").into()),
    }
}

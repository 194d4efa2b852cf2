//! A stand-in for an API server: discovery, objects, watches and preconditions over HTTP, as the
//! specification has them. It is no API server: it checks no types, and knows no users.
//!
//! Beside it stand a claim controller, which takes the reservations of deleted pods away, and a
//! provisioner, which makes a volume for a claim with a selected node if it is told to, a binder of KAI's,
//! and HAMi's plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wire::{Request, failure, line, merge, read};

/// The resources of every release, by group and version, and which of them are in a namespace.
const RESOURCES: [(&str, &str, &str, bool); 23] = [
    ("v1", "nodes", "Node", false),
    ("v1", "namespaces", "Namespace", false),
    ("v1", "pods", "Pod", true),
    ("v1", "persistentvolumes", "PersistentVolume", false),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
    ("resource.k8s.io/v1", "deviceclasses", "DeviceClass", false),
    ("resource.k8s.io/v1", "resourceslices", "ResourceSlice", false),
    ("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", true),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass", false),
    ("storage.k8s.io/v1", "csinodes", "CSINode", false),
    ("storage.k8s.io/v1", "csidrivers", "CSIDriver", false),
    ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", true),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", false),
    ("events.k8s.io/v1", "events", "Event", true),
    ("coordination.k8s.io/v1", "leases", "Lease", true),
    ("kueue.x-k8s.io/v1beta2", "resourceflavors", "ResourceFlavor", false),
    ("kueue.x-k8s.io/v1beta2", "clusterqueues", "ClusterQueue", false),
    ("kueue.x-k8s.io/v1beta2", "localqueues", "LocalQueue", true),
    ("batch/v1", "jobs", "Job", true),
    ("v1", "podtemplates", "PodTemplate", true),
    ("scheduling.run.ai/v1alpha2", "bindrequests", "BindRequest", true),
    ("topology.node.k8s.io/v1alpha2", "noderesourcetopologies", "NodeResourceTopology", false),
    ("autoscaling.x-k8s.io/v1", "provisioningrequests", "ProvisioningRequest", true),
];

/// The resources of `scheduling.k8s.io` that depend on the release.
pub const RELEASE_1_36: &[(&str, &str)] = &[("v1alpha2", "podgroups"), ("v1alpha2", "workloads")];
pub const RELEASE_1_37: &[(&str, &str)] = &[
    ("v1beta1", "podgroups"),
    ("v1beta1", "workloads"),
    ("v1alpha3", "podgroups"),
    ("v1alpha3", "workloads"),
    ("v1alpha3", "compositepodgroups"),
];

/// Resource, namespace, name.
type Key = (String, String, String);

/// State of the server.
#[derive(Default)]
pub struct State {
    version: u64,
    objects: BTreeMap<Key, Value>,
    /// All changes, in order: version, resource, kind of change, object.
    pub history: Vec<(u64, String, &'static str, Value)>,
    release: Vec<(&'static str, &'static str)>,
    /// Grows when watches are to end.
    epoch: u64,
    /// Violations that must never occur, and did.
    pub broken: Vec<String>,
    /// Whether volumes are made.
    pub provisions: bool,
    /// Bindings that are refused until roles are read.
    pub unread_roles: usize,
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stops: AtomicBool,
    /// The number of writes to claims until then; 0 is never.
    alarm: AtomicUsize,
    rang: AtomicBool,
    /// One of so many writes loses its answer; 0 is never.
    lossy: AtomicUsize,
    /// Whether a watch ends after its first news.
    brief: AtomicBool,
    writes: AtomicUsize,
}

impl Server {
    /// A server on loopback, of a release.
    pub fn start(release: &[(&'static str, &'static str)]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let shared = Arc::new(Shared::default());
        shared.lock().release = release.to_vec();
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.stops.load(Ordering::Relaxed) {
                    return;
                }
                let own = Arc::clone(&own);
                std::thread::spawn(move || drop(own.serve(stream)));
            }
        });
        Server { address, shared }
    }

    /// A kubeconfig that names the server.
    pub fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Adds an object.
    pub fn create(&self, resource: &str, object: Value) {
        let mut state = self.shared.lock();
        let key = state.key_of(resource, &object);
        state.put(&key, object, "ADDED");
        self.shared.changed.notify_all();
    }

    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        let mut state = self.shared.lock();
        state.remove(&(resource.to_owned(), namespace.to_owned(), name.to_owned()));
        self.shared.changed.notify_all();
    }

    /// Serves another release from now on: what only the old one had is gone, and watches end.
    pub fn upgrade(&self, release: &[(&'static str, &'static str)]) {
        let mut state = self.shared.lock();
        state.release = release.to_vec();
        state.objects.retain(|(resource, ..), _| !resource.ends_with("podgroups"));
        state.epoch += 1;
        self.shared.changed.notify_all();
    }

    /// Rings after so many more writes to the status of claims.
    pub fn set_alarm(&self, writes: usize) {
        self.shared.rang.store(false, Ordering::Relaxed);
        self.shared.alarm.store(writes, Ordering::Relaxed);
    }

    pub fn has_rung(&self) -> bool {
        self.shared.rang.load(Ordering::Relaxed)
    }

    /// Loses the answer to one of so many writes.
    pub fn lose_answers(&self, one_of: usize) {
        self.shared.lossy.store(one_of, Ordering::Relaxed);
    }

    /// Ends each watch after its first news, as a server does that cannot keep up.
    pub fn end_watches_early(&self) {
        self.shared.brief.store(true, Ordering::Relaxed);
    }

    /// Waits until a condition holds of the state.
    pub fn until(&self, time: Duration, what: &str, mut met: impl FnMut(&State) -> bool) {
        let deadline = Instant::now() + time;
        let mut state = self.shared.lock();
        while !met(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not within {time:?}: {what}");
            let step = left.min(Duration::from_millis(200));
            state = self.shared.changed.wait_timeout(state, step).expect("a sound lock").0;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        self.shared.lock().epoch += 1;
        self.shared.changed.notify_all();
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    /// The objects of a resource.
    pub fn list<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Value> {
        let own = self.objects.iter().filter(move |((of, ..), _)| of == resource);
        own.map(|(_, object)| object)
    }

    /// An object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(resource.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    fn key_of(&self, resource: &str, object: &Value) -> Key {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        (resource.to_owned(), text("namespace"), text("name"))
    }

    fn put(&mut self, key: &Key, mut object: Value, change: &'static str) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if !object["metadata"]["uid"].is_string() {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        self.objects.insert(key.clone(), object.clone());
        self.history.push((self.version, key.0.clone(), change, object.clone()));
        match key.0.as_str() {
            "resourceclaims" => self.check_devices(),
            "persistentvolumeclaims" => self.provision(key, object),
            "bindrequests" => self.bind_fraction(key, &object),
            "pods" if object["metadata"]["annotations"]["hami.io/bind-phase"] == "allocating" => {
                self.serve_cards(key, object);
            }
            _ => {}
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(mut object) = self.objects.remove(key) else { return };
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let uid = object["metadata"]["uid"].clone();
        self.history.push((self.version, key.0.clone(), "DELETED", object));
        if key.0 == "pods" {
            self.control_claims(&uid);
        }
    }

    /// The claim controller: nobody who is gone has a claim, and a claim that nobody has is free.
    fn control_claims(&mut self, pod: &Value) {
        let claims: Vec<Key> =
            self.objects.keys().filter(|key| key.0 == "resourceclaims").cloned().collect();
        for key in claims {
            let mut claim = self.objects[&key].clone();
            let users = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
            let rest: Vec<Value> = users.iter().filter(|own| own["uid"] != *pod).cloned().collect();
            if rest.len() != users.len() {
                if rest.is_empty() {
                    claim["status"]["allocation"] = Value::Null;
                }
                claim["status"]["reservedFor"] = rest.into();
                self.put(&key, claim, "MODIFIED");
            }
        }
    }

    /// No device may be of two claims.
    fn check_devices(&mut self) {
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        let mut broken = Vec::new();
        for claim in self.list("resourceclaims") {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            let results = claim["status"]["allocation"]["devices"]["results"].as_array();
            for device in results.into_iter().flatten() {
                let device = format!("{}/{}", device["pool"], device["device"]);
                if let Some(other) = owners.insert(device.clone(), name.to_owned()) {
                    broken.push(format!("{device} is of {other} and of {name}"));
                }
            }
        }
        self.broken.extend(broken);
    }

    /// KAI's binder: it binds the pod of a request, and takes the request away.
    fn bind_fraction(&mut self, key: &Key, request: &Value) {
        let pod = ("pods".to_owned(), key.1.clone(), key.2.clone());
        let Some(mut own) = self.objects.get(&pod).cloned() else { return };
        let spec = &request["spec"];
        if spec["receivedResourceType"] != "Fraction" || own["spec"]["nodeName"].is_string() {
            self.broken.push(format!("no request for the binder: {request}"));
        }
        own["spec"]["nodeName"] = spec["selectedNode"].clone();
        own["metadata"]["labels"]["runai-gpu-group"] = spec["selectedGPUGroups"][0].clone();
        self.put(&pod, own, "MODIFIED");
        self.remove(key);
    }

    /// HAMi's plugin: it serves the pod for which its node is locked, and takes the lock away.
    fn serve_cards(&mut self, key: &Key, mut pod: Value) {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let node = ("nodes".to_owned(), String::new(), node);
        let Some(mut own) = self.objects.get(&node).cloned() else { return };
        let lock =
            own["metadata"]["annotations"]["hami.io/mutex.lock"].as_str().unwrap_or_default();
        if !lock.ends_with(&format!(",{},{}", key.1, key.2)) {
            self.broken.push(format!("{} is bound while its node is locked by {lock:?}", key.2));
        }
        let annotations = own["metadata"]["annotations"].as_object_mut();
        annotations.map(|own| own.remove("hami.io/mutex.lock"));
        self.put(&node, own, "MODIFIED");
        pod["metadata"]["annotations"]["hami.io/bind-phase"] = "success".into();
        self.put(key, pod, "MODIFIED");
    }

    /// The provisioner: a volume for a claim whose node is known.
    fn provision(&mut self, key: &Key, mut claim: Value) {
        let selected =
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string();
        if !self.provisions || !selected || claim["spec"]["volumeName"].is_string() {
            return;
        }
        claim["spec"]["volumeName"] = format!("made-{}", key.2).into();
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
        claim["status"] = json!({"phase": "Bound"});
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": format!("made-{}", key.2)},
            "spec": {"capacity": {"storage": "1Gi"}, "claimRef": {"namespace": key.1, "name": key.2}},
            "status": {"phase": "Bound"},
        });
        let own = self.key_of("persistentvolumes", &volume);
        self.put(&own, volume, "ADDED");
        self.put(key, claim, "MODIFIED");
    }
}

/// The target of a path.
struct Target {
    resource: String,
    version: String,
    kind: String,
    namespace: String,
    name: Option<String>,
    part: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Serves one connection.
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader)? {
            if self.stops.load(Ordering::Relaxed) {
                return Ok(());
            }
            if request.query.contains("watch=1") && request.method == "GET" {
                return self.watch(&request, &mut writer);
            }
            let (status, body) = self.answer(&request);
            if request.method != "GET" {
                self.changed.notify_all();
                let (count, one_of) = (
                    self.writes.fetch_add(1, Ordering::Relaxed),
                    self.lossy.load(Ordering::Relaxed),
                );
                if one_of > 0 && count % one_of == one_of - 1 {
                    return Ok(());
                }
            }
            let body = body.to_string();
            write!(
                writer,
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> (u16, Value) {
        let mut state = self.lock();
        if let Some(answer) = discovery(&state, &request.path) {
            return answer;
        }
        let Some(target) = target(&state, &request.path) else {
            return failure(404, "the server could not find the requested resource");
        };
        let Target { resource, version, kind, namespace, name, part } = target;
        let mut object = request.body.clone();
        let Some(name) = name else {
            return match request.method.as_str() {
                "POST" => {
                    object["metadata"]["namespace"] = namespace.into();
                    let key = state.key_of(&resource, &object);
                    if state.objects.contains_key(&key) {
                        return failure(409, "it exists");
                    }
                    state.put(&key, object, "ADDED");
                    // A binder may have served it already, and taken it away.
                    (201, state.objects.get(&key).cloned().unwrap_or_default())
                }
                _ => (200, json!({"items": state.list(&resource).collect::<Vec<_>>()})),
            };
        };
        let key = (resource, namespace, name);
        let Some(stored) = state.objects.get(&key).cloned() else {
            return failure(404, "not found");
        };
        match (request.method.as_str(), part.as_deref()) {
            ("GET", _) => (200, shown(stored, &version, &kind)),
            ("POST", Some("binding")) => bind(&mut state, &key, stored, &request.body),
            ("PATCH", part) => {
                for field in ["uid", "resourceVersion"] {
                    let wanted = &request.body["metadata"][field];
                    if wanted.is_string() && *wanted != stored["metadata"][field] {
                        return failure(409, "the object has been modified");
                    }
                }
                let mut changed = stored.clone();
                merge(&mut changed, &request.body, request.strategic);
                let mut result =
                    if part == Some("status") { stored.clone() } else { changed.clone() };
                result["status"] = if part == Some("status") {
                    changed["status"].clone()
                } else {
                    stored["status"].clone()
                };
                result["metadata"]["uid"] = stored["metadata"]["uid"].clone();
                if key.0 == "resourceclaims" && part == Some("status") {
                    self.count();
                }
                state.put(&key, result.clone(), "MODIFIED");
                (200, shown(result, &version, &kind))
            }
            ("PUT", None) => {
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                if version(&request.body) != version(&stored) {
                    return failure(409, "the object has been modified");
                }
                state.put(&key, request.body.clone(), "MODIFIED");
                (200, state.objects[&key].clone())
            }
            ("DELETE", _) => {
                let wanted = &request.body["preconditions"]["uid"];
                if wanted.is_string() && *wanted != stored["metadata"]["uid"] {
                    return failure(409, "another object");
                }
                state.remove(&key);
                (200, stored)
            }
            _ => failure(405, "not allowed"),
        }
    }

    fn count(&self) {
        let left = self.alarm.load(Ordering::Relaxed);
        if left > 0 {
            self.alarm.store(left - 1, Ordering::Relaxed);
            if left == 1 {
                self.rang.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Sends what is there and what changes, until the release changes or the time is over.
    fn watch(&self, request: &Request, writer: &mut TcpStream) -> std::io::Result<()> {
        let mut state = self.lock();
        let Some(Target { resource, version, kind, .. }) = target(&state, &request.path) else {
            let (status, body) = failure(404, "not served");
            let body = body.to_string();
            drop(state);
            return write!(
                writer,
                "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        };
        let from = request.query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
        let mut lines = Vec::new();
        let mut seen = match from {
            Some(version) => version.parse().unwrap_or(0),
            None => {
                for object in state.list(&resource) {
                    lines.push(line("ADDED", &shown(object.clone(), &version, &kind)));
                }
                lines.push(line(
                    "BOOKMARK",
                    &json!({
                        "apiVersion": version, "kind": kind,
                        "metadata": {
                            "resourceVersion": state.version.to_string(),
                            "annotations": {"k8s.io/initial-events-end": "true"},
                        },
                    }),
                ));
                state.version
            }
        };
        let epoch = state.epoch;
        let head = "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        writer.write_all(head.as_bytes())?;
        loop {
            let first = state.history.partition_point(|(version, ..)| *version <= seen);
            for (at, of, change, object) in &state.history[first..] {
                seen = *at;
                if *of == resource {
                    lines.push(line(change, &shown(object.clone(), &version, &kind)));
                }
            }
            let is_brief = self.brief.load(Ordering::Relaxed) && !lines.is_empty();
            let ends = is_brief || state.epoch != epoch || self.stops.load(Ordering::Relaxed);
            drop(state);
            let text: String = lines.drain(..).collect();
            if !text.is_empty() {
                write!(writer, "{:x}\r\n{text}\r\n", text.len())?;
            }
            if ends {
                return writer.write_all(b"0\r\n\r\n");
            }
            state = self.lock();
            if state.history.last().is_none_or(|(version, ..)| *version <= seen)
                && state.epoch == epoch
            {
                state = self
                    .changed
                    .wait_timeout(state, Duration::from_secs(1))
                    .expect("a sound lock")
                    .0;
            }
        }
    }
}

/// An object as a version shows it.
fn shown(mut object: Value, version: &str, kind: &str) -> Value {
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object
}

fn bind(state: &mut State, key: &Key, mut pod: Value, binding: &Value) -> (u16, Value) {
    if state.unread_roles > 0 {
        state.unread_roles -= 1;
        return failure(
            403,
            "pods \"p\" is forbidden: User \"u\" cannot create resource \"pods/binding\"",
        );
    }
    let wanted = &binding["metadata"]["uid"];
    if wanted.is_string() && *wanted != pod["metadata"]["uid"]
        || pod["spec"]["nodeName"].is_string()
    {
        return failure(409, "the pod is bound, or another one");
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for (name, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][name] = value.clone();
    }
    state.put(key, pod, "MODIFIED");
    (201, json!({"kind": "Status", "status": "Success"}))
}

/// The answer of discovery, if the path is one of it.
fn discovery(state: &State, path: &str) -> Option<(u16, Value)> {
    let rest = path.strip_prefix("/apis/scheduling.k8s.io")?;
    let versions: BTreeSet<&str> =
        state.release.iter().map(|(version, _)| *version).chain(["v1"]).collect();
    match rest.strip_prefix('/') {
        None => {
            let versions = versions.iter().map(|version| {
                json!({"groupVersion": format!("scheduling.k8s.io/{version}"), "version": version})
            });
            Some((200, json!({"kind": "APIGroup", "versions": versions.collect::<Vec<_>>()})))
        }
        Some(version) if !version.contains('/') => {
            if !versions.contains(version) {
                return Some(failure(404, "no such version"));
            }
            let own = state.release.iter().filter(|(of, _)| *of == version);
            let mut names: Vec<&str> = own.map(|(_, name)| *name).collect();
            if version == "v1" {
                names.push("priorityclasses");
            }
            let resources: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            let version = format!("scheduling.k8s.io/{version}");
            Some((200, json!({"groupVersion": version, "resources": resources})))
        }
        Some(_) => None,
    }
}

fn target(state: &State, path: &str) -> Option<Target> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, rest) = rest.split_first()?;
    let known = RESOURCES.iter().find(|(of, name, ..)| *of == version && name == resource);
    let kind = match known {
        Some((.., kind, _)) => *kind,
        None => {
            let own = version.strip_prefix("scheduling.k8s.io/")?;
            state.release.iter().find(|(of, name)| *of == own && name == resource)?;
            match *resource {
                "podgroups" => "PodGroup",
                "compositepodgroups" => "CompositePodGroup",
                _ => "Workload",
            }
        }
    };
    Some(Target {
        resource: (*resource).to_owned(),
        version,
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: rest.first().map(|name| (*name).to_owned()),
        part: rest.get(1).map(|part| (*part).to_owned()),
    })
}

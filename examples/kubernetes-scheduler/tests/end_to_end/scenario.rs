//! The frame of a test: a turn on the shared control plane, and what holds in every test.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::api::{Api, runtime};
use crate::support::control_plane::ControlPlane;
use crate::support::ledger::{Ledger, Record};
use crate::support::objects::{self, Gang, milli};
use crate::support::program::Program;

/// The name of the scheduler under test.
pub const NAME: &str = "phalanx";

/// The time for what must happen soon; long, for a machine that others use too.
pub const SOON: Duration = Duration::from_secs(90);

/// The time for which a gang may be half bound by [`CONFIGURATION`].
pub const BINDING_TIMEOUT: Duration = Duration::from_secs(30);

/// Configuration of the scheduler under test.
pub const CONFIGURATION: &str = "\
timeouts: {belowMinimum: 40s, binding: 30s}
bindings: {retryFor: 5s}
";

/// The time for a whole test.
const LIMIT: Duration = Duration::from_secs(300);

/// The control plane that all tests share. It is stopped when this process ends.
static SUITE: Mutex<Option<ControlPlane>> = Mutex::new(None);

/// One test's turn.
pub struct Cluster<'a> {
    pub plane: &'a ControlPlane,
    pub api: Api,
    pub ledger: Ledger,
    pub namespace: &'a str,
    /// Nodes that are gone.
    lost: Mutex<BTreeSet<String>>,
    /// Pods that shall be there, by name.
    wanted: Mutex<BTreeMap<String, Value>>,
    singles: AtomicUsize,
    programs: AtomicUsize,
}

/// Runs a test on the control plane, in a namespace, without anything left of the test before.
pub fn scenario(namespace: &str, test: impl AsyncFnOnce(&Cluster<'_>)) {
    let mut suite = SUITE.lock().unwrap_or_else(PoisonError::into_inner);
    if suite.is_none() {
        *suite = ControlPlane::from_environment();
    }
    let Some(plane) = &*suite else {
        note(&format!("{namespace}: CONTROL_PLANE is not set; skipped"));
        return;
    };
    let begin = Instant::now();
    plane.start();
    let runtime = runtime(2);
    runtime.block_on(async {
        let cluster = Cluster::new(plane, namespace).await;
        let cleared = begin.elapsed().as_secs_f64();
        let finished = tokio::time::timeout(LIMIT, test(&cluster)).await;
        assert!(finished.is_ok(), "not finished within {LIMIT:?}");
        assert_eq!(cluster.ledger.book().moved, Vec::<String>::new());
        let took = begin.elapsed().as_secs_f64();
        note(&format!("{namespace}: {took:.1} s, {cleared:.1} s of it to begin"));
    });
}

/// One line on standard error, also of a test that passes.
pub fn note(line: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "note: {line}");
}

impl<'a> Cluster<'a> {
    async fn new(plane: &'a ControlPlane, namespace: &'a str) -> Self {
        let api = Api::new(&plane.kubeconfig("admin")).await;
        objects::clear_pods(&api).await;
        objects::clear_nodes(&api).await;
        let object = json!({"metadata": {"name": namespace}});
        api.create("/api/v1/namespaces", &object).await;
        Self {
            plane,
            ledger: Ledger::start(&api).await,
            api,
            namespace,
            lost: Mutex::default(),
            wanted: Mutex::default(),
            singles: AtomicUsize::new(0),
            programs: AtomicUsize::new(0),
        }
    }

    /// The path of the namespace's pods.
    pub fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// The path of the namespace's groups.
    pub fn groups(&self) -> String {
        objects::groups(self.namespace)
    }

    /// The scheduler with [`CONFIGURATION`], as kube-scheduler's user.
    pub fn scheduler(&self) -> Program {
        self.scheduler_with(&self.plane.kubeconfig("scheduler"), CONFIGURATION, &[])
    }

    /// The scheduler with a kubeconfig, a configuration and further arguments.
    pub fn scheduler_with(
        &self,
        kubeconfig: &Path,
        configuration: &str,
        arguments: &[&str],
    ) -> Program {
        let number = self.programs.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", self.namespace);
        let file = self.plane.state().join(format!("{name}.yaml"));
        fs::write(&file, configuration).expect("the state folder can be written");
        let file = file.to_str().expect("the path is text");
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.log"));
        fs::write(&log, "").expect("the target folder can be written");
        let arguments = [&["--config", file, "--scheduler-name", NAME], arguments].concat();
        Program::start(kubeconfig, &arguments, &log)
    }

    /// New nodes `node-0000` and so on.
    pub async fn add_nodes(&self, count: usize, per_rack: usize) {
        let nodes = objects::nodes(count, per_rack);
        self.api.create_all("/api/v1/nodes", &nodes).await;
    }

    /// Groups with all their pods.
    pub async fn add_gangs(&self, gangs: &[Gang<'_>]) {
        let groups: Vec<Value> = gangs.iter().map(Gang::group).collect();
        self.api.create_all(&self.groups(), &groups).await;
        let pods = gangs.iter().flat_map(|gang| gang.all_pods(NAME)).collect();
        self.add_pods(pods).await;
    }

    /// New pods.
    pub async fn add_pods(&self, pods: Vec<Value>) {
        self.api.create_all(&self.pods(), &pods).await;
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let named = pods.into_iter().map(|pod| (name(&pod), pod));
        self.wanted.lock().expect("no test thread fails").extend(named);
    }

    /// The end of a pod.
    pub async fn delete_pod(&self, name: &str) {
        self.wanted.lock().expect("no test thread fails").remove(name);
        self.api.delete(&format!("{}/{name}", self.pods())).await;
    }

    /// The end of a node.
    pub async fn delete_node(&self, name: &str) {
        self.api.delete(&format!("/api/v1/nodes/{name}")).await;
        self.lost.lock().expect("no test thread fails").insert(name.to_owned());
    }

    /// Whether a pod is bound to a node that is gone.
    pub fn is_lost(&self, pod: &Record) -> bool {
        let lost = self.lost.lock().expect("no test thread fails");
        pod.node.as_ref().is_some_and(|node| lost.contains(node))
    }

    /// Waits until just so many pods of the namespace are bound.
    pub async fn until_bound(&self, count: usize) {
        let time = SOON + Duration::from_millis(20) * count as u32;
        let met = self.ledger.within(time, |book| book.bound(self.namespace) == count).await;
        let bound = self.ledger.book().bound(self.namespace);
        if !met {
            self.tell_what_waits().await;
        }
        assert!(met, "{bound} of {count} pods are bound after {time:?}");
    }

    /// Conditions of groups, and of pods that are not bound.
    async fn tell_what_waits(&self) {
        for group in self.api.list(&self.groups()).await {
            note(&format!("{}: {}", group["metadata"]["name"], group["status"]["conditions"]));
        }
        for pod in self.api.list(&self.pods()).await {
            if pod["spec"]["nodeName"].is_null() {
                note(&format!("{}: {}", pod["metadata"]["name"], pod["status"]["conditions"]));
            }
        }
    }

    /// Waits until the scheduler has come to all that there was: it has bound a pod made now.
    pub async fn until_settled(&self) {
        let name = format!("single-{}", self.singles.fetch_add(1, Ordering::Relaxed));
        self.add_pods(vec![objects::pod(&name, 0, NAME)]).await;
        let key = (self.namespace.to_owned(), name.clone());
        let met = self.ledger.within(SOON, |book| {
            book.present().any(|(_, pod)| pod.key == key && pod.node.is_some())
        });
        assert!(met.await, "a pod that fits anywhere is not bound after {SOON:?}");
        // Bindings decided on before it may still be on their way.
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.delete_pod(&name).await;
        self.ledger.within(SOON, |book| book.present().all(|(_, pod)| pod.key != key)).await;
    }

    /// Pods of a group that are bound.
    pub fn bound_of(&self, group: &str) -> usize {
        self.ledger.book().bound_of(self.namespace, group)
    }

    /// The longest time for which one of the gangs was half bound.
    pub fn longest_half(&self, gangs: &[Gang<'_>]) -> Duration {
        let book = self.ledger.book();
        let half =
            gangs.iter().map(|gang| book.longest_half(self.namespace, gang.name, gang.min()));
        half.max().unwrap_or_default()
    }

    /// Waits for the status of the condition of a group or pod, and returns its reason and message.
    pub async fn until_condition(&self, path: &str, kind: &str, status: &str) -> (String, String) {
        let begin = Instant::now();
        loop {
            let object = self.api.get(path).await;
            let found = condition(&object, kind);
            if let Some(found) = found.filter(|found| found["status"] == status) {
                let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
                return (text("reason"), text("message"));
            }
            assert!(
                begin.elapsed() < SOON,
                "{path} has no condition {kind}={status}: {}",
                object["status"]
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The part of a kubelet, of the collector of pods and of a Job, for ever: pods that terminate
    /// end, as do those on nodes that are gone, and pods that are gone are made anew.
    pub async fn run_controllers(&self) -> Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let mut missing = self.wanted.lock().expect("no test thread fails").clone();
            let mut ended = Vec::new();
            for (_, pod) in self.ledger.book().present() {
                if pod.key.0 == self.namespace {
                    missing.remove(&pod.key.1);
                    if pod.terminating || self.is_lost(pod) {
                        ended.push(format!("{}/{}", self.pods(), pod.key.1));
                    }
                }
            }
            self.api.delete_all(&ended).await;
            let missing: Vec<Value> = missing.into_values().collect();
            self.api.create_all(&self.pods(), &missing).await;
        }
    }

    /// Requests of pods beyond the capacity of nodes, and pods on nodes that do not exist, as the
    /// API server knows them.
    pub async fn excess(&self) -> Vec<String> {
        let nodes = self.api.list("/api/v1/nodes").await;
        let pods = self.api.list("/api/v1/pods").await;
        let mut used: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for pod in &pods {
            let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
            let requests = pod["spec"]["containers"][0]["resources"]["requests"].as_object();
            for (resource, amount) in requests.into_iter().flatten() {
                *used.entry((node, resource)).or_default() += milli(amount);
            }
            *used.entry((node, "pods")).or_default() += 1000;
        }
        let capacity = |name: &str, resource: &str| {
            let node = nodes.iter().find(|node| node["metadata"]["name"] == name)?;
            Some(milli(&node["status"]["allocatable"][resource]))
        };
        let mut excess = Vec::new();
        for ((node, resource), amount) in used {
            match capacity(node, resource) {
                None => excess.push(format!("{node} is no node")),
                Some(capacity) if amount > capacity => {
                    excess
                        .push(format!("{node}: {amount} of {capacity} thousandths of {resource}"));
                }
                Some(_) => {}
            }
        }
        excess
    }

    /// Checks what the API server knows: no node has more than it can hold, every bound pod is on a
    /// node that there is, and pods of gangs with a rack constraint share one. Returns the number of
    /// bound pods of each of the gangs.
    pub async fn check(&self, gangs: &[Gang<'_>]) -> Vec<usize> {
        assert_eq!(self.excess().await, Vec::<String>::new());
        let nodes = self.api.list("/api/v1/nodes").await;
        let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let racks: BTreeMap<String, &Value> = nodes
            .iter()
            .map(|node| (name(node), &node["metadata"]["labels"][objects::RACK]))
            .collect();
        let pods = self.api.list(&self.pods()).await;
        let mut placed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for pod in &pods {
            let group = pod["spec"]["schedulingGroup"]["podGroupName"].as_str();
            if let (Some(group), Some(node)) = (group, pod["spec"]["nodeName"].as_str()) {
                placed.entry(group).or_default().push(node);
            }
        }
        let bound = gangs.iter().map(|gang| {
            let places = placed.remove(gang.name).unwrap_or_default();
            let racks: BTreeSet<String> =
                places.iter().map(|place| racks[*place].to_string()).collect();
            assert!(!gang.one_rack || racks.len() <= 1, "{} is on {racks:?}", gang.name);
            places.len()
        });
        bound.collect()
    }

    /// [`Self::check`], and every gang has all of its pods bound.
    pub async fn check_whole(&self, gangs: &[Gang<'_>]) {
        let bound = self.check(gangs).await;
        let expected: Vec<usize> = gangs.iter().map(|gang| gang.pods).collect();
        assert_eq!(bound, expected, "pods bound of each gang");
    }
}

/// The condition of a kind that an object has.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

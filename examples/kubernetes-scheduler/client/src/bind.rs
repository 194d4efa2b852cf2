//! Bindings: requests for the decisions, many in flight, the pods of a gang one after the other.
//!
//! A bound pod cannot be unbound. So every answer that leaves a doubt is resolved by reading the
//! pod: a lost one, and 409, which says that the pod is bound already or that this is another pod.
//! What the watch of pods will report anyhow (the pod is gone, or bound elsewhere) is left to it.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use phalanx::kubernetes::CardFraction;
use phalanx::preempt::EvictedPod;
use phalanx::queue::Ticket;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, JoinSet};

use crate::Input;
use crate::api::Api;
use crate::prepare::{self, Needs};
use crate::{binder, log, node_lock, status};

/// How bindings and evictions are sent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Requests in flight; at least 1.
    pub in_flight: usize,
    /// How long one binding is tried before it has failed for good.
    pub retry_for: Duration,
    /// How long devices and volumes of a plan may take before its gang has failed.
    pub prepare_for: Duration,
    /// The grace period of evictions, in seconds; that of the pod unless set.
    pub eviction_grace_seconds: Option<u32>,
}

impl Default for Settings {
    /// 64 in flight, 60 s for a binding, 10 minutes for what comes before it.
    fn default() -> Settings {
        Settings {
            in_flight: 64,
            retry_for: Duration::from_secs(60),
            prepare_for: Duration::from_secs(600),
            eviction_grace_seconds: None,
        }
    }
}

/// A pod, and the node it goes to or leaves.
#[derive(Debug, Clone)]
pub struct Placement {
    /// The plan that binds the pod, or the decision that preempts it.
    pub ticket: Option<Ticket>,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub node: String,
    /// Objects that are written before it is bound.
    pub needs: Option<Arc<Needs>>,
    /// Annotations that go with the binding: they say which cards of the node the pod has.
    pub annotations: BTreeMap<String, String>,
    /// Fractions of cards for which KAI's binder is asked to bind the pod.
    pub fraction: Option<CardFraction>,
}

/// An order of a decision.
#[derive(Debug)]
pub enum Order {
    /// Write what the pods of a plan need before they are bound, and wait for it.
    Prepare(Vec<Placement>),
    /// Bind the pods of a plan.
    Bind(Vec<Placement>),
    /// Stop the bindings under way, and delete the pods that are bound.
    Evict { pods: Vec<Placement>, reason: String },
    /// Delete pods for a group that is more important.
    Preempt { pods: Vec<Placement>, by: String },
    /// Leave those pods in place, as far as their deletion has not begun.
    Cancel(Vec<Placement>),
    /// Take back what an earlier run has written for pods that it has not bound.
    Release(Vec<Placement>),
}

/// The result of an order for one pod.
#[derive(Debug)]
pub struct Report {
    pub pod: Placement,
    pub result: Outcome,
    pub took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All pods of its plan have what they need.
    Prepared,
    /// They cannot have it; nothing of it is left.
    Unprepared(String),
    Bound,
    /// It cannot be bound to that node.
    Failed(String),
    /// The server did not answer, or lets this program bind nothing. That says nothing of the node.
    Unanswered(String),
    /// It is not bound, and no request for it is under way.
    Unbound,
    /// It cannot be evicted.
    NotEvicted(String),
    /// Writes of an earlier run for it are taken back.
    Released,
    /// The watch will tell: it is gone, or not ours any more.
    Watched,
}

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Takes back writes of an earlier run.
    Release,
    /// Takes back writes for a pod whose plan is taken back.
    Unwritten {
        whole: bool,
    },
    Bind,
    Evict,
    Preempt,
}

/// The state of a pod with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its needs are written, and waited for.
    Preparing,
    Queued,
    InFlight,
    /// In flight, and to be evicted if it turns out bound.
    Cancelled,
}

/// Carries out orders until there are no more to come.
pub async fn run<I: From<Input>>(
    api: Api,
    settings: Settings,
    mut orders: UnboundedReceiver<Order>,
    inputs: Sender<I>,
) {
    let settings = Arc::new(settings);
    let mut queue: VecDeque<(Task, Placement)> = VecDeque::new();
    let mut states: BTreeMap<String, State> = BTreeMap::new();
    // Pods that are preempted, with the request under way, by uid.
    let mut preempted: BTreeMap<String, Option<AbortHandle>> = BTreeMap::new();
    let mut requests: JoinSet<(Task, Report)> = JoinSet::new();
    // Plans whose pods need something first, and what takes them back, by uid of their pods.
    let mut preparations: JoinSet<Prepared> = JoinSet::new();
    let mut cancels: BTreeMap<String, Arc<AtomicBool>> = BTreeMap::new();
    // Pods that are prepared and not ordered to be bound yet, by uid.
    let mut prepared: BTreeMap<String, Placement> = BTreeMap::new();
    let mut open = true;
    let begin = |pods: Vec<Placement>,
                 binds: bool,
                 states: &mut BTreeMap<String, State>,
                 cancels: &mut BTreeMap<String, Arc<AtomicBool>>,
                 preparations: &mut JoinSet<Prepared>| {
        let cancel = Arc::new(AtomicBool::new(false));
        for pod in &pods {
            states.insert(pod.uid.clone(), State::Preparing);
            cancels.insert(pod.uid.clone(), Arc::clone(&cancel));
        }
        let (api, time) = (api.clone(), settings.prepare_for);
        preparations.spawn(async move { prepare_plan(api, pods, time, cancel, binds).await });
    };
    while open || !queue.is_empty() || !requests.is_empty() || !preparations.is_empty() {
        while requests.len() < settings.in_flight
            && let Some((task, pod)) = queue.pop_front()
        {
            let (api, settings) = (api.clone(), Arc::clone(&settings));
            match task {
                Task::Bind => {
                    match states.get_mut(&pod.uid) {
                        Some(state @ State::Queued) => *state = State::InFlight,
                        // It was taken back while it waited.
                        _ => continue,
                    }
                    requests.spawn(async move { (task, bind(&api, &settings, pod).await) });
                }
                Task::Release => {
                    requests.spawn(async move {
                        prepare::undo(&api, &pod, false).await;
                        (task, Report::new(pod, Outcome::Released))
                    });
                }
                Task::Unwritten { whole } => {
                    requests.spawn(async move {
                        prepare::undo(&api, &pod, whole).await;
                        (task, Report::new(pod, Outcome::Unbound))
                    });
                }
                Task::Evict => {
                    requests.spawn(async move { (task, evict(&api, &settings, pod).await) });
                }
                Task::Preempt => {
                    let Some(request) = preempted.get_mut(&pod.uid) else { continue };
                    let task = async move { (task, preempt(&api, &settings, pod).await) };
                    *request = Some(requests.spawn(task));
                }
            }
        }
        tokio::select! {
            order = orders.recv(), if open => match order {
                None => open = false,
                Some(Order::Release(pods)) => {
                    queue.extend(pods.into_iter().map(|pod| (Task::Release, pod)));
                }
                Some(Order::Prepare(pods)) => {
                    begin(pods, false, &mut states, &mut cancels, &mut preparations);
                }
                // Claims that had their devices before are reserved with the binding.
                Some(Order::Bind(pods))
                    if pods.iter().any(|pod| {
                        pod.needs.is_some() && !prepared.contains_key(&pod.uid)
                    }) =>
                {
                    begin(pods, true, &mut states, &mut cancels, &mut preparations);
                }
                Some(Order::Bind(pods)) => {
                    for pod in pods {
                        prepared.remove(&pod.uid);
                        states.insert(pod.uid.clone(), State::Queued);
                        queue.push_back((Task::Bind, pod));
                    }
                }
                Some(Order::Evict { pods, reason }) => {
                    log!(info, "pods are taken back", pods = pods.len(), reason = reason);
                    for pod in pods {
                        match states.get_mut(&pod.uid) {
                            Some(State::Queued) => {
                                states.remove(&pod.uid);
                                let waits = |(task, own): &(Task, Placement)| {
                                    *task == Task::Bind && own.uid == pod.uid
                                };
                                let at = queue.iter().position(waits);
                                // The order itself does not say what was written.
                                match at.and_then(|at| queue.remove(at)) {
                                    Some((_, own)) if own.needs.is_some() => {
                                        queue.push_back((Task::Unwritten { whole: false }, own));
                                    }
                                    _ => report(&inputs, vec![Report::new(pod, Outcome::Unbound)]),
                                }
                            }
                            Some(state) => {
                                *state = State::Cancelled;
                                if let Some(cancel) = cancels.get(&pod.uid) {
                                    cancel.store(true, Ordering::Relaxed);
                                }
                            }
                            None if prepared.contains_key(&pod.uid) => {
                                // Its plan is taken back before any pod of it is bound.
                                let own = prepared.remove(&pod.uid).unwrap_or(pod);
                                queue.push_back((Task::Unwritten { whole: true }, own));
                            }
                            None => queue.push_back((Task::Evict, pod)),
                        }
                    }
                }
                Some(Order::Preempt { pods, by }) => {
                    for pod in pods {
                        log!(info, "a pod is preempted", pod = pod.full_name(), by = by);
                        if let Entry::Vacant(entry) = preempted.entry(pod.uid.clone()) {
                            entry.insert(None);
                            queue.push_back((Task::Preempt, pod));
                        }
                    }
                }
                Some(Order::Cancel(pods)) => {
                    for pod in pods {
                        log!(info, "a pod is not preempted any more", pod = pod.full_name());
                        if let Some(Some(request)) = preempted.remove(&pod.uid) {
                            request.abort();
                        }
                    }
                }
            },
            Some(done) = preparations.join_next(), if !preparations.is_empty() => {
                let Ok(Prepared { pods, result, binds }) = done else { continue };
                let first = pods.first().cloned();
                let is_cancelled = |pod: &Placement| states.get(&pod.uid) == Some(&State::Cancelled);
                let any_cancelled = pods.iter().any(is_cancelled);
                let mut reports = Vec::new();
                for pod in pods {
                    cancels.remove(&pod.uid);
                    let cancelled = states.remove(&pod.uid) == Some(State::Cancelled);
                    match &result {
                        Ok(()) if cancelled => {
                            queue.push_back((Task::Unwritten { whole: !binds }, pod));
                        }
                        Ok(()) if binds => {
                            states.insert(pod.uid.clone(), State::Queued);
                            queue.push_back((Task::Bind, pod));
                        }
                        Ok(()) => drop(prepared.insert(pod.uid.clone(), pod)),
                        Err(_) if cancelled => reports.push(Report::new(pod, Outcome::Unbound)),
                        Err(reason) if binds => {
                            reports.push(Report::new(pod, Outcome::Failed(reason.clone())));
                        }
                        Err(_) => {}
                    }
                }
                let outcome = match result {
                    Ok(()) => Outcome::Prepared,
                    Err(reason) => Outcome::Unprepared(reason),
                };
                // A plan that is taken back waits for no answer.
                let first = first.filter(|_| !any_cancelled && !binds);
                reports.extend(first.map(|pod| Report::new(pod, outcome)));
                report(&inputs, reports);
            },
            Some(done) = requests.join_next(), if !requests.is_empty() => {
                let mut done = Some(done);
                let mut reports = Vec::new();
                while let Some(result) = done {
                    if let Ok((task, report)) = result {
                        let state = states.get(&report.pod.uid).copied();
                        match task {
                            Task::Bind => drop(states.remove(&report.pod.uid)),
                            Task::Preempt => drop(preempted.remove(&report.pod.uid)),
                            Task::Evict | Task::Release | Task::Unwritten { .. } => {}
                        }
                        if task == Task::Bind && state == Some(State::Cancelled) {
                            // Whatever the answer was, the pod itself says what is left to do.
                            queue.push_back((Task::Evict, report.pod));
                        } else {
                            reports.push(report);
                        }
                    }
                    done = requests.try_join_next();
                }
                report(&inputs, reports);
            }
        }
    }
}

/// A plan whose pods were prepared, or not; then nothing is left of it.
struct Prepared {
    pods: Vec<Placement>,
    result: Result<(), String>,
    /// Whether they are to be bound without another order.
    binds: bool,
}

/// Prepares all pods of a plan, or takes back what was written for any of them.
async fn prepare_plan(
    api: Api,
    pods: Vec<Placement>,
    time: Duration,
    cancel: Arc<AtomicBool>,
    binds: bool,
) -> Prepared {
    let result = prepare::prepare(&api, &pods, time, &cancel).await;
    if let Err(reason) = &result {
        log!(warn, "a plan cannot be prepared", reason = reason);
        for pod in &pods {
            prepare::undo(&api, pod, true).await;
        }
    }
    Prepared { pods, result, binds }
}

fn report<I: From<Input>>(inputs: &Sender<I>, reports: Vec<Report>) {
    // The decisions end before the bindings when the program stops.
    let _ = inputs.send(Input::Reports(reports).into());
}

impl Report {
    fn new(pod: Placement, result: Outcome) -> Report {
        Report { pod, result, took: Duration::ZERO }
    }
}

impl Placement {
    /// A pod that is preempted.
    pub fn of_victim(ticket: Ticket, pod: &EvictedPod) -> Placement {
        let EvictedPod { namespace, name, uid, node, .. } = pod.clone();
        Placement::new(Some(ticket), namespace, name, uid, node)
    }

    /// A pod that needs nothing first.
    pub fn new(
        ticket: Option<Ticket>,
        namespace: String,
        name: String,
        uid: String,
        node: String,
    ) -> Placement {
        let annotations = BTreeMap::new();
        let (needs, fraction) = (None, None);
        Placement { ticket, namespace, name, uid, node, needs, annotations, fraction }
    }

    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.name)
    }
}

impl Settings {
    /// A request that deletes a pod, and no other of its name.
    fn deletion(&self, pod: &Placement) -> serde_json::Value {
        let mut body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid},
        });
        if let Some(seconds) = self.eviction_grace_seconds {
            body["gracePeriodSeconds"] = seconds.into();
        }
        body
    }
}

/// A server that has just started refuses with this what its roles allow: it has not read them yet.
const NOT_ALLOWED: &str = "is forbidden: User ";
/// It reads them within seconds; a role that lacks a right is to be told soon.
const NOT_ALLOWED_FOR: Duration = Duration::from_secs(10);

/// Binds one pod. Failures that may pass are tried again until the time for it has passed; while
/// the server asks for patience (429), that time stands still.
async fn bind(api: &Api, settings: &Settings, pod: Placement) -> Report {
    let begin = Instant::now();
    let mut deadline = begin + settings.retry_for;
    let mut pause = Duration::from_millis(100);
    let path = format!("{}/binding", pod.path());
    let mut body = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": pod.node},
    });
    if !pod.annotations.is_empty() {
        body["metadata"]["annotations"] = json!(pod.annotations);
    }
    if let Some(fraction) = &pod.fraction {
        let result = binder::ask(api, &pod, fraction, deadline).await;
        if result != Outcome::Bound {
            prepare::undo(api, &pod, false).await;
        }
        return Report { pod, result, took: begin.elapsed() };
    }
    if node_lock::is_wanted(&pod) {
        if let Err(reason) = node_lock::take(api, &pod, settings.retry_for).await {
            prepare::undo(api, &pod, false).await;
            let result = Outcome::Failed(reason);
            return Report { pod, result, took: begin.elapsed() };
        }
        deadline = Instant::now() + settings.retry_for;
    }
    let mut bound_elsewhere = false;
    let mut not_allowed: Option<Instant> = None;
    let result = loop {
        let (reason, outcome): (String, fn(String) -> Outcome) = match api.post(&path, &body).await
        {
            Ok(answer) => match answer.status {
                200..=299 => break Outcome::Bound,
                404 => break Outcome::Watched,
                429 => {
                    let wait = answer.retry_after.unwrap_or(Duration::from_secs(1));
                    deadline += wait;
                    tokio::time::sleep(wait).await;
                    continue;
                }
                409 => (answer.message(), Outcome::Failed),
                500.. => (answer.message(), Outcome::Unanswered),
                status @ (401 | 403) if status == 401 || answer.message().contains(NOT_ALLOWED) => {
                    // The room is kept for the pod while it is tried.
                    let first = *not_allowed.get_or_insert_with(Instant::now);
                    deadline = deadline.min(first + NOT_ALLOWED_FOR);
                    (answer.message(), Outcome::Unanswered)
                }
                _ => break Outcome::Failed(answer.message()),
            },
            Err(error) => (error, Outcome::Unanswered),
        };
        match read_back(api, &pod).await {
            Some(Whereabouts::Bound) => break Outcome::Bound,
            Some(Whereabouts::Gone) => break Outcome::Watched,
            Some(Whereabouts::Elsewhere) => {
                bound_elsewhere = true;
                break Outcome::Watched;
            }
            None if Instant::now() >= deadline => break outcome(reason),
            None => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    };
    if result != Outcome::Bound && node_lock::is_wanted(&pod) {
        node_lock::release(api, &pod).await;
    }
    if result != Outcome::Bound && !bound_elsewhere {
        prepare::undo(api, &pod, false).await;
    }
    Report { pod, result, took: begin.elapsed() }
}

/// Where a pod is whose binding was in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    Bound,
    Elsewhere,
    Gone,
}

/// The server's answer on a pod whose binding is in doubt; `None` if it may be tried again.
pub(crate) async fn read_back(api: &Api, pod: &Placement) -> Option<Whereabouts> {
    let answer = api.get(&pod.path()).await.ok()?;
    match answer.status {
        200 => {}
        404 => return Some(Whereabouts::Gone),
        _ => return None,
    }
    let stored: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    let metadata = &stored["metadata"];
    if metadata["uid"] != pod.uid.as_str() || metadata["deletionTimestamp"].is_string() {
        return Some(Whereabouts::Gone);
    }
    match stored["spec"]["nodeName"].as_str() {
        Some(node) if node == pod.node => Some(Whereabouts::Bound),
        Some(_) => Some(Whereabouts::Elsewhere),
        None => None,
    }
}

/// Deletes one pod for a group that is more important, and says so on it first. The watch reports its
/// end.
async fn preempt(api: &Api, settings: &Settings, pod: Placement) -> Report {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(100);
    let body = settings.deletion(&pod);
    let target = json!({
        "metadata": {"uid": pod.uid},
        "status": {"conditions": [status::condition(
            "DisruptionTarget", "True", "PreemptionByScheduler", "a more important group takes its place",
        )]},
    });
    // A pod goes also where that could not be written.
    let _ = api.patch(&format!("{}/status", pod.path()), &target).await;
    let result = loop {
        match api.delete(&pod.path(), &body).await {
            Ok(answer) if matches!(answer.status, 200..=299 | 404 | 409) => break Outcome::Watched,
            Ok(answer) if matches!(answer.status, 400..=428 | 430..=499) => {
                break Outcome::NotEvicted(answer.message());
            }
            Ok(answer) => tokio::time::sleep(answer.retry_after.unwrap_or(pause)).await,
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(Duration::from_secs(5));
    };
    Report { pod, result, took: begin.elapsed() }
}

/// Deletes one pod if it is bound. Goes on until the server has answered for good.
async fn evict(api: &Api, settings: &Settings, pod: Placement) -> Report {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(100);
    let body = settings.deletion(&pod);
    loop {
        let bound = match api.get(&pod.path()).await {
            Ok(answer) if answer.status == 404 => break,
            Ok(answer) if answer.status == 200 => {
                let stored: serde_json::Value =
                    serde_json::from_slice(&answer.body).unwrap_or_default();
                if stored["metadata"]["uid"] != pod.uid.as_str() {
                    break;
                }
                stored["spec"]["nodeName"].is_string()
            }
            _ => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
                continue;
            }
        };
        if !bound {
            return Report { pod, result: Outcome::Unbound, took: begin.elapsed() };
        }
        match api.delete(&pod.path(), &body).await {
            Ok(answer) if matches!(answer.status, 200..=299 | 404 | 409) => {
                log!(info, "a pod is evicted", pod = pod.full_name());
                break;
            }
            Ok(answer) => {
                let wait = answer.retry_after.unwrap_or(pause);
                let (pod, reason) = (pod.full_name(), answer.message());
                log!(warn, "a pod cannot be evicted yet", pod = pod, reason = reason);
                tokio::time::sleep(wait).await;
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(Duration::from_secs(5));
    }
    Report { pod, result: Outcome::Watched, took: begin.elapsed() }
}

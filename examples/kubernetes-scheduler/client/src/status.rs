//! Notes for people: conditions of groups and pods, events.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use phalanx::kubernetes::watch::{ObjectRef, SchedulingResource, Version};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::bind::Placement;
use crate::discovery::Discovery;
use crate::log;

/// The one that writes.
#[derive(Clone)]
pub struct Writer {
    api: Api,
    scheduler: String,
    discovery: Arc<Discovery>,
    /// The last event about each object, by uid and reason.
    series: Arc<Mutex<BTreeMap<(String, String), Series>>>,
}

/// An event that may happen again.
struct Series {
    name: String,
    note: String,
    count: u64,
    at: Instant,
}

/// The time for which an event that happens again is one of a series.
const SERIES: Duration = Duration::from_secs(360);
/// The most series that are remembered.
const MOST_SERIES: usize = 16_384;

impl Writer {
    pub fn new(api: Api, scheduler: String, discovery: Arc<Discovery>) -> Writer {
        Writer { api, scheduler, discovery, series: Arc::default() }
    }

    /// The version in which pod groups are served.
    fn groups(&self) -> Option<Version> {
        self.discovery.last().version(SchedulingResource::PodGroups)
    }

    /// Counts an event that was written not long ago, in place of a new one; false if there is none. It
    /// has the same object, reason and words.
    async fn happened_again(&self, object: &ObjectRef, reason: &str, message: &str) -> bool {
        let key = (object.uid.clone(), reason.to_owned());
        let (name, count) = {
            let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(own) = series.get_mut(&key) else { return false };
            if own.note != message || own.at.elapsed() > SERIES {
                return false;
            }
            own.count += 1;
            own.at = Instant::now();
            (own.name.clone(), own.count)
        };
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events/{name}", object.namespace);
        let body = json!({"series": {"count": count, "lastObservedTime": log::timestamp()}});
        match self.api.merge(&path, &body).await {
            // It has expired: a new one begins.
            Ok(answer) => answer.status != 404,
            Err(_) => true,
        }
    }

    fn remember(&self, object: &ObjectRef, reason: &str, message: &str, name: String) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if series.len() >= MOST_SERIES {
            series.retain(|_, own| own.at.elapsed() <= SERIES);
        }
        if series.len() < MOST_SERIES {
            let key = (object.uid.clone(), reason.to_owned());
            let own = Series { name, note: message.to_owned(), count: 1, at: Instant::now() };
            series.insert(key, own);
        }
    }

    /// Writes the condition of a group in the version that is served. If the server has no such
    /// object in it, it may serve another by now: it is asked, and the condition written there.
    async fn condition_of_group(&self, group: &ObjectRef, state: &str, reason: &str, text: &str) {
        for _ in 0..3 {
            let Some(version) = self.groups() else { return };
            // The name is that of the version, whatever the object shows.
            let Some(name) = version.scheduled_condition() else { return };
            let path = format!(
                "/apis/scheduling.k8s.io/{}/namespaces/{}/podgroups/{}/status",
                version.name(),
                group.namespace,
                group.name
            );
            let status = json!({"conditions": [condition(name, state, reason, text)]});
            if !matches!(patch(&self.api, &path, group, status).await, Patched::Absent) {
                return;
            }
            if self.discovery.ask(&self.api).await.is_ok() && self.groups() == Some(version) {
                return;
            }
        }
    }
}

/// The end of a patch.
enum Patched {
    Done,
    /// There is no such object, or the version is not served.
    Absent,
}

/// A note to write.
#[derive(Debug)]
pub enum Note {
    /// A group's condition, and one event about it.
    Group { group: ObjectRef, scheduled: bool, message: String },
    /// A pod's condition: unschedulable; and an event about it if that is wanted.
    Pod { pod: ObjectRef, message: String, event: bool },
    /// An event that a pod is bound.
    PodScheduled(Placement),
    /// Where a pod is to go once its victims have gone, or that it is to go nowhere.
    Nominated { pod: ObjectRef, node: Option<String> },
    /// An event that pods of a group go for another.
    Preempted { group: ObjectRef, by: String },
    /// The status of an object of any kind, at its path.
    Status { path: String, object: ObjectRef, status: Value },
    /// Several.
    Several(Vec<Note>),
}

impl Note {
    pub fn group_scheduled(group: ObjectRef) -> Note {
        Note::Group { group, scheduled: true, message: String::new() }
    }

    pub fn unschedulable(groups: Vec<ObjectRef>, pods: Vec<ObjectRef>, message: &str) -> Note {
        let text = || message.to_owned();
        let more = pods.len().saturating_sub(PODS_WITH_EVENTS);
        let pods = pods.into_iter().enumerate().map(|(index, pod)| {
            let message = match (index, more) {
                (0, 1..) => format!("{message} So do {more} more pods of its group."),
                _ => text(),
            };
            Note::Pod { pod, message, event: index < PODS_WITH_EVENTS }
        });
        let groups = groups.into_iter();
        let groups = groups.map(|group| Note::Group { group, scheduled: false, message: text() });
        Note::Several(pods.chain(groups).collect())
    }

    pub fn pod_scheduled(pod: &Placement) -> Note {
        Note::PodScheduled(pod.clone())
    }

    /// The uid of its object.
    fn uid(&self) -> &str {
        match self {
            Note::Group { group: object, .. }
            | Note::Pod { pod: object, .. }
            | Note::Nominated { pod: object, .. }
            | Note::Preempted { group: object, .. }
            | Note::Status { object, .. } => &object.uid,
            Note::PodScheduled(pod) => &pod.uid,
            Note::Several(_) => "",
        }
    }
}

/// Pods of one group that have events of their own; the first tells how many more wait for the same reason.
const PODS_WITH_EVENTS: usize = 16;

/// The most requests in flight: bindings come first.
const IN_FLIGHT: usize = 8;

/// Notes that wait. Those about one object are written one after the other, in the order in which they came:
/// a condition that is tried again would else replace a later one.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Note>,
    /// Notes behind one that is being written, by uid of the object.
    behind: BTreeMap<String, VecDeque<Note>>,
}

impl Line {
    fn add(&mut self, note: Note) {
        match note {
            Note::Several(notes) => notes.into_iter().for_each(|note| self.add(note)),
            note => self.waiting.push_back(note),
        }
    }

    /// The next note that may be written, and the uid of its object.
    fn take(&mut self) -> Option<(String, Note)> {
        while let Some(note) = self.waiting.pop_front() {
            let uid = note.uid().to_owned();
            match self.behind.entry(uid.clone()) {
                Entry::Occupied(mut behind) => behind.get_mut().push_back(note),
                Entry::Vacant(free) => {
                    free.insert(VecDeque::new());
                    return Some((uid, note));
                }
            }
        }
        None
    }

    /// The note about an object is written.
    fn done(&mut self, uid: &str) {
        for note in self.behind.remove(uid).into_iter().flatten().rev() {
            self.waiting.push_front(note);
        }
    }
}

/// Writes notes until there are no more to come.
pub async fn run(writer: Writer, mut notes: UnboundedReceiver<Note>) {
    let mut requests = JoinSet::new();
    let mut line = Line::default();
    let mut open = true;
    while open || !requests.is_empty() {
        while requests.len() < IN_FLIGHT
            && let Some((uid, note)) = line.take()
        {
            let writer = writer.clone();
            requests.spawn(async move {
                write(&writer, note).await;
                uid
            });
        }
        tokio::select! {
            note = notes.recv(), if open => match note {
                Some(note) => line.add(note),
                None => open = false,
            },
            Some(done) = requests.join_next(), if !requests.is_empty() => {
                if let Ok(uid) = done {
                    line.done(&uid);
                }
            }
        }
    }
}

async fn write(writer: &Writer, note: Note) {
    let Writer { api, scheduler, .. } = writer;
    let (object, kind, reason, message) = match note {
        Note::Group { group, scheduled, message } => {
            let reason = if scheduled { "Scheduled" } else { "Unschedulable" };
            let state = if scheduled { "True" } else { "False" };
            writer.condition_of_group(&group, state, reason, &message).await;
            (group, "PodGroup", reason, message)
        }
        Note::Pod { pod, message, event } => {
            let condition = condition("PodScheduled", "False", "Unschedulable", &message);
            patch_pod(api, &pod, json!({"conditions": [condition]})).await;
            if !event {
                return;
            }
            (pod, "Pod", "Unschedulable", message)
        }
        Note::Nominated { pod, node } => {
            return patch_pod(api, &pod, json!({"nominatedNodeName": node})).await;
        }
        Note::Preempted { group, by } => {
            (group, "PodGroup", "Preempted", format!("preempted by {by}"))
        }
        Note::PodScheduled(pod) => {
            let message = format!("bound to {}", pod.node);
            let Placement { namespace, name, uid, .. } = pod;
            (ObjectRef::new(namespace, name, uid), "Pod", "Scheduled", message)
        }
        Note::Status { path, object, status } => {
            let body = json!({"metadata": {"uid": object.uid}, "status": status});
            match api.merge(&path, &body).await {
                Ok(answer) if matches!(answer.status, 200..=299 | 404 | 409) => {}
                Ok(answer) => {
                    log!(warn, "a status is refused", path = path, reason = answer.message());
                }
                Err(reason) => log!(warn, "a status is not written", path = path, reason = reason),
            }
            return;
        }
        Note::Several(_) => return,
    };
    let groups = format!("scheduling.k8s.io/{}", writer.groups().map_or("v1", Version::name));
    let api_version = if kind == "Pod" { "v1" } else { &groups };
    if writer.happened_again(&object, reason, &message).await {
        return;
    }
    let name = event(api, scheduler, &object, (api_version, kind), reason, &message).await;
    if let Some(name) = name {
        writer.remember(&object, reason, &message, name);
    }
}

/// A condition, of now.
pub fn condition(kind: &str, state: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": state, "reason": reason, "message": message,
        "lastTransitionTime": log::seconds(),
    })
}

async fn patch_pod(api: &Api, pod: &ObjectRef, status: Value) {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
    let _ = patch(api, &path, pod, status).await;
}

/// Changes a status, unless the object is another one by now.
async fn patch(api: &Api, path: &str, object: &ObjectRef, status: Value) -> Patched {
    let body = json!({"metadata": {"uid": object.uid}, "status": status});
    for attempt in 0..5 {
        match api.patch(path, &body).await {
            Ok(answer) if answer.status == 404 => return Patched::Absent,
            Ok(answer) if matches!(answer.status, 200..=299 | 409) => return Patched::Done,
            Ok(answer) if answer.status == 429 || answer.status >= 500 => {
                let wait = answer.retry_after.unwrap_or(Duration::from_secs(1 << attempt));
                tokio::time::sleep(wait).await;
            }
            Ok(answer) => {
                log!(warn, "a status is refused", path = path, reason = answer.message());
                return Patched::Done;
            }
            Err(_) => tokio::time::sleep(Duration::from_secs(1 << attempt)).await,
        }
    }
    Patched::Done
}

async fn event(
    api: &Api,
    scheduler: &str,
    object: &ObjectRef,
    (api_version, kind): (&str, &str),
    reason: &str,
    message: &str,
) -> Option<String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let (action, reason, severity) = match reason {
        "Scheduled" => ("Binding", reason, "Normal"),
        "Preempted" => ("Preempting", reason, "Normal"),
        _ => ("Scheduling", "FailedScheduling", "Warning"),
    };
    let name = format!("{}.{now:x}{number:x}", object.name);
    let body = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {
            "name": name, "namespace": object.namespace,
        },
        "eventTime": log::timestamp(),
        "reportingController": scheduler,
        "reportingInstance": format!("{scheduler}-{}", std::process::id()),
        "action": action, "reason": reason, "type": severity,
        "regarding": {
            "apiVersion": api_version, "kind": kind,
            "namespace": object.namespace, "name": object.name, "uid": object.uid,
        },
        "note": if message.is_empty() { "bound" } else { message },
    });
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", object.namespace);
    // An event that is lost is not sent again.
    match api.post(&path, &body).await {
        Ok(answer) if matches!(answer.status, 200..=299) => Some(name),
        Ok(answer) => {
            log!(warn, "an event is refused", path = path, reason = answer.message());
            None
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_about_one_object_are_written_one_after_the_other() {
        let group = |uid: &str| ObjectRef::new("default".into(), uid.into(), uid.into());
        let refused = |uid: &str| Note::unschedulable(vec![group(uid)], Vec::new(), "no room");
        let mut line = Line::default();
        line.add(refused("a"));
        line.add(Note::group_scheduled(group("a")));
        line.add(Note::group_scheduled(group("b")));
        let next = |line: &mut Line| match line.take() {
            Some((uid, Note::Group { scheduled, .. })) => Some((uid, scheduled)),
            Some(other) => panic!("{other:?}"),
            None => None,
        };
        assert_eq!(next(&mut line), Some(("a".into(), false)));
        assert_eq!(next(&mut line), Some(("b".into(), true)));
        assert_eq!(next(&mut line), None, "the first about a is under way");
        line.add(refused("b"));
        line.done("a");
        assert_eq!(next(&mut line), Some(("a".into(), true)));
        assert_eq!(next(&mut line), None);
        line.done("a");
        line.done("b");
        assert_eq!(next(&mut line), Some(("b".into(), false)));
        line.done("b");
        assert!(line.behind.is_empty() && line.take().is_none());
    }
}

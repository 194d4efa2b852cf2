//! A record of all pods, kept from a watch: what was bound where and when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::api::Api;
use super::follow::{News, follow};

/// Namespace and name.
pub type Key = (String, String);

/// One pod, from its first event on; a pod made anew under the same name is another.
#[derive(Clone, Debug)]
pub struct Record {
    /// Namespace and name.
    pub key: Key,
    /// The group, in the pod's namespace.
    pub group: Option<String>,
    /// The node it is bound to.
    pub node: Option<String>,
    /// The time of the first event.
    pub seen: Instant,
    /// The time of the first event with a node.
    pub bound: Option<Instant>,
    /// Whether its deletion was asked for.
    pub terminating: bool,
    /// Whether it is gone.
    pub gone: bool,
}

/// The record.
#[derive(Debug, Default)]
pub struct Book {
    /// By uid.
    pub pods: BTreeMap<String, Record>,
    /// Pods whose node changed, which must never be.
    pub moved: Vec<String>,
    /// When the number of pods bound of a group changed, and to what.
    steps: BTreeMap<Key, Vec<(Instant, usize)>>,
    /// Pods of a group that are there and bound.
    live: BTreeMap<Key, usize>,
    /// Pods of a namespace that are there and bound.
    bound: BTreeMap<String, usize>,
}

impl Book {
    /// Pods that are there.
    pub fn present(&self) -> impl Iterator<Item = (&String, &Record)> {
        self.pods.iter().filter(|(_, pod)| !pod.gone)
    }

    /// Pods of a namespace that are there and bound.
    pub fn bound(&self, namespace: &str) -> usize {
        self.bound.get(namespace).copied().unwrap_or(0)
    }

    /// Pods of a group that are there and bound.
    pub fn bound_of(&self, namespace: &str, group: &str) -> usize {
        let key = (namespace.to_owned(), group.to_owned());
        self.live.get(&key).copied().unwrap_or(0)
    }

    /// The longest time for which some of a group's pods were bound, but fewer than it needs.
    pub fn longest_half(&self, namespace: &str, group: &str, min: usize) -> Duration {
        let key = (namespace.to_owned(), group.to_owned());
        let steps = self.steps.get(&key).map_or(&[][..], Vec::as_slice);
        let mut longest = Duration::ZERO;
        let mut since = None;
        for &(time, bound) in steps.iter().chain(&[(Instant::now(), 0)]) {
            let half = bound > 0 && bound < min;
            match since {
                None if half => since = Some(time),
                Some(begin) if !half => {
                    longest = longest.max(time.duration_since(begin));
                    since = None;
                }
                _ => {}
            }
        }
        longest
    }

    fn apply(&mut self, pod: Pod) {
        let now = Instant::now();
        let Meta { namespace, name, uid, deletion_timestamp } = pod.metadata;
        let record = self.pods.entry(uid.clone()).or_insert_with(|| Record {
            key: (namespace, name),
            group: pod.spec.scheduling_group.map(|group| group.pod_group_name),
            node: None,
            seen: now,
            bound: None,
            terminating: false,
            gone: false,
        });
        record.terminating |= deletion_timestamp.is_some();
        match (&record.node, pod.spec.node_name) {
            (None, Some(node)) => {
                record.node = Some(node);
                record.bound = Some(now);
                let record = record.clone();
                self.count(&record, now, 1);
            }
            (Some(before), Some(node)) if *before != node => {
                self.moved.push(format!("{:?} from {before} to {node}", record.key));
            }
            _ => {}
        }
    }

    fn remove(&mut self, uid: &str) {
        let now = Instant::now();
        let Some(record) = self.pods.get_mut(uid) else { return };
        if std::mem::replace(&mut record.gone, true) || record.node.is_none() {
            return;
        }
        let record = record.clone();
        self.count(&record, now, -1);
    }

    /// One pod more or less that is bound.
    fn count(&mut self, pod: &Record, now: Instant, change: isize) {
        let (namespace, _) = &pod.key;
        let bound = self.bound.entry(namespace.clone()).or_default();
        *bound = bound.saturating_add_signed(change);
        if let Some(group) = &pod.group {
            let key = (namespace.clone(), group.clone());
            let live = self.live.entry(key.clone()).or_default();
            *live = live.saturating_add_signed(change);
            self.steps.entry(key).or_default().push((now, *live));
        }
    }
}

/// The record and the watch that keeps it, which ends when this is dropped.
pub struct Ledger {
    book: Arc<Mutex<Book>>,
    changed: watch::Receiver<()>,
    task: JoinHandle<()>,
}

impl Ledger {
    /// A record that holds all pods of now.
    pub async fn start(api: &Api) -> Self {
        let book = Arc::new(Mutex::new(Book::default()));
        let (changes, changed) = watch::channel(());
        let task = tokio::spawn(keep(api.clone(), Arc::clone(&book), changes));
        let mut ledger = Self { book, changed, task };
        ledger.changed.changed().await.expect("the first list arrives");
        ledger
    }

    /// The record as it stands.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("the record is whole")
    }

    /// Whether a condition comes true in time.
    pub async fn within(&self, time: Duration, mut met: impl FnMut(&Book) -> bool) -> bool {
        let mut changed = self.changed.clone();
        let wait = async {
            while !met(&self.book()) {
                changed.changed().await.expect("the watch goes on");
            }
        };
        tokio::time::timeout(time, wait).await.is_ok()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone, Deserialize)]
struct Pod {
    metadata: Meta,
    spec: Spec,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    namespace: String,
    name: String,
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    scheduling_group: Option<Group>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    pod_group_name: String,
}

/// Keeps the record for ever.
async fn keep(api: Api, book: Arc<Mutex<Book>>, changes: watch::Sender<()>) {
    let tell = |news: News<Pod>| {
        {
            let mut book = book.lock().expect("the record is whole");
            match news {
                News::All(pods) => {
                    let listed: BTreeSet<&str> =
                        pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
                    let gone: Vec<String> = (book.present())
                        .filter(|(uid, _)| !listed.contains(uid.as_str()))
                        .map(|(uid, _)| uid.clone())
                        .collect();
                    gone.iter().for_each(|uid| book.remove(uid));
                    pods.into_iter().for_each(|pod| book.apply(pod));
                }
                News::Put(pod) => book.apply(pod),
                News::Gone(pod) => {
                    let uid = pod.metadata.uid.clone();
                    book.apply(pod);
                    book.remove(&uid);
                }
                News::Lost => return,
            }
        }
        changes.send_replace(());
    };
    follow(&api, "/api/v1/pods", tell).await;
}

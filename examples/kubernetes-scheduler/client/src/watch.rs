//! Watches: one task a kind, from which events go to the decisions.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use http_body_util::BodyExt;
use phalanx::kubernetes::WorkloadKind;
pub use phalanx::kubernetes::watch::ObjectRef;
use phalanx::kubernetes::watch::{Kind, SchedulingResource, WatchEvent};
use phalanx::state::{ClaimKind, StorageKind};

use crate::Input;
use crate::api::Api;
use crate::discovery::Discovery;
use crate::log;

/// A resource to watch.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    pub kind: Kind,
    /// The path; for groups of `scheduling.k8s.io` the server is asked for it.
    path: &'static str,
    /// Whether nothing can be decided without it. Others may be refused, or not be served.
    pub required: bool,
}

/// In place of a path: it depends on the release of the server.
const DISCOVERED: &str = "";

const fn source(kind: Kind, path: &'static str, required: bool) -> Source {
    Source { kind, path, required }
}

/// Everything that is watched.
pub const SOURCES: [Source; 33] = [
    source(Kind::Node, "/api/v1/nodes", true),
    source(Kind::Pod, "/api/v1/pods", true),
    source(Kind::Namespace, "/api/v1/namespaces", false),
    source(Kind::PodGroup, DISCOVERED, false),
    source(Kind::CompositePodGroup, DISCOVERED, false),
    source(Kind::Workload, DISCOVERED, false),
    source(Kind::PodDisruptionBudget, "/apis/policy/v1/poddisruptionbudgets", false),
    source(Kind::PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses", false),
    source(Kind::Coscheduling, "/apis/scheduling.x-k8s.io/v1alpha1/podgroups", false),
    source(Kind::Koordinator, "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups", false),
    source(Kind::Volcano, "/apis/scheduling.volcano.sh/v1beta1/podgroups", false),
    source(Kind::Kai, "/apis/scheduling.run.ai/v2alpha2/podgroups", false),
    source(Kind::KaiTopology, "/apis/kai.scheduler/v1alpha1/topologies", false),
    source(Kind::HyperNode, "/apis/topology.volcano.sh/v1alpha1/hypernodes", false),
    source(
        Kind::ClusterNetworkTopology,
        "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies",
        false,
    ),
    source(Kind::Device, "/apis/scheduling.koordinator.sh/v1alpha1/devices", false),
    source(
        Kind::NodeResourceTopology,
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        false,
    ),
    source(Kind::Claims(ClaimKind::Class), "/apis/resource.k8s.io/v1/deviceclasses", false),
    source(Kind::Claims(ClaimKind::Slice), "/apis/resource.k8s.io/v1/resourceslices", false),
    source(Kind::Claims(ClaimKind::Claim), "/apis/resource.k8s.io/v1/resourceclaims", false),
    source(Kind::DeviceTaintRule, "/apis/resource.k8s.io/v1beta2/devicetaintrules", false),
    source(Kind::Storage(StorageKind::Claim), "/api/v1/persistentvolumeclaims", false),
    source(Kind::Storage(StorageKind::Volume), "/api/v1/persistentvolumes", false),
    source(Kind::Storage(StorageKind::Class), "/apis/storage.k8s.io/v1/storageclasses", false),
    source(Kind::Storage(StorageKind::Driver), "/apis/storage.k8s.io/v1/csidrivers", false),
    source(Kind::Storage(StorageKind::Limits), "/apis/storage.k8s.io/v1/csinodes", false),
    source(
        Kind::Storage(StorageKind::Capacity),
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        false,
    ),
    source(
        Kind::Storage(StorageKind::Attachment),
        "/apis/storage.k8s.io/v1/volumeattachments",
        false,
    ),
    // Quotas, which explain members that are missing.
    source(Kind::ResourceQuota, "/api/v1/resourcequotas", false),
    // Owners of pods, over which pods without constraints of their own are spread.
    source(Kind::Service, "/api/v1/services", false),
    source(Kind::ReplicationController, "/api/v1/replicationcontrollers", false),
    source(Kind::ReplicaSet, "/apis/apps/v1/replicasets", false),
    source(Kind::Submitted(WorkloadKind::StatefulSet), "/apis/apps/v1/statefulsets", false),
];

/// Workloads whose pods start together, for a store [with workloads](phalanx::kubernetes::watch::Store).
pub const WORKLOADS: [Source; 8] = [
    source(Kind::Submitted(WorkloadKind::Job), "/apis/batch/v1/jobs", false),
    source(Kind::Submitted(WorkloadKind::JobSet), "/apis/jobset.x-k8s.io/v1alpha2/jobsets", false),
    source(
        Kind::Submitted(WorkloadKind::LeaderWorkerSet),
        "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",
        false,
    ),
    source(Kind::Submitted(WorkloadKind::PyTorchJob), "/apis/kubeflow.org/v1/pytorchjobs", false),
    source(Kind::Submitted(WorkloadKind::TFJob), "/apis/kubeflow.org/v1/tfjobs", false),
    source(Kind::Submitted(WorkloadKind::MPIJob), "/apis/kubeflow.org/v2beta1/mpijobs", false),
    source(Kind::Submitted(WorkloadKind::RayCluster), "/apis/ray.io/v1/rayclusters", false),
    source(
        Kind::Submitted(WorkloadKind::VolcanoJob),
        "/apis/batch.volcano.sh/v1alpha1/jobs",
        false,
    ),
];

/// Everything to watch, with or without workloads.
pub fn sources(workloads: bool) -> impl Iterator<Item = Source> {
    SOURCES.into_iter().chain(WORKLOADS.into_iter().filter(move |_| workloads))
}

/// The times after which a watch that ended without news starts again: each doubles the one before.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];
/// The same for a resource that was refused. A server that has just started refuses what it allows a
/// second later.
const REFUSED_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// The longest silence of a watch: bookmarks come every minute.
const SILENCE: Duration = Duration::from_secs(150);
/// The time after which the server is to end a watch.
const LIFE: Duration = Duration::from_secs(540);
/// The same of a resource whose version depends on the release: the server is asked again then. A
/// cluster that is upgraded may serve the old version beside the new one for long.
const DISCOVERED_LIFE: Duration = Duration::from_secs(180);

/// The end of a watch.
enum End {
    /// It may go on where it was.
    Closed(String),
    /// The server has forgotten its version: it must begin anew.
    Expired,
    /// It is not allowed, or not served.
    Refused(String),
}

/// Watches a resource for ever.
pub async fn run<I: From<Input>>(
    api: Api,
    source: Source,
    discovery: Arc<Discovery>,
    inputs: Sender<I>,
) {
    let mut version = None;
    let mut path = None;
    let (mut pause, mut refused) = (Duration::ZERO, Duration::ZERO);
    let longer =
        |pause: Duration, [first, longest]: [Duration; 2]| (pause * 2).clamp(first, longest);
    loop {
        let begin = Instant::now();
        let before = version.clone();
        // Each watch asks anew, also after one that ended by itself: the server may have been
        // upgraded meanwhile, and a version that is still served need not be the best one.
        let end = match path_of(&api, source, &discovery).await {
            Ok(Some(now)) => {
                if path.as_ref() != Some(&now) {
                    version = None;
                }
                let end = follow(&api, source.kind, &now, &mut version, &inputs).await;
                path = Some(now);
                end
            }
            Ok(None) => End::Refused("the server does not serve it".to_owned()),
            Err(reason) => End::Closed(reason),
        };
        let shown = path.as_deref().unwrap_or(source.path);
        if begin.elapsed() > PAUSES[1] {
            pause = Duration::ZERO;
        }
        let wait = match end {
            End::Closed(reason) => {
                log!(info, "a watch ended", path = shown, reason = reason);
                refused = Duration::ZERO;
                // A server that is short of CPU ends watches of busy kinds again and again. Each has
                // brought news, and the next goes on at once: a pause would only add to the lag.
                let has_news = version.is_some() && version != before;
                pause = if has_news { Duration::ZERO } else { longer(pause, PAUSES) };
                pause
            }
            End::Expired => {
                log!(info, "a watch expired; its objects are listed anew", path = shown);
                version = None;
                refused = Duration::ZERO;
                pause = longer(pause, PAUSES);
                pause
            }
            End::Refused(reason) => {
                if refused.is_zero() || source.required {
                    let kind = format!("{:?}", source.kind);
                    log!(warn, "a resource is not watched", kind = kind, reason = reason);
                }
                version = None;
                refused = longer(refused, REFUSED_PAUSES);
                if !source.required && inputs.send(Input::Refused(source.kind).into()).is_err() {
                    return;
                }
                if source.required { REFUSED_PAUSES[0] } else { refused }
            }
        };
        if SchedulingResource::of(source.kind).is_none() {
            tokio::time::sleep(wait).await;
            continue;
        }
        // Another watch may see first that the server serves other versions now.
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = discovery.changed() => refused = Duration::ZERO,
        }
    }
}

/// The path of a resource; `None` if it is not served.
async fn path_of(
    api: &Api,
    source: Source,
    discovery: &Discovery,
) -> Result<Option<String>, String> {
    match SchedulingResource::of(source.kind) {
        Some(resource) => Ok(discovery.ask(api).await?.path(resource)),
        None => Ok(Some(source.path.to_owned())),
    }
}

/// One watch, from its start to its end. Keeps the version from which the next may go on.
async fn follow<I: From<Input>>(
    api: &Api,
    kind: Kind,
    path: &str,
    version: &mut Option<String>,
    inputs: &Sender<I>,
) -> End {
    let is_discovered = SchedulingResource::of(kind).is_some();
    let life = if is_discovered { DISCOVERED_LIFE } else { LIFE }.as_secs();
    let start = match version {
        Some(version) => format!("resourceVersion={version}"),
        None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
    };
    let path = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={life}&{start}");
    let mut body = match api.watch(&path).await {
        Ok(answer) => match answer.status().as_u16() {
            200 => answer.into_body(),
            410 => return End::Expired,
            status @ (401 | 403 | 404 | 422) => return End::Refused(format!("status {status}")),
            status => return End::Closed(format!("status {status}")),
        },
        Err(error) => return End::Closed(error),
    };
    if version.is_none() && inputs.send(Input::ListBegins(kind).into()).is_err() {
        return End::Closed("the scheduler stops".to_owned());
    }
    let mut buffer = BytesMut::new();
    loop {
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return End::Closed(error.to_string()),
            Ok(None) => return End::Closed("the server ended it".to_owned()),
            Err(_) => return End::Closed("it fell silent".to_owned()),
        };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        let mut events = Vec::new();
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1);
            match serde_json::from_slice(&line) {
                Ok(WatchEvent::Error { code: 410, .. }) => return End::Expired,
                Ok(WatchEvent::Error { code, message }) => {
                    return End::Closed(format!("{code}: {message}"));
                }
                Ok(event) => events.push(event),
                Err(error) => return End::Closed(error.to_string()),
            }
        }
        let Some(last) = events.last() else { continue };
        let last = match last {
            WatchEvent::Changed(object) | WatchEvent::Deleted(object) => object.resource_version(),
            WatchEvent::Bookmark { version, .. } => version,
            _ => "",
        };
        // Initial events come in no order of versions: only their end is a version to go on from.
        let listed = events
            .iter()
            .any(|event| matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. }));
        if version.is_some() || listed {
            *version = Some(last.to_owned());
        }
        let news = Input::Watch { kind, events, at: Instant::now() };
        if inputs.send(news.into()).is_err() {
            return End::Closed("the scheduler stops".to_owned());
        }
    }
}

//! Prefixes of the dialects, by which keys that are not known are told.

use super::rule::Rule::{Holds, Honoured, Ignored, Refused, Silent};
use super::rule::{Entry, Keys};

/// Queues of groups are no business of the reader of pods and groups.
pub(super) const QUEUE: &str = "queues order what waits: they are read by `kubernetes::queues`";
pub(super) const PRIORITY: &str = "it says when pods start or stop, not where";
pub(super) const WRITTEN: &str = "a scheduler or a controller writes it";
pub(super) const TOPOLOGY: &str = "the topology of this dialect is not read";
pub(super) const DEVICES: &str = "the devices of this dialect are not read";
pub(super) const KEY: &str = "a key of this dialect that is not read";
const GONE: &str = "a key that Kubernetes has given up";
pub(super) const AGENT: &str = "agents of the node read it";
pub(super) const HOLDS_CONTROLLER: &str = "the object's own controller reads it";

/// Keys that bear on queues only, of any dialect.
pub(super) const QUEUE_PREFIXES: &[Entry] = &[
    ("kube-queue/", Ignored(QUEUE)),
    ("provreq.kueue.x-k8s.io/", Ignored(QUEUE)),
    ("quota.scheduling.koordinator.sh/", Ignored(QUEUE)),
    ("preemption-toleration.scheduling.x-k8s.io/", Ignored(PRIORITY)),
    ("preemption-toleration.scheduling.sigs.k8s.io/", Ignored(PRIORITY)),
];

/// The prefixes of the dialects, by which keys of theirs that are not known are told.
pub(super) const DIALECTS: &[Entry] = &[
    ("gang.scheduling.koordinator.sh/", Refused(KEY)),
    ("scheduling.koordinator.sh/", Refused(KEY)),
    ("pod-group.scheduling.sigs.k8s.io", Refused(KEY)),
    ("scheduling.sigs.k8s.io/", Refused(KEY)),
    ("scheduling.x-k8s.io/", Refused(KEY)),
    ("app-group.scheduling.sigs.x-k8s.io", Refused(KEY)),
    ("appgroup.diktyo.x-k8s.io", Refused(KEY)),
    ("networktopology.diktyo.x-k8s.io", Refused(KEY)),
    ("scheduling.volcano.sh/", Refused(KEY)),
    ("volcano.sh/", Refused(KEY)),
    ("kai.scheduler/", Refused(KEY)),
    ("run.ai/", Refused(KEY)),
    ("runai/", Refused(KEY)),
    ("runai-gpu-group/", Holds(WRITTEN)),
    ("kueue.x-k8s.io/", Refused(KEY)),
    ("yunikorn.apache.org/", Refused(KEY)),
    ("hami.io/vgpu-", Holds(WRITTEN)),
    ("hami.io/", Refused(KEY)),
    ("4pd.io/", Refused(KEY)),
    ("nvidia.com/", Refused(DEVICES)),
    ("amd.com/", Refused(DEVICES)),
    ("hygon.com/", Refused(DEVICES)),
    ("metax-tech.com/", Refused(DEVICES)),
    ("mthreads.com/", Refused(DEVICES)),
    ("iluvatar.ai/", Refused(DEVICES)),
    ("cambricon.com/", Refused(DEVICES)),
    ("huawei.com/", Refused(DEVICES)),
    ("kunlunxin.com/", Refused(DEVICES)),
    ("enflame.com/", Refused(DEVICES)),
    ("aws.amazon.com/neuron", Refused(DEVICES)),
    ("grove.io/", Refused(KEY)),
    ("gpu.scheduling/", Refused(KEY)),
    ("scheduler.alpha.kubernetes.io/", Refused(GONE)),
    ("scheduling.k8s.io/", Refused(KEY)),
    ("alpha.jobset.sigs.k8s.io/", Refused(KEY)),
    ("jobset.sigs.k8s.io/", Holds(WRITTEN)),
    ("leaderworkerset.sigs.k8s.io/", Holds(WRITTEN)),
    ("internal.scheduling.koordinator.sh/", Holds(WRITTEN)),
    ("node.koordinator.sh/", Ignored(AGENT)),
    ("slo.koordinator.sh/", Ignored(AGENT)),
    ("koordinator.sh/", Ignored(AGENT)),
];

/// Labels by which devices or dialects are told, but which pods may bear as well as any.
pub(super) const LABEL_DIALECTS: &[Entry] = &[
    ("scheduling.koordinator.sh/", Refused(KEY)),
    ("scheduling.sigs.k8s.io/", Refused(KEY)),
    ("scheduling.x-k8s.io/", Refused(KEY)),
    ("app-group.scheduling.sigs.x-k8s.io", Refused(KEY)),
    ("appgroup.diktyo.x-k8s.io", Refused(KEY)),
    ("volcano.sh/network-topology", Refused(TOPOLOGY)),
    ("volcano.sh/", Refused(KEY)),
    ("kai.scheduler/", Refused(KEY)),
    ("runai-gpu-group/", Honoured),
    ("kueue.x-k8s.io/", Refused(KEY)),
    ("yunikorn.apache.org/", Refused(KEY)),
    ("hami.io/", Refused(KEY)),
    ("run.ai/", Refused(KEY)),
    ("runai/", Refused(KEY)),
    ("scheduling.volcano.sh/", Refused(KEY)),
    ("gang.scheduling.koordinator.sh/", Refused(KEY)),
    ("pod-group.scheduling.sigs.k8s.io", Refused(KEY)),
];

/// The same of objects that say nothing of pods: their own controllers read them.
const OF_OBJECTS: &[Entry] = &[
    ("gang.scheduling.koordinator.sh/", Holds(HOLDS_CONTROLLER)),
    ("scheduling.koordinator.sh/", Holds(HOLDS_CONTROLLER)),
    ("node.koordinator.sh/", Holds(HOLDS_CONTROLLER)),
    ("koordinator.sh/", Holds(HOLDS_CONTROLLER)),
    ("scheduling.volcano.sh/", Holds(HOLDS_CONTROLLER)),
    ("volcano.sh/", Holds(HOLDS_CONTROLLER)),
    ("kai.scheduler/", Holds(HOLDS_CONTROLLER)),
    ("run.ai/", Holds(HOLDS_CONTROLLER)),
    ("runai/", Holds(HOLDS_CONTROLLER)),
    ("kueue.x-k8s.io/", Holds(HOLDS_CONTROLLER)),
    ("yunikorn.apache.org/", Holds(HOLDS_CONTROLLER)),
    ("hami.io/", Holds(HOLDS_CONTROLLER)),
    ("nvidia.com/", Holds(HOLDS_CONTROLLER)),
    ("resource.kubernetes.io/", Holds(HOLDS_CONTROLLER)),
    ("scheduling.k8s.io/", Holds(HOLDS_CONTROLLER)),
    ("scheduling.x-k8s.io/", Holds(HOLDS_CONTROLLER)),
    ("scheduling.sigs.k8s.io/", Holds(HOLDS_CONTROLLER)),
];

/// Labels and annotations of objects that say nothing of pods.
pub(super) static PLAIN: Keys =
    Keys { name: "", known: &[], prefixes: &[QUEUE_PREFIXES, OF_OBJECTS], other: Silent };

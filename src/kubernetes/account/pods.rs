//! Pods, their templates, and the objects around them: nodes, namespaces, services, classes.

use super::dialects::PLAIN;
use super::keys::{
    NAMESPACE_ANNOTATION_KEYS, NODE_ANNOTATION_KEYS, POD_ANNOTATION_KEYS, POD_LABEL_KEYS,
};
use super::parts::{ANY_LABEL, CLAIMS, FEATURES, NODE_TERM, SELECTOR};
use super::rule::Rule::{
    Choice as ByChoice, Each, Fields, Holds, Honoured, Ignored, Metadata, Part, Refused, Silent,
    Whole,
};
use super::rule::{Choice, Entry, Keys, Kind, Rule, Spot, Table};
use super::storage::VOLUMES;
use crate::kubernetes::mode::Mode;
use crate::kubernetes::resources;
use crate::kubernetes::value::Value;

const OF_POD: &str = "it is among the claims of the pod";
const SHARE: &str = "shares of devices are not read in this dialect";
const COUNTED: &str = "no resource that is counted";

const POD_TERM: &[Entry] = &[
    ("labelSelector", SELECTOR),
    ("namespaces", Part),
    ("namespaceSelector", SELECTOR),
    ("topologyKey", Part),
    ("matchLabelKeys", Part),
    ("mismatchLabelKeys", Part),
];

const POD_TERMS: Rule = Fields(&[
    ("requiredDuringSchedulingIgnoredDuringExecution", Whole(POD_TERM)),
    (
        "preferredDuringSchedulingIgnoredDuringExecution",
        Whole(&[("weight", Part), ("podAffinityTerm", Fields(POD_TERM))]),
    ),
]);

pub(super) const AFFINITY: Rule = Fields(&[
    (
        "nodeAffinity",
        Fields(&[
            (
                "requiredDuringSchedulingIgnoredDuringExecution",
                Whole(&[("nodeSelectorTerms", Fields(NODE_TERM))]),
            ),
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                Whole(&[("weight", Part), ("preference", Fields(NODE_TERM))]),
            ),
        ]),
    ),
    ("podAffinity", POD_TERMS),
    ("podAntiAffinity", POD_TERMS),
]);

pub(super) const TOLERATIONS: Rule = Whole(&[
    ("key", Part),
    ("operator", Part),
    ("value", Part),
    ("effect", Part),
    ("tolerationSeconds", Silent),
]);

const SPREAD: Rule = Whole(&[
    ("maxSkew", Part),
    ("minDomains", Part),
    ("topologyKey", Part),
    ("whenUnsatisfiable", Part),
    ("labelSelector", SELECTOR),
    ("matchLabelKeys", Part),
    ("nodeAffinityPolicy", Part),
    ("nodeTaintsPolicy", Part),
]);

/// An amount that a container asks for.
static REQUEST: Choice = Choice {
    options: &[
        ("counted, or a share of a card of HAMi, Volcano or Koordinator", Honoured),
        ("a share of a device in another dialect", Refused(SHARE)),
        ("any other name", Refused(COUNTED)),
        ("a limit beside a request, or stored", Silent),
        ("nvidia.com/priority", Holds("it says which pod waits on a card, not which card")),
    ],
    pick: request,
};

fn request(spot: &Spot<'_>, mode: Mode) -> usize {
    let name = spot.name();
    let is_limit = matches!(spot.up.map(Spot::name), Some("limits"));
    let requests = spot.above(2).and_then(|resources| resources.entry("requests"));
    let has_request = requests.is_some_and(|requests| requests.entry(name).is_some());
    if is_limit && (has_request || mode == Mode::AsStored) {
        3
    } else if name == "nvidia.com/priority" {
        4
    } else if resources::is_share(name) {
        1
    } else if resources::counts(name) {
        0
    } else {
        2
    }
}

/// Requests of a container or a pod.
pub(super) const RESOURCES: Rule = Fields(&[
    ("requests", Each(&ByChoice(&REQUEST))),
    ("limits", Each(&ByChoice(&REQUEST))),
    ("claims", Fields(&[("name", Holds(OF_POD)), ("request", Holds(OF_POD))])),
]);

/// A port that is taken on the node.
static PORT: Choice = Choice {
    options: &[("with hostPort or on the host's network", Whole(PORT_FIELDS)), ("else", Silent)],
    pick: |spot, _| {
        let taken = spot.value.entry("hostPort").is_some_and(|port| *port != Value::Null);
        // Above a port are the list, the container, the containers and the pod.
        let on_host = spot.above(4).and_then(|spec| spec.entry("hostNetwork"));
        usize::from(!taken && on_host != Some(&Value::Bool(true)))
    },
};

const PORT_FIELDS: &[Entry] = &[
    ("name", Silent),
    ("containerPort", Part),
    ("hostPort", Part),
    ("hostIP", Part),
    ("protocol", Part),
];

static SIDECAR: Choice = Choice {
    options: &[("Always", Honoured), ("any other", Silent)],
    pick: |spot, _| usize::from(spot.value.text() != Some("Always")),
};

/// Fields of a container that kubelet alone reads.
macro_rules! container {
    ($($own:expr),* $(,)?) => {
        Fields(&[
            ("name", Silent),
            ("image", Honoured),
            ("resources", RESOURCES),
            ("ports", ByChoice(&PORT)),
            ("imagePullPolicy", Silent),
            ("command", Silent),
            ("args", Silent),
            ("workingDir", Silent),
            ("env", Silent),
            ("envFrom", Silent),
            ("resizePolicy", Silent),
            ("restartPolicyRules", ByChoice(&RESTART_RULE)),
            ("volumeMounts", Silent),
            ("volumeDevices", Silent),
            ("livenessProbe", Silent),
            ("readinessProbe", Silent),
            ("startupProbe", Silent),
            ("lifecycle", Silent),
            ("terminationMessagePath", Silent),
            ("terminationMessagePolicy", Silent),
            ("securityContext", Silent),
            ("stdin", Silent),
            ("stdinOnce", Silent),
            ("tty", Silent),
            $($own),*
        ])
    };
}

pub(super) const CONTAINERS: Rule = container!(("restartPolicy", Silent));
pub(super) const INIT_CONTAINERS: Rule = container!(("restartPolicy", ByChoice(&SIDECAR)));

/// A runtime class whose overhead and nodes are not filled in.
static RUNTIME_CLASS: Choice = Choice {
    options: &[
        ("stored, or beside overhead", Ignored("the API server has filled in what it asks for")),
        ("written without", Refused("its overhead and its nodes are not filled in")),
    ],
    pick: |spot, mode| {
        let overhead = spot.above(1).and_then(|spec| spec.entry("overhead"));
        usize::from(mode == Mode::AsWritten && overhead.is_none())
    },
};

/// A rule by which a container's end restarts all of them: nodes of 1.35 and later declare it.
static RESTART_RULE: Choice = Choice {
    options: &[("RestartAllContainers", Refused(FEATURES)), ("any other", Silent)],
    pick: |spot, _| {
        let action = spot.value.entry("action").and_then(Value::text);
        usize::from(action != Some("RestartAllContainers"))
    },
};

/// A user namespace of a pod, which not every node can have on its own network.
static HOST_USERS: Choice = Choice {
    options: &[("false on the host's network", Refused(FEATURES)), ("else", Silent)],
    pick: |spot, _| {
        let on_host = spot.above(1).and_then(|spec| spec.entry("hostNetwork"));
        let apart = *spot.value == Value::Bool(false);
        usize::from(!apart || on_host != Some(&Value::Bool(true)))
    },
};

/// The operating system of a pod, by which kubelet refuses it.
static OS: Choice = Choice {
    options: &[
        ("linux", Holds("nodes run Linux if nothing else is said of them")),
        ("any other", Refused("kubelet alone looks at it: a node selector says where it runs")),
    ],
    pick: |spot, _| usize::from(spot.value.text() != Some("linux")),
};

const SCHEDULER: &str = "the embedder says whose pods it places";

/// The specification of pods.
const POD_SPEC: Rule = Fields(&[
    ("containers", CONTAINERS),
    ("initContainers", INIT_CONTAINERS),
    ("nodeName", Honoured),
    ("nodeSelector", Each(&Honoured)),
    ("affinity", AFFINITY),
    ("tolerations", TOLERATIONS),
    ("topologySpreadConstraints", SPREAD),
    ("schedulerName", Ignored(SCHEDULER)),
    ("priority", Honoured),
    ("priorityClassName", Honoured),
    ("preemptionPolicy", Honoured),
    ("schedulingGates", Honoured),
    ("schedulingGroup", Fields(&[("podGroupName", Honoured)])),
    ("workloadRef", Whole(&[("name", Part), ("podGroup", Part), ("podGroupReplicaKey", Part)])),
    ("overhead", Each(&Honoured)),
    ("resources", RESOURCES),
    ("hostNetwork", HOST_NETWORK),
    ("resourceClaims", CLAIMS),
    ("runtimeClassName", ByChoice(&RUNTIME_CLASS)),
    ("volumes", VOLUMES),
    ("hostUsers", ByChoice(&HOST_USERS)),
    ("activeDeadlineSeconds", Silent),
    ("automountServiceAccountToken", Silent),
    ("dnsConfig", Silent),
    ("dnsPolicy", Silent),
    ("enableServiceLinks", Silent),
    ("ephemeralContainers", Silent),
    ("evictionInterceptors", Silent),
    ("hostAliases", Silent),
    ("hostIPC", Silent),
    ("hostPID", Silent),
    ("hostname", Silent),
    ("hostnameOverride", Silent),
    ("imagePullSecrets", Silent),
    ("os", Fields(&[("name", ByChoice(&OS))])),
    ("readinessGates", Silent),
    ("restartPolicy", Silent),
    ("securityContext", Silent),
    ("serviceAccount", Silent),
    ("serviceAccountName", Silent),
    ("setHostnameAsFQDN", Silent),
    ("shareProcessNamespace", Silent),
    ("subdomain", Silent),
    ("terminationGracePeriodSeconds", Silent),
]);

static ON_HOST: Choice = Choice {
    options: &[("true", Honoured), ("false", Silent)],
    pick: |spot, _| usize::from(*spot.value != Value::Bool(true)),
};
pub(super) const HOST_NETWORK: Rule = ByChoice(&ON_HOST);

/// A template of pods.
pub(super) static POD_TEMPLATE: Table = Table {
    name: "pod template",
    rule: Fields(&[
        ("metadata", Metadata(&POD_LABEL_KEYS, &POD_ANNOTATION_KEYS)),
        ("spec", POD_SPEC),
        // Templates are often copied from a pod.
        ("apiVersion", Silent),
        ("kind", Silent),
        ("status", Silent),
    ]),
};

const ACTUAL: &str = "a watch reads it; in manifests taints say so";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "Pod",
        fields: &[
            ("metadata", Metadata(&POD_LABEL_KEYS, &POD_ANNOTATION_KEYS)),
            ("spec", POD_SPEC),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "Node",
        fields: &[
            ("metadata", Metadata(&ANY_LABEL, &NODE_ANNOTATION_KEYS)),
            (
                "spec",
                Fields(&[
                    (
                        "taints",
                        Whole(&[
                            ("key", Part),
                            ("value", Part),
                            ("effect", Part),
                            ("timeAdded", Silent),
                        ]),
                    ),
                    ("unschedulable", Honoured),
                    ("podCIDR", Silent),
                    ("podCIDRs", Silent),
                    ("providerID", Silent),
                    ("configSource", Silent),
                    ("externalID", Silent),
                ]),
            ),
            (
                "status",
                Fields(&[
                    ("capacity", Each(&Honoured)),
                    ("allocatable", Each(&Honoured)),
                    ("images", Honoured),
                    ("conditions", Ignored(ACTUAL)),
                    ("declaredFeatures", Ignored(FEATURES)),
                    ("features", Silent),
                    ("addresses", Silent),
                    ("config", Silent),
                    ("daemonEndpoints", Silent),
                    ("nodeInfo", Silent),
                    ("phase", Silent),
                    ("runtimeHandlers", Silent),
                    ("volumesAttached", Silent),
                    ("volumesInUse", Silent),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "Namespace",
        fields: &[("metadata", Metadata(&ANY_LABEL, &NAMESPACE_ANNOTATION_KEYS)), ("spec", Silent)],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "Service",
        fields: &[("metadata", Metadata(&PLAIN, &PLAIN)), ("spec", Fields(SERVICE))],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &["scheduling.k8s.io"],
        kind: "PriorityClass",
        fields: CLASS,
    },
    Kind {
        dialect: "Kueue",
        groups: &["kueue.x-k8s.io"],
        kind: "WorkloadPriorityClass",
        fields: CLASS,
    },
    Kind {
        dialect: "Kubernetes",
        groups: &["policy"],
        kind: "PodDisruptionBudget",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            ("spec", Each(&Ignored("budgets keep pods from eviction: a watch reads them"))),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "LimitRange",
        fields: &[("metadata", Metadata(&PLAIN, &PLAIN)), ("spec", ByChoice(&LIMIT_RANGE))],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "ResourceQuota",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            ("spec", Each(&Ignored("it holds for pods that are made, not for those that exist"))),
        ],
    },
];

static LIMIT_RANGE: Choice = Choice {
    options: &[
        ("stored", Holds("the API server has applied it to pods")),
        ("written", Refused("defaults of a namespace are not applied: its pods are left alone")),
    ],
    pick: |_, mode| usize::from(mode == Mode::AsWritten),
};

const CLASS: &[Entry] = &[
    ("metadata", Metadata(&PLAIN, &CLASS_ANNOTATIONS)),
    ("value", Honoured),
    ("globalDefault", Honoured),
    ("preemptionPolicy", Ignored("of pods their own policy counts, which the API server fills in")),
    ("description", Silent),
];

static CLASS_ANNOTATIONS: Keys = Keys {
    name: "class annotations",
    known: &[],
    prefixes: &[&[
        ("preemption-toleration.scheduling.", Ignored("it says who is evicted, not where pods go")),
        ("yunikorn.apache.org/", Ignored("it says who is evicted, not where pods go")),
        ("kueue.x-k8s.io/", Ignored("it says who is evicted, not where pods go")),
    ]],
    other: Silent,
};

const SERVICE: &[Entry] = &[
    ("selector", Honoured),
    ("ports", Silent),
    ("type", Silent),
    ("clusterIP", Silent),
    ("clusterIPs", Silent),
    ("externalIPs", Silent),
    ("externalName", Silent),
    ("externalTrafficPolicy", Silent),
    ("internalTrafficPolicy", Silent),
    ("healthCheckNodePort", Silent),
    ("ipFamilies", Silent),
    ("ipFamilyPolicy", Silent),
    ("allocateLoadBalancerNodePorts", Silent),
    ("loadBalancerClass", Silent),
    ("loadBalancerIP", Silent),
    ("loadBalancerSourceRanges", Silent),
    ("publishNotReadyAddresses", Silent),
    ("sessionAffinity", Silent),
    ("sessionAffinityConfig", Silent),
    ("topologyKeys", Silent),
    ("trafficDistribution", Silent),
];

//! Applications of Spark's operator.

use super::keys::{POD_ANNOTATION_KEYS, POD_LABEL_KEYS};
use super::pods::{AFFINITY, CONTAINERS, HOST_NETWORK, INIT_CONTAINERS, TOLERATIONS};
use super::rule::Rule::{
    Choice as ByChoice, Each, Fields, Holds, Honoured, Ignored, Keys as ByKeys, Refused, Silent,
};
use super::rule::{Choice, Entry, Keys, Kind};
use super::workloads::{METADATA, TEMPLATE};
use crate::kubernetes::value::Value;

const CONF: &str = "settings of Spark by which pods are made are not read";
const MOUNTED: &str = "which pods mount it is not read";
const LATER: &str = "executors that come later are pods of their own";
const EXACT: &str = "placement is exact: the pods needed have room for what they ask";

/// Settings of Spark, of which some say how pods are made.
static SPARK_CONF: Keys = Keys {
    name: "Spark settings",
    known: &[&[
        ("spark.driver.memory", Refused(CONF)),
        ("spark.driver.cores", Refused(CONF)),
        ("spark.driver.memoryOverhead", Refused(CONF)),
        ("spark.driver.memoryOverheadFactor", Refused(CONF)),
        ("spark.executor.memory", Refused(CONF)),
        ("spark.executor.cores", Refused(CONF)),
        ("spark.executor.instances", Refused(CONF)),
        ("spark.executor.memoryOverhead", Refused(CONF)),
        ("spark.executor.memoryOverheadFactor", Refused(CONF)),
        ("spark.executor.pyspark.memory", Refused(CONF)),
        ("spark.kubernetes.namespace", Silent),
        ("spark.kubernetes.allocation.batch.size", Silent),
        ("spark.kubernetes.authenticate.driver.serviceAccountName", Silent),
    ]],
    prefixes: &[&[
        ("spark.kubernetes.container.image", Silent),
        ("spark.kubernetes.submission.", Silent),
        ("spark.kubernetes.file.upload.", Silent),
        ("spark.kubernetes.", Refused(CONF)),
        ("spark.driver.resource.", Refused(CONF)),
        ("spark.executor.resource.", Refused(CONF)),
        ("spark.dynamicAllocation.", Refused(CONF)),
        ("spark.memory.offHeap.", Refused(CONF)),
    ]],
    other: Silent,
};

/// A volume that a pod may mount.
static VOLUME: Choice = Choice {
    options: &[
        ("on the node, or of a ConfigMap or a Secret", Silent),
        ("any other", Refused(MOUNTED)),
    ],
    pick: |spot, _| {
        const PLAIN: [&str; 8] = [
            "name",
            "hostPath",
            "emptyDir",
            "configMap",
            "secret",
            "projected",
            "downwardAPI",
            "nfs",
        ];
        let Value::Map(entries) = spot.value else { return 1 };
        usize::from(!entries.iter().all(|(name, _)| PLAIN.contains(&name.as_str())))
    },
};

/// The driver or the executors.
macro_rules! role {
    ($($own:expr),* $(,)?) => {
        Fields(&[
            ("template", TEMPLATE),
            ("cores", Honoured),
            ("coreRequest", Honoured),
            ("coreLimit", Holds("the request counts, which stands beside it")),
            ("memory", Honoured),
            ("memoryOverhead", Honoured),
            ("gpu", Fields(&[("name", Honoured), ("quantity", Honoured)])),
            ("image", Honoured),
            ("labels", ByKeys(&POD_LABEL_KEYS)),
            ("annotations", ByKeys(&POD_ANNOTATION_KEYS)),
            ("affinity", AFFINITY),
            ("tolerations", TOLERATIONS),
            ("nodeSelector", Each(&Honoured)),
            ("schedulerName", Ignored("the embedder says whose pods it places")),
            ("priorityClassName", Honoured),
            ("hostNetwork", HOST_NETWORK),
            ("sidecars", CONTAINERS),
            ("initContainers", INIT_CONTAINERS),
            ("runtimeClassName", Refused("its overhead and its nodes are not filled in")),
            ("configMaps", Silent),
            ("secrets", Silent),
            ("env", Silent),
            ("envVars", Silent),
            ("envFrom", Silent),
            ("envSecretKeyRefs", Silent),
            ("volumeMounts", Silent),
            ("podSecurityContext", Silent),
            ("securityContext", Silent),
            ("dnsConfig", Silent),
            ("terminationGracePeriodSeconds", Silent),
            ("serviceAccount", Silent),
            ("hostAliases", Silent),
            ("shareProcessNamespace", Silent),
            ("javaOptions", Silent),
            ("lifecycle", Silent),
            ("ports", Silent),
            $($own),*
        ])
    };
}

const SPEC: &[Entry] = &[
    ("type", Honoured),
    (
        "driver",
        role!(
            ("podName", Silent),
            ("kubernetesMaster", Silent),
            ("serviceAnnotations", Silent),
            ("serviceLabels", Silent)
        ),
    ),
    ("executor", role!(("instances", Honoured), ("deleteOnTermination", Silent))),
    (
        "dynamicAllocation",
        Fields(&[
            ("enabled", Honoured),
            ("initialExecutors", Honoured),
            ("minExecutors", Honoured),
            ("maxExecutors", Holds(LATER)),
            ("shuffleTrackingEnabled", Silent),
            ("shuffleTrackingTimeout", Silent),
        ]),
    ),
    ("memoryOverheadFactor", Honoured),
    ("nodeSelector", Each(&Honoured)),
    ("sparkConf", ByKeys(&SPARK_CONF)),
    ("volumes", ByChoice(&VOLUME)),
    ("suspend", Honoured),
    ("mode", ByChoice(&MODE)),
    ("batchScheduler", Ignored("the embedder says whose pods it places")),
    (
        "batchSchedulerOptions",
        Fields(&[
            ("queue", Honoured),
            ("priorityClassName", Honoured),
            ("resources", Holds(EXACT)),
        ]),
    ),
    ("image", Honoured),
    ("arguments", Silent),
    ("deps", Silent),
    ("driverIngressOptions", Silent),
    ("failureRetries", Silent),
    ("hadoopConf", Silent),
    ("hadoopConfigMap", Silent),
    ("imagePullPolicy", Silent),
    ("imagePullSecrets", Silent),
    ("mainApplicationFile", Silent),
    ("mainClass", Silent),
    ("monitoring", Silent),
    ("proxyUser", Silent),
    ("pythonVersion", Silent),
    ("restartPolicy", Silent),
    ("retryInterval", Silent),
    ("sparkConfigMap", Silent),
    ("sparkUIOptions", Silent),
    ("sparkVersion", Silent),
    ("timeToLiveSeconds", Silent),
];

/// Where the driver runs.
static MODE: Choice = Choice {
    options: &[("cluster", Silent), ("any other", Refused("the driver runs elsewhere"))],
    pick: |spot, _| usize::from(!matches!(spot.value.text(), None | Some("" | "cluster"))),
};

pub(super) const KINDS: &[Kind] = &[Kind {
    dialect: "Spark",
    groups: &["sparkoperator.k8s.io"],
    kind: "SparkApplication",
    fields: &[("metadata", METADATA), ("spec", Fields(SPEC))],
}];

//! Storage: claims, volumes, classes, drivers and what is left of pools.

use super::dialects::PLAIN;
use super::parts::{ANY_LABEL, FEATURES, NODE_TERM};
use super::rule::Rule::{
    Choice as ByChoice, Fields, Holds, Honoured, Metadata, Part, Refused, Silent, Table as ByTable,
    Whole,
};
use super::rule::{Choice, Entry, Keys, Kind, Rule, Table};
use crate::kubernetes::value::Value;

const MIGRATED: &str = "volumes that a driver serves in place of a plug-in are not counted";
const UNCOUNTED: &str = "kube-scheduler counts no volume of this plug-in";
const WRITTEN: &str = "a controller writes it";
const INLINE: &str = "it has no object, and no limit of volumes counts it";
const AFFINITY: &str = "it is mounted wherever the volume's node affinity allows";
const PROVISIONED: &str = "its driver reads it, not the scheduler";
const ATTACHED: &str = "attached volumes without an object are not counted";

/// Specification of a volume claim.
macro_rules! claim_spec {
    ($($own:expr),* $(,)?) => {
        Fields(&[
            ("accessModes", Honoured),
            (
                "resources",
                Fields(&[
                    ("requests", Fields(&[("storage", Honoured)])),
                    ("limits", Silent),
                ]),
            ),
            ("storageClassName", Honoured),
            ("volumeMode", Honoured),
            ("volumeAttributesClassName", Honoured),
            ("selector", WHOLE_SELECTOR),
            ("dataSource", Holds(PROVISIONED)),
            ("dataSourceRef", Holds(PROVISIONED)),
            $($own),*
        ])
    };
}

const WHOLE_SELECTOR: Rule = Whole(&[
    ("matchLabels", Rule::Each(&Part)),
    ("matchExpressions", Fields(&[("key", Part), ("operator", Part), ("values", Part)])),
]);

static CLAIM_ANNOTATIONS: Keys = Keys {
    name: "volume claim annotations",
    known: &[&[
        ("volume.beta.kubernetes.io/storage-class", Honoured),
        ("pv.kubernetes.io/bind-completed", Honoured),
        ("volume.kubernetes.io/selected-node", Honoured),
    ]],
    prefixes: &[&[
        ("pv.kubernetes.io/", Holds(WRITTEN)),
        ("volume.kubernetes.io/", Holds(WRITTEN)),
        ("volume.beta.kubernetes.io/", Holds(WRITTEN)),
    ]],
    other: Silent,
};

/// A template of claims, of a pod or of a workload.
pub(super) static VOLUME_CLAIM: Table = Table {
    name: "volume claim template",
    rule: Fields(&[
        ("metadata", Metadata(&PLAIN, &CLAIM_ANNOTATIONS)),
        ("spec", claim_spec!(("volumeName", Refused("a template names no volume")))),
        ("apiVersion", Silent),
        ("kind", Silent),
        ("status", Silent),
    ]),
};

const ATTACH: &str = "volumes are placed by their nodes and counts either way";

// Sources of volumes that pods and persistent volumes write alike.
const AWS: Rule = Fields(&[
    ("volumeID", Honoured),
    ("fsType", Silent),
    ("partition", Silent),
    ("readOnly", Silent),
]);
const AZURE: Rule = Fields(&[
    ("diskURI", Honoured),
    ("diskName", Silent),
    ("cachingMode", Silent),
    ("fsType", Silent),
    ("kind", Silent),
    ("readOnly", Silent),
]);
const CINDER: Rule = Fields(&[
    ("volumeID", Honoured),
    ("fsType", Silent),
    ("readOnly", Silent),
    ("secretRef", Silent),
]);
const PORTWORX: Rule = Fields(&[("volumeID", Honoured), ("fsType", Silent), ("readOnly", Silent)]);

/// The volumes of a pod.
pub(super) const VOLUMES: Rule = Fields(&[
    ("name", Silent),
    ("image", Honoured),
    ("persistentVolumeClaim", Fields(&[("claimName", Honoured), ("readOnly", Silent)])),
    ("ephemeral", Fields(&[("volumeClaimTemplate", ByTable(&VOLUME_CLAIM))])),
    ("csi", Holds(INLINE)),
    ("awsElasticBlockStore", AWS),
    ("azureDisk", AZURE),
    ("cinder", CINDER),
    (
        "gcePersistentDisk",
        Fields(&[
            ("pdName", Honoured),
            ("readOnly", Honoured),
            ("fsType", Silent),
            ("partition", Silent),
        ]),
    ),
    (
        "iscsi",
        Fields(&[
            ("iqn", Honoured),
            ("readOnly", Honoured),
            ("targetPortal", Silent),
            ("portals", Silent),
            ("lun", Silent),
            ("fsType", Silent),
            ("iscsiInterface", Silent),
            ("chapAuthDiscovery", Silent),
            ("chapAuthSession", Silent),
            ("secretRef", Silent),
            ("initiatorName", Silent),
        ]),
    ),
    (
        "rbd",
        Fields(&[
            ("monitors", Honoured),
            ("image", Honoured),
            ("pool", Honoured),
            ("readOnly", Honoured),
            ("fsType", Silent),
            ("user", Silent),
            ("keyring", Silent),
            ("secretRef", Silent),
        ]),
    ),
    ("emptyDir", Silent),
    ("hostPath", Silent),
    ("configMap", Silent),
    ("secret", Silent),
    ("projected", Silent),
    ("downwardAPI", Silent),
    ("nfs", Silent),
    ("azureFile", Silent),
    ("cephfs", Silent),
    ("glusterfs", Silent),
    ("fc", Silent),
    ("flexVolume", Silent),
    ("flocker", Silent),
    ("gitRepo", Silent),
    ("quobyte", Silent),
    ("scaleIO", Silent),
    ("storageos", Silent),
    ("portworxVolume", PORTWORX),
    ("vsphereVolume", Holds(UNCOUNTED)),
    ("photonPersistentDisk", Silent),
]);

/// Whether pods keep off nodes that lack the driver.
static IF_MISSING: Choice = Choice {
    options: &[("true", Refused(FEATURES)), ("false", Silent)],
    pick: |spot, _| usize::from(*spot.value != Value::Bool(true)),
};

static VOLUME_ANNOTATIONS: Keys = Keys {
    name: "volume annotations",
    known: &[&[("volume.beta.kubernetes.io/storage-class", Honoured)]],
    prefixes: &[&[
        ("pv.kubernetes.io/", Holds(WRITTEN)),
        ("volume.kubernetes.io/", Holds(WRITTEN)),
    ]],
    other: Silent,
};

static CLASS_ANNOTATIONS: Keys = Keys {
    name: "storage class annotations",
    known: &[&[("storageclass.kubernetes.io/is-default-class", Honoured)]],
    prefixes: &[],
    other: Silent,
};

static LIMIT_ANNOTATIONS: Keys = Keys {
    name: "attach limit annotations",
    known: &[&[("storage.alpha.kubernetes.io/migrated-plugins", Honoured)]],
    prefixes: &[],
    other: Silent,
};

const VOLUME: &[Entry] = &[
    ("capacity", Fields(&[("storage", Honoured)])),
    ("accessModes", Honoured),
    ("storageClassName", Honoured),
    ("volumeMode", Honoured),
    ("volumeAttributesClassName", Honoured),
    ("nodeAffinity", Fields(&[("required", Whole(&[("nodeSelectorTerms", Fields(NODE_TERM))]))])),
    (
        "claimRef",
        Fields(&[
            ("namespace", Honoured),
            ("name", Honoured),
            ("uid", Honoured),
            ("apiVersion", Silent),
            ("kind", Silent),
            ("resourceVersion", Silent),
            ("fieldPath", Silent),
        ]),
    ),
    (
        "csi",
        Fields(&[
            ("driver", Honoured),
            ("volumeHandle", Honoured),
            ("readOnly", Silent),
            ("fsType", Silent),
            ("volumeAttributes", Silent),
            ("controllerPublishSecretRef", Silent),
            ("controllerExpandSecretRef", Silent),
            ("nodeStageSecretRef", Silent),
            ("nodePublishSecretRef", Silent),
            ("nodeExpandSecretRef", Silent),
        ]),
    ),
    ("awsElasticBlockStore", AWS),
    ("azureDisk", AZURE),
    ("azureFile", Refused(MIGRATED)),
    ("cinder", CINDER),
    (
        "gcePersistentDisk",
        Fields(&[
            ("pdName", Honoured),
            ("readOnly", Silent),
            ("fsType", Silent),
            ("partition", Silent),
        ]),
    ),
    ("portworxVolume", PORTWORX),
    ("vsphereVolume", Refused(MIGRATED)),
    ("persistentVolumeReclaimPolicy", Holds("it says what becomes of a volume that is free")),
    ("mountOptions", Holds(PROVISIONED)),
    ("hostPath", Holds(AFFINITY)),
    ("local", Holds(AFFINITY)),
    ("nfs", Holds(AFFINITY)),
    ("iscsi", Holds(AFFINITY)),
    ("rbd", Holds(AFFINITY)),
    ("fc", Holds(AFFINITY)),
    ("cephfs", Holds(AFFINITY)),
    ("glusterfs", Holds(AFFINITY)),
    ("flexVolume", Holds(AFFINITY)),
    ("flocker", Holds(AFFINITY)),
    ("photonPersistentDisk", Holds(AFFINITY)),
    ("quobyte", Holds(AFFINITY)),
    ("scaleIO", Holds(AFFINITY)),
    ("storageos", Holds(AFFINITY)),
];

const STORAGE: &[&str] = &["storage.k8s.io"];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "PersistentVolume",
        fields: &[
            ("metadata", Metadata(&ANY_LABEL, &VOLUME_ANNOTATIONS)),
            ("spec", Fields(VOLUME)),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &[""],
        kind: "PersistentVolumeClaim",
        fields: &[
            ("metadata", Metadata(&PLAIN, &CLAIM_ANNOTATIONS)),
            ("spec", claim_spec!(("volumeName", Honoured))),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: STORAGE,
        kind: "StorageClass",
        fields: &[
            ("metadata", Metadata(&PLAIN, &CLASS_ANNOTATIONS)),
            ("provisioner", Honoured),
            ("volumeBindingMode", Honoured),
            (
                "allowedTopologies",
                Whole(&[("matchLabelExpressions", Fields(&[("key", Part), ("values", Part)]))]),
            ),
            ("parameters", Holds(PROVISIONED)),
            ("reclaimPolicy", Holds(PROVISIONED)),
            ("allowVolumeExpansion", Holds(PROVISIONED)),
            ("mountOptions", Holds(PROVISIONED)),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: STORAGE,
        kind: "CSIDriver",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            (
                "spec",
                Fields(&[
                    ("storageCapacity", Honoured),
                    ("preventPodSchedulingIfMissing", ByChoice(&IF_MISSING)),
                    ("attachRequired", Holds(ATTACH)),
                    ("podInfoOnMount", Silent),
                    ("fsGroupPolicy", Silent),
                    ("tokenRequests", Silent),
                    ("requiresRepublish", Silent),
                    ("seLinuxMount", Silent),
                    ("volumeLifecycleModes", Holds(ATTACH)),
                    ("nodeAllocatableUpdatePeriodSeconds", Silent),
                    ("serviceAccountTokenInSecrets", Silent),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: STORAGE,
        kind: "CSINode",
        fields: &[
            ("metadata", Metadata(&PLAIN, &LIMIT_ANNOTATIONS)),
            (
                "spec",
                Fields(&[(
                    "drivers",
                    Whole(&[
                        ("name", Part),
                        ("nodeID", Silent),
                        ("topologyKeys", Silent),
                        ("allocatable", Fields(&[("count", Part)])),
                    ]),
                )]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: STORAGE,
        kind: "CSIStorageCapacity",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            ("storageClassName", Honoured),
            ("nodeTopology", WHOLE_SELECTOR),
            ("capacity", Honoured),
            ("maximumVolumeSize", Honoured),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: STORAGE,
        kind: "VolumeAttachment",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            (
                "spec",
                Fields(&[
                    ("attacher", Honoured),
                    ("nodeName", Honoured),
                    (
                        "source",
                        Fields(&[
                            ("persistentVolumeName", Honoured),
                            ("inlineVolumeSpec", Refused(ATTACHED)),
                        ]),
                    ),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: STORAGE,
        kind: "VolumeAttributesClass",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            ("driverName", Holds(PROVISIONED)),
            ("parameters", Holds(PROVISIONED)),
        ],
    },
];

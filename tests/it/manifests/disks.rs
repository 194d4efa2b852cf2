//! Persistent volumes of plug-ins, as the drivers have them that stand in for the plug-ins.

use phalanx::kubernetes::Manifests;
use phalanx::model::{MigratedVolume, Volume};
use phalanx::state::StorageObject;

use super::claims::placed;
use super::reading::written;

/// A node with labels, plug-ins that have migrated, and a limit of volumes of Amazon's driver.
fn node(labels: &str, plugins: &str, limit: usize) -> String {
    format!(
        "---
apiVersion: v1
kind: Node
metadata: {{name: n0, labels: {{{labels}}}}}
status: {{allocatable: {{cpu: 8, pods: 9}}}}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata:
  name: n0
  annotations: {{storage.alpha.kubernetes.io/migrated-plugins: '{plugins}'}}
spec:
  drivers: [{{name: ebs.csi.aws.com, nodeID: n0, allocatable: {{count: {limit}}}}}]
"
    )
}

/// A volume, the claim that is bound to it, and the pod of the claim.
fn disk(labels: &str, source: &str, more: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk, labels: {{{labels}}}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  claimRef: {{namespace: default, name: data}}
  {source}
  {more}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, annotations: {{pv.kubernetes.io/bind-completed: 'yes'}}}}
spec: {{volumeName: disk, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers: [{{name: c}}]
  volumes: [{{name: v, persistentVolumeClaim: {{claimName: data}}}}]
"
    )
}

const EBS: &str = "awsElasticBlockStore: {volumeID: 'aws://z1/vol-1'}";
const ZONE: &str = "topology.kubernetes.io/zone: z1";
const DRIVER_ZONE: &str = "topology.ebs.csi.aws.com/zone: z1";
const MIGRATED: &str = "kubernetes.io/aws-ebs";

fn is_placed(text: &str) -> bool {
    let manifests = written(text).unwrap();
    assert!(manifests.groups[0].pods[0].scheduling_gates.is_empty(), "{text}");
    placed(&manifests).is_ok()
}

#[test]
fn volumes_of_plug_ins_are_where_their_drivers_say() {
    let both = format!("{ZONE}, {DRIVER_ZONE}");
    let other = format!("{ZONE}, topology.ebs.csi.aws.com/zone: z2");
    for (labels, plugins, limit, fits) in [
        // Where the plug-in has not migrated, common labels count, and no limit does.
        (ZONE, "", 0, true),
        ("topology.kubernetes.io/zone: z2", "", 9, false),
        // Where it has, the driver's label counts beside the common one, and the limit.
        (&*both, MIGRATED, 1, true),
        (&*both, MIGRATED, 0, false),
        (ZONE, MIGRATED, 9, false),
        (&*other, MIGRATED, 9, false),
        (&*both, "kubernetes.io/gce-pd", 0, true),
    ] {
        let text = format!("{}{}", node(labels, plugins, limit), disk(ZONE, EBS, ""));
        assert_eq!(is_placed(&text), fits, "{labels} {plugins} {limit}");
    }
    // An affinity with a zone goes before labels.
    let affinity = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: failure-domain.beta.kubernetes.io/zone, operator: In, values: [z1]}]}]}}";
    for (labels, plugins, fits) in [
        (DRIVER_ZONE, MIGRATED, true),
        ("topology.ebs.csi.aws.com/zone: z2", MIGRATED, false),
        ("failure-domain.beta.kubernetes.io/zone: z1", MIGRATED, false),
        ("failure-domain.beta.kubernetes.io/zone: z1", "", true),
    ] {
        let text = format!("{}{}", node(labels, plugins, 9), disk("", EBS, affinity));
        assert_eq!(is_placed(&text), fits, "{labels} {plugins}");
    }
}

#[test]
fn each_plug_in_has_its_driver_and_its_names() {
    let volume = |labels: &str, source: &str| -> Volume {
        let manifests: Manifests = written(&disk(labels, source, "")).unwrap();
        let found = manifests.storage.into_iter().find_map(|object| match object {
            StorageObject::Volume(volume) => Some(volume),
            _ => None,
        });
        found.unwrap()
    };
    let zones = "topology.kubernetes.io/zone: eu-west1-b__eu-west1-c";
    let gce = "gcePersistentDisk: {pdName: d}";
    for (labels, source, plugin, driver, handle) in [
        ("", EBS, MIGRATED, "ebs.csi.aws.com", "vol-1"),
        (
            "",
            gce,
            "kubernetes.io/gce-pd",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        (
            ZONE,
            gce,
            "kubernetes.io/gce-pd",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/z1/disks/d",
        ),
        (
            zones,
            gce,
            "kubernetes.io/gce-pd",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/eu-west1/disks/d",
        ),
        (
            "",
            "azureDisk: {diskName: d, diskURI: /disks/d}",
            "kubernetes.io/azure-disk",
            "disk.csi.azure.com",
            "/disks/d",
        ),
        ("", "cinder: {volumeID: c}", "kubernetes.io/cinder", "cinder.csi.openstack.org", "c"),
        (
            "",
            "portworxVolume: {volumeID: p}",
            "kubernetes.io/portworx-volume",
            "pxd.portworx.com",
            "p",
        ),
    ] {
        let expected = MigratedVolume::new(plugin, driver, handle);
        let found = volume(labels, source).migrated.unwrap();
        assert_eq!((found.plugin, found.volume), (expected.plugin, expected.volume), "{source}");
        assert_eq!(found.node_affinity.is_none(), labels.is_empty(), "{source}");
    }
}

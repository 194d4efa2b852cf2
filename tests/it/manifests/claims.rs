//! Devices by claim and volumes from manifests: what they ask is in force, or named.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::claims::Cel;
use phalanx::kubernetes::Manifests;
use phalanx::model::{ClaimSource, PodVolume};
use phalanx::plugins::DynamicResources;
use phalanx::state::{ClaimObject, StorageObject};
use phalanx::{Cluster, Framework, Outcome, explain, place_gang, reference};

use super::reading::{stored, written};

const CLASS: &str = "
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == \"gpu.example.com\"'}}]}
";

/// A node with so many devices, two to an island.
fn node(name: &str, devices: usize) -> String {
    let device =
        |at: usize| format!("{{name: gpu-{at}, attributes: {{island: {{int: {}}}}}}}", at / 2);
    let devices: Vec<String> = (0..devices).map(device).collect();
    format!(
        "---
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: 32, pods: 20}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}-gpus}}
spec:
  driver: gpu.example.com
  nodeName: {name}
  pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}
  devices: [{}]
",
        devices.join(", ")
    )
}

fn template(count: usize, more: &str) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: gpus}}
spec: {{spec: {{devices: {{requests: [{{name: gpus, exactly: {{deviceClassName: gpu, count: {count}}}}}]{more}}}}}}}
"
    )
}

fn job(pods: usize) -> String {
    format!(
        "---
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  completionMode: Indexed
  parallelism: {pods}
  completions: {pods}
  template:
    spec:
      resourceClaims: [{{name: gpus, resourceClaimTemplateName: gpus}}]
      containers: [{{name: c, resources: {{requests: {{cpu: 1}}, claims: [{{name: gpus}}]}}}}]
"
    )
}

/// Places every group; the devices of each pod by node, or why a group was not placed.
pub(super) fn placed(
    manifests: &Manifests,
) -> Result<BTreeMap<String, Vec<(String, String)>>, String> {
    let mut cluster = Cluster::builder().levels(manifests.levels.clone()).build().unwrap();
    for node in &manifests.nodes {
        cluster.add_node(node.clone()).unwrap();
    }
    for object in &manifests.storage {
        cluster.set_storage(object.clone()).unwrap();
    }
    for object in &manifests.claims {
        cluster.set_claim_object(object.clone()).unwrap();
    }
    let builder = DynamicResources::add_to(Framework::kubernetes().to_builder(), Cel);
    let framework = builder.build().unwrap();
    let mut pods = BTreeMap::new();
    for group in &manifests.groups {
        let outcome = place_gang(&cluster, &framework, group).unwrap();
        let Outcome::Placed(plan) = &outcome else {
            let gates: BTreeSet<String> =
                group.all_pods().iter().flat_map(|pod| pod.scheduling_gates.clone()).collect();
            let report = explain(&cluster, &framework, group, None);
            return Err(format!("{outcome} {gates:?} {report:?}"));
        };
        reference::is_sound(plan, group, &cluster, &framework).unwrap();
        for own in plan.assignments() {
            let devices = own.allocations().iter().flat_map(|own| &own.allocation.devices);
            let devices = devices.map(|device| (own.node().to_owned(), device.device.clone()));
            pods.insert(own.pod().name.clone(), devices.collect());
        }
        cluster.commit(&framework, plan).unwrap();
    }
    Ok(pods)
}

#[test]
fn pods_of_a_job_have_a_claim_each_of_its_template() {
    let nodes = format!("{}{}", node("a", 4), node("b", 4));
    let text = |pods, count, more| format!("{CLASS}{nodes}{}{}", template(count, more), job(pods));
    let island = ", constraints: [{matchAttribute: gpu.example.com/island}]";
    let manifests = written(&text(4, 2, island)).unwrap();
    assert!(manifests.notes.is_empty(), "{:?}", manifests.notes);
    // All pods share a shape, and what it claims.
    let shapes: BTreeSet<usize> = manifests.groups[0]
        .all_pods()
        .iter()
        .map(|pod| std::sync::Arc::as_ptr(pod.shape()) as usize)
        .collect();
    assert_eq!(shapes.len(), 1);
    let pods = placed(&manifests).unwrap();
    let devices: BTreeSet<&(String, String)> = pods.values().flatten().collect();
    assert_eq!((pods.len(), devices.len()), (4, 8));
    for devices in pods.values() {
        let island =
            |at: usize| devices[at].1.strip_prefix("gpu-").unwrap().parse::<u32>().unwrap() / 2;
        assert_eq!((devices.len(), island(0)), (2, island(1)), "{devices:?}");
    }
    // One pod more than there are islands, and one device more than an island has.
    assert!(placed(&written(&text(5, 2, island)).unwrap()).is_err());
    let reason = placed(&written(&text(1, 3, island)).unwrap()).unwrap_err();
    assert!(reason.contains("DynamicResources"), "{reason}");
    assert!(placed(&written(&text(1, 3, "")).unwrap()).is_ok());
}

const GROUP: &str = "---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: g}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  resourceClaims: [{name: channel, resourceClaimTemplateName: gpus}]
";

fn member(name: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  schedulingGroup: {{podGroupName: g}}
  resourceClaims: [{{name: channel, resourceClaimTemplateName: gpus}}]
  containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]
"
    )
}

#[test]
fn members_share_the_claim_of_their_group() {
    let members = format!("{}{}", member("p0"), member("p1"));
    let all = format!("{CLASS}{}{}{}", node("a", 4), node("b", 4), template(3, ""));
    let manifests = written(&format!("{all}{GROUP}{members}")).unwrap();
    let claims = manifests.claims.iter().filter(|of| matches!(of, ClaimObject::Claim(_)));
    assert_eq!(claims.count(), 1);
    // Devices of one node: both go there.
    let pods = placed(&manifests).unwrap();
    assert_eq!(pods.values().flatten().count(), 3, "{pods:?}");
    // Without the entry of the group each has its own.
    let own =
        GROUP.replace("  resourceClaims: [{name: channel, resourceClaimTemplateName: gpus}]\n", "");
    let pods = placed(&written(&format!("{all}{own}{members}")).unwrap()).unwrap();
    assert_eq!(pods.values().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn what_is_missing_or_refused_of_a_claim_is_named_on_the_pods() {
    let gates = |text: &str| {
        let manifests = written(text).unwrap();
        let pods = manifests.groups.iter().flat_map(|group| group.all_pods());
        pods.flat_map(|pod| pod.scheduling_gates.clone()).collect::<BTreeSet<_>>()
    };
    let missing = gates(&format!("{CLASS}{}", job(2)));
    let text = "the resource claim template default/gpus is not there";
    assert_eq!(missing, BTreeSet::from([text.to_owned()]));
    let class = CLASS.replace("spec: {", "spec: {suitableNodes: {}, ");
    let refused = gates(&format!("{class}{}{}", template(1, ""), job(2)));
    assert!(refused.iter().any(|gate| gate.contains("/spec/suitableNodes")), "{refused:?}");
    let template = template(1, ", sharing: all");
    let refused = gates(&format!("{CLASS}{template}{}", job(2)));
    assert!(refused.iter().any(|gate| gate.contains("/spec/spec/devices/sharing")), "{refused:?}");
}

#[test]
fn rules_taint_devices_or_keep_all_of_them_away() {
    let rule = |selector: &str| {
        format!(
            "---
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {{name: r}}
spec: {{deviceSelector: {{{selector}}}, taint: {{key: broken, effect: NoSchedule}}}}
"
        )
    };
    let all = format!("{CLASS}{}{}{}", node("a", 4), template(2, ""), job(1));
    let fits = |rule: &str| placed(&written(&format!("{all}{rule}")).unwrap()).is_ok();
    assert!(fits(""));
    assert!(fits(&rule("driver: gpu.example.com, pool: a, device: gpu-0")));
    assert!(fits(&rule("driver: other.example.com")));
    assert!(!fits(&rule("driver: gpu.example.com, pool: a")));
    // A rule that cannot be followed keeps the devices that it may mean.
    assert!(!fits(&rule("driver: gpu.example.com, selectors: [{cel: {expression: 'true'}}]")));
}

#[test]
fn extended_resources_are_claimed_where_a_class_serves_them() {
    let pod = "---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, resources: {limits: {example.com/gpu: 2}}}]}
";
    let text = |class: &str| format!("{class}{}{pod}", node("a", 4));
    let manifests = written(&text(CLASS)).unwrap();
    assert!(manifests.groups[0].pods[0].shape().claims.is_empty());
    assert!(placed(&manifests).is_err());
    let class = CLASS.replace("spec: {", "spec: {extendedResourceName: example.com/gpu, ");
    assert_eq!(placed(&written(&text(&class)).unwrap()).unwrap()["p"].len(), 2);
}

#[test]
fn older_spellings_of_claims_are_read() {
    let text = "
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d
  allNodes: true
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices: [{name: x, basic: {attributes: {index: {int: 1}}, capacity: {memory: {value: 1Gi}}}}]
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, deviceClassName: gpu, count: 2}]}}
";
    let manifests = written(text).unwrap();
    let [ClaimObject::Slice(slice), ClaimObject::Claim(claim)] = &manifests.claims[..] else {
        panic!("{:?}", manifests.claims)
    };
    assert_eq!((slice.devices[0].attributes.len(), slice.devices[0].capacity.len()), (1, 1));
    let (.., demand) = claim.spec.demands().next().unwrap();
    assert_eq!((&*demand.class, demand.amount), ("gpu", phalanx::model::DeviceAmount::Count(2)));
}

#[test]
fn claims_of_pods_that_exist_are_those_their_status_names() {
    let pod = |status: &str| {
        let text = format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: p, uid: u}}
spec:
  schedulingGroup: {{podGroupName: g}}
  resourceClaims: [{{name: gpus, resourceClaimTemplateName: gpus}}]
  containers: [{{name: c}}]
status: {{{status}}}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {{name: g, uid: gu}}
spec: {{schedulingPolicy: {{basic: {{}}}}, resourceClaims: [{{name: gpus, resourceClaimTemplateName: gpus}}]}}
"
        );
        let manifests = stored(&text).unwrap();
        let pods: Vec<_> = manifests.groups.iter().flat_map(|group| group.all_pods()).collect();
        pods[0].shape().claims.iter().map(|claim| claim.source.clone()).collect::<Vec<_>>()
    };
    assert_eq!(pod(""), [ClaimSource::Unmade]);
    let owners = vec!["u".to_owned(), "gu".to_owned()];
    let made = ClaimSource::Made { claim: "p-gpus".into(), owners };
    assert_eq!(pod("resourceClaimStatuses: [{name: gpus, resourceClaimName: p-gpus}]"), [made]);
    assert!(pod("resourceClaimStatuses: [{name: gpus}]").is_empty());
}

const STORAGE: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zonal, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [b]}]}]
---
apiVersion: v1
kind: Node
metadata: {name: a, labels: {zone: a}}
status: {allocatable: {cpu: 8, pods: 9}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {zone: b}}
status: {allocatable: {cpu: 2, pods: 9}}
";

#[test]
fn each_pod_of_a_set_has_its_claims_where_its_class_allows() {
    let set = |replicas: usize| {
        format!(
            "---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db, annotations: {{scheduling.volcano.sh/group-min-member: '{replicas}'}}}}
spec:
  replicas: {replicas}
  podManagementPolicy: Parallel
  selector: {{matchLabels: {{app: db}}}}
  template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}}}
  volumeClaimTemplates:
    - metadata: {{name: data}}
      spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
"
        )
    };
    let manifests = written(&format!("{STORAGE}{}", set(2))).unwrap();
    let claims: Vec<String> = manifests
        .storage
        .iter()
        .filter_map(|object| match object {
            StorageObject::Claim(claim) => Some(format!("{} {}", claim.name, claim.class)),
            _ => None,
        })
        .collect();
    assert_eq!(claims, ["data-db-0 zonal", "data-db-1 zonal"]);
    assert!(placed(&manifests).is_ok());
    let reason = placed(&written(&format!("{STORAGE}{}", set(3))).unwrap()).unwrap_err();
    assert!(reason.contains("VolumeBinding"), "{reason}");
}

#[test]
fn ephemeral_volumes_of_a_template_are_claims_of_its_pods() {
    let pod = "---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c}]
  volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]
";
    let manifests = written(&format!("{STORAGE}{pod}")).unwrap();
    let claim = manifests.storage.iter().find_map(|object| match object {
        StorageObject::Claim(claim) => Some(claim),
        _ => None,
    });
    assert_eq!(claim.unwrap().name, "p-scratch");
    assert!(placed(&manifests).is_ok());
    let elsewhere = pod.replace("  containers:", "  nodeSelector: {zone: a}\n  containers:");
    assert!(placed(&written(&format!("{STORAGE}{elsewhere}")).unwrap()).is_err());
}

#[test]
fn a_volume_that_is_refused_leaves_alone_who_uses_it() {
    let text = format!(
        "{STORAGE}---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  vsphereVolume: {{volumePath: v}}
  claimRef: {{namespace: default, name: data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec: {{volumeName: disk, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers: [{{name: c}}]
  volumes: [{{name: v, persistentVolumeClaim: {{claimName: data}}}}]
"
    );
    let manifests = written(&text).unwrap();
    let gates = &manifests.groups[0].pods[0].scheduling_gates;
    assert!(gates[0].contains("persistentvolume disk: /spec/vsphereVolume"), "{gates:?}");
    let local = text.replace("vsphereVolume: {volumePath: v}", "local: {path: /data}");
    assert!(placed(&written(&local).unwrap()).is_ok());
}

/// Volumes that pods name themselves count where their plug-in has migrated.
#[test]
fn volumes_of_plug_ins_count_for_the_drivers_that_stand_in_for_them() {
    let node = |name: &str, plugins: &str| {
        format!(
            "---
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: 8, pods: 9}}}}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata:
  name: {name}
  annotations: {{storage.alpha.kubernetes.io/migrated-plugins: '{plugins}'}}
spec:
  drivers:
  - {{name: pd.csi.storage.gke.io, nodeID: {name}, allocatable: {{count: 1}}}}
  - {{name: ebs.csi.aws.com, nodeID: {name}, allocatable: {{count: 0}}}}
"
        )
    };
    let pod = |volumes: &str| {
        format!(
            "---
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers: [{{name: c}}]
  volumes: [{volumes}]
"
        )
    };
    let disk = |name: &str| format!("{{name: {name}, gcePersistentDisk: {{pdName: {name}}}}}");
    let block = "{name: b, awsElasticBlockStore: {volumeID: 'aws://zone/vol-1'}}";
    let both = format!("{}, {}", disk("one"), disk("two"));
    let migrated = "kubernetes.io/gce-pd,kubernetes.io/aws-ebs";
    for (plugins, volumes, fits) in [
        (migrated, disk("one"), true),
        (migrated, both.clone(), false),
        ("kubernetes.io/aws-ebs", both, true),
        (migrated, block.to_string(), false),
        ("", block.to_string(), true),
        (migrated, "{name: v, vsphereVolume: {volumePath: v}}".to_string(), true),
    ] {
        let manifests = written(&format!("{}{}", node("n0", plugins), pod(&volumes))).unwrap();
        assert!(manifests.groups[0].pods[0].scheduling_gates.is_empty(), "{volumes}");
        assert_eq!(placed(&manifests).is_ok(), fits, "{plugins} {volumes}");
    }
    let manifests = written(&format!("{}{}", node("n0", migrated), pod(block))).unwrap();
    let volumes = &manifests.groups[0].pods[0].shape().volumes;
    let handle = volumes.iter().find_map(|volume| match volume {
        PodVolume::Migrated { volume, .. } => Some(&*volume.handle),
        _ => None,
    });
    assert_eq!(handle, Some("vol-1"));
}

#[test]
fn the_example_is_placed_with_an_island_for_each_pod() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/manifests/claims/gang.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let manifests = written(&text).unwrap();
    assert!(manifests.notes.is_empty(), "{:?}", manifests.notes);
    let pods = placed(&manifests).unwrap();
    let mut islands = BTreeSet::new();
    for devices in pods.values() {
        let of = |(node, device): &(String, String)| {
            let number: u32 = device.strip_prefix("gpu-").unwrap().parse().unwrap();
            (node.clone(), number / 4)
        };
        let own: BTreeSet<(String, u32)> = devices.iter().map(of).collect();
        assert_eq!((devices.len(), own.len()), (4, 1), "{devices:?}");
        islands.extend(own);
    }
    assert_eq!((pods.len(), islands.len()), (3, 3));
    // A fourth pod finds no island.
    let four = text.replace("minCount: 3", "minCount: 4");
    let last = text.rsplit("---").next().unwrap().replace("trainer-2", "trainer-3");
    let why = placed(&written(&format!("{four}---{last}")).unwrap()).unwrap_err();
    assert!(why.contains("need: 16, fits: 12"), "{why}");
}

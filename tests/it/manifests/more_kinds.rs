//! Kinds whose pods stand each by themselves, on each node, or wait for a time; Spark, Ray's services
//! and Kubeflow's younger jobs; the scheduling of a `LeaderWorkerSet` by level.

use phalanx::kubernetes::{Manifests, Mode, Reading, Value};
use phalanx::{Cluster, Framework, Outcome, PodGroup, explain, place_gang, reference};

use super::reading::{read_yaml, sketch, stored, written};

fn nodes(count: usize, more: &str) -> String {
    let node = |at: usize| {
        format!(
            "---
apiVersion: v1
kind: Node
metadata: {{name: n{at}, labels: {{kubernetes.io/hostname: n{at}, disk: ssd, rack: r{}}}}}
status: {{allocatable: {{cpu: 4, memory: 16Gi, nvidia.com/gpu: 4, pods: 10{more}}}}}
",
            at / 2
        )
    };
    (0..count).map(node).collect()
}

/// The nodes of the pods of each group, or the reason for which it is not placed.
fn place(manifests: &Manifests) -> Vec<Result<Vec<String>, String>> {
    let framework = Framework::default();
    let mut cluster = Cluster::builder().levels(manifests.levels.clone()).build().unwrap();
    for node in &manifests.nodes {
        cluster.add_node(node.clone()).unwrap();
    }
    for pod in &manifests.bound {
        cluster.add_pod(pod.clone()).unwrap();
    }
    let answer = |group: &PodGroup| {
        let Outcome::Placed(plan) = place_gang(&cluster, &framework, group).unwrap() else {
            return Err(explain(&cluster, &framework, group, None).unwrap().to_string());
        };
        reference::is_sound(&plan, group, &cluster, &framework).unwrap();
        let nodes = plan.assignments().map(|at| at.node().to_owned()).collect();
        cluster.commit(&framework, &plan).unwrap();
        Ok(nodes)
    };
    manifests.groups.iter().map(answer).collect()
}

fn groups(text: &str) -> Vec<String> {
    written(text).unwrap().groups.iter().map(sketch).collect()
}

/// All pods of the groups, those inside included.
fn pods(manifests: &Manifests) -> Vec<phalanx::Pod> {
    manifests.groups.iter().flat_map(|group| group.all_pods().into_iter().cloned()).collect()
}

const DEPLOYMENT: &str = "---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: ssd}
      containers: [{name: nginx, image: nginx, resources: {requests: {cpu: 3}}}]
";

#[test]
fn pods_of_a_deployment_are_placed_each_by_itself() {
    let manifests = written(&format!("{}{DEPLOYMENT}", nodes(3, ""))).unwrap();
    assert_eq!(
        manifests.groups.iter().map(sketch).collect::<Vec<_>>(),
        ["web[any: web-0 web-1 web-2]"]
    );
    let found = place(&manifests).remove(0).unwrap();
    assert_eq!(found.len(), 3);
    // Two nodes hold two of them, and none where the label says otherwise.
    let two = written(&format!("{}{DEPLOYMENT}", nodes(2, ""))).unwrap();
    assert_eq!(place(&two).remove(0).map(|nodes| nodes.len()), Ok(2));
    let other = nodes(3, "").replace("disk: ssd", "disk: hdd");
    let none = place(&written(&format!("{other}{DEPLOYMENT}")).unwrap()).remove(0);
    assert!(none.unwrap_err().contains("NodeAffinity"), "the selector is named");
    // Its services and its own selector say which pods the default spread counts.
    let selector = pods(&manifests)[0].shape().owner_selector.clone().unwrap();
    assert_eq!(selector.match_labels["app"], "web");
}

#[test]
fn what_a_deployment_has_made_is_not_made_twice() {
    let set = |name: &str, replicas: u32| {
        format!(
            "---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: {name}
  ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}}]
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: nginx, resources: {{requests: {{cpu: 3}}}}}}]}}
"
        )
    };
    let pod = "---
apiVersion: v1
kind: Pod
metadata:
  name: web-x
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r, controller: true}]
spec: {containers: [{name: nginx, resources: {requests: {cpu: 3}}}]}
";
    // The set stands for the deployment, and a pod that exists for the set.
    let sets = [set("web-0", 0), set("web-1", 2)].concat();
    let both = format!("{DEPLOYMENT}{sets}");
    assert_eq!(groups(&both), ["web-1[any: web-1-0 web-1-1]"]);
    assert_eq!(groups(&format!("{both}{pod}")), ["web-x[any: web-x]"]);
    assert_eq!(groups(&format!("{sets}{pod}")), ["web-x[any: web-x]"]);
    let running =
        DEPLOYMENT.replace("spec:\n  replicas", "status: {replicas: 3}\nspec:\n  replicas");
    assert!(stored(&running).unwrap().groups.is_empty());
    let controller = "
apiVersion: v1
kind: ReplicationController
metadata: {name: rc}
spec: {replicas: 2, selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}
";
    assert_eq!(groups(controller), ["rc[any: rc-0 rc-1]"]);
}

const DAEMON_SET: &str = "---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {disk: ssd}
      containers: [{name: agent, resources: {requests: {cpu: 1}}}]
";

#[test]
fn a_daemon_set_has_a_pod_for_each_node_that_it_may_run_on() {
    let all = nodes(4, "");
    let tainted = all
        .replacen("status:", "spec: {taints: [{key: k, value: v, effect: NoSchedule}]}\nstatus:", 1)
        .replacen(
            "name: n1, labels: {kubernetes.io/hostname: n1, disk: ssd",
            "name: n1, labels: {kubernetes.io/hostname: n1, disk: hdd",
            1,
        );
    let manifests = written(&format!("{DAEMON_SET}{tainted}")).unwrap();
    let sketches: Vec<String> = manifests.groups.iter().map(sketch).collect();
    assert_eq!(sketches, ["agent[any: agent-n2 agent-n3]"]);
    assert_eq!(manifests.workloads[0].roles[0].count, 2);
    assert_eq!(place(&manifests).remove(0).unwrap(), ["n2", "n3"]);
    // A node that takes no pods has one, as its controller sees to.
    let cordoned = nodes(1, "").replacen(
        "status:",
        "spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}\nstatus:",
        1,
    );
    let one = written(&format!("{DAEMON_SET}{cordoned}")).unwrap();
    assert_eq!(place(&one).remove(0).unwrap(), ["n0"]);
    // A node without room leaves its pod waiting: no other node takes it.
    let full = "---
apiVersion: v1
kind: Pod
metadata: {name: full}
spec: {nodeName: n3, containers: [{name: c, resources: {requests: {cpu: 4}}}]}
";
    let short = written(&format!("{DAEMON_SET}{tainted}{full}")).unwrap();
    assert_eq!(place(&short).remove(0).unwrap(), ["n2"]);
    let none = written(DAEMON_SET).unwrap();
    assert!(none.groups.is_empty());
    assert_eq!(none.notes[0].text, "no node may run its pods");
}

const CRON_JOB: &str = "---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '5 4 * * *'
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      parallelism: 2
      completions: 2
      scheduling: {schedulingPolicy: {gang: {}}}
      template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
";

#[test]
fn pods_of_a_cron_job_wait_for_its_schedule_and_its_jobs_are_read_by_themselves() {
    let manifests = written(CRON_JOB).unwrap();
    assert_eq!(sketch(&manifests.groups[0]), "nightly[2: nightly-0 nightly-1]");
    let gate = "waits for its schedule, 5 4 * * *";
    assert!(pods(&manifests).iter().all(|pod| pod.scheduling_gates == [gate]));
    let job = "---
apiVersion: batch/v1
kind: Job
metadata:
  name: nightly-28
  ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: c, controller: true}]
spec: {parallelism: 2, template: {spec: {containers: [{name: c}]}}}
";
    assert_eq!(groups(&format!("{CRON_JOB}{job}")), ["nightly-28[any: nightly-28-0 nightly-28-1]"]);
    let status = "status: {active: [{kind: Job, name: nightly-28}]}\nspec:\n  schedule";
    let active = CRON_JOB.replace("spec:\n  schedule", status);
    assert!(stored(&active).unwrap().groups.is_empty());
    let suspended = CRON_JOB.replace("schedule:", "suspend: true\n  schedule:");
    assert!(written(&suspended).unwrap().workloads[0].suspended);
}

const SPARK: &str = "---
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: tc}
spec:
  type: Scala
  mode: cluster
  image: spark
  mainApplicationFile: local:///tc.jar
  sparkVersion: 3.5.1
  sparkConf: {spark.eventLog.enabled: 'true'}
  volumes: [{name: v, hostPath: {path: /tmp}}]
  nodeSelector: {disk: ssd}
  driver: {cores: 1, coreLimit: 1200m, memory: 3g, labels: {version: a}, volumeMounts: [{name: v, mountPath: /tmp}]}
  executor:
    coreRequest: 500m
    cores: 2
    instances: 3
    memory: 8192m
    gpu: {name: nvidia.com/gpu, quantity: 1}
    tolerations: [{key: k, operator: Exists}]
";

#[test]
fn spark_has_a_driver_and_then_executors_with_memory_beside_their_heap() {
    let manifests = written(SPARK).unwrap();
    let expected = "tc[1: tc-driver[1: tc-driver] tc-executor[3: tc-exec-1 tc-exec-2 tc-exec-3]]";
    assert_eq!(sketch(&manifests.groups[0]), expected);
    let pods = pods(&manifests);
    assert_eq!(pods[1].scheduling_gates, ["starts after driver is ready"]);
    let asks = |at: usize, name: &str| pods[at].shape().requests.of(name);
    // 3 GiB and the least of 384 MiB beside it; 8 GiB and a tenth.
    assert_eq!((asks(0, "cpu"), asks(0, "memory")), (1_000, (3_072 + 384) << 20));
    assert_eq!((asks(1, "cpu"), asks(1, "memory")), (500, (8_192 + 819) << 20));
    assert_eq!(asks(1, "nvidia.com/gpu"), 1);
    assert_eq!(pods[1].shape().node_selector["disk"], "ssd");
    assert_eq!(pods[1].shape().tolerations.len(), 1);
    let python = written(&SPARK.replace("Scala", "Python")).unwrap();
    assert_eq!(self::pods(&python)[1].shape().requests.of("memory"), (8_192 + 3_276) << 20);
    let more = "dynamicAllocation: {enabled: true, minExecutors: 4}\n  driver";
    let dynamic = written(&SPARK.replacen("driver", more, 1)).unwrap();
    assert_eq!(dynamic.workloads[0].roles[1].count, 4);
    // Once the driver runs its executors are waited for; they exist by then.
    let running = format!("{SPARK}status: {{applicationState: {{state: RUNNING}}}}\n");
    assert!(written(&running).unwrap().groups.is_empty());
    let bad = SPARK.replace("3g", "lots");
    let error = written(&bad).unwrap_err().to_string();
    assert!(error.contains("spec.driver.memory"), "{error}");
}

#[test]
fn spark_is_placed_where_it_fits_and_refused_where_a_setting_is_not_read() {
    let manifests = written(&format!("{}{SPARK}", nodes(1, ""))).unwrap();
    assert_eq!(place(&manifests).remove(0).unwrap(), ["n0"]);
    let small = nodes(1, "").replace("memory: 16Gi", "memory: 3Gi");
    let why = place(&written(&format!("{small}{SPARK}")).unwrap()).remove(0).unwrap_err();
    assert!(why.contains("Fit rejects"), "{why}");
    for (from, to, path) in [
        ("spark.eventLog.enabled", "spark.kubernetes.driver.podTemplateFile", "/spec/sparkConf/"),
        ("hostPath: {path: /tmp}", "persistentVolumeClaim: {claimName: c}", "/spec/volumes/0"),
        ("mode: cluster", "mode: client", "/spec/mode"),
    ] {
        let manifests = written(&SPARK.replace(from, to)).unwrap();
        let gates = &pods(&manifests)[0].scheduling_gates;
        assert!(gates.iter().any(|gate| gate.contains(path)), "{gates:?}");
    }
}

const SERVICE: &str = "---
apiVersion: ray.io/v1
kind: RayService
metadata: {name: serve}
spec:
  serveConfigV2: 'applications: []'
  rayClusterConfig:
    headGroupSpec:
      template: {spec: {containers: [{name: h, resources: {requests: {cpu: 2}}}]}}
    workerGroupSpecs:
      - groupName: gpu
        replicas: 2
        template: {spec: {containers: [{name: w, resources: {limits: {nvidia.com/gpu: 4}}}]}}
";

#[test]
fn a_ray_service_is_its_cluster_until_that_exists() {
    let fits = written(&format!("{}{SERVICE}", nodes(2, ""))).unwrap();
    let tree =
        "serve[3: serve-gpu[2: serve-gpu-worker-0 serve-gpu-worker-1] serve-head[1: serve-head-0]]";
    let tree = tree.split(' ').count();
    assert_eq!(sketch(&fits.groups[0]).split(' ').count(), tree, "{}", sketch(&fits.groups[0]));
    assert_eq!(place(&fits).remove(0).unwrap().len(), 3);
    let short = written(&format!("{}{SERVICE}", nodes(1, ""))).unwrap();
    let why = place(&short).remove(0).unwrap_err();
    assert!(why.contains("serve"), "{why}");
    let active = "status: {activeServiceStatus: {rayClusterName: serve-abc}}\nspec:\n  serveConfig";
    let active = SERVICE.replace("spec:\n  serveConfig", active);
    assert!(stored(&active).unwrap().groups.is_empty());
    let suspended = SERVICE.replace("rayClusterConfig:", "rayClusterConfig:\n    suspend: true");
    assert!(written(&suspended).unwrap().workloads[0].suspended);
}

#[test]
fn younger_jobs_of_kubeflow_are_gangs_of_all_their_replicas() {
    let job = |kind: &str, map: &str, roles: &str, more: &str| {
        format!(
            "apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: t}}\nspec: {{{more}{map}: {{{roles}}}}}\n"
        )
    };
    let role = |name: &str, count: u32| {
        format!(
            "{name}: {{replicas: {count}, template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 3}}}}}}]}}}}}}"
        )
    };
    let jax = job("JAXJob", "jaxReplicaSpecs", &role("Worker", 3), "");
    assert_eq!(groups(&jax), ["t[3: t-worker-0 t-worker-1 t-worker-2]"]);
    let both = [role("Master", 1), role("Worker", 2)].join(", ");
    let paddle = job("PaddleJob", "paddleReplicaSpecs", &both, "");
    let tree = "t[2: t-master[1: t-master-0] t-worker[2: t-worker-0 t-worker-1]]";
    assert_eq!(groups(&paddle), [tree]);
    let elastic =
        job("PaddleJob", "paddleReplicaSpecs", &both, "elasticPolicy: {minReplicas: 2}, ");
    assert_eq!(written(&elastic).unwrap().groups[0].policy.minimum(), 2);
    for text in [&jax, &paddle] {
        let fits = written(&format!("{text}{}", nodes(3, ""))).unwrap();
        assert_eq!(place(&fits).remove(0).unwrap().len(), 3);
        let why = place(&written(&format!("{text}{}", nodes(2, ""))).unwrap()).remove(0);
        assert!(why.unwrap_err().contains("default/t"));
    }
    let master = job("JAXJob", "jaxReplicaSpecs", &role("Master", 1), "");
    assert!(written(&master).unwrap_err().to_string().contains("Master"));
}

fn leader_worker_set(scheduling: &str) -> String {
    format!(
        "---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: llm}}
spec:
  replicas: 2
  scheduling: {scheduling}
  leaderWorkerTemplate:
    size: 2
    workerTemplate: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 3}}}}}}]}}}}
"
    )
}

#[test]
fn a_leader_worker_set_says_at_which_level_it_is_a_gang() {
    let whole = "llm[4: llm-0 llm-0-1 llm-1 llm-1-1]";
    let replica = "llm-0[2: llm-0-leader[1: llm-0] llm-0-workers[1: llm-0-1]]";
    for (scheduling, first, count) in [
        ("{}", replica, 2),
        ("{replica: {}}", replica, 2),
        ("{schedulingPolicy: {gang: {}}}", whole, 1),
        ("{schedulingPolicy: {basic: {}}}", "llm[any: llm-0 llm-0-1 llm-1 llm-1-1]", 1),
        (
            "{schedulingConstraints: {topology: [{key: rack}]}}",
            "llm[any: llm-0 llm-0-1 llm-1 llm-1-1]",
            1,
        ),
        ("{replica: {schedulingPolicy: {basic: {}}}}", "llm-0[any: llm-0 llm-0-1]", 2),
        ("{replica: {schedulingPolicy: {gang: {}}}}", replica, 2),
        ("{replica: {worker: {schedulingPolicy: {gang: {}}}}}", "llm-0-leader[any: llm-0]", 4),
        ("{replica: {leader: {schedulingPolicy: {gang: {}}}}}", "llm-0-leader[1: llm-0]", 4),
    ] {
        let found = groups(&leader_worker_set(scheduling));
        assert_eq!((found[0].as_str(), found.len()), (first, count), "{scheduling}: {found:?}");
    }
    let constrained =
        leader_worker_set("{replica: {schedulingConstraints: {topology: [{key: rack}]}}}");
    let manifests = written(&format!("{constrained}{}", nodes(4, ""))).unwrap();
    assert!(manifests.groups.iter().all(|group| group.topology.require.as_deref() == Some("rack")));
    let found = place(&manifests);
    let rack = |node: &String| node[1..].parse::<usize>().unwrap() / 2;
    for nodes in found {
        let nodes = nodes.unwrap();
        assert_eq!((nodes.len(), rack(&nodes[0])), (2, rack(&nodes[1])), "{nodes:?}");
    }
    // Three nodes: a rack of one holds no replica.
    let three = written(&format!("{constrained}{}", nodes(3, ""))).unwrap();
    let found = place(&three);
    assert!(found[0].is_ok());
    assert!(found[1].as_ref().unwrap_err().contains("rack"), "{found:?}");
}

#[test]
fn levels_of_a_set_that_do_not_go_together_are_refused() {
    let several = "{schedulingPolicy: {basic: {}}, replica: {schedulingPolicy: {gang: {}}}}";
    let manifests = written(&leader_worker_set(several)).unwrap();
    for pod in pods(&manifests) {
        let named = |gate: &String| gate.starts_with("/spec/scheduling is not in force");
        assert!(pod.scheduling_gates.iter().any(named), "{:?}", pod.scheduling_gates);
    }
    for (scheduling, path) in [
        ("{schedulingPolicy: {gang: {minGroupCount: 2}}}", "minGroupCount"),
        (
            "{replica: {resourceClaims: [{name: c, resourceClaimName: d}]}}",
            "/spec/scheduling/replica/resourceClaims",
        ),
    ] {
        let manifests = written(&leader_worker_set(scheduling)).unwrap();
        let gates = &pods(&manifests)[0].scheduling_gates;
        assert!(gates.iter().any(|gate| gate.contains(path)), "{scheduling}: {gates:?}");
    }
    let part = "{replica: {worker: {schedulingPolicy: {gang: {minCount: 2}}}}}";
    assert!(written(&leader_worker_set(part)).is_err());
    let ready = leader_worker_set("{schedulingPolicy: {gang: {}}}")
        .replace("replicas: 2", "replicas: 2\n  startupPolicy: LeaderReady");
    assert!(written(&ready).unwrap_err().to_string().contains("start after their leader"));
    // An empty policy is a statement by itself.
    let value: Value =
        serde_saphyr::from_str(&leader_worker_set("{schedulingPolicy: {gang: {}}}")[4..]).unwrap();
    let reading = Reading::of(&value, Mode::AsWritten);
    let gang = "/spec/scheduling/schedulingPolicy/gang";
    assert!(reading.honoured.iter().any(|path| path == gang), "{:?}", reading.honoured);
    assert!(read_yaml(Mode::AsStored, &[("m.yaml", &ready)]).is_ok());
}

#[test]
fn each_replica_of_an_exclusive_set_has_a_domain_alone() {
    let annotation = "metadata:\n  name: llm\n  annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}";
    let exclusive = |scheduling: &str| {
        let set = leader_worker_set(scheduling).replace("metadata: {name: llm}", annotation);
        set.replace("cpu: 3", "cpu: 1")
    };
    let text = exclusive("null");
    let manifests = written(&format!("{text}{}", nodes(4, ""))).unwrap();
    let found = place(&manifests);
    let rack = |node: &String| node[1..].parse::<usize>().unwrap() / 2;
    let racks: Vec<usize> = found.iter().map(|nodes| rack(&nodes.as_ref().unwrap()[0])).collect();
    assert_eq!(racks.len(), 2);
    assert_ne!(racks[0], racks[1]);
    for nodes in &found {
        let nodes = nodes.as_ref().unwrap();
        assert_eq!(rack(&nodes[0]), rack(&nodes[1]));
    }
    // One rack has room for both, and takes one.
    let one = place(&written(&format!("{text}{}", nodes(2, ""))).unwrap());
    assert!(one[0].is_ok());
    assert!(one[1].as_ref().unwrap_err().contains("InterPodAffinity"), "{one:?}");
    // Beside the scheduling of 1.37 its controller refuses it, and so does the reader.
    let both = written(&exclusive("{}")).unwrap();
    let gates = &pods(&both)[0].scheduling_gates;
    assert!(gates.iter().any(|gate| gate.contains("exclusive-topology")), "{gates:?}");
}

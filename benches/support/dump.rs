//! Writes a big cluster as `kubectl get nodes,pods -A -o json` would.

use std::io::{self, Write};

/// Writes a list of so many nodes and so many pods, most of which run.
///
/// Objects carry what real ones do (managed fields, environment, probes, status), which is most
/// of their size. Pods belong to replica sets of fifty; one pod in a hundred waits. The same
/// numbers make the same bytes.
///
/// # Errors
/// The writer fails.
pub(crate) fn write_dump(nodes: usize, pods: usize, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n")?;
    for index in 0..nodes {
        node(index, out)?;
        separate(index + 1 < nodes || pods > 0, out)?;
    }
    for index in 0..pods {
        pod(index, nodes, out)?;
        separate(index + 1 < pods, out)?;
    }
    out.write_all(
        b"    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n",
    )
}

fn separate(more: bool, out: &mut impl Write) -> io::Result<()> {
    out.write_all(if more { b",\n" } else { b"\n" })
}

fn managed_fields(out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        r#"            "managedFields": [
                {{
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {{
                        "f:metadata": {{ "f:labels": {{ ".": {{}}, "f:app": {{}}, "f:tier": {{}} }} }},
                        "f:status": {{ "f:conditions": {{ ".": {{}}, "k:{{\"type\":\"Ready\"}}": {{ ".": {{}}, "f:status": {{}} }} }} }}
                    }},
                    "manager": "kubelet",
                    "operation": "Update",
                    "time": "2026-01-01T00:00:00Z"
                }}
            ],
"#
    )
}

fn node(index: usize, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        r#"    {{
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {{
            "annotations": {{ "node.alpha.kubernetes.io/ttl": "0" }},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {{
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": "node-{index:05}",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": "r1",
                "topology.kubernetes.io/zone": "z{}",
                "rack": "rack-{:03}"
            }},
"#,
        index % 3,
        index / 40,
    )?;
    managed_fields(out)?;
    write!(
        out,
        r#"            "name": "node-{index:05}",
            "resourceVersion": "{}",
            "uid": "00000000-0000-0000-0001-{index:012}"
        }},
        "spec": {{ "podCIDR": "10.0.0.0/24", "providerID": "provider:///node-{index:05}" }},
        "status": {{
            "addresses": [ {{ "address": "10.{}.{}.{}", "type": "InternalIP" }} ],
            "allocatable": {{ "cpu": "63500m", "ephemeral-storage": "900Gi", "memory": "258Gi", "nvidia.com/gpu": "8", "pods": "110" }},
            "capacity": {{ "cpu": "64", "ephemeral-storage": "1Ti", "memory": "264000000Ki", "nvidia.com/gpu": "8", "pods": "110" }},
            "conditions": [
                {{ "lastHeartbeatTime": "2026-01-01T00:00:00Z", "message": "kubelet is posting ready status", "reason": "KubeletReady", "status": "True", "type": "Ready" }}
            ],
            "images": [
"#,
        index + 1,
        index / 65_536,
        index / 256 % 256,
        index % 256,
    )?;
    for image in 0..20 {
        let comma = if image < 19 { "," } else { "" };
        writeln!(
            out,
            r#"                {{ "names": [ "registry.example.com/app-{image}@sha256:{image:064}", "registry.example.com/app-{image}:v1" ], "sizeBytes": {} }}{comma}"#,
            50_000_000 + image * 1_000_000,
        )?;
    }
    out.write_all(b"            ],\n            \"nodeInfo\": { \"kernelVersion\": \"6.6.0\", \"kubeletVersion\": \"v1.36.3\" }\n        }\n    }")
}

fn pod(index: usize, nodes: usize, out: &mut impl Write) -> io::Result<()> {
    let set = index / 50;
    let bound = index % 100 != 99 && nodes > 0;
    write!(
        out,
        r#"    {{
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {{
            "annotations": {{ "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z", "prometheus.io/scrape": "true" }},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generateName": "app-{set}-",
            "labels": {{ "app": "app-{set}", "pod-template-hash": "{set:010}", "tier": "t{}" }},
"#,
        set % 4,
    )?;
    managed_fields(out)?;
    write!(
        out,
        r#"            "name": "app-{set}-{index:06}",
            "namespace": "team-{}",
            "ownerReferences": [
                {{ "apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true, "kind": "ReplicaSet", "name": "app-{set}", "uid": "00000000-0000-0000-0002-{set:012}" }}
            ],
            "resourceVersion": "{}",
            "uid": "00000000-0000-0000-0003-{index:012}"
        }},
        "spec": {{
            "containers": [
"#,
        set % 50,
        index + 1,
    )?;
    for (at, name) in ["main", "proxy"].into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",\n")?;
        }
        container(name, set, out)?;
    }
    out.write_all(b"\n            ],\n")?;
    if bound {
        let node = index * 7_919 % nodes;
        writeln!(out, "            \"nodeName\": \"node-{node:05}\",")?;
    }
    write!(
        out,
        r#"            "dnsPolicy": "ClusterFirst",
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": {},
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {{ "effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300 }},
                {{ "effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300 }}
            ],
            "topologySpreadConstraints": [
                {{ "labelSelector": {{ "matchLabels": {{ "app": "app-{set}" }} }}, "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway" }}
            ],
            "volumes": [ {{ "name": "token", "projected": {{ "defaultMode": 420, "sources": [ {{ "serviceAccountToken": {{ "expirationSeconds": 3607, "path": "token" }} }} ] }} }} ]
        }},
        "status": {{
            "conditions": [ {{ "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True", "type": "PodScheduled" }} ],
            "phase": "{}",
            "qosClass": "Burstable"
        }}
    }}"#,
        set % 3 * 100,
        if bound { "Running" } else { "Pending" },
    )
}

fn container(name: &str, set: usize, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        r#"                {{
                    "args": [ "--listen=:8080", "--log-level=info", "--cluster=production" ],
                    "env": [
                        {{ "name": "POD_NAME", "valueFrom": {{ "fieldRef": {{ "apiVersion": "v1", "fieldPath": "metadata.name" }} }} }},
                        {{ "name": "GOMEMLIMIT", "value": "900MiB" }},
                        {{ "name": "ENDPOINT", "value": "https://app-{set}.example.com/v1/collect" }}
                    ],
                    "image": "registry.example.com/app-{}:v1",
                    "imagePullPolicy": "IfNotPresent",
                    "livenessProbe": {{ "failureThreshold": 3, "httpGet": {{ "path": "/healthz", "port": 8080, "scheme": "HTTP" }}, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1 }},
                    "name": "{name}",
                    "ports": [ {{ "containerPort": 8080, "name": "http-{name}", "protocol": "TCP" }} ],
                    "resources": {{ "limits": {{ "memory": "{}Mi" }}, "requests": {{ "cpu": "{}m", "memory": "{}Mi" }} }},
                    "securityContext": {{ "allowPrivilegeEscalation": false, "capabilities": {{ "drop": [ "ALL" ] }} }},
                    "terminationMessagePath": "/dev/termination-log",
                    "volumeMounts": [ {{ "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "token", "readOnly": true }} ]
                }}"#,
        set % 20,
        256 + set % 8 * 64,
        100 + set % 10 * 50,
        256 + set % 8 * 64,
    )
}

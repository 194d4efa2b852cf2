//! `spec.scheduling` of controllers, since Kubernetes 1.37: what their groups are.

use phalanx::kubernetes::Mode;
use serde_json::{Value, json};

use super::reading::written;
use super::workloads::{job_set, object, read, template};

#[test]
fn a_job_says_since_1_37_what_its_group_is() {
    let job = |scheduling: &str| {
        let text = format!(
            "
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  completionMode: Indexed
  parallelism: 4
  completions: 4
{scheduling}
  template: {{spec: {{containers: [{{name: c}}]}}}}
"
        );
        written(&text).map(|manifests| manifests.groups[0].clone())
    };
    let minimum = |scheduling: &str| job(scheduling).unwrap().policy.minimum();
    // Without it the rule of 1.36 makes a gang of all.
    assert_eq!(minimum(""), 4);
    let basic = job("  scheduling: {schedulingPolicy: {basic: {}}}").unwrap();
    assert_eq!(basic.policy, phalanx::model::GroupPolicy::Basic {});
    assert_eq!(minimum("  scheduling: {schedulingPolicy: {gang: {}}}"), 4);
    assert_eq!(minimum("  scheduling: {schedulingPolicy: {gang: {minCount: 2}}}"), 2);
    let error = job("  scheduling: {schedulingPolicy: {gang: {minCount: 5}}}").unwrap_err();
    assert!(
        error.to_string().contains("spec.scheduling.schedulingPolicy.gang.minCount"),
        "{error}"
    );
    let near = "  scheduling: {schedulingPolicy: {gang: {}}, schedulingConstraints: {topology: [{key: rack}]}}";
    assert_eq!(job(near).unwrap().topology.require.as_deref(), Some("rack"));
}

#[test]
fn sets_say_since_1_37_what_their_group_is() {
    let set = |scheduling: Value, order: &str| {
        let mut set = job_set();
        set["spec"]["startupPolicy"] = json!({ "startupPolicyOrder": order });
        for job in set["spec"]["replicatedJobs"].as_array_mut().unwrap() {
            job.as_object_mut().unwrap().remove("dependsOn");
        }
        set["spec"]["scheduling"] = scheduling;
        read(Mode::AsWritten, &[set])
    };
    let minimum = |scheduling: Value, order: &str| {
        let group = set(scheduling, order).unwrap().groups[0].clone();
        (group.policy.minimum(), group.groups.len())
    };
    let gang = |min: Value| json!({"schedulingPolicy": {"gang": min}});
    let pods = set(json!({}), "AnyOrder").unwrap().groups[0].all_pods().len() as u32;
    // By itself a gang of all: of all of each of its roles.
    assert_eq!(minimum(json!({}), "AnyOrder"), (2, 2));
    assert_eq!(minimum(gang(json!({})), "AnyOrder"), (pods, 0));
    assert_eq!(minimum(gang(json!({"minCount": 2})), "AnyOrder"), (2, 0));
    let basic = set(json!({"schedulingPolicy": {"basic": {}}}), "AnyOrder").unwrap();
    assert_eq!(basic.groups[0].policy, phalanx::model::GroupPolicy::Basic {});
    let near = json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}});
    let near = set(near, "AnyOrder").unwrap();
    assert_eq!(near.groups[0].topology.require.as_deref(), Some("rack"));
    // One after another: a gang each, so that no minimum of the whole can be met.
    let error = set(gang(json!({"minCount": 2})), "InOrder").unwrap_err().to_string();
    assert!(error.contains("spec.scheduling.schedulingPolicy.gang.minCount"), "{error}");
    // Levels that are not read leave the pods alone.
    let inner = set(json!({"replicatedJobs": [{"targetReplicatedJobs": ["a"]}]}), "AnyOrder");
    let gates = &inner.unwrap().groups[0].all_pods()[0].scheduling_gates.clone();
    assert!(gates.iter().any(|gate| gate.contains("/spec/scheduling/replicatedJobs")), "{gates:?}");

    let stateful = |scheduling: Value, management: &str| {
        let spec = json!({"replicas": 3, "podManagementPolicy": management,
            "scheduling": scheduling, "template": template()});
        read(Mode::AsWritten, &[object("apps/v1", "StatefulSet", spec)])
    };
    let all = stateful(gang(json!({})), "Parallel").unwrap();
    assert_eq!(all.groups[0].policy.minimum(), 3);
    for (scheduling, management, words) in [
        (gang(json!({})), "OrderedReady", "needs podManagementPolicy Parallel"),
        (gang(json!({"minCount": 2})), "Parallel", "no minCount"),
    ] {
        let error = stateful(scheduling, management).unwrap_err().to_string();
        assert!(error.contains("spec.scheduling") && error.contains(words), "{error}");
    }
}

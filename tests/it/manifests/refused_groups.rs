//! Bad manifests: each is refused with the object and the field that are at fault.

use super::reading::{example, sketch, stored, written};
use super::refusals::*;

/// A member of group `g`, as a further document.
fn member(name: &str, rest: &str) -> String {
    format!(
        "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{schedulingGroup: \
         {{podGroupName: g}}, containers: [{{name: c}}], {rest}}}}}"
    )
}

fn group(rest: &str) -> String {
    format!(
        "{{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {{name: g}}, spec: \
         {{schedulingPolicy: {{gang: {{minCount: 1}}}}, {rest}}}}}"
    )
}

fn composite(name: &str, parent: &str, rest: &str) -> String {
    format!(
        "\n---\n{{apiVersion: scheduling.k8s.io/v1alpha3, kind: CompositePodGroup, metadata: \
         {{name: {name}}}, spec: {{schedulingPolicy: {{gang: {{minGroupCount: 1}}}}, \
         parentCompositePodGroupName: {parent}, {rest}}}}}"
    )
}

#[test]
fn kubernetes_groups() {
    let case = |text: String, expected: &str| (text, format!("m.yaml: {expected}"));
    let two = |rest: &str| group("") + &member("a", "") + &member("b", rest);
    let deep = group("parentCompositePodGroupName: p1")
        + &composite("p1", "p2", "")
        + &composite("p2", "p3", "")
        + &composite("p3", "p4", "")
        + &composite("p4", "''", "");
    refused(&[
        case(two("priority: 7"), "pod default/b: spec.priority: 7 is not the 0 of pod default/a"),
        case(
            two("schedulerName: other"),
            "pod default/b: spec.schedulerName: is not that of pod default/a, a member of the same",
        ),
        case(
            two("preemptionPolicy: Never"),
            "pod default/b: spec.preemptionPolicy: is not that of pod default/a",
        ),
        case(
            group("priority: 5") + &member("a", ""),
            "pod default/a: spec.priority: 0 is not the 5 of podgroup default/g",
        ),
        case(
            group("").replace("minCount: 1", "minCount: 0"),
            "podgroup default/g: spec.schedulingPolicy.gang.minCount: 0 is not between 1 and",
        ),
        case(
            group("").replace("{gang: {minCount: 1}}", "{}"),
            "podgroup default/g: spec.schedulingPolicy: must be one of basic, gang",
        ),
        case(
            group("parentCompositePodGroupName: up"),
            "podgroup default/g: spec.parentCompositePodGroupName: \"up\" does not exist",
        ),
        pair(
            group("schedulingConstraints: {topology: [{key: a}, {key: b}]}"),
            "spec.schedulingConstraints.topology[1]: only one topology constraint is allowed",
        ),
        pair(
            group("disruptionMode: Both"),
            "spec.disruptionMode: \"Both\" is not one of Single, All, Pod, PodGroup",
        ),
        pair(
            group("preemptionPolicy: Sometimes"),
            "spec.preemptionPolicy: \"Sometimes\" is not one of Never, PreemptLowerPriority",
        ),
        pair(
            group("preemptionPolicy: Never, parentCompositePodGroupName: p")
                + &composite("p", "''", "preemptionPolicy: PreemptLowerPriority")
                + &member("a", "priority: 0"),
            "podgroup default/g: spec.preemptionPolicy: is not that of compositepodgroup default/p",
        ),
        pair(
            group("parentCompositePodGroupName: p")
                + &composite("p", "''", "disruptionMode: {all: {}}"),
            "podgroup default/g: spec.disruptionMode: must be all, as that of compositepodgroup",
        ),
        case(
            group("") + "\n---\n" + &group(""),
            "podgroup default/g: metadata.name: \"g\" occurs twice",
        ),
        pair(
            group("") + &composite("p", "q", "") + &composite("q", "p", ""),
            "spec.parentCompositePodGroupName: makes the group its own ancestor",
        ),
        pair(deep, "spec.parentCompositePodGroupName: makes a tree of more than 4 levels"),
    ]);
}

const PAIR: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {pod-group.scheduling.sigs.k8s.io/name: g, pod-group.scheduling.sigs.k8s.io/min-available: '2'}}, spec: {priority: 1, containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, labels: {pod-group.scheduling.sigs.k8s.io/name: g, pod-group.scheduling.sigs.k8s.io/min-available: '2'}}, spec: {priority: 1, containers: [{name: c}]}}
";

#[test]
fn label_pairs() {
    let label = "metadata.labels[pod-group.scheduling.sigs.k8s.io";
    refused(&[
        pair(
            PAIR.replacen("priority: 1", "priority: 2", 1),
            "pod default/b: spec.priority: 1 is not the 2 of pod default/a",
        ),
        (
            PAIR.replacen("'2'", "'0'", 1),
            format!("pod default/a: {label}/min-available]: 0 is not between 1 and 2147483647"),
        ),
        (
            PAIR.replacen("'2'", "'two'", 1),
            format!("pod default/a: {label}/min-available]: \"two\" is not an integer"),
        ),
        (
            PAIR.replacen("'2'", "'3'", 1),
            format!(
                "pod default/b: {label}/name]: describes the gang otherwise than pod default/a"
            ),
        ),
    ]);
    assert_eq!(sketch(&written(PAIR).unwrap().groups[0]), "g[2: a b]");
    assert!(stored(&PAIR.replacen("priority: 1", "priority: 2", 1)).is_err());
}

#[test]
fn coscheduling_and_koordinator() {
    let gang = "metadata.annotations[gang.scheduling.koordinator.sh";
    let koordinator = || example("koordinator.yaml");
    refused(&[
        (
            koordinator().replace("total-number: \"4\"", "total-number: \"3\""),
            format!("podgroup team-a/workers: {gang}/total-number]: 3 is below the minimum 4"),
        ),
        (
            koordinator().replacen("NonStrict", "Loose", 1),
            format!("{gang}/mode]: \"Loose\" is not one of Strict, NonStrict"),
        ),
        (
            koordinator().replacen("team-a/ps", "team-a/px", 1),
            format!("podgroup team-a/workers: {gang}/groups]: \"team-a/px\" does not exist"),
        ),
        (
            koordinator().replacen("[\"team-a/ps\"", "[team-a/ps", 1),
            format!("podgroup team-a/workers: {gang}/groups]: is not a JSON list of"),
        ),
        (
            koordinator().replace("waiting-time: 5m", "waiting-time: soon"),
            format!("pod team-a/ps-0: {gang}/waiting-time]: \"soon\" is not a time such as"),
        ),
        pair(
            example("coscheduling.yaml").replace("minMember: 3", "minMember: 0"),
            "podgroup team-a/trainer: spec.minMember: 0 is not between 1",
        ),
        pair(
            example("coscheduling.yaml").replace("gpu: \"24\"", "gpu: many"),
            "podgroup team-a/trainer: spec.minResources[nvidia.com/gpu]: \"many\" is not a quantity",
        ),
        pair(
            example("coscheduling.yaml").replace("  name: trainer\n", "  name: other\n"),
            "metadata.labels[scheduling.x-k8s.io/pod-group]: \"trainer\" does not exist",
        ),
    ]);
}

#[test]
fn volcano() {
    let job = || example("volcano-job.yaml");
    refused(&[
        pair(
            job().replace("minAvailable: 3", "minAvailable: 5"),
            "job team-a/trainer: spec.tasks[1].minAvailable: 5 is more than the 4 replicas",
        ),
        pair(
            job().replace("  minAvailable: 4", "  minAvailable: 6"),
            "job team-a/trainer: spec.minAvailable: 6 is more than the 5 replicas of all tasks",
        ),
        pair(
            job().replace("name: worker", "name: ps"),
            "job team-a/trainer: spec.tasks[1].name: \"ps\" occurs twice",
        ),
        pair(
            job().replace("cpu: \"8\"", "cpu: 8x"),
            "job team-a/trainer: spec.tasks[0].template.spec.containers[0].resources.requests[cpu]: \
             \"8x\" is not a quantity",
        ),
        pair(
            job().replace("replicas: 4", "replicas: 2000000000"),
            "job team-a/trainer: spec.tasks[1].replicas: 2000000001 is not between 0 and 100000",
        ),
        pair(
            example("volcano-podgroup.yaml").replace("    ps: 1\n", ""),
            "podgroup team-a/trainer: spec.minTaskMember: role \"ps\" has no minimum, while others",
        ),
        pair(
            example("volcano-podgroup.yaml").replacen("minMember: 4", "minMember: -4", 1),
            "podgroup team-a/trainer: spec.minMember: -4 is not between 1",
        ),
    ]);
}

//! Gangs that fit, that are incomplete, and that cannot fit.

use crate::scenario::{Cluster, NAME, condition, scenario};
use crate::support::objects::{self, Gang};

#[test]
fn two_hundred_gangs_are_bound_over_racks() {
    scenario("gangs-over-racks", async |cluster| {
        cluster.add_nodes(1000, 16).await;
        let names: Vec<String> = (0..200).map(|n| format!("gang-{n}")).collect();
        // Every size from 1 to 64 three times or more; the largest of one rack fill half of it.
        let gangs: Vec<Gang<'_>> = (0..200)
            .map(|n| Gang {
                name: &names[n],
                pods: n * 37 % 64 + 1,
                cpu: [1, 2, 4][n / 7 % 3],
                one_rack: n / 3 % 2 == 0,
                ..Gang::default()
            })
            .collect();
        let _scheduler = cluster.scheduler();
        cluster.add_gangs(&gangs).await;
        cluster.until_bound(gangs.iter().map(|gang| gang.pods).sum()).await;
        cluster.check_whole(&gangs).await;
        // The condition of the last gang may follow its last binding.
        for gang in &gangs {
            let path = format!("{}/{}", cluster.groups(), gang.name);
            cluster.until_condition(&path, "PodGroupScheduled", "True").await;
        }
    });
}

#[test]
fn incomplete_gangs_wait_until_they_are_complete() {
    scenario("incomplete-gangs", async |cluster| {
        cluster.add_nodes(20, 4).await;
        let names: Vec<String> = (0..20).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> = (0..20)
            .map(|n| Gang { name: &names[n], pods: 8, one_rack: n % 2 == 0, ..Gang::default() })
            .collect();
        let _scheduler = cluster.scheduler();
        let groups: Vec<_> = gangs.iter().map(Gang::group).collect();
        cluster.api.create_all(&cluster.groups(), &groups).await;
        let first = gangs.iter().flat_map(|gang| (0..7).map(|n| gang.pod(n, NAME))).collect();
        cluster.add_pods(first).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&gangs).await, [0; 20], "7 pods of 8 are there");

        let last = gangs.iter().map(|gang| gang.pod(7, NAME)).collect();
        cluster.add_pods(last).await;
        cluster.until_bound(160).await;
        cluster.check_whole(&gangs).await;

        // A ninth pod of a gang that is bound is bound alone.
        cluster.add_pods(vec![gangs[1].pod(8, NAME)]).await;
        cluster.until_bound(161).await;
    });
}

/// Waits for the conditions of a gang that does not fit and of its pods; none of them is bound.
async fn until_refused(cluster: &Cluster<'_>, gang: &Gang<'_>) {
    let group = format!("{}/{}", cluster.groups(), gang.name);
    let (reason, message) = cluster.until_condition(&group, "PodGroupScheduled", "False").await;
    assert_eq!(reason, "Unschedulable", "{}: {message}", gang.name);
    assert!(!message.is_empty(), "{} has no explanation", gang.name);
    let pod = format!("{}/{}", cluster.pods(), gang.pod_name(0));
    let (reason, message) = cluster.until_condition(&pod, "PodScheduled", "False").await;
    assert_eq!(reason, "Unschedulable", "{pod}: {message}");
    assert!(!message.is_empty(), "{pod} has no explanation");
    assert_eq!(cluster.bound_of(gang.name), 0, "{}", gang.name);
}

#[test]
fn gangs_that_cannot_fit_say_so_until_they_fit() {
    scenario("gangs-that-cannot-fit", async |cluster| {
        // Two racks of four nodes.
        cluster.add_nodes(8, 4).await;
        let _scheduler = cluster.scheduler();
        let large = Gang { name: "pods-too-large", pods: 2, cpu: 33, ..Gang::default() };
        let half = Gang { name: "half-fits", pods: 16, cpu: 32, ..Gang::default() };
        let rack =
            Gang { name: "rack-too-small", pods: 5, cpu: 32, one_rack: true, ..Gang::default() };
        for gang in [large, half, rack] {
            cluster.add_gangs(&[gang]).await;
            until_refused(cluster, &gang).await;
        }
        // A key that no node has.
        let lost = Gang { name: "no-such-domain", one_rack: true, ..Gang::default() };
        let mut group = lost.group();
        group["spec"]["schedulingConstraints"]["topology"][0]["key"] = "example.com/row".into();
        cluster.api.create(&cluster.groups(), &group).await;
        cluster.add_pods(lost.all_pods(NAME)).await;
        until_refused(cluster, &lost).await;

        // A fifth node for the second rack.
        cluster.api.create("/api/v1/nodes", &objects::node("node-9", "rack-1")).await;
        cluster.until_bound(5).await;
        assert_eq!(cluster.check(&[large, half, rack, lost]).await, [0, 0, 5, 0]);
        let group = format!("{}/{}", cluster.groups(), rack.name);
        cluster.until_condition(&group, "PodGroupScheduled", "True").await;
    });
}

#[test]
fn a_group_may_come_after_its_pods() {
    scenario("group-after-pods", async |cluster| {
        cluster.add_nodes(10, 5).await;
        let _scheduler = cluster.scheduler();
        let names: Vec<String> = (0..10).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> =
            (0..10).map(|n| Gang { name: &names[n], pods: 8, ..Gang::default() }).collect();
        let pods = gangs.iter().flat_map(|gang| gang.all_pods(NAME)).collect();
        cluster.add_pods(pods).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&gangs).await, [0; 10], "no group is there");

        for (done, gang) in gangs.iter().enumerate() {
            cluster.api.create(&cluster.groups(), &gang.group()).await;
            cluster.until_bound(8 * (done + 1)).await;
        }
        cluster.check_whole(&gangs).await;
    });
}

#[test]
fn a_pod_with_a_scheduling_gate_or_a_claim_is_left_alone() {
    scenario("gates-and-claims", async |cluster| {
        cluster.add_nodes(4, 4).await;
        let _scheduler = cluster.scheduler();
        let mut gated = objects::pod("gated", 1, NAME);
        gated["spec"]["schedulingGates"] = serde_json::json!([{"name": "example.com/quota"}]);
        let mut claiming = objects::pod("claiming", 1, NAME);
        claiming["spec"]["resourceClaims"] =
            serde_json::json!([{"name": "device", "resourceClaimName": "device"}]);
        cluster.add_pods(vec![gated, claiming]).await;
        cluster.until_settled().await;
        let path = format!("{}/claiming", cluster.pods());
        let (_, message) = cluster.until_condition(&path, "PodScheduled", "False").await;
        assert!(message.contains("claim"), "{message}");
        assert_eq!(cluster.ledger.book().bound(cluster.namespace), 0);

        // Without its gate the pod is like any other.
        let path = format!("{}/gated", cluster.pods());
        cluster.api.patch(&path, &serde_json::json!({"spec": {"schedulingGates": null}})).await;
        cluster.until_bound(1).await;
    });
}

#[test]
fn pods_of_other_schedulers_are_left_alone() {
    scenario("other-schedulers", async |cluster| {
        cluster.add_nodes(4, 4).await;
        let _scheduler = cluster.scheduler();
        let gang = Gang { name: "foreign", ..Gang::default() };
        cluster.api.create(&cluster.groups(), &gang.group()).await;
        cluster.add_pods(gang.all_pods("someone-else")).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[gang]).await, [0]);
        let pod = cluster.api.get(&format!("{}/{}", cluster.pods(), gang.pod_name(0))).await;
        assert!(condition(&pod, "PodScheduled").is_none(), "{}", pod["status"]);
    });
}

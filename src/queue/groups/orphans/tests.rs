use super::*;

#[test]
fn a_pod_waits_for_the_last_group_that_it_named() {
    let pod = |name: &str, cpu: i64| Pod::new().name(name).request("cpu", cpu);
    let names = |pods: Vec<Pod>| pods.into_iter().map(|pod| pod.name).collect::<Vec<_>>();
    let mut orphans = Orphans::default();
    for name in ["p", "q", "r"] {
        orphans.put("default/a".into(), pod(name, 1));
    }
    orphans.put("default/b".into(), pod("q", 1));
    orphans.put("default/a".into(), pod("p", 2));
    let twos = orphans.groups["default/a"].values().next().unwrap().clone();
    assert_eq!(twos, pod("p", 2), "a pod that comes again keeps its place");
    orphans.put("default/a".into(), pod("q", 1));
    orphans.remove("default/r");
    orphans.remove("default/unknown");
    assert_eq!(names(orphans.take("default/a")), ["p", "q"]);
    assert_eq!(names(orphans.take("default/b")), [""; 0]);
    assert!(orphans.groups.is_empty() && orphans.pods.is_empty());
}

use super::*;

#[test]
fn unsound_trees_are_refused_by_name() {
    let pod = Pod::new();
    let sound = PodGroup::of("g", 1, pod.clone());
    assert!(sound.check().is_ok());
    assert!(PodGroup::gang("g", 9).pods(1, pod.clone()).check().is_ok());
    for (group, field) in [
        (PodGroup::gang("g", 1), "pods"),
        (PodGroup::of("", 1, pod.clone()), "name"),
        (PodGroup::gang("g", 0).pods(1, pod.clone()), "policy.gang.minCount"),
        (sound.clone().group(sound.clone()), "pods"),
        (sound.clone().pod(pod.clone()), "pods.name"),
        (sound.clone().pod(pod.clone().name("g-0")), "members"),
        (PodGroup::gang("p", 1).group(sound.clone()).group(sound.clone()), "members"),
        (sound.clone().pod(pod.clone().name("g-1")).pod(pod.clone().name("g-0")), "members"),
        (sound.clone().slice("rack", 0), "topology.slices[0].size"),
    ] {
        assert_eq!(group.check().unwrap_err().field, field);
    }
    let mixed = sound.clone().pod(pod.clone().name("a"));
    assert!(mixed.check().is_ok());
    assert!(mixed.pod(pod.clone().name("g-0")).check().is_err());
    let bad = pod.clone().name("h").request("cpu", -1);
    assert_eq!(sound.clone().pod(bad).check().unwrap_err().object, "pod default/h");
    let deep = (0..PodGroup::MAX_DEPTH)
        .fold(sound, |inner, depth| PodGroup::gang(format!("level-{depth}"), 1).group(inner));
    assert_eq!(deep.check().unwrap_err().field, "groups");
}

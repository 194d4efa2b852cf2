//! Requests that count for a pod.

use super::*;
use alloc::vec;

fn container(requests: &[(&str, &str)], sidecar: bool) -> Container {
    Container {
        requests: requests.iter().map(|(n, q)| ((*n).into(), q.parse().unwrap())).collect(),
        sidecar,
    }
}

#[test]
fn a_pod_is_built_as_it_is_stated() {
    let cpu = |text: &str| -> Quantity { text.parse().unwrap() };
    let sidecar = Container::new().request("cpu", cpu("1")).sidecar();
    assert_eq!(sidecar, container(&[("cpu", "1")], true));
    let built = PodResources::new()
        .container(Container::new().request("cpu", cpu("2")))
        .init_container(sidecar)
        .pod_level("cpu", cpu("6"))
        .overhead("cpu", cpu("500m"));
    // The pod as a whole asks for more than its containers, and overhead comes on top.
    assert_eq!(built.effective().unwrap().requests.of(CPU), 6_500);
    assert_eq!(built.effective().unwrap().incoming.of(CPU), 3_500);
}

#[test]
fn sums_are_exact_and_rounded_once() {
    let pod = PodResources {
        containers: vec![
            container(&[("memory", "0.1Ki"), ("cpu", "500u")], false),
            container(&[("memory", "0.1Ki"), ("cpu", "500u")], false),
        ],
        ..PodResources::default()
    };
    let effective = pod.effective().unwrap();
    assert_eq!((effective.requests.of(MEMORY), effective.requests.of(CPU)), (205, 1));
}

#[test]
fn sidecars_run_beside_later_init_containers() {
    let pod = PodResources {
        containers: vec![container(&[("cpu", "1")], false)],
        init_containers: vec![
            container(&[("cpu", "3")], false),
            container(&[("cpu", "1")], true),
            container(&[("cpu", "3")], false),
        ],
        overhead: [("cpu".into(), "100m".parse().unwrap())].into(),
        ..PodResources::default()
    };
    assert_eq!(pod.effective().unwrap().requests.of(CPU), 4_100);
}

#[test]
fn missing_requests_get_their_defaults_in_scores_only() {
    let pod = PodResources {
        containers: vec![container(&[], false), container(&[("cpu", "0")], false)],
        ..PodResources::default()
    };
    let effective = pod.effective().unwrap();
    assert_eq!(effective.requests.of(CPU), 0);
    assert_eq!(effective.existing, [100, 2 * DEFAULT_MEMORY]);
    assert_eq!(effective.incoming.of(CPU), 100);
}

#[test]
fn requests_of_the_whole_pod_replace_even_larger_sums_but_not_in_incoming_scores() {
    let pod = PodResources {
        containers: vec![container(&[("cpu", "4"), ("example.com/x", "2")], false)],
        pod_level: [("cpu".into(), "1".parse().unwrap()), ("example.com/x".into(), 9.into())]
            .into(),
        ..PodResources::default()
    };
    let effective = pod.effective().unwrap();
    assert_eq!((effective.requests.of(CPU), effective.requests.of("example.com/x")), (1_000, 2));
    assert_eq!(effective.existing, [1_000, DEFAULT_MEMORY]);
    assert_eq!(effective.incoming.of(CPU), 4_000);
}

//! Tests: images of nodes.

use super::super::testing::{cluster, scores};
use super::*;
use crate::model::{Image, Node, Pod};

#[test]
fn tags_are_told_from_ports() {
    for (image, expected) in [
        ("a", "a:latest"),
        ("a:1", "a:1"),
        ("host:5000/a", "host:5000/a:latest"),
        ("host:5000/a:1", "host:5000/a:1"),
        ("", ":latest"),
    ] {
        assert_eq!(normalized(image), expected);
    }
}

#[test]
fn large_and_widespread_images_count_most() {
    let cluster = cluster([
        Node::new("n0").image("a:latest", 500 * MEBIBYTE),
        Node::new("n1").image("a:latest", 500 * MEBIBYTE).image("b:1", 900 * MEBIBYTE),
        Node::new("n2"),
        Node::new("n3").image("b:1", 10 * MEBIBYTE),
    ]);
    let pod = |images: &[&str], containers| {
        let mut pod = Pod::new();
        let shape = pod.shape_mut();
        shape.images = images.iter().map(|image| String::from(*image)).collect();
        shape.containers = containers;
        pod
    };
    // Half of 500 MiB: 227 of 977.
    assert_eq!(scores(ImageLocality, &cluster, &pod(&["a"], 1)), [23, 23, 0, 0]);
    // 227 + 450 of 1977, and 5 MiB on the last, which is too little.
    assert_eq!(scores(ImageLocality, &cluster, &pod(&["a", "b:1"], 2)), [11, 34, 0, 0]);
    assert_eq!(scores(ImageLocality, &cluster, &pod(&["b"], 1)), [0; 4]);
}

#[test]
fn the_last_image_of_a_name_counts() {
    let mut node = Node::new("n");
    let image = |size| Image { names: alloc::vec!["x".into(), "a:1".into()], size };
    node.images = alloc::vec![image(900 * MEBIBYTE), image(123 * MEBIBYTE)];
    let cluster = cluster([node]);
    let mut pod = Pod::new();
    pod.shape_mut().images = alloc::vec!["a:1".into()];
    assert_eq!(scores(ImageLocality, &cluster, &pod), [10]);
}

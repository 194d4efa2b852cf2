//! The order that one watch must keep, and what breaks it.

use phalanx::kubernetes::watch::{Kind, WatchEvent};
use serde_json::{Value, json};

use super::relist::{World, group, list_end, member, node};

fn event(word: &str, version: u64, mut object: Value) -> WatchEvent {
    object["metadata"]["resourceVersion"] = version.to_string().into();
    serde_json::from_value(json!({"type": word, "object": object})).unwrap()
}

fn bookmark(version: u64) -> WatchEvent {
    event("BOOKMARK", version, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}))
}

#[test]
fn lines_between_two_bookmarks_may_change_places() {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n"));
    world.hear("ADDED", 2, group("g", 1));
    world.hear("DELETED", 7, member("p", "g"));
    world.hear("ADDED", 3, member("p", "g"));
    world.hear("MODIFIED", 5, member("p", "g"));
    assert_eq!(world.bind(), [""; 0], "it was deleted");
    world.store.apply(bookmark(8)).unwrap();
    world.hear("ADDED", 9, member("p", "g"));
    assert_eq!(world.bind(), ["p"], "it was made anew");
}

#[test]
fn an_object_from_before_a_bookmark_is_refused_by_name() {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n"));
    world.hear("ADDED", 2, group("g", 1));
    world.hear("ADDED", 3, member("p", "g"));
    world.hear("DELETED", 4, member("p", "g"));
    world.store.apply(bookmark(5)).unwrap();
    let error = world.store.apply(event("ADDED", 3, member("p", "g"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod default/p: metadata.resourceVersion: 3 comes after the bookmark of 5"
    );
    assert_eq!(world.store.apply(event("DELETED", 4, member("p", "g"))), Ok(Vec::new()));
    assert_eq!(world.bind(), [""; 0]);
    assert!(world.store.pod("default", "p").is_none());
}

#[test]
fn a_late_bookmark_does_not_forget_what_was_deleted_after_it() {
    let mut world = World::new();
    world.hear("DELETED", 7, member("p", "g"));
    world.store.apply(bookmark(5)).unwrap();
    world.hear("ADDED", 6, member("p", "g"));
    assert!(world.store.pod("default", "p").is_none());
}

#[test]
fn a_list_may_show_what_is_older_than_the_last_bookmark() {
    let mut world = World::new();
    world.store.apply(bookmark(50)).unwrap();
    world.store.begin_list(Kind::Pod);
    world.hear("ADDED", 3, member("p", "g"));
    world.hear("BOOKMARK", 60, list_end(Kind::Pod));
    assert!(world.store.pod("default", "p").is_some());
}

//! A server that has just started, and has not read its roles yet.

use crate::server::RELEASE_1_37;
use crate::world::{SOON, World, group, node, pod};

/// The room is kept while bindings are tried again: another gang that comes meanwhile does not get it.
#[test]
fn a_gang_keeps_its_room_until_the_server_has_read_its_roles() {
    let world = World::new(RELEASE_1_37);
    let mut only = node("n1");
    only["status"]["allocatable"]["cpu"] = "4".into();
    world.server.create("nodes", only);
    // Each pod of the first gang is refused once.
    world.server.state().unread_roles = 4;
    let _scheduler = world.scheduler("");
    for name in ["one", "two"] {
        world.server.create("podgroups", group(name, 4));
        for member in 0..4 {
            world.server.create("pods", pod(&format!("{name}-{member}"), name));
        }
        if name == "one" {
            world.server.until(SOON, "bindings that are refused", |state| state.unread_roles == 0);
        }
    }
    world.until_bound(4);
    let state = world.server.state();
    let bound = state.list("pods").filter(|pod| pod["spec"]["nodeName"].is_string());
    let groups = bound.map(|pod| pod["spec"]["schedulingGroup"]["podGroupName"].clone());
    assert_eq!(groups.collect::<Vec<_>>(), ["one"; 4]);
}

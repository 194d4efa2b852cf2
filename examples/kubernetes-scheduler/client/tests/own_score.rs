//! The scheduler of `examples/own_score.rs` against a stand-in for an API server.

#[path = "../../tests/stand_in/server.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod server;
#[path = "../../tests/stand_in/wire.rs"]
mod wire;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use server::{RELEASE_1_37, Server};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn node(name: &str, labels: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {"cpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

#[test]
fn fifty_lines_bind_pods_to_the_nodes_that_their_score_likes() {
    let server = Server::start(RELEASE_1_37);
    for (name, labels) in [("a", json!({})), ("b", json!({"fast": "yes"})), ("c", json!({}))] {
        server.create("nodes", node(name, labels));
    }
    for index in 0..4 {
        server.create(
            "pods",
            json!({
                "metadata": {"name": format!("p{index}"), "namespace": "ml"},
                "spec": {
                    "schedulerName": "own-score",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                },
            }),
        );
    }
    let path = std::env::temp_dir().join(format!("own-score-{}", std::process::id()));
    std::fs::write(&path, server.kubeconfig().to_string()).expect("a file can be written");
    // Cargo builds the examples of a package for its tests, in a folder beside theirs.
    let own = std::env::current_exe().expect("it runs");
    let folder = own.parent().and_then(|deps| deps.parent()).expect("tests are in a folder");
    let mut command = Command::new(folder.join("examples/own_score"));
    let command = command.arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
    let _running = Running(command.spawn().expect("the example is built"));
    server.until(Duration::from_secs(90), "all pods are on the fast node", |state| {
        state.list("pods").filter(|pod| pod["spec"]["nodeName"] == "b").count() == 4
    });
    let _ = std::fs::remove_file(&path);
}

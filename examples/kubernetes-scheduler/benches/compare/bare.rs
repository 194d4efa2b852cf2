//! A bare client of the same library: it binds what waits to the nodes in turn, and looks at nothing.
//! What it binds in a second is what the server, the machine and the library allow.

use std::path::Path;

use futures::{StreamExt, stream};
use http::Method;
use serde_json::Value;

use crate::support::api::{Api, IN_FLIGHT};
use crate::support::objects;

/// The argument that makes this program the bare client.
pub const COMMAND: &str = "bare-client";

/// Binds all pods of the namespace, and then sleeps: its use of the machine is read from outside.
pub fn main(kubeconfig: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the runtime starts");
    runtime.block_on(async {
        let api = Api::new(kubeconfig).await;
        let nodes = api.list("/api/v1/nodes").await;
        let pods = api.list(&crate::pods()).await;
        let bindings = pods.iter().zip(nodes.iter().cycle()).map(|(pod, node)| {
            let node = node["metadata"]["name"].as_str().unwrap_or_default();
            objects::binding(crate::NAMESPACE, &pod["metadata"], node)
        });
        stream::iter(bindings)
            .for_each_concurrent(IN_FLIGHT, |(path, body)| {
                let api = &api;
                async move {
                    let answer = api.send::<Value>(&Method::POST, &path, Some(&body)).await;
                    answer.unwrap_or_else(|failure| panic!("{path}: {failure:?}"));
                }
            })
            .await;
        std::future::pending::<()>().await;
    });
}

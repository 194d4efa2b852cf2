//! Objects of the tests, and the scheduler that runs on them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::Program;
use crate::server::Server;

/// The time for what must happen soon; long, for a machine that others use too.
pub const SOON: Duration = Duration::from_secs(90);

/// A server and where its files are.
pub struct World {
    pub server: Server,
    folder: PathBuf,
}

impl World {
    pub fn new(release: &[(&'static str, &'static str)]) -> World {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("stand-in-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let server = Server::start(release);
        std::fs::write(folder.join("kubeconfig"), server.kubeconfig().to_string())
            .expect("a file can be written");
        server.create("namespaces", json!({"metadata": {"name": "ml"}}));
        World { server, folder }
    }

    /// The scheduler, with a configuration.
    pub fn scheduler(&self, configuration: &str) -> Program {
        self.scheduler_with(configuration, &[])
    }

    /// The folder of its files.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The scheduler, with a configuration and further arguments.
    pub fn scheduler_with(&self, configuration: &str, more: &[&str]) -> Program {
        let file = self.folder.join("config.yaml");
        std::fs::write(&file, configuration).expect("a file can be written");
        let file = file.to_string_lossy().into_owned();
        let mut arguments = vec!["--config", file.as_str()];
        arguments.extend(more);
        Program::start(&self.folder.join("kubeconfig"), &arguments, &self.folder.join("log"))
    }

    /// Waits until so many pods are bound.
    pub fn until_bound(&self, count: usize) {
        self.server.until(SOON, "pods are bound", |state| {
            state.list("pods").filter(|pod| pod["spec"]["nodeName"].is_string()).count() == count
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": "r"}},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

pub fn pod(name: &str, group: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ml", "uid": format!("uid-{name}")},
        "spec": {
            "schedulerName": "phalanx", "schedulingGroup": {"podGroupName": group},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

pub fn group(name: &str, minimum: usize) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    })
}

/// The status of a condition of a group.
pub fn condition(group: &Value, name: &str) -> Option<String> {
    let conditions = group["status"]["conditions"].as_array()?;
    let own = conditions.iter().find(|own| own["type"] == name)?;
    own["status"].as_str().map(str::to_owned)
}

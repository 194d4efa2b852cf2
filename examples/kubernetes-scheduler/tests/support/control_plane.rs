//! A Kubernetes control plane on loopback, run by the script that `CONTROL_PLANE` names.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

/// A control plane in a state folder of its own. It is stopped, and its folder removed, when this
/// process has ended, in whatever way.
#[derive(Clone)]
pub struct ControlPlane {
    script: PathBuf,
    state: PathBuf,
    /// A process that waits for the end of this one: its standard input is closed then.
    _guard: Arc<Child>,
}

impl ControlPlane {
    /// A new control plane that does not run yet; none if `CONTROL_PLANE` is not set.
    pub fn from_environment() -> Option<Self> {
        let script = PathBuf::from(env::var_os("CONTROL_PLANE")?);
        let state = env::temp_dir().join(format!("control-plane-{}", std::process::id()));
        let guard = Command::new("sh")
            .arg("-c")
            .arg(r#"trap '' INT TERM HUP; cat; exec "$0" --state "$1" stop --wipe"#)
            .args([&script, &state])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell can be started");
        Some(Self { script, state, _guard: Arc::new(guard) })
    }

    /// The output of one command of the script.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.script)
            .arg("--state")
            .arg(&self.state)
            .args(arguments)
            .output()
            .expect("the script of the control plane can be started");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).expect("the script writes text")
    }

    /// Starts etcd and kube-apiserver where they do not run.
    pub fn start(&self) {
        self.run(&["start"]);
    }

    /// The kubeconfig of a role: `admin`, or `scheduler` with the rights of kube-scheduler.
    pub fn kubeconfig(&self, role: &str) -> PathBuf {
        self.state.join(format!("{role}.kubeconfig"))
    }

    /// The folder with keys, data and logs.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The process id of a part that runs.
    pub fn id(&self, part: &str) -> Option<u32> {
        let rows: Vec<Value> =
            serde_json::from_str(&self.run(&["status", "--json"])).expect("the status is JSON");
        let row = rows.iter().find(|row| row["name"] == part)?;
        u32::try_from(row["pid"].as_u64()?).ok()
    }
}

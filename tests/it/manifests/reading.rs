//! Support that the tests of manifests share.

use std::fs;
use std::path::{Path, PathBuf};

use phalanx::PodGroup;
use phalanx::kubernetes::{Error, Manifests, Mode, Reader, Value};
use phalanx::model::GroupPolicy;

/// Reads YAML of several documents from several sources.
pub(crate) fn read_yaml(mode: Mode, texts: &[(&str, &str)]) -> Result<Manifests, Error> {
    let mut reader = Reader::new(mode);
    for (source, text) in texts {
        for document in serde_saphyr::from_multiple::<Value>(text).expect("sound YAML") {
            reader.take(source, document)?;
        }
    }
    reader.finish()
}

/// Reads what a person wrote.
pub(crate) fn written(text: &str) -> Result<Manifests, Error> {
    read_yaml(Mode::AsWritten, &[("m.yaml", text)])
}

/// Reads what an API server stored.
pub(crate) fn stored(text: &str) -> Result<Manifests, Error> {
    read_yaml(Mode::AsStored, &[("m.yaml", text)])
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests")
}

/// All example manifests, in order of name.
pub(crate) fn examples() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Those of queues stand apart.
    files.retain(|path| path.is_file());
    files.sort();
    files
}

/// One example manifest.
pub(crate) fn example(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// The shape of a tree in a line: `name[min: pods or groups]`.
pub(crate) fn sketch(group: &PodGroup) -> String {
    let members: Vec<String> = if group.groups.is_empty() {
        group.pods.iter().map(|pod| pod.name.clone()).collect()
    } else {
        group.groups.iter().map(sketch).collect()
    };
    let min = match group.policy {
        GroupPolicy::Basic {} => "any".to_owned(),
        GroupPolicy::Gang { min_count } => min_count.to_string(),
        other => panic!("{other:?}"),
    };
    format!("{}[{min}: {}]", group.name, members.join(" "))
}

/// A pod with these lines in its spec, and its one container with these.
pub(crate) fn pod_with(spec: &str, container: &str) -> String {
    let (spec, container) = (spec.replace('\n', "\n  "), container.replace('\n', "\n      "));
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    - name: c\n      \
         {container}\n  {spec}\n"
    )
}

//! Kubernetes manifests from files.

use phalanx::Cluster;
use phalanx::kubernetes::{Error, Mode, Reader, Value};

use super::{Scene, located};
use crate::common::cli::Finish;
use crate::common::files;

/// Reads a cluster and what waits for it, and remarks on single objects.
///
/// # Errors
/// A file cannot be read, or an object in it cannot be taken. The message names the file, the
/// object and the field.
pub(crate) fn read(
    cluster_file: &str,
    workload_file: &str,
    as_stored: bool,
) -> Result<(Scene, Vec<String>), String> {
    let mode = if as_stored { Mode::AsStored } else { Mode::AsWritten };
    let mut reader = Reader::new(mode);
    feed(&mut reader, cluster_file, mode)?;
    if workload_file != cluster_file {
        feed(&mut reader, workload_file, mode)?;
    }
    let manifests = reader.finish().map_err(|error| error.to_string())?;
    let source = if workload_file == cluster_file {
        cluster_file.to_string()
    } else {
        format!("{cluster_file} or {workload_file}")
    };
    let fault = |error: phalanx::StateError| format!("{source}: {error}");
    let mut notes: Vec<String> = manifests.notes.iter().map(ToString::to_string).collect();
    for (kind, count) in &manifests.ignored {
        notes.push(format!("{kind}: passed over, {count} in all"));
    }
    let mut cluster = Cluster::builder().levels(manifests.levels).build().map_err(fault)?;
    for (name, labels) in manifests.namespaces {
        cluster.set_namespace(name, labels);
    }
    for node in manifests.nodes {
        cluster.add_node(node).map_err(fault)?;
    }
    let has_claims = !manifests.claims.is_empty();
    for object in manifests.storage {
        cluster.set_storage(object).map_err(fault)?;
    }
    for object in manifests.claims {
        cluster.set_claim_object(object).map_err(fault)?;
    }
    for pod in manifests.bound {
        let node = pod.node.clone().unwrap_or_default();
        if cluster.node(&node).is_none() {
            let name = format!("{}/{}", pod.namespace(), pod.name);
            notes.push(format!("pod {name}: runs on node {node}, which is not in the files"));
        }
        cluster.add_pod(pod).map_err(fault)?;
    }
    let title = cluster_file.to_string();
    Ok((Scene { title, source, cluster, groups: manifests.groups, has_claims }, notes))
}

/// The account of a file, document by document.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn account(file: &str, as_stored: bool) -> Result<Finish, String> {
    let mode = if as_stored { Mode::AsStored } else { Mode::AsWritten };
    super::reading::account(file, mode)
}

/// Hands a file to the reader, document by document.
fn feed(reader: &mut Reader, file: &str, mode: Mode) -> Result<(), String> {
    let bytes = files::read(file)?;
    let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else {
        return Err(format!("{file}: is empty"));
    };
    let bare = file.strip_suffix(".gz").unwrap_or(file);
    let extension = std::path::Path::new(bare).extension().unwrap_or_default();
    let is_yaml = ["yaml", "yml"].iter().any(|yaml| extension.eq_ignore_ascii_case(yaml));
    if !is_yaml && (*first == b'{' || *first == b'[') {
        feed_json(reader, file, &bytes)
    } else {
        feed_yaml(reader, file, &bytes, mode)
    }
}

/// One JSON value after the other, as `kubectl` and logs of it write them.
fn feed_json(reader: &mut Reader, file: &str, bytes: &[u8]) -> Result<(), String> {
    let mut documents = serde_json::Deserializer::from_slice(bytes);
    loop {
        reader.read(file, &mut documents).map_err(|error| error.to_string())?;
        if documents.end().is_ok() {
            return Ok(());
        }
    }
}

fn feed_yaml(reader: &mut Reader, file: &str, bytes: &[u8], mode: Mode) -> Result<(), String> {
    use serde_saphyr::DuplicateKeyPolicy;
    let duplicates = match mode {
        Mode::AsStored => DuplicateKeyPolicy::LastWins,
        Mode::AsWritten => DuplicateKeyPolicy::Error,
    };
    let mut input = bytes;
    let options = options(bytes.len(), duplicates);
    let documents = serde_saphyr::read_with_options::<_, Value>(&mut input, options);
    for (index, document) in documents.enumerate() {
        let document = document.map_err(|error| format!("{file}: {error}"))?;
        reader.take(file, document).map_err(|error| placed(file, bytes, index, &error))?;
    }
    Ok(())
}

/// An error with the line of its field.
fn placed(file: &str, bytes: &[u8], index: usize, error: &Error) -> String {
    let text = String::from_utf8_lossy(bytes);
    let documents = located::documents(file, &text).unwrap_or_default();
    documents.get(index).map_or_else(|| error.to_string(), |document| document.place(error, 0))
}

/// How YAML of so many bytes is read. It is in memory already, so its size bounds the work.
pub(crate) fn options(
    bytes: usize,
    duplicate_keys: serde_saphyr::DuplicateKeyPolicy,
) -> serde_saphyr::Options {
    let most = bytes.saturating_add(1_024);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: most,
            max_nodes: most,
            max_documents: most,
            max_total_scalar_bytes: most,
        },
        duplicate_keys: duplicate_keys,
        with_snippet: false,
    }
}

/// The text of a file.
///
/// # Errors
/// It cannot be read, or is no text.
pub(crate) fn text(file: &str) -> Result<String, String> {
    let bytes = files::read(file)?;
    phalanx::kubernetes::text(file, &bytes).map(str::to_string).map_err(|error| error.to_string())
}

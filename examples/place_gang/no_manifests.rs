//! The answer to files where the reader of manifests is not built in.

use super::Scene;
use crate::common::cli::Finish;

/// Refuses files.
///
/// # Errors
/// Always: the message says how the program is run with the reader.
pub(crate) fn read(
    cluster_file: &str,
    _workload_file: &str,
    _as_stored: bool,
) -> Result<(Scene, Vec<String>), String> {
    Err(refusal(cluster_file))
}

/// Refuses the account of a file.
///
/// # Errors
/// Always, the same way.
pub(crate) fn account(file: &str, _as_stored: bool) -> Result<Finish, String> {
    Err(refusal(file))
}

fn refusal(file: &str) -> String {
    format!(
        "{file}: manifests are read with a feature; run \
         cargo run --release --features kubernetes --example place_gang -- ..."
    )
}

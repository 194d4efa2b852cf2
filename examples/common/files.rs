//! Files, compressed or not.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// The most a file may hold or unpack to: neither a small file nor a device without end can fill the
/// memory.
const LIMIT: u64 = 1 << 32;

/// The bytes of a file, unpacked if they are gzip's. Errors name the file.
pub(crate) fn read(path: &str) -> Result<Vec<u8>, String> {
    let named = |error| format!("{path}: {error}");
    let file = std::fs::File::open(path).map_err(named)?;
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(named)?;
    if bytes.len() as u64 > LIMIT {
        return Err(format!("{path}: holds more than {LIMIT} bytes"));
    }
    unpack(path, bytes)
}

/// Writes a file whole or not at all: if it cannot be written, the file that was there stays. Errors
/// name the file.
pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    let path = path.as_ref();
    let named = |error| format!("{}: {error}", path.display());
    match std::fs::metadata(path) {
        // A device or a pipe takes its bytes as they come; a folder is refused.
        Ok(known) if !known.is_file() => return std::fs::write(path, bytes).map_err(named),
        Ok(known) if known.permissions().readonly() => {
            return Err(named(std::io::ErrorKind::PermissionDenied.into()));
        }
        _ => {}
    }
    // Behind a link is the file that is meant.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut half = target.clone().into_os_string();
    half.push(format!(".{}.part", std::process::id()));
    let written = std::fs::write(&half, bytes).and_then(|()| std::fs::rename(&half, &target));
    if written.is_err() {
        let _ = std::fs::remove_file(&half);
    }
    written.map_err(named)
}

/// Unpacks bytes if they are gzip's, whatever their name.
pub(crate) fn unpack(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let mut decoder = MultiGzDecoder::new(bytes.as_slice()).take(LIMIT + 1);
    match decoder.read_to_end(&mut unpacked) {
        Ok(_) if unpacked.len() as u64 <= LIMIT => Ok(unpacked),
        Ok(_) => Err(format!("{name}: unpacks to more than {LIMIT} bytes")),
        Err(error) => Err(format!("{name}: broken gzip data: {error}")),
    }
}

/// Bytes as text. Errors name the file.
pub(crate) fn text(name: &str, bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes)
        .map_err(|error| format!("{name}: not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}

//! Files, compressed or not.

use std::io::Read;

use flate2::read::MultiGzDecoder;

/// The most a file may unpack to: a small file cannot fill the memory.
const LIMIT: u64 = 1 << 32;

/// The bytes of a file, unpacked if they are gzip's. Errors name the file.
pub(crate) fn read(path: &str) -> Result<Vec<u8>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    unpack(path, bytes)
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

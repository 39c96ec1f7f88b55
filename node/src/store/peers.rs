//! The addresses of peers, so that a restart needs no bootstrap.

use std::path::Path;

use super::error::StoreError;
use super::file;
use super::incident::Incidents;

/// The addresses saved last; none if there are none that can be read.
pub(super) fn read(path: &Path, incidents: &Incidents) -> Vec<String> {
    let Ok(Some(bytes)) = file::read(path) else { return Vec::new() };
    serde_json::from_slice(&bytes).unwrap_or_else(|_| {
        let _ = file::remove(path);
        incidents.note(path, None, "peers are found anew");
        Vec::new()
    })
}

/// Saves addresses. They need not survive a loss of power.
pub(super) fn write(path: &Path, peers: &[String]) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec_pretty(peers).expect("strings are plain data");
    file::replace_soon(path, &bytes)
}

//! What the tests of the store share.

use std::path::Path;

use atoll_node::store::Store;
use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{Key, content_id};
use atoll_protocol::engine::Record;
use atoll_protocol::genesis::{Genesis, Model};
use atoll_protocol::id::{FragmentId, NodeId, RoundId, RunId, Version};
use atoll_protocol::outer::Norms;
use tempfile::TempDir;

/// The run of the tests.
pub(crate) fn genesis() -> Genesis {
    Genesis::new("test", Model::preset("nano").unwrap())
}

/// A folder that is gone when the test ends, in memory where that is possible: a test that ends
/// processes or opens files does not need a disk.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// A new store.
pub(crate) fn create(folder: &TempDir) -> Store {
    Store::create(folder.path(), &genesis()).unwrap()
}

/// The key of node `n`.
pub(crate) fn key(n: u8) -> Key {
    Key::from_secret([n; 32])
}

/// The node whose store it is.
pub(crate) fn own() -> NodeId {
    key(1).node()
}

/// A contribution with the payload `bytes`.
pub(crate) fn contribution(key: &Key, fragment: u16, round: Version, bytes: &[u8]) -> Record {
    let header = Header {
        author: key.node(),
        fragment: FragmentId(fragment),
        round,
        base: 0,
        tokens: 1,
        steps: 1,
        payload: content_id(bytes),
        payload_bytes: u32::try_from(bytes.len()).unwrap(),
    };
    Record::Contribution(key.sign(RunId([0; 32]), header))
}

/// A closed round.
pub(crate) fn closed(fragment: u16, number: Version) -> Record {
    Record::Closed(RoundId { fragment: FragmentId(fragment), number })
}

/// Norms that differ for each `n`.
pub(crate) fn norms(n: u8) -> Norms {
    Norms { total: f64::from(n) + 0.5, pieces: vec![f64::from(n); 3] }
}

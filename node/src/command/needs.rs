//! What taking part in a run asks of a machine.

use std::path::Path;

use atoll_node::units;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::outer::fold_bytes;

/// Bytes, about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    pub(crate) snapshot: u64,
}

impl Needs {
    pub(crate) fn new(genesis: &Genesis) -> Self {
        let parameters = genesis.fragment_map().elements() as u64;
        let values = 4 * parameters;
        // Parameters and momentum.
        let snapshot = 2 * values;
        // The trainer's parameters, gradients and two moments; its account of outer and pending;
        // the head to adopt; and what folds have at most.
        let memory = (4 + 2 + 1) * values + fold_bytes(parameters) + PROGRAM;
        // Two bases and a snapshot on its way, two checkpoints, and payloads of an eighth of the
        // parameters for as long as rounds stay open, for a handful of islands.
        let payloads = values / 8 * u64::from(genesis.rounds.horizon) * ISLANDS;
        let disk = 3 * snapshot + 2 * 4 * values + payloads;
        Self { memory, disk, snapshot }
    }

    pub(crate) fn describe(&self, free_disk: Option<u64>) -> String {
        let free = free_disk.map(|it| format!(" of {} free", units::bytes(it))).unwrap_or_default();
        format!(
            "about {} of memory, {} of disk{free}, {} to fetch",
            units::bytes(self.memory),
            units::bytes(self.disk),
            units::bytes(self.snapshot)
        )
    }
}

/// Free bytes on the disk that `path` will be on.
pub(crate) fn free_disk(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// The program itself, its buffers and connections.
const PROGRAM: u64 = 150 << 20;
/// Islands whose payloads a small swarm keeps.
const ISLANDS: u64 = 4;

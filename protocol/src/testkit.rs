//! Small things that tests of several crates need.

use crate::contribution::{Admitted, Header, PayloadProof};
use crate::crypto::Key;
use crate::genesis::Rounds;
use crate::id::RunId;

/// The key of test node `n`.
pub fn key(n: u8) -> Key {
    Key::from_secret([n; 32])
}

/// Rounds with short times.
pub fn rounds() -> Rounds {
    Rounds {
        steps: 8,
        steps_min: 2,
        quorum_min: 1,
        quorum_percent: 50,
        grace_ms_min: 50,
        grace_ms_max: 2000,
        horizon: 16,
        alive_ms: 8000,
        forget_ms: 60_000,
        heartbeat_ms: 1000,
    }
}

/// An admitted contribution, for tests of the ledger: `key` signs `header` for `run`, and the
/// payload counts as checked although nobody has seen it. Nothing but a test may say that.
pub fn admitted(key: &Key, run: RunId, header: Header) -> Admitted {
    let verified = key.sign(run, header).verify(run).expect("a signature made for this run");
    Admitted::new(verified, PayloadProof::checked(header.payload)).expect("the header's payload")
}

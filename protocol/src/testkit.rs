//! Small things that tests of several crates need.

use crate::crypto::Key;
use crate::genesis::Rounds;

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

//! How fast each peer has been: deadlines and shares of the work follow from it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use atoll_protocol::id::NodeId;
use atoll_protocol::limits::{CONTENT_CHUNK_BYTES, KNOWN_PEERS_MAX, RANGE_CHUNKS_MAX};

/// Measured download rates.
#[derive(Debug, Default)]
pub(in crate::net) struct Rates(Mutex<BTreeMap<NodeId, f64>>);

impl Rates {
    /// Takes note of a transfer.
    pub(super) fn note(&self, node: NodeId, bytes: u64, elapsed: Duration) {
        let rate = bytes as f64 / elapsed.as_secs_f64().max(1e-6);
        let mut rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rates.len() >= KNOWN_PEERS_MAX && !rates.contains_key(&node) {
            rates.pop_first();
        }
        rates.entry(node).and_modify(|known| *known += 0.3 * (rate - *known)).or_insert(rate);
    }

    /// Bytes per second of a peer, if it was measured.
    pub(in crate::net) fn of(&self, node: &NodeId) -> Option<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    /// How many chunks to ask of a peer at once.
    pub(super) fn chunks(&self, node: &NodeId) -> u32 {
        let Some(rate) = self.of(node) else { return FIRST_CHUNKS };
        let chunks = rate * RANGE_TIME.as_secs_f64() / CONTENT_CHUNK_BYTES as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to a small range"
        )]
        let chunks = chunks.clamp(1.0, f64::from(RANGE_CHUNKS_MAX)) as u32;
        chunks
    }

    /// How long a peer may be silent in the middle of sending: some times what a piece took.
    pub(super) fn patience(&self, node: &NodeId) -> Duration {
        let Some(rate) = self.of(node) else { return PATIENCE_MAX };
        let piece = super::PIECE_BYTES_MAX as f64 / rate.max(1.0);
        Duration::from_secs_f64((PIECES * piece).min(PATIENCE_MAX.as_secs_f64())).max(PATIENCE_MIN)
    }
}

/// A range should take about this long: short enough to give the last ones to the fastest.
const RANGE_TIME: Duration = Duration::from_millis(500);
const FIRST_CHUNKS: u32 = 2;
const PIECES: f64 = 16.0;
const PATIENCE_MIN: Duration = Duration::from_secs(5);
const PATIENCE_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_get_more_and_the_slow_more_time() {
        let rates = Rates::default();
        let (fast, slow, unknown) = (NodeId([1; 32]), NodeId([2; 32]), NodeId([3; 32]));
        rates.note(fast, 100 << 20, Duration::from_secs(1));
        rates.note(slow, 64 << 10, Duration::from_secs(1));
        assert_eq!(rates.chunks(&fast), RANGE_CHUNKS_MAX);
        assert_eq!(rates.chunks(&slow), 1);
        assert_eq!(rates.chunks(&unknown), FIRST_CHUNKS);
        assert_eq!(rates.patience(&fast), PATIENCE_MIN);
        assert_eq!(rates.patience(&slow), Duration::from_secs(16));
    }
}

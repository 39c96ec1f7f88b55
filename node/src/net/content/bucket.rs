//! A hard cap on a rate, shared by all streams in one direction.

use std::time::{Duration, Instant};

use super::PIECE_BYTES_MAX;

/// Lets bytes through at a rate. Whoever asks waits behind those who asked before; asking for
/// little at a time, all streams get the same.
#[derive(Debug)]
pub(in crate::net) struct Bucket {
    /// Bytes per second; none for as fast as it goes.
    rate: Option<u64>,
    /// Held by whoever's turn it is, until it may send.
    turn: tokio::sync::Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    /// When everything let through so far has had its time.
    free_at: Option<Instant>,
}

impl Bucket {
    /// A bucket for `rate` bytes per second on the wire.
    pub(in crate::net) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.map(|rate| rate.max(RATE_MIN)), turn: Default::default() }
    }

    /// The cap in bytes per second.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// How much to ask for at a time.
    pub(super) fn quantum(&self) -> usize {
        let Some(rate) = self.rate else { return PIECE_BYTES_MAX };
        usize::try_from(rate / QUANTA_PER_SECOND)
            .unwrap_or(PIECE_BYTES_MAX)
            .clamp(QUANTUM_MIN, PIECE_BYTES_MAX)
    }

    /// Waits until `bytes` may go.
    pub(super) async fn take(&self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        let mut turn = self.turn.lock().await;
        let wait = turn.wait(rate, bytes, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

impl Turn {
    /// How long to wait before sending `bytes`, which are counted as sent.
    fn wait(&mut self, rate: u64, bytes: usize, now: Instant) -> Duration {
        // Headers of packets and acknowledgements count, too.
        let wire = bytes as u64 + bytes as u64 / OVERHEAD_SHARE;
        let time = Duration::from_nanos(
            u64::try_from(u128::from(wire) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX),
        );
        // Sleeps are a little too long; what was not used just now may be caught up with.
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        let start = self.free_at.unwrap_or(now).max(earliest);
        self.free_at = Some(start + time);
        start.saturating_duration_since(now)
    }
}

/// One byte in this many is added for what the transport puts around contents.
const OVERHEAD_SHARE: u64 = 18;
/// Slower than this, nothing works.
const RATE_MIN: u64 = 1024;
const QUANTA_PER_SECOND: u64 = 20;
const QUANTUM_MIN: usize = 1024;
const SLACK: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_cap_never_waits() {
        let bucket = Bucket::new(None);
        futures::executor::block_on(bucket.take(1 << 30));
        assert_eq!(bucket.quantum(), PIECE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn the_cap_holds_and_is_used(rate in 20_000u64..200_000_000, lateness in 0u64..3000) {
            let (bucket, mut turn) = (Bucket::new(Some(rate)), Turn::default());
            let start = Instant::now();
            let (mut now, mut wire) = (start, 0.0);
            while now < start + Duration::from_secs(20) {
                let wait = turn.wait(rate, bucket.quantum(), now);
                if !wait.is_zero() {
                    now += wait + Duration::from_micros(lateness);
                }
                wire += bucket.quantum() as f64 * (1.0 + 1.0 / OVERHEAD_SHARE as f64);
            }
            let share = wire / (rate as f64 * (now - start).as_secs_f64());
            prop_assert!(share < 1.01, "{share}");
            prop_assert!(share > 0.99, "{share}");
        }

        #[test]
        fn idle_time_is_not_saved_up(rate in 20_000u64..2_000_000, idle in 1u64..1000) {
            let mut turn = Turn::default();
            let start = Instant::now();
            turn.wait(rate, 1000, start);
            let later = start + Duration::from_secs(idle);
            let mut burst = 0;
            while turn.wait(rate, 500, later).is_zero() {
                burst += 500;
            }
            prop_assert!(burst <= rate / 10 + 1000, "{burst}");
        }
    }

    #[tokio::test]
    async fn nobody_is_overtaken() {
        // The first waits for its time; the second asked later and waits for its turn.
        let bucket = Bucket::new(Some(RATE_MIN));
        bucket.take(1000).await;
        let (mut first, second) = (Box::pin(bucket.take(1)), bucket.take(1));
        tokio::pin!(second);
        assert!(futures::poll!(first.as_mut()).is_pending());
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        assert!(bucket.turn.try_lock().is_err(), "the turn went to the second");
    }
}

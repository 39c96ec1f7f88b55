//! A hard cap on a rate, shared by all streams in one direction.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::PIECE_BYTES_MAX;

/// Lets bytes through at a rate. Whoever asks gets a place in time; asking for little at a time,
/// all streams get about the same.
#[derive(Debug)]
pub(in crate::net) struct Bucket {
    /// Bytes per second; none for as fast as it goes.
    rate: Option<u64>,
    /// When everything let through so far has had its time.
    free_at: Mutex<Option<Instant>>,
}

impl Bucket {
    /// A bucket for `rate` bytes per second on the wire.
    pub(in crate::net) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.map(|rate| rate.max(RATE_MIN)), free_at: Mutex::new(None) }
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
        let wait = self.wait(bytes, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// How long to wait before sending `bytes`, which are counted as sent.
    fn wait(&self, bytes: usize, now: Instant) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        // Headers of packets and acknowledgements count, too.
        let wire = bytes as u64 + bytes as u64 / OVERHEAD_SHARE;
        let time = Duration::from_nanos(
            u64::try_from(u128::from(wire) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX),
        );
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        // Sleeps are a little too long; what was not used just now may be caught up with.
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        let start = free_at.unwrap_or(now).max(earliest);
        *free_at = Some(start + time);
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

    /// Streams that send whenever they may; returns what each sent and when the last byte went.
    fn run(bucket: &Bucket, streams: usize, seconds: u64, lateness: u64) -> Vec<u64> {
        let start = Instant::now();
        let end = start + Duration::from_secs(seconds);
        let mut sent = vec![0; streams];
        let mut ready: Vec<Instant> = vec![start; streams];
        loop {
            let next = (0..streams).min_by_key(|stream| ready[*stream]).unwrap();
            let now = ready[next];
            if now >= end {
                return sent;
            }
            let wait = bucket.wait(bucket.quantum(), now);
            let late = if wait.is_zero() { 0 } else { lateness };
            ready[next] = now + wait + Duration::from_micros(late);
            if ready[next] < end {
                sent[next] += bucket.quantum() as u64;
            }
        }
    }

    #[test]
    fn no_cap_never_waits() {
        let bucket = Bucket::new(None);
        assert_eq!(bucket.wait(1 << 30, Instant::now()), Duration::ZERO);
        assert_eq!(bucket.quantum(), PIECE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn the_cap_holds_and_is_used_and_shared(
            rate in 20_000u64..200_000_000,
            streams in 1usize..8,
            lateness in 0u64..3000,
        ) {
            let bucket = Bucket::new(Some(rate));
            let sent = run(&bucket, streams, 20, lateness);
            let wire = sent.iter().sum::<u64>() as f64 * (1.0 + 1.0 / OVERHEAD_SHARE as f64);
            let share = wire / (rate as f64 * 20.0);
            prop_assert!(share < 1.02, "{share}");
            prop_assert!(share > 0.95, "{share}");
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            prop_assert!(most - least <= 2 * bucket.quantum() as u64, "{sent:?}");
        }

        #[test]
        fn idle_time_is_not_saved_up(rate in 20_000u64..2_000_000, idle in 1u64..1000) {
            let bucket = Bucket::new(Some(rate));
            let start = Instant::now();
            bucket.wait(1000, start);
            let later = start + Duration::from_secs(idle);
            let mut burst = 0;
            while bucket.wait(500, later).is_zero() {
                burst += 500;
            }
            prop_assert!(burst <= rate / 10 + 1000, "{burst}");
        }
    }
}

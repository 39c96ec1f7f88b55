//! A hard cap on a rate, shared by all streams in one direction.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;

use super::super::traffic::{Direction, Traffic};
use super::PIECE_BYTES_MAX;

/// Lets contents through at a rate. Whoever asks waits behind those who asked before; asking for
/// little at a time, all streams get the same.
///
/// The rate is that of the wire: whatever else goes over it is not held up, so contents make room
/// for it afterwards.
#[derive(Debug)]
pub(in crate::net) struct Bucket {
    /// Bytes per second; none for as fast as it goes.
    rate: Option<u64>,
    direction: Direction,
    traffic: Arc<Traffic>,
    /// Held by whoever's turn it is, until it may send.
    turn: tokio::sync::Mutex<Turn>,
    /// Time that was given back and that nobody has got yet.
    back: Mutex<Duration>,
    /// Somebody has given time back.
    sooner: Notify,
}

/// A slice of the time, which somebody has taken.
#[must_use = "what is not used may be given back"]
#[derive(Debug)]
pub(super) struct Slice {
    /// When its time is over; none without a cap.
    until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Turn {
    /// When everything let through so far has had its time.
    free_at: Option<Instant>,
    /// Bytes besides contents that have had theirs. Counted apart from each other, the two may
    /// seem to shrink for a moment, and what seems to come back is not new.
    seen: u64,
    /// Time for some of them is still to be found.
    owed: Duration,
}

impl Bucket {
    /// A bucket for `rate` bytes per second on the wire.
    pub(in crate::net) fn new(
        rate: Option<u64>,
        direction: Direction,
        traffic: Arc<Traffic>,
    ) -> Self {
        let rate = rate.map(|rate| rate.max(RATE_MIN));
        Self {
            rate,
            direction,
            traffic,
            turn: Default::default(),
            back: Mutex::default(),
            sooner: Notify::new(),
        }
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

    /// Waits until `bytes` of contents may go.
    pub(super) async fn take(&self, bytes: usize) -> Slice {
        let Some(rate) = self.rate else { return Slice { until: None } };
        let mut turn = self.turn.lock().await;
        turn.put_back(self.given_back(), Instant::now());
        let around = self.traffic.around(self.direction);
        let mut wait = turn.wait(rate, bytes, around, Instant::now());
        while !wait.is_zero() {
            let begun = Instant::now();
            tokio::select! {
                () = sleep(wait) => break,
                () = self.sooner.notified() => {
                    let left = wait.saturating_sub(begun.elapsed());
                    wait = left - turn.put_back(self.given_back().min(left), Instant::now());
                }
            }
        }
        Slice { until: turn.free_at }
    }

    /// Gives back the time of bytes that never came, as far as it is not over: nobody saves it up.
    pub(super) fn give_back(&self, slice: Slice) {
        let Some(until) = slice.until else { return };
        let left = until.saturating_duration_since(Instant::now());
        *self.back.lock().unwrap_or_else(PoisonError::into_inner) += left;
        self.sooner.notify_one();
    }

    fn given_back(&self) -> Duration {
        std::mem::take(&mut *self.back.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Turn {
    /// How long to wait before sending `bytes`, which are counted as sent, when so many others
    /// went `around` contents since the start.
    fn wait(&mut self, rate: u64, bytes: usize, around: u64, now: Instant) -> Duration {
        let time = |bytes: u64| {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        let new = around.saturating_sub(self.seen);
        self.seen = self.seen.max(around);
        let free_at = self.free_at.unwrap_or(now);
        let owed = self.owed.saturating_add(time(new));
        // Idle time pays for what went in it. The rest is paid little by little, because contents
        // must move even under a cap that the rest alone breaks.
        let paid = owed.min(now.saturating_duration_since(free_at));
        let due = (owed - paid).min(time(bytes as u64).saturating_mul(PATIENCE));
        self.owed = (owed - paid - due).min(DEBT_MAX);
        // Sleeps are a little too long; what was not used just now may be caught up with.
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        let start = (free_at + paid + due).max(earliest);
        self.free_at = Some(start + time(bytes as u64));
        start.saturating_duration_since(now)
    }

    /// Everything that comes is sooner by so much, but not before now; by how much it is.
    fn put_back(&mut self, time: Duration, now: Instant) -> Duration {
        let Some(free_at) = self.free_at else { return Duration::ZERO };
        let back = time.min(free_at.saturating_duration_since(now));
        self.free_at = Some(free_at - back);
        back
    }
}

/// Slower than this, nothing works.
const RATE_MIN: u64 = 1024;
const QUANTA_PER_SECOND: u64 = 20;
const QUANTUM_MIN: usize = 1024;
const SLACK: Duration = Duration::from_millis(40);
/// How many times as long as they take contents wait for the rest.
const PATIENCE: u32 = 9;
/// More than this is forgiven.
const DEBT_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(rate: Option<u64>) -> Bucket {
        Bucket::new(rate, Direction::Up, Arc::default())
    }

    /// Share of `rate` that is used by contents and by `beside` bytes per second of other things,
    /// with a header for so many bytes.
    fn used(rate: u64, lateness: u64, beside: u64, header: u64) -> f64 {
        let (quantum, mut turn) = (bucket(Some(rate)).quantum(), Turn::default());
        let start = Instant::now();
        let (mut now, mut contents) = (start, 0);
        let around = |contents: u64, now: Instant| {
            let beside = beside as f64 * (now - start).as_secs_f64();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let beside = beside as u64;
            contents / header + beside
        };
        while now < start + Duration::from_secs(20) {
            let wait = turn.wait(rate, quantum, around(contents, now), now);
            if !wait.is_zero() {
                now += wait + Duration::from_micros(lateness);
            }
            contents += quantum as u64;
        }
        let wire = contents + around(contents, now);
        wire as f64 / (rate as f64 * (now - start).as_secs_f64())
    }

    #[tokio::test]
    async fn what_never_came_costs_nobody_anything() {
        let bucket = bucket(Some(RATE_MIN));
        // An hour's worth, and whoever waits for it to be over.
        let taken = bucket.take(3600 * 1024).await;
        let mut next = Box::pin(bucket.take(512));
        assert!(futures::poll!(next.as_mut()).is_pending());
        bucket.give_back(taken);
        let _its = tokio::time::timeout(Duration::from_secs(60), next).await.unwrap();
    }

    #[tokio::test]
    async fn what_was_given_back_after_its_time_is_not_saved_up() {
        let bucket = bucket(Some(RATE_MIN));
        let past = Instant::now().checked_sub(Duration::from_secs(1));
        let _now = bucket.take(3600 * 1024).await;
        (0..9).for_each(|_| bucket.give_back(Slice { until: past }));
        assert!(futures::poll!(Box::pin(bucket.take(512)).as_mut()).is_pending());
    }

    #[test]
    fn no_cap_never_waits() {
        let bucket = bucket(None);
        let _all = futures::executor::block_on(bucket.take(1 << 30));
        assert_eq!(bucket.quantum(), PIECE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn the_cap_holds_and_is_used(rate in 20_000u64..200_000_000, lateness in 0u64..3000) {
            let share = used(rate, lateness, 0, 15);
            prop_assert!(share < 1.01, "{share}");
            prop_assert!(share > 0.98, "{share}");
        }

        #[test]
        fn the_cap_holds_with_whatever_else_is_sent(
            rate in 20_000u64..200_000_000,
            lateness in 0u64..3000,
            percent in 1u64..80,
        ) {
            let share = used(rate, lateness, rate * percent / 100, 15);
            prop_assert!(share < 1.02, "{share}");
            prop_assert!(share > 0.97, "{share}");
        }

        #[test]
        fn idle_time_is_not_saved_up(rate in 20_000u64..2_000_000, idle in 1u64..1000) {
            let mut turn = Turn::default();
            let start = Instant::now();
            turn.wait(rate, 1000, 0, start);
            let later = start + Duration::from_secs(idle);
            let mut burst = 0;
            while turn.wait(rate, 500, 0, later).is_zero() {
                burst += 500;
            }
            prop_assert!(burst <= rate / 10 + 1000, "{burst}");
        }

        #[test]
        fn idle_time_pays_for_what_went_in_it(rate in 20_000u64..2_000_000, idle in 1u64..1000) {
            let mut turn = Turn::default();
            let start = Instant::now();
            turn.wait(rate, 1000, 0, start);
            let later = start + Duration::from_secs(idle);
            prop_assert!(turn.wait(rate, 500, rate * idle / 2, later).is_zero());
        }

        #[test]
        fn contents_move_whatever_else_is_sent(rate in 1024u64..2_000_000) {
            let (mut turn, start) = (Turn::default(), Instant::now());
            turn.wait(rate, 1000, 0, start);
            let own = turn.wait(rate, 1000, 0, start);
            let wait = turn.wait(rate, 1000, rate * 1000, start);
            prop_assert!(wait <= own * (2 + PATIENCE), "{wait:?} {own:?}");
        }
    }

    #[test]
    fn a_chunk_takes_its_time_however_slow_it_is() {
        let (mut turn, now) = (Turn::default(), Instant::now());
        assert!(turn.wait(10_000, 256_000, 0, now).is_zero());
        assert_eq!(turn.wait(10_000, 256_000, 10_000, now), Duration::from_millis(26_600));
    }

    #[tokio::test]
    async fn nobody_is_overtaken() {
        // The first waits for its time; the second asked later and waits for its turn.
        let bucket = bucket(Some(RATE_MIN));
        let _before = bucket.take(1000).await;
        let (mut first, second) = (Box::pin(bucket.take(1)), bucket.take(1));
        tokio::pin!(second);
        assert!(futures::poll!(first.as_mut()).is_pending());
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        assert!(bucket.turn.try_lock().is_err(), "the turn went to the second");
    }
}

//! How much of a capped line direct messages may have.

use std::time::Instant;

/// Lets messages through up to a share of the cap on uploads. Contents make room for messages, so
/// without it nodes that talk much about contents would never get to send them.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Bytes per second; none without a cap.
    rate: Option<f64>,
    /// Bytes that may go now; below zero after a long message.
    left: f64,
    at: Instant,
}

impl Allowance {
    /// The allowance under a cap of so many bytes per second.
    pub(super) fn new(cap: Option<u64>, now: Instant) -> Self {
        let rate = cap.map(|cap| cap as f64 * SHARE);
        Self { rate, left: rate.unwrap_or_default() * BURST_SECONDS, at: now }
    }

    /// Whether a message may go; if so, it is counted.
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> bool {
        let Some(rate) = self.rate else { return true };
        let gained = rate * now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + gained).min(rate * BURST_SECONDS);
        self.at = now;
        if self.left <= 0.0 {
            return false;
        }
        self.left -= (bytes + MESSAGE_OVERHEAD) as f64;
        true
    }
}

/// Share of the cap.
const SHARE: f64 = 0.25;
/// What may go at once after silence: joining begins with a few messages.
const BURST_SECONDS: f64 = 4.0;
/// A stream of its own, a name, and an answer.
const MESSAGE_OVERHEAD: usize = 400;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn messages_leave_room_for_contents() {
        let (start, cap) = (Instant::now(), 100_000);
        let mut allowance = Allowance::new(Some(cap), start);
        let mut sent = 0;
        for tick in 0..6000 {
            let now = start + Duration::from_millis(10 * tick);
            if allowance.take(30_000, now) {
                sent += 30_000;
            }
        }
        // A minute's worth, the first burst and a message that was begun in time.
        let most = cap as f64 * SHARE * (60.0 + BURST_SECONDS) + 30_000.0;
        assert!(f64::from(sent) <= most && f64::from(sent) >= 0.8 * most, "{sent}");
    }

    #[test]
    fn without_a_cap_every_message_goes() {
        let now = Instant::now();
        let mut allowance = Allowance::new(None, now);
        assert!((0..1000).all(|_| allowance.take(1 << 20, now)));
    }
}

//! How much of what others say is passed on.

use std::time::Instant;

use atoll_protocol::limits::{PEER_BURST, PEER_MESSAGES_PER_SECOND};

/// Lets half of what a peer may send be passed on. Whoever hears a flood from us counts it against
/// us, not against whoever began it; so it must end here, and leave room for our own words.
#[derive(Debug)]
pub(super) struct Relay {
    left: f64,
    at: Instant,
}

impl Relay {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BURST, at: now }
    }

    /// Whether one more message may be passed on; if so, it is counted.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let gained = PER_SECOND * now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + gained).min(BURST);
        self.at = now;
        let allowed = self.left >= 1.0;
        if allowed {
            self.left -= 1.0;
        }
        allowed
    }
}

const BURST: f64 = PEER_BURST as f64 / 2.0;
const PER_SECOND: f64 = PEER_MESSAGES_PER_SECOND as f64 / 2.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use atoll_protocol::id::NodeId;
    use atoll_protocol::peers::Peers;
    use atoll_protocol::time::Time;

    use super::*;

    #[test]
    fn a_flood_that_is_passed_on_is_none() {
        let (start, node) = (Instant::now(), NodeId([1; 32]));
        let (mut relay, mut peers) = (Relay::new(start), Peers::new(1));
        let mut passed = 0;
        for tick in 0..20_000 {
            let now = start + Duration::from_millis(tick);
            for _ in 0..5 {
                if relay.take(now) {
                    passed += 1;
                    assert!(peers.allow(node, Time(tick)));
                }
            }
        }
        assert!(passed > 20 * PEER_MESSAGES_PER_SECOND / 2, "{passed} messages");
    }
}

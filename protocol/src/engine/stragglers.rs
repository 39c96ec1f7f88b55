//! What an island that is alone in its rounds does for those who cannot keep up with it: it captures
//! less often. It trains on meanwhile, and waits for nobody.

use super::Engine;
use super::course::Course;
use crate::frontier::Standing;
use crate::id::Version;
use crate::peers::Peer;

impl Engine {
    /// How many times the usual steps go by between two captures. More than once only for an island
    /// whose rounds held nobody else's work for a while though others train: what it sends is more
    /// than reaches them.
    pub(super) fn stretch(&self, course: &Course) -> u32 {
        // Asked last, as it goes through all peers.
        if course.alone < ALONE_ROUNDS || !self.has_stragglers(course) {
            1
        } else if course.alone < 2 * ALONE_ROUNDS {
            2
        } else {
            STRETCH_MAX
        }
    }

    /// Whether somebody who would contribute is far behind.
    fn has_stragglers(&self, course: &Course) -> bool {
        let lags = |peer: &Peer| {
            let version = peer.entry(course.fragment).map(|entry| entry.version);
            version.is_some_and(|version| version.saturating_add(BEHIND) < course.version)
        };
        let counts = |peer: &Peer| {
            peer.connected && peer.trains && !peer.rests() && peer.standing != Standing::Muted
        };
        self.speakers().any(|(_, peer)| counts(peer) && lags(peer))
    }
}

/// Rounds alone before captures become rarer.
const ALONE_ROUNDS: u32 = 4;
/// Rounds that a peer may be behind before it counts as one that cannot keep up.
const BEHIND: Version = 4;
/// The most that captures become rarer.
const STRETCH_MAX: u32 = 4;

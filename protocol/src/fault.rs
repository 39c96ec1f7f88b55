//! What a peer did wrong, as a value: it has a verdict and a penalty, and is never our error.

use serde::{Deserialize, Serialize};

/// What becomes of a received message, as gossip understands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Good: pass it on.
    Accept,
    /// Not to be passed on, but not the sender's fault.
    Ignore,
    /// Bad: not to be passed on, and the sender is penalised.
    Reject,
}

/// Something a peer did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fault {
    /// Bytes that are no message.
    Malformed,
    /// A signature that does not hold for this run.
    BadSignature,
    /// An author that the roster does not admit.
    NotOnRoster,
    /// A header with values outside the genesis' limits.
    BadHeader,
    /// A round that is already stable here, or far ahead.
    OutOfRange,
    /// Two signed headers for one slot.
    Equivocation,
    /// Evidence that proves nothing.
    BadEvidence,
    /// A payload that is not what its signed header promises: length, form, finiteness, norm.
    BadPayload,
    /// Announced bytes that nobody serves.
    Withheld,
    /// Bytes that do not have the hash they were asked for by.
    WrongContent,
    /// A history that cannot be one: too long, or past any version.
    BadHistory,
    /// More messages than a peer may send.
    Flood,
    /// An author whose contributions the steward revoked.
    Revoked,
}

impl Fault {
    /// Every fault, for tables and counters.
    pub const ALL: [Self; 13] = [
        Self::Malformed,
        Self::BadSignature,
        Self::NotOnRoster,
        Self::BadHeader,
        Self::OutOfRange,
        Self::Equivocation,
        Self::BadEvidence,
        Self::BadPayload,
        Self::Withheld,
        Self::WrongContent,
        Self::BadHistory,
        Self::Flood,
        Self::Revoked,
    ];

    /// What becomes of the message.
    pub fn verdict(self) -> Verdict {
        match self {
            // These can happen to an honest relayer: it knew less, or more, than we do.
            Self::NotOnRoster | Self::OutOfRange | Self::Withheld | Self::Revoked => {
                Verdict::Ignore
            }
            _ => Verdict::Reject,
        }
    }

    /// Points against the peer: 100 is enough to be disconnected.
    pub fn penalty(self) -> u32 {
        match self {
            Self::NotOnRoster | Self::OutOfRange | Self::Withheld | Self::Revoked => 0,
            Self::Flood => 5,
            Self::Malformed | Self::BadHeader | Self::WrongContent => 20,
            Self::BadSignature | Self::BadEvidence | Self::BadHistory => 50,
            Self::BadPayload | Self::Equivocation => 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rejected_messages_cost_points() {
        for fault in Fault::ALL {
            assert_eq!(fault.verdict() == Verdict::Reject, fault.penalty() > 0, "{fault:?}");
        }
    }
}

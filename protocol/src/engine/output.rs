//! What comes out of the engine.

use serde::{Deserialize, Serialize};

use crate::engine::record::Record;
use crate::engine::report::Report;
use crate::fault::{Fault, Verdict};
use crate::id::{ContentId, FragmentId, NodeId, Version};
use crate::outer::Cut;

/// What the driver is to do. Outputs are executed in the order they come; only those that
/// [`beside_a_write`] finds may go ahead of records that are not durable yet.
#[expect(clippy::large_enum_variant, reason = "outputs are made one at a time and moved once")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Make the record durable **before** executing any later output that tells anybody anything. A
    /// contribution's payload is durable with it.
    Persist(Record),
    /// Gossip to all peers.
    Publish(Vec<u8>),
    /// Send to one peer, whether connected or not; may fail silently.
    Send {
        /// Whom.
        to: NodeId,
        /// The message.
        bytes: Vec<u8>,
    },
    /// What becomes of a received message; accepted gossip is relayed.
    Judge {
        /// The driver's name for the message.
        receipt: u64,
        /// The verdict.
        verdict: Verdict,
    },
    /// A peer did something wrong.
    Penalise {
        /// Who.
        node: NodeId,
        /// What.
        fault: Fault,
    },
    /// Get bytes by their hash; ends in one `Input::Fetched`.
    Fetch {
        /// The hash.
        content: ContentId,
        /// Whom to ask.
        from: NodeId,
        /// Stop reading after this many bytes.
        bytes_max: u64,
    },
    /// Check a stored payload with `outer::check`; ends in one `Input::Checked`.
    Check {
        /// Which payload.
        payload: ContentId,
        /// For which fragment.
        fragment: FragmentId,
    },
    /// Capture a fragment as soon as the island can; ends in one `Input::Captured`.
    Capture {
        /// Which fragment.
        fragment: FragmentId,
    },
    /// Fold `cuts`, which are all rounds above the base; ends in one `Input::Materialised`.
    /// At most one is under way for a fragment.
    Materialise {
        /// Which fragment.
        fragment: FragmentId,
        /// Every round from base + 1 on.
        cuts: Vec<Cut>,
    },
    /// Fold the rounds up to `version` into the base; ends in one `Input::Stabilised`.
    Stabilise {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the new base.
        version: Version,
    },
    /// Make a fetched snapshot base and head; ends in one `Input::Installed`.
    Install {
        /// Which fragment.
        fragment: FragmentId,
        /// The snapshot.
        content: ContentId,
    },
    /// Put the head into the island's parameters as soon as the island can.
    Adopt {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the head.
        version: Version,
        /// All own payloads that are captured and not in that version. One whose
        /// `Input::Captured` the engine had not handled yet is pending too: the driver adds it.
        pending: Vec<ContentId>,
        /// Own payloads whose content returns to fresh now.
        reissued: Vec<ContentId>,
    },
    /// These are no longer needed: records of contributions to old rounds, and payloads.
    Prune {
        /// Which fragment.
        fragment: FragmentId,
        /// Peers' contributions to rounds up to and including this one.
        through: Version,
        /// Our own: kept longer, because they may have to be issued again.
        own_through: Version,
        /// Payloads that nothing refers to any more.
        payloads: Vec<ContentId>,
    },
    /// Something worth telling people.
    Report(Report),
}

impl Output {
    /// Whether it need not wait for records before it: it tells nobody anything, and a crash that
    /// loses the records loses what it did with them, or lets it be done again.
    pub fn promises_nothing(&self) -> bool {
        matches!(
            self,
            Self::Fetch { .. }
                | Self::Check { .. }
                | Self::Capture { .. }
                | Self::Materialise { .. }
                | Self::Adopt { .. }
        )
    }

    /// Whether all that comes later waits for it, as it takes away what that may need.
    fn takes_away(&self) -> bool {
        matches!(self, Self::Prune { .. } | Self::Stabilise { .. } | Self::Install { .. })
    }
}

/// The place of the first output in a queue that may be executed while records are on their way to
/// the disk.
pub fn beside_a_write<'a>(queue: impl IntoIterator<Item = &'a Output>) -> Option<usize> {
    queue.into_iter().take_while(|output| !output.takes_away()).position(Output::promises_nothing)
}

/// The place of the next record in a queue that may be written in one go with the one before: only
/// words to people, and what waits for no record, come between.
pub fn in_the_same_write<'a>(queue: impl IntoIterator<Item = &'a Output>) -> Option<usize> {
    let passes =
        |output: &&Output| matches!(output, Output::Report(_)) || output.promises_nothing();
    let mut rest = queue.into_iter().enumerate().skip_while(|(_, output)| passes(output));
    rest.next().filter(|(_, output)| matches!(output, Output::Persist(_))).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_promises_nothing_goes_ahead_of_records_and_of_nothing_that_takes_away() {
        let fragment = FragmentId(0);
        let record = || Output::Persist(Record::Closed(crate::id::RoundId { fragment, number: 1 }));
        let capture = || Output::Capture { fragment };
        let stabilise = || Output::Stabilise { fragment, version: 1 };
        assert_eq!(beside_a_write(&[record(), Output::Publish(vec![]), capture()]), Some(2));
        assert_eq!(beside_a_write(&[record(), stabilise(), capture()]), None);
        assert_eq!(beside_a_write(&[record(), Output::Publish(vec![])]), None);
    }

    #[test]
    fn records_are_written_together_unless_something_between_them_waits_for_the_first() {
        let fragment = FragmentId(0);
        let record = || Output::Persist(Record::Closed(crate::id::RoundId { fragment, number: 1 }));
        let report = || Output::Report(Report::SameKey);
        let capture = || Output::Capture { fragment };
        assert_eq!(in_the_same_write(&[report(), capture(), record(), record()]), Some(2));
        assert_eq!(in_the_same_write(&[report(), Output::Publish(vec![]), record()]), None);
        assert_eq!(in_the_same_write(&[report()]), None);
    }
}

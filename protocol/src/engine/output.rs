//! What comes out of the engine.

use serde::{Deserialize, Serialize};

use crate::engine::record::Record;
use crate::engine::report::Report;
use crate::fault::{Fault, Verdict};
use crate::id::{ContentId, FragmentId, NodeId, Version};
use crate::outer::Cut;

/// What the driver is to do. Outputs are executed strictly in the order they come.
#[expect(clippy::large_enum_variant, reason = "outputs are made one at a time and moved once")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Make the record durable **before** executing any later output. A contribution's payload
    /// is durable with it.
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

//! What goes into the engine.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::fetch::FetchOutcome;
use crate::id::{ContentId, FragmentId, NodeId, Version};

/// Everything an engine can be told. Any sequence of these is legal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// A connection to a peer is up: it can be sent to and fetched from.
    PeerUp(NodeId),
    /// The last connection to a peer is gone.
    PeerDown(NodeId),
    /// Bytes from a peer. `receipt` comes back in exactly one `Output::Judge`.
    Received {
        /// The peer they came from, which may only have relayed them.
        from: NodeId,
        /// The message.
        bytes: Vec<u8>,
        /// The driver's name for this message.
        receipt: u64,
    },
    /// The island finished a step.
    Stepped {
        /// Tokens in it.
        tokens: u64,
        /// Measured milliseconds it took.
        step_ms: u32,
    },
    /// The island captured a fragment, as `Output::Capture` asked. The payload is stored.
    Captured {
        /// Which fragment.
        fragment: FragmentId,
        /// The payload's hash.
        payload: ContentId,
        /// The payload's length.
        payload_bytes: u32,
        /// Steps reported since the boundary it was captured at.
        steps_since: u32,
        /// Tokens reported since the boundary it was captured at.
        tokens_since: u64,
    },
    /// The island put an outer version into its parameters, as `Output::Adopt` asked.
    Adopted {
        /// Which fragment.
        fragment: FragmentId,
        /// The version it now trains from.
        version: Version,
    },
    /// A fetch ended.
    Fetched {
        /// What was asked for.
        content: ContentId,
        /// Whom it was asked of.
        from: NodeId,
        /// How it ended.
        outcome: FetchOutcome,
    },
    /// A payload was checked, as `Output::Check` asked.
    Checked {
        /// Which payload.
        payload: ContentId,
        /// For which fragment.
        fragment: FragmentId,
        /// Whether it passed, or what its author did wrong.
        outcome: Result<(), Fault>,
    },
    /// The fold is done, as `Output::Materialise` asked.
    Materialised {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the new head.
        version: Version,
        /// Its digest.
        digest: ContentId,
    },
    /// The base moved, as `Output::Stabilise` asked, and its state is durable.
    Stabilised {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the new base.
        version: Version,
        /// Its digest.
        digest: ContentId,
    },
    /// The fold or the move of the base could not be done: a payload that was stored is gone or
    /// broken. It is fetched again.
    Failed {
        /// Which fragment.
        fragment: FragmentId,
        /// The payload.
        missing: ContentId,
    },
    /// A snapshot is the new base and head, as `Output::Install` asked, and is durable.
    Installed {
        /// Which fragment.
        fragment: FragmentId,
        /// The digest it was asked for by.
        content: ContentId,
        /// False if the bytes were no snapshot of this fragment after all.
        good: bool,
    },
    /// The operator wants something.
    Command(Command),
}

/// What an operator can ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Say goodbye and stop taking part.
    Leave,
    /// Admit a node (this node must be a steward).
    Invite {
        /// Whom.
        node: NodeId,
        /// The last round it may contribute to.
        last_round: Version,
    },
    /// Exclude a node (this node must be a steward).
    Revoke(NodeId),
}

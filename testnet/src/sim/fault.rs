//! What goes wrong in a simulated swarm, each kind with a name it is counted by.

use atoll_protocol::id::Version;

use crate::check::NodeIndex;

/// One planned fault, or the end of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultEvent {
    /// One in this many messages is lost from now on; 0 is none.
    Loss(u64),
    /// One in this many messages arrives twice from now on; 0 is none.
    Duplication(u64),
    /// Messages are delayed by up to this many milliseconds, each on its own.
    Reordering(u64),
    /// All links of a node take this many milliseconds longer.
    LatencySpike {
        /// Which node.
        node: NodeIndex,
        /// How much longer; 0 ends it.
        extra_ms: u64,
    },
    /// The nodes of one side no longer reach the others.
    Partition {
        /// What [`FaultEvent::Rejoin`] calls it.
        name: u32,
        /// One side.
        side: Vec<NodeIndex>,
        /// Which way it cuts, and how long it is meant to last.
        kind: PartitionKind,
    },
    /// A partition ends.
    Rejoin(u32),
    /// Everything to and from a node is held back.
    Clog(NodeIndex),
    /// What was held back moves again.
    Unclog(NodeIndex),
    /// A node stops at once.
    Crash {
        /// Which node.
        node: NodeIndex,
        /// Whether it waits for the next write and stops in the middle of it.
        in_write: bool,
        /// Whether the head of that write survives.
        torn: bool,
    },
    /// A crashed node starts again.
    Restore(NodeIndex),
    /// A node says goodbye and stops.
    Leave(NodeIndex),
    /// A node that left starts again.
    Return(NodeIndex),
    /// A node's clock runs at this many thousandths of true speed.
    Skew {
        /// Which node.
        node: NodeIndex,
        /// Its clock's speed.
        permille: u32,
    },
    /// An island's steps take this long from now on.
    Slow {
        /// Which node.
        node: NodeIndex,
        /// Milliseconds for one step.
        step_ms: u32,
    },
    /// A steward admits a node.
    Invite {
        /// Who signs.
        steward: NodeIndex,
        /// Who is admitted.
        node: NodeIndex,
        /// The last round it may contribute to.
        last_round: Version,
    },
    /// A steward excludes a node.
    Revoke {
        /// Who signs.
        steward: NodeIndex,
        /// Who is excluded.
        node: NodeIndex,
    },
}

/// Which way a partition cuts, and how long it is meant to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionKind {
    /// Both directions.
    Symmetric,
    /// Only what the side sends is lost; it still hears the others.
    Asymmetric,
    /// Both directions, for longer than the horizon or the forget window.
    Long,
}

impl PartitionKind {
    /// What its firing is counted by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric partition",
            Self::Asymmetric => "asymmetric partition",
            Self::Long => "long partition",
        }
    }
}

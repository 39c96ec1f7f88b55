//! What the network tells the driver.

use std::fmt;
use std::time::Duration;

use atoll_protocol::fetch::FetchOutcome;
use atoll_protocol::id::{ContentId, NodeId};

/// Something that happened on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetEvent {
    /// A node of this run is connected: it can be sent to and fetched from.
    PeerUp(NodeId),
    /// The last connection to a node is gone.
    PeerDown(NodeId),
    /// Gossip or a direct message.
    Received {
        /// The peer it came from, which may only have relayed it.
        from: NodeId,
        /// The message.
        bytes: Vec<u8>,
        /// Our name for it, for the verdict.
        receipt: u64,
    },
    /// A fetch ended; each ends once.
    Fetched {
        /// What was asked for.
        content: ContentId,
        /// Whom it was asked of first.
        from: NodeId,
        /// How it ended.
        outcome: FetchOutcome,
        /// Bytes that came for it, from everybody.
        bytes: u64,
    },
    /// Something worth telling people.
    Notice(Notice),
}

/// Something worth telling people; nothing has to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A local address is listened on.
    Listening(String),
    /// A local address is no longer listened on.
    ListenerLost {
        /// Which.
        address: String,
        /// Why.
        reason: String,
    },
    /// The outside reaches us at this address.
    External(String),
    /// The outside no longer reaches us at this address.
    ExternalLost(String),
    /// What is known of our reachability changed.
    Reachability(Reachability),
    /// A relay accepts connections for us at this address.
    Relayed(String),
    /// A relay no longer does.
    RelayLost(String),
    /// A relayed connection was replaced by a direct one.
    HolePunched(NodeId),
    /// A relayed connection could not be replaced by a direct one.
    HolePunchFailed {
        /// With whom.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// Nobody answers at this address; it is tried again.
    Unreachable {
        /// The address, or the peer.
        address: String,
        /// Why.
        reason: String,
    },
    /// A bootstrap is connected.
    BootstrapFound(String),
    /// A bootstrap is gone; what is connected stays connected.
    BootstrapLost(String),
    /// A peer was heard of for the first time.
    Discovered {
        /// Who.
        node: NodeId,
        /// From whom.
        how: How,
    },
    /// A peer has done too much wrong and is not spoken to for a while.
    Blocked {
        /// Who.
        node: NodeId,
        /// For how long.
        time: Duration,
    },
    /// A content on our disk does not have its hash; it is not served.
    Broken(ContentId),
    /// A content came but could not be written.
    NotStored {
        /// Which.
        content: ContentId,
        /// What the disk said.
        reason: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening(address) => write!(f, "listening on {address}"),
            Self::ListenerLost { address, reason } => {
                write!(f, "no longer listening on {address}: {reason}")
            }
            Self::External(address) => write!(f, "reachable from outside at {address}"),
            Self::ExternalLost(address) => write!(f, "no longer reachable at {address}"),
            Self::Reachability(reachability) => write!(f, "reachability: {reachability}"),
            Self::Relayed(address) => write!(f, "reachable through a relay at {address}"),
            Self::RelayLost(address) => write!(f, "the relay at {address} no longer serves us"),
            Self::HolePunched(node) => write!(f, "now connected to {node} without a relay"),
            Self::HolePunchFailed { node, reason } => {
                write!(f, "no way to {node} without a relay: {reason}")
            }
            Self::Unreachable { address, reason } => {
                write!(f, "{address} does not answer: {reason}")
            }
            Self::BootstrapFound(address) => write!(f, "connected to the bootstrap {address}"),
            Self::BootstrapLost(address) => {
                write!(f, "lost the bootstrap {address}, peers stay connected")
            }
            Self::Discovered { node, how } => write!(f, "heard of {node} {how}"),
            Self::Blocked { node, time } => {
                write!(f, "{node} did too much wrong, not speaking to it for {} s", time.as_secs())
            }
            Self::Broken(content) => write!(f, "content {content} is broken on this disk"),
            Self::NotStored { content, reason } => {
                write!(f, "content {content} could not be written: {reason}")
            }
        }
    }
}

/// How a peer was heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was in the configuration, the ticket or the peer cache.
    Configured,
    /// From the bootstrap.
    Rendezvous,
    /// From the distributed hash table.
    Kad,
    /// On the local network.
    Mdns,
    /// From a node that is connected to it.
    Peer,
    /// It connected to us.
    Inbound,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "from the configuration",
            Self::Rendezvous => "from the bootstrap",
            Self::Kad => "from the hash table",
            Self::Mdns => "on the local network",
            Self::Peer => "from another node",
            Self::Inbound => "when it connected",
        })
    }
}

/// Whether others can reach us without help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reachability {
    /// Nobody has tried yet.
    #[default]
    Unknown,
    /// Somebody dialled back and got through.
    Public,
    /// Whoever dialled back did not get through.
    Private,
}

impl fmt::Display for Reachability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Public => "public",
            Self::Private => "private",
        })
    }
}

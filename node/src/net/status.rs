//! What the network looks like from here, for people and for the peer cache.

use std::time::Duration;

use atoll_protocol::id::NodeId;

use super::event::Reachability;
use super::nat::NatStatus;

/// A picture of the network, at most a second old.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetStatus {
    /// Our name in addresses.
    pub peer: String,
    /// Addresses listened on, relayed ones too, with our name at the end.
    pub listening: Vec<String>,
    /// Addresses at which others got through, or that the configuration promises.
    pub external: Vec<String>,
    /// Whether others can reach us without help.
    pub reachability: Reachability,
    /// What the router in front of us does.
    pub nat: NatStatus,
    /// How far our clock is from those of peers; none if nobody said what time it is.
    pub clock: Option<Skew>,
    /// Relays that accept connections for us.
    pub relays: Vec<String>,
    /// The bootstraps of the configuration.
    pub bootstraps: Vec<BootstrapStatus>,
    /// Nodes of this run we are connected to.
    pub peers: Vec<PeerStatus>,
    /// Addresses that the next start should try: of nodes of this run, and its own to listen on.
    pub cache: Vec<String>,
}

/// A bootstrap.
#[derive(Clone, Debug, PartialEq)]
pub struct BootstrapStatus {
    /// Where it is.
    pub address: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Whether it tells us of others.
    pub rendezvous: bool,
    /// Whether it relays.
    pub relay: bool,
}

/// How far our clock is from those of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// Milliseconds that the median of their clocks is ahead of ours.
    pub ms: i64,
    /// Peers that said what time it is. One alone may be wrong itself.
    pub peers: usize,
}

/// The way a connection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One side dialled the other.
    Direct,
    /// A relay introduced the two, and both dialled at once.
    HolePunched,
    /// A relay passes everything on.
    Relayed,
}

/// A connected node of this run.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerStatus {
    /// Who.
    pub node: NodeId,
    /// Where the connection leads.
    pub address: String,
    /// How it is reached.
    pub way: Way,
    /// The time a ping takes.
    pub rtt: Option<Duration>,
    /// Bytes per second that came from it lately.
    pub rate: Option<f64>,
    /// Points against it.
    pub points: f64,
}

//! What a node knows of the network between itself and others.

use serde::{Deserialize, Serialize};

use super::parts::YesNo;

/// What a node knows of the network between itself and others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// Whether somebody outside who dialled back got through: `yes`, `no` or `unknown`.
    pub reachable: YesNo,
    /// The router in front.
    pub nat: Nat,
    /// Relays that accept connections for this node.
    pub relays: Vec<String>,
    /// The bootstraps of the configuration and the ticket.
    pub bootstraps: Vec<Bootstrap>,
    /// How far the clock is from those of peers; null if none said what time it is.
    pub clock: Option<ClockSkew>,
}

/// The router in front of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nat {
    /// `none`, `cone`, `symmetric` or `unknown`.
    pub kind: NatKind,
    /// Peers and bootstraps that said where they see this node.
    pub observers: u32,
    /// Where they see it, like `203.0.113.7:4001`.
    pub observed: Vec<String>,
}

/// How a router picks the port that an inner one is seen as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NatKind {
    /// Too few have seen this node.
    #[default]
    Unknown,
    /// No router translates.
    None,
    /// One port for everybody: holes can be punched.
    Cone,
    /// Another port for every peer: only a relay helps.
    Symmetric,
}

/// A bootstrap of the configuration or the ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bootstrap {
    /// Where it is.
    pub address: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Whether it relays.
    pub relay: bool,
}

/// How far the clock of this machine is from those of peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSkew {
    /// Milliseconds that the median of their clocks is ahead of this one.
    pub skew_ms: i64,
    /// Peers that said what time it is.
    pub peers: u32,
}

/// A node behind a router.
#[cfg(test)]
pub(super) fn example() -> Network {
    Network {
        reachable: YesNo::No,
        nat: Nat { kind: NatKind::Cone, observers: 2, observed: vec!["203.0.113.7:4001".into()] },
        relays: vec!["/dns/meet.example.org/udp/4001/quic-v1/p2p/12D3Koo".into()],
        bootstraps: vec![Bootstrap { address: "/dns/x".into(), connected: true, relay: true }],
        clock: Some(ClockSkew { skew_ms: -120, peers: 3 }),
    }
}

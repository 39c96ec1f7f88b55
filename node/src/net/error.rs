//! What can keep a node off the network. Nothing a peer does is in here.

use std::time::Duration;

/// Why the network could not be started, or did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// An address that cannot be read.
    #[error(
        "{value:?} is not an address: {reason} (hint: write it like /ip4/203.0.113.5/udp/4001/quic-v1)"
    )]
    Address {
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A bootstrap address that does not say whom it leads to.
    #[error("the bootstrap address {0:?} names no peer (hint: it ends in /p2p/<id>)")]
    Unnamed(String),
    /// A local address that cannot be listened on.
    #[error(
        "cannot listen on {address}: {reason} (hint: another process may use this port; 0 takes any free one)"
    )]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// A part of the network stack that cannot be set up.
    #[error("cannot set up {part}: {reason}")]
    Setup {
        /// Which part.
        part: &'static str,
        /// Why.
        reason: String,
    },
    /// Nobody gave the genesis.
    #[error("no peer gave the run's genesis within {} s; {asked} were asked (hint: is anybody of this run online?)", waited.as_secs())]
    NoGenesis {
        /// How long it was waited for.
        waited: Duration,
        /// How many peers were asked.
        asked: usize,
    },
}

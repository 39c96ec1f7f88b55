//! A bootstrap: what it can do, and when it is asked what.

use std::time::{Duration, Instant};

use libp2p::core::transport::ListenerId;
use libp2p::{Multiaddr, PeerId, StreamProtocol, relay, rendezvous};

use super::super::super::status::BootstrapStatus;
use super::asking::Asking;
use super::circuit;

/// A bootstrap.
#[derive(Debug)]
pub(in super::super) struct Meeting {
    pub(in super::super) peer: PeerId,
    pub(in super::super) address: Multiaddr,
    pub(in super::super) connected: bool,
    pub(in super::super) rendezvous: bool,
    pub(in super::super) relay: bool,
    pub(in super::super) register_due: Instant,
    pub(in super::super) discover: Asking,
    /// Where it is asked to accept connections for us.
    pub(in super::super) listener: Option<ListenerId>,
    /// People were told that it does.
    pub(in super::super) told: bool,
    /// It does.
    pub(in super::super) reserved: bool,
    pub(in super::super) relay_due: Instant,
    relay_failures: u32,
}

impl Meeting {
    pub(in super::super) fn new(peer: PeerId, address: Multiaddr, now: Instant) -> Self {
        Self {
            peer,
            address,
            connected: false,
            rendezvous: false,
            relay: false,
            register_due: now,
            discover: Asking::new(now),
            listener: None,
            told: false,
            reserved: false,
            relay_due: now,
            relay_failures: 0,
        }
    }

    /// It is connected and said what it speaks.
    pub(in super::super) fn found(&mut self, protocols: &[StreamProtocol], now: Instant) {
        self.rendezvous = protocols.contains(&rendezvous::PROTOCOL_NAME);
        self.relay = protocols.contains(&relay::HOP_PROTOCOL_NAME);
        if !self.connected {
            self.connected = true;
            // It may have been restarted and forgotten everything.
            self.register_due = now;
            self.discover = Asking::new(now);
            self.relay_due = now;
        }
    }

    pub(in super::super) fn lost(&mut self, now: Instant) {
        self.connected = false;
        self.register_due = now;
    }

    pub(in super::super) fn reserved(&mut self) {
        self.reserved = true;
        self.relay_failures = 0;
    }

    /// It does not accept connections for us, or no longer.
    pub(in super::super) fn relay_closed(&mut self, now: Instant) {
        self.listener = None;
        self.told = false;
        self.reserved = false;
        self.relay_due = now + (RELAY_GAP * (1 << self.relay_failures.min(4)));
        self.relay_failures += 1;
    }

    /// Where it is asked to accept connections for us.
    pub(in super::super) fn circuit(&self) -> Multiaddr {
        circuit(&self.address, self.peer)
    }

    pub(in super::super) fn status(&self) -> BootstrapStatus {
        BootstrapStatus {
            address: self.address.to_string(),
            connected: self.connected,
            rendezvous: self.connected && self.rendezvous,
            relay: self.connected && self.relay,
        }
    }
}

/// After a relay did not take us it is asked again so much later, and twice that each time.
const RELAY_GAP: Duration = Duration::from_secs(5);

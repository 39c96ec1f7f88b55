//! A bootstrap: what it can do, and when it is asked what.

use std::time::{Duration, Instant};

use libp2p::core::transport::ListenerId;
use libp2p::{Multiaddr, PeerId, StreamProtocol, relay, rendezvous};

use super::super::super::status::BootstrapStatus;
use super::{GAP_MAX, GAP_MIN, circuit};

/// A bootstrap.
#[derive(Debug)]
pub(in super::super) struct Meeting {
    pub(in super::super) peer: PeerId,
    pub(in super::super) address: Multiaddr,
    pub(in super::super) connected: bool,
    pub(in super::super) rendezvous: bool,
    pub(in super::super) relay: bool,
    pub(in super::super) register_due: Instant,
    discover_due: Instant,
    discover_gap: Duration,
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
            discover_due: now,
            discover_gap: GAP_MIN,
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
            self.discover_due = now;
            self.discover_gap = GAP_MIN;
            self.relay_due = now;
        }
    }

    pub(in super::super) fn lost(&mut self, now: Instant) {
        self.connected = false;
        self.register_due = now;
    }

    /// Whether to ask for peers now; if so, the next time is later, unless we are alone.
    pub(in super::super) fn is_discovery_due(&mut self, alone: bool, now: Instant) -> bool {
        if alone {
            self.discover_gap = GAP_MIN;
            self.discover_due = self.discover_due.min(now + GAP_MIN);
        }
        if now < self.discover_due {
            return false;
        }
        self.discover_due = now + self.discover_gap;
        self.discover_gap = (self.discover_gap * 2).min(GAP_MAX);
        true
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
        self.relay_due = now + (GAP_MIN * (1 << self.relay_failures.min(4)));
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

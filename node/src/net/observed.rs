//! Where others see us, as a hint for those behaviours that look for ways to us.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};

/// Passes addresses at which others see us on to hole punching and to dial-backs.
///
/// Identify does so too, but takes a port that differs from ours for one that was never listened
/// on, and puts ours in its place: behind a router that gives us another port, that leads nowhere.
///
/// What they say cannot be checked, and those behaviours keep all of it; so only so much is passed
/// on in an hour.
#[derive(Debug, Default)]
pub(super) struct Observed {
    waiting: VecDeque<Multiaddr>,
    /// Passed on within the hour that began then.
    passed: BTreeSet<Multiaddr>,
    since: Option<Instant>,
}

impl Observed {
    /// Somebody sees the port that we listen on at this address.
    pub(super) fn at(&mut self, address: Multiaddr, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= RENEWAL) {
            self.since = Some(now);
            self.passed.clear();
        }
        let known = self.passed.contains(&address);
        if self.waiting.len() < WAITING_MAX && (known || self.passed.len() < ADDRESSES_MAX) {
            self.passed.insert(address.clone());
            self.waiting.push_back(address);
        }
    }
}

impl NetworkBehaviour for Observed {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        // Addresses come in between two polls of the swarm, so nobody has to be woken.
        match self.waiting.pop_front() {
            Some(address) => Poll::Ready(ToSwarm::NewExternalAddrCandidate(address)),
            None => Poll::Pending,
        }
    }
}

/// More are told of in an hour only by somebody who makes them up.
const ADDRESSES_MAX: usize = 32;
/// Passed on at the next occasion.
const WAITING_MAX: usize = 64;
const RENEWAL: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_makes_addresses_up_is_not_believed_for_long() {
        let (mut observed, now) = (Observed::default(), Instant::now());
        let address = |port: u16| format!("/ip4/203.0.113.5/udp/{port}/quic-v1").parse().unwrap();
        for port in 0..1000 {
            observed.at(address(port), now);
        }
        assert_eq!(observed.waiting.len(), ADDRESSES_MAX);
        observed.at(address(1), now);
        assert_eq!(observed.waiting.len(), ADDRESSES_MAX + 1);
        observed.at(address(1000), now + RENEWAL);
        assert_eq!(observed.waiting.len(), ADDRESSES_MAX + 2);
    }
}

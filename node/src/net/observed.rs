//! Where others see us, as a hint for those behaviours that look for ways to us.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::task::{Context, Poll};

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
#[derive(Debug, Default)]
pub(super) struct Observed(VecDeque<Multiaddr>);

impl Observed {
    /// Somebody sees the port that we listen on at this address.
    pub(super) fn at(&mut self, address: Multiaddr) {
        if self.0.len() < WAITING_MAX {
            self.0.push_back(address);
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
        match self.0.pop_front() {
            Some(address) => Poll::Ready(ToSwarm::NewExternalAddrCandidate(address)),
            None => Poll::Pending,
        }
    }
}

/// More are told of at once only by somebody who makes them up.
const WAITING_MAX: usize = 64;

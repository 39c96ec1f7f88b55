//! Our own addresses: where we listen, and where the outside reaches us.

use std::io;
use std::time::{Duration, Instant};

use libp2p::Multiaddr;
use libp2p::core::transport::{ListenerId, TransportError};
use libp2p::swarm::SwarmEvent;

use super::super::NetConfig;
use super::super::address::{self, is_relayed};
use super::super::behaviour::BehaviourEvent;
use super::super::error::NetError;
use super::super::event::Notice;
use super::Task;
use super::connections::reason;

/// An address of the configuration to listen on.
#[derive(Debug)]
pub(super) struct Listener {
    wanted: Multiaddr,
    state: State,
}

#[derive(Debug)]
enum State {
    Open(ListenerId),
    /// To be opened at that time, best on the ports of these.
    Closed(Instant, Vec<Multiaddr>),
}

impl Task {
    /// Listens where the configuration says; where it says any port, on those of `before` if they
    /// are free, because others remember them.
    pub(super) fn listen(
        &mut self,
        config: &NetConfig,
        before: &[Multiaddr],
    ) -> Result<(), NetError> {
        for value in &config.listen {
            let wanted = address::parse(value)?;
            let opened = self.open(&wanted, before);
            let state = State::Open(opened.map_err(|error| NetError::Listen {
                address: value.clone(),
                reason: reason(&error),
            })?);
            self.listeners.push(Listener { wanted, state });
        }
        Ok(())
    }

    /// Listens again where that broke off a while ago.
    pub(super) fn reopen(&mut self, now: Instant) {
        for index in 0..self.listeners.len() {
            let Listener { wanted, state: State::Closed(due, before) } = &self.listeners[index]
            else {
                continue;
            };
            if *due > now {
                continue;
            }
            let (wanted, before) = (wanted.clone(), before.clone());
            self.listeners[index].state = match self.open(&wanted, &before) {
                Ok(id) => State::Open(id),
                Err(error) => {
                    tracing::debug!(address = %wanted, %error, "still not listening");
                    State::Closed(now + REOPEN_TIME, before)
                }
            };
        }
    }

    fn open(
        &mut self,
        wanted: &Multiaddr,
        before: &[Multiaddr],
    ) -> Result<ListenerId, TransportError<io::Error>> {
        let again = address::with_port_of(wanted, before).filter(address::is_free);
        if let Some(again) = again
            && let Ok(listener) = self.swarm.listen_on(again)
        {
            return Ok(listener);
        }
        self.swarm.listen_on(wanted.clone())
    }

    pub(super) fn on_listening(&mut self, event: SwarmEvent<BehaviourEvent>, now: Instant) {
        match event {
            SwarmEvent::NewListenAddr { listener_id, address } => {
                let text = address.to_string();
                if !is_relayed(&address) {
                    self.outbox.tell(Notice::Listening(text));
                } else if self.discovery.relay_listens(listener_id) {
                    self.outbox.tell(Notice::Relayed(text));
                }
                // Tests and impatient people look at once.
                self.picture(now);
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                let (address, reason) = (address.to_string(), "the interface is gone".to_owned());
                self.outbox.tell(Notice::ListenerLost { address, reason });
            }
            SwarmEvent::ListenerClosed { listener_id, addresses, reason: why } => {
                let why = why.err().map_or("closed".to_owned(), |error| reason(&error));
                let relay = self.discovery.relay_closed(listener_id, now);
                let mut own = self.listeners.iter_mut();
                let own = own.find(|it| matches!(it.state, State::Open(id) if id == listener_id));
                if let Some(listener) = own {
                    listener.state = State::Closed(now + REOPEN_TIME, addresses.clone());
                }
                for address in addresses {
                    let address = address.to_string();
                    self.outbox.tell(match relay {
                        true => Notice::RelayLost(address),
                        false => Notice::ListenerLost { address, reason: why.clone() },
                    });
                }
            }
            SwarmEvent::ListenerError { error, .. } => {
                tracing::debug!(%error, "a listener had trouble");
            }
            SwarmEvent::ExternalAddrConfirmed { address } => {
                self.discovery.addresses_changed(now);
                if !is_relayed(&address) {
                    self.outbox.tell(Notice::External(address.to_string()));
                }
            }
            SwarmEvent::ExternalAddrExpired { address } => {
                self.discovery.addresses_changed(now);
                if !is_relayed(&address) {
                    self.lost_address(now);
                    self.outbox.tell(Notice::ExternalLost(address.to_string()));
                }
            }
            _ => {}
        }
    }
}

/// How long after a listener broke off it is tried again.
const REOPEN_TIME: Duration = Duration::from_secs(5);

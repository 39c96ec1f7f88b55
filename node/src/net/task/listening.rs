//! Our own addresses: where we listen, and where the outside reaches us.

use std::time::Instant;

use libp2p::swarm::SwarmEvent;

use super::super::address::is_relayed;
use super::super::behaviour::BehaviourEvent;
use super::super::event::Notice;
use super::Task;
use super::connections::reason;

impl Task {
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

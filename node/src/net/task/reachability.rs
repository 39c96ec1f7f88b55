//! Whether the outside reaches us, and through what.

use std::time::Instant;

use libp2p::{autonat, dcutr};

use super::super::address::{self, is_global, udp_of};
use super::super::event::{Notice, Reachability};
use super::super::identity::node_of;
use super::super::nat::{self, NatStatus};
use super::super::status::Way;
use super::Task;
use super::connections::reason;

impl Task {
    /// Somebody tried to reach us. Only a bootstrap's word, or a public address, says something
    /// about the outside: peers next door get through where nobody else does.
    pub(super) fn on_dial_back(&mut self, event: autonat::v2::client::Event, now: Instant) {
        let outside = self.discovery.is_bootstrap(&event.server) || is_global(&event.tested_addr);
        match event.result {
            Ok(()) if outside => self.reachability(Reachability::Public, now),
            Err(_) if self.discovery.reachability == Reachability::Unknown => {
                self.reachability(Reachability::Private, now);
            }
            _ => {}
        }
    }

    pub(super) fn reachability(&mut self, reachability: Reachability, now: Instant) {
        if self.discovery.reachability == reachability {
            return;
        }
        self.discovery.reachability = reachability;
        self.outbox.tell(Notice::Reachability(reachability));
        if reachability == Reachability::Public {
            for meeting in &mut self.discovery.meetings {
                if let Some(listener) = meeting.listener.take() {
                    meeting.relay_closed(now);
                    self.swarm.remove_listener(listener);
                }
            }
        }
    }

    /// A relayed connection was to be replaced by a direct one.
    pub(super) fn on_hole_punch(&mut self, event: dcutr::Event) {
        let peer = event.remote_peer_id;
        let Some(node) = node_of(&peer) else { return };
        self.outbox.tell(match event.result {
            Ok(_) => {
                // Both have dialled, maybe several times, and any of these may be kept.
                let links = self.peers.get_mut(&peer).into_iter().flat_map(|it| &mut it.links);
                for link in links.filter(|link| !link.is_relayed()) {
                    link.way = Way::HolePunched;
                }
                Notice::HolePunched(node)
            }
            Err(error) => Notice::HolePunchFailed { node, reason: reason(&error) },
        });
    }

    /// What those that we dialled over QUIC, from the ports we listen on, say of our router.
    pub(super) fn nat(&self) -> NatStatus {
        let own: Vec<_> = self.swarm.listeners().filter_map(udp_of).collect();
        let links = self.peers.values().flat_map(|peer| &peer.links);
        let links = links.filter(|link| link.dialled && !link.is_relayed());
        let sights = links
            .filter_map(|link| Some((udp_of(&link.address)?, udp_of(link.observed.as_ref()?)?)));
        // Where there is a choice, the family that is translated.
        let sights: Vec<_> = sights.collect();
        let four = sights.iter().any(|(by, _)| by.is_ipv4());
        nat::judge(&sights.into_iter().filter(|(by, _)| by.is_ipv4() == four).collect(), &own)
    }

    /// An address at which the outside reached us is gone, maybe the last one.
    pub(super) fn lost_address(&mut self, now: Instant) {
        let direct = self.swarm.external_addresses().any(|it| !address::is_relayed(it));
        if !direct && self.discovery.reachability == Reachability::Public {
            self.reachability(Reachability::Unknown, now);
        }
    }
}

//! Whether the outside reaches us.

use std::time::Instant;

use libp2p::autonat;

use super::super::address::{self, is_global};
use super::super::event::{Notice, Reachability};
use super::Task;

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

    /// An address at which the outside reached us is gone, maybe the last one.
    pub(super) fn lost_address(&mut self, now: Instant) {
        let direct = self.swarm.external_addresses().any(|it| !address::is_relayed(it));
        if !direct && self.discovery.reachability == Reachability::Public {
            self.reachability(Reachability::Unknown, now);
        }
    }
}

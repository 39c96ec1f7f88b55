//! Gossip and direct messages, in and out.

use std::sync::atomic::Ordering;
use std::time::Instant;

use atoll_protocol::fault::Verdict;
use atoll_protocol::id::NodeId;
use atoll_protocol::limits::{GOSSIP_BYTES_MAX, MESSAGE_BYTES_MAX};
use libp2p::gossipsub::{self, MessageAcceptance, MessageId, PublishError};
use libp2p::{PeerId, request_response};

use super::super::event::NetEvent;
use super::super::gossip::acceptance;
use super::super::identity::{node_of, peer_of};
use super::Task;

impl Task {
    pub(super) fn publish(&mut self, bytes: Vec<u8>) {
        if bytes.len() > GOSSIP_BYTES_MAX {
            tracing::error!(bytes = bytes.len(), "too long for gossip");
            return;
        }
        let topic = self.protocols.topic.clone();
        match self.swarm.behaviour_mut().gossip.publish(topic, bytes.clone()) {
            Ok(_) | Err(PublishError::Duplicate) => {}
            Err(PublishError::NoPeersSubscribedToTopic) => {
                if self.unsent.len() >= UNSENT_MAX {
                    self.unsent.pop_front();
                }
                self.unsent.push_back(bytes);
            }
            Err(error) => {
                tracing::debug!(%error, "gossip was not sent");
                self.traffic.dropped_up.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn send(&mut self, to: NodeId, bytes: Vec<u8>) {
        let Some(peer) = peer_of(&to).filter(|_| bytes.len() <= MESSAGE_BYTES_MAX) else { return };
        let addresses = self.book.addresses(&peer).to_vec();
        if !self.peers.contains_key(&peer) && addresses.is_empty() {
            return;
        }
        let length = bytes.len();
        if !self.sending.has_room(&peer, length) || !self.allowance.take(length, Instant::now()) {
            self.traffic.dropped_up.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let messages = &mut self.swarm.behaviour_mut().messages;
        let request = messages.send_request_with_addresses(&peer, bytes, addresses);
        self.sending.begin(request, peer, length);
    }

    pub(super) fn judge(&mut self, receipt: u64, verdict: Verdict) {
        let Some((message, from)) = self.receipts.close(receipt) else { return };
        if verdict == Verdict::Accept && !self.relay.take(Instant::now()) {
            self.traffic.dropped_up.fetch_add(1, Ordering::Relaxed);
            self.report(&message, &from, MessageAcceptance::Ignore);
        } else {
            self.report(&message, &from, acceptance(verdict));
        }
    }

    pub(super) fn on_gossip(&mut self, event: gossipsub::Event) {
        match event {
            gossipsub::Event::Message { propagation_source, message_id, message } => {
                let from = node_of(&propagation_source).filter(|_| !self.outbox.is_full());
                let Some(from) = from else {
                    self.count_dropped();
                    self.report(&message_id, &propagation_source, MessageAcceptance::Ignore);
                    return;
                };
                let (receipt, oldest) = self.receipts.open(message_id, propagation_source);
                if let Some((message, from)) = oldest {
                    self.report(&message, &from, MessageAcceptance::Ignore);
                }
                self.outbox.push(NetEvent::Received { from, bytes: message.data, receipt });
            }
            gossipsub::Event::Subscribed { topic, peer_id }
                if topic == self.protocols.topic.hash() =>
            {
                self.subscribed(peer_id);
            }
            gossipsub::Event::SlowPeer { peer_id, .. } => {
                tracing::debug!(peer = %peer_id, "does not take gossip fast enough");
            }
            _ => {}
        }
    }

    /// A peer takes our gossip.
    fn subscribed(&mut self, id: PeerId) {
        let known = self.peers.get_mut(&id);
        if known.is_some_and(|peer| std::mem::replace(&mut peer.listens, true)) {
            // It says so once, over what is its first connection. So it was born again, or has
            // lost us, while an old connection still seems to be up; and gossipsub, which greets
            // over first connections only, will not tell it that we listen. Begin anew.
            tracing::debug!(peer = %id, "was born again");
            // An error only says that it is gone already.
            let _ = self.swarm.disconnect_peer_id(id);
            return;
        }
        self.raise(id, Instant::now());
        for bytes in std::mem::take(&mut self.unsent) {
            self.publish(bytes);
        }
    }

    pub(super) fn on_message(&mut self, event: request_response::Event<Vec<u8>, ()>) {
        match event {
            request_response::Event::Message {
                peer,
                message: request_response::Message::Request { request, channel, .. },
                ..
            } => {
                // An error only says that the sender does not wait any more.
                let _ = self.swarm.behaviour_mut().messages.send_response(channel, ());
                match node_of(&peer).filter(|_| !self.outbox.is_full()) {
                    Some(from) => {
                        let receipt = self.receipts.name();
                        self.outbox.push(NetEvent::Received { from, bytes: request, receipt });
                    }
                    None => self.count_dropped(),
                }
            }
            request_response::Event::Message {
                message: request_response::Message::Response { request_id, .. },
                ..
            } => self.sending.end(&request_id),
            request_response::Event::OutboundFailure { peer, request_id, error, .. } => {
                tracing::debug!(%peer, %error, "a message did not arrive");
                self.sending.end(&request_id);
            }
            _ => {}
        }
    }

    fn report(&mut self, message: &MessageId, from: &PeerId, acceptance: MessageAcceptance) {
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        gossip.report_message_validation_result(message, from, acceptance);
    }
}

/// Messages kept for the first peer.
const UNSENT_MAX: usize = 16;

//! Direct messages on their way: a peer that asks much and reads slowly costs no more than this.

use std::collections::HashMap;
use std::hash::Hash;

use atoll_protocol::limits::MESSAGE_BYTES_MAX;
use libp2p::PeerId;
use libp2p::request_response::OutboundRequestId;

/// Messages that were sent and have not arrived yet, by what libp2p calls each of them.
#[derive(Debug)]
pub(super) struct Sending<Id = OutboundRequestId> {
    open: HashMap<Id, (PeerId, usize)>,
    /// Bytes to each peer.
    bytes: HashMap<PeerId, usize>,
}

impl<Id: Eq + Hash> Sending<Id> {
    pub(super) fn new() -> Self {
        Self { open: HashMap::new(), bytes: HashMap::new() }
    }

    /// Whether there is room for so many bytes to a peer. What is not sent now is asked for again.
    pub(super) fn has_room(&self, peer: &PeerId, bytes: usize) -> bool {
        self.bytes.get(peer).copied().unwrap_or(0) + cost(bytes) <= BYTES_MAX
    }

    /// A message is on its way.
    pub(super) fn begin(&mut self, id: Id, peer: PeerId, bytes: usize) {
        self.open.insert(id, (peer, cost(bytes)));
        *self.bytes.entry(peer).or_default() += cost(bytes);
    }

    /// A message has arrived, or never will.
    pub(super) fn end(&mut self, id: &Id) {
        let Some((peer, bytes)) = self.open.remove(id) else { return };
        if let Some(under_way) = self.bytes.get_mut(&peer) {
            *under_way -= bytes;
            if *under_way == 0 {
                self.bytes.remove(&peer);
            }
        }
    }
}

/// What a message takes, with what libp2p keeps about it.
fn cost(bytes: usize) -> usize {
    bytes + 1024
}

/// Bytes on their way to one peer: all pages of headers that a summary may draw, twice.
const BYTES_MAX: usize = 16 * (MESSAGE_BYTES_MAX + 1024);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_reads_nothing_has_room_for_so_much_and_no_more() {
        let (mut sending, slow, other) = (Sending::new(), PeerId::random(), PeerId::random());
        let mut sent = 0;
        while sending.has_room(&slow, MESSAGE_BYTES_MAX) {
            sending.begin(sent, slow, MESSAGE_BYTES_MAX);
            sent += 1;
        }
        assert_eq!(sent, 16);
        assert!(!sending.has_room(&slow, 0), "empty messages take room, too");
        assert!(sending.has_room(&other, MESSAGE_BYTES_MAX));
        sending.end(&0);
        sending.end(&0);
        assert!(sending.has_room(&slow, MESSAGE_BYTES_MAX));
        (1..sent).for_each(|id| sending.end(&id));
        assert!(sending.open.is_empty() && sending.bytes.is_empty());
    }
}

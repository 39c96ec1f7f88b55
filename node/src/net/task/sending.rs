//! Direct messages on their way: a peer that asks much and reads slowly costs no more than this.

use std::collections::HashMap;

use atoll_protocol::limits::MESSAGE_BYTES_MAX;
use libp2p::PeerId;
use libp2p::request_response::OutboundRequestId;

/// Messages that were sent and have not arrived yet.
#[derive(Debug, Default)]
pub(super) struct Sending {
    open: HashMap<OutboundRequestId, (PeerId, usize)>,
    bytes: HashMap<PeerId, usize>,
}

impl Sending {
    /// Whether there is room for so many bytes to a peer. What is not sent now is asked for again.
    pub(super) fn has_room(&self, peer: &PeerId, bytes: usize) -> bool {
        self.bytes.get(peer).is_none_or(|under_way| under_way + bytes <= BYTES_MAX)
    }

    /// A message is on its way.
    pub(super) fn begin(&mut self, request: OutboundRequestId, peer: PeerId, bytes: usize) {
        self.open.insert(request, (peer, bytes));
        *self.bytes.entry(peer).or_default() += bytes;
    }

    /// A message has arrived, or never will.
    pub(super) fn end(&mut self, request: &OutboundRequestId) {
        let Some((peer, bytes)) = self.open.remove(request) else { return };
        let under_way = self.bytes.get_mut(&peer).map_or(0, |under_way| {
            *under_way -= bytes;
            *under_way
        });
        if under_way == 0 {
            self.bytes.remove(&peer);
        }
    }
}

/// Bytes on their way to one peer: all pages of headers that a summary may draw, twice.
const BYTES_MAX: usize = 16 * MESSAGE_BYTES_MAX;

//! A message on its way, shared by all who relay it.

use std::collections::{HashSet, VecDeque};

use atoll_protocol::crypto::content_id;
use atoll_protocol::id::ContentId;

/// The bytes of a message and their hash.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) hash: ContentId,
}

impl Packet {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let hash = content_id(&bytes);
        Self { bytes, hash }
    }
}

/// The gossip a node has had lately, so that its engine sees each message once.
#[derive(Debug, Default)]
pub(super) struct Seen {
    known: HashSet<ContentId>,
    order: VecDeque<ContentId>,
}

impl Seen {
    /// Whether the message was here already.
    pub(super) fn contains(&self, hash: &ContentId) -> bool {
        self.known.contains(hash)
    }

    /// True if the message is new here.
    pub(super) fn insert(&mut self, hash: ContentId) -> bool {
        if !self.known.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

/// Messages remembered; what is older reaches the engine again.
const SEEN_MAX: usize = 8192;

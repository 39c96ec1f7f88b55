//! What waits for the driver. The network does not wait with it.

use std::collections::VecDeque;

use atoll_protocol::limits::MESSAGES_WAITING_MAX;

use super::super::event::{NetEvent, Notice};

/// Events in order. Messages and notices are refused when many wait; the rest is never lost, and
/// bounded by peers and fetches.
#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<NetEvent>);

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is no room for another message.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MESSAGES_WAITING_MAX
    }

    /// Adds what must not be lost.
    pub(super) fn push(&mut self, event: NetEvent) {
        self.0.push_back(event);
    }

    /// Adds something for people.
    pub(super) fn tell(&mut self, notice: Notice) {
        tracing::debug!(%notice, "network");
        if !self.is_full() {
            self.0.push_back(NetEvent::Notice(notice));
        }
    }

    pub(super) fn pop(&mut self) -> Option<NetEvent> {
        self.0.pop_front()
    }
}

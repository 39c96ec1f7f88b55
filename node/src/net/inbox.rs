//! What waits for the network. Nothing here blocks whoever puts it in.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_protocol::fault::Verdict;
use atoll_protocol::id::{ContentId, NodeId};
use atoll_protocol::limits::MESSAGES_WAITING_MAX;
use tokio::sync::{Notify, oneshot};

/// Something the network is to do.
#[derive(Debug)]
pub(super) enum Command {
    Publish(Vec<u8>),
    Send { to: NodeId, bytes: Vec<u8> },
    Judge { receipt: u64, verdict: Verdict },
    Penalise { node: NodeId, points: u32 },
    Fetch(Order),
    Leave(oneshot::Sender<()>),
}

/// A content to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) content: ContentId,
    pub(super) from: NodeId,
    pub(super) others: Vec<NodeId>,
    pub(super) bytes_max: u64,
}

/// Two queues: messages may be lost, and then are; the rest is bounded by what caused it, because
/// every verdict answers a delivered message, and the engine bounds its fetches.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queues: Mutex<Queues>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    messages: VecDeque<Command>,
    sure: VecDeque<Command>,
    closed: bool,
}

impl Inbox {
    /// Adds a message; false if too many wait.
    pub(super) fn put_message(&self, command: Command) -> bool {
        let mut queues = self.lock();
        if queues.closed || queues.messages.len() >= MESSAGES_WAITING_MAX {
            return false;
        }
        queues.messages.push_back(command);
        drop(queues);
        self.notify.notify_one();
        true
    }

    /// Adds what must not be lost.
    pub(super) fn put(&self, command: Command) {
        let mut queues = self.lock();
        if !queues.closed {
            queues.sure.push_back(command);
        }
        drop(queues);
        self.notify.notify_one();
    }

    /// Nobody will put anything in any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.notify.notify_one();
    }

    /// The next thing to do; none if the inbox is closed and empty. Can be dropped while it waits.
    pub(super) async fn take(&self) -> Option<Command> {
        loop {
            let notified = self.notify.notified();
            {
                let mut queues = self.lock();
                let next = queues.sure.pop_front().or_else(|| queues.messages.pop_front());
                if next.is_some() || queues.closed {
                    return next;
                }
            }
            notified.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_bounded_and_verdicts_go_first() {
        let inbox = Inbox::default();
        for _ in 0..MESSAGES_WAITING_MAX {
            assert!(inbox.put_message(Command::Publish(Vec::new())));
        }
        assert!(!inbox.put_message(Command::Publish(Vec::new())));
        inbox.put(Command::Judge { receipt: 1, verdict: Verdict::Accept });
        assert!(matches!(inbox.take().await, Some(Command::Judge { receipt: 1, .. })));
        inbox.close();
        let mut left = 0;
        while inbox.take().await.is_some() {
            left += 1;
        }
        assert_eq!(left, MESSAGES_WAITING_MAX);
    }
}

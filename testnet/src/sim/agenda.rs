//! The event heap: one virtual clock for the whole swarm.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;

use atoll_protocol::id::{ContentId, FragmentId};
use atoll_protocol::time::Time;

use super::packet::Packet;
use crate::check::NodeIndex;

/// Something that happens at a planned time. Those with a `life` are void once the node stopped.
#[derive(Debug)]
pub(super) enum Happening {
    /// A node starts.
    Start(NodeIndex),
    /// A node that said goodbye stops.
    Stop { node: NodeIndex, life: u64 },
    /// A node stops in the middle of a write.
    CrashNow { node: NodeIndex, life: u64, torn: bool },
    /// The next planned fault, by its index.
    Fault(usize),
    /// Every fault ends.
    Heal,
    /// The islands stop training.
    Quiesce,
    /// The world looks whether anything still changes.
    Settle,
    /// An engine's deadline.
    Timer { node: NodeIndex, life: u64 },
    /// A moment that a liar asked for.
    LiarTimer { node: NodeIndex, life: u64 },
    /// An island finishes a piece of a step; after so many more the step.
    Step { node: NodeIndex, life: u64, left: u32 },
    /// A node's oldest write is durable.
    Durable { node: NodeIndex, life: u64 },
    /// An island's checkpoint is durable.
    Checkpointed { node: NodeIndex, life: u64 },
    /// A payload's check is done.
    Checked { node: NodeIndex, life: u64, payload: ContentId, fragment: FragmentId },
    /// The front job of a fragment is done.
    JobDone { node: NodeIndex, life: u64, fragment: FragmentId },
    /// A message arrives.
    Deliver { from: NodeIndex, to: NodeIndex, packet: Rc<Packet>, gossip: bool },
    /// A request for content arrives at its holder.
    Ask { request: Request, holder: NodeIndex },
    /// The answer arrives; none if the holder has no such content.
    Answer { request: Request, bytes: Option<Rc<[u8]>> },
    /// A fetch is given up.
    GiveUp { request: Request },
    /// A node notices whether a peer is reachable.
    Look { node: NodeIndex, peer: NodeIndex },
}

/// One fetch of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) asker: NodeIndex,
    pub(super) life: u64,
    pub(super) number: u64,
    pub(super) content: ContentId,
}

/// Everything planned, earliest first; equal times in the order they were planned.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
}

impl Agenda {
    /// Plans `happening` for `at`.
    pub(super) fn plan(&mut self, at: Time, happening: Happening) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence: self.sequence, happening }));
    }

    /// Takes what comes next.
    pub(super) fn next(&mut self) -> Option<(Time, Happening)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.happening))
    }
}

#[derive(Debug)]
struct Entry {
    at: Time,
    sequence: u64,
    happening: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut agenda = Agenda::default();
        agenda.plan(Time(5), Happening::Fault(0));
        agenda.plan(Time(3), Happening::Fault(1));
        agenda.plan(Time(5), Happening::Fault(2));
        let order: Vec<usize> = std::iter::from_fn(|| agenda.next())
            .map(|(_, happening)| match happening {
                Happening::Fault(index) => index,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order, [1, 0, 2]);
    }
}

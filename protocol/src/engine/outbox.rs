//! The one ordered queue of outputs.

use std::collections::VecDeque;

use crate::engine::Output;
use crate::limits::OUTBOX_MAX;

/// Outputs in the order they must be executed.
#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<Output>);

impl Outbox {
    pub(super) fn push(&mut self, output: Output) {
        self.0.push_back(output);
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the driver is so far behind that peers must wait.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= OUTBOX_MAX
    }
}

//! What a node says about itself.

use std::fmt;

use serde_json::Value;

/// A node's status, as `atoll status --json` prints it.
#[derive(Clone, Debug)]
pub(crate) struct Status(pub(crate) Value);

/// Where a node's tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) trained: u64,
    pub(crate) merged: u64,
    pub(crate) pending: u64,
    pub(crate) fresh: u64,
    pub(crate) reissued: u64,
    pub(crate) orphaned: u64,
}

impl Status {
    /// A whole number at a JSON pointer.
    pub(crate) fn number(&self, pointer: &str) -> u64 {
        let value = self.0.pointer(pointer).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no number at {pointer} of {self}"))
    }

    /// A text at a JSON pointer.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let value = self.0.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_else(|| panic!("no text at {pointer} of {self}"))
    }

    pub(crate) fn is_caught_up(&self) -> bool {
        self.text("/standing") == "caught_up"
    }

    /// Peers that were heard from lately.
    pub(crate) fn alive(&self) -> u64 {
        self.number("/gauges/alive")
    }

    /// Steps of the island's whole life.
    pub(crate) fn steps(&self) -> u64 {
        self.number("/training/step")
    }

    /// The newest version of each fragment.
    pub(crate) fn versions(&self) -> Vec<u64> {
        (0..self.fragments())
            .map(|index| self.number(&format!("/fragments/{index}/version")))
            .collect()
    }

    /// The version that every fragment has reached.
    pub(crate) fn version_min(&self) -> u64 {
        self.versions().into_iter().min().unwrap_or(0)
    }

    /// Version and digest of each fragment: what replicas have in common.
    pub(crate) fn digests(&self) -> Vec<(u64, String)> {
        let digest = |index| self.text(&format!("/fragments/{index}/digest")).to_owned();
        self.versions().into_iter().zip((0..self.fragments()).map(digest)).collect()
    }

    /// Where the tokens are: over all, then fragment by fragment.
    pub(crate) fn fates(&self) -> Vec<Fates> {
        let all = ["/fates".to_owned()];
        let each = (0..self.fragments()).map(|index| format!("/fragments/{index}/fates"));
        let places = all.into_iter().chain(each);
        places.map(|at| Fates::read(self, &at)).collect()
    }

    /// Own contributions: round, peers that merged it, peers heard from; newest last.
    pub(crate) fn receipts(&self) -> Vec<(String, u64, u64)> {
        let count = self.0["receipts"].as_array().map_or(0, Vec::len);
        let receipt = |index| {
            let at = |name: &str| format!("/receipts/{index}/{name}");
            let round = self.text(&at("round")).to_owned();
            (round, self.number(&at("merged_by")), self.number(&at("of")))
        };
        (0..count).map(receipt).collect()
    }

    fn fragments(&self) -> usize {
        self.0["fragments"].as_array().map_or(0, Vec::len)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Fates {
    fn read(status: &Status, at: &str) -> Self {
        let number = |name: &str| status.number(&format!("{at}/{name}"));
        Self {
            trained: number("trained"),
            merged: number("merged"),
            pending: number("pending"),
            fresh: number("fresh"),
            reissued: number("reissued"),
            orphaned: number("orphaned"),
        }
    }

    /// Whether no token is missing and none is counted twice.
    pub(crate) fn add_up(&self) -> bool {
        let Self { trained, merged, pending, fresh, reissued, orphaned } = self;
        merged + pending + fresh + reissued + orphaned == *trained
    }
}

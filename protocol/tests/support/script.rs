//! Bytes that decide everything a stranger does: read one after another, zeros at the end.

use atoll_protocol::crypto::Key;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Short, Trail, Version};

/// A script and how far it was read.
pub(crate) struct Script<'a> {
    bytes: &'a [u8],
}

impl<'a> Script<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether anything is left.
    pub(crate) fn goes_on(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// Up to `count` bytes as they are.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken.to_vec()
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    pub(crate) fn chance(&mut self) -> bool {
        self.byte().is_multiple_of(2)
    }

    /// Whether to do the next thing badly.
    pub(crate) fn sloppy(&mut self) -> bool {
        self.byte() >= 208
    }

    /// A version near `around`, or one at either end of all there are.
    pub(crate) fn version(&mut self, around: Version) -> Version {
        match self.byte() {
            byte @ 0..=199 => around.saturating_add(u32::from(byte % 8)).saturating_sub(2),
            byte @ 200..=247 => u32::from(byte - 200),
            byte => Version::MAX - u32::from(255 - byte),
        }
    }

    /// A count: small, or as large as there are.
    pub(crate) fn count(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => 1 << 63,
            253 => u64::from(u32::MAX),
            byte => u64::from(byte),
        }
    }

    pub(crate) fn count32(&mut self) -> u32 {
        u32::try_from(self.count()).unwrap_or(u32::MAX)
    }

    /// One of the run's two fragments, seldom one that it does not have.
    pub(crate) fn fragment(&mut self) -> FragmentId {
        match self.byte() {
            255 => FragmentId(u16::MAX),
            byte @ 240..=254 => FragmentId(u16::from(byte - 238)),
            byte => FragmentId(u16::from(byte % 2)),
        }
    }

    pub(crate) fn content(&mut self) -> ContentId {
        ContentId([self.byte() % 16; 32])
    }

    pub(crate) fn node(&mut self, keys: &[Key]) -> NodeId {
        match self.byte() {
            byte @ 250.. => NodeId([byte; 32]),
            byte => keys[usize::from(byte) % keys.len()].node(),
        }
    }

    /// One of the trails that the engine knows, or any other.
    pub(crate) fn trail(&mut self, known: &[Trail]) -> Trail {
        let byte = self.byte();
        known.get(usize::from(byte % 8)).copied().unwrap_or(Trail([byte; 32]))
    }

    pub(crate) fn short(&mut self, known: &[Trail]) -> Short {
        self.trail(known).short()
    }
}

use std::fmt;

use zstd::bulk::Compressor;

use super::entropy;

/// What an encoder works with, used again for chunk after chunk: asking the system for fresh
/// memory would take longer than encoding.
pub(super) struct Scratch {
    /// The chunk before entropy coding.
    pub(super) raw: Vec<u8>,
    compressor: Compressor<'static>,
}

impl Scratch {
    /// With empty buffers.
    pub(super) fn new() -> Self {
        Self { raw: Vec::new(), compressor: entropy::compressor() }
    }

    /// Writes a frame with all that is in `raw` to the front of `slot`; returns its length.
    pub(super) fn compress(&mut self, slot: &mut [u8]) -> usize {
        self.compressor
            .compress_to_buffer(&self.raw, slot)
            .expect("there is memory, and a slot is as large as any frame that goes there")
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scratch").field("raw", &self.raw.len()).finish_non_exhaustive()
    }
}

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

use super::entropy;
use super::error::PayloadError;

/// What a thread codes with, used again for chunk after chunk and payload after payload: asking
/// the system for fresh memory would take longer than coding. What one chunk leaves behind never
/// shows in the next.
pub(super) struct Scratch {
    /// The chunk before entropy coding.
    pub(super) raw: Vec<u8>,
    /// The chunk after it was expanded, with whatever an earlier one left behind it.
    expanded: Vec<u8>,
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Scratch {
    /// Lends this thread's.
    pub(super) fn lend<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
        }
        SCRATCH.with_borrow_mut(work)
    }

    /// Writes a frame with all that is in `raw` to the front of `slot`; returns its length.
    pub(super) fn compress(&mut self, slot: &mut [u8]) -> usize {
        self.compressor
            .compress_to_buffer(&self.raw, slot)
            .expect("there is memory, and a slot is as large as any frame that goes there")
    }

    /// What the frame holds, which must be `exact` bytes.
    pub(super) fn expand(&mut self, frame: &[u8], exact: usize) -> Result<&mut [u8], PayloadError> {
        let raw = self.expand_up_to(frame, exact)?;
        if raw.len() != exact {
            return Err(PayloadError::FrameBytes { expected: exact, found: raw.len() });
        }
        Ok(raw)
    }

    /// What the frame holds, which may be at most `max` bytes; no more is ever written for it.
    pub(super) fn expand_up_to(
        &mut self,
        frame: &[u8],
        max: usize,
    ) -> Result<&mut [u8], PayloadError> {
        if self.expanded.len() < max {
            self.expanded.resize(max, 0);
        }
        let room = &mut self.expanded[..max];
        let written = self
            .decompressor
            .decompress_to_buffer(frame, room)
            .map_err(|_| PayloadError::Frame(max))?;
        Ok(&mut self.expanded[..written])
    }

    fn new() -> Self {
        Self {
            raw: Vec::new(),
            expanded: Vec::new(),
            compressor: entropy::compressor(),
            decompressor: Decompressor::new().expect("there is memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 1 << 20], 19).unwrap();
        assert!(bomb.len() < 200);
        let expand = |max| Scratch::lend(|scratch| scratch.expand(&bomb, max).map(|raw| raw.len()));
        assert_eq!(expand(1000), Err(PayloadError::Frame(1000)));
        assert_eq!(expand(1 << 20), Ok(1 << 20));
        // Room that was needed before is not there for the next.
        assert_eq!(expand(1000), Err(PayloadError::Frame(1000)));
    }

    #[test]
    fn a_bad_frame_leaves_nothing_behind() {
        let frame = zstd::bulk::compress(&[5; 1000], 1).unwrap();
        let mut bad = frame.clone();
        bad.pop();
        Scratch::lend(|scratch| {
            assert_eq!(scratch.expand(&bad, 1000), Err(PayloadError::Frame(1000)));
            assert_eq!(scratch.expand(&frame, 1000), Ok(&mut [5; 1000][..]));
            let error = PayloadError::FrameBytes { expected: 2000, found: 1000 };
            assert_eq!(scratch.expand(&frame, 2000), Err(error));
        });
    }
}

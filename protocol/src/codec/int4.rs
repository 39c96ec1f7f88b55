//! [`Codec::Int4`](super::Codec::Int4): linear 4-bit levels, scaled by the largest magnitude of
//! every 128 elements.

use super::blocks;
use super::error::{NonFinite, PayloadError};
use super::nibbles;
use super::scale::Scale;
use super::scratch::Scratch;
use super::store::Store;

/// The most bytes of a chunk of so many elements.
pub(super) fn bytes_max(elements: usize) -> usize {
    nibbles::bytes_max::<BLOCK>(elements)
}

/// Writes the chunk of `values` to the front of `slot` and returns how long it is.
pub(super) fn encode(
    values: &[f32],
    scratch: &mut Scratch,
    slot: &mut [u8],
) -> Result<usize, NonFinite> {
    nibbles::encode::<BLOCK>(values, scratch, slot, |block, _| {
        Ok(Scale::above(blocks::magnitude(block)? / 7.0))
    })
}

/// Stores the values of a chunk; if it is not a good one, nothing was stored.
pub(super) fn decode(
    chunk: &[u8],
    scratch: &mut Scratch,
    out: &mut [f32],
    store: impl Store,
) -> Result<(), PayloadError> {
    nibbles::decode::<BLOCK>(chunk, scratch, out, store)
}

const BLOCK: usize = 128;

//! [`Codec::Low`](super::Codec::Low): an entropy-coded uniform quantiser whose step is the root
//! mean square of every 4096 elements. Two levels share a byte, so that Huffman codes below one
//! bit per level are possible.

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
    nibbles::encode::<BLOCK>(values, scratch, slot, |block, real| {
        Ok(Scale::nearest(blocks::root_mean_square(block, real)?))
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

const BLOCK: usize = 4096;

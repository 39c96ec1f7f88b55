//! [`Codec::Int8`](super::Codec::Int8): linear 8-bit levels, scaled by the largest magnitude of
//! every 128 elements.
//!
//! Raw chunk: for every block 128 levels in two's complement, then for every block its scale.

use super::blocks;
use super::entropy;
use super::error::{NonFinite, PayloadError};
use super::scale::Scale;
use super::scratch::Scratch;
use super::store::Store;

/// The most bytes of a chunk of so many elements.
pub(super) fn bytes_max(elements: usize) -> usize {
    entropy::bytes_max(raw_bytes(elements))
}

/// Writes the chunk of `values` to the front of `slot` and returns how long it is.
pub(super) fn encode(
    values: &[f32],
    scratch: &mut Scratch,
    slot: &mut [u8],
) -> Result<usize, NonFinite> {
    scratch.raw.resize(raw_bytes(values.len()), 0);
    let (levels, scales) = scratch.raw.split_at_mut(values.len().div_ceil(BLOCK) * BLOCK);
    blocks::for_each::<BLOCK>(values, |index, block, _| {
        let scale = Scale::above(blocks::magnitude(block)? / CLIP).min(Scale::limit(DEEPEST));
        scales[index * Scale::BYTES..][..Scale::BYTES].copy_from_slice(&scale.bytes());
        let inverse = scale.inverse();
        for (byte, &value) in levels[index * BLOCK..][..BLOCK].iter_mut().zip(block) {
            *byte = level(value * inverse);
        }
        Ok(())
    })?;
    Ok(scratch.compress(slot))
}

/// Stores the values of a chunk; if it is not a good one, nothing was stored.
pub(super) fn decode(
    chunk: &[u8],
    scratch: &mut Scratch,
    out: &mut [f32],
    store: impl Store,
) -> Result<(), PayloadError> {
    let raw = scratch.expand(chunk, raw_bytes(out.len()))?;
    let (levels, scales) = raw.split_at(out.len().div_ceil(BLOCK) * BLOCK);
    Scale::check(scales, Scale::limit(DEEPEST))?;
    let scales = scales.as_chunks().0.iter().map(|&bytes| Scale::read(bytes).value());
    for ((out, levels), scale) in out.chunks_mut(BLOCK).zip(levels.chunks_exact(BLOCK)).zip(scales)
    {
        for (slot, &level) in out.iter_mut().zip(levels) {
            store.store(slot, scale * f32::from(level.cast_signed()));
        }
    }
    Ok(())
}

fn raw_bytes(elements: usize) -> usize {
    elements.div_ceil(BLOCK) * (BLOCK + Scale::BYTES)
}

/// The nearest level: adding so large a number leaves no room for a fraction, so the addition
/// itself rounds (ties to even), and the low bits of the sum are the level.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the level is in the eight low bits")]
#[expect(clippy::manual_clamp, reason = "these are one instruction each, clamp is not")]
fn level(scaled: f32) -> u8 {
    (scaled.min(CLIP).max(-CLIP) + ROUNDER).to_bits() as u8
}

const BLOCK: usize = 128;
/// Levels go from -127 to 127; only a decoder can meet -128.
const CLIP: f32 = 127.0;
/// The magnitude of the deepest level is two to this power.
const DEEPEST: u16 = 7;
/// 1.5 * 2^23: the sum with a small number has a unit in its last place.
const ROUNDER: f32 = 12_582_912.0;

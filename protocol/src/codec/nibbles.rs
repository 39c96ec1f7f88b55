//! Blocks of 4-bit levels with one scale: the format of [`Codec::Int4`](super::Codec::Int4) and
//! [`Codec::Low`](super::Codec::Low), which differ in the block and in how the scale is chosen.
//!
//! Raw chunk: for every block `BLOCK / 2` bytes, then for every block its scale. Byte `i` of a
//! block holds element `i` in its low half and element `i + BLOCK / 2` in its high half, which
//! vector units can pack and unpack without shuffling. A level `q` is written as `q + 8`.

use super::blocks;
use super::entropy;
use super::error::{NonFinite, PayloadError};
use super::scale::Scale;
use super::scratch::Scratch;
use super::store::Store;

/// The most bytes of a chunk of so many elements.
pub(super) fn bytes_max<const BLOCK: usize>(elements: usize) -> usize {
    entropy::bytes_max(raw_bytes::<BLOCK>(elements))
}

/// Writes the chunk of `values`, each block with the scale that `choose` gives it, to the front
/// of `slot` and returns how long it is.
pub(super) fn encode<const BLOCK: usize>(
    values: &[f32],
    scratch: &mut Scratch,
    slot: &mut [u8],
    choose: impl Fn(&[f32; BLOCK], usize) -> Result<Scale, NonFinite>,
) -> Result<usize, NonFinite> {
    scratch.raw.resize(raw_bytes::<BLOCK>(values.len()), 0);
    let (levels, scales) = scratch.raw.split_at_mut(values.len().div_ceil(BLOCK) * (BLOCK / 2));
    blocks::for_each::<BLOCK>(values, |index, block, real| {
        let scale = choose(block, real)?.min(Scale::limit(DEEPEST));
        scales[index * Scale::BYTES..][..Scale::BYTES].copy_from_slice(&scale.bytes());
        quantise(block, scale.inverse(), &mut levels[index * (BLOCK / 2)..][..BLOCK / 2]);
        Ok(())
    })?;
    Ok(scratch.compress(slot))
}

/// Stores the values of a chunk; if it is not a good one, nothing was stored.
pub(super) fn decode<const BLOCK: usize>(
    chunk: &[u8],
    scratch: &mut Scratch,
    out: &mut [f32],
    store: impl Store,
) -> Result<(), PayloadError> {
    let raw = scratch.expand(chunk, raw_bytes::<BLOCK>(out.len()))?;
    let (levels, scales) = raw.split_at(out.len().div_ceil(BLOCK) * (BLOCK / 2));
    Scale::check(scales, Scale::limit(DEEPEST))?;
    let scales = scales.as_chunks().0.iter().map(|&bytes| Scale::read(bytes).value());
    let mut blocks = levels.chunks_exact(BLOCK / 2).zip(scales);
    let (whole, rest) = out.as_chunks_mut::<BLOCK>();
    for (out, (levels, scale)) in whole.iter_mut().zip(&mut blocks) {
        restore(levels, scale, out, store);
    }
    for (levels, scale) in blocks {
        // Values are restored to zeros first and stored one by one: what the caller's slots
        // hold must not take part in the padding.
        let mut padded = [0.0; BLOCK];
        restore(levels, scale, &mut padded, super::store::Replace);
        for (slot, value) in rest.iter_mut().zip(padded) {
            store.store(slot, value);
        }
    }
    Ok(())
}

fn raw_bytes<const BLOCK: usize>(elements: usize) -> usize {
    elements.div_ceil(BLOCK) * (BLOCK / 2 + Scale::BYTES)
}

#[inline(always)]
fn quantise<const BLOCK: usize>(values: &[f32; BLOCK], inverse: f32, levels: &mut [u8]) {
    let (low, high) = values.split_at(BLOCK / 2);
    let parts = low.as_chunks::<16>().0.iter().zip(high.as_chunks::<16>().0);
    for (bytes, (low, high)) in levels.as_chunks_mut::<16>().0.iter_mut().zip(parts) {
        for lane in 0..16 {
            bytes[lane] = (level(low[lane] * inverse) & 15) | (level(high[lane] * inverse) << 4);
        }
    }
}

/// The nearest level plus 8, in the four low bits: adding so large a number leaves no room for a
/// fraction, so the addition itself rounds (ties to even).
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "only the four low bits are used")]
#[expect(clippy::manual_clamp, reason = "these are one instruction each, clamp is not")]
fn level(scaled: f32) -> u8 {
    (scaled.min(CLIP).max(-CLIP) + (ROUNDER + 8.0)).to_bits() as u8
}

#[inline(always)]
fn restore<const BLOCK: usize>(
    levels: &[u8],
    scale: f32,
    out: &mut [f32; BLOCK],
    store: impl Store,
) {
    let (low, high) = out.split_at_mut(BLOCK / 2);
    for ((&byte, low), high) in levels.iter().zip(low).zip(high) {
        store.store(low, scale * (i32::from(byte & 15) - 8) as f32);
        store.store(high, scale * (i32::from(byte >> 4) - 8) as f32);
    }
}

/// Levels go from -7 to 7; only a decoder can meet -8.
const CLIP: f32 = 7.0;
/// The magnitude of the deepest level is two to this power.
const DEEPEST: u16 = 3;
/// 1.5 * 2^23: the sum with a small number has a unit in its last place.
const ROUNDER: f32 = 12_582_912.0;

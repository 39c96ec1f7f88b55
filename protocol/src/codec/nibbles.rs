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
use super::store::Store;

/// The most bytes of a chunk of so many elements.
pub(super) fn bytes_max<const BLOCK: usize>(elements: usize) -> usize {
    entropy::bytes_max(raw_bytes::<BLOCK>(elements))
}

/// The chunk of `values`, each block with the scale that `choose` gives it.
pub(super) fn encode<const BLOCK: usize>(
    values: &[f32],
    choose: impl Fn(&[f32; BLOCK], usize) -> Result<Scale, NonFinite>,
) -> Result<Vec<u8>, NonFinite> {
    let mut raw = vec![0; raw_bytes::<BLOCK>(values.len())];
    let (levels, scales) = raw.split_at_mut(values.len().div_ceil(BLOCK) * (BLOCK / 2));
    blocks::for_each::<BLOCK>(values, |index, block, real| {
        let scale = choose(block, real)?.min(Scale::limit(DEEPEST));
        scales[index * Scale::BYTES..][..Scale::BYTES].copy_from_slice(&scale.bytes());
        quantise(block, scale.inverse(), &mut levels[index * (BLOCK / 2)..][..BLOCK / 2]);
        Ok(())
    })?;
    let mut chunk = Vec::new();
    entropy::compress(&raw, &mut chunk);
    Ok(chunk)
}

/// Stores the values of a chunk; if it is not a good one, nothing was stored.
pub(super) fn decode<const BLOCK: usize>(
    chunk: &[u8],
    out: &mut [f32],
    store: impl Store,
) -> Result<(), PayloadError> {
    let raw = entropy::expand(chunk, raw_bytes::<BLOCK>(out.len()))?;
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
    for ((byte, &low), &high) in levels.iter_mut().zip(low).zip(high) {
        *byte = (level(low * inverse) & 15) | (level(high * inverse) << 4);
    }
}

/// The nearest level plus 8, in the four low bits: adding so large a number leaves no room for a
/// fraction, so the addition itself rounds (ties to even).
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "only the four low bits are used")]
fn level(scaled: f32) -> u8 {
    (blocks::clip(scaled, CLIP) + (ROUNDER + 8.0)).to_bits() as u8
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

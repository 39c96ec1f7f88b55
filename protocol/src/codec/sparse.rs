//! [`Codec::Sparse`](super::Codec::Sparse): the 2 % of largest magnitude of every 4096 elements,
//! each as a sign and one of two magnitudes; everything else is zero.
//!
//! Chunk: for every block its two magnitudes; then for every kept element two bits (bit 0: the
//! larger magnitude, bit 1: negative), four to a byte; then a zstd frame with the gaps between
//! kept elements. A gap is one byte; 255 stands for 255 elements and another byte follows. How
//! many elements a block keeps follows from its length.

mod select;

use super::blocks;
use super::entropy;
use super::error::{NonFinite, PayloadError};
use super::scale::Scale;
use super::scratch::Scratch;
use super::store::Store;
use select::Selector;

/// The most bytes of a chunk of so many elements.
pub(super) fn bytes_max(elements: usize) -> usize {
    fixed_bytes(elements) + entropy::bytes_max(gap_bytes_max(elements))
}

/// Writes the chunk of `values` to the front of `slot` and returns how long it is.
pub(super) fn encode(
    values: &[f32],
    scratch: &mut Scratch,
    slot: &mut [u8],
) -> Result<usize, NonFinite> {
    let (fixed, frame) = slot.split_at_mut(fixed_bytes(values.len()));
    let (magnitudes, signs) = fixed.split_at_mut(magnitude_bytes(values.len()));
    signs.fill(0);
    scratch.raw.clear();
    let mut selector = Selector::default();
    let mut kept_before = 0;
    blocks::for_each::<BLOCK>(values, |index, block, real| {
        blocks::root_mean_square(block, real)?;
        let positions = selector.largest(&block[..real], kept(real));
        let levels = Levels::of(block, positions);
        magnitudes[index * Levels::BYTES..][..Levels::BYTES].copy_from_slice(&levels.bytes());
        let mut next = 0;
        for (&position, number) in positions.iter().zip(kept_before..) {
            push_gap(&mut scratch.raw, position - next);
            next = position + 1;
            let two_bits = levels.code(block[usize::from(position)]);
            signs[number / 4] |= two_bits << (number % 4 * 2);
        }
        kept_before += positions.len();
        Ok(())
    })?;
    Ok(fixed.len() + scratch.compress(frame))
}

/// Stores the values of a chunk; if it is not a good one, nothing was stored.
pub(super) fn decode(
    chunk: &[u8],
    scratch: &mut Scratch,
    out: &mut [f32],
    store: impl Store,
) -> Result<(), PayloadError> {
    let needed = fixed_bytes(out.len());
    let Some((fixed, frame)) = chunk.split_at_checked(needed) else {
        return Err(PayloadError::ShortChunk { bytes: chunk.len(), needed });
    };
    let (magnitudes, signs) = fixed.split_at(magnitude_bytes(out.len()));
    Scale::check(magnitudes, Scale::limit(0))?;
    let gaps = scratch.expand_up_to(frame, gap_bytes_max(out.len()))?;
    let positions = positions(gaps, out.len())?;
    let mut number = 0;
    for (out, bytes) in out.chunks_mut(BLOCK).zip(magnitudes.as_chunks().0) {
        // Zeros are stored too: adding one to a negative zero changes its sign.
        let mut values = [0.0; BLOCK];
        let levels = Levels::read(*bytes);
        for &position in &positions[number..number + kept(out.len())] {
            let two_bits = signs[number / 4] >> (number % 4 * 2);
            values[usize::from(position)] = levels.value(two_bits);
            number += 1;
        }
        for (slot, value) in out.iter_mut().zip(values) {
            store.store(slot, value);
        }
    }
    Ok(())
}

/// The two magnitudes of a block, with the mean that divides what they stand for.
#[derive(Clone, Copy, Debug)]
struct Levels {
    smaller: Scale,
    larger: Scale,
    mean: f64,
}

impl Levels {
    const BYTES: usize = 2 * Scale::BYTES;

    /// The means of what is below and what is not below the mean of all.
    fn of(block: &[f32], positions: &[u16]) -> Self {
        let magnitudes = || positions.iter().map(|&at| f64::from(block[usize::from(at)].abs()));
        let mean = magnitudes().sum::<f64>() / positions.len() as f64;
        let (mut below, mut above) = ((0.0, 0.0), (0.0, 0.0));
        for magnitude in magnitudes() {
            let (sum, count) = if magnitude < mean { &mut below } else { &mut above };
            *sum += magnitude;
            *count += 1.0;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most the largest of the values")]
        let level = |(sum, count): (f64, f64)| Scale::nearest((sum / count.max(1.0)) as f32);
        Self { smaller: level(below), larger: level(above), mean }
    }

    fn code(&self, value: f32) -> u8 {
        u8::from(f64::from(value.abs()) >= self.mean) | (u8::from(value < 0.0) << 1)
    }

    fn value(&self, two_bits: u8) -> f32 {
        let magnitude = if two_bits & 1 == 0 { self.smaller } else { self.larger }.value();
        if two_bits & 2 == 0 { magnitude } else { -magnitude }
    }

    fn bytes(&self) -> [u8; Self::BYTES] {
        let ([a, b], [c, d]) = (self.smaller.bytes(), self.larger.bytes());
        [a, b, c, d]
    }

    fn read([a, b, c, d]: [u8; Self::BYTES]) -> Self {
        Self { smaller: Scale::read([a, b]), larger: Scale::read([c, d]), mean: 0.0 }
    }
}

/// The position of every kept element in its block, block after block.
fn positions(gaps: &[u8], elements: usize) -> Result<Vec<u16>, PayloadError> {
    let mut positions = Vec::with_capacity(kept_in_all(elements));
    let mut gaps = gaps.iter();
    let mut block = 0;
    for start in (0..elements).step_by(BLOCK) {
        let len = BLOCK.min(elements - start);
        let mut next = 0;
        for _ in 0..kept(len) {
            next += take_gap(&mut gaps).ok_or(PayloadError::Position(block))?;
            if next >= len {
                return Err(PayloadError::Position(block));
            }
            #[expect(clippy::cast_possible_truncation, reason = "less than the block's length")]
            positions.push(next as u16);
            next += 1;
        }
        block += 1;
    }
    if gaps.next().is_some() { Err(PayloadError::Position(block)) } else { Ok(positions) }
}

fn push_gap(gaps: &mut Vec<u8>, mut gap: u16) {
    while gap >= u16::from(u8::MAX) {
        gaps.push(u8::MAX);
        gap -= u16::from(u8::MAX);
    }
    gaps.extend(gap.to_le_bytes().first());
}

fn take_gap<'a>(gaps: &mut impl Iterator<Item = &'a u8>) -> Option<usize> {
    let mut gap = 0;
    loop {
        let byte = *gaps.next()?;
        gap += usize::from(byte);
        if byte < u8::MAX {
            return Some(gap);
        }
    }
}

/// Elements that a block of this length keeps.
const fn kept(len: usize) -> usize {
    (len * KEPT).div_ceil(BLOCK)
}

const fn kept_in_all(elements: usize) -> usize {
    elements / BLOCK * KEPT + kept(elements % BLOCK)
}

const fn magnitude_bytes(elements: usize) -> usize {
    elements.div_ceil(BLOCK) * Levels::BYTES
}

const fn fixed_bytes(elements: usize) -> usize {
    magnitude_bytes(elements) + kept_in_all(elements).div_ceil(4)
}

/// One byte for every kept element, and one more for every 255 elements passed over.
const fn gap_bytes_max(elements: usize) -> usize {
    kept_in_all(elements) + elements.div_ceil(BLOCK) * (BLOCK / 255)
}

const BLOCK: usize = 4096;
/// Elements that a whole block keeps: with 9 bits each they stay below 0.2 bits per element.
const KEPT: usize = 82;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::store::Replace;

    #[test]
    fn gaps_of_every_length() {
        for gap in [0u16, 1, 254, 255, 256, 509, 510, 511, 4095] {
            let mut bytes = Vec::new();
            push_gap(&mut bytes, gap);
            let mut read = bytes.iter();
            assert_eq!(take_gap(&mut read), Some(usize::from(gap)));
            assert_eq!(read.next(), None);
        }
        assert_eq!(take_gap(&mut [255].iter()), None);
    }

    #[test]
    fn positions_outside_their_block_are_refused() {
        assert_eq!(positions(&[0], 1), Ok(vec![0]));
        assert_eq!(positions(&[1], 1), Err(PayloadError::Position(0)));
        assert_eq!(positions(&[], 1), Err(PayloadError::Position(0)));
        assert_eq!(positions(&[0, 0], 1), Err(PayloadError::Position(1)));
        assert_eq!(positions(&[255, 255], 1), Err(PayloadError::Position(0)));
    }

    #[test]
    fn the_last_elements_of_a_block_can_be_kept() {
        let mut values = vec![0.0; BLOCK];
        values[BLOCK - KEPT..].fill(-3.0);
        let mut slot = vec![0xff; bytes_max(values.len())];
        let mut out = vec![1.0; BLOCK];
        Scratch::lend(|scratch| {
            let length = encode(&values, scratch, &mut slot).unwrap();
            decode(&slot[..length], scratch, &mut out, Replace).unwrap();
        });
        assert_eq!(out, values);
    }
}

//! [`Codec::F32`](super::Codec::F32): every bit, in four planes.
//!
//! The bits of a value are rotated by one, so that its exponent is one byte and its sign comes
//! last; then come the lowest bytes of all elements, the second, the third and the exponents.
//! Exponents take few values, and differences of weights have few low bits: both planes shrink.

use super::entropy;
use super::error::{NonFinite, PayloadError};
use super::scratch::Scratch;
use super::store::Store;

/// The most bytes of a chunk of so many elements.
pub(super) fn bytes_max(elements: usize) -> usize {
    entropy::bytes_max(elements * 4)
}

/// Writes the chunk of `values` to the front of `slot` and returns how long it is.
pub(super) fn encode(
    values: &[f32],
    scratch: &mut Scratch,
    slot: &mut [u8],
) -> Result<usize, NonFinite> {
    scratch.raw.resize(values.len() * 4, 0);
    let (lowest, second, third, exponents) = planes_mut(&mut scratch.raw);
    let planes = lowest.iter_mut().zip(second).zip(third.iter_mut().zip(exponents.iter_mut()));
    for (&value, ((lowest, second), (third, exponent))) in values.iter().zip(planes) {
        [*lowest, *second, *third, *exponent] = value.to_bits().rotate_left(1).to_le_bytes();
    }
    if let Some(index) = not_finite(exponents) {
        return Err(NonFinite { index });
    }
    Ok(scratch.compress(slot))
}

/// Stores the values of a chunk; if it is not a good one, nothing was stored.
pub(super) fn decode(
    chunk: &[u8],
    scratch: &mut Scratch,
    out: &mut [f32],
    store: impl Store,
) -> Result<(), PayloadError> {
    let raw = scratch.expand(chunk, out.len() * 4)?;
    let (lowest, second, third, exponents) = planes_mut(raw);
    if let Some(index) = not_finite(exponents) {
        return Err(PayloadError::NonFinite(index));
    }
    let planes = lowest.iter().zip(second).zip(third.iter().zip(exponents));
    for (slot, ((lowest, second), (third, exponent))) in out.iter_mut().zip(planes) {
        let bits = u32::from_le_bytes([*lowest, *second, *third, *exponent]);
        store.store(slot, f32::from_bits(bits.rotate_right(1)));
    }
    Ok(())
}

fn planes_mut(raw: &mut [u8]) -> (&mut [u8], &mut [u8], &mut [u8], &mut [u8]) {
    let elements = raw.len() / 4;
    let (lower, upper) = raw.split_at_mut(elements * 2);
    let (lowest, second) = lower.split_at_mut(elements);
    let (third, exponents) = upper.split_at_mut(elements);
    (lowest, second, third, exponents)
}

/// The first exponent of an infinity or a NaN.
fn not_finite(exponents: &[u8]) -> Option<usize> {
    if exponents.iter().fold(0, |largest, &exponent| exponent.max(largest)) < u8::MAX {
        return None;
    }
    exponents.iter().position(|&exponent| exponent == u8::MAX)
}

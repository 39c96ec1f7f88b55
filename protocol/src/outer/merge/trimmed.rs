//! The trimmed mean: each element without its extremes.
//!
//! A job decodes its chunk of every member at once, so its memory is half a mebibyte for each
//! member of the cut.

use crate::codec::{CHUNK, PayloadError};
use crate::outer::merge::{Weighed, nearest_f32};
use crate::pool::{self, Pool};

pub(super) fn merge(
    cut: &Weighed<'_>,
    out: &mut [f32],
    pool: &dyn Pool,
) -> Result<(), PayloadError> {
    let clips: Vec<f32> = cut.clips.iter().map(|&clip| nearest_f32(clip)).collect();
    let dropped = dropped(cut.payloads.len());
    let parts = out.chunks_mut(CHUNK).enumerate().collect();
    pool::map(pool, parts, |(index, part)| -> Result<(), PayloadError> {
        let mut decoded = vec![0.0; cut.payloads.len() * part.len()];
        for (payload, values) in cut.payloads.iter().zip(decoded.chunks_exact_mut(part.len())) {
            payload.decode_chunk(index, values)?;
        }
        trim_part(&decoded, &clips, &cut.weights, dropped, part);
        Ok(())
    })
    .into_iter()
    .collect()
}

fn trim_part(decoded: &[f32], clips: &[f32], weights: &[f64], dropped: usize, part: &mut [f32]) {
    let len = part.len();
    let mut keys = vec![0u64; clips.len()];
    for (element, out) in part.iter_mut().enumerate() {
        for (member, key) in keys.iter_mut().enumerate() {
            let value = decoded[member * len + element] * clips[member];
            // Equal values are told apart by the member, so the order is total.
            *key = u64::from(ordered_bits(value)) << 32 | member as u64;
        }
        keys.sort_unstable();
        let (mut sum, mut weight) = (0.0f64, 0.0f64);
        for &key in &keys[dropped..keys.len() - dropped] {
            #[expect(clippy::cast_possible_truncation, reason = "the two halves of the key")]
            let (bits, member) = ((key >> 32) as u32, key as u32 as usize);
            sum += weights[member] * f64::from(value_of(bits));
            weight += weights[member];
        }
        *out = if weight > 0.0 { nearest_f32(sum / weight) } else { 0.0 };
    }
}

/// How many values are dropped at each end: a quarter, at least one where three or more leave a
/// middle.
fn dropped(members: usize) -> usize {
    if members < 3 { 0 } else { (members / 4).max(1) }
}

/// The value's bits, so that unsigned order is the order of [`f32::total_cmp`].
fn ordered_bits(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 1 { !bits } else { bits | SIGN }
}

fn value_of(ordered: u32) -> f32 {
    f32::from_bits(if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN })
}

const SIGN: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_bits_are_total_order() {
        let values =
            [f32::NEG_INFINITY, -2.5, -1e-40, -0.0, 0.0, 1e-40, 1.0, f32::MAX, f32::INFINITY];
        for pair in values.windows(2) {
            assert!(ordered_bits(pair[0]) < ordered_bits(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(value_of(ordered_bits(value)).to_bits(), value.to_bits());
        }
    }

    #[test]
    fn a_quarter_is_dropped_at_each_end() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8, 16].map(dropped), [0, 0, 0, 1, 1, 1, 2, 4]);
        let mut out = [0.0];
        trim_part(&[1.0, -900.0, 3.0, 800.0], &[1.0; 4], &[1.0, 9.0, 3.0, 9.0], 1, &mut out);
        assert_eq!(out, [2.5]);
    }
}

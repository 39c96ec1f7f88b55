//! Norms of what a payload decodes to, by one specified sum.
//!
//! A fragment is cut at every multiple of [`BLOCK`] and where a piece ends. The squares of such a
//! run are summed in f64 over [`LANES`] running sums (element `i` goes to sum `i % LANES`), the
//! sums are added pairwise, runs are added in order to their piece, pieces in order to the total.
//! No thread count, no vector width and no size of a codec's chunks changes a bit of it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codec::{CHUNK, Codec, Payload, PayloadError};
use crate::fragment::Fragment;
use crate::outer::segment::segments;
use crate::pool::{self, Pool};

/// Euclidean norms of a decoded payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Norms {
    /// Of the whole fragment.
    pub total: f64,
    /// Of each of the fragment's pieces.
    pub pieces: Vec<f64>,
}

impl Norms {
    /// From each chunk's runs, in order.
    pub(super) fn of_chunks(fragment: &Fragment, chunks: &[Vec<(usize, f64)>]) -> Self {
        let mut squares = vec![0.0; fragment.pieces.len()];
        for &(piece, square) in chunks.iter().flatten() {
            squares[piece] += square;
        }
        let total: f64 = squares.iter().sum();
        Self { total: total.sqrt(), pieces: squares.into_iter().map(f64::sqrt).collect() }
    }
}

/// Why a payload may not enter the ledger.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CheckError {
    /// It cannot be decoded.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// It decodes to a value that is not finite.
    #[error("a value is not finite")]
    NotFinite,
    /// Its norm is above the genesis' bound.
    #[error("norm {norm} is above {max}")]
    TooLarge {
        /// The norm.
        norm: f64,
        /// The bound.
        max: f32,
    },
}

/// Decodes a payload once, chunk by chunk, and measures it: what a driver runs on fetched bytes
/// before the contribution is admitted.
pub fn check(
    payload: &[u8],
    codec: Codec,
    fragment: &Fragment,
    norm_max: f32,
    pool: &dyn Pool,
) -> Result<Norms, CheckError> {
    let payload = Payload::open(payload, codec, fragment.elements)?;
    let jobs = (0..fragment.elements.div_ceil(CHUNK)).collect();
    let chunks = pool::map(pool, jobs, |index| -> Result<_, PayloadError> {
        let mut values = vec![0.0; CHUNK.min(fragment.elements - index * CHUNK)];
        payload.decode_chunk(index, &mut values)?;
        Ok(chunk_squares(fragment, index, &values))
    });
    let chunks = chunks.into_iter().collect::<Result<Vec<_>, _>>()?;
    let norms = Norms::of_chunks(fragment, &chunks);
    // Squares of finite f32 cannot overflow an f64, so this is exactly "some value is not finite".
    if !norms.total.is_finite() {
        return Err(CheckError::NotFinite);
    }
    if norms.total > f64::from(norm_max) {
        return Err(CheckError::TooLarge { norm: norms.total, max: norm_max });
    }
    Ok(norms)
}

/// For each run of chunk `index`, in order: its piece and its sum of squares.
pub(super) fn chunk_squares(
    fragment: &Fragment,
    index: usize,
    values: &[f32],
) -> Vec<(usize, f64)> {
    let mut sums = Vec::new();
    for segment in segments(fragment, index) {
        let mut rest = segment.range;
        while !rest.is_empty() {
            let end = rest.end.min(rest.start - rest.start % BLOCK + BLOCK);
            sums.push((segment.piece, squares(&values[rest.start..end])));
            rest.start = end;
        }
    }
    sums
}

/// The sum of squares of `values` over fixed lanes.
fn squares(values: &[f32]) -> f64 {
    let mut lanes = [0.0f64; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for block in whole {
        for (lane, &value) in lanes.iter_mut().zip(block) {
            *lane += f64::from(value) * f64::from(value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(value) * f64::from(value);
    }
    add_lanes(lanes)
}

/// The lanes' sum: halves are added until one is left.
pub(super) fn add_lanes(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Elements between the cuts of a sum.
pub(super) const BLOCK: usize = 1 << 13;
// A chunk is a whole number of blocks, or the sums would depend on it.
const _: () = assert!(CHUNK.is_multiple_of(BLOCK));
/// Running sums kept apart, so that every machine can vectorise the loop without reordering it.
pub(super) const LANES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_those_of_the_plain_sum() {
        let values: Vec<f32> = (0..1000).map(|n| (n % 13) as f32 - 6.0).collect();
        let plain: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
        // Small integers: every order is exact, so a difference is a missing element.
        assert_eq!(squares(&values), plain);
        assert_eq!(squares(&values[..7]), 36.0 + 25.0 + 16.0 + 9.0 + 4.0 + 1.0);
        assert_eq!(squares(&[]), 0.0);
    }

    #[test]
    fn the_largest_finite_values_do_not_overflow() {
        assert!(squares(&[f32::MAX; 4096]).is_finite());
        assert!(!squares(&[1.0, f32::NAN]).is_finite());
        assert!(!squares(&[f32::NEG_INFINITY]).is_finite());
    }
}

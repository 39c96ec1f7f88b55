//! The weighted sum of a cut: the part of merging that touches every element.

use crate::codec::{CHUNK, PayloadError};
use crate::outer::merge::Weighed;
use crate::outer::segment::segments;
use crate::pool::{self, Pool};

/// What each member is multiplied with.
pub(super) enum Coefficients {
    /// One number for each member.
    Whole(Vec<f32>),
    /// For each piece, one number for each member.
    Pieces(Vec<Vec<f32>>),
}

/// Writes the sum of all members into `out`, in their order, and gives each chunk to `finish`
/// while it is in cache. Returns what `finish` made, in the order of the chunks.
pub(super) fn weighted_sum<R: Send>(
    cut: &Weighed<'_>,
    coefficients: &Coefficients,
    out: &mut [f32],
    pool: &dyn Pool,
    finish: impl Fn(usize, &mut [f32]) -> R + Sync,
) -> Result<Vec<R>, PayloadError> {
    let parts = out.chunks_mut(CHUNK).enumerate().collect();
    pool::map(pool, parts, |(index, part)| {
        part.fill(0.0);
        match coefficients {
            Coefficients::Whole(shares) => add_whole(cut, index, shares, part)?,
            Coefficients::Pieces(pieces) => add_pieces(cut, index, pieces, part)?,
        }
        Ok(finish(index, part))
    })
    .into_iter()
    .collect()
}

/// Adds one chunk of all members to `part`, in their order.
pub(super) fn add_whole(
    cut: &Weighed<'_>,
    index: usize,
    shares: &[f32],
    part: &mut [f32],
) -> Result<(), PayloadError> {
    for (payload, &share) in cut.payloads.iter().zip(shares) {
        payload.accumulate_chunk(index, share, part)?;
    }
    Ok(())
}

fn add_pieces(
    cut: &Weighed<'_>,
    index: usize,
    pieces: &[Vec<f32>],
    part: &mut [f32],
) -> Result<(), PayloadError> {
    let segments = segments(cut.fragment, index);
    if let [segment] = &segments[..] {
        return add_whole(cut, index, &pieces[segment.piece], part);
    }
    let mut decoded = vec![0.0; part.len()];
    for (member, payload) in cut.payloads.iter().enumerate() {
        payload.decode_chunk(index, &mut decoded)?;
        for segment in &segments {
            let share = pieces[segment.piece][member];
            let values = &decoded[segment.range.clone()];
            for (sum, &value) in part[segment.range.clone()].iter_mut().zip(values) {
                *sum += share * value;
            }
        }
    }
    Ok(())
}

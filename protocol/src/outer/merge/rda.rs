//! Radial-directional averaging: the mean length along the mean direction, for each matrix.
//!
//! The mean of near-orthogonal pseudo-gradients is shorter than each of them, by the root of
//! their number; this keeps the length. Embeddings and vectors, which are not near-orthogonal,
//! get the plain mean.

use crate::codec::{CHUNK, PayloadError};
use crate::genesis::TensorKind;
use crate::outer::merge::sum::{Coefficients, add_whole, weighted_sum};
use crate::outer::merge::{Weighed, nearest_f32};
use crate::outer::norm::{Norms, chunk_squares};
use crate::outer::segment::segments;
use crate::pool::{self, Pool};

pub(super) fn merge(
    cut: &Weighed<'_>,
    out: &mut [f32],
    pool: &dyn Pool,
) -> Result<(), PayloadError> {
    let fragment = cut.fragment;
    let mean = cut.mean_shares();
    let coefficients = fragment
        .pieces
        .iter()
        .enumerate()
        .map(|(index, piece)| match piece.kind {
            TensorKind::Matrix => cut.shares(|member| inverse(cut.norms[member].pieces[index])),
            TensorKind::Embedding | TensorKind::Vector => mean.clone(),
        })
        .collect();
    let chunks =
        weighted_sum(cut, &Coefficients::Pieces(coefficients), out, pool, |index, part| {
            chunk_squares(fragment, index, part)
        })?;
    let directions = Norms::of_chunks(fragment, &chunks).pieces;
    let plans: Vec<Plan> = (0..directions.len()).map(|i| plan(cut, i, directions[i])).collect();
    scale(cut, &plans, out, pool);
    if plans.contains(&Plan::Mean) {
        replace_by_mean(cut, &plans, &mean, out, pool)?;
    }
    Ok(())
}

/// What the summed directions of a piece still need.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    /// Nothing: the piece holds its mean.
    Keep,
    /// A factor that gives the mean direction the mean length.
    Scale(f32),
    /// The directions cancel each other, so what is left of them is noise: take the mean.
    Mean,
}

fn plan(cut: &Weighed<'_>, piece: usize, direction: f64) -> Plan {
    if cut.fragment.pieces[piece].kind != TensorKind::Matrix {
        return Plan::Keep;
    }
    if direction < DIRECTION_MIN {
        return Plan::Mean;
    }
    let mut length = 0.0;
    for (member, norms) in cut.norms.iter().enumerate() {
        length += cut.weights[member] * (cut.clips[member] * norms.pieces[piece]);
    }
    Plan::Scale(nearest_f32(length / cut.total_weight / direction))
}

fn scale(cut: &Weighed<'_>, plans: &[Plan], out: &mut [f32], pool: &dyn Pool) {
    let parts = out.chunks_mut(CHUNK).enumerate().collect();
    pool::map(pool, parts, |(index, part)| {
        for segment in segments(cut.fragment, index) {
            if let Plan::Scale(factor) = plans[segment.piece] {
                part[segment.range].iter_mut().for_each(|value| *value *= factor);
            }
        }
    });
}

/// Merges once more, by the mean, and keeps that for the pieces without a direction. It costs a
/// second pass, which only an (almost) exact cancellation makes necessary.
fn replace_by_mean(
    cut: &Weighed<'_>,
    plans: &[Plan],
    mean: &[f32],
    out: &mut [f32],
    pool: &dyn Pool,
) -> Result<(), PayloadError> {
    let parts = out.chunks_mut(CHUNK).enumerate().collect();
    pool::map(pool, parts, |(index, part): (usize, &mut [f32])| {
        let mut segments = segments(cut.fragment, index);
        segments.retain(|segment| plans[segment.piece] == Plan::Mean);
        if segments.is_empty() {
            return Ok(());
        }
        let mut means = vec![0.0; part.len()];
        add_whole(cut, index, mean, &mut means)?;
        for segment in segments {
            part[segment.range.clone()].copy_from_slice(&means[segment.range]);
        }
        Ok(())
    })
    .into_iter()
    .collect()
}

/// What makes a vector of this length a direction. One too short for an f32 factor has none.
fn inverse(norm: f64) -> f64 {
    if norm < f64::from(f32::MIN_POSITIVE) { 0.0 } else { 1.0 / norm }
}

/// A mean of unit vectors shorter than this is cancellation: a thousand orthogonal ones, the most
/// that a cut can hold, still leave 0.03.
const DIRECTION_MIN: f64 = 1e-3;

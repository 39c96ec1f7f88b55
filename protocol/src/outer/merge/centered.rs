//! Centred clipping: a mean around a robust centre, with every pull on it bounded.
//!
//! The centre begins at the medoid, the member that is closest to all others, and moves three
//! times by the weighted mean of `x - v`, each difference shortened to the upper median of the
//! distances. A member far from the rest then pulls no harder than an ordinary one, however long
//! it is and wherever it points; with two members, or with a cut that agrees, it is the mean.
//!
//! The centre is always a combination of the members, so only their inner products are needed:
//! one pass measures them, a few numbers are iterated, and one weighted sum writes the result.

use crate::codec::{CHUNK, PayloadError};
use crate::outer::merge::sum::{Coefficients, weighted_sum};
use crate::outer::merge::{Weighed, nearest_f32};
use crate::outer::norm::{BLOCK, LANES, add_lanes};
use crate::pool::{self, Pool};

pub(super) fn merge(
    cut: &Weighed<'_>,
    out: &mut [f32],
    pool: &dyn Pool,
) -> Result<(), PayloadError> {
    let mut products = inner_products(cut, pool)?;
    products.scale(&cut.clips);
    let shares: Vec<f64> = cut.weights.iter().map(|weight| weight / cut.total_weight).collect();
    let centre = centre(&products, &shares);
    let coefficients =
        centre.iter().zip(&cut.clips).map(|(part, clip)| nearest_f32(part * clip)).collect();
    weighted_sum(cut, &Coefficients::Whole(coefficients), out, pool, |_, _| ())?;
    Ok(())
}

/// The centre as a combination of the members, one number for each.
fn centre(products: &Products, shares: &[f64]) -> Vec<f64> {
    let mut centre = vec![0.0; shares.len()];
    centre[medoid(products, shares)] = 1.0;
    for _ in 0..ITERATIONS {
        let distances: Vec<f64> = distances(products, &centre);
        let reach = upper_median(&distances);
        let pulls: Vec<f64> = distances
            .iter()
            .zip(shares)
            .map(
                |(&distance, share)| {
                    if distance > reach { share * reach / distance } else { *share }
                },
            )
            .collect();
        // v + sum of pull * (x - v), written as a combination.
        let kept = 1.0 - pulls.iter().sum::<f64>();
        for (part, pull) in centre.iter_mut().zip(pulls) {
            *part = *part * kept + pull;
        }
    }
    centre
}

/// The member with the least weighted distance to all others; the first of several.
fn medoid(products: &Products, shares: &[f64]) -> usize {
    let mut best = (f64::INFINITY, 0);
    for member in 0..shares.len() {
        let mut alone = vec![0.0; shares.len()];
        alone[member] = 1.0;
        let mut sum = 0.0;
        for (distance, share) in distances(products, &alone).into_iter().zip(shares) {
            sum += distance * share;
        }
        if sum < best.0 {
            best = (sum, member);
        }
    }
    best.1
}

/// Every member's distance from a combination of the members.
fn distances(products: &Products, centre: &[f64]) -> Vec<f64> {
    let with_centre: Vec<f64> = (0..centre.len())
        .map(|member| {
            let mut sum = 0.0;
            for (other, part) in centre.iter().enumerate() {
                sum += part * products.of(member, other);
            }
            sum
        })
        .collect();
    let mut square = 0.0;
    for (part, product) in centre.iter().zip(&with_centre) {
        square += part * product;
    }
    // Rounding can leave a distance of zero slightly negative before the root.
    let distance = |member: usize| {
        (products.of(member, member) - 2.0 * with_centre[member] + square).max(0.0).sqrt()
    };
    (0..centre.len()).map(distance).collect()
}

fn upper_median(distances: &[f64]) -> f64 {
    let mut sorted = distances.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The inner product of each two members.
struct Products {
    members: usize,
    values: Vec<f64>,
}

impl Products {
    fn of(&self, left: usize, right: usize) -> f64 {
        self.values[left.min(right) * self.members + left.max(right)]
    }

    fn scale(&mut self, factors: &[f64]) {
        for (row, left) in self.values.chunks_exact_mut(self.members).zip(factors) {
            for (value, right) in row.iter_mut().zip(factors) {
                *value *= left * right;
            }
        }
    }
}

/// Sums runs of [`RUN`] elements over fixed lanes, the runs of a block in order, then the blocks.
fn inner_products(cut: &Weighed<'_>, pool: &dyn Pool) -> Result<Products, PayloadError> {
    let members = cut.payloads.len();
    let elements = cut.fragment.elements;
    let jobs = (0..elements.div_ceil(CHUNK)).collect();
    let chunks = pool::map(pool, jobs, |index| -> Result<_, PayloadError> {
        let len = CHUNK.min(elements - index * CHUNK);
        let mut decoded = vec![0.0; members * len];
        for (payload, values) in cut.payloads.iter().zip(decoded.chunks_exact_mut(len)) {
            payload.decode_chunk(index, values)?;
        }
        let blocks = (0..len).step_by(BLOCK);
        Ok(blocks.map(|start| block_products(&decoded, len, start)).collect::<Vec<_>>())
    });
    let mut values = vec![0.0; members * members];
    for chunk in chunks {
        for block in chunk? {
            values.iter_mut().zip(block).for_each(|(sum, value)| *sum += value);
        }
    }
    Ok(Products { members, values })
}

/// The products over one block of a chunk, which has `len` elements of each member.
fn block_products(decoded: &[f32], len: usize, start: usize) -> Vec<f64> {
    let members = decoded.len() / len;
    let mut sums = vec![0.0; members * members];
    // One run of every member as f64: converted once, used by every product, padded with zeros
    // that add nothing.
    let mut run = vec![[0.0f64; RUN]; members];
    for start in (start..len.min(start + BLOCK)).step_by(RUN) {
        let size = RUN.min(len - start);
        for (wide, values) in run.iter_mut().zip(decoded.chunks_exact(len)) {
            wide[size..].fill(0.0);
            for (to, &from) in wide.iter_mut().zip(&values[start..start + size]) {
                *to = f64::from(from);
            }
        }
        for left in 0..members {
            for right in left..members {
                sums[left * members + right] += run_product(&run[left], &run[right]);
            }
        }
    }
    sums
}

fn run_product(left: &[f64; RUN], right: &[f64; RUN]) -> f64 {
    let mut lanes = [0.0f64; LANES];
    for (left, right) in left.as_chunks::<LANES>().0.iter().zip(right.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    add_lanes(lanes)
}

/// Elements in a run: eight members of it fit in a core's first cache.
const RUN: usize = 512;
const _: () = assert!(BLOCK.is_multiple_of(RUN));
/// How often the centre moves; it is part of the rule.
const ITERATIONS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn products(members: &[Vec<f32>]) -> Products {
        let values = block_products(&members.concat(), members[0].len(), 0);
        Products { members: members.len(), values }
    }

    #[test]
    fn two_members_give_their_weighted_mean() {
        let products = products(&[vec![1.0, 0.0, 5.0], vec![0.0, 2.0, -5.0]]);
        let centre = centre(&products, &[0.25, 0.75]);
        assert!((centre[0] - 0.25).abs() < 1e-12 && (centre[1] - 0.75).abs() < 1e-12);
    }

    #[test]
    fn one_member_is_itself() {
        assert_eq!(centre(&products(&[vec![3.0, 4.0]]), &[1.0]), [1.0]);
    }

    #[test]
    fn products_do_not_lose_a_tail() {
        let members = [vec![1.0; RUN + 3], vec![2.0; RUN + 3]];
        let products = products(&members);
        assert_eq!(products.of(1, 0), 2.0 * (RUN + 3) as f64);
        assert_eq!(products.of(1, 1), 4.0 * (RUN + 3) as f64);
    }
}

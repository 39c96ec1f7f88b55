//! Causal attention of one sequence, in blocks of rows, with grouped queries.
//!
//! No matrix of all scores is ever kept: a block of rows at a time, and of it only the columns up
//! to its last row. The way back computes the scores again from one number for each row.

use crate::matrix::{Matrix, MatrixMut};
use crate::multiplier::Multiplier;
use crate::vector::{LANES, dot, exp, largest, sum, vectorised};

/// The sides of one sequence's attention.
///
/// A row of queries, keys and values is `heads` queries, then `kv_heads` keys, then `kv_heads`
/// values, each `head_width` wide. Queries share the keys of their group.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of the keys and of the values; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_width: usize,
    /// Rows of the sequence.
    pub rows: usize,
}

impl Attention {
    /// Width of a row of queries, keys and values.
    pub fn stride(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_width
    }

    /// Length of the scratch that [`Attention::forward`] and [`Attention::backward`] need.
    pub fn scratch(&self) -> usize {
        (2 * BLOCK.min(self.rows) + 2 * self.head_width) * self.rows
    }

    /// Writes each row's mix of values to `output` and the logarithm of its sum of exponentials,
    /// head after head, to `log_sums`.
    ///
    /// # Panics
    /// If a slice has another length than the sides say.
    pub fn forward(
        &self,
        qkv: &[f32],
        output: &mut [f32],
        log_sums: &mut [f32],
        scratch: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        self.check(qkv.len(), output.len(), log_sums.len(), scratch.len());
        let (width, stride) = (self.heads * self.head_width, self.stride());
        let (keys, scratch) = scratch.split_at_mut(self.head_width * self.rows);
        for (head, log_sums) in log_sums.chunks_exact_mut(self.rows).enumerate() {
            let (query, key, value) = self.columns(head);
            if head.is_multiple_of(self.heads / self.kv_heads) {
                self.turn(&qkv[key..], keys);
            }
            for start in (0..self.rows).step_by(BLOCK) {
                let end = (start + BLOCK).min(self.rows);
                let scores = &mut scratch[..(end - start) * end];
                self.scores(&qkv[query..], stride, keys, start, end, scores, multiplier);
                self.softmax(scores, start, &mut log_sums[start..end]);
                let out = &mut output[start * width + head * self.head_width..];
                multiplier.product(
                    MatrixMut::strided(out, end - start, self.head_width, width),
                    Matrix::new(scores, end - start, end),
                    Matrix::strided(&qkv[value..], end, self.head_width, stride),
                );
            }
        }
    }

    /// Writes the gradient by queries, keys and values to `qkv_gradient`.
    ///
    /// `output` and `log_sums` are what [`Attention::forward`] wrote.
    ///
    /// # Panics
    /// If a slice has another length than the sides say.
    #[expect(clippy::too_many_arguments, reason = "all of them are operands of its products")]
    pub fn backward(
        &self,
        qkv: &[f32],
        output: &[f32],
        log_sums: &[f32],
        output_gradient: &[f32],
        qkv_gradient: &mut [f32],
        scratch: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        self.check(qkv.len(), output.len(), log_sums.len(), scratch.len());
        assert_eq!(output_gradient.len(), output.len());
        assert_eq!(qkv_gradient.len(), qkv.len());
        let (keys, scratch) = scratch.split_at_mut(self.head_width * self.rows);
        let (values, scratch) = scratch.split_at_mut(self.head_width * self.rows);
        let (width, stride) = (self.heads * self.head_width, self.stride());
        for (head, log_sums) in log_sums.chunks_exact(self.rows).enumerate() {
            let (query, key, value) = self.columns(head);
            let first = head.is_multiple_of(self.heads / self.kv_heads);
            if first {
                self.turn(&qkv[key..], keys);
                self.turn(&qkv[value..], values);
            }
            // The last block touches every key, so it overwrites where the others add.
            let blocks = self.rows.div_ceil(BLOCK);
            for block in (0..blocks).rev() {
                let fresh = first && block + 1 == blocks;
                let start = block * BLOCK;
                let end = (start + BLOCK).min(self.rows);
                let (chances, scores) = scratch.split_at_mut((end - start) * end);
                let scores = &mut scores[..(end - start) * end];
                self.scores(&qkv[query..], stride, keys, start, end, chances, multiplier);
                self.chances_again(chances, start, &log_sums[start..end]);
                let place = Place { head, start, end };
                let upper = &output_gradient[head * self.head_width..];
                self.scores(upper, width, values, start, end, scores, multiplier);
                self.score_gradient(output, output_gradient, place, chances, scores);
                self.spread(
                    qkv,
                    output_gradient,
                    place,
                    fresh,
                    chances,
                    scores,
                    qkv_gradient,
                    multiplier,
                );
            }
        }
    }

    fn check(&self, qkv: usize, output: usize, log_sums: usize, scratch: usize) {
        assert!(self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads));
        assert_eq!(qkv, self.rows * self.stride());
        assert_eq!(output, self.rows * self.heads * self.head_width);
        assert_eq!(log_sums, self.rows * self.heads);
        assert!(scratch >= self.scratch());
    }

    /// Where a head's queries, keys and values begin in a row.
    fn columns(&self, head: usize) -> (usize, usize, usize) {
        let group = head / (self.heads / self.kv_heads);
        let key = self.heads + group;
        (head * self.head_width, key * self.head_width, (key + self.kv_heads) * self.head_width)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_width as f32).sqrt()
    }

    /// Turns one head's keys or values, with which `from` begins, so that its elements become
    /// rows: what products with them want.
    fn turn(&self, from: &[f32], into: &mut [f32]) {
        Matrix::strided(from, self.rows, self.head_width, self.stride()).turn(into);
    }

    /// Products of rows `start..end` of `from`, `stride` apart, with columns `..end` of `turned`.
    #[expect(clippy::too_many_arguments, reason = "all of them are the operands of a product")]
    fn scores(
        &self,
        from: &[f32],
        stride: usize,
        turned: &[f32],
        start: usize,
        end: usize,
        scores: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        let width = self.head_width;
        multiplier.product(
            MatrixMut::new(scores, end - start, end),
            Matrix::strided(&from[start * stride..], end - start, width, stride),
            Matrix::strided(turned, width, end, self.rows),
        );
    }

    fn softmax(&self, scores: &mut [f32], start: usize, log_sums: &mut [f32]) {
        let (scale, end) = (self.scale(), start + log_sums.len());
        vectorised(
            #[inline(always)]
            || {
                let rows = scores.chunks_exact_mut(end).zip(log_sums);
                for (index, (row, log_sum)) in rows.enumerate() {
                    let seen = start + index + 1;
                    // Whole lanes are quicker than the exact number of columns.
                    let whole = seen.next_multiple_of(LANES).min(end);
                    row[seen..whole].fill(f32::NEG_INFINITY);
                    let most = largest(&row[..whole]) * scale;
                    for value in &mut row[..whole] {
                        *value = exp(value.mul_add(scale, -most));
                    }
                    row[seen..].fill(0.0);
                    let total = sum(&row[..whole]);
                    *log_sum = most + total.ln();
                    let share = 1.0 / total;
                    for value in &mut row[..whole] {
                        *value *= share;
                    }
                }
            },
        );
    }

    fn chances_again(&self, scores: &mut [f32], start: usize, log_sums: &[f32]) {
        let (scale, end) = (self.scale(), start + log_sums.len());
        vectorised(
            #[inline(always)]
            || {
                let rows = scores.chunks_exact_mut(end).zip(log_sums);
                for (index, (row, &log_sum)) in rows.enumerate() {
                    let seen = start + index + 1;
                    let whole = seen.next_multiple_of(LANES).min(end);
                    for value in &mut row[..whole] {
                        *value = exp(value.mul_add(scale, -log_sum));
                    }
                    row[seen..].fill(0.0);
                }
            },
        );
    }

    /// The gradient by the scores of one block, from that by its chances.
    fn score_gradient(
        &self,
        output: &[f32],
        output_gradient: &[f32],
        place: Place,
        chances: &[f32],
        scores: &mut [f32],
    ) {
        let Place { head, start, end } = place;
        let (width, scale, whole) = (self.head_width, self.scale(), self.heads * self.head_width);
        let first = start * whole + head * width;
        vectorised(
            #[inline(always)]
            || {
                let rows = scores.chunks_exact_mut(end).zip(chances.chunks_exact(end));
                for (index, (row, chances)) in rows.enumerate() {
                    let at = first + index * whole;
                    let mean = dot(&output_gradient[at..at + width], &output[at..at + width]);
                    for (score, &chance) in row.iter_mut().zip(chances) {
                        *score = (*score - mean) * (chance * scale);
                    }
                }
            },
        );
    }

    /// Carries one block's gradients on to queries, keys and values.
    #[expect(clippy::too_many_arguments, reason = "all of them are the operands of products")]
    fn spread(
        &self,
        qkv: &[f32],
        output_gradient: &[f32],
        place: Place,
        fresh: bool,
        chances: &[f32],
        scores: &[f32],
        qkv_gradient: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        let Place { head, start, end } = place;
        let (width, stride, rows) = (self.head_width, self.stride(), end - start);
        let (query, key, value) = self.columns(head);
        let (whole, keep) = (self.heads * width, if fresh { 0.0 } else { 1.0 });
        let upper = &output_gradient[start * whole + head * width..];
        multiplier.combine(
            MatrixMut::strided(&mut qkv_gradient[value..], end, width, stride),
            keep,
            1.0,
            Matrix::new(chances, rows, end).transposed(),
            Matrix::strided(upper, rows, width, whole),
        );
        let scores = Matrix::new(scores, rows, end);
        multiplier.combine(
            MatrixMut::strided(&mut qkv_gradient[key..], end, width, stride),
            keep,
            1.0,
            scores.transposed(),
            Matrix::strided(&qkv[start * stride + query..], rows, width, stride),
        );
        let queries = &mut qkv_gradient[start * stride + query..];
        multiplier.product(
            MatrixMut::strided(queries, rows, width, stride),
            scores,
            Matrix::strided(&qkv[key..], end, width, stride),
        );
    }
}

#[derive(Clone, Copy)]
struct Place {
    head: usize,
    start: usize,
    end: usize,
}

/// Rows that are worked on together: enough to fill the product's registers, few enough that
/// little above the diagonal is computed.
const BLOCK: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiplier::Precision;
    use crate::reference::{assert_close, gradient, numbers, weighted, wide};

    fn exact(sides: &Attention, qkv: &[f64]) -> Vec<f64> {
        let (width, stride) = (sides.head_width, sides.stride());
        let mut out = vec![0.0; sides.rows * sides.heads * width];
        for head in 0..sides.heads {
            let (query, key, value) = sides.columns(head);
            for row in 0..sides.rows {
                let at = |row: usize, column: usize| &qkv[row * stride + column..][..width];
                let powers: Vec<f64> = (0..=row)
                    .map(|other| {
                        let pairs = at(row, query).iter().zip(at(other, key));
                        let score: f64 = pairs.map(|(one, other)| one * other).sum();
                        (score / (width as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = powers.iter().sum();
                let out = &mut out[(row * sides.heads + head) * width..][..width];
                for (other, power) in powers.iter().enumerate() {
                    for (out, value) in out.iter_mut().zip(at(other, value)) {
                        *out += power / total * value;
                    }
                }
            }
        }
        out
    }

    #[test]
    fn output_and_gradients_are_those_of_the_formula() {
        for (heads, kv_heads, head_width, rows) in [(1, 1, 2, 3), (4, 2, 6, 5), (2, 1, 4, 70)] {
            let sides = Attention { heads, kv_heads, head_width, rows };
            let qkv: Vec<f32> =
                numbers(1, rows * sides.stride()).iter().map(|value| value * 2.0).collect();
            let mut output = vec![f32::NAN; rows * heads * head_width];
            let mut log_sums = vec![f32::NAN; rows * heads];
            let mut scratch = vec![f32::NAN; sides.scratch()];
            let mut plain = Multiplier::new(Precision::F32, 0);
            sides.forward(&qkv, &mut output, &mut log_sums, &mut scratch, &mut plain);
            assert_close(&output, &exact(&sides, &wide(&qkv)), 1e-4);
            let upper = numbers(2, output.len());
            let mut lower = vec![f32::NAN; qkv.len()];
            sides.backward(&qkv, &output, &log_sums, &upper, &mut lower, &mut scratch, &mut plain);
            let exact = gradient(&wide(&qkv), |at| weighted(&exact(&sides, at), &upper));
            assert_close(&lower, &exact, 1e-3);
        }
    }
}

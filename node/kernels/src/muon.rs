//! Muon: momentum whose matrix is brought close to an orthogonal one before it is taken off.

use crate::adamw::{BLOCK, take};
use crate::matrix::{Matrix, MatrixMut};
use crate::multiplier::Multiplier;
use crate::vector::{dot, vectorised};

/// The numbers of one Muon step.
#[derive(Clone, Copy, Debug)]
pub struct Muon {
    /// Learning rate; means the same as AdamW's, because the step is scaled to its usual size.
    pub learning_rate: f32,
    /// Decay of the momentum.
    pub decay: f32,
    /// Share of the parameters that one step at learning rate 1 would take away.
    pub weight_decay: f32,
    /// What the gradient is multiplied by: one over the tokens, times the clip factor.
    pub gradient_scale: f32,
}

impl Muon {
    /// Length of the scratch that a matrix of these sides needs.
    pub fn scratch(rows: usize, columns: usize) -> usize {
        let side = rows.min(columns);
        2 * rows * columns + 2 * side * side
    }

    /// Takes one step with the sum of the `gradients`, and clears them.
    ///
    /// The matrix has `rows` rows; its momentum is as long as itself.
    ///
    /// # Panics
    /// If the slices have different lengths or the scratch is too short.
    pub fn step(
        &self,
        parameters: &mut [f32],
        rows: usize,
        momentum: &mut [f32],
        gradients: &mut [&mut [f32]],
        scratch: &mut [f32],
        multiplier: &mut Multiplier,
    ) {
        assert_eq!(parameters.len(), momentum.len());
        assert!(gradients.iter().all(|part| part.len() == parameters.len()));
        let columns = parameters.len().checked_div(rows).unwrap_or(0);
        let (direction, rest) = scratch.split_at_mut(parameters.len());
        self.look_ahead(momentum, gradients, direction);
        orthogonalise(direction, rows, columns, rest, multiplier);
        let size = self.learning_rate * scale(rows, columns);
        let keep = 1.0 - self.learning_rate * self.weight_decay;
        vectorised(
            #[inline(always)]
            || {
                for (value, &along) in parameters.iter_mut().zip(direction.iter()) {
                    *value = value.mul_add(keep, -along * size);
                }
            },
        );
    }

    /// Moves the momentum and writes Nesterov's look ahead to `direction`.
    fn look_ahead(
        &self,
        momentum: &mut [f32],
        gradients: &mut [&mut [f32]],
        direction: &mut [f32],
    ) {
        let share = 1.0 - self.decay;
        vectorised(
            #[inline(always)]
            || {
                let mut sum = [0.0; BLOCK];
                let blocks = momentum.chunks_mut(BLOCK).zip(direction.chunks_mut(BLOCK));
                for (index, (momentum, direction)) in blocks.enumerate() {
                    let sum = &mut sum[..momentum.len()];
                    take(gradients, index * BLOCK, sum);
                    for ((held, along), &sum) in momentum.iter_mut().zip(direction).zip(&*sum) {
                        let gradient = sum * self.gradient_scale * share;
                        *held = held.mul_add(self.decay, gradient);
                        *along = held.mul_add(self.decay, gradient);
                    }
                }
            },
        );
    }
}

/// What an orthogonal matrix is multiplied by: the root of the longer side gives its elements the
/// size that those of AdamW's steps have, about 0.2.
pub fn scale(rows: usize, columns: usize) -> f32 {
    0.2 * (rows.max(columns) as f32).sqrt()
}

/// Brings the singular values of a matrix close to one, in place, by five Newton-Schulz rounds.
///
/// # Panics
/// If `matrix` has other sides or `scratch` is shorter than itself and two squares of its shorter
/// side.
pub fn orthogonalise(
    matrix: &mut [f32],
    rows: usize,
    columns: usize,
    scratch: &mut [f32],
    multiplier: &mut Multiplier,
) {
    assert_eq!(matrix.len(), rows * columns);
    let side = rows.min(columns);
    let (next, rest) = scratch.split_at_mut(matrix.len());
    let (square, rest) = rest.split_at_mut(side * side);
    let mixed = &mut rest[..side * side];
    vectorised(
        #[inline(always)]
        || {
            let scale = 1.0 / (dot(matrix, matrix).sqrt() + 1e-7);
            for value in matrix.iter_mut() {
                *value *= scale;
            }
        },
    );
    for _ in 0..ROUNDS {
        let whole = Matrix::new(matrix, rows, columns);
        let short = if rows <= columns { whole } else { whole.transposed() };
        multiplier.product(MatrixMut::new(square, side, side), short, short.transposed());
        mixed.copy_from_slice(square);
        let gram = Matrix::new(square, side, side);
        multiplier.combine(MatrixMut::new(mixed, side, side), MIX.1, MIX.2, gram, gram);
        next.copy_from_slice(matrix);
        let (next_view, mixed) =
            (MatrixMut::new(next, rows, columns), Matrix::new(mixed, side, side));
        let (left, right) = if rows <= columns { (mixed, whole) } else { (whole, mixed) };
        multiplier.combine(next_view, MIX.0, 1.0, left, right);
        matrix.copy_from_slice(next);
    }
}

/// The quintic of Jordan et al.: steep at zero, so that five rounds are enough.
pub const MIX: (f32, f32, f32) = (3.4445, -4.7750, 2.0315);
/// How often it is applied.
pub const ROUNDS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiplier::Precision;
    use crate::reference::{assert_close, numbers, wide};

    fn plain() -> Multiplier {
        Multiplier::new(Precision::F32, 0)
    }

    fn times(left: &[f64], right: &[f64], rows: usize, inner: usize) -> Vec<f64> {
        let columns = right.len() / inner;
        let mut out = vec![0.0; rows * columns];
        for row in 0..rows {
            for column in 0..columns {
                out[row * columns + column] = (0..inner)
                    .map(|at| left[row * inner + at] * right[at * columns + column])
                    .sum();
            }
        }
        out
    }

    fn turned(matrix: &[f64], rows: usize) -> Vec<f64> {
        let columns = matrix.len() / rows;
        (0..matrix.len()).map(|at| matrix[at % rows * columns + at / rows]).collect()
    }

    /// The rounds in `f64`, always over the product from the left.
    fn exact(matrix: &[f32], rows: usize) -> Vec<f64> {
        let columns = matrix.len() / rows;
        let norm = wide(matrix).iter().map(|value| value * value).sum::<f64>().sqrt();
        let mut x: Vec<f64> = wide(matrix).iter().map(|value| value / norm).collect();
        let (a, b, c) = (f64::from(MIX.0), f64::from(MIX.1), f64::from(MIX.2));
        for _ in 0..ROUNDS {
            let gram = times(&x, &turned(&x, rows), rows, columns);
            let square = times(&gram, &gram, rows, rows);
            let mixed: Vec<f64> =
                gram.iter().zip(&square).map(|(one, two)| b * one + c * two).collect();
            let added = times(&mixed, &x, rows, rows);
            x = x.iter().zip(&added).map(|(one, two)| a * one + two).collect();
        }
        x
    }

    #[test]
    fn wide_and_tall_matrices_become_nearly_orthogonal() {
        for (rows, columns) in [(5, 9), (12, 4), (6, 6)] {
            let mut matrix = numbers(3, rows * columns);
            let expected = exact(&matrix, rows);
            let mut scratch = vec![f32::NAN; Muon::scratch(rows, columns)];
            orthogonalise(&mut matrix, rows, columns, &mut scratch, &mut plain());
            assert_close(&matrix, &expected, 2e-3);
            let squares: f32 = matrix.iter().map(|value| value * value).sum();
            let mean = squares / rows.min(columns) as f32;
            assert!((0.4..1.6).contains(&mean), "{rows} x {columns}: {mean}");
        }
    }

    #[test]
    fn a_step_goes_against_the_gradient_and_clears_it() {
        let (rows, columns) = (3, 5);
        let mut values = vec![1.0; rows * columns];
        let mut momentum = vec![0.0; rows * columns];
        let (mut left, mut right) = (numbers(4, 15), numbers(5, 15));
        let sum: Vec<f32> = left.iter().zip(&right).map(|(one, two)| one + two).collect();
        let mut scratch = vec![0.0; Muon::scratch(rows, columns)];
        let step = Muon { learning_rate: 0.1, decay: 0.9, weight_decay: 0.0, gradient_scale: 0.5 };
        let gradients: &mut [&mut [f32]] = &mut [&mut left, &mut right];
        step.step(&mut values, rows, &mut momentum, gradients, &mut scratch, &mut plain());
        let along: f32 = values.iter().zip(&sum).map(|(value, sum)| (value - 1.0) * sum).sum();
        assert!(along < -0.01, "{along}");
        assert!(left.iter().chain(&right).all(|&value| value == 0.0));
        let expected: Vec<f64> = sum.iter().map(|&value| f64::from(value) * 0.05).collect();
        assert_close(&momentum, &expected, 1e-6);
    }

    #[test]
    fn a_gradient_of_zeros_moves_nothing() {
        let (mut values, mut momentum) = (numbers(6, 12), vec![0.0; 12]);
        let before = values.clone();
        let mut scratch = vec![0.0; Muon::scratch(3, 4)];
        let step = Muon { learning_rate: 0.1, decay: 0.9, weight_decay: 0.0, gradient_scale: 1.0 };
        let gradients: &mut [&mut [f32]] = &mut [&mut [0.0; 12]];
        step.step(&mut values, 3, &mut momentum, gradients, &mut scratch, &mut plain());
        assert_eq!(values, before);
    }
}

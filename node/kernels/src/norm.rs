//! Root-mean-square norm of each row, with a gain.

use crate::vector::{LANES, dot, fold, vectorised};

/// Writes each row of `input`, divided by its root mean square and times `gain`, to `output`.
///
/// The rows are as long as `gain`; `inverse` receives what each was multiplied by, which
/// [`backward`] needs.
///
/// # Panics
/// If the slices do not hold the same number of rows.
pub fn forward(input: &[f32], gain: &[f32], epsilon: f32, inverse: &mut [f32], output: &mut [f32]) {
    let width = gain.len();
    assert_eq!(input.len(), inverse.len() * width);
    assert_eq!(output.len(), input.len());
    vectorised(
        #[inline(always)]
        || {
            let rows = input.chunks_exact(width).zip(output.chunks_exact_mut(width));
            for ((row, out), inverse) in rows.zip(inverse) {
                *inverse = 1.0 / (dot(row, row) / width as f32 + epsilon).sqrt();
                scale_row(row, gain, *inverse, out);
            }
        },
    );
}

/// Writes to `output` what [`forward`] wrote, from the factors it kept.
///
/// # Panics
/// If the slices do not hold the same number of rows.
pub fn again(input: &[f32], gain: &[f32], inverse: &[f32], output: &mut [f32]) {
    let width = gain.len();
    assert_eq!(input.len(), inverse.len() * width);
    assert_eq!(output.len(), input.len());
    vectorised(
        #[inline(always)]
        || {
            let rows = input.chunks_exact(width).zip(output.chunks_exact_mut(width));
            for ((row, out), &inverse) in rows.zip(inverse) {
                scale_row(row, gain, inverse, out);
            }
        },
    );
}

/// Adds the gradient by the input to `input_gradient` and that by the gain to `gain_gradient`.
///
/// # Panics
/// If the slices do not hold the same number of rows.
pub fn backward(
    input: &[f32],
    gain: &[f32],
    inverse: &[f32],
    output_gradient: &[f32],
    input_gradient: &mut [f32],
    gain_gradient: &mut [f32],
) {
    let width = gain.len();
    assert_eq!(input.len(), inverse.len() * width);
    assert_eq!(output_gradient.len(), input.len());
    assert_eq!(input_gradient.len(), input.len());
    assert_eq!(gain_gradient.len(), width);
    vectorised(
        #[inline(always)]
        || {
            let rows = input.chunks_exact(width).zip(output_gradient.chunks_exact(width));
            let rows = rows.zip(input_gradient.chunks_exact_mut(width)).zip(inverse);
            for (((row, upper), lower), &inverse) in rows {
                backward_row(row, gain, inverse, upper, lower, gain_gradient);
            }
        },
    );
}

#[inline(always)]
fn scale_row(row: &[f32], gain: &[f32], inverse: f32, out: &mut [f32]) {
    for ((out, &value), &gain) in out.iter_mut().zip(row).zip(gain) {
        *out = value * inverse * gain;
    }
}

#[inline(always)]
fn backward_row(
    row: &[f32],
    gain: &[f32],
    inverse: f32,
    upper: &[f32],
    lower: &mut [f32],
    gain_gradient: &mut [f32],
) {
    let width = row.len();
    let (gain, upper) = (&gain[..width], &upper[..width]);
    let gain_gradient = &mut gain_gradient[..width];
    let mut lanes = [0.0; LANES];
    let whole = width / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let index = start + lane;
            let product = upper[index] * row[index];
            gain_gradient[index] = product.mul_add(inverse, gain_gradient[index]);
            *sum = product.mul_add(gain[index], *sum);
        }
    }
    let mut along = fold(lanes);
    for index in whole..width {
        let product = upper[index] * row[index];
        gain_gradient[index] = product.mul_add(inverse, gain_gradient[index]);
        along = product.mul_add(gain[index], along);
    }
    let back = along * inverse * inverse / width as f32;
    for (((lower, &value), &upper), &gain) in lower.iter_mut().zip(row).zip(upper).zip(gain) {
        *lower += inverse * upper.mul_add(gain, -value * back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, gradient, numbers, weighted, wide};

    fn exact(input: &[f64], gain: &[f64], epsilon: f64) -> Vec<f64> {
        let width = gain.len();
        let mut out = Vec::new();
        for row in input.chunks_exact(width) {
            let square = row.iter().map(|value| value * value).sum::<f64>() / width as f64;
            let inverse = 1.0 / (square + epsilon).sqrt();
            out.extend(row.iter().zip(gain).map(|(value, gain)| value * inverse * gain));
        }
        out
    }

    #[test]
    fn output_and_gradients_are_those_of_the_formula() {
        for width in [5, 32, 77] {
            let (rows, epsilon) = (3, 1e-3);
            let (input, gain) = (numbers(1, rows * width), numbers(2, width));
            let upper = numbers(3, rows * width);
            let mut inverse = vec![0.0; rows];
            let mut output = vec![0.0; rows * width];
            forward(&input, &gain, epsilon, &mut inverse, &mut output);
            let (points, gains) = (wide(&input), wide(&gain));
            assert_close(&output, &exact(&points, &gains, 1e-3), 1e-5);
            let mut repeated = vec![0.0; rows * width];
            again(&input, &gain, &inverse, &mut repeated);
            assert_eq!(repeated, output);

            let mut lower = vec![1.0; rows * width];
            let mut gain_gradient = vec![2.0; width];
            backward(&input, &gain, &inverse, &upper, &mut lower, &mut gain_gradient);
            let by_input = gradient(&points, |at| weighted(&exact(at, &gains, 1e-3), &upper));
            let by_input: Vec<f64> = by_input.iter().map(|value| value + 1.0).collect();
            assert_close(&lower, &by_input, 1e-4);
            let by_gain = gradient(&gains, |at| weighted(&exact(&points, at, 1e-3), &upper));
            let by_gain: Vec<f64> = by_gain.iter().map(|value| value + 2.0).collect();
            assert_close(&gain_gradient, &by_gain, 1e-4);
        }
    }
}

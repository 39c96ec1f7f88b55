//! Rows of a table by token, and their gradient.

use crate::vector::vectorised;

/// Copies each token's row of `table` to `output`; rows are `width` wide.
///
/// # Panics
/// If a token has no row or `output` does not hold a row for each token.
pub fn forward(table: &[f32], width: usize, tokens: &[u32], output: &mut [f32]) {
    assert_eq!(output.len(), tokens.len() * width);
    for (&token, out) in tokens.iter().zip(output.chunks_exact_mut(width)) {
        out.copy_from_slice(&table[token as usize * width..][..width]);
    }
}

/// Adds each row of `output_gradient` to its token's row of `table_gradient`.
///
/// # Panics
/// If a token has no row or `output_gradient` does not hold a row for each token.
pub fn backward(table_gradient: &mut [f32], width: usize, tokens: &[u32], output_gradient: &[f32]) {
    assert_eq!(output_gradient.len(), tokens.len() * width);
    vectorised(
        #[inline(always)]
        || {
            for (&token, upper) in tokens.iter().zip(output_gradient.chunks_exact(width)) {
                let row = &mut table_gradient[token as usize * width..][..width];
                for (sum, &value) in row.iter_mut().zip(upper) {
                    *sum += value;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, gradient, numbers, weighted, wide};

    #[test]
    fn rows_are_gathered_and_their_gradients_added_up() {
        let (width, tokens) = (7, [2, 0, 2, 3]);
        let table = numbers(1, 5 * width);
        let exact = |table: &[f64]| -> Vec<f64> {
            tokens.iter().flat_map(|&it| table[it as usize * width..][..width].to_vec()).collect()
        };
        let mut output = vec![0.0; tokens.len() * width];
        forward(&table, width, &tokens, &mut output);
        assert_close(&output, &exact(&wide(&table)), 0.0);
        let upper = numbers(2, tokens.len() * width);
        let mut lower = vec![0.0; table.len()];
        backward(&mut lower, width, &tokens, &upper);
        assert_close(&lower, &gradient(&wide(&table), |at| weighted(&exact(at), &upper)), 1e-5);
    }
}

//! Cross-entropy of the next token, with its gradient in the same pass.

use crate::vector::{exp, largest, sum, vectorised};

/// Turns `logits` into the gradient of the summed loss and returns that sum, in nats.
///
/// There is a row of logits for each target.
///
/// # Panics
/// If a target is no column or `logits` does not hold a row for each target.
pub fn with_gradient(logits: &mut [f32], targets: &[u32]) -> f64 {
    let Some(vocab) = columns(logits.len(), targets.len()) else { return 0.0 };
    vectorised(
        #[inline(always)]
        || {
            let mut loss = 0.0;
            for (row, &target) in logits.chunks_exact_mut(vocab).zip(targets) {
                let (most, wanted) = (largest(row), row[target as usize]);
                for value in row.iter_mut() {
                    *value = exp(*value - most);
                }
                let total = sum(row);
                loss += f64::from(total.ln() + (most - wanted));
                let share = 1.0 / total;
                for value in row.iter_mut() {
                    *value *= share;
                }
                row[target as usize] -= 1.0;
            }
            loss
        },
    )
}

/// The summed loss alone, in nats; `logits` stay as they are.
///
/// # Panics
/// If a target is no column or `logits` does not hold a row for each target.
pub fn alone(logits: &[f32], targets: &[u32]) -> f64 {
    let Some(vocab) = columns(logits.len(), targets.len()) else { return 0.0 };
    vectorised(
        #[inline(always)]
        || {
            let mut loss = 0.0;
            for (row, &target) in logits.chunks_exact(vocab).zip(targets) {
                let most = largest(row);
                let mut total = 0.0;
                // Short pieces keep the exponentials in the first cache until they are summed.
                let mut powers = [0.0; 256];
                for piece in row.chunks(powers.len()) {
                    let powers = &mut powers[..piece.len()];
                    for (power, &value) in powers.iter_mut().zip(piece) {
                        *power = exp(value - most);
                    }
                    total += sum(powers);
                }
                loss += f64::from(total.ln() + (most - row[target as usize]));
            }
            loss
        },
    )
}

fn columns(logits: usize, targets: usize) -> Option<usize> {
    let vocab = logits.checked_div(targets)?;
    assert_eq!(logits, targets * vocab);
    Some(vocab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, gradient, numbers, wide};

    fn exact(logits: &[f64], targets: &[u32]) -> f64 {
        let vocab = logits.len() / targets.len();
        let rows = logits.chunks_exact(vocab).zip(targets);
        rows.map(|(row, &target)| {
            row.iter().map(|value| value.exp()).sum::<f64>().ln() - row[target as usize]
        })
        .sum()
    }

    #[test]
    fn loss_and_gradient_are_those_of_the_formula() {
        let (vocab, targets) = (301, [3, 300, 0]);
        let logits: Vec<f32> = numbers(1, vocab * 3).iter().map(|value| value * 9.0).collect();
        let expected = exact(&wide(&logits), &targets);
        assert!((alone(&logits, &targets) - expected).abs() < 1e-4);
        let mut lower = logits.clone();
        assert!((with_gradient(&mut lower, &targets) - expected).abs() < 1e-4);
        assert_close(&lower, &gradient(&wide(&logits), |at| exact(at, &targets)), 1e-4);
    }

    #[test]
    fn logits_that_are_no_numbers_give_a_loss_that_is_none() {
        assert!(!with_gradient(&mut [f32::NAN, 0.0], &[0]).is_finite());
        assert!(!with_gradient(&mut [f32::INFINITY, 0.0], &[1]).is_finite());
        assert!(!alone(&[0.0, f32::INFINITY], &[0]).is_finite());
        assert_eq!(alone(&[], &[]), 0.0);
    }
}

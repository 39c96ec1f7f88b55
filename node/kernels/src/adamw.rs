//! AdamW with decoupled weight decay, in place.

use crate::vector::{LANES, fold, vectorised};

/// The numbers of one AdamW step.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    /// Learning rate.
    pub learning_rate: f32,
    /// Decay of the first moment (beta 1).
    pub first_decay: f32,
    /// Decay of the second moment (beta 2).
    pub second_decay: f32,
    /// What is added to the root of the second moment.
    pub epsilon: f32,
    /// Share of the parameters that one step at learning rate 1 would take away.
    pub weight_decay: f32,
    /// Steps that the moments have seen, this one included: corrects their bias.
    pub steps: u64,
    /// What the gradient is multiplied by: one over the tokens, times the clip factor.
    pub gradient_scale: f32,
}

impl AdamW {
    /// Takes one step with the sum of the `gradients`, and clears them.
    ///
    /// # Panics
    /// If the slices have different lengths.
    pub fn step(
        &self,
        parameters: &mut [f32],
        first: &mut [f32],
        second: &mut [f32],
        gradients: &mut [&mut [f32]],
    ) {
        assert_eq!(parameters.len(), first.len());
        assert_eq!(parameters.len(), second.len());
        let factors = Factors::of(self);
        vectorised(
            #[inline(always)]
            || {
                let mut sum = [0.0; BLOCK];
                let values = parameters.chunks_mut(BLOCK).zip(first.chunks_mut(BLOCK));
                for (index, ((values, first), second)) in
                    values.zip(second.chunks_mut(BLOCK)).enumerate()
                {
                    let sum = &mut sum[..values.len()];
                    take(gradients, index * BLOCK, sum);
                    factors.step(values, first, second, sum);
                }
            },
        );
        assert!(gradients.iter().all(|part| part.len() == parameters.len()));
    }
}

/// Sum of the squares of the summed `gradients`, taken in an order that depends on nothing else.
///
/// # Panics
/// If the slices have different lengths.
pub fn square_norm(gradients: &[&[f32]]) -> f64 {
    let len = gradients.first().map_or(0, |part| part.len());
    assert!(gradients.iter().all(|part| part.len() == len));
    vectorised(
        #[inline(always)]
        || {
            let mut total = 0.0;
            let mut sum = [0.0; BLOCK];
            for start in (0..len).step_by(BLOCK) {
                let end = (start + BLOCK).min(len);
                let sum = &mut sum[..end - start];
                sum.fill(0.0);
                for part in gradients {
                    for (sum, &value) in sum.iter_mut().zip(&part[start..end]) {
                        *sum += value;
                    }
                }
                total += f64::from(squares(sum));
            }
            total
        },
    )
}

/// Writes the sum of `gradients[..][start..]` to `sum` and clears what it took.
#[inline(always)]
pub(crate) fn take(gradients: &mut [&mut [f32]], start: usize, sum: &mut [f32]) {
    sum.fill(0.0);
    for part in gradients {
        let part = &mut part[start..start + sum.len()];
        for (sum, value) in sum.iter_mut().zip(part) {
            *sum += *value;
            *value = 0.0;
        }
    }
}

#[inline(always)]
fn squares(values: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|value| value * value).sum();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = value.mul_add(value, *lane);
        }
    }
    fold(lanes) + rest
}

/// What every element of a step is multiplied by.
struct Factors {
    first_decay: f32,
    first_share: f32,
    second_decay: f32,
    second_share: f32,
    keep: f32,
    rate: f32,
    second_root: f32,
    epsilon: f32,
    gradient_scale: f32,
}

impl Factors {
    fn of(step: &AdamW) -> Self {
        let seen = |decay: f32| 1.0 - f64::from(decay).powf(step.steps as f64);
        Self {
            first_decay: step.first_decay,
            first_share: 1.0 - step.first_decay,
            second_decay: step.second_decay,
            second_share: 1.0 - step.second_decay,
            keep: 1.0 - step.learning_rate * step.weight_decay,
            rate: narrow(f64::from(step.learning_rate) / seen(step.first_decay)),
            second_root: narrow(1.0 / seen(step.second_decay).sqrt()),
            epsilon: step.epsilon,
            gradient_scale: step.gradient_scale,
        }
    }

    #[inline(always)]
    fn step(&self, values: &mut [f32], first: &mut [f32], second: &mut [f32], sum: &[f32]) {
        let moments = first.iter_mut().zip(second.iter_mut());
        for ((value, (first, second)), &sum) in values.iter_mut().zip(moments).zip(sum) {
            let gradient = sum * self.gradient_scale;
            *first = first.mul_add(self.first_decay, gradient * self.first_share);
            *second = second.mul_add(self.second_decay, gradient * gradient * self.second_share);
            let size = second.sqrt().mul_add(self.second_root, self.epsilon);
            *value = value.mul_add(self.keep, -(*first * self.rate) / size);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// Elements that pass through the first cache at a time.
pub(crate) const BLOCK: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, numbers, wide};

    #[test]
    fn steps_are_those_of_the_paper_and_clear_the_gradients() {
        let len = 2500;
        let mut values = numbers(1, len);
        let (mut first, mut second) = (vec![0.0; len], vec![0.0; len]);
        let (mut exact, mut one, mut two) = (wide(&values), vec![0.0; len], vec![0.0; len]);
        for steps in 1..=4_u64 {
            let (mut left, mut right) = (numbers(10 + steps, len), numbers(20 + steps, len));
            for index in 0..len {
                let gradient = (f64::from(left[index]) + f64::from(right[index])) * 0.25;
                one[index] = 0.9 * one[index] + 0.1 * gradient;
                two[index] = 0.99 * two[index] + 0.01 * gradient * gradient;
                let power = i32::try_from(steps).unwrap();
                let corrected = one[index] / (1.0 - 0.9_f64.powi(power));
                let root = (two[index] / (1.0 - 0.99_f64.powi(power))).sqrt();
                exact[index] -= 0.01 * (0.1 * exact[index] + corrected / (root + 1e-8));
            }
            let step = AdamW {
                learning_rate: 0.01,
                first_decay: 0.9,
                second_decay: 0.99,
                epsilon: 1e-8,
                weight_decay: 0.1,
                steps,
                gradient_scale: 0.25,
            };
            step.step(&mut values, &mut first, &mut second, &mut [&mut left, &mut right]);
            assert!(left.iter().chain(&right).all(|&value| value == 0.0));
        }
        assert_close(&values, &exact, 1e-5);
        assert_close(&first, &one, 1e-5);
        assert_close(&second, &two, 1e-5);
    }

    #[test]
    fn the_norm_is_that_of_the_sum() {
        let (left, right) = (numbers(1, 3001), numbers(2, 3001));
        let exact: f64 = wide(&left)
            .iter()
            .zip(wide(&right))
            .map(|(one, other)| (one + other) * (one + other))
            .sum();
        assert!((square_norm(&[&left, &right]) / exact - 1.0).abs() < 1e-5);
        assert_eq!(square_norm(&[]), 0.0);
        assert!(square_norm(&[&[1.0, f32::NAN]]).is_nan());
    }
}

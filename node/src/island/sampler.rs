//! Choosing the next token from logits.

use atoll_protocol::rng::Rng;

/// How adventurous sampling is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Logits are divided by this; 0 always takes the likeliest token.
    pub temperature: f32,
    /// Only so many of the likeliest tokens are considered; 0 considers all.
    pub top: usize,
}

impl Sampler {
    /// The next token.
    ///
    /// # Panics
    /// If there are no logits.
    pub fn choose(&self, logits: &[f32], rng: &mut Rng) -> u32 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
        let considered = if self.top == 0 { order.len() } else { self.top.min(order.len()) };
        if self.temperature > 0.0 {
            order.truncate(considered);
        } else {
            order.truncate(1);
        }
        let highest = f64::from(logits[order[0]]);
        let weights: Vec<f64> = order
            .iter()
            .map(|&token| {
                let below = f64::from(logits[token]) - highest;
                if below == 0.0 { 1.0 } else { (below / f64::from(self.temperature)).exp() }
            })
            .collect();
        let total: f64 = weights.iter().sum();
        let mut drawn = uniform(rng) * total;
        let mut chosen = order[0];
        for (&token, weight) in order.iter().zip(weights) {
            chosen = token;
            drawn -= weight;
            if drawn < 0.0 {
                break;
            }
        }
        u32::try_from(chosen).expect("a vocabulary fits u32")
    }
}

/// A number in `0..1` with 53 random bits.
fn uniform(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_sampling_takes_the_likeliest() {
        let sampler = Sampler { temperature: 0.0, top: 0 };
        let mut rng = Rng::new(1);
        assert!((0..20).all(|_| sampler.choose(&[0.0, 3.0, 2.9, -1.0], &mut rng) == 1));
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let sampler = Sampler { temperature: 1.0, top: 0 };
        let (mut rng, mut counts) = (Rng::new(7), [0_u32; 3]);
        let logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
        for _ in 0..20_000 {
            counts[sampler.choose(&logits, &mut rng) as usize] += 1;
        }
        for (count, share) in counts.into_iter().zip([0.5, 0.3, 0.2]) {
            assert!((f64::from(count) / 20_000.0 - share).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn only_the_top_tokens_are_considered() {
        let sampler = Sampler { temperature: 5.0, top: 2 };
        let mut rng = Rng::new(3);
        assert!((0..200).all(|_| sampler.choose(&[1.0, 1.1, 0.9, 0.8], &mut rng) < 2));
    }
}

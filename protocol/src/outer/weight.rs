//! How much a contribution counts: its tokens, as far as the cut makes them believable.

/// Each contribution's weight: its tokens, at most `cap` times the cut's lower median.
///
/// Token counts are claims, so no claim buys more than `cap` ordinary contributions.
pub fn weights(tokens: &[u64], cap: u32) -> Vec<u64> {
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(tokens.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    let most = median.saturating_mul(u64::from(cap));
    tokens.iter().map(|&claimed| claimed.min(most)).collect()
}

/// The weight that a cut adds to its history.
pub fn cut_weight(tokens: &[u64], cap: u32) -> u64 {
    weights(tokens, cap).into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_capped_at_a_multiple_of_the_lower_median() {
        assert_eq!(weights(&[100, 1_000_000, 120, 80], 3), [100, 300, 120, 80]);
        assert_eq!(weights(&[10, u64::MAX], 2), [10, 20]);
        assert_eq!(weights(&[7], 1), [7]);
        assert!(weights(&[], 4).is_empty());
    }

    #[test]
    fn a_cut_weight_saturates() {
        assert_eq!(cut_weight(&[u64::MAX, u64::MAX, u64::MAX], 2), u64::MAX);
        assert_eq!(cut_weight(&[100, 1_000_000, 120, 80], 3), 600);
    }
}

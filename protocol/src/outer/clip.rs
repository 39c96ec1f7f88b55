//! How much of a contribution's length is believed.

/// The factor, at most 1, that brings each norm to at most `clip` times the lower median norm.
///
/// A median of zero says that half the cut or more is empty; it is no yardstick for the rest, so
/// nothing is clipped then. Every norm is below the genesis' bound in any case.
pub(super) fn factors(norms: &[f64], clip: f32) -> Vec<f64> {
    let most = f64::from(clip) * lower_median(norms);
    norms.iter().map(|&norm| if most > 0.0 && norm > most { most / norm } else { 1.0 }).collect()
}

fn lower_median(norms: &[f64]) -> f64 {
    let mut sorted = norms.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(norms.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ones_are_shortened_to_a_multiple_of_the_median() {
        assert_eq!(factors(&[1.0, 40.0, 2.0, 1.5], 2.0), [1.0, 0.075, 1.0, 1.0]);
        assert_eq!(factors(&[0.0, 5.0], 2.0), [1.0, 1.0]);
        assert!(factors(&[], 2.0).is_empty());
    }
}

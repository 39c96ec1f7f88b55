//! How many contributions let a round close.

use crate::genesis::Rounds;

/// Contributions needed when `live` islands take part: the genesis' share of them, but never
/// fewer than its minimum.
pub fn need(rounds: &Rounds, live: u32) -> u32 {
    let share = (u64::from(live) * u64::from(rounds.quorum_percent)).div_ceil(100);
    u32::try_from(share).unwrap_or(u32::MAX).max(rounds.quorum_min).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_live_and_never_below_the_minimum() {
        let rounds = Rounds { quorum_min: 2, quorum_percent: 50, ..crate::testkit::rounds() };
        let needs: Vec<u32> = [0, 1, 4, 5, 9].map(|live| need(&rounds, live)).to_vec();
        assert_eq!(needs, [2, 2, 2, 3, 5]);
    }
}

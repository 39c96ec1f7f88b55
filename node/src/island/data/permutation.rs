//! A random order of numbers that is computed, not stored.

/// A permutation of `0..count` for a key: a Feistel network on the smallest even number of bits
/// that holds `count`, walked until it lands inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..count` for `key`.
    pub(super) fn new(count: u64, key: [u8; 32]) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let mut rng = atoll_protocol::rng::Rng::from_seed(key);
        let keys = std::array::from_fn(|_| rng.next_u64());
        Self { count, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Where `index` goes.
    pub(super) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut value = index;
        loop {
            value = self.shuffle(value);
            // The domain is less than four times as large, so this takes few turns; and since the
            // network is a permutation of the domain, walking its cycles is one of the inside.
            if value < self.count {
                return value;
            }
        }
    }

    fn shuffle(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// The finaliser of splitmix64: every bit of the input moves every bit of the output.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

const ROUNDS: usize = 6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_once(count in 1_u64..3000, key: [u8; 32]) {
            let permutation = Permutation::new(count, key);
            let mut all: Vec<u64> = (0..count).map(|index| permutation.at(index)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn large_counts_stay_inside(count in 1_u64 << 40..u64::MAX, key: [u8; 32], index: u64) {
            let index = index % count;
            prop_assert!(Permutation::new(count, key).at(index) < count);
        }
    }

    #[test]
    fn keys_give_different_orders_that_are_fixed_for_ever() {
        let order = |key| {
            let permutation = Permutation::new(1000, [key; 32]);
            (0..1000).map(|index| permutation.at(index)).collect::<Vec<_>>()
        };
        let same = order(1).iter().zip(order(2)).filter(|(one, two)| **one == *two).count();
        assert!(same < 20, "{same} of 1000 stayed");
        let moved = order(3).windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert!(moved > 980, "{moved} of 999 neighbours were parted");
        assert_eq!(order(1)[..4], [248, 626, 550, 679]);
    }
}

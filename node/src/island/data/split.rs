//! Which windows of a finite text are trained on, and which are held out.

use super::{DataError, keyed, number};

/// A text cut into windows of one sequence each. Of every block of windows, one is held out; which
/// one depends on the run alone, so all its islands hold out the same.
///
/// A window has one token more than the sequence, which is also the next window's first. It is a
/// target here and only context there, so no token that is a target in a held-out window is ever
/// one in training.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    windows: u64,
    block: u64,
    key: [u8; 32],
}

impl Split {
    /// Splits `tokens` tokens, or says how many it would take.
    pub(super) fn new(tokens: u64, sequence: u64, run: [u8; 32]) -> Result<Self, DataError> {
        let windows = tokens.saturating_sub(1) / sequence;
        if windows < 2 {
            let needed = sequence.saturating_mul(2).saturating_add(1);
            return Err(DataError::TooShort { tokens, sequence, needed });
        }
        let key = keyed("atoll 2026 held-out windows v1", &[&run]);
        Ok(Self { windows, block: BLOCK.min(windows), key })
    }

    /// Windows to train on.
    pub(super) fn training(&self) -> u64 {
        self.windows - self.held_out()
    }

    /// Windows held out.
    pub(super) fn held_out(&self) -> u64 {
        self.windows / self.block
    }

    /// Where the training window `index` is.
    pub(super) fn training_window(&self, index: u64) -> u64 {
        let (block, place) = (index / (self.block - 1), index % (self.block - 1));
        if block >= self.held_out() {
            // The last block may be cut short; then all of it is trained on.
            return index + self.held_out();
        }
        block * self.block + place + u64::from(place >= self.held_place(block))
    }

    /// Where the held-out window `index` is.
    pub(super) fn held_out_window(&self, index: u64) -> u64 {
        index * self.block + self.held_place(index)
    }

    fn held_place(&self, block: u64) -> u64 {
        number(keyed("atoll 2026 held-out window v1", &[&self.key, &block.to_le_bytes()]))
            % self.block
    }
}

/// One window in this many is held out.
const BLOCK: u64 = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_window_is_trained_on_or_held_out(
            windows in 2_u64..500, sequence in 1_u64..50, extra in 0_u64..50, run: [u8; 32],
        ) {
            let tokens = windows * sequence + 1 + extra % sequence;
            let split = Split::new(tokens, sequence, run).unwrap();
            let held = (0..split.held_out()).map(|index| split.held_out_window(index));
            let trained = (0..split.training()).map(|index| split.training_window(index));
            let mut all: Vec<u64> = held.chain(trained).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..windows).collect::<Vec<_>>());
            prop_assert!(split.held_out() > 0 && split.training() > 0);
        }
    }

    #[test]
    fn runs_hold_out_different_windows() {
        let held = |run| {
            let split = Split::new(1_000_001, 100, [run; 32]).unwrap();
            (0..split.held_out()).map(|index| split.held_out_window(index)).collect::<Vec<_>>()
        };
        assert_eq!(held(1), held(1));
        assert_ne!(held(1), held(2));
        assert_eq!(held(1).len(), 312);
    }

    #[test]
    fn a_short_text_names_the_numbers() {
        let error = Split::new(200, 128, [0; 32]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the text has 200 tokens, but sequences of 128 need at least 257"
        );
        assert!(Split::new(257, 128, [0; 32]).is_ok());
        assert!(Split::new(0, 128, [0; 32]).is_err());
    }
}

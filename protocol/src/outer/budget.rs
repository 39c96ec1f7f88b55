//! How much memory folds may take beside their bases and heads.

/// What a fold may keep beside its base and its head, ever, also in the middle of a long re-fold:
/// a number of copies, which are buffers as large as the parameters of its fragment.
///
/// A smaller budget makes late contributions slower and never changes a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget {
    copies: usize,
}

impl Budget {
    /// One copy: every merge is stepped and forgotten.
    pub const LEAST: Self = Self { copies: 1 };
    /// More than this is of no use.
    pub const AMPLE: Self = Self { copies: 32 };

    /// This many copies, or the nearest number that is of use.
    pub fn of_copies(copies: usize) -> Self {
        Self { copies: copies.clamp(Self::LEAST.copies, Self::AMPLE.copies) }
    }

    /// What each fold of a run with that many parameters gets. In proportion to its fragment, so
    /// it is the same number of copies for all of them.
    pub fn of_run(parameters: u64) -> Self {
        let copy = BYTES * parameters.max(1);
        let more = usize::try_from(MEMORY_BYTES / copy).unwrap_or(usize::MAX);
        Self::of_copies(COPIES_ALWAYS.saturating_add(more))
    }

    /// The number of copies.
    pub const fn copies(self) -> usize {
        self.copies
    }
}

/// Bytes that the folds of all fragments of a run have at most, with [`Budget::of_run`].
pub fn fold_bytes(parameters: u64) -> u64 {
    let copies = BASE_AND_HEAD + Budget::of_run(parameters).copies() as u64;
    copies * BYTES * parameters
}

/// What the folds of a run share to make late contributions cheap.
const MEMORY_BYTES: u64 = 24 << 20;
/// Copies on top of that: a merge being made, and one that is remembered.
const COPIES_ALWAYS: usize = 2;
/// Copies in base and head: the parameters and the momentum of each.
const BASE_AND_HEAD: u64 = 4;
/// Bytes of a parameter.
const BYTES: u64 = size_of::<f32>() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_shares_its_memory_among_its_folds() {
        assert_eq!(Budget::of_run(0), Budget::AMPLE);
        assert_eq!(Budget::of_run(1000), Budget::AMPLE);
        assert_eq!(Budget::of_run(1 << 20).copies(), 8);
        assert_eq!(Budget::of_run(1 << 22).copies(), 3);
        assert_eq!(Budget::of_run(1 << 23).copies(), 2);
        assert_eq!(Budget::of_run(u64::from(u32::MAX) * 1024).copies(), 2);
    }

    #[test]
    fn large_runs_need_six_copies_and_small_ones_little() {
        assert_eq!(fold_bytes(1_000_000_000), 24_000_000_000);
        for parameters in [1, 1 << 10, 1 << 18, 1 << 20, 1 << 22, 1 << 30] {
            assert!(fold_bytes(parameters) <= 24 * parameters + MEMORY_BYTES);
        }
    }
}

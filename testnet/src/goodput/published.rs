//! The published table.

use super::case::Policy;

/// One row of the published table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// What it is called there.
    pub name: &'static str,
    /// Islands.
    pub islands: u64,
    /// What they do.
    pub policy: Policy,
    /// Goodput in percent, for each of [`CHIPS`].
    pub percent: [f64; 5],
}

/// The table.
pub const PUBLISHED: [Published; 6] = [
    row("data-parallel", 1, Policy::ALONE, [72.0, 57.0, 38.0, 27.0, 18.0]),
    row("data-parallel, elastic", 1, Policy::Elastic, [88.0, 80.0, 69.0, 58.0, 40.0]),
    row("decoupled, 2 islands", 2, Policy::Elastic, [94.0, 88.0, 80.0, 70.0, 54.0]),
    row("decoupled, 4 islands", 4, Policy::Elastic, [96.0, 93.0, 89.0, 82.0, 73.0]),
    row("decoupled, 8 islands", 8, Policy::Elastic, [98.0, 96.0, 94.0, 88.0, 80.0]),
    row("decoupled, 16 islands", 16, Policy::Elastic, [99.0, 98.0, 96.0, 93.0, 86.0]),
];

/// Where it is from.
pub const SOURCE: &str = "Decoupled DiLoCo, arXiv 2604.21428, Table 1, as secondary summaries give \
                          it; the authors' article of 2026-04-23 confirms 27 and 88 at 1.2 million";

/// Chips of each column.
pub const CHIPS: [u64; 5] = [150_000, 300_000, 600_000, 1_200_000, 2_400_000];

/// Mean days between interruptions of a chip for which the table was made.
pub(super) const MTBI_DAYS: u64 = 365;

/// Points by which we may differ.
pub const POINTS: f64 = 4.0;

const fn row(name: &'static str, islands: u64, policy: Policy, percent: [f64; 5]) -> Published {
    Published { name, islands, policy, percent }
}

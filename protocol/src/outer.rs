//! The outer state and the one function that every node must compute alike.
//!
//! A fragment's outer state is materialised from its base and the cuts that follow it: each cut
//! is merged into one pseudo-gradient, and each merge is one step of the outer optimiser. Equal
//! cuts give equal bits: only `+ - * /` and `sqrt`, in an order that the cut and the fragment
//! fix, parallel over elements only.

mod budget;
mod clip;
mod fold;
mod merge;
mod norm;
mod segment;
mod state;
mod step;
mod weight;

pub use budget::{Budget, fold_bytes};
pub use fold::{Cut, CutMember, Fold, FoldError, Payloads};
pub use merge::{Member, merge, merge_into};
pub use norm::{CheckError, Norms, check};
pub use state::{OuterState, SnapshotError};
pub use step::step;
pub use weight::{cut_weight, weights};

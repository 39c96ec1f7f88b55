//! Bugs put here on purpose. The simulator must catch each of them, or it proves nothing.
//!
//! Without the `planted` feature [`Planted::is`] is a constant `false`.

/// At most one deliberate bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted(Option<Bug>);

impl Planted {
    /// With this bug.
    #[cfg(feature = "planted")]
    pub fn bug(bug: Bug) -> Self {
        Self(Some(bug))
    }

    /// Whether `bug` is planted.
    pub fn is(self, bug: Bug) -> bool {
        cfg!(feature = "planted") && self.0 == Some(bug)
    }

    /// The planted bug, if there is one.
    pub fn which(self) -> Option<Bug> {
        if cfg!(feature = "planted") { self.0 } else { None }
    }
}

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $name:literal,)*) => {
        /// A deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug { $($(#[$doc])* $bug,)* }

        impl Bug {
            /// Every bug that can be planted.
            pub const ALL: &[Self] = &[$(Self::$bug,)*];

            /// What people call it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$bug => $name,)* }
            }
        }
    };
}

bugs! {
    /// Cuts are folded in the order their contributions arrived.
    ArrivalOrderFold = "arrival-order-fold",
    /// Outputs after a `Persist` leave before the record is durable (driver).
    ForgottenBarrier = "forgotten-persist-barrier",
    /// Adopting a version that holds our contribution keeps it pending (island).
    DoubleCountOnAdopt = "double-count-on-adopt",
    /// A contribution that expires is dropped instead of returning to fresh (island).
    LostOnExpiry = "lost-pending-on-expiry",
    /// A node that is not caught up serves snapshots and histories.
    DonorNotCaughtUp = "donor-not-caught-up",
    /// Rounds close as soon as quorum is met.
    GraceIgnored = "grace-ignored",
    /// Rounds opened by others are never answered.
    NeverAnswers = "opened-round-never-answered",
    /// The cut's identity depends on insertion order.
    UnsortedCut = "unsorted-cut",
    /// Payloads with NaN or Inf pass the check (driver).
    NanAdmitted = "nan-admitted",
    /// Token counts are believed.
    WeightUncapped = "weight-uncapped",
    /// Of two histories the one heard of first wins.
    ForkByArrival = "fork-tie-by-arrival",
    /// A round becomes stable without the islands that are silent.
    StableWithoutAll = "stability-with-a-missing-peer",
    /// Signatures do not cover the run.
    SignatureWithoutRun = "signature-without-run-id",
    /// Rounds close with whatever is there.
    QuorumIgnored = "quorum-ignored",
    /// Evidence of equivocation is not acted on.
    EvidenceIgnored = "evidence-ignored",
    /// What the surviving history lacks is not issued again.
    NoReissue = "no-reissue",
}

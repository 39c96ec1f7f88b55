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
    /// Cuts are folded in another order on every node (driver).
    ArrivalOrderFold = "arrival-order-fold",
    /// Outputs after a `Persist` leave before the record is durable (driver).
    ForgottenBarrier = "forgotten-persist-barrier",
    /// Adopting a version that holds our contribution keeps it pending (island).
    DoubleCountOnAdopt = "double-count-on-adopt",
    /// A contribution that expires is dropped instead of returning to fresh (island).
    LostOnExpiry = "lost-pending-on-expiry",
    /// A node that is not caught up serves snapshots and histories.
    DonorNotCaughtUp = "donor-not-caught-up",
    /// A node calls itself caught up whether it is or not.
    FrontierUntrue = "frontier-untrue",
    /// The grace window begins with the first contribution, before quorum is met.
    GraceIgnored = "grace-ignored",
    /// Rounds opened by others are never answered.
    NeverAnswers = "opened-round-never-answered",
    /// The cut's identity depends on insertion order.
    UnsortedCut = "unsorted-cut",
    /// Payloads with NaN or Inf pass the check (driver).
    NanAdmitted = "nan-admitted",
    /// Token counts are believed.
    WeightUncapped = "weight-uncapped",
    /// Of two histories the one heard of first wins, however light it is.
    ForkByArrival = "fork-tie-by-arrival",
    /// A round becomes stable without the islands that are silent.
    StableWithoutAll = "stability-with-a-missing-peer",
    /// A header that was signed for another run is as good as one for this.
    SignatureWithoutRun = "signature-without-run-id",
    /// Anybody may contribute, whatever the roster says.
    RosterIgnored = "roster-ignored",
    /// Evidence is believed without a look at its signatures.
    EvidenceUnverified = "evidence-unverified",
    /// One peer that has closed a round is enough to close it, too.
    OnePeerCloses = "one-peer-closes",
    /// Quorum is the same however many islands are alive.
    QuorumIgnored = "quorum-ignored",
    /// Evidence of equivocation is not acted on.
    EvidenceIgnored = "evidence-ignored",
    /// What the surviving history lacks is not issued again.
    NoReissue = "no-reissue",
}

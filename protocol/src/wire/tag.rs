//! The single registry of what is hashed and signed: no two things share a domain.

/// What a hash or a signature is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Hash of a genesis: the run id.
    Genesis,
    /// Hash and signature of a contribution's header.
    Header,
    /// Signature of a frontier.
    Frontier,
    /// Signature of a goodbye.
    Goodbye,
    /// Signature of a steward's invitation.
    Invite,
    /// Signature of a steward's revocation.
    Revocation,
    /// Hash of a cut.
    Cut,
    /// Hash chain over cuts.
    Trail,
    /// Seed of the initial parameters.
    Init,
    /// Hash of everything that decides who is admitted.
    Roster,
}

impl Domain {
    /// The bytes that stand for this domain; all of one length, so none is a prefix of another.
    pub const fn tag(self) -> &'static [u8; 16] {
        match self {
            Self::Genesis => b"atoll/genesis\0\0\0",
            Self::Header => b"atoll/header\0\0\0\0",
            Self::Frontier => b"atoll/frontier\0\0",
            Self::Goodbye => b"atoll/goodbye\0\0\0",
            Self::Invite => b"atoll/invite\0\0\0\0",
            Self::Revocation => b"atoll/revoke\0\0\0\0",
            Self::Cut => b"atoll/cut\0\0\0\0\0\0\0",
            Self::Trail => b"atoll/trail\0\0\0\0\0",
            Self::Init => b"atoll/init\0\0\0\0\0\0",
            Self::Roster => b"atoll/roster\0\0\0\0",
        }
    }
}

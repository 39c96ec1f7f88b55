//! Names of things: fixed-size newtypes with a short `Display` and no behaviour.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id32 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            /// The first eight bytes: enough to compare, never enough to trust.
            pub fn short(&self) -> Short {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.0[..8]);
                Short(bytes)
            }

            /// All 32 bytes as lower-case hexadecimal.
            pub fn to_hex(self) -> String {
                self.0.iter().map(|byte| format!("{byte:02x}")).collect()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

id32! {
    /// One training job: the hash of its genesis.
    RunId
}
id32! {
    /// A node: its ed25519 public key.
    NodeId
}
id32! {
    /// A contribution: the hash of its header.
    ContributionId
}
id32! {
    /// Bytes that are fetched by their blake3 hash: a payload, a snapshot, a genesis.
    ContentId
}
id32! {
    /// The set a round merges: a hash over its sorted contribution ids.
    CutDigest
}
id32! {
    /// The history of a fragment up to a version: a hash chain over its cuts.
    Trail
}

/// Eight bytes of a 32-byte id, for gossip that only has to notice a difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Short(pub [u8; 8]);

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A fragment's index in the fragment map.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct FragmentId(pub u16);

impl FragmentId {
    /// The position in a vector with one entry for each fragment.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for FragmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

/// A counter of outer states of one fragment; the genesis is version 0.
///
/// Round `r` turns version `r - 1` into version `r`, so rounds use the same numbers.
pub type Version = u32;

/// The work that turns version `number - 1` of a fragment into version `number`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RoundId {
    /// Which fragment.
    pub fragment: FragmentId,
    /// The version this round makes.
    pub number: Version,
}

impl fmt::Display for RoundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/r{}", self.fragment, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_short_and_hex_is_whole() {
        let id = NodeId([0xab; 32]);
        assert_eq!(id.to_string(), "abababab");
        assert_eq!(id.to_hex().len(), 64);
        assert_eq!(RoundId { fragment: FragmentId(3), number: 41 }.to_string(), "f3/r41");
    }
}

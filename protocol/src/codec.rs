//! Lossy, deterministic encodings of pseudo-gradients.

use serde::{Deserialize, Serialize};

/// How a pseudo-gradient is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// 32-bit floats, no loss.
    F32,
    /// Block-scaled 8-bit integers.
    Int8,
    /// Block-scaled 4-bit integers: the default.
    Int4,
    /// Entropy-coded near 2 bits.
    Low,
    /// The largest values only, 2 bits each.
    Sparse,
}

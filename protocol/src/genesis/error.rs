//! Why something is not a genesis.

use std::fmt;

use thiserror::Error;

use crate::wire::WireError;
use crate::wire::version::WIRE_VERSION;

/// Why a text, some bytes or a value are not a genesis.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenesisError {
    /// A value that no run may have.
    #[error("{key} = {value}: allowed {allowed}")]
    Value {
        /// Where it stands, as a path of TOML keys.
        key: String,
        /// What stands there.
        value: String,
        /// What may stand there.
        allowed: String,
    },
    /// A value that has no default is not there.
    #[error("{key} is missing: needed {needed}")]
    Missing {
        /// Where it would stand, as a path of TOML keys.
        key: String,
        /// What may stand there.
        needed: String,
    },
    /// The text is not TOML, has a key that we do not know or a value of the wrong type.
    #[error("{0}")]
    Toml(String),
    /// The bytes are of another kind.
    #[error("the bytes do not begin as a genesis does")]
    Tag,
    /// The bytes are a genesis for other nodes than this one.
    #[error("a genesis of wire version {0}, this node speaks {WIRE_VERSION}")]
    Version(u16),
    /// The bytes are too long, or not the canonical encoding of a genesis.
    #[error("genesis: {0}")]
    Wire(#[from] WireError),
}

impl GenesisError {
    /// The error for `value` at `key`.
    pub(super) fn value(
        key: impl Into<String>,
        value: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::Value { key: key.into(), value: value.to_string(), allowed: allowed.into() }
    }

    /// The error for the text `value` at `key`; it is quoted, and cut where it gets long.
    pub(super) fn text(key: impl Into<String>, value: &str, allowed: impl Into<String>) -> Self {
        let mut shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        Self::value(key, format_args!("{shown:?}"), allowed)
    }
}

/// Characters of a rejected text that an error repeats.
const SHOWN_CHARS_MAX: usize = 72;

//! Where a value of the configuration came from.

use std::fmt;
use std::path::PathBuf;

/// Where a value of the configuration came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nobody chose it.
    #[default]
    Default,
    /// The file in the node's folder.
    File(PathBuf),
    /// The variable that belongs to this key.
    Environment(&'static str),
    /// The flag that belongs to this key.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(key) => write!(f, "ATOLL_{}", key.to_ascii_uppercase()),
            Self::Flag(key) => write!(f, "--{}", key.replace('_', "-")),
        }
    }
}

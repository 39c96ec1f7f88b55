//! Time as a plain number that is always passed in. There is no clock in this crate.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds on the driver's monotonic clock. Only differences mean anything.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Time(pub u64);

/// A length of time in milliseconds.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Span(pub u64);

impl Time {
    /// The moment `span` after this one.
    #[must_use]
    pub fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// `seconds` as a span.
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// So many percent of this span.
    #[must_use]
    pub fn share(self, percent: u64) -> Self {
        Self(self.0.saturating_mul(percent) / 100)
    }

    /// This span times a whole number.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1000, self.0 % 1000)
    }
}

//! Times of a plan: seconds, or shares of the training.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// A time, or a length of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::up) enum Span {
    Seconds(f64),
    /// Of the time that the swarm trains, of 1.
    Share(f64),
}

impl Span {
    /// In seconds, of a training that lasts so long.
    pub(super) fn seconds(self, training: f64) -> f64 {
        match self {
            Self::Seconds(seconds) => seconds,
            Self::Share(share) => share * training,
        }
    }

    fn read(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse().ok().filter(|it: &f64| *it >= 0.0);
        let text = text.trim();
        if let Some(percent) = text.strip_suffix('%') {
            let share = number(percent)? / 100.0;
            return (share <= 1.0).then_some(Self::Share(share));
        }
        let seconds = match (text.strip_suffix('s'), text.strip_suffix('m')) {
            (Some(seconds), _) => number(seconds)?,
            (None, Some(minutes)) => number(minutes)? * 60.0,
            (None, None) => return None,
        };
        (seconds <= SECONDS_MAX).then_some(Self::Seconds(seconds))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => write!(f, "{seconds}s"),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::read(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is no time: write it like 20s, 1.5m or 25%"))
        })
    }
}

/// A length of time, or two between which it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "no time: write it like 20s, 1.5m or 25%, or [\"5s\", \"10s\"]")]
pub(in crate::up) enum Length {
    Fixed(Span),
    Between(Span, Span),
}

/// A week.
const SECONDS_MAX: f64 = 604_800.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_three_ways() {
        for (text, span) in [
            ("20s", Span::Seconds(20.0)),
            ("1.5m", Span::Seconds(90.0)),
            (" 25 %", Span::Share(0.25)),
            ("0s", Span::Seconds(0.0)),
        ] {
            assert_eq!(Span::read(text), Some(span), "{text}");
            assert_eq!(Span::read(&span.to_string()), Some(span), "{text}");
        }
        for text in ["", "s", "20", "-1s", "nans", "infm", "101%", "1e99s", "20h"] {
            assert_eq!(Span::read(text), None, "{text}");
        }
        assert_eq!(Span::Share(0.25).seconds(60.0), 15.0);
    }
}

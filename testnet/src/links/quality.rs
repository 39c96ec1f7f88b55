//! How good a link is, as people write it.

use std::time::Duration;

use thiserror::Error;

use crate::plan::{Link, link};

/// How good a link is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quality {
    /// Bits in a second each way; none is as fast as the machine.
    pub(crate) rate: Option<Link>,
    /// What a packet takes from one island to another.
    pub(crate) delay: Duration,
    /// The share of packets that are lost, of 1.
    pub(crate) loss: f64,
}

/// What is no link.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option} {given}")]
pub(crate) struct QualityError {
    option: &'static str,
    given: String,
    pub(crate) hint: String,
}

impl Quality {
    /// From what the options `--link`, `--delay` and `--loss` say.
    pub(crate) fn read(
        rate: Option<&str>,
        delay: Option<&str>,
        loss: Option<&str>,
    ) -> Result<Self, QualityError> {
        let wrong = |option, given: &str, hint: &str| QualityError {
            option,
            given: given.to_owned(),
            hint: hint.to_owned(),
        };
        let rate =
            rate.map(|given| self::rate(given).map_err(|hint| wrong("--link", given, &hint)));
        let delay = delay.map(|given| {
            read_delay(given).ok_or_else(|| {
                wrong("--delay", given, "write 40ms or 0.2s; 10s is the longest there is")
            })
        });
        let loss = loss.map(|given| {
            read_loss(given).ok_or_else(|| {
                wrong("--loss", given, "write 1% or 0.01; half is the most there is")
            })
        });
        Ok(Self {
            rate: rate.transpose()?,
            delay: delay.transpose()?.unwrap_or_default(),
            loss: loss.transpose()?.unwrap_or_default(),
        })
    }

    /// Whether nothing is asked for.
    pub(crate) fn is_perfect(&self) -> bool {
        *self == Self::default()
    }

    /// Whether packets must be held back or lost.
    pub(crate) fn needs_holder(&self) -> bool {
        !self.delay.is_zero() || self.loss > 0.0
    }

    /// In words: `20mbit, 40 ms, 1 % lost`.
    pub(crate) fn words(&self) -> String {
        let rate = self.rate.map(|it| match (it.up, it.down) {
            (up, down) if up == down => bits(up),
            (up, down) => format!("{} up, {} down", bits(up), bits(down)),
        });
        let delay = (!self.delay.is_zero()).then(|| format!("{:?} each way", self.delay));
        let loss = (self.loss > 0.0).then(|| format!("{} % lost", self.loss * 100.0));
        let words: Vec<String> = rate.into_iter().chain(delay).chain(loss).collect();
        words.join(", ")
    }
}

/// A rate that a link can have, or a hint.
pub(crate) fn rate(text: &str) -> Result<Link, String> {
    let read = link(text).map_err(|error| error.hint())?;
    let known = |rate: f64| (RATE_MIN..=RATE_MAX).contains(&rate);
    if known(read.up) && known(read.down) {
        return Ok(read);
    }
    Err("allowed are 64kbit to 40gbit".into())
}

/// A rate as tools take it: `20mbit`.
pub(crate) fn bits(rate: f64) -> String {
    let (scaled, unit) = match rate {
        1e9.. => (rate / 1e9, "gbit"),
        1e6.. => (rate / 1e6, "mbit"),
        _ => (rate / 1e3, "kbit"),
    };
    format!("{scaled}{unit}")
}

fn read_delay(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    (0.0..=DELAY_MAX).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

fn read_loss(text: &str) -> Option<f64> {
    let text = text.trim();
    let share = match text.strip_suffix('%') {
        Some(number) => number.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=LOSS_MAX).contains(&share).then_some(share)
}

/// Bits in a second: less does not carry what nodes say to find each other.
const RATE_MIN: f64 = 64e3;
const RATE_MAX: f64 = 40e9;
/// Seconds.
const DELAY_MAX: f64 = 10.0;
const LOSS_MAX: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_and_told() {
        let quality = Quality::read(Some("20mbit"), Some("40ms"), Some("1%")).unwrap();
        assert_eq!(quality.rate, Some(Link { up: 20e6, down: 20e6 }));
        assert_eq!(quality.words(), "20mbit, 40ms each way, 1 % lost");
        let quality = Quality::read(Some("1mbit/0.5gbit"), None, Some("0.005")).unwrap();
        assert_eq!(quality.words(), "1mbit up, 500mbit down, 0.5 % lost");
        assert!(Quality::read(None, None, None).unwrap().is_perfect());
        assert_eq!((bits(2.5e9), bits(64e3)), ("2.5gbit".into(), "64kbit".into()));
    }

    #[test]
    fn nonsense_has_a_hint() {
        for (rate, delay, loss) in [
            (Some("20"), None, None),
            (Some("1kbit"), None, None),
            (Some("1tbit"), None, None),
            (None, Some("40"), None),
            (None, Some("-1ms"), None),
            (None, Some("11s"), None),
            (None, Some("NaNs"), None),
            (None, None, Some("51%")),
            (None, None, Some("-0.1")),
            (None, None, Some("much")),
        ] {
            let error = Quality::read(rate, delay, loss).unwrap_err();
            assert!(!error.hint.is_empty() && error.to_string().starts_with("--"), "{error}");
        }
    }
}

//! Numbers as people write them: 12e9, 350m, 20mbit.

use super::error::InputError;
use super::inputs::Link;

/// A number of parameters: `12e9`, `12b`, `350m`, `1t`.
pub fn params(text: &str) -> Result<u64, InputError> {
    let number = || InputError::Number { option: "--params", given: text.into() };
    let lower = text.trim().to_ascii_lowercase();
    let (digits, factor) = match lower.chars().last() {
        Some('k') => (&lower[..lower.len() - 1], 1e3),
        Some('m') => (&lower[..lower.len() - 1], 1e6),
        Some('b') => (&lower[..lower.len() - 1], 1e9),
        Some('t') => (&lower[..lower.len() - 1], 1e12),
        _ => (lower.as_str(), 1.0),
    };
    let value = digits.parse::<f64>().map_err(|_| number())? * factor;
    if !value.is_finite() {
        return Err(number());
    }
    if !(PARAMS_MIN..=PARAMS_MAX).contains(&value) {
        return Err(InputError::Range {
            option: "--params",
            given: text.into(),
            allowed: "1000 to 1e15".into(),
        });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1e3 and 1e15, see above"
    )]
    Ok(value.round() as u64)
}

/// A link: `20mbit` both ways, or `110mbit/500mbit` for sending and receiving.
pub fn link(text: &str) -> Result<Link, InputError> {
    let lower = text.trim().to_ascii_lowercase();
    let (up, down) = match lower.split_once('/') {
        Some((up, down)) => (rate(up, text)?, rate(down, text)?),
        None => {
            let both = rate(&lower, text)?;
            (both, both)
        }
    };
    Ok(Link { up, down })
}

fn rate(part: &str, text: &str) -> Result<f64, InputError> {
    let error = || InputError::Rate { given: text.into() };
    let (digits, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((part.trim().strip_suffix(unit)?, factor)))
        .ok_or_else(error)?;
    let value = digits.trim().parse::<f64>().map_err(|_| error())? * factor;
    if !value.is_finite() {
        return Err(error());
    }
    if !(RATE_MIN..=RATE_MAX).contains(&value) {
        let allowed = "1kbit to 1000tbit".into();
        return Err(InputError::Range { option: "--link", given: text.into(), allowed });
    }
    Ok(value)
}

const PARAMS_MIN: f64 = 1e3;
const PARAMS_MAX: f64 = 1e15;
const UNITS: [(&str, f64); 4] = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("tbit", 1e12)];
/// Bits in a second.
const RATE_MIN: f64 = 1e3;
const RATE_MAX: f64 = 1e15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_numbers_in_many_ways() {
        for text in ["12e9", "12b", "12B", "12000m", "12000000000", " 0.012t "] {
            assert_eq!(params(text).unwrap(), 12_000_000_000, "{text}");
        }
        for text in ["", "b", "12x", "nan", "inf", "-1e9", "999"] {
            assert!(params(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_link_may_send_slower_than_it_receives() {
        assert_eq!(link("20mbit").unwrap(), Link { up: 20e6, down: 20e6 });
        assert_eq!(link("110mbit/0.5Gbit").unwrap(), Link { up: 110e6, down: 500e6 });
        for text in ["20", "mbit", "20mb", "1mbit/", "nanmbit", "-1gbit", "1e9tbit"] {
            assert!(link(text).is_err(), "{text}");
        }
    }
}

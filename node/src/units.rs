//! Amounts as people write and read them: rates of a link, sizes on a disk.

mod readable;

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use readable::{bytes, count, span};

/// Bytes per second. Written like `1mbit` or `2MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// Bytes. Written like `20GB` or `500MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

/// Why a text is no rate or size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number with a unit that is known.
    #[error("`{value}` is not {kind}\nhint: {hint}")]
    Form {
        /// What was given.
        value: String,
        /// What was wanted.
        kind: &'static str,
        /// How that is written.
        hint: &'static str,
    },
    /// Bits or bytes?
    #[error(
        "`{value}` could mean bits or bytes\nhint: mbit is a million bits, MB a million bytes, \
         each per second"
    )]
    BitsOrBytes {
        /// What was given.
        value: String,
    },
    /// Too little or too much.
    #[error("`{value}` is outside {low} to {high}\nhint: {hint}")]
    Range {
        /// What was given.
        value: String,
        /// The least.
        low: String,
        /// The most.
        high: String,
        /// How it is written.
        hint: &'static str,
    },
}

impl Rate {
    /// The least that lets a payload arrive at all.
    pub const MIN: Self = Self(1_000);
    /// More than any card can do.
    pub const MAX: Self = Self(125_000_000_000);

    /// Bytes in a second.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl Size {
    /// The least that holds the records of a run.
    pub const MIN: Self = Self(1_000_000);
    /// More than any disk has.
    pub const MAX: Self = Self(1 << 60);

    /// How many bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let value = || text.to_owned();
        let form = || UnitError::Form { value: value(), kind: "a rate", hint: RATE_HINT };
        let (number, unit) = split(text).ok_or_else(form)?;
        let unit = unit.strip_suffix("/s").unwrap_or(unit);
        let small = unit.to_ascii_lowercase();
        let bits = BITS.iter().find(|(name, _)| *name == small);
        let bytes = BYTES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let eighths = match (bits, bytes) {
            (Some((_, bits)), _) => *bits,
            // Mb is a megabit to some and a megabyte to others: a factor of eight.
            (None, Some(_)) if unit.ends_with('b') => {
                return Err(UnitError::BitsOrBytes { value: value() });
            }
            (None, Some((_, bytes))) => bytes * 8,
            (None, None) => return Err(form()),
        };
        let rate = Self(number.times(eighths).map_or(u64::MAX, |bits| bits / 8));
        if (Self::MIN..=Self::MAX).contains(&rate) {
            return Ok(rate);
        }
        let (low, high) = (Self::MIN.to_string(), Self::MAX.to_string());
        Err(UnitError::Range { value: value(), low, high, hint: RATE_HINT })
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let value = || text.to_owned();
        let form = || UnitError::Form { value: value(), kind: "a size", hint: SIZE_HINT };
        let (number, unit) = split(text).ok_or_else(form)?;
        let known = BYTES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let (_, bytes) = known.ok_or_else(form)?;
        let size = Self(number.times(*bytes).unwrap_or(u64::MAX));
        if (Self::MIN..=Self::MAX).contains(&size) {
            return Ok(size);
        }
        let (low, high) = (Self::MIN.to_string(), Self::MAX.to_string());
        Err(UnitError::Range { value: value(), low, high, hint: SIZE_HINT })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = BITS.iter().copied();
        let bytes = BYTES.iter().map(|(name, bytes)| (*name, bytes * 8));
        write_exactly(f, self.0.saturating_mul(8), bits.chain(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exactly(f, self.0, BYTES.iter().copied())
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}
as_text!(Rate);
as_text!(Size);

/// The shortest whole number of some unit; every amount is a whole number of the last one.
fn write_exactly(
    f: &mut fmt::Formatter<'_>,
    amount: u64,
    units: impl Iterator<Item = (&'static str, u64)>,
) -> fmt::Result {
    let whole = units.filter(|(_, unit)| amount.is_multiple_of(*unit));
    match whole.map(|(name, unit)| (amount / unit, name)).min_by_key(|(count, _)| *count) {
        Some((count, name)) => write!(f, "{count}{name}"),
        None => write!(f, "{amount}"),
    }
}

/// A decimal number: `digits / 10^places`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u64,
    places: u32,
}

impl Decimal {
    fn times(self, unit: u64) -> Option<u64> {
        let product = u128::from(self.digits) * u128::from(unit) / 10_u128.pow(self.places);
        u64::try_from(product).ok()
    }
}

/// The number and the unit of `1.5 mbit`.
fn split(text: &str) -> Option<(Decimal, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let places = u32::try_from(part.len()).ok().filter(|places| *places <= PLACES_MAX)?;
    if whole.is_empty() || (number.contains('.') && part.is_empty()) {
        return None;
    }
    let digits = format!("{whole}{part}").parse().ok()?;
    Some((Decimal { digits, places }, unit.trim_start()))
}

const BITS: [(&str, u64); 4] =
    [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
const BYTES: [(&str, u64); 9] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
/// Digits after the point; more would be a mistake.
const PLACES_MAX: u32 = 9;
const RATE_HINT: &str =
    "a number and a unit per second, such as 500kbit, 20mbit, 1gbit (bits) or 2MB, 1MiB (bytes)";
const SIZE_HINT: &str = "a number and a unit, such as 500MB, 20GB, 1TB or 500MiB, 20GiB";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_bits_or_bytes_each_second() {
        for (text, bytes) in [
            ("1mbit", 125_000),
            ("20mbit", 2_500_000),
            ("2MB", 2_000_000),
            ("1.5 Mbit/s", 187_500),
            ("1gbit", 125_000_000),
            ("1MiB/s", 1 << 20),
            ("8000bit", 1000),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap().bytes(), bytes, "{text}");
        }
        let shown = |text: &str| text.parse::<Rate>().unwrap().to_string();
        assert_eq!(shown("1000kbit"), "1mbit");
        assert_eq!(shown("2MB"), "2MB");
        assert_eq!(shown("20mbit"), "20mbit");
        assert_eq!(shown("1025B"), "1025B");
    }

    #[test]
    fn sizes_are_bytes() {
        for (text, bytes) in
            [("20GB", 20_000_000_000), ("500MiB", 500 << 20), ("1.5gb", 1_500_000_000)]
        {
            assert_eq!(text.parse::<Size>().unwrap().bytes(), bytes, "{text}");
        }
        for text in ["20GB", "500MiB", "1TB", "1000001B"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refusals_name_the_value_and_what_is_allowed() {
        let refused = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        for text in ["", "mbit", "1", "1..2mbit", ".5mbit", "1.mbit", "-1mbit", "1mbps", "1e6B"] {
            let error = refused(text);
            assert!(error.starts_with(&format!("`{text}` is not a rate\nhint: ")), "{error}");
        }
        assert!(refused("5Mb").starts_with("`5Mb` could mean bits or bytes\nhint: "));
        assert!(refused("0mbit").starts_with("`0mbit` is outside 1kB to 125GB\nhint: "));
        assert!(refused("99999999999999999GB").starts_with("`99999999999999999GB` is outside"));
        let size = "1kB".parse::<Size>().unwrap_err().to_string();
        assert!(size.starts_with("`1kB` is outside 1MB to 1048576TiB\nhint: "), "{size}");
        assert!("20".parse::<Size>().unwrap_err().to_string().contains("20GB"));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(bytes in Rate::MIN.0..=Rate::MAX.0) {
            let (rate, size) = (Rate(bytes), Size(bytes.max(Size::MIN.0)));
            prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
            prop_assert_eq!(size.to_string().parse::<Size>(), Ok(size));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String, digits in "[0-9.]{0,30}[a-zA-Z/]{0,6}") {
            for text in [text, digits] {
                let _ = text.parse::<Rate>();
                let _ = text.parse::<Size>();
            }
        }
    }
}

//! Numbers as people read them.

/// Bytes in powers of a thousand.
pub fn bytes(value: f64) -> String {
    scaled(value, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Bits in a second in powers of a thousand.
pub fn bits_per_second(value: f64) -> String {
    scaled(value, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s", "Ebit/s"])
}

/// A time from milliseconds to days.
pub fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        value if value < 0.9995 => (value * 1e3, "ms"),
        value if value < 180.0 => (value, "s"),
        value if value < 3.0 * 3600.0 => (value / 60.0, "min"),
        value if value < 3.0 * 86_400.0 => (value / 3600.0, "h"),
        value => (value / 86_400.0, "days"),
    };
    format!("{} {unit}", digits(value))
}

/// A plain number with three digits, or all of them if it is a small count.
pub(crate) fn number(value: f64) -> String {
    let said =
        if value < 1e5 { digits(value) } else { scaled(value, &["", "k", "M", "B", "T", "Q"]) };
    let (digits, unit) = said.split_once(' ').unwrap_or((&said, ""));
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits}{unit}")
}

fn scaled(value: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if value < 999.5 {
            break;
        }
        value /= 1e3;
        unit = next;
    }
    format!("{} {unit}", digits(value)).trim_end().to_owned()
}

fn digits(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(bytes(4.98e9), "4.98 GB");
        assert_eq!(bytes(999_600.0), "1.00 MB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bits_per_second(1.383e12), "1.38 Tbit/s");
        assert_eq!(number(12e9), "12B");
        assert_eq!(number(24.0), "24");
        assert_eq!(number(5.861), "5.86");
    }

    #[test]
    fn times_from_milliseconds_to_days() {
        let said = [0.02, 1.0, 24.0, 150.0, 3600.0, 86_400.0, 1e6].map(seconds);
        let expected = ["20.0 ms", "1.00 s", "24.0 s", "150 s", "60.0 min", "24.0 h", "11.6 days"];
        assert_eq!(said, expected);
    }
}

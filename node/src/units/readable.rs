//! Amounts at a glance: three digits and a unit, never exact.

use std::time::Duration;

/// Bytes as people read them: `12.3 MB`.
pub fn bytes(bytes: u64) -> String {
    format!("{}B", scaled(bytes, " "))
}

/// A count as people read it: `12.3 M`.
pub fn count(count: u64) -> String {
    scaled(count, " ").trim_end().to_owned()
}

/// A length of time as people read it: `2 h 14 min`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

fn scaled(amount: u64, space: &str) -> String {
    let mut value = amount as f64;
    for prefix in ["", "k", "M", "G", "T", "P"] {
        // What rounds to 1000 is shown in the next unit.
        if value < 999.5 {
            let places = match (prefix, value) {
                ("", _) | (_, 99.95..) => 0,
                (_, 9.995..) => 1,
                _ => 2,
            };
            return format!("{value:.places$}{space}{prefix}");
        }
        value /= 1000.0;
    }
    format!("{value:.0}{space}E")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1234), "1.23 kB");
        assert_eq!(bytes(12_345_678), "12.3 MB");
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(bytes(u64::MAX), "18 EB");
        assert_eq!(count(512), "512");
        assert_eq!(count(345_600_000), "346 M");
    }

    #[test]
    fn times_have_two_units() {
        let shown = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(shown(59), "59 s");
        assert_eq!(shown(61), "1 min 1 s");
        assert_eq!(shown(8040), "2 h 14 min");
        assert_eq!(shown(200_000), "2 d 7 h");
    }
}

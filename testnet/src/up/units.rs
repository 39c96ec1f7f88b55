//! Amounts as people read them.

/// Bytes: `12.3 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    format!("{}B", scaled(bytes))
}

/// A count: `12.3 M`.
pub(super) fn count(count: u64) -> String {
    scaled(count).trim_end().to_owned()
}

/// A rate that is no whole number: `12.3 k`.
pub(super) fn rate(rate: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes the nearest whole number there is"
    )]
    count(rate.max(0.0) as u64)
}

/// A time: `2:05`, or `1:02:05`.
pub(super) fn clock(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes the nearest whole number there is"
    )]
    let seconds = seconds.max(0.0) as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        _ => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// A loss, or a dash where there is none.
pub(super) fn loss(loss: Option<f64>) -> String {
    loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.3}"))
}

/// A share of 1 as a percentage.
pub(super) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn scaled(amount: u64) -> String {
    let mut value = amount as f64;
    for prefix in ["", "k", "M", "G", "T", "P"] {
        // What rounds to 1000 is shown in the next unit.
        if value < 999.5 {
            let places = match (prefix, value) {
                ("", _) | (_, 99.95..) => 0,
                (_, 9.995..) => 1,
                _ => 2,
            };
            return format!("{value:.places$} {prefix}");
        }
        value /= 1000.0;
    }
    format!("{value:.0} E")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(12_345_678), "12.3 MB");
        assert_eq!(count(999_999), "1.00 M");
        assert_eq!(rate(1234.5), "1.23 k");
        assert_eq!(rate(-3.0), "0");
        assert_eq!(percent(1, 8), "12.5 %");
        assert_eq!(percent(0, 0), "0.0 %");
    }

    #[test]
    fn times_look_like_a_clock() {
        assert_eq!(clock(5.9), "0:05");
        assert_eq!(clock(185.0), "3:05");
        assert_eq!(clock(3725.0), "1:02:05");
        assert_eq!(clock(-1.0), "0:00");
    }
}

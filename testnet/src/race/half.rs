//! Numbers of 16 bits as they travel: the upper half of a 32-bit float, rounded to even.

/// Appends the 16-bit forms of `values`.
pub(super) fn encode(values: &[f32], into: &mut Vec<u8>) {
    into.reserve(values.len() * BYTES);
    for value in values {
        into.extend_from_slice(&narrow(*value).to_le_bytes());
    }
}

/// Gives each value that `bytes` hold to `take`, with its place in `values`.
pub(super) fn decode(bytes: &[u8], values: &mut [f32], take: impl Fn(&mut f32, f32)) {
    for (value, half) in values.iter_mut().zip(bytes.chunks_exact(BYTES)) {
        take(value, widen(u16::from_le_bytes([half[0], half[1]])));
    }
}

/// The value that arrives where `value` was sent.
pub(super) fn rounded(value: f32) -> f32 {
    widen(narrow(value))
}

fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return NAN;
    }
    let to_even = 0x7fff + ((bits >> 16) & 1);
    // The largest finite ones become infinite, as they should.
    u16::try_from((u64::from(bits) + u64::from(to_even)) >> 16).unwrap_or(NAN)
}

fn widen(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Bytes of one number.
pub(super) const BYTES: usize = 2;
const NAN: u16 = 0x7fc0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_even() {
        for (value, expected) in [
            (0.0, 0.0),
            (1.0, 1.0),
            (-2.5, -2.5),
            (1.0 + 1.0 / 256.0, 1.0),
            (1.0 + 3.0 / 256.0, 1.015_625),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
        ] {
            assert_eq!(rounded(value), expected, "{value}");
        }
        assert!(rounded(f32::NAN).is_nan());
        let worst = (1..10_000).map(|n| n as f32 * 0.37).map(|it| (rounded(it) / it - 1.0).abs());
        assert!(worst.fold(0.0, f32::max) <= 1.0 / 256.0);
    }

    #[test]
    fn what_is_sent_arrives() {
        let mut bytes = Vec::new();
        encode(&[1.5, -3.0], &mut bytes);
        assert_eq!(bytes.len(), 2 * BYTES);
        let mut values = [1.0, 1.0];
        decode(&bytes, &mut values, |value, sent| *value += sent);
        assert_eq!(values, [2.5, -2.0]);
    }
}

//! Block scales: the upper half of a 32-bit float (bfloat16), never negative.

use super::error::PayloadError;

/// The scale of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale(u16);

impl Scale {
    /// Bytes of one scale.
    pub(super) const BYTES: usize = 2;

    /// The smallest scale that is not below `value`, or the largest there is. A `value` too small
    /// to have a finite inverse gives zero: its block is lost, and nobody misses 1e-38.
    pub(super) fn above(value: f32) -> Self {
        Self::of_bits(value, value.to_bits().saturating_add(0xffff))
    }

    /// The scale nearest to `value`, with the same exceptions.
    pub(super) fn nearest(value: f32) -> Self {
        Self::of_bits(value, value.to_bits().saturating_add(0x8000))
    }

    /// At most this scale.
    pub(super) fn min(self, limit: Self) -> Self {
        Self(self.0.min(limit.0))
    }

    /// The largest scale whose product with `2^power` is finite.
    pub(super) const fn limit(power: u16) -> Self {
        // Each doubling takes one from the exponent, which begins at bit 7.
        Self(LARGEST - (power << 7))
    }

    /// What decoded levels are multiplied with.
    pub(super) fn value(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// What values are multiplied with to become levels.
    pub(super) fn inverse(self) -> f32 {
        if self.0 == 0 { 0.0 } else { 1.0 / self.value() }
    }

    /// As it is written.
    pub(super) fn bytes(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    /// As it was written; only after [`Self::check`] is it known to be good.
    pub(super) fn read(bytes: [u8; 2]) -> Self {
        Self(u16::from_le_bytes(bytes))
    }

    /// Checks a run of written scales: none is negative, NaN or above `limit`.
    pub(super) fn check(bytes: &[u8], limit: Self) -> Result<(), PayloadError> {
        for pair in bytes.as_chunks().0 {
            let Self(bits) = Self::read(*pair);
            if bits > limit.0 {
                return Err(PayloadError::Scale(bits));
            }
        }
        Ok(())
    }

    fn of_bits(value: f32, rounded: u32) -> Self {
        if value < f32::MIN_POSITIVE {
            Self(0)
        } else {
            Self(((rounded >> 16) as u16).min(LARGEST))
        }
    }
}

/// Bits of the largest finite scale.
const LARGEST: u16 = 0x7f7f;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding() {
        let just_above_one = f32::from_bits(0x3f80_0001);
        assert_eq!(Scale::above(1.0).value(), 1.0);
        assert_eq!(Scale::above(just_above_one).value(), 1.007_812_5);
        assert_eq!(Scale::nearest(just_above_one).value(), 1.0);
        assert_eq!(Scale::above(0.0).inverse(), 0.0);
        assert_eq!(Scale::above(1e-40).value(), 0.0);
        assert_eq!(Scale::nearest(f32::MAX).value(), Scale(LARGEST).value());
        assert!(Scale::above(f32::MIN_POSITIVE).inverse().is_finite());
    }

    #[test]
    fn limits_are_exact() {
        for (power, level) in [(0, 1u16), (3, 8), (7, 128)] {
            let limit = Scale::limit(power);
            assert!((limit.value() * f32::from(level)).is_finite());
            assert!(!(Scale(limit.0 + 1).value() * f32::from(level)).is_finite());
            assert_eq!(Scale::check(&limit.bytes(), limit), Ok(()));
            let above = Scale(limit.0 + 1);
            assert_eq!(Scale::check(&above.bytes(), limit), Err(PayloadError::Scale(above.0)));
        }
        let negative = 0xbf80u16.to_le_bytes();
        assert_eq!(Scale::check(&negative, Scale::limit(0)), Err(PayloadError::Scale(0xbf80)));
    }
}

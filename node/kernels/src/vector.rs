//! How a loop reaches the vector units, and the sums and the exponential that loops share.
//!
//! Everything here is inlined into the closure that [`vectorised`] runs: a function that were
//! called instead would be compiled for the oldest processor of the architecture.

/// Runs `work` compiled for the widest vector unit this machine has.
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// The exponential, right to the last places near zero and to one part in 10^5 far out.
///
/// It stays where it is below -87 and above 88.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let scaled = x.clamp(-87.0, 88.0) * std::f32::consts::LOG2_E;
    // Adding 1.5 * 2^23 rounds to a whole number, which then stands in the low bits.
    let shifted = scaled + ROUNDER;
    let rest = scaled - (shifted - ROUNDER);
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUNDER_BITS - 127) << 23);
    let series = 1.540_353e-4_f32
        .mul_add(rest, 1.333_355_8e-3)
        .mul_add(rest, 9.618_129e-3)
        .mul_add(rest, 5.550_411e-2)
        .mul_add(rest, 2.402_265e-1)
        .mul_add(rest, std::f32::consts::LN_2)
        .mul_add(rest, 1.0);
    series * power
}

/// Sum of all values.
#[inline(always)]
pub(crate) fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    fold(lanes) + rest.iter().sum::<f32>()
}

/// Sum of the products, element by element.
#[inline(always)]
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (lefts, rights) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let rest = lefts.remainder().iter().zip(rights.remainder());
    let tail: f32 = rest.map(|(&one, &other)| one * other).sum();
    for (ones, others) in lefts.zip(rights) {
        for ((lane, &one), &other) in lanes.iter_mut().zip(ones).zip(others) {
            *lane = one.mul_add(other, *lane);
        }
    }
    fold(lanes) + tail
}

/// The largest value; minus infinity if there is none.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            // Unlike `f32::max` this is one instruction.
            *lane = if value > *lane { value } else { *lane };
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for index in 0..half {
            let other = lanes[index + half];
            lanes[index] = if other > lanes[index] { other } else { lanes[index] };
        }
        half /= 2;
    }
    rest.iter().fold(lanes[0], |most, &value| if value > most { value } else { most })
}

/// Sum of the lanes, by halves so that it stays in registers.
#[inline(always)]
pub(crate) fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for index in 0..half {
            lanes[index] += lanes[index + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Independent sums that a loop keeps: two AVX-512 registers, four of AVX2.
pub(crate) const LANES: usize = 32;
const ROUNDER: f32 = 12_582_912.0;
const ROUNDER_BITS: u32 = ROUNDER.to_bits();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_over_its_whole_range() {
        for step in -8600..=8700 {
            let x = step as f32 * 0.01;
            let exact = f64::from(x).exp();
            let relative = (f64::from(vectorised(|| exp(x))) - exact).abs() / exact;
            assert!(relative < 1e-5, "{x}: {relative}");
        }
        assert!(exp(-1000.0) > 0.0 && exp(-1000.0) < 2e-38);
    }

    #[test]
    fn sums_take_every_element_once() {
        for len in [0, 1, 31, 32, 33, 100] {
            let values: Vec<f32> = (0..len).map(|index| (index % 7) as f32 - 3.0).collect();
            let plain: f32 = values.iter().sum();
            assert!((vectorised(|| sum(&values)) - plain).abs() < 1e-4);
            let squares: f32 = values.iter().map(|value| value * value).sum();
            assert!((vectorised(|| dot(&values, &values)) - squares).abs() < 1e-3);
            let most = values.iter().fold(f32::NEG_INFINITY, |most, &value| most.max(value));
            assert_eq!(vectorised(|| largest(&values)), most);
        }
    }
}

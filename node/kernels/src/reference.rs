//! What the tests compare with: drawn numbers, tolerances and central differences.

/// Numbers between -1 and 1 that depend on `seed` alone.
pub(crate) fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// The numbers as `f64`.
pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// Fails unless each value is within `tolerance` of the exact one, relative above 1.
pub(crate) fn assert_close(values: &[f32], exact: &[f64], tolerance: f64) {
    assert_eq!(values.len(), exact.len());
    for (index, (&value, &exact)) in values.iter().zip(exact).enumerate() {
        let error = (f64::from(value) - exact).abs() / exact.abs().max(1.0);
        assert!(error <= tolerance, "element {index}: {value} instead of {exact}");
    }
}

/// The gradient of `function` at `at` by central differences in `f64`.
pub(crate) fn gradient(at: &[f64], function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut point = at.to_vec();
    (0..at.len())
        .map(|index| {
            point[index] = at[index] + STEP;
            let above = function(&point);
            point[index] = at[index] - STEP;
            let below = function(&point);
            point[index] = at[index];
            (above - below) / (2.0 * STEP)
        })
        .collect()
}

/// Sum of the products: the loss whose gradient by `values` is `weights`.
pub(crate) fn weighted(values: &[f64], weights: &[f32]) -> f64 {
    values.iter().zip(weights).map(|(value, &weight)| value * f64::from(weight)).sum()
}

const STEP: f64 = 1e-5;

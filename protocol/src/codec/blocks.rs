//! What the block-scaled codecs share: a walk over fixed-size blocks, and block statistics in
//! the shape that compilers turn into vector code.

use super::error::NonFinite;

/// Calls `each` with the number and the values of every block; the last is padded with zeros.
/// The third argument is how many of the values are real.
pub(super) fn for_each<const BLOCK: usize>(
    values: &[f32],
    mut each: impl FnMut(usize, &[f32; BLOCK], usize) -> Result<(), NonFinite>,
) -> Result<(), NonFinite> {
    let (whole, rest) = values.as_chunks::<BLOCK>();
    let place =
        |index: usize| move |error: NonFinite| NonFinite { index: index * BLOCK + error.index };
    for (index, block) in whole.iter().enumerate() {
        each(index, block, BLOCK).map_err(place(index))?;
    }
    if !rest.is_empty() {
        let mut padded = [0.0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        each(whole.len(), &padded, rest.len()).map_err(place(whole.len()))?;
    }
    Ok(())
}

/// The largest magnitude, if all values are finite.
#[inline(always)]
pub(super) fn magnitude<const BLOCK: usize>(values: &[f32; BLOCK]) -> Result<f32, NonFinite> {
    let mut largest = [0.0f32; LANES];
    let mut total = [0.0f32; LANES];
    for part in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let value = part[lane].abs();
            // This form, unlike f32::max, is one instruction; the total catches the NaN it drops.
            largest[lane] = if value > largest[lane] { value } else { largest[lane] };
            total[lane] += value;
        }
    }
    if !reduce(total, |left, right| left + right).is_finite() {
        all_finite(values)?;
    }
    Ok(reduce(largest, |left, right| if left > right { left } else { right }))
}

/// The root of the mean square of the first `real` values, the rest being zeros.
pub(super) fn root_mean_square<const BLOCK: usize>(
    values: &[f32; BLOCK],
    real: usize,
) -> Result<f32, NonFinite> {
    let mut squares = [0.0f32; LANES];
    for part in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            squares[lane] += part[lane] * part[lane];
        }
    }
    let sum = reduce(squares, |left, right| left + right);
    let mean = if sum > 1e-30 && sum.is_finite() {
        f64::from(sum)
    } else {
        // Squares that leave the range of 32 bits.
        all_finite(values)?;
        values.iter().map(|&value| f64::from(value) * f64::from(value)).sum()
    } / real as f64;
    #[expect(clippy::cast_possible_truncation, reason = "at most the largest of the values")]
    Ok(mean.sqrt() as f32)
}

/// Checks that all values are finite.
pub(super) fn all_finite(values: &[f32]) -> Result<(), NonFinite> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(NonFinite { index }),
        None => Ok(()),
    }
}

/// Combines halves until one is left: fewer steps that wait for each other than one by one. Not
/// inlined, because compilers then split the vectors of the loop before it.
#[inline(never)]
fn reduce(mut lanes: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Independent sums: enough to fill the vector units of any machine.
const LANES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes() {
        assert_eq!(magnitude(&[f32::MAX; 128]), Ok(f32::MAX));
        assert_eq!(root_mean_square(&[f32::MAX; 4096], 4096), Ok(f32::MAX));
        assert_eq!(root_mean_square(&[1e-40; 4096], 4096), Ok(1e-40));
        assert_eq!(root_mean_square(&[0.0; 4096], 1), Ok(0.0));
        let mut values = [1.0; 4096];
        values[77] = f32::NAN;
        assert_eq!(magnitude(&values), Err(NonFinite { index: 77 }));
        assert_eq!(root_mean_square(&values, 4096), Err(NonFinite { index: 77 }));
    }

    #[test]
    fn the_last_block_is_padded() {
        let mut seen = Vec::new();
        let walk = for_each::<4>(&[1.0, 2.0, 3.0, 4.0, 5.0], |index, block, real| {
            seen.push((index, *block, real));
            Ok(())
        });
        assert_eq!(walk, Ok(()));
        assert_eq!(seen, [(0, [1.0, 2.0, 3.0, 4.0], 4), (1, [5.0, 0.0, 0.0, 0.0], 1)]);
    }
}

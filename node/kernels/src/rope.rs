//! Rotary positions, in the convention of Hugging Face's Llama: element `i` of a head turns
//! together with element `i + half`.

use crate::vector::vectorised;

/// Fills the cosines and sines of the angles of positions `0..` for heads `head_width` wide.
///
/// Both hold `head_width / 2` values for each position. The angle is rounded to `f32` before its
/// cosine is taken, as others do, so that their weights mean the same here.
///
/// # Panics
/// If the head's width is odd or the slices do not hold whole positions.
pub fn angles(theta: f32, head_width: usize, cosines: &mut [f32], sines: &mut [f32]) {
    let half = head_width / 2;
    assert!(head_width.is_multiple_of(2) && half > 0, "a head {head_width} wide has no halves");
    assert!(cosines.len() == sines.len() && cosines.len().is_multiple_of(half));
    let rows = cosines.chunks_exact_mut(half).zip(sines.chunks_exact_mut(half));
    for (position, (cosines, sines)) in rows.enumerate() {
        for (index, (cosine, sine)) in cosines.iter_mut().zip(sines).enumerate() {
            let exponent = 2.0 * index as f64 / head_width as f64;
            let angle = position as f32 * narrow(f64::from(theta).powf(-exponent));
            *cosine = narrow(f64::from(angle).cos());
            *sine = narrow(f64::from(angle).sin());
        }
    }
}

/// Turns the first `heads` heads of each row in place, row `i` by the angles of position `i`.
///
/// Rows begin `stride` elements apart; the rest of a row stays as it is.
///
/// # Panics
/// If the slices do not hold the same number of positions.
pub fn forward(rows: &mut [f32], stride: usize, heads: usize, cosines: &[f32], sines: &[f32]) {
    turn(rows, stride, heads, cosines, sines, 1.0);
}

/// Turns gradients back: the inverse of [`forward`].
///
/// # Panics
/// If the slices do not hold the same number of positions.
pub fn backward(rows: &mut [f32], stride: usize, heads: usize, cosines: &[f32], sines: &[f32]) {
    turn(rows, stride, heads, cosines, sines, -1.0);
}

fn turn(
    rows: &mut [f32],
    stride: usize,
    heads: usize,
    cosines: &[f32],
    sines: &[f32],
    direction: f32,
) {
    assert_eq!(rows.len() % stride, 0);
    let positions = rows.len() / stride;
    if positions == 0 {
        return;
    }
    assert!(cosines.len() == sines.len() && cosines.len().is_multiple_of(positions));
    let half = cosines.len() / positions;
    assert!(heads * half * 2 <= stride);
    vectorised(
        #[inline(always)]
        || {
            let angles = cosines.chunks_exact(half).zip(sines.chunks_exact(half));
            for (row, (cosines, sines)) in rows.chunks_exact_mut(stride).zip(angles) {
                for head in row[..heads * half * 2].chunks_exact_mut(half * 2) {
                    let (low, high) = head.split_at_mut(half);
                    let pairs = low.iter_mut().zip(high).zip(cosines.iter().zip(sines));
                    for ((low, high), (&cosine, &sine)) in pairs {
                        let (one, other, sine) = (*low, *high, sine * direction);
                        *low = one * cosine - other * sine;
                        *high = other * cosine + one * sine;
                    }
                }
            }
        },
    );
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, gradient, numbers, weighted, wide};

    const THETA: f32 = 100.0;

    /// The rotation of Hugging Face's `apply_rotary_pos_emb`, one head of each row.
    fn exact(rows: &[f64], width: usize) -> Vec<f64> {
        let half = width / 2;
        let mut out = vec![0.0; rows.len()];
        for (position, (row, out)) in
            rows.chunks_exact(width).zip(out.chunks_exact_mut(width)).enumerate()
        {
            for index in 0..width {
                let exponent = 2.0 * (index % half) as f64 / width as f64;
                let angle = position as f64 * f64::from(THETA).powf(-exponent);
                let rotated = if index < half { -row[index + half] } else { row[index - half] };
                out[index] = row[index] * angle.cos() + rotated * angle.sin();
            }
        }
        out
    }

    #[test]
    fn rotation_and_its_gradient_are_those_of_the_formula() {
        let (width, positions) = (12, 5);
        let mut cosines = vec![0.0; positions * width / 2];
        let mut sines = cosines.clone();
        angles(THETA, width, &mut cosines, &mut sines);
        let input = numbers(1, positions * width);
        let mut output = input.clone();
        forward(&mut output, width, 1, &cosines, &sines);
        assert_close(&output, &exact(&wide(&input), width), 1e-5);
        let upper = numbers(2, positions * width);
        let mut lower = upper.clone();
        backward(&mut lower, width, 1, &cosines, &sines);
        let exact = gradient(&wide(&input), |at| weighted(&exact(at, width), &upper));
        assert_close(&lower, &exact, 1e-5);
    }

    #[test]
    fn every_head_turns_and_the_rest_of_the_row_stays() {
        let (width, heads, stride) = (8, 2, 21);
        let (mut cosines, mut sines) = (vec![0.0; 12], vec![0.0; 12]);
        angles(THETA, width, &mut cosines, &mut sines);
        let before = numbers(5, 3 * stride);
        let mut after = before.clone();
        forward(&mut after, stride, heads, &cosines, &sines);
        for head in 0..heads {
            let pick = |from: &[f32]| -> Vec<f32> {
                from.chunks_exact(stride)
                    .flat_map(|row| row[head * width..][..width].to_vec())
                    .collect()
            };
            assert_close(&pick(&after), &exact(&wide(&pick(&before)), width), 1e-5);
        }
        for (after, before) in after.chunks_exact(stride).zip(before.chunks_exact(stride)) {
            assert_eq!(after[heads * width..], before[heads * width..]);
        }
    }
}

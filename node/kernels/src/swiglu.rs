//! The gate of a feed-forward block: `silu(gate) * up`.

use crate::vector::{LANES, exp, vectorised};

/// Writes `silu(gate) * up` to `output`, element by element.
///
/// A row of `gate_up` is a row of gates followed by one of ups, each `hidden` wide.
///
/// # Panics
/// If `gate_up` does not hold twice as many rows of `hidden` as `output`.
pub fn forward(gate_up: &[f32], hidden: usize, output: &mut [f32]) {
    assert_eq!(gate_up.len(), 2 * output.len());
    vectorised(
        #[inline(always)]
        || {
            let rows = gate_up.chunks_exact(2 * hidden).zip(output.chunks_exact_mut(hidden));
            for (row, out) in rows {
                let (gates, ups) = row.split_at(hidden);
                for ((out, &gate), &up) in out.iter_mut().zip(gates).zip(ups) {
                    *out = gate / (1.0 + exp(-gate)) * up;
                }
            }
        },
    );
}

/// Turns the gradient by the output into those by gates and ups, and brings the output back.
///
/// `gate_up` holds the values of [`forward`] and then their gradients; `output` holds the
/// gradient by the output and then the output itself, which nobody had to keep.
///
/// # Panics
/// If `gate_up` does not hold twice as many rows of `hidden` as `output`.
pub fn backward(gate_up: &mut [f32], hidden: usize, output: &mut [f32]) {
    assert_eq!(gate_up.len(), 2 * output.len());
    vectorised(
        #[inline(always)]
        || {
            let rows = gate_up.chunks_exact_mut(2 * hidden).zip(output.chunks_exact_mut(hidden));
            for (row, out) in rows {
                let (gates, ups) = row.split_at_mut(hidden);
                let mut outs = out.chunks_exact_mut(LANES);
                let mut gate_chunks = gates.chunks_exact_mut(LANES);
                let mut up_chunks = ups.chunks_exact_mut(LANES);
                for ((out, gate), up) in (&mut outs).zip(&mut gate_chunks).zip(&mut up_chunks) {
                    backward_lanes(out, gate, up);
                }
                let rest = outs.into_remainder().iter_mut().zip(gate_chunks.into_remainder());
                for ((out, gate), up) in rest.zip(up_chunks.into_remainder()) {
                    (*out, *gate, *up) = backward_one(*out, *gate, *up);
                }
            }
        },
    );
}

/// A chunk, worked on in copies: three slices to write to keep the compiler from vector units.
#[inline(always)]
fn backward_lanes(out: &mut [f32], gate: &mut [f32], up: &mut [f32]) {
    let (mut outs, mut gates, mut ups) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    outs.copy_from_slice(out);
    gates.copy_from_slice(gate);
    ups.copy_from_slice(up);
    for lane in 0..LANES {
        (outs[lane], gates[lane], ups[lane]) = backward_one(outs[lane], gates[lane], ups[lane]);
    }
    out.copy_from_slice(&outs);
    gate.copy_from_slice(&gates);
    up.copy_from_slice(&ups);
}

/// The output, and the gradients by gate and up.
#[inline(always)]
fn backward_one(upper: f32, gate: f32, up: f32) -> (f32, f32, f32) {
    let sigmoid = 1.0 / (1.0 + exp(-gate));
    let silu = gate * sigmoid;
    // The derivative of silu is sigmoid + silu * (1 - sigmoid).
    (silu * up, upper * up * silu.mul_add(1.0 - sigmoid, sigmoid), upper * silu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{assert_close, gradient, numbers, weighted, wide};

    fn exact(gate_up: &[f64], hidden: usize) -> Vec<f64> {
        let mut out = Vec::new();
        for row in gate_up.chunks_exact(2 * hidden) {
            let pairs = row[..hidden].iter().zip(&row[hidden..]);
            out.extend(pairs.map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up));
        }
        out
    }

    #[test]
    fn output_and_gradients_are_those_of_the_formula() {
        let (rows, hidden) = (3, 21);
        let gate_up: Vec<f32> =
            numbers(1, rows * hidden * 2).iter().map(|value| value * 6.0).collect();
        let mut output = vec![0.0; rows * hidden];
        forward(&gate_up, hidden, &mut output);
        assert_close(&output, &exact(&wide(&gate_up), hidden), 1e-5);
        let upper = numbers(2, rows * hidden);
        let (mut lower, mut brought) = (gate_up.clone(), upper.clone());
        backward(&mut lower, hidden, &mut brought);
        let by_both = gradient(&wide(&gate_up), |at| weighted(&exact(at, hidden), &upper));
        assert_close(&lower, &by_both, 1e-4);
        assert_close(&brought, &exact(&wide(&gate_up), hidden), 1e-5);
    }

    #[test]
    fn far_out_values_stay_finite() {
        let gate_up = [1e4, -1e4, 1.0, 1.0];
        let mut output = [0.0; 2];
        forward(&gate_up, 2, &mut output);
        assert_eq!(output[0], 1e4);
        assert!(output[1].abs() < 1e-30);
    }
}

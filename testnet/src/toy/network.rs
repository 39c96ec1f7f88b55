//! The network: two embedded symbols, one hidden layer, a softmax over the next symbol.
//!
//! The embeddings also reach the output directly. What needs no hidden layer is then learnt by
//! a nearly convex part of the model, which keeps runs with different data close together.
//!
//! Weights are laid out input by input, so the inner loops run over outputs side by side and
//! need no reordered sums to be vectorised.

use atoll_protocol::genesis::{Init, TensorKind, TensorSpec};

use super::language::SYMBOLS;

/// The model's tensors in name order.
pub(super) fn tensors() -> Vec<TensorSpec> {
    let tensor = |name: &str, shape: &[usize], kind, init| TensorSpec {
        name: name.to_owned(),
        shape: shape.iter().map(|n| u32::try_from(*n).expect("a small dimension")).collect(),
        kind,
        init,
    };
    let normal = Init::Normal;
    vec![
        tensor("embedding", &[SYMBOLS, WIDTH], TensorKind::Embedding, normal(0.7)),
        tensor("head.bias", &[SYMBOLS], TensorKind::Vector, Init::Zeros),
        tensor("head.weight", &[HIDDEN, SYMBOLS], TensorKind::Embedding, normal(0.1)),
        tensor("hidden.bias", &[HIDDEN], TensorKind::Vector, Init::Zeros),
        tensor("newer.skip", &[WIDTH, SYMBOLS], TensorKind::Matrix, normal(0.05)),
        tensor("newer.weight", &[WIDTH, HIDDEN], TensorKind::Matrix, normal(0.35)),
        tensor("older.skip", &[WIDTH, SYMBOLS], TensorKind::Matrix, normal(0.05)),
        tensor("older.weight", &[WIDTH, HIDDEN], TensorKind::Matrix, normal(0.35)),
    ]
}

/// One example's way through the network.
#[derive(Debug)]
pub(super) struct Pass {
    hidden: Layer,
    /// Log-probabilities of the next symbol up to a constant; the largest is zero.
    pub(super) logits: [f32; SYMBOLS],
    /// Probabilities of the next symbol before they are divided by `sum`.
    pub(super) exponentials: [f32; SYMBOLS],
    /// Sum of the exponentials.
    pub(super) sum: f32,
}

/// Sends the context of `older` and `newer` through the network.
pub(super) fn forward(params: &[f32], older: usize, newer: usize) -> Pass {
    let mut sums: [f32; HIDDEN] = *row(params, HIDDEN_BIAS);
    let mut logits: [f32; SYMBOLS] = *row(params, HEAD_BIAS);
    for (symbol, weights, skip) in [(older, OLDER, OLDER_SKIP), (newer, NEWER, NEWER_SKIP)] {
        let embedded: &[f32; WIDTH] = row(params, EMBEDDING + symbol * WIDTH);
        accumulate(&mut sums, embedded, &params[weights..weights + WIDTH * HIDDEN]);
        accumulate(&mut logits, embedded, &params[skip..skip + WIDTH * SYMBOLS]);
    }
    let hidden = Layer::activate(&sums);
    accumulate(&mut logits, &hidden.values, &params[HEAD..HEAD + HIDDEN * SYMBOLS]);
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|logit| *logit -= largest);
    let exponentials = logits.map(exponential);
    let sum = exponentials.iter().sum();
    Pass { hidden, logits, exponentials, sum }
}

/// Adds to `gradient` what the example teaches: its loss is `-ln p(target)`.
pub(super) fn backward(
    params: &[f32],
    gradient: &mut [f32],
    pass: &Pass,
    (older, newer): (usize, usize),
    target: usize,
) {
    let mut error = pass.exponentials.map(|exponential| exponential / pass.sum);
    error[target] -= 1.0;
    add(row_mut(gradient, HEAD_BIAS), &error);
    let mut back = [0.0; HIDDEN];
    attribute(params, gradient, HEAD, &pass.hidden.values, &error, &mut back);
    let hidden_error = pass.hidden.slope_times(&back);
    add(row_mut(gradient, HIDDEN_BIAS), &hidden_error);
    let mut back = [0.0; WIDTH];
    for (symbol, weights, skip) in [(older, OLDER, OLDER_SKIP), (newer, NEWER, NEWER_SKIP)] {
        let place = EMBEDDING + symbol * WIDTH;
        let embedded: &[f32; WIDTH] = row(params, place);
        attribute(params, gradient, weights, embedded, &hidden_error, &mut back);
        add(row_mut(gradient, place), &back);
        attribute(params, gradient, skip, embedded, &error, &mut back);
        add(row_mut(gradient, place), &back);
    }
}

/// A layer after its activation, softsign: smooth, bounded and made of exact operations.
#[derive(Debug)]
struct Layer {
    values: [f32; HIDDEN],
    slopes: [f32; HIDDEN],
}

impl Layer {
    fn activate(sums: &[f32; HIDDEN]) -> Self {
        let inverse = sums.map(|sum| 1.0 / (1.0 + sum.abs()));
        Self {
            values: std::array::from_fn(|unit| sums[unit] * inverse[unit]),
            slopes: inverse.map(|inverse| inverse * inverse),
        }
    }

    fn slope_times(&self, back: &[f32; HIDDEN]) -> [f32; HIDDEN] {
        std::array::from_fn(|unit| self.slopes[unit] * back[unit])
    }
}

/// Adds `inputs` times `weights` to `sums`.
fn accumulate<const I: usize, const O: usize>(
    sums: &mut [f32; O],
    inputs: &[f32; I],
    weights: &[f32],
) {
    for (input, weights) in inputs.iter().zip(weights.as_chunks::<O>().0) {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += input * weight;
        }
    }
}

/// Takes the outputs' `error` back through the weights at `place`: into their gradient, and
/// into the `back` error of the inputs.
fn attribute<const I: usize, const O: usize>(
    params: &[f32],
    gradient: &mut [f32],
    place: usize,
    inputs: &[f32; I],
    error: &[f32; O],
    back: &mut [f32; I],
) {
    let weights = params[place..place + I * O].as_chunks::<O>().0;
    let gradients = gradient[place..place + I * O].as_chunks_mut::<O>().0;
    for (((weights, gradients), input), back) in weights.iter().zip(gradients).zip(inputs).zip(back)
    {
        for (gradient, error) in gradients.iter_mut().zip(error) {
            *gradient += input * error;
        }
        *back = dot(weights, error);
    }
}

/// A dot product in eight lanes, which a compiler may run at once without changing the result.
fn dot<const O: usize>(left: &[f32; O], right: &[f32; O]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (left, right) in left.as_chunks::<LANES>().0.iter().zip(right.as_chunks::<LANES>().0) {
        for (lane, (left, right)) in lanes.iter_mut().zip(left.iter().zip(right)) {
            *lane += left * right;
        }
    }
    lanes.iter().sum()
}

fn add<const N: usize>(sums: &mut [f32; N], terms: &[f32; N]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += term;
    }
}

fn row<const N: usize>(params: &[f32], place: usize) -> &[f32; N] {
    params[place..].first_chunk().expect("every tensor lies inside the parameters")
}

fn row_mut<const N: usize>(params: &mut [f32], place: usize) -> &mut [f32; N] {
    params[place..].first_chunk_mut().expect("every tensor lies inside the parameters")
}

/// `e^x` for `x <= 0`, by a short series and six squarings: unlike libm's it is vectorised and
/// equal everywhere.
fn exponential(x: f32) -> f32 {
    let small = x.max(-64.0) / 64.0;
    let series = 1.0 + small / 5.0;
    let series = 1.0 + small / 4.0 * series;
    let series = 1.0 + small / 3.0 * series;
    let series = 1.0 + small / 2.0 * series;
    let mut power = 1.0 + small * series;
    for _ in 0..6 {
        power *= power;
    }
    power
}

/// Parameters of the model.
pub(super) const PARAMETERS: usize = OLDER + WIDTH * HIDDEN;

const WIDTH: usize = 16;
const HIDDEN: usize = 16;
const LANES: usize = 8;
const EMBEDDING: usize = 0;
const HEAD_BIAS: usize = EMBEDDING + SYMBOLS * WIDTH;
const HEAD: usize = HEAD_BIAS + SYMBOLS;
const HIDDEN_BIAS: usize = HEAD + HIDDEN * SYMBOLS;
const NEWER_SKIP: usize = HIDDEN_BIAS + HIDDEN;
const NEWER: usize = NEWER_SKIP + WIDTH * SYMBOLS;
const OLDER_SKIP: usize = NEWER + WIDTH * HIDDEN;
const OLDER: usize = OLDER_SKIP + WIDTH * SYMBOLS;

// The dot product would drop what does not fill its lanes.
const _: () = assert!(WIDTH.is_multiple_of(LANES));
const _: () = assert!(HIDDEN.is_multiple_of(LANES));
const _: () = assert!(SYMBOLS.is_multiple_of(LANES));

#[cfg(test)]
mod tests {
    use atoll_protocol::rng::Rng;

    use super::*;

    #[test]
    fn tensors_are_the_layout() {
        let tensors = tensors();
        assert!(tensors.is_sorted_by(|a, b| a.name < b.name));
        let sizes = tensors.iter().map(|tensor| tensor.shape.iter().product::<u32>());
        assert_eq!(sizes.sum::<u32>(), u32::try_from(PARAMETERS).unwrap());
    }

    #[test]
    fn exponential_is_close() {
        for step in 0..200_u16 {
            let x = -f32::from(step) / 10.0;
            assert!((exponential(x) - x.exp()).abs() <= 2e-5 * x.exp().max(0.01), "{x}");
        }
    }

    #[test]
    fn gradient_is_the_slope_of_the_loss() {
        let mut rng = Rng::new(1);
        let mut draw = || f32::from(u16::try_from(rng.below(2000)).unwrap()) / 1000.0 - 1.0;
        let params: Vec<f32> = (0..PARAMETERS).map(|_| draw()).collect();
        let mut gradient = vec![0.0; PARAMETERS];
        backward(&params, &mut gradient, &forward(&params, 4, 7), (4, 7), 2);
        let loss = |params: &[f32]| {
            let pass = forward(params, 4, 7);
            f64::from(pass.sum).ln() - f64::from(pass.logits[2])
        };
        for place in (0..PARAMETERS).step_by(7) {
            let (mut above, mut below) = (params.clone(), params.clone());
            above[place] += 0.01;
            below[place] -= 0.01;
            let slope = (loss(&above) - loss(&below)) / 0.02;
            assert!((slope - f64::from(gradient[place])).abs() < 2e-3, "parameter {place}");
        }
    }
}

//! The whole model: gradients, threads, bits and learning.

use super::decoder::Decoder;
use super::optimiser::Optimiser;
use super::*;
use crate::island::settings::Settings;
use atoll_protocol::genesis::{Genesis, InnerOptimiser, Model as GenesisModel};

fn small(tied: bool) -> (Shape, Layout, Vec<f32>) {
    let model = GenesisModel::Llama {
        vocab: 29,
        width: 24,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        hidden: 20,
        context: 80,
        tied,
        rope_theta: 100.0,
        norm_epsilon: 1e-5,
    };
    let genesis = Genesis::new("cpu", model);
    let layout = Layout::new(&genesis);
    let mut parameters = layout.initial(&genesis);
    // Larger weights than at the start of a run, so that every path carries a gradient.
    parameters.iter_mut().for_each(|value| *value *= if *value == 1.0 { 1.2 } else { 8.0 });
    (Shape::of(&model).unwrap(), layout, parameters)
}

fn tokens(seed: u32, count: u32) -> Vec<u32> {
    (0..count).map(|at| (at * 7 + seed * 11 + at * at % 13) % 29).collect()
}

#[test]
fn the_gradient_is_that_of_central_differences() {
    for tied in [true, false] {
        let (shape, layout, mut parameters) = small(tied);
        let mut llama = Llama::new(shape, &layout, 70, 1).unwrap();
        let batch = tokens(1, 71 * 2);
        llama.gradient(&parameters, &batch);
        let gradient = llama.gradients().mean();
        for place in layout.tensors() {
            // Along its own gradient a tensor's loss changes by the square of the norm.
            let part = &gradient[place.range.clone()];
            let norm = part.iter().map(|&it| f64::from(it) * f64::from(it)).sum::<f64>().sqrt();
            assert!(norm > 1e-6, "{} has no gradient", place.name);
            let kept = parameters[place.range.clone()].to_vec();
            let mut loss = |step: f64| {
                for ((value, &kept), &along) in
                    parameters[place.range.clone()].iter_mut().zip(&kept).zip(part)
                {
                    *value = narrow(f64::from(kept) + step * f64::from(along) / norm);
                }
                llama.loss(&parameters, &batch)
            };
            let step = 3e-3;
            let slope = (loss(step) - loss(-step)) / (2.0 * step);
            parameters[place.range.clone()].copy_from_slice(&kept);
            assert!((slope / norm - 1.0).abs() < 0.01, "{}: {slope}, {norm}", place.name);
        }
    }
}

#[test]
fn rounded_products_give_nearly_the_same_gradient_and_learn_as_well() {
    let Some(bf16) = Precision::bf16() else {
        eprintln!("skipped: this processor has no unit for bf16");
        return;
    };
    let norm = |it: &[f32]| it.iter().map(|&it| f64::from(it).powi(2)).sum::<f64>().sqrt();
    for optimiser in [InnerOptimiser::AdamW, InnerOptimiser::muon()] {
        let [(exact, exact_loss), (rounded, rounded_loss)] = [Precision::F32, bf16].map(|it| {
            let (shape, layout, mut parameters) = small(true);
            let mut llama = Llama::new(shape, &layout, 64, 2).unwrap().in_precision(it);
            let settings = Settings { optimiser, ..Settings::default() };
            let mut inner = Optimiser::new(&layout, settings).in_precision(it);
            let batch = tokens(3, 65 * 4);
            llama.gradient(&parameters, &batch);
            let gradient = llama.gradients().mean();
            llama.gradients().clear();
            let loss = (0..40).map(|_| {
                let loss = llama.gradient(&parameters, &batch);
                inner.step(&mut parameters, llama.gradients(), 3e-3).unwrap();
                loss
            });
            (gradient, loss.last().unwrap())
        });
        let apart: Vec<f32> = exact.iter().zip(&rounded).map(|(one, two)| one - two).collect();
        let relative = norm(&apart) / norm(&exact);
        assert!(relative > 0.0 && relative < 0.03, "{relative}");
        assert!((exact_loss - rounded_loss).abs() < 0.05, "{exact_loss}, {rounded_loss}");
    }
}

#[test]
fn single_parameters_have_the_slope_that_the_gradient_says() {
    let (shape, layout, mut parameters) = small(false);
    let mut llama = Llama::new(shape, &layout, 9, 1).unwrap();
    let batch = tokens(5, 10 * 3);
    llama.gradient(&parameters, &batch);
    let gradient = llama.gradients().mean();
    for index in (0..parameters.len()).step_by(97) {
        let kept = parameters[index];
        parameters[index] = kept + 1e-2;
        let above = llama.loss(&parameters, &batch);
        parameters[index] = kept - 1e-2;
        let below = llama.loss(&parameters, &batch);
        parameters[index] = kept;
        let slope = (above - below) / 2e-2;
        let error = (slope - f64::from(gradient[index])).abs();
        assert!(error < 2e-4 + 0.02 * slope.abs(), "{index}: {slope}, {}", gradient[index]);
    }
}

fn train(threads: usize, optimiser: InnerOptimiser, batches: usize) -> (Vec<f32>, Vec<f32>) {
    let (shape, layout, mut parameters) = small(true);
    let mut llama = Llama::new(shape, &layout, 16, threads).unwrap();
    let settings = Settings { optimiser, ..Settings::default() };
    let mut optimiser = Optimiser::new(&layout, settings);
    let mut losses = Vec::new();
    for step in 0..5 {
        for batch in 0..batches {
            let count = 17 * 60 / batches;
            let all = tokens(step, 17 * 60);
            losses.push(llama.gradient(&parameters, &all[batch * count..][..count]));
        }
        optimiser.step(&mut parameters, llama.gradients(), 1e-3).unwrap();
    }
    (losses, parameters)
}

fn furthest(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).fold(0.0, |most, (one, other)| f32::max(most, (one - other).abs()))
}

#[test]
fn the_same_threads_give_the_same_bits() {
    for optimiser in [InnerOptimiser::AdamW, InnerOptimiser::muon()] {
        for threads in [1, 2, 3] {
            assert_eq!(train(threads, optimiser, 1), train(threads, optimiser, 1));
        }
    }
}

#[test]
fn threads_and_small_batches_change_no_more_than_rounding() {
    let (losses, parameters) = train(1, InnerOptimiser::AdamW, 1);
    for threads in [2, 3, 4] {
        let (others, moved) = train(threads, InnerOptimiser::AdamW, 1);
        assert!(furthest(&losses, &others) < 1e-4);
        assert!(furthest(&parameters, &moved) < 2e-3);
    }
    let (_, moved) = train(1, InnerOptimiser::AdamW, 3);
    assert!(furthest(&parameters, &moved) < 2e-3);
}

#[test]
fn a_batch_is_learned_by_heart() {
    for optimiser in [InnerOptimiser::AdamW, InnerOptimiser::muon()] {
        let (shape, layout, mut parameters) = small(true);
        let mut llama = Llama::new(shape, &layout, 16, 2).unwrap();
        let settings = Settings { optimiser, weight_decay: 0.0, ..Settings::default() };
        let mut optimiser = Optimiser::new(&layout, settings);
        let batch = tokens(3, 17 * 4);
        let mut loss = f32::INFINITY;
        for _ in 0..150 {
            loss = llama.gradient(&parameters, &batch);
            optimiser.step(&mut parameters, llama.gradients(), 0.01).unwrap();
        }
        assert!(loss < 0.1, "{}: {loss}", settings.optimiser.name());
        assert!((llama.loss(&parameters, &batch) - f64::from(loss)).abs() < 0.1);
    }
}

#[test]
fn a_step_without_numbers_is_not_taken() {
    let (shape, layout, mut parameters) = small(true);
    let mut llama = Llama::new(shape, &layout, 16, 2).unwrap();
    let mut optimiser = Optimiser::new(&layout, Settings::default());
    let batch = tokens(3, 17 * 4);
    llama.gradient(&parameters, &batch);
    optimiser.step(&mut parameters, llama.gradients(), 0.01).unwrap();
    let (kept, moments) = (parameters.clone(), optimiser.moments().clone());
    let mut broken = parameters.clone();
    broken[layout.tensor("model.norm.weight").unwrap().range.start] = f32::NAN;
    assert!(!llama.gradient(&broken, &batch).is_finite());
    let refused = optimiser.step(&mut parameters, llama.gradients(), 0.01);
    assert!(refused.is_err());
    assert!(parameters == kept && *optimiser.moments() == moments);
    // Nothing of it is left for the next step.
    llama.gradient(&parameters, &batch);
    assert!(optimiser.step(&mut parameters, llama.gradients(), 0.01).unwrap().is_finite());
    assert!(parameters.iter().all(|value| value.is_finite()));
}

#[test]
fn empty_moments_warm_up() {
    let moved = |warm_up: u32| {
        let (shape, layout, mut parameters) = small(true);
        let before = parameters.clone();
        let mut llama = Llama::new(shape, &layout, 16, 1).unwrap();
        let settings = Settings { warm_up, weight_decay: 0.0, ..Settings::default() };
        let mut optimiser = Optimiser::new(&layout, settings);
        llama.gradient(&parameters, &tokens(3, 17 * 4));
        optimiser.step(&mut parameters, llama.gradients(), 0.01).unwrap();
        assert!(optimiser.moments().steps.iter().all(|&steps| steps == 1));
        furthest(&before, &parameters)
    };
    // The first step of AdamW moves by the whole learning rate, damped by the warm-up.
    assert!((moved(1) / 0.01 - 1.0).abs() < 0.02);
    assert!((moved(10) / 0.001 - 1.0).abs() < 0.02);
}

#[test]
fn the_decoder_foretells_what_the_model_learned_from() {
    for tied in [true, false] {
        let (shape, layout, parameters) = small(tied);
        let mut llama = Llama::new(shape, &layout, 79, 1).unwrap();
        let mut decoder = Decoder::new(shape, &layout).unwrap();
        let sequence = tokens(8, 80);
        for _ in 0..2 {
            let mut loss = 0.0;
            for pair in sequence.windows(2) {
                let logits = decoder.next(&parameters, pair[0]).unwrap();
                let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
                loss += total.ln() - f64::from(logits[pair[1] as usize]);
            }
            assert!((loss / 79.0 - llama.loss(&parameters, &sequence)).abs() < 1e-4);
            assert!(decoder.next(&parameters, 0).is_some());
            assert!(decoder.next(&parameters, 0).is_none());
            assert_eq!(decoder.position(), 80);
            decoder.reset();
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (shape, layout, _) = small(true);
    let refused = |shape, sequence, threads| {
        Llama::new(shape, &layout, sequence, threads).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(refused(shape, 81, 1), "a sequence of 81 tokens: allowed 1 to 80");
    assert_eq!(
        refused(Shape { tied: false, ..shape }, 8, 1),
        "the run has no tensor lm_head.weight"
    );
    assert!(refused(Shape { hidden: 21, ..shape }, 8, 1).contains("is [20, 24]"));
    assert!(refused(Shape { heads: 5, ..shape }, 8, 1).starts_with("5 heads"));
    assert!(refused(shape, 8, 0).starts_with("0 threads"));
}

#[test]
fn a_gradient_in_pieces_is_the_same_to_the_bit() {
    for threads in [1, 2] {
        let (shape, layout, parameters) = small(true);
        let batch = tokens(2, 71 * 40);
        let [whole, pieces] = [false, true].map(|pause| {
            let mut llama = Llama::new(shape, &layout, 70, threads).unwrap();
            let (mut calls, mut loss) = (1, None);
            while loss.is_none() {
                loss = llama.gradient_until(&parameters, &batch, &|| pause);
                calls += usize::from(loss.is_none());
            }
            (calls, loss, llama.gradients().mean())
        });
        assert_eq!(whole.0, 1);
        // Seven sequences at a time, on so many threads.
        assert!(pieces.0 >= 3, "{} calls", pieces.0);
        assert!(whole.1 == pieces.1 && whole.2 == pieces.2);
    }
}

#[test]
fn what_was_given_up_leaves_no_trace() {
    let (shape, layout, parameters) = small(true);
    let [begun, batch] = [3, 4].map(|seed| tokens(seed, 71 * 20));
    let mut llama = Llama::new(shape, &layout, 70, 1).unwrap();
    assert_eq!(llama.gradient_until(&parameters, &begun, &|| true), None);
    llama.give_up();
    let loss = llama.gradient(&parameters, &batch);
    let mut other = Llama::new(shape, &layout, 70, 1).unwrap();
    assert_eq!(other.gradient(&parameters, &batch), loss);
    assert!(other.gradients().mean() == llama.gradients().mean());
}

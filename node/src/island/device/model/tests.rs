use atoll_protocol::genesis::{Genesis, Inner, InnerOptimiser, Model};

use super::*;

fn genesis(tied: bool) -> Genesis {
    let model = Model::Llama {
        vocab: 11,
        width: 8,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        hidden: 12,
        context: 6,
        tied,
        rope_theta: 100.0,
        norm_epsilon: 1e-5,
    };
    Genesis::new("tiny", model)
}

/// Parameters large enough that every tensor's gradient stands out of f32's noise.
fn lively(layout: &Layout, genesis: &Genesis) -> Vec<f32> {
    let lift = |(index, value): (usize, f32)| 10.0 * value + 0.05 * (index as f32).sin();
    let mut values: Vec<f32> = layout.initial(genesis).into_iter().enumerate().map(lift).collect();
    for place in layout.tensors().iter().filter(|place| place.shape.len() == 1) {
        values[place.range.clone()].iter_mut().for_each(|value| *value /= 10.0);
    }
    values
}

fn model(tied: bool) -> (DeviceModel, Vec<f32>) {
    let genesis = genesis(tied);
    let layout = Layout::new(&genesis);
    let parameters = lively(&layout, &genesis);
    let shape = Shape::of(&genesis.model).unwrap();
    (DeviceModel::new(shape, layout, &Device::cpu(), &parameters).unwrap(), parameters)
}

fn fragments(model: &DeviceModel) -> Vec<FragmentId> {
    model.layout().fragments().map(|(fragment, _)| fragment).collect()
}

fn set_all(model: &mut DeviceModel, parameters: &[f32]) {
    for fragment in fragments(model) {
        let range = model.layout().fragment(fragment).unwrap();
        model.write(fragment, &parameters[range]).unwrap();
    }
}

fn all(model: &DeviceModel) -> Vec<f32> {
    let mut values = vec![0.0; model.layout().elements()];
    for fragment in fragments(model) {
        let range = model.layout().fragment(fragment).unwrap();
        model.read(fragment, &mut values[range]).unwrap();
    }
    values
}

const TOKENS: [u32; 15] = [1, 4, 10, 0, 3, 7, 2, 2, 9, 5, 6, 8, 1, 0, 4];

#[test]
fn gradients_are_those_of_central_differences() {
    for tied in [true, false] {
        let (mut model, parameters) = model(tied);
        let batch = Batch::new(&TOKENS, 4).unwrap();
        let (_, gradient) = model.loss_and_gradient(batch).unwrap();
        for place in model.layout().tensors().to_vec() {
            // Along a direction of the whole tensor the difference is far above rounding.
            let direction: Vec<f32> =
                place.range.clone().map(|index| (index as f32 * 1.7).cos().signum()).collect();
            let slope: f32 =
                gradient[place.range.clone()].iter().zip(&direction).map(|(g, d)| g * d).sum();
            let mut loss_at = |step: f32| {
                let mut moved = parameters.clone();
                for (value, sign) in moved[place.range.clone()].iter_mut().zip(&direction) {
                    *value += step * sign;
                }
                set_all(&mut model, &moved);
                model.evaluate(&[batch]).unwrap()
            };
            // Four points instead of two, so that the curvature cancels and only rounding is left.
            let near = loss_at(STEP) - loss_at(-STEP);
            let far = loss_at(2.0 * STEP) - loss_at(-2.0 * STEP);
            let difference = (8.0 * near - far) / (12.0 * f64::from(STEP));
            let error = (difference - f64::from(slope)).abs();
            let bound = 2e-3 * difference.abs().max(0.1);
            assert!(error < bound, "tied {tied}, {}: {difference} against {slope}", place.name);
        }
    }
}

#[test]
fn every_single_gradient_is_that_of_a_difference() {
    let (mut model, parameters) = model(true);
    let batch = Batch::new(&TOKENS, 4).unwrap();
    let (_, gradient) = model.loss_and_gradient(batch).unwrap();
    for index in (0..parameters.len()).step_by(7) {
        let mut loss_at = |step: f32| {
            let mut moved = parameters.clone();
            moved[index] += step;
            set_all(&mut model, &moved);
            model.evaluate(&[batch]).unwrap()
        };
        let difference = (loss_at(0.01) - loss_at(-0.01)) / 0.02;
        let error = (difference - f64::from(gradient[index])).abs();
        assert!(error < 1e-3, "{index}: {difference} against {}", gradient[index]);
    }
}

#[test]
fn later_tokens_do_not_change_earlier_logits() {
    let (model, _) = model(false);
    let one = model.logits(Batch::new(&[1, 2, 3, 4, 5], 4).unwrap()).unwrap();
    let other = model.logits(Batch::new(&[1, 2, 9, 8, 5], 4).unwrap()).unwrap();
    assert_eq!(one[..22], other[..22]);
    assert_ne!(one[22..], other[22..]);
    let next = model.next_logits(&[1, 2, 3, 4]).unwrap();
    for (value, expected) in next.iter().zip(&one[33..]) {
        assert!((value - expected).abs() < 1e-5);
    }
}

#[test]
fn steps_lower_the_loss_and_repeat_bit_for_bit() {
    let run = |split: usize| {
        let (mut model, _) = model(true);
        let batches: Vec<_> =
            TOKENS.chunks(split).map(|rows| Batch::new(rows, 4).unwrap()).collect();
        let mut losses = Vec::new();
        for _ in 0..20 {
            losses.push(model.step(&batches, &Settings::default(), 0.01).unwrap().loss);
        }
        (losses, all(&model))
    };
    let (losses, parameters) = run(15);
    assert!(losses[19] < 0.6 * losses[0], "{losses:?}");
    assert_eq!((losses.clone(), parameters), run(15));
    // Accumulating row by row is the same up to rounding.
    for (one, other) in losses.iter().zip(run(5).0) {
        assert!((one - other).abs() < 1e-3, "{one} against {other}");
    }
}

#[test]
fn moments_and_parameters_are_all_that_a_restart_needs() {
    let batch = Batch::new(&TOKENS, 4).unwrap();
    let (mut whole, _) = model(true);
    let train = |model: &mut DeviceModel| {
        for _ in 0..3 {
            model.step(&[batch], &Settings::default(), 0.01).unwrap();
        }
    };
    train(&mut whole);
    let ([first, second], parameters) = (whole.moments().unwrap(), all(&whole));
    train(&mut whole);
    let (mut restored, _) = model(true);
    set_all(&mut restored, &parameters);
    restored.restore_moments([&first, &second], 3).unwrap();
    train(&mut restored);
    assert_eq!(all(&whole), all(&restored));
}

#[test]
fn clipping_bounds_the_first_moment() {
    let (mut model, _) = model(true);
    let inner = Inner { optimiser: InnerOptimiser::AdamW, ..Inner::default() };
    let settings = Settings { clip: 1e-3, ..Settings::of(&inner) };
    let step = model.step(&[Batch::new(&TOKENS, 4).unwrap()], &settings, 0.01).unwrap();
    assert!(step.gradient_norm > 0.1);
    let [first, _] = model.moments().unwrap();
    let norm = first.iter().map(|value| value * value).sum::<f32>().sqrt();
    assert!((norm / (1e-3 * 0.1) - 1.0).abs() < 1e-3, "{norm}");
}

#[test]
fn bad_input_changes_nothing() {
    let (mut model, parameters) = model(true);
    let settings = Settings::default();
    let outside = [1, 2, 11];
    let long = [0; 9];
    let error = model.step(&[Batch::new(&outside, 2).unwrap()], &settings, 0.1).unwrap_err();
    assert!(matches!(error, DeviceError::Token { token: 11, vocab: 11 }));
    let error = model.step(&[Batch::new(&long, 8).unwrap()], &settings, 0.1).unwrap_err();
    assert!(matches!(error, DeviceError::TooLong { sequence: 8, context: 6 }));
    assert!(matches!(model.step(&[], &settings, 0.1), Err(DeviceError::Batch { .. })));
    assert!(matches!(model.write(FragmentId(0), &[0.0]), Err(DeviceError::Length { .. })));
    assert!(matches!(model.write(FragmentId(99), &[]), Err(DeviceError::Fragment(99))));
    assert_eq!(all(&model), parameters);
    let mut broken = parameters.clone();
    broken[3] = f32::NAN;
    set_all(&mut model, &broken);
    let batch = Batch::new(&TOKENS, 4).unwrap();
    assert!(matches!(model.step(&[batch], &settings, 0.1), Err(DeviceError::Diverged { .. })));
    assert_eq!(model.steps(), 0);
}

const STEP: f32 = 2e-3;

//! The inner optimiser: AdamW for everything, or Muon for matrices and AdamW for the rest.

mod job;
pub mod moments;

use atoll_kernels::adamw::{AdamW, square_norm};
use atoll_kernels::multiplier::{Multiplier, Precision};
use atoll_kernels::muon::Muon;
use atoll_protocol::genesis::TensorKind;
use thiserror::Error;

use self::job::{Job, Rule, Scratch};
use self::moments::Moments;
use super::gradients::Gradients;
use super::threads::Threads;
use crate::island::layout::{Layout, Place};
use crate::island::settings::Settings;

/// The inner optimiser and its moments.
#[derive(Debug)]
pub struct Optimiser {
    settings: Settings,
    tensors: Vec<Tensor>,
    moments: Moments,
    precision: Precision,
    /// What Muon needs, one for each thread.
    scratch: Vec<Scratch>,
    /// Squares of the gradient, a piece at a time, so that their sum never depends on timing.
    squares: Vec<f64>,
}

impl Optimiser {
    /// An optimiser with empty moments.
    pub fn new(layout: &Layout, settings: Settings) -> Self {
        let mut order: Vec<usize> = (0..layout.tensors().len()).collect();
        order.sort_by_key(|&index| layout.tensors()[index].range.start);
        let tensor = |index: usize| Tensor::new(index, &layout.tensors()[index], &settings);
        Self {
            settings,
            tensors: order.into_iter().map(tensor).collect(),
            moments: Moments::empty(layout),
            precision: Precision::F32,
            scratch: Vec::new(),
            squares: vec![0.0; layout.elements().div_ceil(PIECE)],
        }
    }

    /// The same, with products of another precision than f32.
    #[must_use]
    pub fn in_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Takes one step with the mean gradient per token, clears the gradients, and returns the
    /// norm of that mean before clipping.
    ///
    /// If the loss or the gradient is no number, parameters and moments stay as they are.
    ///
    /// # Panics
    /// If parameters, gradients and moments are of different layouts.
    pub fn step(
        &mut self,
        parameters: &mut [f32],
        gradients: &mut Gradients,
        learning_rate: f32,
    ) -> Result<f32, NotFinite> {
        assert_eq!(parameters.len(), self.moments.first.len(), "parameters of another layout");
        assert_eq!(parameters.len(), gradients.elements(), "gradients of another layout");
        if gradients.tokens() == 0 {
            return Ok(0.0);
        }
        let norm = self.norm(gradients);
        if !norm.is_finite() || !gradients.finite() {
            gradients.clear();
            return Err(NotFinite { norm });
        }
        let clip = if norm > self.settings.clip { self.settings.clip / norm } else { 1.0 };
        let scale = clip / gradients.tokens() as f32;
        self.run(parameters, gradients, learning_rate, scale);
        gradients.begin();
        Ok(norm)
    }

    /// The numbers that a checkpoint keeps.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// The numbers that a checkpoint keeps, to be set; lengths must stay as they are.
    pub fn moments_mut(&mut self) -> &mut Moments {
        &mut self.moments
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Norm of the mean gradient per token.
    fn norm(&mut self, gradients: &mut Gradients) -> f32 {
        let (len, tokens) = (gradients.elements(), gradients.tokens());
        let (threads, parts) = gradients.parts();
        let parts = &*parts;
        let pieces = self.squares.iter_mut().enumerate();
        threads.run(&mut vec![(); threads.count()], pieces, |(), (index, square)| {
            let range = index * PIECE..((index + 1) * PIECE).min(len);
            let pieces: Vec<&[f32]> = parts.iter().map(|part| &part[range.clone()]).collect();
            *square = square_norm(&pieces);
        });
        narrow(self.squares.iter().sum::<f64>().sqrt() / tokens as f64)
    }

    fn run(
        &mut self,
        parameters: &mut [f32],
        gradients: &mut Gradients,
        learning_rate: f32,
        scale: f32,
    ) {
        let (threads, parts) = gradients.parts();
        self.make_room(threads);
        let Moments { first, second, steps } = &mut self.moments;
        let mut rest = Job {
            parameters,
            first,
            second,
            gradients: parts.iter_mut().map(Vec::as_mut_slice).collect(),
            rule: Rule::Nothing,
        };
        let mut jobs = Vec::new();
        for tensor in &self.tensors {
            steps[tensor.index] += 1;
            let rule = tensor.rule(&self.settings, steps[tensor.index], learning_rate, scale);
            jobs.extend(tensor.pieces().map(|piece| rest.split_off(piece, rule)));
        }
        threads.run(&mut self.scratch, jobs.into_iter(), |scratch, mut job| job.run(scratch));
    }

    /// Gives each thread the scratch that the largest matrix needs.
    fn make_room(&mut self, threads: &Threads) {
        let room = self.tensors.iter().map(|tensor| tensor.scratch).max().unwrap_or(0);
        let precision = self.precision;
        self.scratch.resize_with(threads.count(), || Scratch {
            values: vec![0.0; room],
            multiplier: Multiplier::new(if room == 0 { Precision::F32 } else { precision }, 0),
        });
    }
}

/// The loss or the gradient is no number any more; the step was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("the gradient's norm is {norm}, or the loss is no number: the step was not taken")]
pub struct NotFinite {
    /// What the norm was.
    pub norm: f32,
}

/// What the optimiser knows about one tensor.
#[derive(Debug)]
struct Tensor {
    /// Its number in name order.
    index: usize,
    len: usize,
    rows: usize,
    /// Decay of Muon's momentum, if Muon treats it.
    muon: Option<f32>,
    decays: bool,
    /// Length of the scratch it needs.
    scratch: usize,
}

impl Tensor {
    fn new(index: usize, place: &Place, settings: &Settings) -> Self {
        let muon = settings.muon_momentum(place);
        let rows = place.shape.first().copied().unwrap_or(1);
        let (len, columns) = (place.range.len(), place.range.len() / rows.max(1));
        Self {
            index,
            len,
            rows,
            muon,
            decays: place.kind != TensorKind::Vector,
            scratch: muon.map_or(0, |_| Muon::scratch(rows, columns)),
        }
    }

    /// Lengths of the pieces that may be worked on apart.
    fn pieces(&self) -> impl Iterator<Item = usize> {
        let piece = if self.muon.is_some() { self.len.max(1) } else { PIECE };
        let len = self.len;
        (0..len).step_by(piece).map(move |start| piece.min(len - start))
    }

    fn rule(&self, settings: &Settings, steps: u64, learning_rate: f32, scale: f32) -> Rule {
        let learning_rate = learning_rate * settings.warmth(steps);
        let weight_decay = if self.decays { settings.weight_decay } else { 0.0 };
        if let Some(decay) = self.muon {
            let step = Muon { learning_rate, decay, weight_decay, gradient_scale: scale };
            return Rule::Muon(step, self.rows);
        }
        Rule::AdamW(AdamW {
            learning_rate,
            first_decay: settings.first_decay,
            second_decay: settings.second_decay,
            epsilon: settings.epsilon,
            weight_decay,
            steps,
            gradient_scale: scale,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// Elements that one thread works on at a time.
const PIECE: usize = 1 << 16;

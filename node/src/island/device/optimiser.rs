//! The inner optimiser, on the device: AdamW, and Muon for matrices where the run says so.

use atoll_kernels::muon;
use atoll_protocol::genesis::TensorKind;
use candle_core::{Result, Tensor, Var};

use crate::island::layout::Place;
use crate::island::settings::Settings;

/// The numbers of one step, the same for every parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficients {
    settings: Settings,
    learning_rate: f64,
    /// What the gradient is multiplied by to keep its norm below the clip.
    shrink: f64,
    /// How far AdamW's two means have left zero, where they began.
    corrections: [f64; 2],
}

impl Coefficients {
    /// For the step of this number, counted from 1.
    pub(super) fn new(settings: Settings, learning_rate: f32, step: u64, norm: f64) -> Self {
        let power = i32::try_from(step).unwrap_or(i32::MAX);
        let clip = f64::from(settings.clip);
        let shrink = if norm > clip { clip / norm } else { 1.0 };
        let correction = |decay: f32| 1.0 - f64::from(decay).powi(power);
        let corrections = [correction(settings.first_decay), correction(settings.second_decay)];
        let learning_rate = f64::from(learning_rate * settings.warmth(step));
        Self { settings, learning_rate, shrink, corrections }
    }

    /// What of a parameter stays when its weights decay.
    fn keep(&self, place: &Place) -> f64 {
        let decays = place.kind != TensorKind::Vector;
        let decay = if decays { f64::from(self.settings.weight_decay) } else { 0.0 };
        1.0 - self.learning_rate * decay
    }
}

/// What the optimiser remembers of one parameter's gradients.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    /// AdamW's mean of the gradient, or Muon's momentum.
    pub(super) first: Tensor,
    /// AdamW's mean of its square; Muon leaves it as it is.
    pub(super) second: Tensor,
}

impl Moments {
    /// Those of a parameter that has seen no gradient.
    pub(super) fn new(parameter: &Var) -> Result<Self> {
        Ok(Self { first: parameter.zeros_like()?, second: parameter.zeros_like()? })
    }

    /// Trains `parameter` one step.
    ///
    /// Clipping is folded into the factors, so no clipped gradient is ever stored, and results
    /// replace the old moments instead of being copied over them.
    pub(super) fn step(
        &mut self,
        parameter: &Var,
        place: &Place,
        gradient: &Tensor,
        coefficients: &Coefficients,
    ) -> Result<()> {
        let stride = match coefficients.settings.muon_momentum(place) {
            Some(momentum) => self.muon(gradient, coefficients, f64::from(momentum))?,
            None => self.adamw(gradient, coefficients)?,
        };
        let kept = parameter.as_detached_tensor().affine(coefficients.keep(place), 0.0)?;
        parameter.set(&kept.sub(&stride)?)
    }

    fn adamw(&mut self, gradient: &Tensor, coefficients: &Coefficients) -> Result<Tensor> {
        let Coefficients { settings, learning_rate, shrink, corrections } = *coefficients;
        let (beta1, beta2) = (f64::from(settings.first_decay), f64::from(settings.second_decay));
        let fresh = gradient.affine((1.0 - beta1) * shrink, 0.0)?;
        self.first = self.first.affine(beta1, 0.0)?.add(&fresh)?;
        let fresh = gradient.sqr()?.affine((1.0 - beta2) * shrink * shrink, 0.0)?;
        self.second = self.second.affine(beta2, 0.0)?.add(&fresh)?;
        drop(fresh);
        let epsilon = f64::from(settings.epsilon);
        let divisor = self.second.sqrt()?.affine(corrections[1].sqrt().recip(), epsilon)?;
        self.first.div(&divisor)?.affine(learning_rate / corrections[0], 0.0)
    }

    fn muon(
        &mut self,
        gradient: &Tensor,
        coefficients: &Coefficients,
        momentum: f64,
    ) -> Result<Tensor> {
        let fresh = gradient.affine((1.0 - momentum) * coefficients.shrink, 0.0)?;
        self.first = self.first.affine(momentum, 0.0)?.add(&fresh)?;
        let ahead = self.first.affine(momentum, 0.0)?.add(&fresh)?;
        drop(fresh);
        let (rows, columns) = ahead.dims2()?;
        let size = coefficients.learning_rate * f64::from(muon::scale(rows, columns));
        orthogonalised(&ahead)?.affine(size, 0.0)
    }
}

/// A matrix like this one whose singular values are close to one; see [`muon::orthogonalise`].
fn orthogonalised(matrix: &Tensor) -> Result<Tensor> {
    let (rows, columns) = matrix.dims2()?;
    let norm = matrix.sqr()?.sum_all()?.sqrt()?.affine(1.0, 1e-7)?;
    let flat = if rows <= columns { matrix.clone() } else { matrix.t()?.contiguous()? };
    let mut flat = flat.broadcast_div(&norm)?;
    let (own, square, fourth) = muon::MIX;
    for _ in 0..muon::ROUNDS {
        let gram = flat.matmul(&flat.t()?)?;
        let mixed = gram.affine(f64::from(square), 0.0)?;
        let mixed = mixed.add(&gram.matmul(&gram)?.affine(f64::from(fourth), 0.0)?)?;
        flat = flat.affine(f64::from(own), 0.0)?.add(&mixed.matmul(&flat)?)?;
    }
    if rows <= columns { Ok(flat) } else { flat.t()?.contiguous() }
}

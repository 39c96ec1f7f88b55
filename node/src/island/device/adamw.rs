//! The inner optimiser, on the device.

use candle_core::{Result, Tensor, Var};

/// The settings of AdamW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// How much of the mean of gradients stays at each step.
    pub beta1: f64,
    /// How much of the mean of their squares stays at each step.
    pub beta2: f64,
    /// What is added before dividing.
    pub epsilon: f64,
    /// Share of a matrix, times the learning rate, that each step takes away; vectors keep all.
    pub weight_decay: f64,
    /// Largest norm of the whole gradient; a larger one is scaled down to it.
    pub clip: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, clip: 1.0 }
    }
}

/// The numbers of one step, the same for every parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficients {
    settings: AdamW,
    learning_rate: f64,
    /// What the gradient is multiplied by to keep its norm below the clip.
    shrink: f64,
    /// How far the two means have left zero, where they began.
    corrections: [f64; 2],
}

impl Coefficients {
    /// For the step of this number, counted from 1.
    pub(super) fn new(settings: AdamW, learning_rate: f64, step: u64, norm: f64) -> Self {
        let power = i32::try_from(step).unwrap_or(i32::MAX);
        let shrink = if norm > settings.clip { settings.clip / norm } else { 1.0 };
        let corrections = [1.0 - settings.beta1.powi(power), 1.0 - settings.beta2.powi(power)];
        Self { settings, learning_rate, shrink, corrections }
    }
}

/// The running means of one parameter's gradient and of its square.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    /// Mean of the gradient.
    pub(super) first: Tensor,
    /// Mean of its square.
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
    /// replace the old means instead of being copied over them.
    pub(super) fn step(
        &mut self,
        parameter: &Var,
        gradient: &Tensor,
        coefficients: &Coefficients,
    ) -> Result<()> {
        let Coefficients { settings, learning_rate, shrink, corrections } = *coefficients;
        let AdamW { beta1, beta2, epsilon, weight_decay, .. } = settings;
        let fresh = gradient.affine((1.0 - beta1) * shrink, 0.0)?;
        self.first = self.first.affine(beta1, 0.0)?.add(&fresh)?;
        let fresh = gradient.sqr()?.affine((1.0 - beta2) * shrink * shrink, 0.0)?;
        self.second = self.second.affine(beta2, 0.0)?.add(&fresh)?;
        drop(fresh);
        let divisor = self.second.sqrt()?.affine(corrections[1].sqrt().recip(), epsilon)?;
        let stride = self.first.div(&divisor)?.affine(learning_rate / corrections[0], 0.0)?;
        drop(divisor);
        let decay = if parameter.rank() > 1 { learning_rate * weight_decay } else { 0.0 };
        let kept = parameter.as_detached_tensor().affine(1.0 - decay, 0.0)?;
        parameter.set(&kept.sub(&stride)?)
    }
}

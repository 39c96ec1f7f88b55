//! The model on a device, with its optimiser.

use std::ops::Range;

use atoll_protocol::id::FragmentId;
use candle_core::{Result as Candle, Tensor, Var};

use super::Device;
use super::batch::Batch;
use super::decoder::Decoder;
use super::error::DeviceError;
use super::memory::MemoryNeed;
use super::optimiser::{Coefficients, Moments};
use crate::island::layout::{Layout, Place};
use crate::island::settings::Settings;
use crate::island::shape::Shape;

/// The model on a device, with its optimiser.
///
/// Everything is walked in the layout's order of names, so results do not depend on chance.
#[derive(Debug)]
pub struct DeviceModel {
    shape: Shape,
    layout: Layout,
    device: Device,
    parameters: Vec<Var>,
    moments: Vec<Moments>,
    steps: u64,
    decoder: Decoder,
}

/// What one step on a device did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceStep {
    /// Mean loss in nats per token, before the step.
    pub loss: f32,
    /// Norm of the gradient before clipping.
    pub gradient_norm: f32,
}

impl DeviceModel {
    /// The model with these parameters, which are in the layout's order, and empty moments.
    pub fn new(
        shape: Shape,
        layout: Layout,
        device: &Device,
        parameters: &[f32],
    ) -> Result<Self, DeviceError> {
        check_length("the model", layout.elements(), parameters.len())?;
        let build = || {
            let places = layout.tensors().iter();
            let variable = |it: &Place| {
                Var::from_slice(&parameters[it.range.clone()], it.shape.as_slice(), &device.0)
            };
            let variables = places.map(variable).collect::<Candle<Vec<_>>>()?;
            let moments = variables.iter().map(Moments::new).collect::<Candle<_>>()?;
            let decoder = Decoder::new(shape, &layout, &variables, &device.0)?;
            Ok((variables, moments, decoder))
        };
        let need = MemoryNeed::new(&shape, layout.elements(), 1, 1);
        let (parameters, moments, decoder) = build().map_err(|error: candle_core::Error| {
            DeviceError::from_candle(&error, &device.to_string(), &need.advice())
        })?;
        let device = device.clone();
        Ok(Self { shape, layout, device, parameters, moments, steps: 0, decoder })
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Where each parameter lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Steps taken, which the optimiser's corrections depend on.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Trains one step on all `batches` together, each weighing as much as it has predictions.
    ///
    /// Several batches need no more memory than the largest and a second gradient. On an error
    /// that comes before the optimiser's turn, and on [`DeviceError::Diverged`], nothing changed.
    pub fn step(
        &mut self,
        batches: &[Batch<'_>],
        settings: &Settings,
        learning_rate: f32,
    ) -> Result<DeviceStep, DeviceError> {
        let (loss, gradients) = self.gradients(batches)?;
        let advise = |error| self.explain(&error, batches);
        let norm = norm(&gradients).map_err(advise)?;
        if !loss.is_finite() || !norm.is_finite() {
            return Err(DeviceError::Diverged { loss, gradient_norm: narrow(norm) });
        }
        let coefficients = Coefficients::new(*settings, learning_rate, self.steps + 1, norm);
        let tensors = self.parameters.iter().zip(&mut self.moments);
        let tensors = tensors.zip(self.layout.tensors()).zip(gradients);
        let mut outcome = Ok(());
        for (((parameter, moments), place), gradient) in tensors {
            outcome =
                outcome.and_then(|()| moments.step(parameter, place, &gradient, &coefficients));
        }
        outcome.map_err(|error| self.explain(&error, batches))?;
        self.steps += 1;
        Ok(DeviceStep { loss, gradient_norm: narrow(norm) })
    }

    /// Mean loss of a batch and its gradient, in the layout's order.
    pub fn loss_and_gradient(&self, batch: Batch<'_>) -> Result<(f32, Vec<f32>), DeviceError> {
        let (loss, gradients) = self.gradients(&[batch])?;
        let mut flat = vec![0.0; self.layout.elements()];
        for (place, gradient) in self.layout.tensors().iter().zip(&gradients) {
            let values = values_of(gradient).map_err(|error| self.explain(&error, &[batch]))?;
            flat[place.range.clone()].copy_from_slice(&values);
        }
        Ok((loss, flat))
    }

    /// Mean loss in nats per token over `batches`.
    pub fn evaluate(&self, batches: &[Batch<'_>]) -> Result<f64, DeviceError> {
        let (mut sum, mut count) = (0.0, 0.0);
        for batch in batches {
            let loss = self.detached_loss(batch)?;
            sum += f64::from(loss) * batch.predictions() as f64;
            count += batch.predictions() as f64;
        }
        if count == 0.0 { Err(DeviceError::Batch { tokens: 0, row: 0 }) } else { Ok(sum / count) }
    }

    /// Logits of every position of a batch's inputs, `predictions * vocab` values.
    pub fn logits(&self, batch: Batch<'_>) -> Result<Vec<f32>, DeviceError> {
        let (inputs, _) = self.tensors(&batch)?;
        let compute = || values_of(&self.decoder.logits(&inputs, batch.rows())?);
        compute().map_err(|error| self.explain(&error, &[batch]))
    }

    /// Logits of the token that follows `tokens`, of which the last that fit the context count.
    pub fn next_logits(&self, tokens: &[u32]) -> Result<Vec<f32>, DeviceError> {
        let tokens = &tokens[tokens.len().saturating_sub(self.shape.context)..];
        if tokens.is_empty() {
            return Err(DeviceError::Batch { tokens: 0, row: 1 });
        }
        self.check_tokens(tokens)?;
        let compute = || {
            let inputs = Tensor::new(tokens, &self.device.0)?;
            values_of(&self.decoder.last_logits(&inputs)?)
        };
        compute().map_err(|error| self.explain(&error, &[]))
    }

    /// Copies a fragment's parameters into `into`.
    pub fn read(&self, fragment: FragmentId, into: &mut [f32]) -> Result<(), DeviceError> {
        let range = self.fragment(fragment, into.len())?;
        self.copy_out(range, into, |index| self.parameters[index].as_tensor())
    }

    /// Replaces a fragment's parameters; the moments stay as they are.
    pub fn write(&mut self, fragment: FragmentId, from: &[f32]) -> Result<(), DeviceError> {
        let range = self.fragment(fragment, from.len())?;
        for (index, part) in self.places(range) {
            let shape = self.parameters[index].shape();
            let values = Tensor::from_slice(&from[part], shape, &self.device.0);
            let written = values.and_then(|values| self.parameters[index].set(&values));
            written.map_err(|error| self.explain(&error, &[]))?;
        }
        Ok(())
    }

    /// The first and second moments, each in the layout's order.
    pub fn moments(&self) -> Result<[Vec<f32>; 2], DeviceError> {
        let all = 0..self.layout.elements();
        let mut moments = [vec![0.0; all.end], vec![0.0; all.end]];
        let [first, second] = &mut moments;
        self.copy_out(all.clone(), first, |index| &self.moments[index].first)?;
        self.copy_out(all, second, |index| &self.moments[index].second)?;
        Ok(moments)
    }

    /// Goes on after `steps` steps with these moments, each in the layout's order.
    pub fn restore_moments(&mut self, moments: [&[f32]; 2], steps: u64) -> Result<(), DeviceError> {
        for values in moments {
            check_length("a moment", self.layout.elements(), values.len())?;
        }
        let load = |values: &[f32], place: &Place| {
            let part = &values[place.range.clone()];
            Tensor::from_slice(part, place.shape.as_slice(), &self.device.0)
        };
        let places = self.layout.tensors().iter();
        let pair = |place: &Place| {
            Ok(Moments { first: load(moments[0], place)?, second: load(moments[1], place)? })
        };
        let loaded: Candle<Vec<_>> = places.map(pair).collect();
        self.moments = loaded.map_err(|error| self.explain(&error, &[]))?;
        self.steps = steps;
        Ok(())
    }

    /// Mean loss over all batches and its gradients, in name order.
    fn gradients(&self, batches: &[Batch<'_>]) -> Result<(f32, Vec<Tensor>), DeviceError> {
        let all: usize = batches.iter().map(Batch::predictions).sum();
        if all == 0 {
            return Err(DeviceError::Batch { tokens: 0, row: 0 });
        }
        let (mut total, mut sums): (f32, Option<Vec<Tensor>>) = (0.0, None);
        for batch in batches {
            let (inputs, targets) = self.tensors(batch)?;
            let share = batch.predictions() as f64 / all as f64;
            let compute = || self.shared_gradients(&inputs, &targets, batch.rows(), share);
            let (loss, gradients) = compute().map_err(|error| self.explain(&error, batches))?;
            total += loss;
            let add = |sums: Vec<Tensor>| -> Candle<Vec<Tensor>> {
                sums.iter().zip(&gradients).map(|(a, b)| a.add(b)).collect()
            };
            sums = Some(match sums {
                None => gradients,
                Some(sums) => add(sums).map_err(|error| self.explain(&error, batches))?,
            });
        }
        Ok((total, sums.unwrap_or_default()))
    }

    /// `share` times the mean loss of a batch, and its gradients.
    fn shared_gradients(
        &self,
        inputs: &Tensor,
        targets: &Tensor,
        rows: usize,
        share: f64,
    ) -> Candle<(f32, Vec<Tensor>)> {
        let loss = self.decoder.loss(inputs, targets, rows)?.affine(share, 0.0)?;
        let mut gradients = loss.backward()?;
        let take = |(variable, place): (&Var, &Place)| {
            // A missing gradient would leave a tensor untrained without a word.
            let missing = || candle_core::Error::Msg(format!("no gradient reaches {}", place.name));
            gradients.remove(variable).ok_or_else(missing)
        };
        let gradients = self.parameters.iter().zip(self.layout.tensors()).map(take);
        let gradients = gradients.collect::<Candle<Vec<_>>>()?;
        Ok((loss.to_scalar()?, gradients))
    }

    fn detached_loss(&self, batch: &Batch<'_>) -> Result<f32, DeviceError> {
        let (inputs, targets) = self.tensors(batch)?;
        let compute = || self.decoder.loss(&inputs, &targets, batch.rows())?.to_scalar();
        compute().map_err(|error| self.explain(&error, &[*batch]))
    }

    /// A batch's inputs and targets on the device, checked: a card does not check indices.
    fn tensors(&self, batch: &Batch<'_>) -> Result<(Tensor, Tensor), DeviceError> {
        let (sequence, context) = (batch.sequence(), self.shape.context);
        if sequence > context {
            return Err(DeviceError::TooLong { sequence, context });
        }
        let (inputs, targets) = (batch.inputs(), batch.targets());
        self.check_tokens(&inputs)?;
        self.check_tokens(&targets)?;
        let place = |tokens| Tensor::new(tokens, &self.device.0);
        let pair = place(inputs).and_then(|inputs| Ok((inputs, place(targets)?)));
        pair.map_err(|error| self.explain(&error, &[*batch]))
    }

    fn check_tokens(&self, tokens: &[u32]) -> Result<(), DeviceError> {
        let vocab = self.shape.vocab;
        match tokens.iter().find(|&&token| token as usize >= vocab) {
            Some(&token) => Err(DeviceError::Token { token, vocab }),
            None => Ok(()),
        }
    }

    fn fragment(&self, id: FragmentId, len: usize) -> Result<Range<usize>, DeviceError> {
        let range = self.layout.fragment(id).ok_or(DeviceError::Fragment(id.index()))?;
        check_length("the fragment", range.len(), len)?;
        Ok(range)
    }

    /// The tensors inside `range`, and where each lies in it.
    fn places(&self, range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.layout.tensors().iter().enumerate().filter_map(move |(index, place)| {
            let inside = range.start <= place.range.start && place.range.end <= range.end;
            inside.then(|| (index, place.range.start - range.start..place.range.end - range.start))
        })
    }

    fn copy_out<'a>(
        &'a self,
        range: Range<usize>,
        into: &mut [f32],
        tensor: impl Fn(usize) -> &'a Tensor,
    ) -> Result<(), DeviceError> {
        for (index, part) in self.places(range) {
            let values = values_of(tensor(index)).map_err(|error| self.explain(&error, &[]))?;
            into[part].copy_from_slice(&values);
        }
        Ok(())
    }

    fn explain(&self, error: &candle_core::Error, batches: &[Batch<'_>]) -> DeviceError {
        let largest = batches.iter().max_by_key(|batch| batch.predictions());
        let (rows, sequence) = largest.map_or((1, 1), |batch| (batch.rows(), batch.sequence()));
        let need = MemoryNeed::new(&self.shape, self.layout.elements(), rows, sequence);
        DeviceError::from_candle(error, &self.device.to_string(), &need.advice())
    }
}

/// Norm of all gradients together; the sums of squares cross to the host in one go.
fn norm(gradients: &[Tensor]) -> Candle<f64> {
    let squares = gradients.iter().map(|it| it.sqr()?.sum_all()).collect::<Candle<Vec<_>>>()?;
    let squares = Tensor::stack(&squares, 0)?.to_vec1::<f32>()?;
    Ok(squares.into_iter().map(f64::from).sum::<f64>().sqrt())
}

fn values_of(tensor: &Tensor) -> Candle<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}

fn check_length(what: &'static str, expected: usize, given: usize) -> Result<(), DeviceError> {
    if expected == given { Ok(()) } else { Err(DeviceError::Length { what, expected, given }) }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests;

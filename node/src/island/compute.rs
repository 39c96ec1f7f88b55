//! What computes: our own kernels on a plain CPU, or candle on a device.

use atoll_kernels::multiplier::Precision;
use atoll_protocol::id::FragmentId;

use super::cpu::Llama;
use super::cpu::decoder::Decoder;
use super::cpu::optimiser::Optimiser;
use super::cpu::optimiser::moments::Moments;
use super::device::{Batch, Device, DeviceError, DeviceModel};
use super::layout::Layout;
use super::settings::Settings;
use super::shape::Shape;
use super::{IslandError, Pause};

/// The model, its optimiser, and where both live.
#[derive(Debug)]
pub(super) enum Compute {
    Cpu(Box<OnCpu>),
    Device(Box<OnDevice>),
}

/// The parameters are ours, and so are the kernels.
#[derive(Debug)]
pub(super) struct OnCpu {
    shape: Shape,
    layout: Layout,
    parameters: Vec<f32>,
    llama: Llama,
    optimiser: Optimiser,
    /// Batches of the step under way that were learned from, and their share of its loss.
    learned: (usize, f32),
    decoder: Option<Decoder>,
}

/// The parameters live on the device; `copy` is what the host works on.
#[derive(Debug)]
pub(super) struct OnDevice {
    model: DeviceModel,
    settings: Settings,
    sequence: usize,
    copy: Vec<f32>,
}

/// Everything that training changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) parameters: Vec<f32>,
    pub(super) moments: Moments,
}

/// Loss and gradient norm of a step.
pub(super) struct Outcome {
    pub(super) loss: f32,
    pub(super) gradient_norm: f32,
}

impl Compute {
    /// The model with these parameters and empty moments.
    #[expect(clippy::too_many_arguments, reason = "each is a choice of its own")]
    pub(super) fn new(
        device: &Device,
        shape: Shape,
        layout: &Layout,
        sequence: usize,
        threads: usize,
        precision: Precision,
        settings: Settings,
        parameters: Vec<f32>,
    ) -> Result<Self, IslandError> {
        if device.is_cpu() {
            let llama = Llama::new(shape, layout, sequence, threads)?.in_precision(precision);
            let optimiser = Optimiser::new(layout, settings).in_precision(precision);
            let layout = layout.clone();
            let (learned, decoder) = ((0, 0.0), None);
            let parts = OnCpu { shape, layout, parameters, llama, optimiser, learned, decoder };
            return Ok(Self::Cpu(Box::new(parts)));
        }
        let model = DeviceModel::new(shape, layout.clone(), device, &parameters)?;
        Ok(Self::Device(Box::new(OnDevice { model, settings, sequence, copy: Vec::new() })))
    }

    /// One step on all of `batches` together; nothing changes if loss or gradient is no number.
    ///
    /// None if it paused halfway: the next call, with the same batches, goes on there. A device
    /// takes its steps in one go.
    pub(super) fn advance(
        &mut self,
        batches: &[Vec<u32>],
        learning_rate: f32,
        step: u64,
        pause: Pause<'_>,
    ) -> Result<Option<Outcome>, IslandError> {
        match self {
            Self::Cpu(cpu) => cpu.advance(batches, learning_rate, step, pause),
            Self::Device(device) => device.step(batches, learning_rate, step).map(Some),
        }
    }

    /// Mean loss of these sequences.
    pub(super) fn loss(&mut self, tokens: &[u32]) -> Result<f64, IslandError> {
        match self {
            Self::Cpu(cpu) => Ok(cpu.llama.loss(&cpu.parameters, tokens)),
            Self::Device(device) => {
                Ok(device.model.evaluate(&[Batch::new(tokens, device.sequence)?])?)
            }
        }
    }

    /// Shows a fragment.
    pub(super) fn read(
        &mut self,
        fragment: FragmentId,
        look: &mut dyn FnMut(&[f32]),
    ) -> Result<(), IslandError> {
        match self {
            Self::Cpu(cpu) => look(&cpu.parameters[range(&cpu.layout, fragment)?]),
            Self::Device(device) => look(device.fetch(fragment)?),
        }
        Ok(())
    }

    /// Lends a fragment to be changed.
    pub(super) fn change(
        &mut self,
        fragment: FragmentId,
        change: &mut dyn FnMut(&mut [f32]),
    ) -> Result<(), IslandError> {
        match self {
            Self::Cpu(cpu) => change(&mut cpu.parameters[range(&cpu.layout, fragment)?]),
            Self::Device(device) => {
                device.fetch(fragment)?;
                change(&mut device.copy);
                device.model.write(fragment, &device.copy)?;
            }
        }
        Ok(())
    }

    /// Shows everything that training changes: parameters and moments. On a CPU nothing is copied.
    pub(super) fn show(
        &self,
        look: impl FnOnce(&[f32], &Moments) -> Result<(), IslandError>,
    ) -> Result<(), IslandError> {
        match self {
            Self::Cpu(cpu) => look(&cpu.parameters, cpu.optimiser.moments()),
            Self::Device(device) => {
                let State { parameters, moments } = device.state()?;
                look(&parameters, &moments)
            }
        }
    }

    /// A copy of everything that training changes.
    pub(super) fn state(&self) -> Result<State, IslandError> {
        match self {
            Self::Cpu(cpu) => Ok(State {
                parameters: cpu.parameters.clone(),
                moments: cpu.optimiser.moments().clone(),
            }),
            Self::Device(device) => device.state(),
        }
    }

    /// Goes back to a state of the same layout.
    pub(super) fn restore(&mut self, state: State) -> Result<(), IslandError> {
        match self {
            Self::Cpu(cpu) => {
                cpu.learned = (0, 0.0);
                cpu.llama.give_up();
                cpu.parameters = state.parameters;
                *cpu.optimiser.moments_mut() = state.moments;
                Ok(())
            }
            Self::Device(device) => device.restore(&state),
        }
    }

    /// Logits of the token after `tokens`, of which at most a context counts.
    ///
    /// The CPU remembers keys and values: `seen` of the tokens were given to the call before.
    pub(super) fn next_logits(
        &mut self,
        tokens: &[u32],
        seen: usize,
    ) -> Result<Vec<f32>, IslandError> {
        match self {
            Self::Cpu(cpu) => cpu.next_logits(tokens, seen),
            Self::Device(device) => Ok(device.model.next_logits(tokens)?),
        }
    }
}

impl OnCpu {
    fn advance(
        &mut self,
        batches: &[Vec<u32>],
        learning_rate: f32,
        step: u64,
        pause: Pause<'_>,
    ) -> Result<Option<Outcome>, IslandError> {
        while let Some(batch) = batches.get(self.learned.0) {
            let Some(loss) = self.llama.gradient_until(&self.parameters, batch, pause) else {
                return Ok(None);
            };
            self.learned.0 += 1;
            self.learned.1 += loss / batches.len() as f32;
            if self.learned.0 < batches.len() && pause() {
                return Ok(None);
            }
        }
        let (_, loss) = std::mem::take(&mut self.learned);
        let gradients = self.llama.gradients();
        let gradient_norm = self
            .optimiser
            .step(&mut self.parameters, gradients, learning_rate)
            .map_err(|_| IslandError::Diverged { step, loss })?;
        Ok(Some(Outcome { loss, gradient_norm }))
    }

    fn next_logits(&mut self, tokens: &[u32], seen: usize) -> Result<Vec<f32>, IslandError> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            empty => empty.insert(Decoder::new(self.shape, &self.layout)?),
        };
        // Positions are counted from the first token that is kept, so a full cache begins anew
        // with the newer half of what it saw.
        let mut from = seen;
        if seen == 0 || decoder.position() + tokens.len() - seen > self.shape.context {
            decoder.reset();
            from = tokens.len().saturating_sub(self.shape.context.div_ceil(2));
        }
        let mut logits = Vec::new();
        for &token in &tokens[from..] {
            let next = decoder.next(&self.parameters, token).expect("room was made for all");
            logits.clear();
            logits.extend_from_slice(next);
        }
        Ok(logits)
    }
}

impl OnDevice {
    fn step(
        &mut self,
        batches: &[Vec<u32>],
        learning_rate: f32,
        step: u64,
    ) -> Result<Outcome, IslandError> {
        let batches: Vec<Batch<'_>> = batches
            .iter()
            .map(|tokens| Batch::new(tokens, self.sequence))
            .collect::<Result<_, _>>()?;
        match self.model.step(&batches, &self.settings, learning_rate) {
            Ok(done) => Ok(Outcome { loss: done.loss, gradient_norm: done.gradient_norm }),
            Err(DeviceError::Diverged { loss, .. }) => Err(IslandError::Diverged { step, loss }),
            Err(error) => Err(error.into()),
        }
    }

    fn fetch(&mut self, fragment: FragmentId) -> Result<&[f32], IslandError> {
        let elements = range(self.model.layout(), fragment)?.len();
        self.copy.resize(elements, 0.0);
        self.model.read(fragment, &mut self.copy)?;
        Ok(&self.copy)
    }

    fn state(&self) -> Result<State, IslandError> {
        let layout = self.model.layout();
        let mut parameters = vec![0.0; layout.elements()];
        for (fragment, place) in layout.fragments() {
            self.model.read(fragment, &mut parameters[place])?;
        }
        let [first, second] = self.model.moments()?;
        let steps = vec![self.model.steps(); layout.tensors().len()];
        Ok(State { parameters, moments: Moments { first, second, steps } })
    }

    fn restore(&mut self, state: &State) -> Result<(), IslandError> {
        let fragments: Vec<_> = self.model.layout().fragments().collect();
        for (fragment, place) in fragments {
            self.model.write(fragment, &state.parameters[place])?;
        }
        let steps = state.moments.steps.iter().copied().max().unwrap_or(0);
        self.model.restore_moments([&state.moments.first, &state.moments.second], steps)?;
        Ok(())
    }
}

fn range(layout: &Layout, fragment: FragmentId) -> Result<std::ops::Range<usize>, IslandError> {
    layout.fragment(fragment).ok_or(IslandError::NoFragment(fragment))
}

#[cfg(test)]
mod tests {
    use atoll_protocol::genesis::{Genesis, Inner, InnerOptimiser, Model};

    use super::*;

    /// Our own kernels, and a device as a card would be one: candle's CPU is always there.
    fn both(optimiser: InnerOptimiser) -> [Compute; 2] {
        let genesis = Genesis::new("device", Model::preset("nano").unwrap());
        let (shape, layout) = (Shape::of(&genesis.model).unwrap(), Layout::new(&genesis));
        let parameters = layout.initial(&genesis);
        let settings = Settings::of(&Inner { optimiser, ..Inner::default() });
        let model = DeviceModel::new(shape, layout.clone(), &Device::cpu(), &parameters).unwrap();
        let device = OnDevice { model, settings, sequence: 4, copy: Vec::new() };
        let precision = Precision::F32;
        let cpu =
            Compute::new(&Device::cpu(), shape, &layout, 4, 1, precision, settings, parameters);
        [cpu.unwrap(), Compute::Device(Box::new(device))]
    }

    #[test]
    fn a_device_steps_as_our_kernels_do() {
        let batch: Vec<u32> = (0..40).map(|index| index * 37 % 256).collect();
        for optimiser in [InnerOptimiser::AdamW, InnerOptimiser::muon()] {
            let mut both = both(optimiser);
            let begin = both[0].state().unwrap().parameters;
            for step in 0..12 {
                let losses = both.each_mut().map(|it| {
                    let batches = std::slice::from_ref(&batch);
                    it.advance(batches, 5e-3, step, &|| false).unwrap().unwrap().loss
                });
                assert!((losses[0] - losses[1]).abs() < 1e-3, "{optimiser:?}: {losses:?}");
            }
            let [ours, theirs] = both.each_ref().map(|it| it.state().unwrap().parameters);
            let apart = |one: &[f32], other: &[f32]| {
                let pairs = one.iter().zip(other);
                pairs.map(|(one, other)| f64::from(one - other).powi(2)).sum::<f64>().sqrt()
            };
            let (moved, differs) = (apart(&ours, &begin), apart(&ours, &theirs));
            assert!(differs < moved / 100.0, "{optimiser:?}: {differs} of {moved}");
        }
    }
}

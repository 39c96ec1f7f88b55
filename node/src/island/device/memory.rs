//! How much memory training needs, and how much there is.

use std::fmt;

use super::Device;
use super::error::DeviceError;
use crate::island::shape::Shape;

/// Bytes that training on a device needs, about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNeed {
    /// For the parameters.
    pub parameters: u64,
    /// For their gradients.
    pub gradients: u64,
    /// For the moments of the optimiser.
    pub moments: u64,
    /// For what the forward pass keeps until the backward pass has used it.
    pub activations: u64,
    batch: usize,
    sequence: usize,
}

impl MemoryNeed {
    /// What training `shape`, of this many parameters, needs for batches of this many sequences.
    pub fn new(shape: &Shape, elements: usize, batch: usize, sequence: usize) -> Self {
        let values = 4 * elements as u64;
        let per_token = shape.layers * values_per_layer(shape, sequence) + values_of_head(shape);
        let activations = 4 * (batch as u64) * (sequence as u64) * (per_token as u64);
        let (parameters, gradients, moments) = (values, values, 2 * values);
        Self { parameters, gradients, moments, activations, batch, sequence }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.parameters + self.gradients + self.moments + self.activations
    }

    /// Refuses if `device` has less free, as far as it tells.
    pub fn check(&self, device: &Device) -> Result<(), DeviceError> {
        match device.available_bytes() {
            Some(available) if available < self.total() => {
                let device = device.to_string();
                Err(DeviceError::NotEnoughMemory { device, need: *self, available })
            }
            _ => Ok(()),
        }
    }

    /// Which setting to lower first.
    pub fn advice(&self) -> String {
        let (batch, sequence) = (self.batch, self.sequence);
        let fixed = self.total() - self.activations;
        if self.activations < fixed {
            return "choose a smaller model: most of it is parameters, gradients and moments, \
                    whatever the batch"
                .to_owned();
        }
        if batch > 1 {
            return format!("lower the batch (now {batch}), then the sequence (now {sequence})");
        }
        format!("lower the sequence (now {sequence}), or choose a smaller model")
    }
}

impl fmt::Display for MemoryNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parameters, gradients, moments, activations, .. } = *self;
        write!(f, "parameters {}, ", Readable(parameters))?;
        write!(f, "gradients {}, moments {}, ", Readable(gradients), Readable(moments))?;
        write!(f, "activations {}", Readable(activations))
    }
}

/// Bytes as people write them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readable(pub(super) u64);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        if bytes < GIB {
            write!(f, "{:.0} MiB", (bytes / MIB).ceil())
        } else {
            write!(f, "{:.1} GiB", bytes / GIB)
        }
    }
}

/// What Linux says could be used without swapping; other systems are not asked.
pub(super) fn system_available_bytes() -> Option<u64> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Values that a block keeps for each token: see [`super::decoder`], where every operation's
/// result stays until the backward pass.
fn values_per_layer(shape: &Shape, sequence: usize) -> usize {
    let (width, kv_width) = (shape.width, shape.kv_width());
    let norms = 2 * 3 * width;
    let projections = width + 2 * kv_width;
    let rotations = 5 * (width + kv_width) + kv_width;
    let scores = 2 * shape.heads * sequence;
    let mixing = 4 * width;
    let feed_forward = 4 * shape.hidden + 2 * width;
    norms + projections + rotations + scores + mixing + feed_forward
}

/// Values for each token after the blocks: the last norm, the logits, and their gradient with
/// what is needed to compute it.
fn values_of_head(shape: &Shape) -> usize {
    4 * shape.width + 4 * shape.vocab
}

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_protocol::genesis::Model;

    #[test]
    fn what_linux_says_is_read() {
        let meminfo = "MemTotal:       24117248 kB\nMemAvailable:   1000 kB\nBuffers: 5 kB\n";
        assert_eq!(available_in(meminfo), Some(1_024_000));
        assert_eq!(available_in("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn a_refusal_states_the_numbers_and_the_setting() {
        let shape = Shape::of(&Model::preset("nano").unwrap()).unwrap();
        let refuse = |batch| {
            let need = MemoryNeed::new(&shape, 1_082_496, batch, 128);
            DeviceError::NotEnoughMemory { device: "cuda:0".into(), need, available: 1 << 20 }
        };
        let text = refuse(4096).to_string();
        assert!(text.contains("but cuda:0 has 1 MiB free"), "{text}");
        assert!(text.contains("parameters 5 MiB"), "{text}");
        assert!(
            text.ends_with("hint: lower the batch (now 4096), then the sequence (now 128)"),
            "{text}"
        );
        let narrow = MemoryNeed::new(&shape, 1000, 1, 128).advice();
        assert_eq!(narrow, "lower the sequence (now 128), or choose a smaller model");
        let huge = Shape::of(&Model::preset("1b").unwrap()).unwrap();
        let need = MemoryNeed::new(&huge, 1_100_000_000, 1, 128);
        assert!(need.advice().starts_with("choose a smaller model"));
        assert!(MemoryNeed::new(&huge, usize::MAX >> 8, 1, 128).check(&Device::cpu()).is_err());
    }
}

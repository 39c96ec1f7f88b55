//! Devices: the model on CUDA, Metal, or candle's own CPU backend.
//!
//! This is the only module that names candle. The model runs on candle's differentiable
//! operations, so one description serves every device; a plain CPU has a faster path of its own
//! and uses this one to be checked against.

mod batch;
mod choice;
mod decoder;
mod error;
pub mod gguf;
mod memory;
mod model;
mod operations;
mod optimiser;

pub use batch::Batch;
pub use choice::DeviceChoice;
pub use error::DeviceError;
pub use memory::MemoryNeed;
pub use model::{DeviceModel, DeviceStep};

use std::fmt;

/// Something that computes: a graphics card, or the CPU through candle.
#[derive(Clone, Debug)]
pub struct Device(candle_core::Device);

impl Device {
    /// The CPU through candle: slow, and always there.
    pub fn cpu() -> Self {
        Self(candle_core::Device::Cpu)
    }

    /// Whether this is the CPU.
    pub fn is_cpu(&self) -> bool {
        self.0.is_cpu()
    }

    /// Bytes that are free for a model now; none if the device does not tell.
    pub fn available_bytes(&self) -> Option<u64> {
        if self.0.is_cuda() { cuda_free_bytes() } else { memory::system_available_bytes() }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.location() {
            candle_core::DeviceLocation::Cpu => write!(f, "cpu"),
            candle_core::DeviceLocation::Cuda { gpu_id } => write!(f, "cuda:{gpu_id}"),
            candle_core::DeviceLocation::Metal { .. } => write!(f, "metal"),
        }
    }
}

/// Free memory of the card whose context is current, which is the one that was opened last.
#[cfg(feature = "cuda")]
fn cuda_free_bytes() -> Option<u64> {
    let (free, _) = candle_core::cuda::cudarc::driver::result::mem_get_info().ok()?;
    u64::try_from(free).ok()
}

#[cfg(not(feature = "cuda"))]
fn cuda_free_bytes() -> Option<u64> {
    None
}

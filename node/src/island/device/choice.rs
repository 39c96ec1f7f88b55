//! What `--device` says.

use std::fmt;
use std::str::FromStr;

use super::Device;
use super::error::DeviceError;

/// What `--device` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first card there is, or else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The NVIDIA card of this number, from 0.
    Cuda(usize),
    /// Apple's graphics processor.
    Metal,
}

impl DeviceChoice {
    /// Opens the device, or says why it cannot be had.
    pub fn resolve(self) -> Result<Device, DeviceError> {
        match self {
            Self::Auto => Ok(automatic()),
            Self::Cpu => Ok(Device::cpu()),
            Self::Cuda(number) => cuda(number),
            Self::Metal => metal(),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "metal" => Ok(Self::Metal),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| DeviceError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => write!(f, "auto"),
            Self::Cpu => write!(f, "cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Metal => write!(f, "metal"),
        }
    }
}

fn automatic() -> Device {
    cuda(0).or_else(|_| metal()).unwrap_or_else(|_| Device::cpu())
}

fn cuda(number: usize) -> Result<Device, DeviceError> {
    if !candle_core::utils::cuda_is_available() {
        return Err(DeviceError::NotBuilt("cuda"));
    }
    let present = cuda_cards();
    if number >= present {
        return Err(DeviceError::Absent { asked: number, present });
    }
    start(&format!("cuda:{number}"), || candle_core::Device::new_cuda(number))
}

fn metal() -> Result<Device, DeviceError> {
    if !candle_core::utils::metal_is_available() {
        return Err(DeviceError::NotBuilt("metal"));
    }
    start("metal", || candle_core::Device::new_metal(0))
}

fn start(
    device: &str,
    open: impl FnOnce() -> candle_core::Result<candle_core::Device>,
) -> Result<Device, DeviceError> {
    let refuse = |reason: String| DeviceError::Start { device: device.to_owned(), reason };
    open().map(Device).map_err(|error| refuse(error.to_string()))
}

/// How many cards the driver shows; none without a driver.
#[cfg(feature = "cuda")]
fn cuda_cards() -> usize {
    let count = candle_core::cuda::cudarc::driver::CudaContext::device_count();
    count.ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

#[cfg(not(feature = "cuda"))]
fn cuda_cards() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_are_written() {
        for text in ["auto", "cpu", "cuda:0", "cuda:3", "metal"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "metal:0", "CPU"] {
            let error = text.parse::<DeviceChoice>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("there is no device `{text}`")), "{error}");
        }
    }

    #[test]
    fn what_the_binary_lacks_is_named() {
        assert!(DeviceChoice::Cpu.resolve().unwrap().is_cpu());
        let absent = DeviceError::Absent { asked: 3, present: 1 };
        assert_eq!(absent.to_string(), "cuda:3 asked, but this machine has 1");
        if !cfg!(feature = "cuda") {
            let error = DeviceChoice::Cuda(0).resolve().unwrap_err();
            let text = "this binary was built without cuda: rebuild with --features cuda";
            assert_eq!(error.to_string(), text);
        }
        if !cfg!(feature = "metal") {
            let error = DeviceChoice::Metal.resolve().unwrap_err().to_string();
            assert!(error.contains("--features metal"), "{error}");
        }
    }
}

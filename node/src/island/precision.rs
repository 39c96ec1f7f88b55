//! What `--precision` says.

use std::fmt;
use std::str::FromStr;

pub use atoll_kernels::multiplier::Precision;
use thiserror::Error;

use super::device::Device;

/// What `--precision` says: what products are computed in. Parameters, gradients, moments and what
/// islands exchange are f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrecisionChoice {
    /// The quickest that the machine can.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// Operands rounded to bf16, sums in f32.
    Bf16,
}

impl PrecisionChoice {
    /// The precision on this device, or why it cannot be had.
    pub fn resolve(self, device: &Device) -> Result<Precision, PrecisionError> {
        match self {
            Self::Auto if device.is_cpu() => Ok(Precision::quickest()),
            Self::Auto | Self::F32 => Ok(Precision::F32),
            Self::Bf16 if !device.is_cpu() => Err(PrecisionError::Device),
            Self::Bf16 => Precision::bf16().ok_or(PrecisionError::Processor),
        }
    }
}

impl FromStr for PrecisionChoice {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        match text {
            "auto" => Ok(Self::Auto),
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            _ => Err(PrecisionError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for PrecisionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

/// Why a precision cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrecisionError {
    /// Not a precision.
    #[error("{0:?} is no precision\nhint: take auto, f32 or bf16")]
    Unknown(String),
    /// The processor has no unit for it.
    #[error(
        "this processor has no unit for products in bf16 (AMX or AVX-512 BF16), or the system keeps it back\n\
         hint: leave --precision out: auto takes the quickest that the machine can"
    )]
    Processor,
    /// Only CPUs have a choice.
    #[error("a graphics card computes in f32 here\nhint: leave --precision out")]
    Device,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_reads_as_it_is_written() {
        for choice in [PrecisionChoice::Auto, PrecisionChoice::F32, PrecisionChoice::Bf16] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let wrong = "f16".parse::<PrecisionChoice>().unwrap_err();
        assert!(wrong.to_string().contains("auto, f32 or bf16"));
    }

    #[test]
    fn what_the_machine_cannot_is_refused_and_never_chosen() {
        let cpu = Device::cpu();
        assert_eq!(PrecisionChoice::F32.resolve(&cpu), Ok(Precision::F32));
        let automatic = PrecisionChoice::Auto.resolve(&cpu).unwrap();
        match PrecisionChoice::Bf16.resolve(&cpu) {
            // Where rounding gains nothing it is left to those who ask for it.
            Ok(bf16) => {
                assert_ne!(bf16, Precision::F32);
                assert_eq!(automatic, Precision::quickest());
            }
            Err(error) => {
                assert_eq!(error, PrecisionError::Processor);
                assert_eq!(automatic, Precision::F32);
            }
        }
    }
}

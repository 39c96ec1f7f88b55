//! The arithmetic of training on a plain CPU: functions on slices, forwards and backwards.
//!
//! Nothing here spawns or knows a model, and nothing allocates but the matrix product, which packs
//! its operands. Vector units (AVX2, AVX-512, NEON) are picked at run time, so one binary serves
//! every machine of its architecture. Sums are taken in a fixed order: on one machine the same
//! input always gives the same bits.

pub mod adamw;
pub mod attention;
pub mod cross_entropy;
pub mod embedding;
pub mod matrix;
pub mod multiplier;
pub mod muon;
pub mod norm;
pub mod rope;
#[cfg(target_arch = "x86_64")]
mod rounded;
#[cfg(not(target_arch = "x86_64"))]
#[path = "rounded/absent.rs"]
mod rounded;
pub mod swiglu;
mod vector;

#[cfg(test)]
mod reference;

//! Links of their own for processes on one machine: thin, slow, lossy, cut.
//!
//! Every island has a network namespace of its own with one cable to a hub, which is the namespace
//! of this process. Nobody else's network is touched, and the kernel takes all of it away with the
//! last process in it: there is nothing to clean up, whatever happens.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod enter;
#[cfg(target_os = "linux")]
mod holder;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod hub;
mod quality;
#[cfg(target_os = "linux")]
mod tools;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Host, Hub, Wants, enter, is_inside};
#[cfg(target_os = "linux")]
pub(crate) use enter::{Wants, enter, is_inside};
#[cfg(target_os = "linux")]
pub(crate) use host::Host;
#[cfg(target_os = "linux")]
pub(crate) use hub::Hub;
pub(crate) use quality::{Quality, bits, rate};
